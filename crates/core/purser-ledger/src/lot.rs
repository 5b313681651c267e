//! One lot: what is left of one grant, and where the rest went.
//!
//! ```text
//!  grant ──▶ pending ── effective_at ──▶ active ──┬── all used ──▶ spent
//!                                                 ├── expires_at ─▶ expired
//!                                                 └── void ───────▶ voided
//! ```
//!
//! INV-2: `amount = waiting + free + held + used + expired + voided + returned + allocated`, always.
//!
//! A region's lot is the part of home's lot that was given to it: `amount` grows with each voucher,
//! and what ends there is returned to home.

use minicbor::{Decode, Encode};
use purser_types::{Credits, LogTime};

use crate::command::{Category, Identity, LotNumber};
use crate::entry::{Bucket, Move};

/// What was granted; never changes.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LotTerms {
    /// How much.
    #[n(0)]
    pub amount: Credits,
    /// What kind of credits.
    #[n(1)]
    pub category: Category,
    /// Lower spends first.
    #[n(2)]
    pub priority: u8,
    /// From this instant on it can be used.
    #[n(3)]
    pub effective_at: LogTime,
    /// At this instant it has expired; never if there is none.
    #[n(4)]
    pub expires_at: Option<LogTime>,
    /// The business fact behind the grant.
    #[n(5)]
    pub source_ref: Option<Box<str>>,
}

/// A lot as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Lot {
    /// What was granted.
    #[n(0)]
    pub terms: LotTerms,
    /// Whether it counts yet, still, or no more.
    #[n(1)]
    pub phase: LotPhase,
    /// Not effective yet.
    #[n(2)]
    pub waiting: Credits,
    /// Free to be authorized.
    #[n(3)]
    pub free: Credits,
    /// Pinned by holds.
    #[n(4)]
    pub held: Credits,
    /// Captured, or gone to pay debt.
    #[n(5)]
    pub used: Credits,
    /// Lapsed.
    #[n(6)]
    pub expired: Credits,
    /// Taken back.
    #[n(7)]
    pub voided: Credits,
    /// In a region: given back to home.
    #[n(8)]
    #[cbor(skip_if = "crate::codec::is_none")]
    pub returned: Credits,
    /// At home: out in regions.
    #[n(9)]
    #[cbor(skip_if = "crate::codec::is_none")]
    pub allocated: Credits,
    /// In a region, of a cover: the only operation that may draw from it.
    #[n(10)]
    pub only_for: Option<Identity>,
}

/// Where a lot stands in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum LotPhase {
    /// Not effective yet.
    #[n(0)]
    Pending,
    /// Can be used.
    #[n(1)]
    Active,
    /// Its time is over; what comes back to it lapses.
    #[n(2)]
    Expired,
    /// Taken back; what comes back to it is taken back too.
    #[n(3)]
    Voided,
}

/// What a lot shows: its phase, and whether anything is left of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LotStatus {
    /// Not effective yet.
    Pending,
    /// Can be used, or is pinned.
    Active,
    /// Its time is over.
    Expired,
    /// Taken back.
    Voided,
    /// All used.
    Spent,
}

/// The place of a lot in burn-down order: priority, soonest expiry (never last), promotional before
/// paid, earlier effective, earlier in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DrawKey {
    priority: u8,
    expiry: Expiry,
    category: Category,
    effective_at: LogTime,
    number: LotNumber,
}

impl DrawKey {
    /// The lot in this place.
    pub const fn lot(self) -> LotNumber {
        self.number
    }

    /// Whether the lot expires at `instant` or earlier.
    pub(crate) fn ends_by(self, instant: LogTime) -> bool {
        self.expiry <= Expiry::At(instant)
    }
}

/// An expiry that sorts "never" last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Expiry {
    At(LogTime),
    Never,
}

impl Lot {
    /// A new lot of which nothing is effective yet.
    pub(crate) fn pending(terms: LotTerms) -> Self {
        Self {
            phase: LotPhase::Pending,
            waiting: terms.amount,
            terms,
            free: Credits::ZERO,
            held: Credits::ZERO,
            used: Credits::ZERO,
            expired: Credits::ZERO,
            voided: Credits::ZERO,
            returned: Credits::ZERO,
            allocated: Credits::ZERO,
            only_for: None,
        }
    }

    /// The lot's place in burn-down order.
    pub fn draw_key(&self, number: LotNumber) -> DrawKey {
        DrawKey {
            priority: self.terms.priority,
            expiry: self.terms.expires_at.map_or(Expiry::Never, Expiry::At),
            category: self.terms.category,
            effective_at: self.terms.effective_at,
            number,
        }
    }

    /// Whether it can be drawn from by whatever comes.
    pub fn is_drawable(&self) -> bool {
        self.phase == LotPhase::Active && !self.free.is_zero() && self.only_for.is_none()
    }

    /// Whether it can be drawn from by one operation only.
    pub(crate) fn is_open_cover(&self) -> bool {
        !self.free.is_zero() && self.only_for.is_some()
    }

    /// What the lot shows.
    pub fn status(&self) -> LotStatus {
        match self.phase {
            LotPhase::Pending => LotStatus::Pending,
            LotPhase::Active if self.is_spent() => LotStatus::Spent,
            LotPhase::Active => LotStatus::Active,
            LotPhase::Expired => LotStatus::Expired,
            LotPhase::Voided => LotStatus::Voided,
        }
    }

    fn is_spent(&self) -> bool {
        self.free.is_zero() && self.held.is_zero() && self.allocated.is_zero()
    }

    /// Where credits that come back to this lot go.
    pub fn homecoming(&self) -> Bucket {
        match self.phase {
            LotPhase::Pending | LotPhase::Active => Bucket::Available,
            LotPhase::Expired => Bucket::Expired,
            LotPhase::Voided => Bucket::Voided,
        }
    }

    /// Applies a move of this lot's credits.
    pub(crate) fn evolve(&mut self, step: &Move) {
        let from = self.figure(step.from);
        *from = from.checked_sub(step.amount).expect("INV-2: a lot never gives what it has not");
        let to = self.figure(step.to);
        *to = to.checked_add(step.amount).expect("INV-2: a lot's parts stay within its amount");
    }

    /// Like [`Lot::evolve`], and tells whether the lot has what it gives.
    pub(crate) fn could_evolve(&mut self, step: &Move) -> bool {
        let from = self.figure(step.from);
        let Some(left) = from.checked_sub(step.amount) else { return false };
        *from = left;
        let to = self.figure(step.to);
        let Some(sum) = to.checked_add(step.amount) else { return false };
        *to = sum;
        true
    }

    /// The lot after it was taken back by `moves`.
    pub(crate) fn voided_by(&self, moves: &[Move]) -> Self {
        let mut lot = Self { phase: LotPhase::Voided, ..self.clone() };
        moves.iter().for_each(|step| lot.evolve(step));
        lot
    }

    /// The part of the lot that a bucket of the account corresponds to. A lot that pays debt pays
    /// for what was used.
    const fn figure(&mut self, bucket: Bucket) -> &mut Credits {
        match bucket {
            Bucket::Granted => &mut self.waiting,
            Bucket::Available => &mut self.free,
            Bucket::Held => &mut self.held,
            Bucket::Used | Bucket::Debt => &mut self.used,
            Bucket::Expired => &mut self.expired,
            Bucket::Voided => &mut self.voided,
            Bucket::Returned => &mut self.returned,
            Bucket::Allocated(_) => &mut self.allocated,
        }
    }
}
