//! What Placement may be asked to do.
//!
//! Every request names what its caller has seen, and is refused if that is no longer so. Two kinds
//! of sight are compared:
//!
//! - the **epoch**, for what ends an epoch: each epoch ends once, so a copy of a request that
//!   arrives late finds another epoch;
//! - the **change number** besides, for what may go back and forth within one epoch (a standby that
//!   is dropped and taken back). The epoch alone would let a late copy of "take it back" undo a drop
//!   that came after it, and a standby that home no longer waits for would be promoted.

use std::collections::BTreeSet;
use std::num::NonZeroU16;

use minicbor::{Decode, Encode};
use purser_types::{Epoch, Region, TenantId};

use crate::change::ChangeNumber;
use crate::regions::PeerAddress;

/// A command, as the log carries it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Command {
    /// Requests about tenants, decided one by one in their order. They do not stand or fall
    /// together: a region that is lost takes many tenants along, and one that has been moved
    /// meanwhile must not hold up the others.
    #[n(0)]
    Tenants(#[n(0)] Vec<Request>),
    /// Makes a region known, or changes where it is reached.
    #[n(1)]
    SetRegion(#[n(0)] SetRegion),
}

impl Command {
    /// The most requests in one command; of more, none is decided. A request of the longest names
    /// takes some 250 bytes, so a command stays within a quarter of a megabyte.
    pub const REQUESTS_MAX: usize = 1_024;
}

/// What is asked about one tenant.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Request {
    /// The tenant.
    #[n(0)]
    pub tenant: TenantId,
    /// What to do.
    #[n(1)]
    pub operation: Operation,
}

/// A step of one tenant's placement.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Operation {
    /// Gives a new tenant its home, under epoch 1. Its standbys follow from nothing, so none of
    /// them is promotable yet.
    #[n(0)]
    Open {
        /// The home.
        #[n(0)]
        home: Region,
        /// The regions that follow it.
        #[n(1)]
        standbys: BTreeSet<Region>,
    },
    /// Says that a move to another region is under way, before home stops committing. From here on
    /// anyone can see that the epoch must end, and ask for either end.
    #[n(1)]
    BeginMove {
        /// The epoch that the caller has seen.
        #[n(0)]
        epoch: Epoch,
        /// The destination.
        #[n(1)]
        to: Region,
    },
    /// Makes the destination home under the next epoch. Asked only once the destination has the
    /// log up to where home stopped.
    #[n(2)]
    FinishMove {
        /// The epoch that the caller has seen.
        #[n(0)]
        epoch: Epoch,
    },
    /// Gives a move up: home stays, under the next epoch, because it may have stopped under this
    /// one. Anyone may ask, at any moment of a move.
    #[n(3)]
    AbortMove {
        /// The epoch that the caller has seen.
        #[n(0)]
        epoch: Epoch,
    },
    /// Makes a promotable standby home without home's consent, under the next epoch; also in the
    /// middle of a move. There is no forced variant: without a promotable standby there is no
    /// region that is known to have the acknowledged work.
    #[n(4)]
    FailOver {
        /// The epoch that the caller has seen.
        #[n(0)]
        epoch: Epoch,
        /// The standby.
        #[n(1)]
        to: Region,
    },
    /// Says that an old home's tail was booked or written off.
    #[n(5)]
    ResolveTail {
        /// The epoch that the caller has seen.
        #[n(0)]
        epoch: Epoch,
        /// The old home.
        #[n(1)]
        from: Region,
    },
    /// Drops a standby from the promotable ones, or takes it back. Asked by home, which stops
    /// waiting for the standby only after a drop was accepted, and begins to before it asks for it
    /// back. A drop is a change each time it is asked, whatever was seen: it overtakes whoever is
    /// about to take the standby back.
    #[n(6)]
    SetStandby {
        /// The epoch that the caller has seen.
        #[n(0)]
        epoch: Epoch,
        /// The tenant's latest change that the caller has seen.
        #[n(1)]
        seen: ChangeNumber,
        /// The standby.
        #[n(2)]
        region: Region,
        /// Whether it may be promoted.
        #[n(3)]
        promotable: bool,
    },
    /// Says which regions are standbys. Those that stay keep what they are; new ones are not
    /// promotable yet.
    #[n(7)]
    SetStandbys {
        /// The epoch that the caller has seen.
        #[n(0)]
        epoch: Epoch,
        /// The tenant's latest change that the caller has seen.
        #[n(1)]
        seen: ChangeNumber,
        /// All of them.
        #[n(2)]
        standbys: BTreeSet<Region>,
    },
}

/// Makes a region known, or changes where it is reached. Placement forgets no region.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SetRegion {
    /// The region.
    #[n(0)]
    pub region: Region,
    /// The region's latest change that the caller has seen; [`ChangeNumber::NONE`] for a new one.
    #[n(1)]
    pub seen: ChangeNumber,
    /// How many shards it has. Fixed when the region is made: accounts find their shard by it.
    #[n(2)]
    pub shards: NonZeroU16,
    /// Where its nodes listen for those of other regions.
    #[n(3)]
    pub peers: Vec<PeerAddress>,
}
