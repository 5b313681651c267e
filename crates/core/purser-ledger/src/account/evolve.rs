//! Applying an entry. Cannot fail: what an entry says has happened.
//!
//! The same code serves a live account, a replica, and an audit that rebuilds the state from the
//! entries alone.

use std::collections::BTreeSet;
use std::ops::Bound;

use purser_types::{Position, Sequence};

use super::due::{effective, end_of_hold, expiry};
use super::grants::source_digest;
use super::{Account, Debt, Head, HoldKey, Side};
use crate::chain::MARK_EVERY;
use crate::command::LotNumber;
use crate::digest::Digest32;
use crate::entry::{Bucket, Entry, Fact, Move};
use crate::hold::{Hold, HoldState, Source, Spend, sum};
use crate::home::owes_for_tail;
use crate::lot::{Lot, LotPhase, LotTerms};
use crate::region::{BookPhase, RegionSide};

impl Account {
    /// Applies the next entry of the account, whose bytes have `hash` and stand at `position`.
    pub(crate) fn evolve(&mut self, entry: &Entry, hash: Digest32, position: Position) {
        assert_eq!(entry.sequence, self.head.sequence.next(), "INV-10: entries have no holes");
        assert_eq!(entry.prev_hash, self.head.hash, "INV-10: entries form one chain");
        let balance = self.balance.after(&entry.fact, &entry.moves);
        assert_eq!(
            balance.as_ref(),
            Ok(&entry.balance),
            "INV-1: an entry's moves explain its balance"
        );

        if let Some(terms) = entry.fact.new_lot() {
            self.add_lot(LotNumber(entry.sequence), terms);
        }
        if let Fact::VoucherAccepted(voucher) = &entry.fact {
            self.evolve_voucher(voucher, entry.log_time);
        }
        for step in &entry.moves {
            self.evolve_lot(step);
        }
        if let Some((number, phase)) = entry.fact.new_phase() {
            self.enter_phase(number, phase);
        }
        self.evolve_fact(entry, position);
        self.evolve_caps(entry);
        self.balance = entry.balance.clone();
        self.head = Head { sequence: entry.sequence, hash, position: Some(position) };
        if entry.sequence.0.is_multiple_of(MARK_EVERY) {
            self.marks.insert(entry.sequence, position);
        }
    }

    fn evolve_fact(&mut self, entry: &Entry, position: Position) {
        match &entry.fact {
            Fact::Opened { standing, epoch, .. } => {
                self.standing = standing.clone();
                // Most accounts never need a home side, and it is made where it is asked for.
                if let Some(epoch) = epoch
                    && let Some(home) = self.home_side_mut()
                {
                    home.epoch = *epoch;
                }
            }
            Fact::PolicySet(standing)
            | Fact::Frozen(standing)
            | Fact::Unfrozen(standing)
            | Fact::Closed(standing) => {
                self.standing = standing.clone();
                self.renew_vouchers();
            }
            Fact::LotEffective(_)
            | Fact::LotExpired(_)
            | Fact::Voided { .. }
            | Fact::Granted(_)
            | Fact::AdjustedUp(_)
            | Fact::AdjustedDown => (),
            Fact::Allocated(allocation)
            | Fact::AllocationSet(allocation)
            | Fact::TakenBack(allocation)
            | Fact::Covered(allocation)
            | Fact::CoverPaid(allocation)
            | Fact::WrittenOff(allocation) => self.evolve_allocation(allocation),
            Fact::Settled(settlement) => self.evolve_settlement(settlement, entry, position),
            Fact::HomeStopped(departure) => self.evolve_stop(*departure),
            Fact::HomeMoved(change) => self.evolve_home(change, entry.sequence),
            Fact::TailWrittenOff(tail) => self.evolve_tail_written_off(tail),
            Fact::TailBooked(run) => {
                self.evolve_tail(run);
                if let Some(hold) = &run.spend {
                    self.evolve_hold(hold, entry, position);
                }
            }
            Fact::VoucherAccepted(_) => (),
            Fact::ReturnedHome { recall } => self.evolve_book(|book| {
                book.answered = book.answered.max(*recall);
            }),
            Fact::AllocationSealed => self.evolve_book(|book| book.phase = BookPhase::Sealed),
            Fact::AllocationFinished => self.evolve_book(|book| book.phase = BookPhase::Finished),
            Fact::Authorized(hold)
            | Fact::Captured(hold)
            | Fact::Released(hold)
            | Fact::HoldExpired(hold)
            | Fact::Extended(hold)
            | Fact::Charged(hold)
            | Fact::LateCaptured(hold)
            | Fact::Refunded { hold, .. }
            | Fact::RefundPromised { hold, .. }
            | Fact::Reclaimed(hold)
            | Fact::DebtRepaid(hold) => self.evolve_hold_or_away(hold, entry, position),
            Fact::JobCreated(change) | Fact::JobOutcome(change) | Fact::JobDiscarded(change) => {
                self.evolve_hold(&change.hold, entry, position);
                self.evolve_job(&change.job, entry, position);
            }
            Fact::JobLeased(job) | Fact::JobRenewed(job) | Fact::JobRedriven(job) => {
                self.evolve_job(job, entry, position);
            }
            Fact::EventApplied(change) => self.evolve_event(change, entry, position),
            Fact::EventParked(parked) => self.evolve_parked(parked, entry, position),
            Fact::EventDiscarded(parked) => self.evolve_discarded(parked, entry, position),
            Fact::BudgetSet(budget) => self.evolve_budget(budget),
            Fact::BudgetRemoved(budget) => self.evolve_budget_removed(budget),
        }
    }

    /// A hold of this book, or a region's, of which the region's own book does not know what happens here.
    pub(crate) fn evolve_hold_or_away(&mut self, hold: &Hold, entry: &Entry, position: Position) {
        if hold.allocation == Sequence::ZERO {
            return self.evolve_hold(hold, entry, position);
        }
        let key = HoldKey { allocation: hold.allocation, hold: hold.number };
        self.evolve_away(key, &hold.spent, entry, position);
        self.evolve_reversal(key, !hold.spent.is_empty());
    }

    fn evolve_book(&mut self, change: impl FnOnce(&mut RegionSide)) {
        if let Side::Region(book) = &mut self.side {
            change(book);
        }
    }

    pub(crate) fn add_lot(&mut self, number: LotNumber, terms: &LotTerms) {
        if let Some(source_ref) = &terms.source_ref {
            self.source_refs.insert(source_digest(source_ref), number);
        }
        self.agenda.insert(effective(number, terms), ());
        if let Some(due) = expiry(number, terms) {
            self.agenda.insert(due, ());
        }
        self.lots.insert(number, Lot::pending(terms.clone()));
    }

    fn evolve_lot(&mut self, step: &Move) {
        let Some(number) = step.lot else { return };
        let lot = self.lots.get_mut(&number).expect("INV-9: moves name known lots");
        let was_drawable = lot.is_drawable();
        if step.takes_effect() {
            lot.phase = LotPhase::Active;
            self.agenda.remove(&effective(number, &lot.terms));
        }
        lot.evolve(step);
        let (key, is_drawable) = (lot.draw_key(number), lot.is_drawable());
        let cover = lot.only_for.is_some().then(|| lot.is_open_cover());
        match (was_drawable, is_drawable) {
            (false, true) => drop(self.draw_order.insert(key, ())),
            (true, false) => drop(self.draw_order.remove(&key)),
            (true, true) | (false, false) => (),
        }
        if let Some(is_open) = cover {
            self.note_cover(number, is_open);
        }
    }

    pub(crate) fn enter_phase(&mut self, number: LotNumber, phase: LotPhase) {
        let lot = self.lots.get_mut(&number).expect("INV-9: facts name known lots");
        lot.phase = phase;
        self.agenda.remove(&effective(number, &lot.terms));
        let ends = matches!(phase, LotPhase::Expired | LotPhase::Voided);
        if ends && let Some(due) = expiry(number, &lot.terms) {
            self.agenda.remove(&due);
        }
    }

    fn evolve_hold(&mut self, hold: &Hold, entry: &Entry, position: Position) {
        if let Some(before) = self.holds.get(&hold.number) {
            self.agenda.remove(&end_of_hold(before));
        }
        if hold.state == HoldState::Active {
            self.agenda.insert(end_of_hold(hold), ());
            self.holds.insert(hold.number, hold.clone());
        } else {
            self.holds.remove(&hold.number);
            let retention = self.standing.policy.record_retention;
            self.ended.insert(hold.number, position, entry.log_time, retention);
        }
        self.evolve_hold_of_job(hold.number, position);
        let ended = hold.state != HoldState::Active;
        let key = HoldKey::own(hold.number);
        if ended && owes(&hold.spent) {
            self.owing.insert(key, position);
        } else {
            self.owing.remove(&key);
        }
        self.evolve_debts(key, &hold.spent, entry);
    }

    /// What has paid for a region's hold.
    pub(crate) fn evolve_away(
        &mut self,
        key: HoldKey,
        spent: &[Spend],
        entry: &Entry,
        position: Position,
    ) {
        let retention = self.standing.policy.record_retention;
        if let Some(home) = self.home_side_mut() {
            home.away.insert(key, position, entry.log_time, retention);
        }
        if owes(spent) {
            self.owing.insert(key, position);
        } else {
            self.owing.remove(&key);
        }
        self.evolve_debts(key, spent, entry);
    }

    /// What the hold owes now is what its record says.
    fn evolve_debts(&mut self, debtor: HoldKey, spent: &[Spend], entry: &Entry) {
        // What belongs to no lot is owed, also while it is out under a cover.
        let touches_debt = |step: &Move| {
            step.lot.is_none() || step.from == Bucket::Debt || step.to == Bucket::Debt
        };
        if matches!(self.side, Side::Region(_)) || !entry.moves.iter().any(touches_debt) {
            return;
        }
        let from = (debtor, Sequence::ZERO);
        let own = self.debts_of.range_from(Bound::Included(&from)).map(|(key, ())| *key);
        let before: Vec<_> = own.take_while(|(other, _)| *other == debtor).collect();
        let mut realised = self.realised();
        let in_region = debtor.allocation != Sequence::ZERO;
        let mut overspent = BTreeSet::new();
        for key in before {
            self.debts_of.remove(&key);
            let debt = self.debts.remove(&key.1);
            if let Some(Debt { amount, .. }) = debt.filter(|debt| debt.is_realised) {
                realised = realised.saturating_sub(amount);
                overspent.insert(key.1);
            }
        }
        for spend in spent {
            if let Source::Debt(origin) = spend.source {
                // Debt from before the entry is overspend if it was; a cover's was allowed when it was given,
                // and what is decided here when its call allowed it.
                let is_settled = matches!(entry.fact, Fact::Settled(_));
                let is_overspent = in_region && is_settled && origin == entry.sequence;
                let is_realised = is_overspent
                    || overspent.contains(&origin)
                    || owes_for_tail(entry, spend.source);
                let debt = Debt { debtor, amount: spend.amount, is_realised };
                self.debts.insert(origin, debt);
                self.debts_of.insert((debtor, origin), ());
                if is_realised {
                    realised = sum([realised, spend.amount].into_iter());
                }
            }
        }
        if realised != self.realised()
            && let Some(home) = self.home_side_mut()
        {
            home.realised = realised;
        }
    }
}

fn owes(spent: &[Spend]) -> bool {
    spent.iter().any(|spend| matches!(spend.source, Source::Debt(_)))
}
