//! Lots: grant, void, adjust, and what is left of each grant.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::amount::CallAmount;
use crate::balance::Balance;
use crate::body::{is_no, not_null};
use crate::hold::LotShare;
use crate::ids::LotId;
use crate::metadata::Metadata;
use crate::prose::{Reason, SourceRef};
use crate::spelled::spelled_enum;
use crate::text::{Amount, Moment, SequenceNumber};

spelled_enum! {
    /// Where a lot's credits come from.
    #[derive(Default)]
    LotCategory, "the category of a lot" {
        /// Bought.
        #[default]
        Paid "paid",
        /// Given. Spent before paid credits of the same priority and expiry.
        Promotional "promotional",
    }
}

spelled_enum! {
    /// How a lot stands.
    LotStatus, "the status of a lot" {
        /// Not effective yet.
        Pending "pending",
        /// Can be spent.
        Active "active",
        /// Its time is over.
        Expired "expired",
        /// Taken back by an operator.
        Voided "voided",
        /// Nothing is left.
        Spent "spent",
    }
}

/// Gives a tenant credits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantRequest {
    /// How much.
    pub amount: CallAmount,
    /// Where the credits come from.
    #[serde(default)]
    pub category: LotCategory,
    /// Lower spends first.
    #[serde(default = "default_priority")]
    #[schema(maximum = 255)]
    pub priority: u8,
    /// From when on it can be spent; at once if left out.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub effective_at: Option<Moment>,
    /// From when on it cannot be spent any more; never if `null` or left out.
    #[serde(default)]
    pub expires_at: Option<Moment>,
    /// The business fact behind the grant. A second grant with the same one adds nothing.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub source_ref: Option<SourceRef>,
    /// Why, for whoever reads the history.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reason: Option<Reason>,
    /// The caller's notes.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

/// The middle of the road: room for lots that go first and for lots that go last.
const fn default_priority() -> u8 {
    100
}

impl GrantRequest {
    /// A request with defaults for all but the amount.
    pub fn new(amount: CallAmount) -> Self {
        Self {
            amount,
            category: LotCategory::default(),
            priority: default_priority(),
            effective_at: None,
            expires_at: None,
            source_ref: None,
            reason: None,
            metadata: Metadata::default(),
        }
    }
}

/// What is left of one grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Lot {
    /// The lot's id.
    pub lot_id: LotId,
    /// Where its credits come from.
    pub category: LotCategory,
    /// Lower spends first.
    pub priority: u8,
    /// What was granted.
    pub amount: Amount,
    /// What can be spent of it, now or once it is effective.
    pub free: Amount,
    /// What is pinned by holds.
    pub held: Amount,
    /// What was captured of it.
    pub used: Amount,
    /// From when on it can be spent.
    pub effective_at: Moment,
    /// From when on it cannot be spent any more; never if `null`.
    pub expires_at: Option<Moment>,
    /// How it stands.
    pub status: LotStatus,
    /// The business fact behind the grant.
    pub source_ref: Option<SourceRef>,
}

/// Answers grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GrantAnswer {
    /// The lot; the first one as it stands, if the `source_ref` was granted before.
    pub lot: Lot,
    /// What of it paid debt at once.
    pub debt_repaid: Amount,
    /// The account after the grant.
    pub balance: Balance,
}

/// Takes back what is left of a grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VoidRequest {
    /// Why, for whoever reads the history.
    pub reason: Reason,
    /// Whether only to show what would happen.
    #[serde(default, skip_serializing_if = "is_no")]
    pub dry_run: bool,
    /// The `confirm` of the dry run. The act is refused if the account has changed since.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub confirm: Option<SequenceNumber>,
}

/// Answers void.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VoidAnswer {
    /// Whether this only shows what would happen.
    pub dry_run: bool,
    /// What to send as `confirm` to do it; left out if it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub confirm: Option<SequenceNumber>,
    /// What is taken back at once.
    pub voided: Amount,
    /// What holds have pinned, which follows when they end unspent.
    pub pinned: Amount,
    /// The lot, after the act.
    pub lot: Lot,
    /// The account, after the act.
    pub balance: Balance,
}

spelled_enum! {
    /// Whether an adjustment adds or removes credits.
    AdjustDirection, "the direction of an adjustment" {
        /// Makes a lot, like a grant.
        Add "add",
        /// Moves available credits to `voided`, in burn-down order.
        Remove "remove",
    }
}

/// Corrects an account by an operator's decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdjustRequest {
    /// Which way.
    pub direction: AdjustDirection,
    /// How much.
    pub amount: CallAmount,
    /// Why, for whoever reads the history.
    pub reason: Reason,
    /// The caller's notes.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

/// Answers adjust.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AdjustAnswer {
    /// The lot that was made; `null` if credits were removed.
    pub lot: Option<Lot>,
    /// The lots that credits were removed from; empty if credits were added.
    pub removed: Vec<LotShare>,
    /// What of the added credits paid debt at once.
    pub debt_repaid: Amount,
    /// The account after the act.
    pub balance: Balance,
}
