//! Where a tenant's home is, and moving it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::amount::TotalAmount;
use crate::balance::Balance;
use crate::body::{is_no, not_null};
use crate::prose::Reason;
use crate::spelled::spelled_enum;
use crate::text::{Amount, EpochNumber, RegionName, SequenceNumber, TenantName};

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

/// Has a standby take over every home of a region that is lost, of those that it can.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FailOverRequest {
    /// The standby; the first of the region's by name if left out.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub to: Option<RegionName>,
    /// Whether only to show what would happen.
    #[serde(default, skip_serializing_if = "is_no")]
    pub dry_run: bool,
    /// The `confirm` of the dry run. It is refused if any home of the region has changed since.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub confirm: Option<SequenceNumber>,
}

/// Answers a fail-over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailOverAnswer {
    /// Whether this only shows what would happen.
    pub dry_run: bool,
    /// What to send as `confirm` to do it; left out if it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub confirm: Option<SequenceNumber>,
    /// The region that is lost.
    pub region: RegionName,
    /// The standby that takes over.
    pub to: RegionName,
    /// Whether the region can be reached from here, so that it may not be lost at all. Homes that go on can
    /// be moved, without setting anything aside.
    pub is_reachable: bool,
    /// How many tenants it takes over. Their accounts are brought home within the next seconds.
    pub taken_over: u64,
    /// How many tenants of the region it can not take over, because it lacks something that they may have
    /// been answered. Their home is where it was.
    pub left: u64,
    /// The first of these.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub left_tenants: Vec<TenantName>,
    /// The most that is set aside for what the lost home had answered besides: the X of all accounts that are
    /// taken over, added up. `null` if the standby cannot tell.
    pub at_stake: Option<TotalAmount>,
}

/// What a lost home had decided after the last entry that came over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TailAnswer {
    /// The lost home.
    pub region: RegionName,
    /// Its last epoch.
    pub epoch: EpochNumber,
    /// What is set aside for it until its tail is booked or written off.
    pub set_aside: Amount,
    /// The last of its entries that came over.
    pub forked_at: SequenceNumber,
    /// The last of its entries that is booked.
    pub booked: SequenceNumber,
    /// Spends of it that were booked here.
    pub spent: Amount,
    /// Spends of it that had happened here again.
    pub matched: Amount,
    /// Spends of it that nobody was told of, so they have not happened.
    pub unanswered: Amount,
    /// Holds of it of which nothing was taken here.
    pub held: Amount,
}

/// The tails of a tenant's account that are neither booked to their end nor written off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TailsAnswer {
    /// By epoch; at most one for each region.
    #[schema(max_items = 1_024)]
    pub tails: Vec<TailAnswer>,
}

/// Gives up on what a lost home had decided besides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteOffTailRequest {
    /// Why, for whoever reads the history.
    pub reason: Reason,
    /// Whether only to show what would happen.
    #[serde(default, skip_serializing_if = "is_no")]
    pub dry_run: bool,
    /// The `confirm` of the dry run. It is refused if the account has changed since.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub confirm: Option<SequenceNumber>,
}

/// Answers the writing off of a tail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WriteOffTailAnswer {
    /// Whether this only shows what would happen.
    pub dry_run: bool,
    /// What to send as `confirm` to do it; left out if it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub confirm: Option<SequenceNumber>,
    /// The tail, as it was.
    pub tail: TailAnswer,
    /// The account, after the act.
    pub balance: Balance,
}

/// A region that stands by for a home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StandbyOf {
    /// The region.
    pub region: RegionName,
    /// Whether it could take over now: it has everything that was answered.
    pub promotable: bool,
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
    /// The regions that stand by for it.
    #[schema(max_items = 4)]
    pub standbys: Vec<StandbyOf>,
    /// The homes that were lost and of which it is not known yet what they had decided besides.
    #[schema(max_items = 1_024)]
    pub lost: Vec<RegionName>,
    /// Where the home moves to, if it does.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub to: Option<RegionName>,
}
