//! What a lost home had decided, booked once it is heard of.
//!
//! ```text
//!  tail ─▶ continues what this home has? ─▶ entry by entry: known under its key? about a hold that
//!          was used here since? ─ yes ─▶ it stands      ─ no ─▶ was it within X? ─ yes ─▶ booked
//!                                                                                └ no ──▶ reported
//! ```
//!
//! The tail begins after the last entry that both have: usually the last that came over, and an earlier
//! one where the lost home's leader had changed at the very end. Its new leader then wrote others in the
//! place of the last that came over. What came over stands here like any entry; nobody was told of it
//! there, and whoever repeats it finds it.
//!
//! A call of the lost home was answered only if all that was not acknowledged by then, itself
//! included, stayed within X. So what lies beyond X, counted from the first entry that is missing
//! here, was never answered, and neither was anything that is not counted: none of it has happened.
//! What lies within X may have been answered, so its spends are booked: from what is available, as
//! debt if that is short. Each entry of the tail stands in an entry here, with what became of it.
//!
//! - INV-17: what a tail's spends come to never exceeds what was set aside for it.

use std::collections::BTreeMap;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use purser_types::{Credits, Epoch, HistoryError, HistoryReader, LogTime, Region, Sequence};

use super::tail_matching::PageKeys;
use crate::account::{Account, Draft, Origin, Scribe, request_key};
use crate::answer::Outcome;
use crate::codec;
use crate::command::{Context, HoldNumber, Identity, Target};
use crate::digest::{Digest32, hash_of};
use crate::entry::{Entry, Fact, Move};
use crate::hold::{Hold, HoldKind, HoldState, Source, sum};
use crate::moving::{TailPage, WriteOffTail};
use crate::protocol::Booked;
use crate::rejection::Rejection;
use crate::unacknowledged::counted;

/// What a lost home may have decided after the last entry that is known here. No figure falls.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Tail {
    /// The lost home.
    #[n(0)]
    pub from: Region,
    /// Its last epoch.
    #[n(1)]
    pub epoch: Epoch,
    /// The last entry that it and this home have: at first, the last that came over.
    #[n(2)]
    pub forked_at: Sequence,
    /// How many credits are set aside for it: X, as it was.
    #[n(3)]
    pub quarantine: Credits,
    /// The last entry of the tail that was booked; at first, the last that came over.
    #[n(4)]
    pub booked: Booked,
    /// What its entries count for under X, so far.
    #[n(5)]
    pub counted: Credits,
    /// Spends that were booked.
    #[n(6)]
    pub debited: Credits,
    /// Spends that were known here already.
    #[n(7)]
    pub matched: Credits,
    /// Spends that nobody was answered.
    #[n(8)]
    pub unanswered: Credits,
    /// Holds that are not known here: their credits were never taken.
    #[n(9)]
    pub held: Credits,
    /// Its holds that were authorized here again under the same key.
    #[n(10)]
    pub again: BTreeMap<HoldNumber, HoldNumber>,
    /// How many captures of a hold here stand for captures in the tail.
    #[n(11)]
    pub stand_ins: BTreeMap<HoldNumber, u32>,
}

/// Entries of a tail, as they are booked here, up to the first that took credits.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct TailRun {
    /// The tail afterwards.
    #[n(0)]
    pub tail: Tail,
    /// The entries, and what became of them.
    #[n(1)]
    pub lost: Vec<LostEntry>,
    /// The charge that was made for the last of them, or the hold that it was taken from.
    #[n(2)]
    pub spend: Option<Hold>,
    /// Whether the tail ends with these.
    #[n(3)]
    pub is_last: bool,
}

/// An entry of a tail.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LostEntry {
    /// The entry.
    #[n(0)]
    pub entry: Entry,
    /// What became of it.
    #[n(1)]
    pub fate: Fate,
}

/// What becomes of an entry of a tail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Fate {
    /// It took no credits, and nobody was told of it.
    #[n(0)]
    Dropped,
    /// It is known here: the same call was answered here again, or has been heard of from a region.
    #[n(1)]
    Matched,
    /// Another call was answered here under the same key: one key is one effect, so that one stands.
    #[n(2)]
    OtherUnderKey,
    /// It is booked.
    #[n(3)]
    Booked,
    /// It took credits, and cannot have been answered.
    #[n(4)]
    Unanswered,
    /// It is a hold, of which nothing was taken here. It may have been answered.
    #[n(5)]
    HoldDropped,
}

/// A run that is being put together.
struct Run {
    tail: Tail,
    lost: Vec<LostEntry>,
    /// Whether it has been written that the tail ends.
    is_done: bool,
}

/// A spend of a tail that is to be booked.
struct LateSpend {
    /// The hold that it was taken from, as it is here.
    hold: Option<Hold>,
    amount: Credits,
}

/// What a booking sees besides the account.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) now: LogTime,
    pub(super) history: &'a dyn HistoryReader,
    pub(super) keys: &'a PageKeys,
}

impl Tail {
    /// A tail of which nothing is known yet.
    pub(crate) fn new(from: Region, epoch: Epoch, last: Booked, quarantine: Credits) -> Self {
        let none = Credits::ZERO;
        Self {
            from,
            epoch,
            forked_at: last.sequence,
            quarantine,
            booked: last,
            counted: none,
            debited: none,
            matched: none,
            unanswered: none,
            held: none,
            again: BTreeMap::new(),
            stand_ins: BTreeMap::new(),
        }
    }

    /// Whether nothing of it is booked.
    pub(crate) fn is_untouched(&self) -> bool {
        self.booked.sequence == self.forked_at
    }

    /// The lost home's log turned out to part from what came over earlier.
    fn parts_at(&mut self, common: Booked) {
        self.forked_at = common.sequence;
        self.booked = common;
    }
}

impl TailRun {
    /// The kind of this home's entry: that of the spend, if it made one.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.spend {
            None => "tail",
            Some(_) if self.reclaims() => "reclaim",
            Some(hold) if hold.kind == HoldKind::Charge => "charge",
            Some(_) => "late_capture",
        }
    }

    /// The charge that it makes, if it makes one.
    pub(crate) fn new_charge(&self) -> Option<&Hold> {
        self.spend.as_ref().filter(|hold| hold.changed_before.is_none())
    }

    /// Whether credits that it takes are charged again, after a refund.
    pub(crate) fn reclaims(&self) -> bool {
        self.lost.last().is_some_and(|lost| matches!(lost.entry.fact, Fact::Reclaimed(_)))
            && self.spend.is_some()
    }
}

impl Account {
    /// The tails of lost homes that are neither booked nor written off.
    pub fn tails(&self) -> impl Iterator<Item = &Tail> {
        self.home_side().into_iter().flat_map(|home| home.tails.values())
    }

    /// Books a page of a tail. Refuses: no such tail; a hole; entries that do not continue what is
    /// known here; nothing new.
    pub(crate) fn book_tail(
        &mut self,
        page: &TailPage,
        now: LogTime,
        scribe: &mut Scribe<'_>,
    ) -> Result<Outcome, HistoryError> {
        let (tail, lost) = match self.read_tail(page, &*scribe.history)? {
            Ok(read) => read,
            Err(refusal) => return Ok(Outcome::refused(refusal)),
        };
        let keys = PageKeys::of(&lost);
        let mut run = Run { tail, lost: Vec::new(), is_done: false };
        let mut written = None;
        let mut rest = lost.into_iter();
        while let Some(entry) = rest.next() {
            let hash = hash_of(&codec::encode(&entry));
            run.tail.booked = Booked { sequence: entry.sequence, hash: Some(hash) };
            let seen = Seen { now, history: &*scribe.history, keys: &keys };
            let spend = self.judge(&mut run, entry, seen)?;
            if let Some(spend) = spend {
                run.is_done = page.is_last && rest.as_slice().is_empty();
                written = Some(self.write_spend(&mut run, spend, now, scribe)?);
            }
        }
        if !run.lost.is_empty() || page.is_last && !run.is_done {
            let Run { tail, lost, .. } = run;
            let run = TailRun { tail, lost, spend: None, is_last: page.is_last };
            let draft = Draft::still(Fact::TailBooked(Box::new(run)));
            let (entry, _) = self.append(draft, now, Origin::default(), scribe);
            written = Some(self.receipt(entry, now, Credits::ZERO));
        }
        Ok(Outcome { result: written.ok_or(Rejection::NothingNew), replayed: false })
    }

    /// The tail that a page is of, and what of the page is not booked yet.
    fn read_tail(
        &self,
        page: &TailPage,
        history: &dyn HistoryReader,
    ) -> Result<Result<(Tail, Vec<Entry>), Rejection>, HistoryError> {
        let tail = self.home_side().ok().and_then(|home| home.tails.get(&page.epoch));
        let Some(mut tail) = tail.cloned() else { return Ok(Err(Rejection::NothingNew)) };
        let Some(entries) = read_entries(page) else {
            let sequence = tail.booked.sequence.next();
            return Ok(Err(Rejection::ReportForked { sequence }));
        };
        if tail.is_untouched()
            && let Some((first, _)) = entries.first()
            && first.sequence <= tail.forked_at
        {
            let Some(common) = self.common_with_lost(&tail, (first, &entries), history)? else {
                return Ok(Err(Rejection::ReportForked { sequence: first.sequence }));
            };
            // What is here of a log that goes on beyond this page says nothing of where they part.
            let goes_on = entries.last().is_some_and(|(last, _)| last.sequence > common.sequence);
            if goes_on || page.is_last {
                tail.parts_at(common);
            }
        }
        let mut last = tail.booked;
        let mut lost = Vec::with_capacity(entries.len());
        for (entry, hash) in entries {
            if entry.sequence <= tail.booked.sequence && lost.is_empty() {
                continue;
            }
            if entry.sequence > last.sequence.next() && lost.is_empty() {
                return Ok(Err(Rejection::ReportGap { booked: last.sequence }));
            }
            if entry.sequence != last.sequence.next() || last.hash != Some(entry.prev_hash) {
                return Ok(Err(Rejection::ReportForked { sequence: last.sequence.next() }));
            }
            last = Booked { sequence: entry.sequence, hash: Some(hash) };
            lost.push(entry);
        }
        Ok(Ok((tail, lost)))
    }

    /// Notes what becomes of an entry, and tells what is to be booked for it.
    fn judge(
        &self,
        run: &mut Run,
        entry: Entry,
        seen: Seen<'_>,
    ) -> Result<Option<LateSpend>, HistoryError> {
        let worth = counted(&entry).unwrap_or(Credits::ZERO);
        let tail = &mut run.tail;
        tail.counted = tail.counted.checked_add(worth).unwrap_or(Credits::MAX);
        let mut spend = None;
        let known = self.known_under_key(&entry, seen)?;
        let fate = match (&entry.fact, known) {
            (Fact::Authorized(hold), Some(known)) => {
                tail.again.extend(known.hold.map(|here| (hold.number, here)));
                known.fate
            }
            (Fact::Authorized(hold), None) => {
                grow(&mut tail.held, hold.amount);
                Fate::HoldDropped
            }
            (_, _) if worth.is_zero() => Fate::Dropped,
            (_, Some(known)) => {
                grow(&mut tail.matched, worth);
                known.fate
            }
            (_, None) => {
                let (fate, booked) = self.judge_spend(tail, &entry, worth, seen)?;
                spend = booked;
                fate
            }
        };
        run.lost.push(LostEntry { entry, fate });
        Ok(spend)
    }

    /// Judges a spend whose key is not known here.
    fn judge_spend(
        &self,
        tail: &mut Tail,
        entry: &Entry,
        worth: Credits,
        seen: Seen<'_>,
    ) -> Result<(Fate, Option<LateSpend>), HistoryError> {
        if tail.counted > tail.quarantine {
            grow(&mut tail.unanswered, worth);
            return Ok((Fate::Unanswered, None));
        }
        let hold = self.hold_here(tail, entry, seen)?;
        let is_known = match (&entry.fact, &hold) {
            (Fact::Reclaimed(_), Some(here)) => here.reclaimed.is_some(),
            // What it would undo is not known here, so there is nothing to be taken again.
            (Fact::Reclaimed(_), None) => true,
            (Fact::Charged(_), _) | (_, None) => false,
            (_, Some(here)) => self.has_stand_in(tail, here, seen)?,
        };
        let amount = match (&entry.fact, &hold) {
            (Fact::Reclaimed(_), Some(here)) => worth.min(here.net_refunded()),
            _ => worth,
        };
        if is_known || amount.is_zero() {
            grow(&mut tail.matched, worth);
            return Ok((Fate::Matched, None));
        }
        grow(&mut tail.debited, amount);
        Ok((Fate::Booked, Some(LateSpend { hold, amount })))
    }

    /// The hold or charge here that an entry of the tail is about. It is home's own: nothing about a
    /// region's is counted under X.
    fn hold_here(
        &self,
        tail: &Tail,
        entry: &Entry,
        seen: Seen<'_>,
    ) -> Result<Option<Hold>, HistoryError> {
        let lost = entry.fact.hold().filter(|_| !matches!(entry.fact, Fact::Charged(_)));
        let Some(lost) = lost else { return Ok(None) };
        let number = if lost.number.0 <= tail.forked_at {
            lost.number
        } else {
            // A number from after the fork is another hold's here.
            let Some(again) = tail.again.get(&lost.number) else { return Ok(None) };
            *again
        };
        let target = match lost.kind {
            HoldKind::Hold => Target::Hold(number),
            HoldKind::Charge => Target::Charge(number),
        };
        self.find_hold(target, seen.now, seen.history)
    }

    /// Writes the entry that books a spend, under the key of the call that made it there: so a repeat
    /// of that call is answered with it.
    fn write_spend(
        &mut self,
        run: &mut Run,
        spend: LateSpend,
        now: LogTime,
        scribe: &mut Scribe<'_>,
    ) -> Result<crate::Receipt, HistoryError> {
        let lost = std::mem::take(&mut run.lost);
        let last = lost.last().map(|lost| lost.entry.clone());
        let last = last.expect("a spend is of the entry that was judged last");
        let (hold, moves) = self.spend_late(&last, spend, now);
        let tail = run.tail.clone();
        let booked = TailRun { tail, lost, spend: Some(hold), is_last: run.is_done };
        let draft = Draft { fact: Fact::TailBooked(Box::new(booked)), moves };
        let context = Context {
            key: last.key.clone(),
            actor: last.actor,
            reason: last.reason,
            request_id: last.request_id,
            metadata: last.metadata,
        };
        let key = last.key.as_ref().map(request_key);
        let asked = key.zip(last.fingerprint);
        let asked = asked.map(|(key, fingerprint)| Identity { key, fingerprint });
        let (entry, position) =
            self.append(draft, now, Origin { context: Some(&context), asked }, scribe);
        let debt_repaid = self.repay_debt(now, scribe)?;
        self.remember_acceptance(asked, now, position, debt_repaid);
        Ok(self.receipt(entry, now, debt_repaid))
    }

    /// What is taken for a spend, and the hold or charge afterwards.
    fn spend_late(&self, lost: &Entry, spend: LateSpend, now: LogTime) -> (Hold, Vec<Move>) {
        let LateSpend { hold, amount } = spend;
        let mut moves = Vec::new();
        let is_reclaim = matches!(lost.fact, Fact::Reclaimed(_));
        let takes = |hold: &Hold| hold.captured.checked_add(amount);
        let fits = |hold: &Hold| takes(hold).is_some_and(|captured| captured <= Hold::CAPTURED_MAX);
        let Some(mut hold) = hold.filter(|hold| is_reclaim || fits(hold)) else {
            return self.charge_for(lost, amount, now);
        };
        let pinned = if is_reclaim { Credits::ZERO } else { amount.min(hold.held) };
        Self::spend_pinned(&mut hold, pinned, &mut moves);
        self.spend(&self.plan(amount.saturating_sub(pinned)), &mut hold, &mut moves);
        if is_reclaim {
            hold.reclaimed = Some(amount);
        } else {
            hold.captured = sum([hold.captured, amount].into_iter());
            let was_last = lost.fact.hold().is_some_and(|it| it.state != HoldState::Active);
            match hold.state {
                HoldState::Active if was_last => {
                    moves.extend(self.unpin(&mut hold));
                    self.end(&mut hold, HoldState::Captured);
                }
                HoldState::Expired => self.end(&mut hold, HoldState::Captured),
                // INV-3: it has ended here in another way, and stays as it ended.
                HoldState::Active | HoldState::Captured | HoldState::Released => (),
            }
        }
        self.touch(&mut hold);
        (hold, moves)
    }

    /// A charge for work of which no hold is known here.
    fn charge_for(&self, lost: &Entry, amount: Credits, now: LogTime) -> (Hold, Vec<Move>) {
        let reference = lost.fact.hold().and_then(|hold| hold.reference.clone());
        let mut charge = self.new_hold(HoldKind::Charge, amount, now, reference);
        charge.captured = amount;
        // It was delivered, so it counts in its budgets, whatever is left of them.
        charge.caps = lost.fact.hold().map(|hold| hold.caps.clone()).unwrap_or_default();
        let plan = self.plan(amount);
        let mut moves = Vec::new();
        self.spend(&plan, &mut charge, &mut moves);
        charge.lots = plan.portions.into_boxed_slice();
        (charge, moves)
    }

    /// Gives up on a tail: what it took is nobody's. Refuses: no such tail; the account has changed
    /// since the operator looked.
    pub(crate) fn decide_write_off_tail(&self, asked: &WriteOffTail) -> Result<Draft, Rejection> {
        let tail = self.home_side()?.tails.get(&asked.epoch).ok_or(Rejection::TailUnknown)?;
        self.refuse_stale(asked.confirm)?;
        Ok(Draft::still(Fact::TailWrittenOff(Box::new(tail.clone()))))
    }

    /// A tail is booked as far as the run says.
    pub(crate) fn evolve_tail(&mut self, run: &TailRun) {
        let Some(home) = self.home_side_mut() else { return };
        if run.is_last {
            home.tails.remove(&run.tail.epoch);
        } else {
            home.tails.insert(run.tail.epoch, run.tail.clone());
        }
    }

    /// A tail is given up.
    pub(crate) fn evolve_tail_written_off(&mut self, tail: &Tail) {
        if let Some(home) = self.home_side_mut() {
            home.tails.remove(&tail.epoch);
        }
    }
}

/// Whether a spend is of debt that `entry` made for a tail.
pub(crate) fn owes_for_tail(entry: &Entry, source: Source) -> bool {
    matches!(entry.fact, Fact::TailBooked(_)) && source == Source::Debt(entry.sequence)
}

/// The entries of a page with their hashes; nothing if one cannot be read.
fn read_entries(page: &TailPage) -> Option<Vec<(Entry, Digest32)>> {
    let read = |bytes: &ByteVec| Some((codec::decode(bytes).ok()?, hash_of(bytes)));
    page.entries.iter().map(read).collect()
}

fn grow(figure: &mut Credits, amount: Credits) {
    *figure = figure.checked_add(amount).unwrap_or(Credits::MAX);
}
