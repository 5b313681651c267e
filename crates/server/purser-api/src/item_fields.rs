//! A batch item as it stands on the wire: one flat object with the fields of all operations.
//!
//! Reading it takes the fields of its operation; a field that is left over is refused.

use purser_types::{IdempotencyKey, TenantId, Unit};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::amount::{CallAmount, CaptureAmount};
use crate::batch_item::{BatchItem, BatchOperation, BatchOperationName, SubjectId};
use crate::body::not_null;
use crate::budget::BudgetsNamed;
use crate::charge::ChargeRequest;
use crate::hold::{
    AuthorizeRequest, CaptureRequest, Consistency, ExtendRequest, IfExpired, ReleaseRequest,
    TtlSeconds,
};
use crate::ids::{ChargeId, HoldId};
use crate::job::{
    BackoffSeconds, CreateJobRequest, JobMode, JobOutcome, LeaseId, MaxAttempts, OutcomeRequest,
    RenewRequest,
};
use crate::metadata::Metadata;
use crate::prose::{Reason, Reference};
use crate::spelled::InvalidText;
use crate::text::{JobName, KeyText, Moment, QueueLabel, TenantName, UnitName};
use crate::undo::{ReclaimRequest, RefundRequest};

/// An item as it stands on the wire: the fields of all operations.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BatchItem)]
pub(crate) struct ItemFields {
    /// What is asked; says which of the other fields there may be.
    op: BatchOperationName,
    /// Whose credits.
    tenant: TenantName,
    /// In which unit.
    #[serde(default)]
    #[schema(default = "credits")]
    unit: UnitName,
    /// The caller's name for this change.
    idempotency_key: KeyText,
    /// The hold: for capture, release, extend, and refund and reclaim of a hold.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    hold_id: Option<HoldId>,
    /// The charge: for refund and reclaim of a charge.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    charge_id: Option<ChargeId>,
    /// How much: for authorize, capture, charge, refund and create_job. Zero is for captures only.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    amount: Option<CaptureAmount>,
    /// How long the hold lives: for authorize and create_job.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    ttl_seconds: Option<TtlSeconds>,
    /// The hold's new deadline: for extend.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    until: Option<Moment>,
    /// Whether this is the last capture, which is the default.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    r#final: Option<bool>,
    /// Whether a shortfall may become debt: for capture, charge and create_job.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    allow_debt: Option<bool>,
    /// What to do if the hold has expired: for capture.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    if_expired: Option<IfExpired>,
    /// Who may decide: for authorize and charge.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    consistency: Option<Consistency>,
    /// The budgets that are asked as well: for authorize, charge and create_job.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    budgets: Option<BudgetsNamed>,
    /// The caller's own name for the work: for authorize, charge and create_job.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reference: Option<Reference>,
    /// Why: for release, refund, reclaim and report_outcome.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reason: Option<Reason>,
    /// The caller's notes: for authorize, capture, release, charge, create_job and report_outcome.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    metadata: Option<Metadata>,
    /// The job: for create_job, report_outcome and renew_job.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    job_id: Option<JobName>,
    /// Where the credits come from: for create_job.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    mode: Option<JobMode>,
    /// Where workers find the job: for create_job.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    queue: Option<QueueLabel>,
    /// Whether the first attempt is a worker's: for create_job.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    enqueue: Option<bool>,
    /// How long a lease lasts: for create_job and renew_job.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    lease_seconds: Option<TtlSeconds>,
    /// After so many attempts in a row the job is a dead letter: for create_job.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    max_attempts: Option<MaxAttempts>,
    /// How long the job waits after the first failed attempt: for create_job.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    backoff_seconds: Option<BackoffSeconds>,
    /// The longest wait: for create_job.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    backoff_max_seconds: Option<BackoffSeconds>,
    /// How an attempt ended: for report_outcome.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    outcome: Option<JobOutcome>,
    /// Whether trying again may help, which is the default: for report_outcome.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    retryable: Option<bool>,
    /// The lease: for renew_job, and report_outcome if one is named.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    lease: Option<LeaseId>,
}

/// Why an item's fields do not make an operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidItem {
    /// A field that the operation needs is missing.
    #[error("missing field `{field}` of operation {op}")]
    Missing {
        /// The field.
        field: &'static str,
        /// The operation.
        op: BatchOperationName,
    },
    /// A field that the operation does not have.
    #[error("unknown field `{field}` of operation {op}")]
    Unknown {
        /// The field.
        field: &'static str,
        /// The operation.
        op: BatchOperationName,
    },
    /// Both a hold and a charge, or neither.
    #[error("operation {0} names either a hold_id or a charge_id")]
    Subject(BatchOperationName),
    /// An amount that the operation does not allow.
    #[error(transparent)]
    Amount(#[from] InvalidText),
}

impl TryFrom<ItemFields> for BatchItem {
    type Error = InvalidItem;

    fn try_from(mut fields: ItemFields) -> Result<Self, InvalidItem> {
        let operation = fields.take_operation()?;
        // Each operation takes its own fields; what is left belongs to none of them.
        fields.refuse_left_over()?;
        let ItemFields { tenant, unit, idempotency_key, .. } = fields;
        let (tenant, unit) = (tenant.0, unit.0);
        Ok(Self { tenant, unit, idempotency_key: idempotency_key.0, operation })
    }
}

impl ItemFields {
    fn take_operation(&mut self) -> Result<BatchOperation, InvalidItem> {
        use BatchOperationName as Name;
        Ok(match self.op {
            Name::Authorize => BatchOperation::Authorize(AuthorizeRequest {
                amount: self.take_call_amount()?,
                ttl_seconds: self.ttl_seconds.take(),
                consistency: self.consistency.take().unwrap_or_default(),
                budgets: self.budgets.take().unwrap_or_default(),
                reference: self.reference.take(),
                metadata: self.metadata.take().unwrap_or_default(),
            }),
            Name::Capture => {
                let request = CaptureRequest {
                    amount: self.amount.take(),
                    r#final: self.r#final.take().unwrap_or(true),
                    allow_debt: self.allow_debt.take().unwrap_or_default(),
                    if_expired: self.if_expired.take().unwrap_or_default(),
                    metadata: self.metadata.take().unwrap_or_default(),
                };
                BatchOperation::Capture(self.take_hold()?, request)
            }
            Name::Release => {
                let metadata = self.metadata.take().unwrap_or_default();
                let request = ReleaseRequest { reason: self.reason.take(), metadata };
                BatchOperation::Release(self.take_hold()?, request)
            }
            Name::Extend => {
                let until = self.until.take().ok_or_else(|| self.missing("until"))?;
                BatchOperation::Extend(self.take_hold()?, ExtendRequest { until })
            }
            Name::Charge => BatchOperation::Charge(ChargeRequest {
                amount: self.take_call_amount()?,
                consistency: self.consistency.take().unwrap_or_default(),
                budgets: self.budgets.take().unwrap_or_default(),
                allow_debt: self.allow_debt.take().unwrap_or_default(),
                reference: self.reference.take(),
                metadata: self.metadata.take().unwrap_or_default(),
            }),
            Name::Refund => {
                let amount = self.amount.take();
                let amount = amount.map(|it| CallAmount::from_credits(it.credits())).transpose()?;
                let request = RefundRequest { amount, reason: self.take_reason()? };
                BatchOperation::Refund(self.take_subject()?, request)
            }
            Name::Reclaim => {
                let request = ReclaimRequest { reason: self.take_reason()? };
                BatchOperation::Reclaim(self.take_subject()?, request)
            }
            Name::CreateJob => BatchOperation::CreateJob(self.take_new_job()?),
            Name::ReportOutcome => {
                let request = OutcomeRequest {
                    outcome: self.outcome.take().ok_or_else(|| self.missing("outcome"))?,
                    retryable: self.retryable.take().unwrap_or(true),
                    lease: self.lease.take(),
                    reason: self.reason.take(),
                    metadata: self.metadata.take().unwrap_or_default(),
                };
                BatchOperation::ReportOutcome(self.take_job()?, request)
            }
            Name::RenewJob => {
                let lease = self.lease.take().ok_or_else(|| self.missing("lease"))?;
                let request = RenewRequest { lease, lease_seconds: self.lease_seconds.take() };
                BatchOperation::RenewJob(self.take_job()?, request)
            }
        })
    }

    fn take_new_job(&mut self) -> Result<CreateJobRequest, InvalidItem> {
        Ok(CreateJobRequest {
            job_id: self.take_job()?,
            amount: self.take_call_amount()?,
            mode: self.mode.take().unwrap_or_default(),
            ttl_seconds: self.ttl_seconds.take(),
            allow_debt: self.allow_debt.take().unwrap_or_default(),
            budgets: self.budgets.take().unwrap_or_default(),
            queue: self.queue.take().unwrap_or_default(),
            enqueue: self.enqueue.take().unwrap_or_default(),
            lease_seconds: self.lease_seconds.take(),
            max_attempts: self.max_attempts.take(),
            backoff_seconds: self.backoff_seconds.take(),
            backoff_max_seconds: self.backoff_max_seconds.take(),
            reference: self.reference.take(),
            metadata: self.metadata.take().unwrap_or_default(),
        })
    }

    fn take_job(&mut self) -> Result<JobName, InvalidItem> {
        self.job_id.take().ok_or_else(|| self.missing("job_id"))
    }

    fn missing(&self, field: &'static str) -> InvalidItem {
        InvalidItem::Missing { field, op: self.op }
    }

    fn take_call_amount(&mut self) -> Result<CallAmount, InvalidItem> {
        let amount = self.amount.take().ok_or_else(|| self.missing("amount"))?;
        Ok(CallAmount::from_credits(amount.credits())?)
    }

    fn take_hold(&mut self) -> Result<HoldId, InvalidItem> {
        self.hold_id.take().ok_or_else(|| self.missing("hold_id"))
    }

    fn take_reason(&mut self) -> Result<Reason, InvalidItem> {
        self.reason.take().ok_or_else(|| self.missing("reason"))
    }

    fn take_subject(&mut self) -> Result<SubjectId, InvalidItem> {
        match (self.hold_id.take(), self.charge_id.take()) {
            (Some(hold), None) => Ok(SubjectId::Hold(hold)),
            (None, Some(charge)) => Ok(SubjectId::Charge(charge)),
            _ => Err(InvalidItem::Subject(self.op)),
        }
    }

    fn refuse_left_over(&self) -> Result<(), InvalidItem> {
        let left_over = [
            ("hold_id", self.hold_id.is_some()),
            ("charge_id", self.charge_id.is_some()),
            ("amount", self.amount.is_some()),
            ("ttl_seconds", self.ttl_seconds.is_some()),
            ("until", self.until.is_some()),
            ("final", self.r#final.is_some()),
            ("allow_debt", self.allow_debt.is_some()),
            ("if_expired", self.if_expired.is_some()),
            ("consistency", self.consistency.is_some()),
            ("budgets", self.budgets.is_some()),
            ("reference", self.reference.is_some()),
            ("reason", self.reason.is_some()),
            ("metadata", self.metadata.is_some()),
            ("job_id", self.job_id.is_some()),
            ("mode", self.mode.is_some()),
            ("queue", self.queue.is_some()),
            ("enqueue", self.enqueue.is_some()),
            ("lease_seconds", self.lease_seconds.is_some()),
            ("max_attempts", self.max_attempts.is_some()),
            ("backoff_seconds", self.backoff_seconds.is_some()),
            ("backoff_max_seconds", self.backoff_max_seconds.is_some()),
            ("outcome", self.outcome.is_some()),
            ("retryable", self.retryable.is_some()),
            ("lease", self.lease.is_some()),
        ];
        match left_over.into_iter().find(|(_, there)| *there) {
            Some((field, _)) => Err(InvalidItem::Unknown { field, op: self.op }),
            None => Ok(()),
        }
    }
}

impl From<BatchItem> for ItemFields {
    fn from(item: BatchItem) -> Self {
        let BatchItem { tenant, unit, idempotency_key, operation } = item;
        let mut fields = Self::bare(tenant, unit, idempotency_key, operation.name());
        match operation {
            BatchOperation::Authorize(request) => {
                fields.put_amount(request.amount);
                fields.ttl_seconds = request.ttl_seconds;
                fields.consistency = Some(request.consistency);
                fields.budgets = Some(request.budgets).filter(|budgets| !budgets.is_empty());
                fields.reference = request.reference;
                fields.metadata = Some(request.metadata);
            }
            BatchOperation::Capture(hold, request) => {
                fields.hold_id = Some(hold);
                fields.amount = request.amount;
                fields.r#final = Some(request.r#final);
                fields.allow_debt = Some(request.allow_debt);
                fields.if_expired = Some(request.if_expired);
                fields.metadata = Some(request.metadata);
            }
            BatchOperation::Release(hold, request) => {
                fields.hold_id = Some(hold);
                fields.reason = request.reason;
                fields.metadata = Some(request.metadata);
            }
            BatchOperation::Extend(hold, request) => {
                fields.hold_id = Some(hold);
                fields.until = Some(request.until);
            }
            BatchOperation::Charge(request) => {
                fields.put_amount(request.amount);
                fields.consistency = Some(request.consistency);
                fields.budgets = Some(request.budgets).filter(|budgets| !budgets.is_empty());
                fields.allow_debt = Some(request.allow_debt);
                fields.reference = request.reference;
                fields.metadata = Some(request.metadata);
            }
            BatchOperation::Refund(subject, request) => {
                fields.put_subject(subject);
                if let Some(amount) = request.amount {
                    fields.put_amount(amount);
                }
                fields.reason = Some(request.reason);
            }
            BatchOperation::Reclaim(subject, request) => {
                fields.put_subject(subject);
                fields.reason = Some(request.reason);
            }
            BatchOperation::CreateJob(request) => fields.put_new_job(request),
            BatchOperation::ReportOutcome(job, request) => {
                fields.job_id = Some(job);
                fields.outcome = Some(request.outcome);
                fields.retryable = Some(request.retryable);
                fields.lease = request.lease;
                fields.reason = request.reason;
                fields.metadata = Some(request.metadata);
            }
            BatchOperation::RenewJob(job, request) => {
                fields.job_id = Some(job);
                fields.lease = Some(request.lease);
                fields.lease_seconds = request.lease_seconds;
            }
        }
        fields
    }
}

impl ItemFields {
    fn bare(tenant: TenantId, unit: Unit, key: IdempotencyKey, op: BatchOperationName) -> Self {
        Self {
            op,
            tenant: tenant.into(),
            unit: unit.into(),
            idempotency_key: key.into(),
            hold_id: None,
            charge_id: None,
            amount: None,
            ttl_seconds: None,
            until: None,
            r#final: None,
            allow_debt: None,
            if_expired: None,
            consistency: None,
            budgets: None,
            reference: None,
            reason: None,
            metadata: None,
            job_id: None,
            mode: None,
            queue: None,
            enqueue: None,
            lease_seconds: None,
            max_attempts: None,
            backoff_seconds: None,
            backoff_max_seconds: None,
            outcome: None,
            retryable: None,
            lease: None,
        }
    }

    fn put_new_job(&mut self, request: CreateJobRequest) {
        self.put_amount(request.amount);
        self.job_id = Some(request.job_id);
        self.mode = Some(request.mode);
        self.ttl_seconds = request.ttl_seconds;
        self.allow_debt = Some(request.allow_debt);
        self.budgets = Some(request.budgets).filter(|it| !it.is_empty());
        self.queue = Some(request.queue);
        self.enqueue = Some(request.enqueue);
        self.lease_seconds = request.lease_seconds;
        self.max_attempts = request.max_attempts;
        self.backoff_seconds = request.backoff_seconds;
        self.backoff_max_seconds = request.backoff_max_seconds;
        self.reference = request.reference;
        self.metadata = Some(request.metadata);
    }

    fn put_amount(&mut self, amount: CallAmount) {
        let amount = CaptureAmount::from_credits(amount.credits());
        self.amount = Some(amount.expect("a capture allows every amount that a call does"));
    }

    fn put_subject(&mut self, subject: SubjectId) {
        match subject {
            SubjectId::Hold(hold) => self.hold_id = Some(hold),
            SubjectId::Charge(charge) => self.charge_id = Some(charge),
        }
    }
}
