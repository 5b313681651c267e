//! Where a tenant's home is, and moving it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::body::not_null;
use crate::spelled::spelled_enum;
use crate::text::{EpochNumber, RegionName, TenantName};

/// Says where a tenant's home shall be. A repeat changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveRequest {
    /// The region.
    pub to: RegionName,
}

spelled_enum! {
    /// What is under way about a tenant's home.
    PlacementStatus, "the state of a placement" {
        /// Nothing.
        Settled "settled",
        /// It moves to another region. Until it is there, or the move is given up, home is where it was.
        Moving "moving",
        /// A home was lost, and it is not known yet what it had decided besides.
        FailedOver "failed_over",
    }
}

/// Where a tenant's home is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlacementAnswer {
    /// The tenant.
    pub tenant: TenantName,
    /// The region whose ledger decides.
    pub home: RegionName,
    /// Counts the homes, and the moves that were given up.
    pub epoch: EpochNumber,
    /// What is under way.
    pub state: PlacementStatus,
    /// Where the home moves to, if it does.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub to: Option<RegionName>,
}
