//! Balances: where an account's credits are, and as of when.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::amount::TotalAmount;
use crate::text::{Amount, Moment, SequenceNumber, TenantName, UnitName};

/// The moment that an answer describes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AsOf {
    /// By the log's clock. Everything that was due by then has taken effect.
    pub log_time: Moment,
    /// The account's last entry. What came due since has taken effect in the figures, and gets its
    /// entry when it is written down.
    pub sequence: SequenceNumber,
}

/// What went through an account in its life, or in the time of a statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Totals {
    /// Granted.
    pub granted: TotalAmount,
    /// Authorized, by holds and charges.
    pub authorized: TotalAmount,
    /// Captured, by captures, late captures and charges.
    pub captured: TotalAmount,
    /// Given back from holds, by release, as remainder and by expiry.
    pub released: TotalAmount,
    /// Refunded.
    pub refunded: TotalAmount,
    /// Reclaimed.
    pub reclaimed: TotalAmount,
    /// Expired in lots.
    pub expired: TotalAmount,
}

/// An account's buckets. `granted + debt` is the sum of all the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Buckets {
    /// All that was ever granted.
    pub granted: Amount,
    /// What can be authorized or charged now.
    pub available: Amount,
    /// Set aside in holds.
    pub held: Amount,
    /// Captured and not refunded.
    pub used: Amount,
    /// Lost by expiry.
    pub expired: Amount,
    /// Taken back by an operator.
    pub voided: Amount,
    /// What the tenant owes.
    pub debt: Amount,
    /// Set aside for regions to spend, by region.
    pub allocated: BTreeMap<String, Amount>,
}

/// One account's credits at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Balance {
    /// Whose credits.
    pub tenant: TenantName,
    /// In which unit.
    pub unit: UnitName,
    /// Where they are.
    #[serde(flatten)]
    pub buckets: Buckets,
    /// Granted but not effective yet. Beside the buckets, not among them.
    pub pending: Amount,
    /// What went through the account in its life.
    pub totals: Totals,
    /// When this was so.
    pub as_of: AsOf,
    /// How old this is, in milliseconds; zero if it was read where it is decided.
    pub age_ms: u64,
}
