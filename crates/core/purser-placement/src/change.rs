//! Following Placement change by change.
//!
//! ```text
//!  change      1      2      3      4      5      6
//!  tenant      a      b      c      a      d      b
//!              ╎      ╎      │      │      │      │     only the latest change of each is listed:
//!  changes after 2:          c      a      d      b     each tenant once, in the order of numbers
//! ```
//!
//! The list takes one place for each tenant, however often it changes. A follower that was away for
//! long misses states that were passed over meanwhile, and no tenant's latest one.

use minicbor::{Decode, Encode};
use purser_types::TenantId;

use crate::regions::KnownRegion;
use crate::tenant::TenantPlacement;

/// Counts the changes of one Placement group, of tenants and regions together: 1, 2, 3.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct ChangeNumber(#[n(0)] pub u64);

impl ChangeNumber {
    /// Before the first change.
    pub const NONE: Self = Self(0);

    /// Whether it is before the first change.
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// The number after this one. Saturates: at a million changes a second the numbers last for
    /// 580,000 years.
    pub(crate) const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// What a tenant or a region is now, and since which change.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Change {
    /// A tenant.
    #[n(0)]
    Tenant {
        /// Its name.
        #[n(0)]
        tenant: TenantId,
        /// Its placement.
        #[n(1)]
        placement: TenantPlacement,
    },
    /// A region.
    #[n(1)]
    Region(#[n(0)] KnownRegion),
}

impl Change {
    /// The change's number.
    pub fn number(&self) -> ChangeNumber {
        match self {
            Self::Tenant { placement, .. } => placement.change,
            Self::Region(region) => region.change,
        }
    }
}

/// A page of changes: everything whose latest change lies in `after < number <= through`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Changes {
    /// What the follower had asked from.
    #[n(0)]
    pub after: ChangeNumber,
    /// Where to go on.
    #[n(1)]
    pub through: ChangeNumber,
    /// The latest change there was when the page was made.
    #[n(2)]
    pub latest: ChangeNumber,
    /// In the order of their numbers.
    #[n(3)]
    pub changes: Vec<Change>,
}

impl Changes {
    /// Whether whoever made the page knows of no more. It may know less than the follower, who was told by
    /// another one before.
    pub fn is_last(&self) -> bool {
        self.latest <= self.through
    }
}
