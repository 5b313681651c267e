//! What the golden tests pin about jobs.

use purser_ledger::{
    Command, Confirm, CreateJob, DiscardJob, Fact, FirstAttempt, HoldKind, Job, JobChange,
    JobEffect, JobFunding, JobRetry, JobState, JobVerdict, LeaseJobs, LeaseToken, Operation,
    RedriveJob, RenewJob, ReportOutcome,
};
use purser_types::{JobId, QueueName, Span};

use super::{at, context, credits, hold, hold_number, sequence, terms};

fn id(name: &str) -> JobId {
    JobId::parse(name).unwrap()
}

fn token() -> LeaseToken {
    LeaseToken([5; 16])
}

pub(super) fn leased() -> JobState {
    JobState::Leased { until: at(90), token: token() }
}

fn create(name: &str, amount: u64, funding: JobFunding, start: FirstAttempt) -> Operation {
    let reference = Some("frame-7".into());
    let queue = QueueName::parse("video").unwrap();
    let (job, amount, retry) = (id(name), credits(amount), JobRetry::DEFAULT);
    let create =
        CreateJob { job, amount, funding, queue, retry, start, reference, budgets: Box::default() };
    Operation::CreateJob(Box::new(create))
}

/// A job that its caller works on.
pub(super) fn running() -> Operation {
    let lease = Span::from_secs(90);
    let hold = JobFunding::Hold { ttl: Span::from_secs(300) };
    create("job-1", 3, hold, FirstAttempt::Caller { lease })
}

pub(super) fn small(name: &str) -> Operation {
    create(name, 1, JobFunding::Charge { allow_debt: true }, FirstAttempt::Queue)
}

pub(super) fn succeeded(name: &str) -> Operation {
    let verdict = JobVerdict::Succeeded;
    Operation::ReportOutcome(ReportOutcome { job: id(name), verdict, lease: None })
}

/// In the order of their numbers.
pub(super) fn operations() -> Vec<Operation> {
    let job = id("job-1");
    let failed = JobVerdict::Failed { retryable: true };
    let outcome = ReportOutcome { job: job.clone(), verdict: failed, lease: Some(token()) };
    let (lease, term) = (token(), Span::from_secs(60));
    vec![
        running(),
        Operation::ReportOutcome(outcome),
        Operation::RenewJob(RenewJob { job: job.clone(), lease, term }),
        Operation::RedriveJob(RedriveJob { job: job.clone() }),
        Operation::DiscardJob(DiscardJob { job, confirm: Confirm(sequence(9)) }),
    ]
}

pub(super) fn commands() -> Vec<(&'static str, Command)> {
    let queue = QueueName::default_queue();
    let lease = LeaseJobs { queue, max: 5, term: Span::from_secs(60), context: context() };
    vec![("lease_jobs", Command::LeaseJobs(lease))]
}

/// A job with something in every field.
pub(super) fn job(state: JobState) -> Job {
    Job {
        id: id("job-1"),
        number: hold_number(),
        kind: HoldKind::Hold,
        cost: credits(40),
        queue: QueueName::parse("video").unwrap(),
        retry: JobRetry::DEFAULT,
        reference: Some("frame-7".into()),
        state,
        attempts: 2,
        redriven: 1,
        failure: Some("time-out".into()),
        created_at: at(3),
        content: [9; 16],
        changed_by: sequence(8),
        changed_before: Some(sequence(7)),
        budgets: Box::default(),
        freed: credits(0),
    }
}

/// In the order of their numbers.
pub(super) fn facts() -> Vec<Fact> {
    let change = |state, effect, regrant| {
        Box::new(JobChange { job: job(state), hold: hold(), effect, regrant })
    };
    let queued = JobState::Queued { due_at: at(61) };
    vec![
        Fact::JobCreated(change(leased(), JobEffect::Began, None)),
        Fact::JobOutcome(change(queued, JobEffect::Refunded, Some(terms()))),
        Fact::JobLeased(Box::new(job(leased()))),
        Fact::JobRenewed(Box::new(job(JobState::Succeeded { at: at(60) }))),
        Fact::JobRedriven(Box::new(job(JobState::Dead { at: at(60) }))),
        Fact::JobDiscarded(change(JobState::Failed { at: at(60) }, JobEffect::Nothing, None)),
    ]
}
