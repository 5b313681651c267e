//! One item, decided where it can be: by home, by this region's own right, or elsewhere.
//!
//! ```text
//!  Spend ─▶ right suffices ─▶ this region's book ─▶ decision
//!           short ─▶ credits on their way? wait once
//!                 └▶ noted as passed on (R10) ─▶ home's region
//! ```
//!
//! A call that was noted as passed on is never decided in the region again, so a repeat of it finds
//! home's decision and nothing else.

use std::time::Instant;

use bytes::Bytes;
use purser_api::{Consistency, DeciderRole, ProblemCode};
use purser_ledger::{
    AccountName, Command, EventAbout, Item, Operation as Asked, Outcome, PassedOn, Rejection,
    Shortage, Target, codec,
};
use purser_raft::{NodeId, ProposeError};
use purser_types::{Credits, Generation, Owner, Region};

use crate::http::call::Call;
use crate::http::problem::{Decided, NotDone, Refusal};
use crate::http::routing::Decision;
use crate::http::seat::Seat;
use crate::metrics::SpendOutcome;
use crate::regions::{Chance, HomeReason, Outpost, Regions, bound_of};

/// The part of a call's time that it may wait for credits that are on their way.
const WAIT_PART: u32 = 4;

/// The part of a call's time in which home is asked for what a region lacks to decide it.
const SHORT_PART: u32 = 2;

/// Why an item is not decided by this node. Nothing has happened here.
pub(crate) enum Elsewhere {
    /// Another node of this region leads, or none is known to.
    Leader(Option<NodeId>),
    /// Another region decides.
    Region(Region),
    /// Nobody decides: it is refused.
    Refused(Refusal),
}

impl From<Refusal> for Elsewhere {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// An item and where it is to be decided.
#[derive(Clone)]
pub(crate) struct Seated<'a> {
    pub(crate) account: &'a AccountName,
    pub(crate) seat: Seat,
    pub(crate) item: Item,
    pub(crate) consistency: Consistency,
}

impl Seated<'_> {
    /// What it may cost; nothing if it takes nothing new.
    pub(crate) const fn cost(&self) -> Option<Credits> {
        cost_of(&self.item)
    }

    /// What this region lacks if it passes the item on; nothing if that is not why.
    pub(crate) fn shortfall(&self) -> Option<Shortfall> {
        let is_short = self.consistency == Consistency::Local;
        let cost = self.cost().filter(|_| is_short && matches!(self.seat, Seat::Spend(_)))?;
        Some(Shortfall { account: self.account.clone(), cost })
    }
}

/// What a region lacks that passes an item on because it may not spend so much.
pub(crate) struct Shortfall {
    account: AccountName,
    cost: Credits,
}

/// What an item may cost; nothing if it takes nothing new.
pub(crate) const fn cost_of(item: &Item) -> Option<Credits> {
    match &item.operation {
        Asked::Authorize(authorize) => Some(authorize.amount),
        Asked::Charge(charge) => Some(charge.amount),
        Asked::CreateJob(job) => Some(job.amount),
        Asked::RecordEvent(event) => match &event.about {
            EventAbout::Usage { amount } if !amount.is_zero() => Some(*amount),
            _ => None,
        },
        _ => None,
    }
}

impl Call {
    /// Has one item decided in the call's seat, wherever that is. A rejection is an error here, as it
    /// is for the caller.
    pub(crate) async fn decide(
        &self,
        account: &AccountName,
        item: Item,
    ) -> Result<Decision, NotDone> {
        self.spend(account, item, Consistency::Local).await
    }

    /// Has one item decided for which the caller may choose who decides.
    pub(crate) async fn spend(
        &self,
        account: &AccountName,
        item: Item,
        consistency: Consistency,
    ) -> Result<Decision, NotDone> {
        let seated = Seated { account, seat: self.seat, item, consistency };
        loop {
            match self.settle(seated.clone()).await {
                Ok(decision) => return Ok(decision),
                Err(Elsewhere::Leader(leader)) => {
                    let group = self.api.groups().of(account);
                    self.elsewhere(group, leader, self.effect).await?;
                }
                Err(Elsewhere::Region(region)) => return Err(self.pass_on(&seated, region).await),
                Err(Elsewhere::Refused(refusal)) => return Err(refusal.into()),
            }
        }
    }

    /// Has the whole call answered by another region, and learns from what becomes of it.
    async fn pass_on(&self, seated: &Seated<'_>, region: Region) -> NotDone {
        let Some(regions) = self.api.regions() else {
            return Refusal::internal("another region decides, and there is none").into();
        };
        let answer = self.to_region(regions, region, seated.account).await;
        if let (NotDone::Relayed(response), Some(shortfall)) = (&answer, seated.shortfall()) {
            self.note_passed(&shortfall, response.status().as_u16());
        }
        answer
    }

    /// Notes what became of an item that was passed on.
    pub(crate) fn note_passed(&self, Shortfall { account, cost }: &Shortfall, status: u16) {
        if let Some(regions) = self.api.regions() {
            regions.outpost(account).note_passed(account, *cost, status);
        }
    }

    /// Has one item decided, if this node can.
    pub(crate) async fn settle(&self, seated: Seated<'_>) -> Result<Decision, Elsewhere> {
        match (seated.seat, self.api.regions()) {
            (Seat::Spend(home), Some(regions)) => {
                Spending { call: self, regions, home, seated: &seated }.run().await
            }
            (Seat::Home | Seat::Closed(_), Some(regions)) => {
                self.settle_at_home(regions, seated).await
            }
            (Seat::Allocation(generation), Some(regions)) => {
                self.settle_in_region(regions, seated, generation).await
            }
            (_, None) => {
                let outcome = self.ask_book(&seated, Generation::HOME).await?;
                self.decision(outcome, &seated)
            }
        }
    }

    /// What came of an item that was decided in its seat.
    pub(crate) fn decision(
        &self,
        outcome: Outcome,
        seated: &Seated<'_>,
    ) -> Result<Decision, Elsewhere> {
        let decided = self.decided_in(seated.seat, seated.account);
        Ok(Decision::of(outcome, decided, self.homes_of(seated.account))?)
    }

    /// Has one item decided by the book of this region that has named what it is about. If it needs more
    /// than the book may spend, home is asked to cover it, and the book again when it has answered: home's
    /// no is then the book's.
    async fn settle_in_region(
        &self,
        regions: &Regions,
        mut seated: Seated<'_>,
        generation: Generation,
    ) -> Result<Decision, Elsewhere> {
        let account = seated.account;
        let home = regions.directory().known_home(&account.tenant).map(|it| it.home);
        let outpost = regions.outpost(account);
        let whole = self.meta.deadline.duration_since(self.meta.received);
        let patience = self.meta.received + whole / SHORT_PART;
        self.await_lease(regions, &seated, (generation, home), patience).await?;
        let mut covering = outpost.covering(account, generation, &seated.item);
        loop {
            let outcome = self.ask_book(&seated, generation).await?;
            match (&outcome.result, home) {
                (Err(Rejection::RightExhausted { right, short_by }), Some(home)) => {
                    if !regions.links().is_reachable(home) {
                        return Err(Refusal::unreachable(home).into());
                    }
                    if patience <= Instant::now() {
                        return Err(not_granted(*short_by, covering.not_now()).into());
                    }
                    let needed = right.checked_add(*short_by).unwrap_or(Credits::MAX);
                    let no = covering.wait(&seated.item, (needed, home), patience).await;
                    seated.item.shortage = no.map(|no| Shortage::NotCovered(Box::new(no)));
                    continue;
                }
                // The book has ended since the seat was taken, so home decides.
                (Err(Rejection::AllocationEnded), Some(home)) => {
                    // Here it is about to book the end, and decides then.
                    let is_here = home == *self.api.region();
                    return Err(if is_here {
                        Refusal::not_ready().into()
                    } else {
                        Elsewhere::Region(home)
                    });
                }
                (Err(Rejection::AllocationUnknown), _) => {
                    return Err(no_such_subject(&seated.item.operation).into());
                }
                (Ok(_) | Err(_), _) => (),
            }
            return self.decision(outcome, &seated);
        }
    }

    /// Has home renew an allocation's lease if it has run out and the item takes more than was set aside
    /// under it.
    async fn await_lease(
        &self,
        regions: &Regions,
        seated: &Seated<'_>,
        (generation, home): (Generation, Option<Region>),
        patience: Instant,
    ) -> Result<(), Elsewhere> {
        let (account, outpost) = (seated.account, regions.outpost(seated.account));
        while !outpost.has_time_for(account, generation, &seated.item) {
            let home = home.ok_or_else(Refusal::not_ready)?;
            if !regions.links().is_reachable(home) {
                return Err(Refusal::unreachable(home).into());
            }
            if patience <= Instant::now() {
                return Err(Refusal::not_ready().into());
            }
            outpost.ask_for_more(account, home);
            outpost.wait_for_home(account, patience).await;
        }
        Ok(())
    }

    /// Asks one of the books that are kept here.
    pub(crate) async fn ask_book(
        &self,
        seated: &Seated<'_>,
        generation: Generation,
    ) -> Result<Outcome, Elsewhere> {
        let group = self.api.groups().of(seated.account);
        let (account, items) = (seated.account.clone(), vec![seated.item.clone()]);
        let command = Command::Account { account, items, generation };
        let command = Bytes::from(codec::encode(&command));
        match group.propose_indexed(command, self.meta.deadline).await {
            Ok((answer, index)) => {
                let outcomes = answer.into_outcomes().unwrap_or_default();
                if generation == Generation::HOME {
                    self.secure(seated.account, &outcomes, index).await?;
                }
                let outcome = outcomes.into_iter().next();
                Ok(outcome.ok_or_else(|| Refusal::internal("an item without an outcome"))?)
            }
            Err(ProposeError::NotLeader { leader }) => Err(Elsewhere::Leader(leader)),
            Err(error) => Err(Refusal::of_propose(&error).into()),
        }
    }

    /// Notes durably that an item goes to home (R10); or finds that a book here has decided it.
    pub(crate) async fn note_passing(
        &self,
        outpost: &Outpost,
        account: &AccountName,
        item: Item,
    ) -> Result<PassedOn, Elsewhere> {
        match outpost.pass_on(account, item, self.meta.deadline).await {
            Ok(passed_on) => Ok(passed_on),
            Err(ProposeError::NotLeader { leader }) => Err(Elsewhere::Leader(leader)),
            // Whether it was noted or not, nothing was decided.
            Err(ProposeError::OutcomeUnknown) => Err(Refusal::not_ready().into()),
            Err(error) => Err(Refusal::of_propose(&error).into()),
        }
    }

    /// Notes durably that an item goes to home, before the whole call does. Refuses one that was decided
    /// here under the same key.
    pub(crate) async fn note_for_home(
        &self,
        regions: &Regions,
        account: &AccountName,
        item: &Item,
    ) -> Result<(), NotDone> {
        let outpost = regions.outpost(account);
        loop {
            match self.note_passing(outpost, account, item.clone()).await {
                Ok(PassedOn::ToHome) => return Ok(()),
                Ok(PassedOn::Decided(_)) => {
                    return Err(decided_alone().into());
                }
                Err(Elsewhere::Leader(leader)) => {
                    let group = self.api.groups().of(account);
                    self.elsewhere(group, leader, self.effect).await?;
                }
                Err(Elsewhere::Region(_)) => return Err(Refusal::not_ready().into()),
                Err(Elsewhere::Refused(refusal)) => return Err(refusal.into()),
            }
        }
    }

    /// How this node's books decide about an account in a seat.
    pub(crate) fn decided_in(&self, seat: Seat, account: &AccountName) -> Decided {
        let role = match seat {
            Seat::Home | Seat::Closed(_) => DeciderRole::Home,
            Seat::Allocation(_) | Seat::Spend(_) => DeciderRole::Allocation,
        };
        let bound = match (seat, self.api.regions()) {
            // Only home spends where there is one region, so nothing can have been spent beyond what
            // was granted.
            (_, None) => Some(Credits::ZERO),
            (Seat::Home | Seat::Closed(_), Some(_)) => {
                let group = self.api.groups().of(account);
                group.view(|ledger, _| ledger.account(account).map(|account| bound_of(account)))
            }
            (_, Some(regions)) => regions.outpost(account).bound(account),
        };
        let (owner, region) = (self.owner_in(seat), *self.api.region());
        Decided { owner, region, role, bound, replayed: false }
    }

    /// Whose ids an item in a seat is about: home's, or those of an allocation.
    pub(crate) fn owner_in(&self, seat: Seat) -> Owner {
        match seat {
            Seat::Home | Seat::Spend(_) => *self.api.owner(),
            Seat::Closed(owner) => owner,
            Seat::Allocation(generation) => Owner { region: *self.api.region(), generation },
        }
    }
}

/// An item of what is to be decided together was decided before.
pub(crate) fn decided_alone() -> Refusal {
    let detail = "an item was decided in this region before, by itself";
    Refusal::new(ProblemCode::KeyReused, detail)
}

/// No allocation has ever named what the operation is about.
fn no_such_subject(operation: &Asked) -> Refusal {
    let is_charge = match operation {
        Asked::Refund(refund) => matches!(refund.target, Target::Charge(_)),
        Asked::Reclaim(reclaim) => matches!(reclaim.target, Target::Charge(_)),
        _ => false,
    };
    let code = if is_charge { ProblemCode::ChargeNotFound } else { ProblemCode::HoldNotFound };
    Refusal::not_found(code)
}

fn not_granted(short_by: Credits, not_now: Option<Rejection>) -> Refusal {
    let why = not_now.map(|why| format!(" ({why})")).unwrap_or_default();
    let detail = format!(
        "the region that made this may not spend enough for it, and home has not granted the \
         {short_by} that are missing in time{why}; nothing happened"
    );
    Refusal::new(ProblemCode::NotReady, detail)
}

/// An item that this region may be able to decide.
struct Spending<'a> {
    call: &'a Call,
    regions: &'a Regions,
    home: Region,
    seated: &'a Seated<'a>,
}

impl Spending<'_> {
    async fn run(&self) -> Result<Decision, Elsewhere> {
        let group = self.call.api.groups().of(self.seated.account);
        if !group.is_leading() {
            return Err(Elsewhere::Leader(group.leader()));
        }
        let outpost = self.regions.outpost(self.seated.account);
        let mut chance = self.chance(outpost);
        let may_wait = self.seated.consistency == Consistency::Local
            && self.regions.links().is_reachable(self.home);
        let waits = chance == Chance::Wait && may_wait;
        if waits {
            let meta = &self.call.meta;
            let patience = meta.received + meta.deadline.duration_since(meta.received) / WAIT_PART;
            outpost.wait_for_home(self.seated.account, patience).await;
            chance = self.chance(outpost);
        }
        if let Chance::Here(generation) = chance
            && let Some(decision) = self.decide_here(outpost, generation).await?
        {
            self.record(if waits { SpendOutcome::Waited } else { SpendOutcome::Local });
            return Ok(decision);
        }
        let reason = match (self.seated.consistency, chance) {
            (Consistency::Strict, _) => SpendOutcome::Strict,
            (Consistency::Local, Chance::Home(reason)) => SpendOutcome::PassedOn(reason),
            // What was there when it was looked at is gone.
            (Consistency::Local, Chance::Here(_) | Chance::Wait) => {
                SpendOutcome::PassedOn(HomeReason::Short)
            }
        };
        self.note(outpost, reason).await
    }

    fn chance(&self, outpost: &Outpost) -> Chance {
        let Seated { account, item, consistency, .. } = self.seated;
        let cost = match consistency {
            Consistency::Local => self.seated.cost().unwrap_or(Credits::ZERO),
            // What is strict is home's, unless it was decided here before.
            Consistency::Strict => Credits::MAX,
        };
        outpost.chance(account, item.context.key.as_ref(), cost)
    }

    fn record(&self, outcome: SpendOutcome) {
        self.call.api.metrics().spends().record(outcome);
    }

    /// Asks one of this region's books; nothing if home decides after all.
    async fn decide_here(
        &self,
        outpost: &Outpost,
        mut generation: Generation,
    ) -> Result<Option<Decision>, Elsewhere> {
        let Self { call, seated, home, .. } = self;
        let mut outcome = call.ask_book(seated, generation).await?;
        if let Err(Rejection::DecidedInGeneration { generation: other }) = outcome.result {
            generation = other;
            outcome = call.ask_book(seated, generation).await?;
        }
        match &outcome.result {
            Err(
                Rejection::DecidedElsewhere
                | Rejection::DecidedInGeneration { .. }
                | Rejection::RightExhausted { .. }
                | Rejection::AllocationEnded
                | Rejection::AllocationUnknown,
            ) => return Ok(None),
            Ok(_) if !outcome.replayed => {
                let cost = seated.cost().unwrap_or(Credits::ZERO);
                outpost.note_accepted(seated.account, generation, (cost, *home));
            }
            Ok(_) | Err(_) => (),
        }
        let owner = outpost.owner_of(generation);
        let decided = Decided { owner, ..call.decided_in(seated.seat, seated.account) };
        Ok(Some(Decision::of(outcome, decided, Vec::new())?))
    }

    /// Notes durably that the item goes to home; or finds that a book here has decided it.
    async fn note(&self, outpost: &Outpost, reason: SpendOutcome) -> Result<Decision, Elsewhere> {
        let Self { call, regions, home, seated } = self;
        if !regions.links().is_reachable(*home) {
            self.record(SpendOutcome::Unreachable);
            return Err(Refusal::unreachable(*home).into());
        }
        match call.note_passing(outpost, seated.account, seated.item.clone()).await? {
            PassedOn::ToHome => {
                if seated.consistency == Consistency::Local {
                    outpost.ask_for_more(seated.account, *home);
                }
                self.record(reason);
                Err(Elsewhere::Region(*home))
            }
            PassedOn::Decided(generation) => {
                let decided = self.decide_here(outpost, generation).await?;
                Ok(decided.ok_or_else(|| Refusal::internal("a book forgot what it knew"))?)
            }
        }
    }
}
