//! One account: its state, and the one function that changes it.
//!
//! ```text
//!            due events          key            decide_*            append
//!  command ─────────────▶ now ─────────▶ new? ───────────▶ draft ───────────▶ entry ──▶ evolve
//!                                          │                  │                 │
//!                                          └─▶ replay         └─▶ rejection     └─▶ debt repaid
//! ```
//!
//! `decide_*` looks and answers and changes nothing; it refuses in a documented order. `append` makes
//! the entry, writes it to the history and applies it with `evolve`, which cannot fail. Reading a
//! balance back from the history needs only `evolve`.

mod admin;
mod concerned;
mod draw;
mod due;
mod evolve;
mod grants;
mod holds;
mod import;
mod keys;
mod pieces;
mod scratch;
mod undo;
mod view;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use purser_types::{
    CowMap, Credits, History, HistoryError, HistoryReader, LogTime, OperationId, Owner, Position,
    Sequence,
};

pub(crate) use self::due::{Due, dues_of_lot, end_of_hold};
pub(crate) use self::holds::{captured_with, refuse_if_scattered};
pub(crate) use self::keys::{Answering, request_key};
pub(crate) use self::pieces::{
    Digested, Piece, cut, pieces_of_departed, pieces_of_gone, pieces_of_marks,
};
pub(crate) use self::scratch::Scratch;
pub(crate) use self::undo::take_last;
pub use self::view::{AsOf, CheckVerdict};
use crate::answer::{Last, Outcome, Receipt, Remembered};
use crate::balance::{Balance, BalanceError};
use crate::budgets::Budgets;
use crate::chain::{Backwards, Hashed, Link, Record, page_after};
use crate::codec;
use crate::command::{
    AccountName, Context, HoldNumber, Identity, Item, LotNumber, Operation, Target,
};
use crate::digest::{Digest16, Digest32, hash_of};
use crate::entry::{Entry, Fact, Move, allocation_genesis, genesis_hash};
use crate::events::Events;
use crate::hold::{Hold, Portion};
use crate::home::Home;
use crate::jobs::Jobs;
use crate::lot::{DrawKey, Lot};
use crate::moving::{Departure, ImportPart};
use crate::region::{BookPhase, RegionSide};
use crate::rejection::Rejection;
use crate::standing::{AccountStatus, Standing};
use crate::time_ring::TimeRing;

/// The number of an account in its group, in the order in which accounts were opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct AccountNumber(#[n(0)] pub u64);

/// One tenant's credits in one unit.
#[derive(Debug, Clone)]
pub struct Account {
    pub(crate) number: AccountNumber,
    pub(crate) name: AccountName,
    pub(crate) standing: Standing,
    /// Whether this is home's book or a region's.
    pub(crate) side: Side,
    pub(crate) balance: Balance,
    pub(crate) head: Head,
    /// Every 64th entry.
    pub(crate) marks: CowMap<Sequence, Position>,
    pub(crate) lots: CowMap<LotNumber, Lot>,
    /// The lots that can be drawn from, in burn-down order.
    pub(crate) draw_order: CowMap<DrawKey, ()>,
    /// The grants with a `source_ref`, by its digest.
    pub(crate) source_refs: CowMap<Digest16, LotNumber>,
    /// The holds that can still be ended.
    pub(crate) holds: CowMap<HoldNumber, Hold>,
    /// The holds and charges that have ended: where the last entry about each is.
    pub(crate) ended: TimeRing<HoldNumber, Position>,
    /// Those of them that owe, for as long as they do, whatever their retention.
    pub(crate) owing: CowMap<HoldKey, Position>,
    /// What is owed, oldest first, by the entry that made it.
    pub(crate) debts: CowMap<Sequence, Debt>,
    /// The same by debtor.
    pub(crate) debts_of: CowMap<(HoldKey, Sequence), ()>,
    /// What will happen by itself.
    pub(crate) agenda: CowMap<Due, ()>,
    /// Decisions by the digest of their idempotency key.
    pub(crate) keys: TimeRing<Digest16, Remembered>,
    /// Its jobs, if it has ever had one.
    pub(crate) jobs: Option<Box<Jobs>>,
    /// What it remembers of usage events, if it has ever had one.
    pub(crate) events: Option<Box<Events>>,
    /// Its budgets, if it has ever had one.
    pub(crate) budgets: Option<Box<Budgets>>,
}

/// The two roles in which the same rules are played.
#[derive(Debug, Clone)]
pub(crate) enum Side {
    /// The ledger that is the truth, and what it has set aside for regions, if it ever has.
    Home(Option<Box<Home>>),
    /// The book of one allocation in its region.
    Region(Box<RegionSide>),
}

/// A hold or charge as home knows it: its own, or one that a region decided under an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub(crate) struct HoldKey {
    /// The entry that opened the allocation; 0 for a hold of this book.
    #[n(0)]
    pub(crate) allocation: Sequence,
    #[n(1)]
    pub(crate) hold: HoldNumber,
}

/// The end of an account's chain of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Head {
    /// The last entry's sequence.
    #[n(0)]
    pub sequence: Sequence,
    /// Its hash.
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub hash: Digest32,
    /// Where it stands.
    #[n(2)]
    pub position: Option<Position>,
}

/// What a hold or charge owes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Debt {
    #[n(0)]
    pub(crate) debtor: HoldKey,
    #[n(1)]
    pub(crate) amount: Credits,
    /// Whether it is overspend: made by a region's spend, or by a lost home's.
    #[n(2)]
    #[cbor(skip_if = "codec::is_none")]
    pub(crate) is_realised: bool,
}

/// What was decided and is not written yet.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) fact: Fact,
    pub(crate) moves: Vec<Move>,
}

/// What a decision comes to.
#[expect(clippy::large_enum_variant, reason = "made and taken apart at once, never kept")]
pub(crate) enum Verdict {
    /// An entry is to be written.
    Write(Draft),
    /// It was granted before: this lot.
    Existing(LotNumber),
    /// Nothing is left to be done, since the entry at this position.
    Found(Position),
}

/// An item, and why another book than this one decides it, if one does.
#[derive(Clone, Copy)]
struct Asked<'a> {
    item: &'a Item,
    bar: Option<&'a Rejection>,
}

/// The first item of a batch that would be refused.
struct Refused {
    place: usize,
    outcome: Outcome,
}

/// Who wanted an entry: nobody, for what happens by itself.
#[derive(Default, Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub(crate) context: Option<&'a Context>,
    pub(crate) asked: Option<Identity>,
}

/// Where entries go, and what they say about their origin.
pub(crate) struct Scribe<'a> {
    pub(crate) history: &'a mut dyn History,
    pub(crate) operation: OperationId,
}

impl Account {
    /// An account that has no entries, holds and lots yet.
    pub(crate) fn new(number: AccountNumber, name: AccountName, standing: Standing) -> Self {
        let head = Head { sequence: Sequence::ZERO, hash: genesis_hash(&name), position: None };
        Self {
            number,
            name,
            standing,
            side: Side::Home(None),
            balance: Balance::default(),
            head,
            marks: CowMap::default(),
            lots: CowMap::default(),
            draw_order: CowMap::default(),
            source_refs: CowMap::default(),
            holds: CowMap::default(),
            ended: TimeRing::default(),
            owing: CowMap::default(),
            debts: CowMap::default(),
            debts_of: CowMap::default(),
            agenda: CowMap::default(),
            keys: TimeRing::default(),
            jobs: None,
            events: None,
            budgets: None,
        }
    }

    /// The book of an allocation, before its first voucher.
    pub(crate) fn in_region(number: AccountNumber, name: AccountName, owner: Owner) -> Self {
        let hash = allocation_genesis(&name, owner);
        let mut account = Self::new(number, name, Standing::unopened(owner.region));
        account.head.hash = hash;
        account.side = Side::Region(Box::new(RegionSide::new(owner)));
        account
    }

    /// Applies items at `now`: together or not at all. `bars` tells of those that another book decides
    /// why this one does not; it may be shorter than `items`.
    pub(crate) fn apply(
        &mut self,
        items: &[Item],
        bars: &[Option<Rejection>],
        now: LogTime,
        scribe: &mut Scribe<'_>,
    ) -> Result<Vec<Outcome>, HistoryError> {
        if let Some(refusal) = self.refuse_stopped(items) {
            return Ok(vec![Outcome::refused(refusal); items.len()]);
        }
        let none = std::iter::repeat(&None);
        let asked = items.iter().zip(bars.iter().chain(none));
        let asked: Vec<Asked<'_>> =
            asked.map(|(item, bar)| Asked { item, bar: bar.as_ref() }).collect();
        // R9: a past that is lost may have decided otherwise about what has become due.
        if !matches!(items, [Item { operation: Operation::Seal, .. }]) {
            self.settle_due(now, scribe)?;
        }
        if items.len() > 1
            && let Some(refused) = self.rehearse(&asked, now, scribe)?
        {
            return self.abort(items, now, &refused, &*scribe.history);
        }
        asked.iter().map(|asked| self.apply_item(*asked, now, scribe)).collect()
    }

    /// Refuses whatever is asked of an account that has stopped for a move, but that it goes on under a
    /// new epoch. Nothing is written for it, not even what has become due: the next home does that.
    fn refuse_stopped(&self, items: &[Item]) -> Option<Rejection> {
        let Departure { to, epoch } = self.stopped()?;
        if let [Item { operation: Operation::Stay(stay), .. }] = items {
            return self.decide_stay(*stay).err();
        }
        Some(Rejection::HomeStopped { to, epoch })
    }

    /// Plays the items on a copy and tells which one is refused first. A history cannot take
    /// entries back, so nothing may be written before all items are known to pass.
    fn rehearse(
        &self,
        items: &[Asked<'_>],
        now: LogTime,
        scribe: &Scribe<'_>,
    ) -> Result<Option<Refused>, HistoryError> {
        let mut copy = self.clone();
        let mut scratch = Scratch::over(&*scribe.history);
        let mut scribe = Scribe { history: &mut scratch, operation: scribe.operation };
        for (place, item) in items.iter().enumerate() {
            let outcome = copy.apply_item(*item, now, &mut scribe)?;
            if outcome.result.is_err() {
                return Ok(Some(Refused { place, outcome }));
            }
        }
        Ok(None)
    }

    /// Refuses all items because one was. That one's refusal is remembered: a late copy of the batch
    /// must stay refused, as a single request's would.
    ///
    /// What was decided before stays decided: such an item is answered as it was.
    fn abort(
        &mut self,
        items: &[Item],
        now: LogTime,
        refused: &Refused,
        history: &dyn HistoryReader,
    ) -> Result<Vec<Outcome>, HistoryError> {
        let aborted = u32::try_from(refused.place).unwrap_or(u32::MAX);
        let mut outcomes = Vec::with_capacity(items.len());
        for (place, item) in items.iter().enumerate() {
            outcomes.push(match self.answered_before(item, now, history)? {
                _ if place == refused.place => refused.outcome.clone(),
                Some(outcome) => outcome,
                None => Outcome::refused(Rejection::BatchAborted { item: aborted }),
            });
        }
        if let (Some(item), Err(refusal)) = (items.get(refused.place), &refused.outcome.result)
            && !refused.outcome.replayed
        {
            self.remember_refusal(item.identity(), now, refusal);
        }
        Ok(outcomes)
    }

    /// The answer that an item already has at `now`, from here or from the region that gave it.
    fn answered_before(
        &self,
        item: &Item,
        now: LogTime,
        history: &dyn HistoryReader,
    ) -> Result<Option<Outcome>, HistoryError> {
        match self.recall(item.identity(), now, history)? {
            Some(outcome) => Ok(Some(outcome)),
            None => self.recall_decided(item, now, history),
        }
    }

    fn apply_item(
        &mut self,
        Asked { item, bar }: Asked<'_>,
        now: LogTime,
        scribe: &mut Scribe<'_>,
    ) -> Result<Outcome, HistoryError> {
        let asked = item.identity();
        if let Some(outcome) = self.answered_before(item, now, &*scribe.history)? {
            return Ok(outcome);
        }
        if let Some(refusal) = bar {
            return Ok(Outcome::refused(refusal.clone()));
        }
        let concerned = match self.concerned(&item.operation, now, &*scribe.history)? {
            Ok(concerned) => concerned,
            Err(refusal) => return Ok(Outcome::refused(refusal)),
        };
        if let Operation::Settle(report) = &item.operation {
            return self.settle(report, item, now, scribe);
        }
        if let Operation::BookTail(page) = &item.operation {
            return self.book_tail(page, now, scribe);
        }
        let decided = if let Operation::Accept(voucher) = &item.operation {
            let booked = self.hash_at(voucher.booked.sequence, &*scribe.history)?;
            self.decide_accept(voucher, booked, now).map(Verdict::Write)
        } else if let Some(decided) = self.decide_of_job(item, now, &*scribe.history)? {
            decided
        } else if let Some(decided) = self.decide_of_event(item, now, &*scribe.history)? {
            decided
        } else {
            let cover = asked.and_then(|asked| self.cover_for(asked));
            self.decide(&item.operation, concerned, now, cover)
        };
        let refusal = match decided {
            Ok(Verdict::Existing(lot)) => return self.accept_again(asked, lot, now, scribe),
            Ok(Verdict::Found(at)) => return self.find_again(asked, at, now, scribe),
            Ok(Verdict::Write(draft)) if self.has_room_for(&draft) => {
                let origin = Origin { context: Some(&item.context), asked };
                let (entry, position) = self.append(draft, now, origin, scribe);
                self.match_events(&entry.fact, now, scribe)?;
                let debt_repaid = self.repay_debt(now, scribe)?;
                self.remember_acceptance(asked, now, position, debt_repaid);
                let receipt = self.receipt(entry, now, debt_repaid);
                return Ok(Outcome { result: Ok(receipt), replayed: false });
            }
            Ok(Verdict::Write(_)) => Rejection::AmountOverflow,
            Err(refusal) => self.refusal_of(item, refusal),
        };
        self.remember_refusal(asked, now, &refusal);
        Ok(Outcome::refused(refusal))
    }

    /// The receipt of an entry after which nothing more has happened than that debt was repaid.
    pub(crate) fn receipt(&self, entry: Entry, now: LogTime, debt_repaid: Credits) -> Receipt {
        let last = Last { sequence: self.head.sequence, log_time: now };
        let balance = self.balance.clone();
        Receipt { entry, existing: None, balance, last, debt_repaid, is_found: false }
    }

    /// Whether every bucket stays within the range of amounts, also when regions report the most that
    /// they may have spent.
    pub(crate) fn has_room_for(&self, draft: &Draft) -> bool {
        match self.balance.after(&draft.fact, &draft.moves) {
            Ok(after) => self.room_beside_regions(Some(&draft.fact), &after).is_some(),
            Err(BalanceError::TooLarge) => false,
            Err(BalanceError::BelowZero) => {
                unreachable!("INV-1: decisions take only what a bucket has: {draft:?}")
            }
        }
    }

    /// Decides about one operation. `concerned` is the hold or charge it names, if there is one; `cover`
    /// what is there for it alone.
    ///
    /// Refuses, in this order: what a closed account refuses (all of it), what a frozen one
    /// refuses, what is not there, what is in the wrong state, what lacks credits.
    fn decide(
        &self,
        operation: &Operation,
        concerned: Option<Hold>,
        now: LogTime,
        cover: Option<Portion>,
    ) -> Result<Verdict, Rejection> {
        // A closed account has a home as well.
        if let Operation::Stop(departure) = operation {
            return self.decide_stop(*departure).map(Verdict::Write);
        }
        if let Operation::Stay(stay) = operation {
            return self.decide_stay(*stay).map(Verdict::Write);
        }
        if self.standing.status == AccountStatus::Closed {
            return Err(Rejection::AccountClosed);
        }
        self.refuse_elsewhere(operation)?;
        let draft = match operation {
            Operation::Open(open) => self.decide_open(open, now)?,
            Operation::Grant(grant) => return self.decide_grant(grant, now),
            Operation::Authorize(authorize) => self.decide_authorize(authorize, now)?,
            Operation::Capture(capture) => self.decide_capture(capture, concerned, cover)?,
            Operation::Release(_) => self.decide_release(concerned)?,
            Operation::Extend(extend) => self.decide_extend(extend, concerned)?,
            Operation::Charge(charge) => self.decide_charge(charge, now)?,
            Operation::Refund(refund) => self.decide_refund(refund, concerned, now)?,
            Operation::Reclaim(reclaim) => self.decide_reclaim(reclaim, concerned, cover)?,
            Operation::Void(void) => self.decide_void(void)?,
            Operation::Adjust(adjust) => self.decide_adjust(adjust, now)?,
            Operation::SetPolicy(change) => self.decide_set_policy(change, now),
            Operation::Freeze => self.decide_freeze()?,
            Operation::Unfreeze => self.decide_unfreeze()?,
            Operation::Close(close) => self.decide_close(close)?,
            Operation::Allocate(allocate) => self.decide_allocate(allocate)?,
            Operation::SetAllocation(change) => self.decide_set_allocation(change)?,
            Operation::TakeBack(take_back) => self.decide_take_back(take_back)?,
            Operation::WriteOff(write_off) => self.decide_write_off(write_off)?,
            Operation::Transfer(transfer) => self.decide_transfer(transfer)?,
            Operation::Cover(cover) => self.decide_cover(cover)?,
            Operation::Return(give_back) => self.decide_return(give_back)?,
            Operation::Finish => self.decide_finish()?,
            Operation::Seal => self.decide_seal()?,
            Operation::WriteOffTail(write_off) => self.decide_write_off_tail(write_off)?,
            Operation::SetBudget(asked) => self.decide_set_budget(asked, now)?,
            Operation::RemoveBudget(asked) => self.decide_remove_budget(asked)?,
            // These need the history or come before, and are decided elsewhere.
            Operation::Settle(_)
            | Operation::Accept(_)
            | Operation::BookTail(_)
            | Operation::Stop(_)
            | Operation::Stay(_)
            | Operation::CreateJob(_)
            | Operation::ReportOutcome(_)
            | Operation::RenewJob(_)
            | Operation::RedriveJob(_)
            | Operation::DiscardJob(_)
            | Operation::RecordEvent(_)
            | Operation::ResolveEvent(_)
            | Operation::DiscardEvent(_) => return Err(Rejection::DecidedElsewhere),
        };
        Ok(Verdict::Write(draft))
    }

    /// What a region's book does not decide: that is for home.
    fn refuse_elsewhere(&self, operation: &Operation) -> Result<(), Rejection> {
        let Side::Region(region) = &self.side else { return Ok(()) };
        if region.phase != BookPhase::Open {
            return Err(Rejection::AllocationEnded);
        }
        if !operation.budgets().is_empty() {
            return Err(Rejection::DecidedElsewhere);
        }
        match operation {
            Operation::Open(_)
            | Operation::Grant(_)
            | Operation::Void(_)
            | Operation::Adjust(_)
            | Operation::SetPolicy(_)
            | Operation::Freeze
            | Operation::Unfreeze
            | Operation::CreateJob(_)
            | Operation::ReportOutcome(_)
            | Operation::RenewJob(_)
            | Operation::RedriveJob(_)
            | Operation::DiscardJob(_)
            | Operation::RecordEvent(_)
            | Operation::ResolveEvent(_)
            | Operation::DiscardEvent(_)
            | Operation::SetBudget(_)
            | Operation::RemoveBudget(_)
            | Operation::Close(_) => Err(Rejection::DecidedElsewhere),
            Operation::Authorize(_)
            | Operation::Capture(_)
            | Operation::Release(_)
            | Operation::Extend(_)
            | Operation::Charge(_)
            | Operation::Refund(_)
            | Operation::Reclaim(_)
            | Operation::Allocate(_)
            | Operation::SetAllocation(_)
            | Operation::Settle(_)
            | Operation::TakeBack(_)
            | Operation::WriteOff(_)
            | Operation::Transfer(_)
            | Operation::Cover(_)
            | Operation::Accept(_)
            | Operation::Return(_)
            | Operation::Finish
            | Operation::Seal
            | Operation::Stop(_)
            | Operation::Stay(_)
            | Operation::BookTail(_)
            | Operation::WriteOffTail(_) => Ok(()),
        }
    }

    /// The hash of an entry; nothing beyond the account's end.
    pub(crate) fn hash_at(
        &self,
        sequence: Sequence,
        history: &dyn HistoryReader,
    ) -> Result<Option<Digest32>, HistoryError> {
        if sequence == self.head.sequence {
            return Ok(Some(self.head.hash));
        }
        Ok(self.entry(sequence, history)?.map(|hashed| hashed.hash))
    }

    /// Makes the entry, writes it down and applies it.
    pub(crate) fn append(
        &mut self,
        draft: Draft,
        at: LogTime,
        origin: Origin<'_>,
        scribe: &mut Scribe<'_>,
    ) -> (Entry, Position) {
        let Draft { fact, moves } = draft;
        let balance = self
            .balance
            .after(&fact, &moves)
            .expect("INV-1: what was decided keeps every bucket in its range");
        let context = origin.context.cloned().unwrap_or_default();
        let fingerprint = origin.asked.map(|asked| asked.fingerprint);
        let entry = Entry {
            sequence: self.head.sequence.next(),
            log_time: at,
            operation: scribe.operation,
            fact,
            moves,
            balance,
            key: context.key,
            actor: context.actor,
            reason: context.reason,
            request_id: context.request_id,
            metadata: context.metadata,
            prev_hash: self.head.hash,
            fingerprint,
        };
        let bytes = codec::encode(&entry);
        let hash = hash_of(&bytes);
        let record = Record { account: self.number, previous: self.head.position, entry: bytes };
        let position = scribe.history.append(&codec::encode(&record));
        self.evolve(&entry, hash, position);
        (entry, position)
    }

    /// The hold or charge with this number, ended or not, if its record is kept at `now`.
    pub(crate) fn find_hold(
        &self,
        target: Target,
        now: LogTime,
        history: &dyn HistoryReader,
    ) -> Result<Option<Hold>, HistoryError> {
        let number = target.number();
        if let Some(hold) = self.holds.get(&number) {
            return Ok(Some(hold.clone()).filter(|hold| hold.is(target)));
        }
        let own = HoldKey::own(number);
        let kept = self.ended.get(&number, now).or_else(|| self.owing.get(&own));
        let kept = kept.or_else(|| self.position_for_job(number));
        let Some(position) = kept else { return Ok(None) };
        let hold = read_entry(history, *position)?.fact.into_hold();
        Ok(hold.filter(|hold| hold.is(target)))
    }

    /// The bytes of the account's entries after `after`, as they were written: oldest first, and as many
    /// as fit into one part of an import.
    pub fn entries_after(
        &self,
        after: Sequence,
        history: &dyn HistoryReader,
    ) -> Result<Vec<ByteVec>, HistoryError> {
        let most = u64::try_from(ImportPart::COUNT_MAX).unwrap_or(u64::MAX);
        let last = Sequence(after.0.saturating_add(most).min(self.head.sequence.0));
        match self.locate(last, history)? {
            Some(position) => page_after(Link { sequence: last, position }, after, history),
            None => Ok(Vec::new()),
        }
    }

    /// Where the entry with `sequence` stands; nothing beyond the account's end.
    pub fn locate(
        &self,
        sequence: Sequence,
        history: &dyn HistoryReader,
    ) -> Result<Option<Position>, HistoryError> {
        if sequence == Sequence::ZERO || sequence > self.head.sequence {
            return Ok(None);
        }
        let marked = self.marks.range_from(std::ops::Bound::Included(&sequence)).next();
        let mut link = match (marked, self.head.position) {
            (Some((sequence, position)), _) => Link { sequence: *sequence, position: *position },
            (None, Some(position)) => Link { sequence: self.head.sequence, position },
            (None, None) => return Ok(None),
        };
        while link.sequence > sequence {
            let Some(position) = Record::read(history, link.position)?.previous else {
                return Ok(None);
            };
            link = Link { sequence: Sequence(link.sequence.0.saturating_sub(1)), position };
        }
        Ok(Some(link.position))
    }

    /// The account's entries from `from` backwards; nothing from beyond the account's end.
    pub fn entries_back_from<'a>(
        &self,
        from: Sequence,
        history: &'a dyn HistoryReader,
    ) -> Result<impl Iterator<Item = Result<Hashed, HistoryError>> + 'a, HistoryError> {
        let start = self.locate(from, history)?;
        Ok(Backwards::new(history, start).map(|step| step.map(|(_, hashed)| hashed)))
    }

    /// Who decides about this account's holds here.
    pub fn owner(&self) -> Owner {
        match &self.side {
            Side::Home(_) => Owner::home(self.standing.home),
            Side::Region(region) => region.owner,
        }
    }
}

impl HoldKey {
    /// A hold of the book itself.
    pub(crate) const fn own(hold: HoldNumber) -> Self {
        Self { allocation: Sequence::ZERO, hold }
    }
}

impl Draft {
    /// A fact that moves nothing.
    pub(crate) fn still(fact: Fact) -> Self {
        Self { fact, moves: Vec::new() }
    }
}

impl Outcome {
    pub(crate) fn refused(refusal: Rejection) -> Self {
        Self { result: Err(refusal), replayed: false }
    }
}

/// The entry at `position`.
pub(crate) fn read_entry(
    history: &dyn HistoryReader,
    position: Position,
) -> Result<Entry, HistoryError> {
    Ok(Record::read(history, position)?.entry(position)?.entry)
}
