//! Deciding at home: in the order of who waits, and wherever the home is by then.
//!
//! ```text
//!  ledger ─┬─ credits are out ── wait in order, while they are recalled ─▶ ledger again
//!          ├─ has stopped, or arrives ── wait ───────────────────────────▶ ledger again
//!          ├─ has left ── noted as passed on (R10) ──────────────────────▶ the new home's region
//!          └─ this region's own book has decided it before ──────────────▶ that book
//! ```

use purser_api::{Consistency, ProblemCode};
use purser_ledger::{AccountName, HomeSpan, Item, Outcome, PassedOn, Rejection};
use purser_types::{Credits, Generation, Region};

use crate::http::astray::{Astray, Found};
use crate::http::call::Call;
use crate::http::problem::{NotDone, Refusal};
use crate::http::routing::Decision;
use crate::http::seat::Seat;
use crate::http::spending::{Elsewhere, Seated};
use crate::regions::{Regions, Waited};

impl Call {
    /// Has one item decided at home. If credits are out, it waits until they are back, or until it is
    /// clear that they will not be.
    pub(crate) async fn settle_at_home(
        &self,
        regions: &Regions,
        mut seated: Seated<'_>,
    ) -> Result<Decision, Elsewhere> {
        let account = seated.account;
        if let Some(generation) = self.known_by_book(&seated) {
            return self.decide_in_book(seated, generation).await;
        }
        let desk = regions.desk(account);
        let cost = seated.cost();
        let mut ticket = match cost {
            Some(cost) if desk.has_queue(account) => Some(desk.queue(account, cost)),
            _ => None,
        };
        loop {
            if let Some(ticket) = &ticket {
                match ticket.wait(self.meta.deadline).await {
                    Waited::Go => (),
                    Waited::Short(shortage) => seated.item.shortage = Some(shortage),
                    Waited::TooLate => return Err(still_out().into()),
                }
            }
            let outcome = self.ask_book(&seated, Generation::HOME).await?;
            let astray = outcome.result.as_ref().err().and_then(Astray::of_rejection);
            if let Some(astray) = astray {
                // A place in a queue is worth nothing where nothing is decided.
                ticket = None;
                match self.find_home(regions, account, astray).await? {
                    Found::Here => continue,
                    Found::There(home) => return self.follow(regions, seated, home).await,
                }
            }
            match &outcome.result {
                Err(Rejection::CreditsOut { available, short_by, .. })
                    if seated.item.shortage.is_none() =>
                {
                    let needed = available.checked_add(*short_by).unwrap_or(Credits::MAX);
                    let place = || desk.queue(account, cost.unwrap_or(needed));
                    ticket = Some(ticket.unwrap_or_else(place));
                    continue;
                }
                Err(Rejection::DecidedInRegion { owner, .. }) => {
                    if owner.region == *self.api.region() {
                        let generation = owner.generation;
                        return self.decide_in_book(seated, generation).await;
                    }
                    return Err(Elsewhere::Region(owner.region));
                }
                Ok(_) if !outcome.replayed => match cost {
                    Some(cost) => desk.note_accepted(account, self.spends_for(&seated), cost),
                    // Credits may have become free, and somebody may wait for them.
                    None => desk.tend_soon(account),
                },
                Ok(_) | Err(_) => (),
            }
            drop(ticket);
            return self.decision(outcome, &seated);
        }
    }

    /// The homes that an account has had, as this node knows it; none if it never had another.
    pub(crate) fn homes_of(&self, account: &AccountName) -> Vec<HomeSpan> {
        let group = self.api.groups().of(account);
        let homes = group.view(|ledger, _| Some(ledger.account(account)?.homes().to_vec()));
        homes.unwrap_or_default()
    }

    /// The book of this region that has decided an item before, when the home was elsewhere.
    fn known_by_book(&self, seated: &Seated<'_>) -> Option<Generation> {
        let key = seated.item.context.key.as_ref().filter(|_| seated.cost().is_some())?;
        let group = self.api.groups().of(seated.account);
        let now = group.now();
        group.view(|ledger, _| {
            let mut books = ledger.generations(seated.account);
            books.find(|(_, book)| book.knows_key(key, now)).map(|(generation, _)| generation)
        })
    }

    async fn decide_in_book(
        &self,
        seated: Seated<'_>,
        generation: Generation,
    ) -> Result<Decision, Elsewhere> {
        let seated = Seated { seat: Seat::Allocation(generation), ..seated };
        let outcome = self.ask_book(&seated, generation).await?;
        self.decision(outcome, &seated)
    }

    /// Passes an item on to a home that has left here. From here on this is a region like any other, so
    /// it notes what it has passed on.
    async fn follow(
        &self,
        regions: &Regions,
        seated: Seated<'_>,
        home: Region,
    ) -> Result<Decision, Elsewhere> {
        if !regions.links().is_reachable(home) {
            return Err(Refusal::unreachable(home).into());
        }
        let outpost = regions.outpost(seated.account);
        match self.note_passing(outpost, seated.account, seated.item.clone()).await? {
            PassedOn::ToHome => Err(Elsewhere::Region(home)),
            PassedOn::Decided(generation) => self.decide_in_book(seated, generation).await,
        }
    }

    /// The region whose demand an item is that home decides.
    fn spends_for(&self, seated: &Seated<'_>) -> Option<Region> {
        let is_short = seated.consistency == Consistency::Local;
        // Anybody can send the header, so it says nothing about a region that there is not.
        let is_other = |region: &Region| {
            self.api.regions().is_some_and(|it| it.links().others().any(|other| other == *region))
        };
        self.meta.from_region.filter(|region| is_short && is_other(region))
    }

    /// Has items decided together, where their account's home is by then.
    pub(crate) async fn decide_together(
        &self,
        account: &AccountName,
        seat: Seat,
        items: Vec<Item>,
    ) -> Result<Vec<Outcome>, NotDone> {
        loop {
            let outcomes = self.propose_to(account, seat.generation(), items.clone()).await?;
            let first = outcomes.first().and_then(|outcome| outcome.result.as_ref().err());
            let astray = first.and_then(Astray::of_rejection);
            let is_home = seat.generation() == Generation::HOME;
            let (Some(astray), Some(regions)) = (astray.filter(|_| is_home), self.api.regions())
            else {
                return Ok(outcomes);
            };
            if let Found::There(home) = self.find_home(regions, account, astray).await? {
                for item in &items {
                    self.note_for_home(regions, account, item).await?;
                }
                return Err(self.to_region(regions, home, account).await);
            }
        }
    }
}

fn still_out() -> Refusal {
    let detail = "the credits are in other regions, and were not back in time; nothing happened";
    Refusal::new(ProblemCode::NotReady, detail)
}
