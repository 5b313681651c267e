//! Booking what a region reports: its own entries, in their order, once each.
//!
//! ```text
//!  report ─▶ chain fits what is booked? ─▶ entries, cut into runs of one class ─▶ one entry a run
//! ```
//!
//! A run ends where the next entry needs more than what is out, because then this account pays, by
//! its burn-down order or as debt. An entry is a fact: nothing here refuses what a region has
//! decided. Only a report that does not continue what is booked is refused, whole.

use purser_types::{Credits, HistoryError, HistoryReader, LogTime, Owner, Sequence};

use super::{Allocation, AllocationStatus, Settlement, SettlementClass, Shipped};
use crate::account::{Account, Draft, HoldKey, Origin, Scribe, read_entry, take_last};
use crate::answer::Outcome;
use crate::codec;
use crate::command::{HoldNumber, Item};
use crate::digest::{Digest32, hash_of};
use crate::entry::{Bucket, Entry, Fact, Move, allocation_genesis};
use crate::hold::{Hold, Portion, Source, Spend, add_spend, sum};
use crate::lot::LotTerms;
use crate::protocol::{Booked, Mode, Report};
use crate::rejection::Rejection;

/// An entry of a region and its hash.
struct Reported {
    entry: Entry,
    hash: Digest32,
}

/// What a region's entries add up to, followed from what is booked: the check on the cumulative
/// figures that they carry.
struct Figures {
    spent: u128,
    returned: u128,
}

/// What a booking sees besides the account.
#[derive(Clone, Copy)]
struct Seen<'a> {
    now: LogTime,
    history: &'a dyn HistoryReader,
}

/// A run that is being put together.
struct Run {
    settlement: Settlement,
    moves: Vec<Move>,
}

impl Account {
    /// Books the entries of a report that are not booked yet. Refuses: no such allocation; a region
    /// that knows of a later home; a hole; entries that do not continue what is booked.
    pub(crate) fn settle(
        &mut self,
        report: &Report,
        item: &Item,
        now: LogTime,
        scribe: &mut Scribe<'_>,
    ) -> Result<Outcome, HistoryError> {
        let reported = match self.read_report(report) {
            Ok(reported) => reported,
            // A book that has lost its past says so, and what else it says is not booked.
            Err(Rejection::ReportForked { .. }) if report.is_sealed => Vec::new(),
            Err(refusal) => return Ok(Outcome::refused(refusal)),
        };
        let origin = Origin { context: Some(&item.context), asked: None };
        let mut rest = reported.into_iter().peekable();
        let mut written = None;
        while let Some(first) = rest.next() {
            let pending = self.allocation(report.owner).ok().and_then(|known| known.transfer);
            let seen = Seen { now, history: &*scribe.history };
            let mut run = self.begin_run(report.owner, first, seen)?;
            while let Some(next) = rest.next_if(|next| run.takes(&next.entry)) {
                self.add_to_run(&mut run, next, seen)?;
            }
            let Run { settlement, moves } = run;
            let draft = Draft { fact: Fact::Settled(Box::new(settlement)), moves };
            let (entry, _) = self.append(draft, now, origin, scribe);
            let debt_repaid = self.repay_debt(now, scribe)?;
            let granted = pending.and_then(|pending| self.decide_transferred(pending, &entry));
            if let Some(granted) = granted {
                self.append(granted, now, origin, scribe);
            }
            written = Some(self.receipt(entry, now, debt_repaid));
        }
        if let Some(draft) = self.seal_at_home(report) {
            let (entry, _) = self.append(draft, now, origin, scribe);
            written = Some(self.receipt(entry, now, Credits::ZERO));
        }
        // A report without news is no entry: it is answered with the voucher.
        let result = written.ok_or(Rejection::NothingNew);
        Ok(Outcome { result, replayed: false })
    }

    /// The region says that its book has lost its past: nothing more is granted to it, and what is out
    /// stays out until an operator decides.
    fn seal_at_home(&self, report: &Report) -> Option<Draft> {
        let allocation = self.allocation(report.owner).ok()?;
        if !report.is_sealed || allocation.status != AllocationStatus::Open {
            return None;
        }
        let mut allocation = allocation.clone();
        allocation.status = AllocationStatus::Sealed;
        allocation.mode = Mode::Ending;
        allocation.renew();
        Some(Draft { fact: Fact::AllocationSet(Box::new(allocation)), moves: Vec::new() })
    }

    /// The entries of a report that are not booked yet.
    fn read_report(&self, report: &Report) -> Result<Vec<Reported>, Rejection> {
        let allocation = self.allocation(report.owner)?;
        let epoch = self.home_side()?.epoch;
        if report.epoch > epoch {
            return Err(Rejection::EpochFenced { epoch: report.epoch });
        }
        let Booked { sequence: booked, hash } = allocation.booked;
        let mut last = hash.unwrap_or_else(|| allocation_genesis(&self.name, report.owner));
        let mut next = booked.next();
        let mut figures = Figures::of(allocation);
        let mut reported = Vec::with_capacity(report.entries.len());
        for bytes in &report.entries {
            let forked = Rejection::ReportForked { sequence: next };
            let entry: Entry = codec::decode(bytes).map_err(|_unreadable| forked.clone())?;
            if entry.sequence < next && reported.is_empty() {
                if entry.sequence == booked && hash_of(bytes) != last {
                    return Err(Rejection::ReportForked { sequence: booked });
                }
                continue;
            }
            if entry.sequence > next && reported.is_empty() {
                return Err(Rejection::ReportGap { booked });
            }
            let continues = entry.sequence == next && entry.prev_hash == last;
            if !continues || !figures.explain(&entry) {
                return Err(forked);
            }
            last = hash_of(bytes);
            next = next.next();
            reported.push(Reported { entry, hash: last });
        }
        Ok(reported)
    }

    /// Starts a run with an entry that may need this account to pay.
    fn begin_run(
        &self,
        owner: Owner,
        first: Reported,
        seen: Seen<'_>,
    ) -> Result<Run, HistoryError> {
        let allocation = self.allocation(owner).expect("the report was read against it").clone();
        let class = class_of(&first.entry).unwrap_or(SettlementClass::Spend);
        let settlement = Settlement { class, allocation, shipped: Vec::new(), regrant: None };
        let mut run = Run { settlement, moves: Vec::new() };
        self.add_to_run(&mut run, first, seen)?;
        if class == SettlementClass::Refund {
            run.settlement.regrant = self.regrant(&run.moves, seen.now);
        }
        if let Some(LotTerms { amount, .. }) = &run.settlement.regrant {
            let lot = Some(self.next_lot());
            run.moves.extend(Move::some(lot, Bucket::Granted, Bucket::Available, *amount));
        }
        Ok(run)
    }

    fn add_to_run(
        &self,
        run: &mut Run,
        reported: Reported,
        seen: Seen<'_>,
    ) -> Result<(), HistoryError> {
        let Reported { entry, hash } = reported;
        let same = self.same_request(&entry, seen.now);
        let mut spent = match entry.fact.hold() {
            Some(hold) if has_spent_before(hold, &entry) => {
                self.spent_before(run, hold.number, seen.history)?
            }
            Some(_) | None => Vec::new(),
        };
        self.book_moves(run, &entry, &mut spent);
        if let Fact::RefundPromised { amount, .. } = &entry.fact {
            let given = take_last(&mut spent, *amount);
            run.moves.extend(given.into_iter().filter_map(|spend| self.give_back(spend)));
        }
        run.settlement.allocation.follow(&entry, hash);
        let allocation = &mut run.settlement.allocation;
        allocation.forget_covers();
        if allocation.status == AllocationStatus::Closed {
            // The region is done, and takes up no voucher any more: what it never heard of comes back.
            allocation.returned = sum([allocation.returned, allocation.outstanding()].into_iter());
            run.moves.extend(self.bring_rest_home(allocation));
        }
        run.settlement.shipped.push(Shipped { entry, spent, same });
        Ok(())
    }

    /// Books what a region spent and returned. What it spent beyond what is out is paid from what is
    /// available here, and what is missing then is owed.
    fn book_moves(&self, run: &mut Run, entry: &Entry, spent: &mut Vec<Spend>) {
        let allocation = &mut run.settlement.allocation;
        let from = Bucket::Allocated(allocation.owner.region);
        let mut missing = Credits::ZERO;
        let is_booked = |step: &&Move| matches!(step.to, Bucket::Used | Bucket::Returned);
        for step in entry.moves.iter().filter(is_booked) {
            let is_spent = step.to == Bucket::Used;
            let portions = allocation.draw(step.lot, step.amount);
            let short_by = step.amount.saturating_sub(sum_of(&portions));
            allocation.prove(short_by);
            for part in portions {
                if is_spent {
                    run.moves.extend(Move::some(part.lot(), from, Bucket::Used, part.amount));
                    add_spend(spent, part.source, part.amount);
                } else {
                    run.moves.extend(self.bring_home(from, part));
                }
            }
            if is_spent {
                missing = sum([missing, short_by].into_iter());
            }
        }
        let plan = self.plan(missing);
        for Portion { lot, amount } in plan.portions {
            run.moves.extend(Move::some(Some(lot), Bucket::Available, Bucket::Used, amount));
            add_spend(spent, Source::Lot(lot), amount);
        }
        run.moves.extend(Move::some(None, Bucket::Debt, Bucket::Used, plan.short_by));
        add_spend(spent, Source::Debt(self.head.sequence.next()), plan.short_by);
    }

    /// What paid for a region's hold so far.
    fn spent_before(
        &self,
        run: &Run,
        number: HoldNumber,
        history: &dyn HistoryReader,
    ) -> Result<Vec<Spend>, HistoryError> {
        let settlement = &run.settlement;
        if let Some(shipped) = settlement.last_about(number) {
            return Ok(shipped.spent.clone());
        }
        let key = HoldKey { allocation: settlement.allocation.opened_by, hold: number };
        self.spent_by_away(key, history)
    }

    /// What paid for a region's hold that has spent, as it was last booked.
    pub(crate) fn spent_by_away(
        &self,
        key: HoldKey,
        history: &dyn HistoryReader,
    ) -> Result<Vec<Spend>, HistoryError> {
        let Ok(home) = self.home_side() else { return Ok(Vec::new()) };
        let latest = home.away.latest(&key).map(|kept| kept.value);
        let Some(position) = latest.or_else(|| self.owing.get(&key).copied()) else {
            return self.search_spent(key, history);
        };
        Ok(spent_in(read_entry(history, position)?.fact, key).unwrap_or_default())
    }

    /// The same by going back through the entries: the record has passed its retention here, though
    /// it had not in the region when the region decided. That takes a report as late as that.
    fn search_spent(
        &self,
        key: HoldKey,
        history: &dyn HistoryReader,
    ) -> Result<Vec<Spend>, HistoryError> {
        for hashed in self.entries_back_from(self.head.sequence, history)? {
            let entry = hashed?.entry;
            if entry.sequence <= key.allocation {
                break;
            }
            if let Some(spent) = spent_in(entry.fact, key) {
                return Ok(spent);
            }
        }
        Ok(Vec::new())
    }
}

impl Figures {
    fn of(allocation: &Allocation) -> Self {
        Self { spent: allocation.spent.get().into(), returned: allocation.returned.get().into() }
    }

    /// Adds an entry's moves, and tells whether that is what the entry says.
    fn explain(&mut self, entry: &Entry) -> bool {
        for step in &entry.moves {
            let figure = match step.to {
                Bucket::Used => &mut self.spent,
                Bucket::Returned => &mut self.returned,
                Bucket::Granted
                | Bucket::Available
                | Bucket::Held
                | Bucket::Expired
                | Bucket::Voided
                | Bucket::Debt
                | Bucket::Allocated(_) => continue,
            };
            *figure = figure.saturating_add(step.amount.get().into());
        }
        let says = |amount: Credits| u128::from(amount.get());
        self.spent == says(entry.balance.used) && self.returned == says(entry.balance.returned)
    }
}

impl Run {
    /// Whether an entry can be booked with those before it: of their class, and paid by what is out.
    fn takes(&self, entry: &Entry) -> bool {
        let class = class_of(entry).is_none_or(|class| class == self.settlement.class);
        let alone = matches!(entry.fact, Fact::RefundPromised { .. });
        let needs = entry.moves.iter().filter(|step| step.to == Bucket::Used);
        class && !alone && self.settlement.allocation.pays(needs)
    }
}

impl Settlement {
    /// The last of its entries about a hold or charge.
    pub(crate) fn last_about(&self, number: HoldNumber) -> Option<&Shipped> {
        let about = |shipped: &&Shipped| {
            shipped.entry.fact.hold().is_some_and(|hold| hold.number == number)
        };
        self.shipped.iter().rfind(about)
    }

    /// The hold of a region as home knows it after this settlement.
    pub(crate) fn hold_at_home(&self, key: HoldKey) -> Option<Hold> {
        let shipped = self.last_about(key.hold)?;
        Some(shipped.hold_at_home(shipped.entry.fact.hold()?, key.allocation))
    }
}

impl Shipped {
    /// The region's `hold`, which the entry is about, as home knows it: paid by what paid here.
    pub(crate) fn hold_at_home(&self, hold: &Hold, allocation: Sequence) -> Hold {
        Hold { spent: self.spent.clone(), allocation, ..hold.clone() }
    }
}

/// What an entry comes to; nothing for one that home only keeps.
fn class_of(entry: &Entry) -> Option<SettlementClass> {
    if matches!(entry.fact, Fact::Reclaimed(_)) {
        return Some(SettlementClass::Reclaim);
    }
    if matches!(entry.fact, Fact::RefundPromised { .. }) {
        return Some(SettlementClass::Refund);
    }
    let goes_to = |bucket| entry.moves.iter().any(|step| step.to == bucket);
    match (goes_to(Bucket::Used), goes_to(Bucket::Returned)) {
        (true, _) => Some(SettlementClass::Spend),
        (false, true) => Some(SettlementClass::Return),
        (false, false) => None,
    }
}

/// What paid for a region's hold, if home's fact is about it.
fn spent_in(fact: Fact, key: HoldKey) -> Option<Vec<Spend>> {
    if let Fact::Settled(settlement) = fact {
        let is_meant = settlement.allocation.opened_by == key.allocation;
        let last = settlement.last_about(key.hold).filter(|_| is_meant);
        return last.map(|shipped| shipped.spent.clone());
    }
    let hold = fact.into_hold()?;
    let is_meant = hold.allocation == key.allocation && hold.number == key.hold;
    is_meant.then_some(hold.spent)
}

/// Whether a region's hold or charge had spent anything before the entry.
fn has_spent_before(hold: &Hold, entry: &Entry) -> bool {
    let ever = [hold.captured, hold.reclaimed.unwrap_or_default()];
    let now = entry.moves.iter().filter(|step| step.to == Bucket::Used).map(|step| step.amount);
    sum(ever.into_iter()) > sum(now)
}

fn sum_of(parts: &[Spend]) -> Credits {
    sum(parts.iter().map(|part| part.amount))
}
