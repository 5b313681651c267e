//! What home and a region ask of their own books about an allocation.

use minicbor::{Decode, Encode};
use purser_types::{Credits, Life, LogTime, Owner, Region};

use super::{Capture, Confirm, HoldNumber, Identity, Item, LotNumber, Operation, Reclaim, Target};
#[cfg(doc)]
use crate::Rejection;
use crate::codec;
use crate::policy::OnExpiry;
use crate::protocol::Mode;

/// See [`Operation::Allocate`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Allocate {
    /// For whom. A region without an open allocation gets a new one.
    #[n(0)]
    pub region: Region,
    /// How much more. None opens an allocation with nothing in it.
    #[n(1)]
    pub amount: Credits,
    /// The life of the region's group, as far as home has heard. Counts if the allocation is new.
    #[n(2)]
    pub life: Option<Life>,
    /// Until when it should last: lots that end by then pay only what others cannot.
    #[n(3)]
    #[cbor(skip_if = "codec::is_none")]
    pub lasting: Option<LogTime>,
}

impl Allocate {
    /// Credits for a region in its first life, from whatever lots come first in burn-down order.
    pub const fn new(region: Region, amount: Credits) -> Self {
        Self { region, amount, life: None, lasting: None }
    }
}

/// See [`Operation::SetAllocation`]. What it does not name stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SetAllocation {
    /// Whose. Generation 0 stands for the region's newest that is not closed.
    #[n(0)]
    pub owner: Owner,
    /// How much it may spend beyond what it was granted.
    #[n(1)]
    pub overdraft: Option<Credits>,
    /// What it may do.
    #[n(2)]
    pub mode: Option<Mode>,
    /// A new recall: how much of its free credits it may keep.
    #[n(3)]
    pub keep: Option<Credits>,
    /// What becomes of it when its lease has run out.
    #[n(4)]
    pub on_expiry: Option<OnExpiry>,
}

impl SetAllocation {
    /// A change of nothing yet.
    pub const fn of(owner: Owner) -> Self {
        Self { owner, overdraft: None, mode: None, keep: None, on_expiry: None }
    }
}

/// See [`Operation::TakeBack`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct TakeBack {
    /// The allocation. Generation 0 stands for the region's newest that is not closed.
    #[n(0)]
    pub owner: Owner,
    /// Whether an operator has decided it, whatever the cap says. The state that was shown.
    #[n(1)]
    pub forced: Option<Confirm>,
}

/// See [`Operation::WriteOff`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct WriteOff {
    /// The allocation. Generation 0 stands for the region's newest that is not closed.
    #[n(0)]
    pub owner: Owner,
    /// The state that the operator saw.
    #[n(1)]
    pub confirm: Confirm,
}

/// See [`Operation::Transfer`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Transfer {
    /// Whose credits they are. Generation 0 stands for the region's newest that is not closed.
    #[n(0)]
    pub from: Owner,
    /// Who is to have them.
    #[n(1)]
    pub to: Region,
    /// How much. At least 1.
    #[n(2)]
    pub amount: Credits,
    /// The life of that region's group, as far as home has heard. Counts if the allocation is new.
    #[n(3)]
    pub life: Option<Life>,
}

/// See [`Operation::Return`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Return {
    /// How much of its free credits the region keeps.
    #[n(0)]
    pub keep: Credits,
    /// The recall that this answers; 0 if the region gives of its own accord.
    #[n(1)]
    pub recall: u64,
    /// Covers that their operations do not need any more: all that is left of them is given back.
    #[n(2)]
    #[cbor(skip_if = "Vec::is_empty")]
    pub covers: Vec<LotNumber>,
}

impl Return {
    /// Gives back what goes beyond `keep`, as an answer to a recall or, with 0, of the region's own accord.
    pub const fn free(keep: Credits, recall: u64) -> Self {
        Self { keep, recall, covers: Vec::new() }
    }
}

/// See [`Operation::Cover`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Cover {
    /// The allocation whose region decides the operation.
    #[n(0)]
    pub owner: Owner,
    /// The operation, by its key and what it asks.
    #[n(1)]
    pub asked: Identity,
    /// The hold or charge that it is about.
    #[n(2)]
    pub hold: HoldNumber,
    /// What it needs beyond what the region may spend, in all. At least 1.
    #[n(3)]
    pub amount: Credits,
    /// Whether what is missing may be owed.
    #[n(4)]
    pub on_credit: OnCredit,
}

/// Whether what is missing may be owed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum OnCredit {
    /// It may not: the caller does not allow it.
    #[n(0)]
    Never,
    /// Within the account's debt limit, as the caller allows.
    #[n(1)]
    WithinLimit,
    /// Whatever the limit: the work was delivered.
    #[n(2)]
    Always,
}

impl Cover {
    /// What home is asked for an operation of which [`Rejection::RightExhausted`] says that `amount` is
    /// missing; nothing for one that ends no hold and undoes no refund, or has no key to be known by.
    pub fn of(owner: Owner, item: &Item, amount: Credits) -> Option<Self> {
        let (hold, on_credit) =
            if let Operation::Capture(Capture { hold, allow_debt, .. }) = &item.operation {
                (*hold, if *allow_debt { OnCredit::WithinLimit } else { OnCredit::Never })
            } else if let Operation::Reclaim(Reclaim { target, .. }) = &item.operation {
                (Target::number(*target), OnCredit::Always)
            } else {
                return None;
            };
        let asked = item.identity()?;
        Some(Self { owner, asked, hold, amount, on_credit })
    }
}
