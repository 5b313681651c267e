//! Placement's "no": an answer, not a fault. Nothing has changed.

use minicbor::{Decode, Encode};
use purser_types::Region;

/// Why a request about a tenant is refused.
///
/// Refusals stand in the order in which they are looked for. The answer carries the tenant's
/// placement as it is, so the caller can see what was true instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, thiserror::Error)]
pub enum Refusal {
    /// The command has more than [`Command::REQUESTS_MAX`](crate::Command::REQUESTS_MAX) requests.
    #[n(0)]
    #[error("the command has too many requests")]
    TooManyRequests,
    /// The tenant was never opened.
    #[n(1)]
    #[error("there is no such tenant")]
    TenantUnknown,
    /// The tenant is open, with another home or other standbys, or has had another home since.
    #[n(2)]
    #[error("the tenant exists already")]
    TenantExists,
    /// The epoch has ended: somebody else was first.
    #[n(3)]
    #[error("the epoch has ended")]
    Fenced,
    /// The epoch has not begun. Only Placement begins one, so the caller is wrong.
    #[n(4)]
    #[error("the epoch has not begun")]
    EpochAhead,
    /// No such region is known.
    #[n(5)]
    #[error("region {0} is not known")]
    RegionUnknown(#[n(0)] Region),
    /// The home cannot be its own standby.
    #[n(6)]
    #[error("region {0} is the home and cannot be a standby")]
    StandbyIsHome(#[n(0)] Region),
    /// More than [`Standby::COUNT_MAX`](crate::Standby::COUNT_MAX) standbys.
    #[n(7)]
    #[error("there are too many standbys")]
    TooManyStandbys,
    /// The tenant's home is there already.
    #[n(8)]
    #[error("the home is there already")]
    AlreadyHome,
    /// A move to another region is under way.
    #[n(9)]
    #[error("a move to region {to} is under way")]
    MoveUnderWay {
        /// Its destination.
        #[n(0)]
        to: Region,
    },
    /// An old home's tail is neither booked nor written off, so the account is not whole yet.
    #[n(10)]
    #[error("the tail of region {from} is not resolved")]
    TailUnresolved {
        /// The old home; the first of them by name.
        #[n(0)]
        from: Region,
    },
    /// No move is under way.
    #[n(11)]
    #[error("no move is under way")]
    NotMoving,
    /// The region is no standby of the tenant.
    #[n(12)]
    #[error("region {0} is not a standby")]
    NotStandby(#[n(0)] Region),
    /// The standby is not promotable, so it may lack acknowledged work.
    #[n(13)]
    #[error("standby {0} is not promotable")]
    NotPromotable(#[n(0)] Region),
    /// The tenant has changed since the caller looked.
    #[n(14)]
    #[error("the tenant has changed meanwhile")]
    Overtaken,
}

/// Why a command about a region is refused, in the order in which it is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RegionRefusal {
    /// No peers, or more than [`KnownRegion::PEERS_MAX`](crate::KnownRegion::PEERS_MAX).
    #[error("a region has 1 to {max} peers", max = crate::KnownRegion::PEERS_MAX)]
    PeersCount,
    /// The number of shards is fixed when the region is made.
    #[error("the number of shards cannot change")]
    ShardsFixed,
    /// The region has changed since the caller looked.
    #[error("the region has changed meanwhile")]
    Overtaken,
    /// There are [`KnownRegion::COUNT_MAX`](crate::KnownRegion::COUNT_MAX) regions already.
    #[error("there are too many regions")]
    TooManyRegions,
}
