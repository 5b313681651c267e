//! The regions of a cluster, as the node that is asked knows them.
//!
//! Numbers of nodes are JSON numbers, as in `cluster`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::amount::TotalAmount;
use crate::cluster::NodeNumber;
use crate::text::{RegionName, TenantName};

/// The regions, as a node knows them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RegionsAnswer {
    /// The node that was asked.
    pub node: NodeNumber,
    /// Its region.
    pub region: RegionName,
    /// The node that leads Placement, as far as the node that was asked knows; `null` on a node that does not
    /// vote in it.
    pub placement_leader: Option<NodeNumber>,
    /// Up to which change of Placement the node that was asked knows everything: the same at all nodes but for
    /// a second, unless a node's news is held up. 0 in a cluster without regions.
    pub placement_change: u64,
    /// After how many milliseconds of silence a region is failed over without being asked; `null` if it is
    /// only when it is asked. The setting of the node that leads Placement counts.
    pub failover_after_ms: Option<u64>,
    /// All regions, the node's own among them, by name.
    pub regions: Vec<RegionAnswer>,
}

/// One region, as a node knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RegionAnswer {
    /// The region.
    pub region: RegionName,
    /// Its nodes, by the configuration of the node that was asked.
    pub nodes: Vec<NodeNumber>,
    /// Whether the node that was asked can reach it now. Its own region it always can.
    pub is_reachable: bool,
    /// How long ago it was last heard, in milliseconds; `null` if it never was, and of the node's own
    /// region.
    pub heard_age_ms: Option<u64>,
    /// How long a question and its answer took last, in microseconds; `null` if none was answered, and of
    /// the node's own region.
    pub round_trip_us: Option<u64>,
    /// Who leads each of its shards, in their order; `null` where that is not known. Empty if nothing is
    /// known.
    #[schema(max_items = 1_024)]
    pub leaders: Vec<Option<NodeNumber>>,
    /// For how many milliseconds nothing of it was heard, neither by the node that was asked nor by anybody
    /// whom that hears, as it counts toward a fail-over; `null` if it was heard, and on a node that does not
    /// lead Placement or is not to fail over by itself.
    pub silent_ms: Option<u64>,
    /// What the node that was asked did last about its silence; `null` if it did nothing since it was started.
    pub failed_over: Option<FailedOver>,
}

/// What the leader of Placement did about a silent region, without being asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailedOver {
    /// How long ago, in milliseconds.
    pub age_ms: u64,
    /// For how many milliseconds the region had been silent.
    pub after_ms: u64,
    /// The standbys that took over.
    #[schema(max_items = 4)]
    pub to: Vec<RegionName>,
    /// How many tenants they took over.
    pub taken_over: u64,
    /// How many tenants nobody could take over. Their home is where it was.
    pub left: u64,
    /// The first of these.
    #[schema(max_items = 100)]
    pub left_tenants: Vec<TenantName>,
    /// The most that was set aside for what the lost home had answered besides: the X of all accounts that
    /// were taken over. `null` if the standby could not tell.
    pub at_stake: Option<TotalAmount>,
}
