//! Holds and charges, in the book.

use purser_types::LogTime;

use super::shelf::Part;

/// Where a hold stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkState {
    /// Credits are set aside.
    Active,
    /// The work was taken for.
    Captured,
    /// It was given back.
    Released,
    /// Its time ran out.
    Expired,
}

/// What paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payer {
    /// A lot.
    Lot(u64),
    /// Nobody yet: it is owed since this entry.
    Owed(u64),
}

/// Credits that were taken, and who paid them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Payment {
    pub(crate) payer: Payer,
    pub(crate) amount: u64,
}

/// One hold or charge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Work {
    /// Whether it was charged at once.
    pub(crate) is_charge: bool,
    /// Where it stands.
    pub(crate) state: WorkState,
    /// What was asked for.
    pub(crate) amount: u64,
    /// What was ever captured.
    pub(crate) captured: u64,
    /// What was ever refunded.
    pub(crate) refunded: u64,
    /// What was reclaimed; that can happen once.
    pub(crate) reclaimed: Option<u64>,
    /// When it was made.
    pub(crate) created_at: LogTime,
    /// When a hold ends by itself.
    pub(crate) expires_at: LogTime,
    /// The lots it was made from.
    pub(crate) made_from: Vec<Part>,
    /// What is still set aside.
    pub(crate) pins: Vec<Part>,
    /// What was taken and not given back, in the order in which it was taken.
    pub(crate) payments: Vec<Payment>,
    /// The entry that last changed it.
    pub(crate) changed_by: u64,
}

impl Work {
    /// What is still set aside.
    pub(crate) fn held(&self) -> u64 {
        self.pins.iter().map(|pin| pin.amount).sum()
    }

    /// What was taken and not given back.
    pub(crate) fn refundable(&self) -> u64 {
        self.payments.iter().map(|payment| payment.amount).sum()
    }

    /// What a capture takes that comes after the hold's end and names no amount, or `asked`: as much
    /// as it would have been in time.
    pub(crate) fn late_amount(&self, asked: Option<u64>) -> u64 {
        asked.unwrap_or_else(|| self.amount.saturating_sub(self.captured))
    }

    /// What was refunded and not reclaimed.
    pub(crate) fn given_back(&self) -> u64 {
        self.refunded.saturating_sub(self.reclaimed.unwrap_or_default())
    }

    /// Takes `amount` off the payments, the last ones first.
    pub(crate) fn take_last(&mut self, amount: u64) -> Vec<Payment> {
        let mut rest = amount;
        let mut taken = Vec::new();
        while rest > 0
            && let Some(last) = self.payments.last_mut()
        {
            let part = last.amount.min(rest);
            taken.push(Payment { payer: last.payer, amount: part });
            rest -= part;
            last.amount -= part;
            if last.amount == 0 {
                self.payments.pop();
            }
        }
        taken
    }

    /// Takes `amount` off the pins, the first ones first.
    pub(crate) fn unpin_first(&mut self, amount: u64) -> Vec<Part> {
        let mut rest = amount;
        let mut taken = Vec::new();
        for pin in &mut self.pins {
            let part = pin.amount.min(rest);
            rest -= part;
            pin.amount -= part;
            if part > 0 {
                taken.push(Part { lot: pin.lot, amount: part });
            }
        }
        self.pins.retain(|pin| pin.amount > 0);
        taken
    }
}
