//! One hold or charge: credits set aside for work, taken for it, and given back.
//!
//! ```text
//!  authorize ──▶ active ──┬── capture, final ──▶ captured ◀── charge
//!                         ├── release ─────────▶ released
//!                         └── expires_at ──────▶ expired ── late capture ──▶ captured
//! ```
//!
//! The record says which lots it was made with and which paid, in the order in which they were
//! taken; undoing follows it backwards. Invariants kept here:
//!
//! - INV-3: a hold ends at most once.
//! - INV-4: what was spent adds up to captured − refunded + reclaimed, and is never negative.

use minicbor::{Decode, Encode};
use purser_types::{Credits, LogTime, Sequence};

use crate::budgets::Cap;
use crate::command::{HoldNumber, LotNumber, Target};

/// A hold or a charge as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Hold {
    /// Its number: the sequence of the entry that made it.
    #[n(0)]
    pub number: HoldNumber,
    /// Whether it was authorized first or charged at once.
    #[n(1)]
    pub kind: HoldKind,
    /// Where it stands.
    #[n(2)]
    pub state: HoldState,
    /// What was authorized.
    #[n(3)]
    pub amount: Credits,
    /// What was ever captured.
    #[n(4)]
    pub captured: Credits,
    /// What was ever refunded.
    #[n(5)]
    pub refunded: Credits,
    /// What was reclaimed, if it was.
    #[n(6)]
    pub reclaimed: Option<Credits>,
    /// When it was made.
    #[n(7)]
    pub created_at: LogTime,
    /// At this instant it has expired. A charge's is the instant it was made.
    #[n(8)]
    pub expires_at: LogTime,
    /// The lots it was made with, in burn-down order: those that a hold pinned, those that paid a
    /// charge at once. Stays as it is, whatever becomes of their credits.
    #[n(9)]
    pub lots: Box<[Portion]>,
    /// What of them is still set aside. Captures take from the front, so it is the end of `lots`.
    #[n(15)]
    pub held: Credits,
    /// What was taken and not given back, in the order in which it was taken.
    #[n(10)]
    pub spent: Vec<Spend>,
    /// The caller's own name for the work.
    #[n(11)]
    pub reference: Option<Box<str>>,
    /// The entry that last changed it.
    #[n(12)]
    pub changed_by: Sequence,
    /// The entry that changed it before that one.
    #[n(13)]
    pub changed_before: Option<Sequence>,
    /// The entry that ended it, once it has ended.
    #[n(14)]
    pub ended_by: Option<Sequence>,
    /// At home, of a region's hold: the entry that opened the allocation. 0 otherwise.
    #[n(16)]
    #[cbor(skip_if = "crate::codec::is_none")]
    pub allocation: Sequence,
    /// The budgets that it was made under: those that its call named, each with those above it.
    #[n(17)]
    #[cbor(skip_if = "crate::codec::is_none")]
    pub caps: Box<[Cap]>,
}

/// Whether it was authorized first or charged at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum HoldKind {
    /// Authorized first.
    #[n(0)]
    Hold,
    /// Charged at once.
    #[n(1)]
    Charge,
}

/// Where a hold stands. Only an active one can still be captured, released or extended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum HoldState {
    /// Credits are set aside.
    #[n(0)]
    Active,
    /// The work was done and taken for; the rest went back.
    #[n(1)]
    Captured,
    /// The caller gave back what was left.
    #[n(2)]
    Released,
    /// Nobody ended it in time; what was left went back.
    #[n(3)]
    Expired,
}

/// Credits of one lot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Portion {
    /// The lot.
    #[n(0)]
    pub lot: LotNumber,
    /// How many. At least 1.
    #[n(1)]
    pub amount: Credits,
}

/// Credits that were taken, and what they came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Spend {
    /// What paid.
    #[n(0)]
    pub source: Source,
    /// How many. At least 1.
    #[n(1)]
    pub amount: Credits,
}

/// What pays for captured credits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Source {
    /// A lot.
    #[n(0)]
    Lot(#[n(0)] LotNumber),
    /// Nothing yet: it is owed since the entry with this sequence.
    #[n(1)]
    Debt(#[n(0)] Sequence),
}

impl Spend {
    /// The lot that it came from; nothing if it is owed.
    pub(crate) const fn lot(self) -> Option<LotNumber> {
        match self.source {
            Source::Lot(lot) => Some(lot),
            Source::Debt(_) => None,
        }
    }
}

impl Hold {
    /// The most that one hold can ever capture: half of what an amount can be, so that all of it
    /// can be refunded, reclaimed and refunded again.
    pub const CAPTURED_MAX: Credits = match Credits::from_u64(Credits::MAX.get() >> 1) {
        Ok(half) => half,
        Err(_) => Credits::ZERO,
    };

    /// The most lots and debts that one hold may be pinned to or paid from. An entry carries its
    /// hold whole, so this bounds an entry to some 40 KB.
    pub const PARTS_MAX: usize = 1_024;

    /// Whether it is the hold or charge that `target` means.
    pub fn is(&self, target: Target) -> bool {
        let kind = match target {
            Target::Hold(_) => HoldKind::Hold,
            Target::Charge(_) => HoldKind::Charge,
        };
        self.number == target.number() && self.kind == kind
    }

    /// Notes that `amount` was taken from `source`, after all that was taken before.
    pub(crate) fn add_spend(&mut self, source: Source, amount: Credits) {
        add_spend(&mut self.spent, source, amount);
    }

    /// What is still set aside, lot by lot, in burn-down order.
    pub fn pins(&self) -> impl Iterator<Item = Portion> {
        let made_with = sum(self.lots.iter().map(|portion| portion.amount));
        let mut gone = made_with.saturating_sub(self.held);
        self.lots.iter().filter_map(move |portion| {
            let taken = portion.amount.min(gone);
            gone = gone.saturating_sub(taken);
            let amount = portion.amount.saturating_sub(taken);
            (!amount.is_zero()).then_some(Portion { lot: portion.lot, amount })
        })
    }

    /// What was taken and not given back.
    pub fn net(&self) -> Credits {
        sum(self.spent.iter().map(|spend| spend.amount))
    }

    /// What was refunded and not reclaimed: what a reclaim takes.
    pub fn net_refunded(&self) -> Credits {
        self.refunded.saturating_sub(self.reclaimed.unwrap_or(Credits::ZERO))
    }
}

/// Adds what was taken from `source`, after all that was taken before.
pub(crate) fn add_spend(spent: &mut Vec<Spend>, source: Source, amount: Credits) {
    if amount.is_zero() {
        return;
    }
    match spent.last_mut() {
        Some(last) if last.source == source => {
            last.amount = sum([last.amount, amount].into_iter());
        }
        Some(_) | None => spent.push(Spend { source, amount }),
    }
}

/// The sum of amounts that are known to fit: parts of one account's credits.
pub(crate) fn sum(mut amounts: impl Iterator<Item = Credits>) -> Credits {
    amounts
        .try_fold(Credits::ZERO, Credits::checked_add)
        .expect("INV-5: parts of an account's credits stay within the range of amounts")
}
