//! `purser job`: creating jobs, working on them, reporting how they ended.

use clap::{Args, Subcommand};
use purser_api::{
    BackoffSeconds, BudgetLabel, CallAmount, CreateJobRequest, Job, JobAnswer, JobDetail, JobMode,
    JobName, JobOutcome, JobStatus, JobsQuery, LeaseAnswer, LeaseCount, LeaseId, LeaseQuery,
    LeaseRequest, MaxAttempts, OutcomeRequest, QueueLabel, Reason, Reference, RegionName,
    RenewRequest, TtlSeconds, UnitName,
};

use super::arguments::{Account, Key, Notes, Page, budgets, ranged, ttl};
use super::connection::Service;
use super::tables::{self, Column, Facts};
use crate::failure::CommandError;
use crate::output::Output;

/// Create jobs, work on them, report how they ended.
#[derive(Debug, Subcommand)]
pub(crate) enum JobAction {
    /// Create a job, and set aside or charge what it costs.
    Create(Create),
    /// Show a job with its history.
    Get(Named),
    /// List jobs, newest first.
    List(List),
    /// Take jobs that are due, of all tenants.
    Lease(Lease),
    /// Keep a job for longer.
    Renew(Renew),
    /// Report how an attempt of a job ended.
    Outcome(Outcome),
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    #[command(flatten)]
    account: Account,
    /// Your name for the job, chosen before anything outside is called.
    job: JobName,
    /// What it costs.
    amount: CallAmount,
    /// Charge it at once, instead of setting it aside.
    #[arg(long, conflicts_with = "ttl")]
    charge: bool,
    /// Let a shortfall of the charge become debt, within the account's limit.
    #[arg(long, requires = "charge")]
    allow_debt: bool,
    /// How long the hold lives, in seconds; 15 minutes if left out.
    #[arg(long, value_parser = ttl)]
    ttl: Option<TtlSeconds>,
    /// Where workers find it.
    #[arg(long, default_value = "default")]
    queue: QueueLabel,
    /// Let a worker make the first attempt.
    #[arg(long, conflicts_with = "lease")]
    enqueue: bool,
    /// How long your own lease lasts, in seconds; 15 minutes if left out.
    #[arg(long, value_parser = ttl)]
    lease: Option<TtlSeconds>,
    /// After so many attempts in a row it is a dead letter; 5 if left out.
    #[arg(long, value_parser = ranged::<MaxAttempts>)]
    max_attempts: Option<MaxAttempts>,
    /// How long it waits after the first failed attempt, in seconds; 1 if left out. It doubles each time.
    #[arg(long, value_parser = ranged::<BackoffSeconds>)]
    backoff: Option<BackoffSeconds>,
    /// The longest wait, in seconds; an hour if left out.
    #[arg(long, value_parser = ranged::<BackoffSeconds>)]
    backoff_max: Option<BackoffSeconds>,
    /// A budget that is asked as well; up to eight of them.
    #[arg(long = "budget", value_name = "BUDGET")]
    budgets: Vec<BudgetLabel>,
    /// Your own name for the work, to search by.
    #[arg(long)]
    reference: Option<Reference>,
    #[command(flatten)]
    notes: Notes,
    #[command(flatten)]
    key: Key,
}

impl Create {
    fn request(&self) -> Result<CreateJobRequest, CommandError> {
        Ok(CreateJobRequest {
            job_id: self.job.clone(),
            amount: self.amount,
            mode: if self.charge { JobMode::Charge } else { JobMode::Hold },
            ttl_seconds: self.ttl,
            allow_debt: self.allow_debt,
            budgets: budgets(&self.budgets)?,
            queue: self.queue.clone(),
            enqueue: self.enqueue,
            lease_seconds: self.lease,
            max_attempts: self.max_attempts,
            backoff_seconds: self.backoff,
            backoff_max_seconds: self.backoff_max,
            reference: self.reference.clone(),
            metadata: self.notes.checked()?,
        })
    }
}

#[derive(Debug, Args)]
pub(crate) struct Named {
    #[command(flatten)]
    pub(super) account: Account,
    /// The job.
    pub(super) job: JobName,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    account: Account,
    /// Only jobs that stand like this: `queued`, `leased`, `succeeded`, `failed`, `dead` or `discarded`.
    #[arg(long)]
    state: Option<JobStatus>,
    #[command(flatten)]
    page: Page,
}

#[derive(Debug, Args)]
pub(crate) struct Lease {
    /// From this queue.
    #[arg(default_value = "default")]
    queue: QueueLabel,
    /// At most so many, 1 to 1000.
    #[arg(long, default_value = "1", value_parser = ranged::<LeaseCount>)]
    max: LeaseCount,
    /// How long the leases last, in seconds; 15 minutes if left out.
    #[arg(long, value_parser = ttl)]
    lease: Option<TtlSeconds>,
    /// Only jobs of tenants whose home is in this region.
    #[arg(long)]
    region: Option<RegionName>,
}

#[derive(Debug, Args)]
pub(crate) struct Renew {
    #[command(flatten)]
    named: Named,
    /// The lease.
    token: LeaseId,
    /// How long it lasts from now on, in seconds; 15 minutes if left out.
    #[arg(long, value_parser = ttl)]
    lease: Option<TtlSeconds>,
    #[command(flatten)]
    key: Key,
}

#[derive(Debug, Args)]
pub(crate) struct Outcome {
    #[command(flatten)]
    named: Named,
    /// How it ended: `succeeded` or `failed`.
    outcome: JobOutcome,
    /// It failed, and trying again is of no use.
    #[arg(long)]
    for_good: bool,
    /// The lease under which it was tried.
    #[arg(long)]
    lease: Option<LeaseId>,
    /// What went wrong.
    #[arg(long)]
    reason: Option<Reason>,
    #[command(flatten)]
    notes: Notes,
    #[command(flatten)]
    key: Key,
}

impl Outcome {
    fn request(&self) -> Result<OutcomeRequest, CommandError> {
        Ok(OutcomeRequest {
            outcome: self.outcome,
            retryable: !self.for_good,
            lease: self.lease,
            reason: self.reason.clone(),
            metadata: self.notes.checked()?,
        })
    }
}

/// Runs a command about jobs.
pub(super) async fn run(
    action: JobAction,
    service: &Service,
    output: &Output,
) -> Result<(), CommandError> {
    match action {
        JobAction::Create(args) => {
            let account = service.account(&args.account);
            let made = account.create_job(&args.request()?, &service.call(&args.key)).await;
            output.answer(&service.done(made, output)?, show_answer)?;
        }
        JobAction::Get(args) => {
            let account = service.account(&args.account);
            let found = account.job(&args.job, &service.read()).await;
            output.answer(&service.found(found)?, show_detail)?;
        }
        JobAction::List(args) => {
            let unit = UnitName(args.account.unit().clone());
            let Page { limit, cursor } = args.page;
            let query = JobsQuery { unit, state: args.state, limit, cursor };
            let found = service.account(&args.account).jobs(&query, &service.read()).await;
            service.list(found, output, table)?;
        }
        JobAction::Lease(args) => {
            let query = LeaseQuery { region: args.region, group: None };
            let Lease { queue, max, lease, .. } = args;
            let body = LeaseRequest { queue, max, lease_seconds: lease };
            let leased = service.client.lease_jobs(&query, &body, &service.read()).await;
            output.answer(&service.said(leased)?, show_leased)?;
        }
        JobAction::Renew(args) => {
            let body = RenewRequest { lease: args.token, lease_seconds: args.lease };
            let (account, call) = (service.account(&args.named.account), service.call(&args.key));
            let renewed = account.renew_job(&args.named.job, &body, &call).await;
            output.answer(&service.done(renewed, output)?, show_answer)?;
        }
        JobAction::Outcome(args) => {
            let (account, call) = (service.account(&args.named.account), service.call(&args.key));
            let told = account.report_outcome(&args.named.job, &args.request()?, &call).await;
            output.answer(&service.done(told, output)?, show_answer)?;
        }
    }
    Ok(())
}

/// A job after something happened to it.
pub(super) fn show_answer(answer: &JobAnswer) -> String {
    let facts = facts(&answer.job)
        .with_some("lease", answer.lease.as_ref())
        .with("effect", answer.effect)
        .with("moved", &answer.moved)
        .with("debt added", &answer.debt_added);
    tables::available(facts, &answer.balance).text()
}

/// A job with its history.
pub(super) fn show_detail(detail: &JobDetail) -> String {
    format!("{}\n\n{}", facts(&detail.job).text(), tables::entries(&detail.history))
}

/// Jobs as a table.
pub(super) fn table(jobs: &[Job]) -> String {
    let columns = [
        Column::Text("TENANT"),
        Column::Text("JOB"),
        Column::Text("STATUS"),
        Column::Number("AMOUNT"),
        Column::Text("QUEUE"),
        Column::Number("ATTEMPTS"),
        Column::Text("DUE"),
        Column::Text("FAILURE"),
    ];
    let row = |job: &Job| {
        vec![
            job.tenant.to_string(),
            job.job_id.to_string(),
            job.status.to_string(),
            job.amount.to_string(),
            job.queue.to_string(),
            format!("{}/{}", job.attempts, job.max_attempts),
            tables::or_none(job.due_at.as_ref()),
            tables::or_none(job.failure.as_ref()),
        ]
    };
    tables::table(&columns, jobs.iter().map(row))
}

fn facts(job: &Job) -> Facts {
    Facts::new()
        .with("job", &job.job_id)
        .with("tenant", &job.tenant)
        .with("unit", &job.unit)
        .with("status", job.status)
        .with("amount", &job.amount)
        .with_some("hold", job.hold_id.as_ref())
        .with_some("charge", job.charge_id.as_ref())
        .with("queue", &job.queue)
        .with("attempts", format!("{} of {}", job.attempts, job.max_attempts))
        .with_some("due", job.due_at.as_ref())
        .with_some("failure", job.failure.as_ref())
        .with_some("budgets", tables::names(job.budgets.iter()))
        .with_some("reference", job.reference.as_ref())
        .with("sequence", &job.sequence)
}

fn show_leased(answer: &LeaseAnswer) -> String {
    let columns = [
        Column::Text("TENANT"),
        Column::Text("JOB"),
        Column::Number("AMOUNT"),
        Column::Number("ATTEMPT"),
        Column::Text("UNTIL"),
        Column::Text("LEASE"),
    ];
    let rows = answer.jobs.iter().map(|leased| {
        vec![
            leased.job.tenant.to_string(),
            leased.job.job_id.to_string(),
            leased.job.amount.to_string(),
            format!("{}/{}", leased.job.attempts, leased.job.max_attempts),
            tables::or_none(leased.job.due_at.as_ref()),
            leased.lease.to_string(),
        ]
    });
    let table = tables::table(&columns, rows);
    if answer.unknown_regions.is_empty() {
        return table;
    }
    let unknown: Vec<String> = answer.unknown_regions.iter().map(ToString::to_string).collect();
    format!("{table}\n\nno answer from: {}", unknown.join(", "))
}
