//! Jobs: a hold or charge with the caller's name, its outcome, and the queue that workers take it from.

use std::fmt;

use purser_types::{Span, TenantId};
use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::Schema;
use utoipa::{IntoParams, ToSchema};

use crate::amount::CallAmount;
use crate::balance::Balance;
use crate::body::{is_no, not_null};
use crate::budget::BudgetsNamed;
use crate::cluster::GroupNumber;
use crate::cursor::{Cursor, CursorScope};
use crate::entry::Entry;
use crate::hold::TtlSeconds;
use crate::ids::{ChargeId, HoldId};
use crate::list::PageLimit;
use crate::metadata::Metadata;
use crate::paths;
use crate::prose::{Reason, Reference};
use crate::spelled::{Spelled, spelled, spelled_enum, text_schema};
use crate::text::{
    Amount, BudgetLabel, JobName, Moment, QueueLabel, RegionName, SequenceNumber, TenantName,
    UnitName,
};

/// A number is outside its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a whole number from {min} to {max}")]
pub struct NumberOutOfRange {
    pub(crate) min: u32,
    pub(crate) max: u32,
}

/// Numbers with a range of their own.
macro_rules! ranged {
    ($($(#[$doc:meta])+ $name:ident $min:literal $max:literal;)+) => {$(
        $(#[$doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(try_from = "u32", into = "u32")]
        pub struct $name(u32);

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                let number = utoipa::openapi::schema::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::Integer);
                number.minimum(Some($min)).maximum(Some($max)).into()
            }
        }

        impl ToSchema for $name {}

        impl $name {
            /// The number.
            pub const fn get(self) -> u32 {
                self.0
            }
        }

        impl TryFrom<u32> for $name {
            type Error = crate::job::NumberOutOfRange;

            fn try_from(number: u32) -> Result<Self, Self::Error> {
                let (min, max) = ($min, $max);
                let is_within = (min..=max).contains(&number);
                is_within.then_some(Self(number)).ok_or(crate::job::NumberOutOfRange { min, max })
            }
        }

        impl From<$name> for u32 {
            fn from(number: $name) -> Self {
                number.0
            }
        }
    )+};
}

pub(crate) use ranged;

ranged! {
    /// How often a job is tried before it is a dead letter.
    MaxAttempts 1 1_000;
    /// How long a job waits, in seconds: up to 7 days.
    BackoffSeconds 1 604_800;
    /// How many jobs are leased at most.
    LeaseCount 1 1_000;
}

impl BackoffSeconds {
    /// The wait as a span of log time.
    pub fn span(self) -> Span {
        Span::from_secs(u64::from(self.0))
    }
}

impl Default for LeaseCount {
    /// Of a request that names none.
    fn default() -> Self {
        Self(1)
    }
}

/// What a worker knows its lease by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseId(pub [u8; 16]);

impl Spelled for LeaseId {
    const EXPECTED: &'static str = "a lease: 32 hexadecimal digits";

    fn read(text: &str) -> Result<Self, String> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let number = Some(text).filter(|text| text.len() == 32 && text.bytes().all(is_digit));
        let number = number.and_then(|text| u128::from_str_radix(text, 16).ok());
        let number = number.ok_or_else(|| format!("expected {}", Self::EXPECTED))?;
        Ok(Self(number.to_be_bytes()))
    }

    fn write(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", u128::from_be_bytes(self.0))
    }

    fn describe() -> Schema {
        text_schema("What a worker knows its lease by.", "^[0-9a-f]{32}$")
    }
}

spelled!(LeaseId);

spelled_enum! {
    /// Where a job's credits come from.
    #[derive(Default)]
    JobMode, "how a job is paid" {
        /// They are set aside, and captured once the job has succeeded.
        #[default]
        Hold "hold",
        /// They are charged, and given back if the job fails.
        Charge "charge",
    }
}

spelled_enum! {
    /// Where a job stands.
    JobStatus, "the status of a job" {
        /// It waits for a worker.
        Queued "queued",
        /// Somebody works on it, or did so until the lease ran out.
        Leased "leased",
        /// It was delivered, and is paid.
        Succeeded "succeeded",
        /// It failed for good, and costs nothing.
        Failed "failed",
        /// It failed as often as it may: a dead letter.
        Dead "dead",
        /// An operator decided that nothing becomes of it.
        Discarded "discarded",
    }
}

spelled_enum! {
    /// How an attempt ended.
    JobOutcome, "an outcome" {
        /// The work was delivered.
        Succeeded "succeeded",
        /// It was not.
        Failed "failed",
    }
}

spelled_enum! {
    /// What an entry about a job did to its credits.
    JobEffect, "what happened to a job's credits" {
        /// They were set aside.
        Authorized "authorized",
        /// They were charged at once.
        Charged "charged",
        /// What was set aside was captured.
        Captured "captured",
        /// What had been released or had expired was taken after all.
        CapturedLate "captured_late",
        /// What had been refunded was charged again.
        Reclaimed "reclaimed",
        /// What was set aside went back.
        Released "released",
        /// What was captured was given back.
        Refunded "refunded",
        /// Nothing: they were where they belong.
        None "none",
    }
}

/// Creates a job, and authorizes or charges what it costs in the same step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateJobRequest {
    /// The caller's name for it, chosen before anything outside is called. Unique in its account: the same
    /// one with the same content answers with the job as it stands.
    pub job_id: JobName,
    /// What it costs.
    pub amount: CallAmount,
    /// Where the credits come from.
    #[serde(default)]
    pub mode: JobMode,
    /// How long its hold lives; 900 seconds if left out. Not for a charge.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub ttl_seconds: Option<TtlSeconds>,
    /// Whether a shortfall of a charge may become debt, within the account's limit.
    #[serde(default, skip_serializing_if = "is_no")]
    pub allow_debt: bool,
    /// The budgets that are asked as well.
    #[serde(default, skip_serializing_if = "BudgetsNamed::is_empty")]
    pub budgets: BudgetsNamed,
    /// Where workers find it; `default` if left out.
    #[serde(default)]
    pub queue: QueueLabel,
    /// Whether the first attempt is a worker's. Else it is the caller's, who gets a lease.
    #[serde(default, skip_serializing_if = "is_no")]
    pub enqueue: bool,
    /// How long the caller's lease lasts; 900 seconds if left out.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub lease_seconds: Option<TtlSeconds>,
    /// After so many attempts in a row it is a dead letter; 5 if left out.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub max_attempts: Option<MaxAttempts>,
    /// How long it waits after the first failed attempt, doubled with each further one; 1 if left out.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub backoff_seconds: Option<BackoffSeconds>,
    /// The longest wait; 3,600 if left out.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub backoff_max_seconds: Option<BackoffSeconds>,
    /// The caller's own name for the work, to search by.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reference: Option<Reference>,
    /// The caller's notes.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

impl CreateJobRequest {
    /// A request with defaults for all but the name and the amount.
    pub fn new(job_id: JobName, amount: CallAmount) -> Self {
        Self {
            job_id,
            amount,
            mode: JobMode::default(),
            ttl_seconds: None,
            allow_debt: false,
            budgets: BudgetsNamed::default(),
            queue: QueueLabel::default(),
            enqueue: false,
            lease_seconds: None,
            max_attempts: None,
            backoff_seconds: None,
            backoff_max_seconds: None,
            reference: None,
            metadata: Metadata::default(),
        }
    }
}

/// Reports how an attempt of a job ended. May be sent by whoever knows it, any number of times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OutcomeRequest {
    /// How it ended.
    pub outcome: JobOutcome,
    /// Whether trying again may help; yes if left out. Means nothing if it succeeded.
    #[serde(default = "yes")]
    pub retryable: bool,
    /// The lease under which it was tried. A failure under another lease than the present one is old news.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub lease: Option<LeaseId>,
    /// What went wrong, for whoever finds the job among the dead letters.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reason: Option<Reason>,
    /// The caller's notes.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

const fn yes() -> bool {
    true
}

impl OutcomeRequest {
    /// A request with defaults for all but the outcome.
    pub fn new(outcome: JobOutcome) -> Self {
        Self { outcome, retryable: true, lease: None, reason: None, metadata: Metadata::default() }
    }
}

/// Keeps a job for longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewRequest {
    /// The lease.
    pub lease: LeaseId,
    /// How long it lasts from now on; 900 seconds if left out. One that lasts longer stays as it is.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub lease_seconds: Option<TtlSeconds>,
}

/// Takes jobs that are due, those that are due first at first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseRequest {
    /// From this queue.
    #[serde(default)]
    pub queue: QueueLabel,
    /// At most so many; 1 if left out.
    #[serde(default)]
    pub max: LeaseCount,
    /// How long the leases last; 900 seconds if left out.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub lease_seconds: Option<TtlSeconds>,
}

/// Where jobs are taken from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LeaseQuery {
    /// Only jobs of tenants whose home is in this region; of all regions, the own one first, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub region: Option<RegionName>,
    /// Only jobs of this group of the region. For nodes that ask each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub group: Option<GroupNumber>,
}

/// A job as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// The caller's name for it.
    pub job_id: JobName,
    /// Whose credits.
    pub tenant: TenantName,
    /// In which unit.
    pub unit: UnitName,
    /// Where it stands.
    pub status: JobStatus,
    /// What it costs.
    pub amount: Amount,
    /// Its hold; left out if it is paid by a charge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub hold_id: Option<HoldId>,
    /// Its charge; left out if it is paid by a hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub charge_id: Option<ChargeId>,
    /// Where workers find it.
    pub queue: QueueLabel,
    /// Attempts that have begun since the last success or redrive.
    pub attempts: u32,
    /// After so many it is a dead letter.
    pub max_attempts: u32,
    /// How often it was redriven.
    pub redriven: u32,
    /// When it is due: for the first time, again, or because its lease runs out; `null` once it is not due
    /// any more.
    pub due_at: Option<Moment>,
    /// What was said of the last failure.
    pub failure: Option<Reason>,
    /// When it was created.
    pub created_at: Moment,
    /// The budgets that its call named; left out if there are none. Its hold or charge tells all in which it
    /// counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<BudgetLabel>,
    /// The caller's own name for the work.
    pub reference: Option<Reference>,
    /// The entry that last changed it: what a discard confirms.
    pub sequence: SequenceNumber,
}

/// Answers create, outcome, renew and redrive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobAnswer {
    /// The job.
    #[serde(flatten)]
    pub job: Job,
    /// The lease, if it is leased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub lease: Option<LeaseId>,
    /// What the job's last entry did to its credits.
    pub effect: JobEffect,
    /// How many credits that moved.
    pub moved: Amount,
    /// What of it became debt.
    pub debt_added: Amount,
    /// The account afterwards.
    pub balance: Balance,
}

/// A job and everything that happened to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobDetail {
    /// The job.
    #[serde(flatten)]
    pub job: Job,
    /// Its entries, oldest first; the newest 1,000 if there are more.
    #[schema(max_items = 1_000)]
    pub history: Vec<Entry>,
    /// Whether there are older entries than these. The list of the account's entries has them all.
    pub has_older: bool,
}

/// A job that a worker has got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeasedJob {
    /// The job.
    #[serde(flatten)]
    pub job: Job,
    /// The lease.
    pub lease: LeaseId,
}

/// Answers lease.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeaseAnswer {
    /// The jobs.
    pub jobs: Vec<LeasedJob>,
    /// Regions that did not answer: whether they have jobs that are due is not known, and what they may
    /// have leased all the same is due again once that runs out.
    pub unknown_regions: Vec<RegionName>,
}

/// Asks for jobs, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct JobsQuery {
    /// What the account counts.
    #[serde(default)]
    #[param(default = "credits")]
    pub unit: UnitName,
    /// Only jobs that stand like this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub state: Option<JobStatus>,
    /// How many at most.
    #[serde(default)]
    #[param(inline)]
    pub limit: PageLimit,
    /// Where the page starts: at the first if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub cursor: Option<Cursor>,
}

impl JobsQuery {
    /// What the list's cursors are bound to.
    pub fn scope(&self, tenant: &TenantId) -> CursorScope {
        CursorScope::new(paths::JOBS)
            .of_account(tenant, &self.unit.0)
            .with_filter("state", self.state.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_has_one_spelling() {
        let text = "00ff00000000000000000000000000a1";
        assert_eq!(text.parse::<LeaseId>().unwrap().to_string(), text);
        for odd in ["", "ff", &text[1..], "+0ff00000000000000000000000000a1", &text.to_uppercase()]
        {
            assert!(odd.parse::<LeaseId>().is_err(), "{odd:?}");
        }
    }

    #[test]
    fn an_outcome_may_be_retried_unless_it_says_otherwise() {
        let read = |text: &str| serde_json::from_str::<OutcomeRequest>(text);
        assert!(read(r#"{"outcome":"failed"}"#).unwrap().retryable);
        assert!(!read(r#"{"outcome":"failed","retryable":false}"#).unwrap().retryable);
        assert!(read(r#"{"outcome":"lost"}"#).is_err());
        assert!(read(r#"{"outcome":"failed","lease":null}"#).is_err());
        assert!(serde_json::from_str::<LeaseRequest>(r#"{"max":0}"#).is_err());
        assert!(serde_json::from_str::<LeaseRequest>(r#"{"max":1001}"#).is_err());
    }
}
