//! Holds: authorize, capture, release, extend, and what they answer.

use purser_types::Span;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::amount::{CallAmount, CaptureAmount};
use crate::balance::Balance;
use crate::body::{is_no, not_null, yes};
use crate::budget::{BudgetsNamed, HoldBudget};
use crate::entry::Entry;
use crate::ids::{HoldId, LotId};
use crate::metadata::Metadata;
use crate::prose::{Reason, Reference};
use crate::spelled::spelled_enum;
use crate::text::{Amount, Moment, RegionName, SequenceNumber, TenantName, UnitName};

spelled_enum! {
    /// Who may decide.
    #[derive(Default)]
    Consistency, "a consistency" {
        /// The region that was asked, if it has a right to spend; else home.
        #[default]
        Local "local",
        /// Home, always.
        Strict "strict",
    }
}

/// How long a hold lives unless it is extended: 1 second to 7 days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "u32", into = "u32")]
#[schema(value_type = u32, minimum = 1, maximum = 604_800)]
pub struct TtlSeconds(u32);

/// The TTL is outside 1 second to 7 days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a ttl is from 1 to {} seconds", TtlSeconds::MAX)]
pub struct TtlOutOfRange;

impl TtlSeconds {
    /// The longest a hold may live, in seconds: 7 days.
    pub const MAX: u32 = 604_800;

    /// The TTL as a span of log time.
    pub fn span(self) -> Span {
        Span::from_secs(u64::from(self.0))
    }
}

impl TryFrom<u32> for TtlSeconds {
    type Error = TtlOutOfRange;

    fn try_from(seconds: u32) -> Result<Self, TtlOutOfRange> {
        if (1..=Self::MAX).contains(&seconds) { Ok(Self(seconds)) } else { Err(TtlOutOfRange) }
    }
}

impl From<TtlSeconds> for u32 {
    fn from(ttl: TtlSeconds) -> Self {
        ttl.0
    }
}

/// Asks for credits before the work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AuthorizeRequest {
    /// What the work may cost.
    pub amount: CallAmount,
    /// How long the hold lives; the account's default if left out.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub ttl_seconds: Option<TtlSeconds>,
    /// Who may decide. Not part of what makes two requests the same.
    #[serde(default)]
    pub consistency: Consistency,
    /// The budgets that are asked as well; then home decides.
    #[serde(default, skip_serializing_if = "BudgetsNamed::is_empty")]
    pub budgets: BudgetsNamed,
    /// The caller's own name for the work, to search by.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reference: Option<Reference>,
    /// The caller's notes.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

impl AuthorizeRequest {
    /// A request with defaults for all but the amount.
    pub fn new(amount: CallAmount) -> Self {
        Self {
            amount,
            ttl_seconds: None,
            consistency: Consistency::default(),
            budgets: BudgetsNamed::default(),
            reference: None,
            metadata: Metadata::default(),
        }
    }

    /// Who decides: home, if budgets are named.
    pub fn decider(&self) -> Consistency {
        if self.budgets.is_empty() { self.consistency } else { Consistency::Strict }
    }
}

spelled_enum! {
    /// What to do with a capture that comes too late.
    #[derive(Default)]
    IfExpired, "what to do if the hold has expired" {
        /// Refuse it with `hold_expired`.
        #[default]
        Refuse "refuse",
        /// Take the credits from the account as a late capture, linked to the hold.
        Charge "charge",
    }
}

/// Takes all or part of a hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CaptureRequest {
    /// What to take, beside what was captured before; all that is still held if left out. It may be
    /// more than that: the rest then comes from what is available. Zero and `final` is a release.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub amount: Option<CaptureAmount>,
    /// Whether this is the last capture, which frees the remainder at once.
    #[serde(default = "yes")]
    pub r#final: bool,
    /// Whether a shortfall may become debt, within the account's limit.
    #[serde(default, skip_serializing_if = "is_no")]
    pub allow_debt: bool,
    /// What to do if the hold has expired.
    #[serde(default)]
    pub if_expired: IfExpired,
    /// The caller's notes.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

impl Default for CaptureRequest {
    /// Takes all that is held, and ends the hold.
    fn default() -> Self {
        Self {
            amount: None,
            r#final: true,
            allow_debt: false,
            if_expired: IfExpired::default(),
            metadata: Metadata::default(),
        }
    }
}

/// Gives all of a hold back. The body may be absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseRequest {
    /// Why, for whoever reads the history.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reason: Option<Reason>,
    /// The caller's notes.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

/// Moves a hold's deadline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtendRequest {
    /// The new deadline: later than the current one, at most 7 days after the hold was made.
    pub until: Moment,
}

spelled_enum! {
    /// How a hold stands.
    HoldStatus, "the status of a hold" {
        /// The credits are set aside until `expires_at`.
        Active "active",
        /// The last capture was made.
        Captured "captured",
        /// The caller gave it back.
        Released "released",
        /// Nobody ended it in time.
        Expired "expired",
    }
}

/// Credits of one lot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LotShare {
    /// The lot.
    pub lot_id: LotId,
    /// How much of it.
    pub amount: Amount,
}

spelled_enum! {
    /// In which role a region decided.
    DeciderRole, "the role of a region" {
        /// As the account's home.
        Home "home",
        /// From its allocation.
        Allocation "allocation",
    }
}

/// Who decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DecidedBy {
    /// The region.
    pub region: RegionName,
    /// Its role.
    pub role: DeciderRole,
}

/// Credits set aside for one piece of work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hold {
    /// The hold's id.
    pub hold_id: HoldId,
    /// Whose credits.
    pub tenant: TenantName,
    /// In which unit.
    pub unit: UnitName,
    /// How it stands.
    pub status: HoldStatus,
    /// What was authorized.
    pub amount: Amount,
    /// What was captured, by all captures together.
    pub captured_total: Amount,
    /// What is still set aside.
    pub held_remaining: Amount,
    /// What was refunded of the captured, net of what was reclaimed.
    pub refunded_total: Amount,
    /// When it was authorized.
    pub created_at: Moment,
    /// From this instant on it is over, whether or not anyone looked.
    pub expires_at: Moment,
    /// The lots it was pinned to when it was authorized, in the order in which they are spent.
    pub lots: Vec<LotShare>,
    /// What no lot was pinned for, because the region that authorized it may overspend; left out if that is
    /// nothing.
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

/// Answers authorize, release and extend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HoldAnswer {
    /// The hold after the operation.
    #[serde(flatten)]
    pub hold: Hold,
    /// The account after the operation.
    pub balance: Balance,
}

/// Answers capture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CaptureAnswer {
    /// The hold after the capture.
    #[serde(flatten)]
    pub hold: Hold,
    /// What this capture took.
    pub captured: Amount,
    /// What of that became debt.
    pub debt_added: Amount,
    /// Whether this was a late capture: the hold had expired and is `captured` now, so no second
    /// one follows.
    pub late: bool,
    /// The account after the capture.
    pub balance: Balance,
}

/// A hold and everything that happened to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HoldDetail {
    /// The hold.
    #[serde(flatten)]
    pub hold: Hold,
    /// Its entries, oldest first; the newest 1,000 if there are more.
    #[schema(max_items = 1_000)]
    pub history: Vec<Entry>,
    /// Whether there are older entries than these. The list of the account's entries has them all.
    pub has_older: bool,
}
