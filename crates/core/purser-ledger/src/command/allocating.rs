//! What home and a region ask of their own books about an allocation.

use minicbor::{Decode, Encode};
use purser_types::{Credits, Owner, Region};

use super::Confirm;
#[cfg(doc)]
use super::Operation;
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
}
