//! Requests and holds of regions, as home knows them.
//!
//! A retry may reach another region than the first attempt. Home sees the keys of all regions in
//! their reports: of the same request under one key, the first that is booked stands, and the others
//! are undone by their owners (R10). When a region's book has ended, what is asked about its holds and
//! charges is decided here, and what the region had decided stays decided.

use purser_types::{Credits, HistoryError, HistoryReader, LogTime, Owner, Position, Sequence};

use super::{AwayDecision, AwayRequest, SameRequest, Settlement, Shipped};
use crate::account::{Account, HoldKey, read_entry, request_key};
use crate::answer::{Decision, Last, Outcome, Receipt};
use crate::command::{Context, HoldNumber, Identity, Item, Target};
use crate::digest::{Digest16, digest16};
use crate::entry::{Entry, Fact};
use crate::hold::{Hold, HoldState};
use crate::rejection::Rejection;

impl Account {
    /// Whether the request that an entry of a region decided had been decided elsewhere before.
    ///
    /// Only what begins something can be a duplicate: everything else names a hold, and a hold has
    /// one owner. What home refused has had no effect that could be doubled.
    pub(super) fn same_request(&self, entry: &Entry, now: LogTime) -> SameRequest {
        let Some(asked) = request_of(entry) else { return SameRequest::First };
        let here = self.keys.get(&asked.key, now);
        let here = here.filter(|known| !matches!(known.decision, Decision::Refused(_)));
        let away = self.home_side().ok().and_then(|home| home.requests.get(&asked.key, now));
        let (here, away) = (here.map(|it| it.fingerprint), away.map(|it| it.fingerprint));
        match here.or(away) {
            None => SameRequest::First,
            Some(fingerprint) if fingerprint == asked.fingerprint => SameRequest::Duplicate,
            Some(_) => SameRequest::OtherUnderKey,
        }
    }

    /// Remembers where the requests were decided whose entries were just booked.
    pub(super) fn remember_away(&mut self, settlement: &Settlement, now: LogTime) {
        let retention = self.standing.policy.key_retention;
        let Some(home) = self.home_side_mut() else { return };
        let allocation = settlement.allocation.opened_by;
        let first = |shipped: &&Shipped| shipped.same == SameRequest::First;
        for Shipped { entry, .. } in settlement.shipped.iter().filter(first) {
            if let (Some(asked), Some(hold)) = (request_of(entry), entry.fact.hold()) {
                let made = HoldKey { allocation, hold: hold.number };
                let request = AwayRequest { fingerprint: asked.fingerprint, made };
                home.requests.insert(asked.key, request, now, retention);
            }
        }
    }

    /// The answer to a request that a region has accepted: ask there, or use another key.
    pub(crate) fn recall_away(&self, asked: Identity, now: LogTime) -> Option<Rejection> {
        let home = self.home_side().ok()?;
        let AwayRequest { fingerprint, made } = *home.requests.get(&asked.key, now)?;
        if fingerprint != asked.fingerprint {
            return Some(Rejection::KeyReused);
        }
        let open = home.allocations.values().map(|found| (found.owner, found.opened_by));
        let closed = home.closed.iter().map(|(owner, opened_by)| (*owner, *opened_by));
        let mut known = open.chain(closed).filter(|(_, opened_by)| *opened_by == made.allocation);
        let owner = known.next().map(|(owner, _)| owner)?;
        Some(Rejection::DecidedInRegion { owner, hold: made.hold })
    }

    /// Remembers what regions had decided about their holds and charges, of what was just booked: a repeat
    /// comes here once the allocation is closed. What a region does by itself has no key.
    pub(super) fn remember_decided(
        &mut self,
        settlement: &Settlement,
        now: LogTime,
        booked_at: Position,
    ) {
        let retention = self.standing.policy.key_retention;
        let Some(home) = self.home_side_mut() else { return };
        let entries = settlement.shipped.iter().map(|shipped| &shipped.entry);
        for entry in entries.filter(|entry| request_of(entry).is_none()) {
            let Some(asked) = identity_of(entry) else { continue };
            let key = decided_key(settlement.allocation.opened_by, asked.key);
            let decided = AwayDecision { fingerprint: asked.fingerprint, booked_at };
            home.decided.insert(key, decided, now, retention);
        }
    }

    /// The answer that a region has given about a hold or charge before its allocation was closed: as it was
    /// given there.
    pub(crate) fn recall_decided(
        &self,
        item: &Item,
        now: LogTime,
        history: &dyn HistoryReader,
    ) -> Result<Option<Outcome>, HistoryError> {
        let Some((owner, asked)) = as_asked_there(item) else { return Ok(None) };
        let Ok(home) = self.home_side() else { return Ok(None) };
        let Some(&opened_by) = home.closed.get(&owner) else { return Ok(None) };
        let Some(decided) = home.decided.get(&decided_key(opened_by, asked.key), now) else {
            return Ok(None);
        };
        if decided.fingerprint != asked.fingerprint {
            return Ok(Some(Outcome::refused(Rejection::KeyReused)));
        }
        let Fact::Settled(settlement) = read_entry(history, decided.booked_at)?.fact else {
            return Ok(None);
        };
        let mut entries = settlement.shipped.into_iter().map(|shipped| shipped.entry);
        let entry = entries.find(|entry| identity_of(entry) == Some(asked));
        Ok(entry.map(|entry| {
            let last = Last { sequence: entry.sequence, log_time: entry.log_time };
            let balance = entry.balance.clone();
            let receipt = Receipt {
                entry,
                existing: None,
                balance,
                last,
                debt_repaid: Credits::ZERO,
                is_found: false,
            };
            Outcome { result: Ok(receipt), replayed: true }
        }))
    }

    /// A hold or charge of an allocation that is closed, as it stands; nothing if its record is past
    /// its retention. Refuses: the allocation is open, so its region decides; there was none.
    pub(crate) fn find_away(
        &self,
        owner: Owner,
        number: HoldNumber,
        now: LogTime,
        history: &dyn HistoryReader,
    ) -> Result<Result<Option<Hold>, Rejection>, HistoryError> {
        let home = match self.home_side() {
            Ok(home) => home,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if home.allocations.contains_key(&owner) {
            return Ok(Err(Rejection::DecidedElsewhere));
        }
        let Some(&opened_by) = home.closed.get(&owner) else { return Ok(Ok(None)) };
        let key = HoldKey { allocation: opened_by, hold: number };
        if home.away.get(&key, now).is_none() && self.owing.get(&key).is_none() {
            return Ok(Ok(None));
        }
        let hold = self.away_as_it_stands(key, history)?;
        Ok(Ok(hold.map(|hold| ended_with_its_allocation(hold, now))))
    }

    /// A region's hold or charge as the last entry here about it says, if there is a record of it.
    fn away_as_it_stands(
        &self,
        key: HoldKey,
        history: &dyn HistoryReader,
    ) -> Result<Option<Hold>, HistoryError> {
        let latest = self.home_side().ok().and_then(|home| home.away.latest(&key));
        let kept = latest.map(|kept| kept.value).or_else(|| self.owing.get(&key).copied());
        let Some(position) = kept else { return Ok(None) };
        let fact = read_entry(history, position)?.fact;
        if let Fact::Settled(settlement) = &fact {
            return Ok(settlement.hold_at_home(key));
        }
        Ok(fact.into_hold())
    }

    /// A hold or charge of a closed allocation as it stands, if its record is kept at `now`.
    pub fn hold_away(
        &self,
        owner: Owner,
        target: Target,
        now: LogTime,
        history: &dyn HistoryReader,
    ) -> Result<Option<Hold>, HistoryError> {
        let found = self.find_away(owner, target.number(), now, history)?;
        Ok(found.ok().flatten().filter(|hold| hold.is(target)))
    }

    /// The holds and charges of an allocation that are to be undone, because the same request was
    /// decided elsewhere before: at most [`Account::REVERSALS_MAX`] at a time.
    pub fn reversals(&self, opened_by: Sequence) -> impl Iterator<Item = HoldNumber> {
        let first = HoldKey { allocation: opened_by, hold: HoldNumber(Sequence::ZERO) };
        let home = self.home_side().into_iter();
        let from = home.flat_map(move |home| home.reversals.range(first..));
        from.take_while(move |key| key.allocation == opened_by)
            .map(|key| key.hold)
            .take(Self::REVERSALS_MAX)
    }

    /// The closed allocations that have holds or charges to be undone here, and what these are.
    pub fn reversals_at_home(&self) -> impl Iterator<Item = (Owner, HoldNumber)> {
        let home = self.home_side().into_iter();
        home.flat_map(|home| {
            home.closed.iter().flat_map(|(owner, opened_by)| {
                self.reversals(*opened_by).map(|hold| (*owner, hold))
            })
        })
    }

    /// How many reversals a voucher names.
    pub const REVERSALS_MAX: usize = 64;
}

/// What a request that began something is recognized by.
fn request_of(entry: &Entry) -> Option<Identity> {
    let begins = matches!(entry.fact, Fact::Authorized(_) | Fact::Charged(_));
    identity_of(entry).filter(|_| begins)
}

/// What the request that made an entry is recognized by.
fn identity_of(entry: &Entry) -> Option<Identity> {
    let (key, fingerprint) = (entry.key.as_ref()?, entry.fingerprint?);
    Some(Identity { key: request_key(key), fingerprint })
}

/// A hold that was open when its allocation was written off has ended with it: what it held came home.
fn ended_with_its_allocation(hold: Hold, now: LogTime) -> Hold {
    match hold.state {
        HoldState::Active => {
            let expires_at = hold.expires_at.min(now);
            Hold { state: HoldState::Expired, held: Credits::ZERO, expires_at, ..hold }
        }
        HoldState::Captured | HoldState::Released | HoldState::Expired => hold,
    }
}

/// What a region's decision about a hold is found by: two regions may have been asked under one key.
fn decided_key(opened_by: Sequence, key: Digest16) -> Digest16 {
    digest16(&[&opened_by.0.to_be_bytes()[..], &key[..]].concat())
}

/// What is asked about a hold or charge that a region made, as the region was asked for it, and which
/// allocation it is of.
fn as_asked_there(item: &Item) -> Option<(Owner, Identity)> {
    let mut operation = item.operation.clone();
    let owner = operation.away_mut()?.take()?;
    let there =
        Item::new(Context { key: item.context.key.clone(), ..Context::default() }, operation);
    Some((owner, there.identity()?))
}
