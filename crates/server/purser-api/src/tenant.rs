//! Tenants and their accounts: open, policy, freeze, unfreeze, close.

use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::allocation::OnExpiry;
use crate::balance::Balance;
use crate::body::{is_no, not_null, object};
use crate::job::ranged;
use crate::prose::Reason;
use crate::spelled::spelled_enum;
use crate::text::{Amount, EpochNumber, Moment, RegionName, SequenceNumber, TenantName, UnitName};

/// Opens a tenant's account in one unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenTenantRequest {
    /// The caller's name for the tenant.
    pub tenant: TenantName,
    /// What the account counts.
    #[serde(default)]
    #[schema(default = "credits")]
    pub unit: UnitName,
    /// Where its home is to be; the region that was asked if left out.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub home: Option<RegionName>,
    /// Which regions stand by for its home, of those that the service's configuration names; the first of
    /// them if left out.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, max_items = 4)]
    pub standbys: Option<Vec<RegionName>>,
    /// How it departs from the default policy.
    #[serde(default, deserialize_with = "object")]
    pub policy: PolicyRequest,
}

/// What becomes of a refund into an expired lot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RefundExpired {
    /// It goes to `expired`.
    #[default]
    Lapse,
    /// It becomes a promotional lot that lives so many days of 24 hours from the refund on.
    RegrantDays(RegrantDays),
}

/// A number of days, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = u16, minimum = 1)]
pub struct RegrantDays(pub NonZeroU16);

ranged! {
    /// How long a usage event is accepted after its time, in seconds: up to 400 days.
    EventAgeSeconds 1 34_560_000;
}

/// Changes an account's policy. What is left out stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyRequest {
    /// What the account may owe by captures and charges that allow debt.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub debt_limit: Option<Amount>,
    /// What becomes of a refund into an expired lot.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub refund_expired: Option<RefundExpired>,
    /// How much home may take back from regions that are not heard of, without an operator's word. The
    /// overspend bound may grow by as much.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub takeback_cap: Option<Amount>,
    /// What becomes of an allocation whose lease has run out, of those that are opened from now on.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub on_expiry: Option<OnExpiry>,
    /// How many credits of authorizes, charges, captures and reclaims home may answer before its standby
    /// has them: X. If home is lost, at most as many are spent twice. With 0 each of them waits for the
    /// standby.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub unacknowledged_max: Option<Amount>,
    /// How long a usage event is accepted after its time, and remembered. A longer one is for events whose
    /// time comes after the change, a shorter one for all.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub event_age_seconds: Option<EventAgeSeconds>,
}

/// An account's policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Policy {
    /// What the account may owe by captures and charges that allow debt.
    pub debt_limit: Amount,
    /// What becomes of a refund into an expired lot.
    pub refund_expired: RefundExpired,
    /// How much home may take back from regions that are not heard of, without an operator's word.
    pub takeback_cap: Amount,
    /// What becomes of an allocation whose lease has run out, where nothing else was set for it.
    pub on_expiry: OnExpiry,
    /// How many credits of calls home may answer before its standby has them: X.
    pub unacknowledged_max: Amount,
    /// How long a usage event is accepted after its time, and remembered.
    pub event_age_seconds: u64,
}

spelled_enum! {
    /// How an account stands.
    TenantStatus, "the status of a tenant" {
        /// Everything is allowed.
        Open "open",
        /// No new authorizes and charges; holds may end.
        Frozen "frozen",
        /// Over. The history stays.
        Closed "closed",
    }
}

/// A tenant's account in one unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tenant {
    /// The caller's name for the tenant.
    pub tenant: TenantName,
    /// What the account counts.
    pub unit: UnitName,
    /// How it stands.
    pub status: TenantStatus,
    /// Where its home is.
    pub home: RegionName,
    /// Counts its homes.
    pub epoch: EpochNumber,
    /// Its policy.
    pub policy: Policy,
    /// When it was opened.
    pub opened_at: Moment,
    /// Its last entry.
    pub sequence: SequenceNumber,
}

/// Answers open, policy, freeze and unfreeze.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TenantAnswer {
    /// The account after the operation.
    #[serde(flatten)]
    pub tenant: Tenant,
    /// Its credits.
    pub balance: Balance,
}

/// Freezes or unfreezes an account. Each undoes the other, so neither needs a confirmation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FreezeRequest {
    /// Why, for whoever reads the history.
    pub reason: Reason,
}

/// Closes an account for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CloseRequest {
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

/// Answers close.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CloseAnswer {
    /// Whether this only shows what would happen.
    pub dry_run: bool,
    /// What to send as `confirm` to do it; left out if it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub confirm: Option<SequenceNumber>,
    /// The account, after the act.
    #[serde(flatten)]
    pub tenant: Tenant,
    /// Its credits, after the act.
    pub balance: Balance,
}
