//! What a home, its standbys and their keeper ask each other.

use minicbor::{Decode, Encode};
use purser_ledger::AccountName;
use purser_placement::{ChangeNumber, TenantPlacement};
use purser_types::{Region, TenantId};

use crate::regions::moving::Place;

/// What concerns standbys.
#[derive(Debug, Clone, Encode, Decode)]
pub(crate) enum StandbyAsk {
    /// From a shard's leader to the standby's node: follow the shard.
    #[n(0)]
    Follow {
        /// Whose shard.
        #[n(0)]
        home: Region,
        /// Which.
        #[n(1)]
        shard: u32,
        /// Up to which change the leader knows Placement: it never says of an account that was failed over
        /// before that something has happened.
        #[n(2)]
        placed: ChangeNumber,
        /// The term in which it leads.
        #[n(3)]
        #[cbor(default)]
        term: u64,
        /// Its node.
        #[n(4)]
        #[cbor(default)]
        leader: u64,
    },
    /// From the keeper to a shard's leader of its region: does it follow you, with all that you have, and
    /// will you wait for it until you have told me otherwise?
    #[n(1)]
    Promise {
        /// Which shard.
        #[n(0)]
        shard: u32,
        /// Which standby.
        #[n(1)]
        standby: Region,
        /// Up to which change the leader has to know Placement: whoever is to be promotable is among what it
        /// knows then.
        #[n(2)]
        placed: ChangeNumber,
    },
    /// From a shard's leader to the keeper of its region: have no tenant promoted to this standby.
    #[n(2)]
    Drop {
        /// Which standby.
        #[n(0)]
        standby: Region,
    },
    /// From whoever takes over to the node of its region that has followed a shard of the lost home.
    #[n(3)]
    Replica {
        /// The lost home.
        #[n(0)]
        home: Region,
        /// Which shard.
        #[n(1)]
        shard: u32,
        /// Whose account.
        #[n(2)]
        tenant: TenantId,
        /// Where its home is now. The standby stops following before it answers.
        #[n(3)]
        placement: TenantPlacement,
        /// What is asked.
        #[n(4)]
        ask: ReplicaAsk,
    },
    /// To the node of a standby that follows a shard: what is set aside if it takes over.
    #[n(4)]
    AtStake {
        /// The home.
        #[n(0)]
        home: Region,
        /// Which shard.
        #[n(1)]
        shard: u32,
    },
}

/// What a replica is asked for.
#[derive(Debug, Clone, Encode, Decode)]
pub(crate) enum ReplicaAsk {
    /// Which accounts of the tenant it has.
    #[n(0)]
    Accounts,
    /// What comes next of an account.
    #[n(1)]
    Part {
        /// Which.
        #[n(0)]
        account: AccountName,
        /// What is known of it.
        #[n(1)]
        place: Place,
    },
}

/// To [`StandbyAsk::Follow`], [`StandbyAsk::Promise`] and [`StandbyAsk::Drop`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub(crate) enum StandbyAnswer {
    /// It is so.
    #[n(0)]
    Yes,
    /// It is not.
    #[n(1)]
    No,
}
