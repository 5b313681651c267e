//! Draining a region: moving the homes of all its tenants elsewhere.
//!
//! Numbers of tenants are JSON numbers, as those in `cluster`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::body::not_null;
use crate::spelled::spelled_enum;
use crate::text::{RegionName, TenantName};

/// Says that a region shall be home of nobody. A repeat changes nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DrainRequest {
    /// Where the homes go. If left out, each tenant's goes to its first standby that is within reach,
    /// or else to the first other region that is.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub to: Option<RegionName>,
}

spelled_enum! {
    /// Whether a region is being drained.
    DrainStatus, "the state of a drain" {
        /// The node that would do it knows of no drain: none was asked for, or the node that did it has
        /// died or has handed its work over. Asking again goes on with what is left.
        Idle "idle",
        /// Homes are moved.
        Draining "draining",
        /// Somebody has stopped it.
        Stopped "stopped",
        /// Nobody is left, or those that are left could not be moved.
        Ended "ended",
    }
}

/// How far a drain has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DrainAnswer {
    /// The region.
    pub region: RegionName,
    /// Whether it is being drained.
    pub state: DrainStatus,
    /// Where the homes go, if the request said so.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub to: Option<RegionName>,
    /// The tenants that this drain is about: those that it has moved and those that are left.
    pub total: u64,
    /// The tenants whose homes it has moved.
    pub moved: u64,
    /// The tenants whose home is in the region now.
    pub left: u64,
    /// How many of them could not be moved when it was last tried. It is tried again as long as others
    /// can be.
    pub failed_count: u64,
    /// The first of these, with the reason.
    #[schema(max_items = 100)]
    pub failed: Vec<DrainFailure>,
}

/// A tenant whose home could not be moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DrainFailure {
    /// The tenant.
    pub tenant: TenantName,
    /// Why, for people.
    pub reason: String,
}
