//! The overspend bound over all accounts: how much can have been spent beyond what was granted, by
//! cause, now.
//!
//! Each figure is a sum over accounts, by the region of their home. A region that did not answer is in
//! none of the sums: it is named in `unknown_regions`, and the sums are lower limits then.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::amount::TotalAmount;
use crate::cluster::GroupNumber;
use crate::list::PageLimit;
use crate::text::{Moment, RegionName, TenantName, UnitName};

/// Asks for the overspend bound.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct OverspendQuery {
    /// Only accounts whose home is in this region; those of all regions if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub region: Option<RegionName>,
    /// Only accounts of this group, which is one of the asked region's.
    #[serde(default, deserialize_with = "group", skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub group: Option<GroupNumber>,
    /// How many tenants are named at most.
    #[serde(default)]
    #[param(inline)]
    pub limit: PageLimit,
}

/// Reads a group's number in its one spelling.
fn group<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<GroupNumber>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

/// What can have been overspent, by cause.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OverspendCauses {
    /// It was: debt of regions' spends that is not repaid.
    pub realised: TotalAmount,
    /// Taken back without hearing from the region, and perhaps spent before.
    pub taken_back: TotalAmount,
    /// Allowed to regions beyond what they were granted, and not used as far as is known.
    pub overdraft: TotalAmount,
    /// Decided by a home that was lost, and not recovered.
    pub failover: TotalAmount,
}

/// The overspend bound of some accounts, and what belongs beside it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OverspendFigures {
    /// The most that can have been spent beyond what was granted: all causes together.
    pub bound: TotalAmount,
    /// What of it was spent for certain, and is owed.
    pub realised: TotalAmount,
    /// The most that the bound may come to, by policies, overdrafts and confirmed take-backs.
    pub ceiling: TotalAmount,
    /// The bound by cause.
    pub by_cause: OverspendCauses,
    /// What is out in regions. It can be spent, and is not overspent if it is.
    pub outstanding: TotalAmount,
    /// What of it is in regions that home cannot reach.
    pub stranded: TotalAmount,
    /// What is out, by the region that has it.
    pub allocated: BTreeMap<String, TotalAmount>,
    /// Debt that calls and policies allowed at home. Not in the bound.
    pub allowed_debt: TotalAmount,
    /// When all this was so: the earliest moment of its parts; `null` where nothing is known.
    pub as_of: Option<OverspendAsOf>,
}

/// The moment of an overspend bound.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct OverspendAsOf {
    /// By the log's clock.
    pub log_time: Moment,
}

/// One account among those with the largest bounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OverspendTenant {
    /// Whose credits.
    pub tenant: TenantName,
    /// In which unit.
    pub unit: UnitName,
    /// Where its home is.
    pub home: RegionName,
    /// Its bound.
    pub bound: TotalAmount,
    /// What of it was spent for certain, and is owed.
    pub realised: TotalAmount,
    /// The most that its bound may come to.
    pub ceiling: TotalAmount,
    /// What it has out in regions.
    pub outstanding: TotalAmount,
}

/// The overspend bound over all accounts that were asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OverspendAnswer {
    /// The sums.
    #[serde(flatten)]
    pub figures: OverspendFigures,
    /// The same by the region of the accounts' homes.
    pub by_region: BTreeMap<String, OverspendFigures>,
    /// Regions that did not answer: what accounts with their home there add is not known.
    pub unknown_regions: Vec<RegionName>,
    /// The accounts with the largest bounds, then those with most out.
    #[schema(max_items = 1_000)]
    pub top_tenants: Vec<OverspendTenant>,
}
