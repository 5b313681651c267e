//! Deciding at home: in the order of who waits, and wherever the home is by then.
//!
//! ```text
//!  ledger ─┬─ credits are out ── wait in order, while they are recalled ─▶ ledger again
//!          ├─ has stopped, or arrives ── wait ───────────────────────────▶ ledger again
//!          ├─ has left ── noted as passed on (R10) ──────────────────────▶ the new home's region
//!          └─ this region's own book has decided it before ──────────────▶ that book
//! ```

use std::sync::Arc;
use std::time::Instant;

use purser_api::{Consistency, ProblemCode};
use purser_ledger::{AccountName, HomeSpan, Item, Ledger, Outcome, PassedOn, Rejection, Shortage};
use purser_types::{Credits, Generation, Owner, Region};

use crate::http::astray::{Astray, Found};
use crate::http::call::Call;
use crate::http::problem::{NotDone, Refusal};
use crate::http::routing::Decision;
use crate::http::seat::Seat;
use crate::http::spending::{Elsewhere, Seated, cost_of, decided_alone};
use crate::regions::{Desk, Regions, Ticket, Waited};

/// A call's turn to be decided, among those that wait for an account's credits.
struct Turn<'a> {
    desk: &'a Arc<Desk>,
    account: &'a AccountName,
    /// What the call may cost; nothing if it takes nothing new.
    cost: Option<Credits>,
    /// Its place, once it waits.
    ticket: Option<Ticket>,
}

impl<'a> Turn<'a> {
    /// Behind those who wait already, if the call costs anything.
    fn new(desk: &'a Arc<Desk>, account: &'a AccountName, cost: Option<Credits>) -> Self {
        let behind = cost.filter(|_| desk.has_queue(account));
        let ticket = behind.map(|cost| desk.queue(account, cost));
        Self { desk, account, cost, ticket }
    }

    /// Waits until it has come. Gives why credits that are out will not come back, if they will not.
    async fn come(&self, deadline: Instant) -> Result<Option<Shortage>, Refusal> {
        let Some(ticket) = &self.ticket else { return Ok(None) };
        match ticket.wait(deadline).await {
            Waited::Go => Ok(None),
            Waited::Short(shortage) => Ok(Some(shortage)),
            Waited::TooLate => Err(still_out()),
        }
    }

    /// Takes a place, or keeps the one it has: `needed` are out.
    fn wait_for(&mut self, needed: Credits) {
        if self.ticket.is_none() {
            self.ticket = Some(self.desk.queue(self.account, self.cost.unwrap_or(needed)));
        }
    }

    /// Gives the place up: it is worth nothing where nothing is decided.
    fn give_up(&mut self) {
        self.ticket = None;
    }
}

/// What home's ledger has said, as far as it matters to whoever has asked.
#[derive(Debug, PartialEq, Eq)]
enum Word {
    /// It has decided.
    Decided,
    /// So much is needed, and is out in regions.
    Out(Credits),
    /// The account is not to be asked here, or not now.
    Astray(Astray),
    /// It knows no such account.
    Unknown,
    /// The book of an allocation decides, or has decided.
    InRegion(Owner),
}

impl Word {
    /// What a refusal says to a call in a seat; none is a decision. `is_final` says that it was known
    /// which credits will not come back, and `is_arriving` that the account is being taken over here.
    fn of(refused: Option<&Rejection>, seat: Seat, (is_final, is_arriving): (bool, bool)) -> Self {
        match (refused, seat) {
            (Some(Rejection::DecidedInRegion { owner, .. }), _) => Self::InRegion(*owner),
            // Its allocation is not closed after all.
            (Some(Rejection::DecidedElsewhere), Seat::Closed(owner)) if !is_arriving => {
                Self::InRegion(owner)
            }
            (Some(Rejection::CreditsOut { available, short_by, .. }), _) if !is_final => {
                Self::Out(available.checked_add(*short_by).unwrap_or(Credits::MAX))
            }
            (Some(Rejection::TenantNotFound), _) => Self::Unknown,
            (Some(refused), _) => Astray::of_rejection(refused).map_or(Self::Decided, Self::Astray),
            (None, _) => Self::Decided,
        }
    }
}

impl Call {
    /// Has one item decided at home. If credits are out, it waits until they are back, or until it is
    /// clear that they will not be.
    pub(crate) async fn settle_at_home(
        &self,
        regions: &Regions,
        mut seated: Seated<'_>,
    ) -> Result<Decision, Elsewhere> {
        let account = seated.account;
        if let Some(generation) = self.known_by_book(account, &seated.item) {
            return self.decide_in_book(seated, generation).await;
        }
        let desk = regions.desk(account);
        let mut turn = Turn::new(desk, account, seated.cost());
        loop {
            if let Some(shortage) = turn.come(self.meta.deadline).await? {
                seated.item.shortage = Some(shortage);
            }
            let outcome = self.ask_book(&seated, Generation::HOME).await?;
            let known = (seated.item.shortage.is_some(), self.is_arriving(account));
            match Word::of(outcome.result.as_ref().err(), seated.seat, known) {
                Word::Out(needed) => turn.wait_for(needed),
                Word::Astray(astray) => {
                    turn.give_up();
                    if let Found::There(home) = self.find_home(regions, account, astray).await? {
                        return self.follow(regions, seated, home).await;
                    }
                }
                Word::InRegion(owner) => return self.decide_away(seated, owner).await,
                Word::Unknown if regions.is_on_its_way(&account.tenant).await => {
                    turn.give_up();
                    self.await_account(regions, account).await?;
                }
                Word::Unknown | Word::Decided => {
                    self.note_at_home(desk, &seated, &outcome);
                    return self.decision(outcome, &seated);
                }
            }
        }
    }

    /// Whether an account is being taken over here, as far as this node knows.
    fn is_arriving(&self, account: &AccountName) -> bool {
        let is_arriving = |ledger: &Ledger| ledger.arrival(account).is_some();
        self.api.groups().of(account).view(|ledger, _| is_arriving(ledger))
    }

    /// Tells the desk what home has decided.
    fn note_at_home(&self, desk: &Arc<Desk>, seated: &Seated<'_>, outcome: &Outcome) {
        if outcome.replayed || outcome.result.is_err() {
            return;
        }
        match seated.cost() {
            Some(cost) => desk.note_accepted(seated.account, self.spends_for(seated), cost),
            // Credits may have become free, and somebody may wait for them.
            None => desk.tend_soon(seated.account),
        }
    }

    /// Has an item decided by the book of an allocation.
    async fn decide_away(&self, seated: Seated<'_>, owner: Owner) -> Result<Decision, Elsewhere> {
        if owner.region != *self.api.region() {
            return Err(Elsewhere::Region(owner.region));
        }
        match seated.seat {
            // Home here is about to book the end of this region's own book, and decides then.
            Seat::Closed(_) => Err(Refusal::not_ready().into()),
            _ => self.decide_in_book(seated, owner.generation).await,
        }
    }

    /// The homes that an account has had, as this node knows it; none if it never had another.
    pub(crate) fn homes_of(&self, account: &AccountName) -> Vec<HomeSpan> {
        let group = self.api.groups().of(account);
        let homes = group.view(|ledger, _| Some(ledger.account(account)?.homes().to_vec()));
        homes.unwrap_or_default()
    }

    /// The book of this region that has decided an item before, when the home was elsewhere.
    fn known_by_book(&self, account: &AccountName, item: &Item) -> Option<Generation> {
        let key = item.context.key.as_ref().filter(|_| cost_of(item).is_some())?;
        let group = self.api.groups().of(account);
        let now = group.now();
        group.view(|ledger, _| {
            let mut books = ledger.generations(account);
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

    /// Has items decided together, where their account's home is by then. If credits are out, they wait
    /// like a single one.
    pub(crate) async fn decide_together(
        &self,
        account: &AccountName,
        seat: Seat,
        mut items: Vec<Item>,
    ) -> Result<Vec<Outcome>, NotDone> {
        let regions = self.api.regions().filter(|_| seat.generation() == Generation::HOME);
        let Some(regions) = regions else {
            return self.propose_to(account, seat.generation(), items).await;
        };
        if items.iter().any(|item| self.known_by_book(account, item).is_some()) {
            return Err(decided_alone().into());
        }
        let costs: Vec<Credits> = items.iter().filter_map(cost_of).collect();
        let add = |sum: Credits, cost: &Credits| sum.checked_add(*cost).unwrap_or(Credits::MAX);
        let all = (!costs.is_empty()).then(|| costs.iter().fold(Credits::ZERO, add));
        let desk = regions.desk(account);
        let mut turn = Turn::new(desk, account, all);
        let mut is_final = false;
        loop {
            if let Some(shortage) = turn.come(self.meta.deadline).await? {
                items.iter_mut().for_each(|item| item.shortage = Some(shortage.clone()));
                is_final = true;
            }
            let outcomes = self.propose_to(account, Generation::HOME, items.clone()).await?;
            let known = (is_final, self.is_arriving(account));
            match Word::of(refusal_of_all(&outcomes), seat, known) {
                Word::Out(needed) => turn.wait_for(needed),
                Word::Astray(astray) => {
                    turn.give_up();
                    if let Found::There(home) = self.find_home(regions, account, astray).await? {
                        for item in &items {
                            self.note_for_home(regions, account, item).await?;
                        }
                        return Err(self.to_region(regions, home, account).await);
                    }
                }
                Word::Unknown if regions.is_on_its_way(&account.tenant).await => {
                    turn.give_up();
                    self.await_account(regions, account).await?;
                }
                Word::InRegion(_) | Word::Unknown | Word::Decided => {
                    let is_new = |outcome: &Outcome| outcome.result.is_ok() && !outcome.replayed;
                    if outcomes.iter().any(is_new) {
                        costs.iter().for_each(|cost| desk.note_accepted(account, None, *cost));
                        desk.tend_soon(account);
                    }
                    return Ok(outcomes);
                }
            }
        }
    }
}

/// Why items were refused together, if they were.
fn refusal_of_all(outcomes: &[Outcome]) -> Option<&Rejection> {
    let refused = outcomes.iter().filter_map(|outcome| outcome.result.as_ref().err());
    refused.into_iter().find(|refused| !matches!(refused, Rejection::BatchAborted { .. }))
}

fn still_out() -> Refusal {
    let detail = "the credits are in other regions, and were not back in time; nothing happened";
    Refusal::new(ProblemCode::NotReady, detail)
}

#[cfg(test)]
mod tests {
    use purser_types::Epoch;

    use super::*;

    const HERE: (bool, bool) = (false, false);
    const ARRIVING: (bool, bool) = (false, true);
    const FINAL: (bool, bool) = (true, false);

    #[test]
    fn what_is_decided_elsewhere_is_told_from_what_arrives() {
        let owner = Owner { region: Region::parse("eu").unwrap(), generation: Generation(3) };
        let refused = Rejection::DecidedElsewhere;
        let closed = Seat::Closed(owner);
        assert_eq!(Word::of(Some(&refused), closed, HERE), Word::InRegion(owner));
        let arriving = Word::Astray(Astray::Arriving);
        assert_eq!(Word::of(Some(&refused), closed, ARRIVING), arriving);
        // It has arrived since it was asked.
        assert_eq!(Word::of(Some(&refused), Seat::Home, HERE), arriving);
        let left = Rejection::HomeMoved { home: owner.region, epoch: Epoch(2) };
        let left = Word::of(Some(&left), closed, HERE);
        assert_eq!(left, Word::Astray(Astray::Left(Epoch(2))));
    }

    #[test]
    fn credits_that_are_out_are_waited_for_once() {
        let credits = |amount| Credits::from_u64(amount).unwrap();
        let (available, short_by) = (credits(40), credits(60));
        let refused = Rejection::CreditsOut { available, short_by, outstanding: credits(80) };
        let word = |known| Word::of(Some(&refused), Seat::Home, known);
        assert_eq!((word(HERE), word(FINAL)), (Word::Out(credits(100)), Word::Decided));
        assert_eq!(Word::of(None, Seat::Home, HERE), Word::Decided);
    }
}
