//! One item of a batch: an operation with its tenant, unit and idempotency key.
//!
//! On the wire an item is one flat object (see `item_fields`), so that it reads like the
//! operation's own body. Here it is a typed operation.

use purser_types::{IdempotencyKey, TenantId, Unit};
use serde::{Deserialize, Serialize};

use crate::charge::ChargeRequest;
use crate::hold::{AuthorizeRequest, CaptureRequest, ExtendRequest, ReleaseRequest};
use crate::ids::{ChargeId, HoldId};
use crate::item_fields::ItemFields;
use crate::job::{CreateJobRequest, OutcomeRequest, RenewRequest};
use crate::spelled::spelled_enum;
use crate::text::JobName;
use crate::undo::{ReclaimRequest, RefundRequest};

/// One operation of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ItemFields", into = "ItemFields")]
pub struct BatchItem {
    /// Whose credits.
    pub tenant: TenantId,
    /// In which unit.
    pub unit: Unit,
    /// The caller's name for this change.
    pub idempotency_key: IdempotencyKey,
    /// What is asked.
    pub operation: BatchOperation,
}

/// What an item asks for: a call of the data plane that changes something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchOperation {
    /// Opens a hold.
    Authorize(AuthorizeRequest),
    /// Takes all or part of a hold.
    Capture(HoldId, CaptureRequest),
    /// Gives a hold back.
    Release(HoldId, ReleaseRequest),
    /// Moves a hold's deadline.
    Extend(HoldId, ExtendRequest),
    /// Authorizes and captures in one step.
    Charge(ChargeRequest),
    /// Gives captured credits back.
    Refund(SubjectId, RefundRequest),
    /// Charges again what was refunded.
    Reclaim(SubjectId, ReclaimRequest),
    /// Creates a job.
    CreateJob(CreateJobRequest),
    /// Reports how an attempt of a job ended.
    ReportOutcome(JobName, OutcomeRequest),
    /// Keeps a job for longer.
    RenewJob(JobName, RenewRequest),
}

/// What a refund or a reclaim is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubjectId {
    /// A hold.
    Hold(HoldId),
    /// A charge.
    Charge(ChargeId),
}

spelled_enum! {
    /// Names an operation.
    BatchOperationName, "an operation" {
        /// Opens a hold.
        Authorize "authorize",
        /// Takes all or part of a hold.
        Capture "capture",
        /// Gives a hold back.
        Release "release",
        /// Moves a hold's deadline.
        Extend "extend",
        /// Authorizes and captures in one step.
        Charge "charge",
        /// Gives captured credits back.
        Refund "refund",
        /// Charges again what was refunded.
        Reclaim "reclaim",
        /// Creates a job.
        CreateJob "create_job",
        /// Reports how an attempt of a job ended.
        ReportOutcome "report_outcome",
        /// Keeps a job for longer.
        RenewJob "renew_job",
    }
}

impl BatchOperation {
    /// The operation's name.
    pub const fn name(&self) -> BatchOperationName {
        match self {
            Self::Authorize(_) => BatchOperationName::Authorize,
            Self::Capture(..) => BatchOperationName::Capture,
            Self::Release(..) => BatchOperationName::Release,
            Self::Extend(..) => BatchOperationName::Extend,
            Self::Charge(_) => BatchOperationName::Charge,
            Self::Refund(..) => BatchOperationName::Refund,
            Self::Reclaim(..) => BatchOperationName::Reclaim,
            Self::CreateJob(_) => BatchOperationName::CreateJob,
            Self::ReportOutcome(..) => BatchOperationName::ReportOutcome,
            Self::RenewJob(..) => BatchOperationName::RenewJob,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(fields: &str) -> Result<BatchItem, serde_json::Error> {
        serde_json::from_str(&format!(r#"{{"tenant":"acme","idempotency_key":"k",{fields}}}"#))
    }

    #[test]
    fn an_item_reads_like_the_operation_alone() {
        for fields in [
            r#""op":"authorize","amount":"5","ttl_seconds":60,"reference":"r""#,
            r#""op":"capture","hold_id":"h7-0-us","amount":"0","final":true"#,
            r#""op":"release","hold_id":"h7-0-us""#,
            r#""op":"extend","hold_id":"h7-0-us","until":"2026-08-01T00:00:00Z""#,
            r#""op":"charge","amount":5,"allow_debt":true,"unit":"tokens""#,
            r#""op":"refund","charge_id":"c7-0-us","reason":"failed""#,
            r#""op":"reclaim","hold_id":"h7-0-us","reason":"succeeded after all""#,
            r#""op":"create_job","job_id":"j1","amount":5,"queue":"q","enqueue":true,"max_attempts":3"#,
            r#""op":"create_job","job_id":"j1","amount":5,"mode":"charge","allow_debt":true,
                "lease_seconds":60,"backoff_seconds":2,"backoff_max_seconds":9,"reference":"r""#,
            r#""op":"create_job","job_id":"j1","amount":5,"budgets":["key:a","team"]"#,
            r#""op":"report_outcome","job_id":"j1","outcome":"failed","retryable":false,"reason":"r""#,
            r#""op":"renew_job","job_id":"j1","lease":"00112233445566778899aabbccddeeff""#,
        ] {
            let read = item(fields).unwrap();
            let written = serde_json::to_string(&read).unwrap();
            assert_eq!(serde_json::from_str::<BatchItem>(&written).unwrap(), read, "{written}");
        }
    }

    #[test]
    fn a_field_that_the_operation_lacks_is_refused() {
        let refused = |fields: &str| item(fields).unwrap_err().to_string();
        let text = refused(r#""op":"release","hold_id":"h7-0-us","amount":5"#);
        assert_eq!(text, "unknown field `amount` of operation release");
        assert_eq!(refused(r#""op":"charge""#), "missing field `amount` of operation charge");
        let text =
            refused(r#""op":"refund","reason":"r","hold_id":"h7-0-us","charge_id":"c7-0-us""#);
        assert_eq!(text, "operation refund names either a hold_id or a charge_id");
        let text = refused(r#""op":"renew_job","job_id":"j1""#);
        assert_eq!(text, "missing field `lease` of operation renew_job");
        let text = refused(r#""op":"charge","amount":5,"queue":"q""#);
        assert_eq!(text, "unknown field `queue` of operation charge");
        let text = refused(r#""op":"authorize","amount":0"#);
        assert_eq!(text, "an amount here is from 1 to 10^18");
    }
}
