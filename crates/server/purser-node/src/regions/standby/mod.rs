//! Standbys: regions that follow a home's shards, so that one of them can take over if it is lost.
//!
//! ```text
//!  home's leader                                          standby's node
//!  Watch ── Follow, four times a second ────────────────▶ Replicas: hosts the group as a learner
//!    │  ◀── consensus: entries, acknowledged as on disk ──┘
//!    ├─ R1, R6: an answer waits until every standby has its entry, or counts under X
//!    └─ silent for three seconds ─▶ Keeper, on the first shard's leader ─▶ Placement: dropped
//!                                         └ all shards follow again ─────▶ Placement: promotable
//! ```
//!
//! By which rules: [`purser_placement::standby`], where each step is decided without a clock or a socket. Here
//! is what asks, waits and reads the clock.
//!
//! What is acknowledged may be answered, so whoever takes over applies all of its log (`Group::whole`).
//!
//! Not here: what X is and which entries count (`purser_ledger::Unacknowledged`); taking over
//! (`moving::promoting`).

mod answering;
mod automatic;
mod failing_over;
mod keeper;
mod messages;
mod replicas;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use purser_ledger::Ledger;
use purser_raft::{Group, NodeId};
use purser_types::Region;

pub(crate) use self::automatic::Automatic;
pub(crate) use self::failing_over::Word;
pub(in crate::regions) use self::keeper::Keeper;
pub(in crate::regions) use self::messages::{ReplicaAsk, StandbyAnswer, StandbyAsk};
pub(in crate::regions) use self::replicas::Replicas;
pub(crate) use self::watch::Watch;
use crate::settings::{NodeSettings, RouterSettings, nodes_by_region};
use crate::shards::Shard;

/// Which node follows which shard, for all homes: the same on every node.
#[derive(Debug, Clone, Default)]
pub(in crate::regions) struct Plan {
    /// The nodes of each region, in their order.
    nodes: BTreeMap<Region, Vec<NodeId>>,
    /// The standbys of each home.
    standbys: BTreeMap<Region, BTreeSet<Region>>,
}

impl Plan {
    pub(in crate::regions) fn of(settings: &NodeSettings) -> Self {
        let mut nodes = nodes_by_region(&settings.peers);
        nodes.entry(settings.region).or_default().push(settings.node);
        nodes.values_mut().for_each(|nodes| nodes.sort_unstable());
        let standbys = settings.regions.as_ref().map(|regions| regions.standbys.clone());
        Self { nodes, standbys: standbys.unwrap_or_default() }
    }

    /// Of a router, which follows nobody, and passes on who is to take over.
    pub(in crate::regions) fn outside(settings: &RouterSettings) -> Self {
        let (nodes, standbys) = (nodes_by_region(&settings.peers), settings.standbys.clone());
        Self { nodes, standbys }
    }

    /// The regions that stand by for a home.
    pub(in crate::regions) fn standbys_of(&self, home: Region) -> BTreeSet<Region> {
        self.standbys.get(&home).cloned().unwrap_or_default()
    }

    /// Whether a region stands by for a home.
    pub(in crate::regions) fn stands_by(&self, region: Region, home: Region) -> bool {
        self.standbys.get(&home).is_some_and(|standbys| standbys.contains(&region))
    }

    /// The node of a standby that follows a shard: they share the shards evenly.
    pub(in crate::regions) fn node_of(
        &self,
        region: Region,
        Shard(shard): Shard,
    ) -> Option<NodeId> {
        let nodes = self.nodes.get(&region)?;
        let place = usize::try_from(shard).ok()?.checked_rem(nodes.len())?;
        nodes.get(place).copied()
    }
}

/// A shard of a home and its group.
pub(in crate::regions) type ShardGroup = (Shard, Group<Ledger>);

/// All watches, by shard.
pub(in crate::regions) type Watches = Vec<Arc<Watch>>;
