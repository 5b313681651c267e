//! What each call does to an account, in the book.

use purser_api::EntryKind;
use purser_types::{LogTime, Span};

use super::work::{Payer, Payment};
use super::{About, Asked, Book, BookLot, Capturing, Granting, Part, Stage, Work, WorkState};

/// What an entry says happened, and to what.
type Happened = (EntryKind, About);

impl Book {
    /// Carries out a call that [`Book::refuse`] does not refuse.
    pub(super) fn apply(&mut self, asked: &Asked, at: LogTime) -> Happened {
        match asked {
            Asked::Open(opening) => {
                self.opening = Some(*opening);
                (EntryKind::Open, About::NOTHING)
            }
            Asked::Grant(granting) => {
                let lot = self.grant(granting, at);
                (EntryKind::Grant, About::lot(lot))
            }
            Asked::Authorize { amount, ttl } => self.authorize(*amount, *ttl, at),
            Asked::Capture(capturing) => self.capture(capturing),
            Asked::Release { hold } => self.release(*hold),
            Asked::Charge { amount, .. } => self.charge(*amount, at),
            Asked::Refund { of, amount } => self.refund(*of, *amount, at),
            Asked::Reclaim { of } => self.reclaim(*of),
            Asked::Void { lot } => self.void(*lot),
        }
    }

    fn grant(&mut self, granting: &Granting, at: LogTime) -> u64 {
        let effective_at = granting.effective_at.unwrap_or(at);
        self.put_lot(granting, effective_at, effective_at <= at)
    }

    fn put_lot(&mut self, granting: &Granting, effective_at: LogTime, usable: bool) -> u64 {
        let (waiting, free) = if usable { (0, granting.amount) } else { (granting.amount, 0) };
        let lot = BookLot {
            amount: granting.amount,
            promotional: granting.promotional,
            priority: granting.priority,
            effective_at,
            expires_at: granting.expires_at,
            stage: if usable { Stage::Usable } else { Stage::Waiting },
            waiting,
            free,
            held: 0,
            used: 0,
            expired: 0,
            voided: 0,
        };
        let sequence = self.next_sequence();
        self.shelf.lots.insert(sequence, lot);
        sequence
    }

    fn authorize(&mut self, amount: u64, ttl: Span, at: LogTime) -> Happened {
        let pins = self.shelf.draw(amount);
        for pin in &pins {
            self.shelf.lot(pin.lot).held += pin.amount;
        }
        let sequence = self.next_sequence();
        let mut work = new_work(amount, at, sequence);
        work.state = WorkState::Active;
        work.expires_at = at.saturating_add(ttl);
        work.made_from.clone_from(&pins);
        work.pins = pins;
        self.works.insert(sequence, work);
        self.active.insert(sequence);
        self.throughput.authorized += u128::from(amount);
        (EntryKind::Authorize, About::work(sequence))
    }

    fn capture(&mut self, asked: &Capturing) -> Happened {
        let hold = asked.hold;
        let work = self.work(hold);
        let held = work.held();
        if work.state == WorkState::Expired {
            let amount = work.late_amount(asked.amount);
            return self.late_capture(hold, amount);
        }
        let amount = asked.amount.unwrap_or(held);
        if amount == 0 {
            return self.release(hold);
        }
        let from_hold = amount.min(held);
        for part in self.work(hold).unpin_first(from_hold) {
            let lot = self.shelf.lot(part.lot);
            lot.held -= part.amount;
            lot.used += part.amount;
            self.pay(hold, Payer::Lot(part.lot), part.amount);
        }
        self.take(hold, amount - from_hold);
        self.count_capture(hold, amount);
        if asked.last {
            self.give_pins_back(hold, WorkState::Captured);
        }
        self.touch(hold);
        (EntryKind::Capture, About::work(hold))
    }

    fn late_capture(&mut self, hold: u64, amount: u64) -> Happened {
        self.take(hold, amount);
        self.count_capture(hold, amount);
        self.work(hold).state = WorkState::Captured;
        self.touch(hold);
        (EntryKind::LateCapture, About::work(hold))
    }

    fn release(&mut self, hold: u64) -> Happened {
        self.give_pins_back(hold, WorkState::Released);
        (EntryKind::Release, About::work(hold))
    }

    fn charge(&mut self, amount: u64, at: LogTime) -> Happened {
        let sequence = self.next_sequence();
        let mut work = new_work(amount, at, sequence);
        work.is_charge = true;
        self.works.insert(sequence, work);
        let taken = self.take(sequence, amount);
        self.work(sequence).made_from = taken;
        self.throughput.authorized += u128::from(amount);
        self.count_capture(sequence, amount);
        (EntryKind::Charge, About::work(sequence))
    }

    fn refund(&mut self, of: u64, amount: Option<u64>, at: LogTime) -> Happened {
        let amount = amount.unwrap_or_else(|| self.work(of).refundable());
        let lapsed_before = self.shelf.sum(|lot| lot.expired);
        for payment in self.work(of).take_last(amount) {
            match payment.payer {
                Payer::Owed(since) => self.owe_less(since, payment.amount),
                Payer::Lot(lot) => {
                    let lot = self.shelf.lot(lot);
                    lot.used -= payment.amount;
                    lot.welcome_back(payment.amount);
                }
            }
        }
        let lapsed = self.shelf.sum(|lot| lot.expired) - lapsed_before;
        let lot = self.regrant(lapsed, at);
        self.work(of).refunded += amount;
        self.throughput.refunded += u128::from(amount);
        self.touch(of);
        (EntryKind::Refund, About { work: Some(of), lot })
    }

    /// A lot that makes up for what lapsed in a refund, where the account's policy says so.
    fn regrant(&mut self, lapsed: u64, at: LogTime) -> Option<u64> {
        let days = self.opening.unwrap_or_default().regrant_days;
        let days = days.filter(|_| lapsed > 0)?;
        let granting = Granting {
            amount: lapsed,
            promotional: true,
            priority: 100,
            effective_at: None,
            expires_at: Some(at.saturating_add(Span::from_days(u64::from(days.get())))),
        };
        Some(self.put_lot(&granting, at, true))
    }

    fn reclaim(&mut self, of: u64) -> Happened {
        let amount = self.work(of).given_back();
        self.take(of, amount);
        self.work(of).reclaimed = Some(amount);
        self.throughput.reclaimed += u128::from(amount);
        self.touch(of);
        (EntryKind::Reclaim, About::work(of))
    }

    fn void(&mut self, number: u64) -> Happened {
        let lot = self.shelf.lot(number);
        lot.voided += std::mem::take(&mut lot.free) + std::mem::take(&mut lot.waiting);
        lot.stage = Stage::Voided;
        (EntryKind::Void, About::lot(number))
    }

    /// Takes `amount` from what is available, and owes the rest. Returns what lots paid.
    fn take(&mut self, of: u64, amount: u64) -> Vec<Part> {
        let parts = self.shelf.draw(amount);
        let drawn: u64 = parts.iter().map(|part| part.amount).sum();
        for part in &parts {
            self.shelf.lot(part.lot).used += part.amount;
            self.pay(of, Payer::Lot(part.lot), part.amount);
        }
        let missing = amount - drawn;
        if missing > 0 {
            let since = self.next_sequence();
            self.debts.insert(since, (of, missing));
            self.pay(of, Payer::Owed(since), missing);
        }
        parts
    }

    fn pay(&mut self, of: u64, payer: Payer, amount: u64) {
        self.work(of).payments.push(Payment { payer, amount });
    }

    fn count_capture(&mut self, of: u64, amount: u64) {
        self.work(of).captured += amount;
        self.throughput.captured += u128::from(amount);
    }

    /// Ends a hold: what it still had set aside goes back to its lots.
    pub(super) fn give_pins_back(&mut self, hold: u64, state: WorkState) {
        let work = self.work(hold);
        work.state = state;
        for pin in std::mem::take(&mut work.pins) {
            let lot = self.shelf.lot(pin.lot);
            lot.held -= pin.amount;
            lot.welcome_back(pin.amount);
            self.throughput.released += u128::from(pin.amount);
        }
        self.active.remove(&hold);
        self.touch(hold);
    }

    fn touch(&mut self, of: u64) {
        let sequence = self.next_sequence();
        self.work(of).changed_by = sequence;
    }
}

fn new_work(amount: u64, at: LogTime, sequence: u64) -> Work {
    Work {
        is_charge: false,
        state: WorkState::Captured,
        amount,
        captured: 0,
        refunded: 0,
        reclaimed: None,
        created_at: at,
        expires_at: at,
        made_from: Vec::new(),
        pins: Vec::new(),
        payments: Vec::new(),
        changed_by: sequence,
    }
}
