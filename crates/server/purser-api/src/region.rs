//! The regions of a cluster, as the node that is asked knows them.
//!
//! Numbers of nodes are JSON numbers, as in `cluster`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::cluster::NodeNumber;
use crate::text::RegionName;

/// The regions, as a node knows them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RegionsAnswer {
    /// The node that was asked.
    pub node: NodeNumber,
    /// Its region.
    pub region: RegionName,
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
}
