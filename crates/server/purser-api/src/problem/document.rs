//! The problem document: `application/problem+json`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Outcome, ProblemCode, Retry};
use crate::hold::HoldStatus;
use crate::ids::LotId;
use crate::job::JobStatus;
use crate::text::{Amount, BudgetLabel, Moment, RegionName, SequenceNumber};

/// Why a request was not done (RFC 9457).
///
/// `code`, `retry`, `outcome`, `request_id` and the figures are extension members. The figures
/// stand beside the others, each only where it matters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The address of the page that explains the code.
    #[serde(rename = "type")]
    pub type_url: String,
    /// What the code means; the same for every occurrence.
    pub title: Cow<'static, str>,
    /// The HTTP status.
    pub status: u16,
    /// What is the matter this time, for people.
    pub detail: String,
    /// The code, for programs. A text and not an enum, so that a client of an earlier release can
    /// read a problem that it does not know; `retry` and `outcome` tell it what to do.
    pub code: Cow<'static, str>,
    /// Whether to send the request again, and under which key.
    pub retry: Retry,
    /// What is known about the effect of the request.
    pub outcome: Outcome,
    /// Names this request in the service's logs.
    pub request_id: String,
    /// The figures that matter.
    #[serde(flatten)]
    pub figures: Box<Figures>,
}

/// The figures of a problem; each is left out where it does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Figures {
    /// What the account could have paid.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub available: Option<Amount>,
    /// How much would have to be granted for this to be paid in full. A grant pays debt first, so
    /// what is owed is part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub short_by: Option<Amount>,
    /// How many credits are in regions that cannot be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub stranded: Option<Amount>,
    /// Which regions these are.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub regions: Option<Vec<RegionName>>,
    /// What the account owes; left out if that is nothing, unless the request allowed debt. While
    /// it owes anything, every authorize is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub debt: Option<Amount>,
    /// What the account may owe, where the request allowed debt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub debt_limit: Option<Amount>,
    /// The budget that failed: the first of those that the call named and of those above them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub budget: Option<BudgetLabel>,
    /// That budget's limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub budget_limit: Option<Amount>,
    /// What is left of it in its present period, or in that of the hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub budget_remaining: Option<Amount>,
    /// When that period ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub budget_until: Option<Moment>,
    /// How many holds have not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub open_holds: Option<u64>,
    /// How many jobs are queued, leased or dead.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub open_jobs: Option<u64>,
    /// How the job stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub job_status: Option<JobStatus>,
    /// What can still be refunded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub refundable: Option<Amount>,
    /// What can still be granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub grantable: Option<Amount>,
    /// What the region has free, as far as home knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub right: Option<Amount>,
    /// How the hold stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub hold_status: Option<HoldStatus>,
    /// What was captured of the hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub captured_total: Option<Amount>,
    /// The entry that ended the hold first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub first_sequence: Option<SequenceNumber>,
    /// When the hold ended by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub first_at: Option<Moment>,
    /// The hold's deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub expires_at: Option<Moment>,
    /// The latest deadline that the hold can have.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub latest_expires_at: Option<Moment>,
    /// The lot that the `source_ref` belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub lot_id: Option<LotId>,
    /// What that lot was granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub lot_amount: Option<Amount>,
    /// The account's last entry: the state version to confirm, or the last that can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub current_sequence: Option<SequenceNumber>,
    /// The first item of the batch that was refused, counted from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub failed_item: Option<u32>,
    /// How long to wait before sending it again, in milliseconds; `Retry-After` in whole seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub retry_after_ms: Option<u64>,
}

impl Problem {
    /// The media type of problem documents.
    pub const MEDIA_TYPE: &'static str = "application/problem+json";

    /// A problem without figures.
    pub fn new(
        code: ProblemCode,
        detail: impl Into<String>,
        request_id: impl Into<String>,
    ) -> Self {
        Self {
            type_url: code.documentation_url(),
            title: Cow::Borrowed(code.title()),
            status: code.status(),
            detail: detail.into(),
            code: Cow::Borrowed(code.name()),
            retry: code.retry(),
            outcome: code.outcome(),
            request_id: request_id.into(),
            figures: Box::default(),
        }
    }

    /// The same problem with figures.
    #[must_use]
    pub fn with_figures(mut self, figures: Figures) -> Self {
        *self.figures = figures;
        self
    }

    /// The code, if this release knows it.
    pub fn known_code(&self) -> Option<ProblemCode> {
        ProblemCode::from_name(&self.code)
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} ({}): {}", self.code, self.status, self.detail)
    }
}
