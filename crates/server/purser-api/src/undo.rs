//! Refund and reclaim: undoing a capture, and undoing that.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::amount::CallAmount;
use crate::balance::Balance;
use crate::body::not_null;
use crate::charge::Charge;
use crate::hold::Hold;
use crate::ids::LotId;
use crate::prose::Reason;
use crate::text::Amount;

/// Gives captured credits back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RefundRequest {
    /// How much; all that is refundable if left out.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub amount: Option<CallAmount>,
    /// Why, for whoever reads the history.
    pub reason: Reason,
}

/// Charges again what was refunded, because the work succeeded after all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReclaimRequest {
    /// Why, for whoever reads the history.
    pub reason: Reason,
}

/// What a refund or a reclaim is about: its fields stand beside the answer's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Subject {
    /// A charge, which has a `charge_id`.
    Charge(Charge),
    /// A hold, which has a `hold_id`.
    Hold(Hold),
}

/// Answers refund.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefundAnswer {
    /// The hold or charge after the refund.
    #[serde(flatten)]
    pub subject: Subject,
    /// How much was refunded.
    pub refunded: Amount,
    /// What of that went to lots that had expired, and so to `expired`.
    pub lapsed: Amount,
    /// The lot that the account's policy made in place of what would have lapsed.
    pub regranted_lot: Option<LotId>,
    /// What of the refund canceled debt.
    pub debt_cancelled: Amount,
    /// What can still be refunded.
    pub refundable: Amount,
    /// The account after the refund.
    pub balance: Balance,
}

/// Answers reclaim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReclaimAnswer {
    /// The hold or charge after the reclaim.
    #[serde(flatten)]
    pub subject: Subject,
    /// How much was charged again.
    pub reclaimed: Amount,
    /// What of that became debt.
    pub debt_added: Amount,
    /// The account after the reclaim.
    pub balance: Balance,
}
