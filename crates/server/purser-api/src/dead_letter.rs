//! Dead letters: jobs that failed as often as they may. Only people touch them.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::body::{is_no, not_null};
use crate::cursor::{Cursor, CursorScope};
use crate::job::JobAnswer;
use crate::list::PageLimit;
use crate::paths;
use crate::prose::Reason;
use crate::text::{QueueLabel, RegionName, SequenceNumber, TenantName};

/// Asks for dead letters, in the order of their tenants' names, oldest job first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeadLettersQuery {
    /// Of tenants whose home is in this region; in the one that is asked if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub region: Option<RegionName>,
    /// Only of this tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub tenant: Option<TenantName>,
    /// Only of this queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub queue: Option<QueueLabel>,
    /// How many at most.
    #[serde(default)]
    #[param(inline)]
    pub limit: PageLimit,
    /// Where the page starts: at the first if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(nullable = false)]
    pub cursor: Option<Cursor>,
}

impl DeadLettersQuery {
    /// What the list's cursors are bound to.
    pub fn scope(&self) -> CursorScope {
        CursorScope::new(paths::ADMIN_DEAD_LETTERS)
            .with_filter("region", self.region.as_ref())
            .with_filter("tenant", self.tenant.as_ref())
            .with_filter("queue", self.queue.as_ref())
    }
}

/// Lets a dead letter be tried again. Pressed twice, it is redriven once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RedriveRequest {
    /// Why, for whoever reads the history.
    pub reason: Reason,
}

/// Lets nothing become of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DiscardRequest {
    /// Why, for whoever reads the history.
    pub reason: Reason,
    /// Whether only to show what would happen.
    #[serde(default, skip_serializing_if = "is_no")]
    pub dry_run: bool,
    /// The `confirm` of the dry run: the job's `sequence`. The act is refused if the job has changed since.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub confirm: Option<SequenceNumber>,
}

/// Answers discard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiscardAnswer {
    /// Whether this only shows what would happen.
    pub dry_run: bool,
    /// What to send as `confirm` to do it; left out if it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub confirm: Option<SequenceNumber>,
    /// The job, after the act.
    #[serde(flatten)]
    pub answer: JobAnswer,
}
