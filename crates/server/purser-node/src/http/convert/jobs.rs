//! Jobs: what is asked of them, and what is shown.

use purser_api as api;
use purser_api::{Amount, Moment};
use purser_ledger::{
    Bucket, Confirm, CreateJob, Fact, FirstAttempt, HoldKind, Job, JobEffect, JobFunding, JobRetry,
    JobState, JobVerdict, LeaseJobs, LeaseToken, Operation, Receipt, RenewJob, ReportOutcome,
};
use purser_types::{Credits, JobId, Span};

use super::answers::debt_added;
use super::budgets::budget_names;
use super::shown::{Shown, kept, moved};
use crate::http::problem::Refusal;

/// Asks for a job. Refuses what would be ignored: who sent it has meant something else.
pub(crate) fn create_job(request: &api::CreateJobRequest) -> Result<Operation, Refusal> {
    let seconds = |seconds: Option<api::TtlSeconds>, usual: Span| {
        seconds.map_or(usual, api::TtlSeconds::span)
    };
    let funding = match request.mode {
        api::JobMode::Hold if request.allow_debt => {
            return Err(Refusal::invalid("allow_debt is for jobs that are charged"));
        }
        api::JobMode::Hold => JobFunding::Hold {
            ttl: seconds(request.ttl_seconds, purser_ledger::Authorize::TTL_DEFAULT),
        },
        api::JobMode::Charge if request.ttl_seconds.is_some() => {
            return Err(Refusal::invalid("a charge has no ttl_seconds"));
        }
        api::JobMode::Charge => JobFunding::Charge { allow_debt: request.allow_debt },
    };
    let start = match (request.enqueue, request.lease_seconds) {
        (true, Some(_)) => {
            return Err(Refusal::invalid("a job that is enqueued has no lease_seconds yet"));
        }
        (true, None) => FirstAttempt::Queue,
        (false, lease) => FirstAttempt::Caller { lease: term(lease) },
    };
    let wait = |wait: Option<api::BackoffSeconds>, usual: Span| {
        wait.map_or(usual, api::BackoffSeconds::span)
    };
    let usual = JobRetry::DEFAULT;
    Ok(Operation::CreateJob(Box::new(CreateJob {
        job: request.job_id.0.clone(),
        amount: request.amount.credits(),
        funding,
        queue: request.queue.0.clone(),
        retry: JobRetry {
            max_attempts: request.max_attempts.map_or(usual.max_attempts, api::MaxAttempts::get),
            base: wait(request.backoff_seconds, usual.base),
            max: wait(request.backoff_max_seconds, usual.max),
        },
        start,
        reference: request.reference.as_ref().map(|reference| reference.as_str().into()),
        budgets: budget_names(&request.budgets),
    })))
}

/// How long a lease lasts.
pub(crate) fn term(seconds: Option<api::TtlSeconds>) -> Span {
    seconds.map_or(LeaseJobs::TERM_DEFAULT, api::TtlSeconds::span)
}

/// Reports an outcome.
pub(crate) fn outcome(job: JobId, request: &api::OutcomeRequest) -> Operation {
    let verdict = match request.outcome {
        api::JobOutcome::Succeeded => JobVerdict::Succeeded,
        api::JobOutcome::Failed => JobVerdict::Failed { retryable: request.retryable },
    };
    let lease = request.lease.map(|lease| LeaseToken(lease.0));
    Operation::ReportOutcome(ReportOutcome { job, verdict, lease })
}

/// Keeps a job for longer.
pub(crate) fn renew_job(job: JobId, request: &api::RenewRequest) -> Operation {
    let (lease, term) = (LeaseToken(request.lease.0), term(request.lease_seconds));
    Operation::RenewJob(RenewJob { job, lease, term })
}

/// Where a job stands.
pub(crate) const fn job_status(state: JobState) -> api::JobStatus {
    match state {
        JobState::Queued { .. } => api::JobStatus::Queued,
        JobState::Leased { .. } => api::JobStatus::Leased,
        JobState::Succeeded { .. } => api::JobStatus::Succeeded,
        JobState::Failed { .. } => api::JobStatus::Failed,
        JobState::Dead { .. } => api::JobStatus::Dead,
        JobState::Discarded { .. } => api::JobStatus::Discarded,
    }
}

impl Shown<'_> {
    /// A job.
    pub(crate) fn job(&self, job: &Job) -> Result<api::Job, Refusal> {
        let (account, number) = (self.account(), job.number.0);
        let owner = self.named_by(number);
        let of_kind = |kind: HoldKind| (job.kind == kind).then_some(number);
        Ok(api::Job {
            job_id: job.id.clone().into(),
            tenant: account.tenant.clone().into(),
            unit: account.unit.clone().into(),
            status: job_status(job.state),
            amount: Amount(job.cost),
            hold_id: of_kind(HoldKind::Hold).map(|number| api::HoldId::new(number, owner)),
            charge_id: of_kind(HoldKind::Charge).map(|number| api::ChargeId::new(number, owner)),
            queue: job.queue.clone().into(),
            attempts: job.attempts,
            max_attempts: job.retry.max_attempts,
            redriven: job.redriven,
            due_at: job.due().map(Moment),
            failure: kept(job.failure.as_deref(), "failure")?,
            created_at: Moment(job.created_at),
            budgets: job.budgets.iter().cloned().map(Into::into).collect(),
            reference: kept(job.reference.as_deref(), "reference")?,
            sequence: job.changed_by.into(),
        })
    }

    /// Answers create, outcome, renew and redrive.
    pub(crate) fn job_answer(&self, receipt: &Receipt) -> Result<api::JobAnswer, Refusal> {
        let job = receipt.entry.fact.job();
        let job = job.ok_or_else(|| Refusal::internal("a receipt about no job"))?;
        let (effect, moved) = effect_of(receipt);
        Ok(api::JobAnswer {
            job: self.job(job)?,
            lease: job.state.token().map(|token| api::LeaseId(token.0)),
            effect,
            moved: Amount(moved),
            debt_added: Amount(debt_added(receipt)),
            balance: self.balance_after(receipt),
        })
    }

    /// Answers discard. A dry run has something to confirm.
    pub(crate) fn discard_answer(
        &self,
        receipt: &Receipt,
        to_confirm: Option<Confirm>,
    ) -> Result<api::DiscardAnswer, Refusal> {
        let answer = self.job_answer(receipt)?;
        let confirm = to_confirm.map(|confirm| confirm.0.into());
        Ok(api::DiscardAnswer { dry_run: confirm.is_some(), confirm, answer })
    }

    /// A job that a worker has got.
    pub(crate) fn leased_job(&self, job: &Job) -> Result<api::LeasedJob, Refusal> {
        let token = job.state.token();
        let token = token.ok_or_else(|| Refusal::internal("a job was leased without a lease"))?;
        Ok(api::LeasedJob { job: self.job(job)?, lease: api::LeaseId(token.0) })
    }
}

/// What the entry of a receipt did to the job's credits, and how many it moved.
fn effect_of(receipt: &Receipt) -> (api::JobEffect, Credits) {
    let (Fact::JobCreated(change) | Fact::JobOutcome(change) | Fact::JobDiscarded(change)) =
        &receipt.entry.fact
    else {
        return (api::JobEffect::None, Credits::ZERO);
    };
    let to = |bucket| moved(&receipt.entry.moves, |_, to| to == bucket);
    match (change.effect, change.hold.kind) {
        (JobEffect::Began, HoldKind::Hold) => (api::JobEffect::Authorized, to(Bucket::Held)),
        (JobEffect::Began, HoldKind::Charge) => (api::JobEffect::Charged, to(Bucket::Used)),
        (JobEffect::Captured, _) => (api::JobEffect::Captured, to(Bucket::Used)),
        (JobEffect::CapturedLate, _) => (api::JobEffect::CapturedLate, to(Bucket::Used)),
        (JobEffect::Reclaimed, _) => (api::JobEffect::Reclaimed, to(Bucket::Used)),
        (JobEffect::Released, _) => {
            let freed = moved(&receipt.entry.moves, |from, _| from == Bucket::Held);
            (api::JobEffect::Released, freed)
        }
        (JobEffect::Refunded, _) => {
            let back = moved(&receipt.entry.moves, |from, _| from == Bucket::Used);
            (api::JobEffect::Refunded, back)
        }
        (JobEffect::Nothing, _) => (api::JobEffect::None, Credits::ZERO),
    }
}
