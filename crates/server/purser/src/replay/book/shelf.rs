//! The lots of an account, in the book: a plain list that is searched from end to end.

use std::collections::BTreeMap;

use purser_types::LogTime;

/// Whether a lot counts yet, still, or no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its start is still to come.
    Waiting,
    /// It can be used.
    Usable,
    /// Its end has come.
    Expired,
    /// It was taken back.
    Voided,
}

/// One lot. The six parts at the end always add up to `amount`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BookLot {
    /// What was granted.
    pub(crate) amount: u64,
    /// Whether it was given away.
    pub(crate) promotional: bool,
    /// Lower spends first.
    pub(crate) priority: u8,
    /// From when on it can be used.
    pub(crate) effective_at: LogTime,
    /// From when on it cannot be used any more.
    pub(crate) expires_at: Option<LogTime>,
    /// Where it stands.
    pub(crate) stage: Stage,
    /// Not usable yet.
    pub(crate) waiting: u64,
    /// Free to be used.
    pub(crate) free: u64,
    /// Set aside by holds.
    pub(crate) held: u64,
    /// Taken, or gone to pay debt.
    pub(crate) used: u64,
    /// Lapsed.
    pub(crate) expired: u64,
    /// Taken back.
    pub(crate) voided: u64,
}

impl BookLot {
    /// Credits that were free, held or used come back to this lot.
    pub(crate) const fn welcome_back(&mut self, amount: u64) {
        match self.stage {
            Stage::Waiting | Stage::Usable => self.free += amount,
            Stage::Expired => self.expired += amount,
            Stage::Voided => self.voided += amount,
        }
    }

    const fn can_pay(&self) -> bool {
        matches!(self.stage, Stage::Usable) && self.free > 0
    }
}

/// The lots of one account, by the sequence that made them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shelf {
    pub(crate) lots: BTreeMap<u64, BookLot>,
}

/// Credits of one lot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// The lot.
    pub(crate) lot: u64,
    /// How many.
    pub(crate) amount: u64,
}

impl Shelf {
    /// The lot that holds and charges name; they only ever name lots that are there.
    pub(crate) fn lot(&mut self, number: u64) -> &mut BookLot {
        self.lots.get_mut(&number).expect("a hold names lots that it was drawn from")
    }

    /// The sum of one part over all lots.
    pub(crate) fn sum(&self, part: impl Fn(&BookLot) -> u64) -> u64 {
        self.lots.values().map(part).sum()
    }

    /// What can be used now.
    pub(crate) fn available(&self) -> u64 {
        self.sum(|lot| if lot.can_pay() { lot.free } else { 0 })
    }

    /// Takes up to `amount` out of the free parts in burn-down order, and says of which lots.
    ///
    /// Burn-down order: priority, soonest expiry and never last, given away before bought, earlier
    /// effective, earlier made.
    pub(crate) fn draw(&mut self, amount: u64) -> Vec<Part> {
        let mut order: Vec<u64> =
            self.lots.iter().filter(|(_, lot)| lot.can_pay()).map(|(number, _)| *number).collect();
        order.sort_by_key(|number| {
            let lot = &self.lots[number];
            let never = lot.expires_at.is_none();
            (lot.priority, never, lot.expires_at, !lot.promotional, lot.effective_at, *number)
        });
        let mut rest = amount;
        let mut parts = Vec::new();
        for number in order {
            let lot = self.lot(number);
            let taken = lot.free.min(rest);
            if taken > 0 {
                lot.free -= taken;
                rest -= taken;
                parts.push(Part { lot: number, amount: taken });
            }
        }
        parts
    }
}
