//! What happens by itself in the book: holds and lots end, lots start, debt is paid.
//!
//! At one instant in this order: holds end, lots expire, lots start, debt is paid.

use purser_api::EntryKind;
use purser_types::LogTime;

use super::work::{Payer, Payment};
use super::{About, Book, BookLot, Stage, WorkState};

impl Book {
    /// Lets time pass up to `until`, that instant included: what is due takes effect.
    pub(crate) fn let_pass(&mut self, until: LogTime) {
        while let Some(at) = self.next_due().filter(|at| *at <= until) {
            self.end_holds(at);
            self.expire_lots(at);
            self.start_lots(at);
            self.repay(at);
        }
    }

    /// When something happens next by itself.
    pub(crate) fn next_due(&self) -> Option<LogTime> {
        let holds = self.active.iter().map(|hold| self.works[hold].expires_at);
        let starts = self.shelf.lots.values().filter(|lot| lot.stage == Stage::Waiting);
        let ends = self.shelf.lots.values().filter_map(ends_at);
        holds.chain(starts.map(|lot| lot.effective_at)).chain(ends).min()
    }

    fn end_holds(&mut self, at: LogTime) {
        let due = |hold: &u64| self.works[hold].expires_at == at;
        let ending: Vec<u64> = self.active.iter().copied().filter(due).collect();
        for hold in ending {
            let before = self.figures();
            self.give_pins_back(hold, WorkState::Expired);
            self.write(at, EntryKind::HoldExpired, About::work(hold), before);
        }
    }

    fn expire_lots(&mut self, at: LogTime) {
        for number in self.lots_where(|lot| ends_at(lot) == Some(at)) {
            let before = self.figures();
            let lot = self.shelf.lot(number);
            lot.expired += std::mem::take(&mut lot.free);
            lot.stage = Stage::Expired;
            self.write(at, EntryKind::LotExpired, About::lot(number), before);
        }
    }

    fn start_lots(&mut self, at: LogTime) {
        for number in self.lots_where(|lot| lot.stage == Stage::Waiting && lot.effective_at == at) {
            let before = self.figures();
            let lot = self.shelf.lot(number);
            lot.free = std::mem::take(&mut lot.waiting);
            lot.stage = Stage::Usable;
            self.write(at, EntryKind::LotEffective, About::lot(number), before);
        }
    }

    fn lots_where(&self, wanted: impl Fn(&BookLot) -> bool) -> Vec<u64> {
        self.shelf.lots.iter().filter(|(_, lot)| wanted(lot)).map(|(number, _)| *number).collect()
    }

    /// Debt is paid as soon as there are credits, the oldest first.
    pub(super) fn repay(&mut self, at: LogTime) {
        while let Some((&owed_since, &(of, owed))) = self.debts.first_key_value()
            && self.shelf.available() > 0
        {
            let before = self.figures();
            let amount = owed.min(before.available);
            let mut paid = Vec::new();
            for part in self.shelf.draw(amount) {
                self.shelf.lot(part.lot).used += part.amount;
                paid.push(Payment { payer: Payer::Lot(part.lot), amount: part.amount });
            }
            self.owe_less(owed_since, amount);
            self.replace_owed(of, owed_since, &paid, owed - amount);
            self.write(at, EntryKind::DebtRepaid, About::work(of), before);
        }
    }

    pub(super) fn owe_less(&mut self, owed_since: u64, amount: u64) {
        let Some((_, owed)) = self.debts.get_mut(&owed_since) else { return };
        *owed = owed.saturating_sub(amount);
        if *owed == 0 {
            self.debts.remove(&owed_since);
        }
    }

    /// What paid a debt takes its place among the payments; what is still owed comes after it.
    fn replace_owed(&mut self, of: u64, owed_since: u64, paid: &[Payment], left: u64) {
        let sequence = self.next_sequence();
        let work = self.work(of);
        work.changed_by = sequence;
        let owed = Payer::Owed(owed_since);
        let mut payments = Vec::new();
        for payment in std::mem::take(&mut work.payments) {
            if payment.payer == owed {
                payments.extend_from_slice(paid);
                payments.extend((left > 0).then_some(Payment { payer: owed, amount: left }));
            } else {
                payments.push(payment);
            }
        }
        work.payments = payments;
    }
}

/// When a lot ends that has not ended yet.
fn ends_at(lot: &BookLot) -> Option<LogTime> {
    let alive = matches!(lot.stage, Stage::Waiting | Stage::Usable);
    lot.expires_at.filter(|_| alive)
}
