//! How credits move: by themselves when time passes, and when lots are drawn from or given back to.

use super::{Book, Payer, Spent, State};
use crate::telling::{Bucket, Flow};

impl Book {
    /// Lets time pass, and everything happen that is due.
    pub(crate) fn pass_to(&mut self, now: u64) {
        self.now = self.now.max(now);
        while let Some(instant) = self.next_instant() {
            for place in 0..self.holds.len() {
                if self.holds[place].state == State::Active
                    && self.holds[place].expires_at == instant
                {
                    self.entries += 1;
                    self.end(place, State::Expired);
                }
            }
            for lot in &mut self.lots {
                if lot.lives() && lot.terms.exp == Some(instant) {
                    self.entries += 1;
                    lot.has_expired = true;
                    lot.parts.expired += std::mem::take(&mut lot.parts.free);
                }
            }
            for lot in &mut self.lots {
                if lot.lives() && !lot.has_started && lot.effective_at == instant {
                    self.entries += 1;
                    lot.has_started = true;
                    lot.parts.free += std::mem::take(&mut lot.parts.waiting);
                }
            }
            self.repay();
        }
        self.flows.clear();
        let (now, retention) = (self.now, self.policy.key_retention);
        self.keys.retain(|known| now < known.decided_at + retention);
    }

    fn next_instant(&self) -> Option<u64> {
        let holds = self.holds.iter().filter(|hold| hold.state == State::Active);
        let ends = holds.map(|hold| hold.expires_at);
        let lives = || self.lots.iter().filter(|lot| lot.lives());
        let expiries = lives().filter_map(|lot| lot.terms.exp);
        let starts = lives().filter(|lot| !lot.has_started).map(|lot| lot.effective_at);
        ends.chain(expiries).chain(starts).filter(|instant| *instant <= self.now).min()
    }

    /// Ends a hold: what it still pins goes back where it came from.
    pub(super) fn end(&mut self, place: usize, state: State) {
        self.holds[place].state = state;
        for (lot, part) in std::mem::take(&mut self.holds[place].pins) {
            self.lots[lot].parts.held -= part;
            self.come_back(lot, Bucket::Held, part);
        }
    }

    /// Credits come back to their lot, whatever has become of it.
    pub(super) fn come_back(&mut self, number: usize, from: Bucket, amount: u64) -> Bucket {
        let lot = &mut self.lots[number];
        let (part, bucket) = if lot.is_voided {
            (&mut lot.parts.voided, Bucket::Voided)
        } else if lot.has_expired {
            (&mut lot.parts.expired, Bucket::Expired)
        } else {
            (&mut lot.parts.free, Bucket::Available)
        };
        *part += amount;
        self.flow(Some(number), from, bucket, amount);
        bucket
    }

    pub(super) fn spend_pinned(&mut self, place: usize, amount: u64) {
        let mut left = amount;
        for (lot, pinned) in self.holds[place].pins.clone() {
            let part = pinned.min(left);
            left -= part;
            self.lots[lot].parts.held -= part;
            self.lots[lot].parts.used += part;
            self.flow(Some(lot), Bucket::Held, Bucket::Used, part);
            self.holds[place].spent.push(Spent { payer: Payer::Lot(lot), amount: part });
            let pin = self.holds[place].pins.iter_mut().find(|(pin, _)| *pin == lot).unwrap();
            pin.1 -= part;
        }
        self.holds[place].pins.retain(|(_, amount)| *amount > 0);
        self.holds[place].spent.retain(|spent| spent.amount > 0);
    }

    /// Spends what is available, and owes the rest. Tells which lots paid.
    pub(super) fn spend_available(&mut self, place: usize, amount: u64) -> Vec<(usize, u64)> {
        let drawn = self.draw(amount);
        let paid: u64 = drawn.iter().map(|(_, part)| part).sum();
        for (lot, part) in drawn.clone() {
            self.lots[lot].parts.used += part;
            self.flow(Some(lot), Bucket::Available, Bucket::Used, part);
            self.holds[place].spent.push(Spent { payer: Payer::Lot(lot), amount: part });
        }
        if paid < amount {
            self.flow(None, Bucket::Debt, Bucket::Used, amount - paid);
            let payer = Payer::Owed { since: self.entries + 1 };
            self.holds[place].spent.push(Spent { payer, amount: amount - paid });
        }
        drawn
    }

    /// Takes free credits in burn-down order, as far as they go.
    pub(super) fn draw(&mut self, amount: u64) -> Vec<(usize, u64)> {
        let mut order: Vec<usize> = (0..self.lots.len()).collect();
        order.sort_by_key(|number| {
            let lot = &self.lots[*number];
            let expiry = lot.terms.exp.unwrap_or(u64::MAX);
            (lot.terms.priority, expiry, !lot.terms.promotional, lot.effective_at, *number)
        });
        let mut left = amount;
        let mut drawn = Vec::new();
        for number in order {
            let part = self.lots[number].parts.free.min(left);
            if part > 0 {
                left -= part;
                self.lots[number].parts.free -= part;
                drawn.push((number, part));
            }
        }
        drawn
    }

    /// Pays what is owed, oldest first, with whatever is available.
    pub(super) fn repay(&mut self) -> u64 {
        let mut repaid = 0;
        while self.balance().available > 0
            && let Some((since, place)) = self.oldest_debt()
        {
            let owes = |spent: &Spent| spent.payer == Payer::Owed { since };
            let at = self.holds[place].spent.iter().position(owes).unwrap();
            let owed = self.holds[place].spent.remove(at);
            let mut left = owed.amount;
            let mut parts = Vec::new();
            for (lot, part) in self.draw(left) {
                left -= part;
                self.lots[lot].parts.used += part;
                parts.push(Spent { payer: Payer::Lot(lot), amount: part });
            }
            repaid += owed.amount - left;
            if left > 0 {
                parts.push(Spent { amount: left, ..owed });
            }
            self.holds[place].spent.splice(at..at, parts);
            self.entries += 1;
        }
        repaid
    }

    fn oldest_debt(&self) -> Option<(u64, usize)> {
        let debts = self.holds.iter().enumerate().flat_map(|(place, hold)| {
            hold.spent.iter().filter_map(move |spent| match spent.payer {
                Payer::Owed { since } => Some((since, place)),
                Payer::Lot(_) => None,
            })
        });
        debts.min()
    }

    pub(super) fn flow(&mut self, lot: Option<usize>, from: Bucket, to: Bucket, amount: u64) {
        self.flows.push(Flow { lot, from, to, amount });
    }
}
