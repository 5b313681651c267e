//! Charges and checks: deciding at once, with and without effect.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::amount::CallAmount;
use crate::balance::Balance;
use crate::body::{is_no, not_null};
use crate::budget::{BudgetsNamed, HoldBudget};
use crate::entry::Entry;
use crate::hold::{Consistency, DecidedBy, HoldStatus, LotShare};
use crate::ids::ChargeId;
use crate::metadata::Metadata;
use crate::prose::Reference;
use crate::text::{Amount, BudgetLabel, Moment, SequenceNumber, TenantName, UnitName};

/// Authorizes and captures in one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChargeRequest {
    /// What the work cost.
    pub amount: CallAmount,
    /// Who may decide. Not part of what makes two requests the same.
    #[serde(default)]
    pub consistency: Consistency,
    /// The budgets that are asked as well; then home decides.
    #[serde(default, skip_serializing_if = "BudgetsNamed::is_empty")]
    pub budgets: BudgetsNamed,
    /// Whether a shortfall may become debt, within the account's limit.
    #[serde(default, skip_serializing_if = "is_no")]
    pub allow_debt: bool,
    /// The caller's own name for the work, to search by.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reference: Option<Reference>,
    /// The caller's notes.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

impl ChargeRequest {
    /// A request with defaults for all but the amount.
    pub fn new(amount: CallAmount) -> Self {
        Self {
            amount,
            consistency: Consistency::default(),
            budgets: BudgetsNamed::default(),
            allow_debt: false,
            reference: None,
            metadata: Metadata::default(),
        }
    }

    /// Who decides: home, if budgets are named.
    pub fn decider(&self) -> Consistency {
        if self.budgets.is_empty() { self.consistency } else { Consistency::Strict }
    }
}

/// Credits taken in one step. The fields are those of a captured hold, without a deadline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Charge {
    /// The charge's id.
    pub charge_id: ChargeId,
    /// Whose credits.
    pub tenant: TenantName,
    /// In which unit.
    pub unit: UnitName,
    /// Always `captured`.
    pub status: HoldStatus,
    /// What was charged.
    pub amount: Amount,
    /// What was taken: the same.
    pub captured_total: Amount,
    /// What is still set aside: nothing.
    pub held_remaining: Amount,
    /// What was refunded, net of what was reclaimed.
    pub refunded_total: Amount,
    /// When it was charged.
    pub created_at: Moment,
    /// The lots that paid when it was charged, in the order in which they were spent.
    pub lots: Vec<LotShare>,
    /// What no lot paid, because the region that charged it may overspend; left out if that is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub overdrawn: Option<Amount>,
    /// The budgets that it counts in: those that its call named, each with those above it. Left out if there
    /// are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<HoldBudget>,
    /// The caller's own name for the work.
    pub reference: Option<Reference>,
    /// The entry that last changed it.
    pub sequence: SequenceNumber,
    /// Who decided about it.
    pub decided_by: DecidedBy,
}

/// Answers charge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChargeAnswer {
    /// The charge.
    #[serde(flatten)]
    pub charge: Charge,
    /// What of it became debt.
    pub debt_added: Amount,
    /// The account after the charge.
    pub balance: Balance,
}

/// A charge and everything that happened to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChargeDetail {
    /// The charge.
    #[serde(flatten)]
    pub charge: Charge,
    /// Its entries, oldest first; the newest 1,000 if there are more.
    #[schema(max_items = 1_000)]
    pub history: Vec<Entry>,
    /// Whether there are older entries than these. The list of the account's entries has them all.
    pub has_older: bool,
}

/// What an authorize would have been answered. Nothing was set aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckAnswer {
    /// Whether it would have been allowed.
    pub allowed: bool,
    /// The lots it would have pinned.
    pub lots: Vec<LotShare>,
    /// How much would have to be granted, debt included; zero unless too few credits are the reason.
    pub short_by: Amount,
    /// The code of the problem it would have been refused with; `null` if allowed.
    pub reason: Option<String>,
    /// The budget that failed, if that is the reason: the first of those named and of those above them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub budget: Option<BudgetLabel>,
    /// The account as it was looked at.
    pub balance: Balance,
}
