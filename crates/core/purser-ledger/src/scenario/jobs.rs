//! Lines about jobs: what is asked of them, and how they are told of.

use purser_types::{JobId, QueueName, Sequence, Span};

use super::budgets;
use super::line_error::LineError;
use super::moment::{instant_text, parse_span};
use super::names::Book;
use super::requests::{Read, Reader};
use super::telling::Teller;
use super::words::{Words, call_amount, number};
use crate::command::{Authorize, Confirm, Context, Operation};
use crate::jobs::{
    CreateJob, DiscardJob, FirstAttempt, Job, JobChange, JobFunding, JobRetry, JobState,
    JobVerdict, LeaseJobs, LeaseToken, RedriveJob, RenewJob, ReportOutcome,
};
use crate::rejection::Rejection;

/// How a line with `verb` is read.
pub(super) fn reader(verb: &str) -> Result<Read, LineError> {
    Ok(match verb {
        "job" => |_, _, words| create(words),
        "outcome" => outcome,
        "renew" => renew,
        "redrive" => |_, _, words| Ok(Operation::RedriveJob(RedriveJob { job: job(words)? })),
        "discard" => discard,
        unknown => return Err(LineError::UnknownCommand(unknown.to_owned())),
    })
}

/// Reads `lease QUEUE as=w1`: the leases, and who has them.
pub(super) fn lease(mut words: Words<'_>) -> Result<(LeaseJobs, String), LineError> {
    let queue = QueueName::parse(words.plain("queue")?)?;
    let max = number(&mut words, "max")?.unwrap_or(1);
    let max = u32::try_from(max).unwrap_or(u32::MAX);
    let term = span(&mut words, "for")?.unwrap_or(LeaseJobs::TERM_DEFAULT);
    let worker = words.named("as").unwrap_or("worker");
    words.end()?;
    let context = Context { actor: Some(worker.into()), ..Context::default() };
    Ok((LeaseJobs { queue, max, term, context }, worker.to_owned()))
}

fn job(words: &mut Words<'_>) -> Result<JobId, LineError> {
    Ok(JobId::parse(words.plain("job")?)?)
}

fn span(words: &mut Words<'_>, name: &str) -> Result<Option<Span>, LineError> {
    Ok(words.named(name).map(parse_span).transpose()?)
}

fn create(words: &mut Words<'_>) -> Result<Operation, LineError> {
    let (job, charges) = (job(words)?, words.flag("charged"));
    let (enqueues, allow_debt) = (words.flag("enqueue"), words.flag("allow_debt"));
    let amount = call_amount(words.plain("amount")?)?;
    let funding = if charges {
        JobFunding::Charge { allow_debt }
    } else {
        JobFunding::Hold { ttl: span(words, "ttl")?.unwrap_or(Authorize::TTL_DEFAULT) }
    };
    let first = if enqueues {
        FirstAttempt::Queue
    } else {
        FirstAttempt::Caller { lease: span(words, "for")?.unwrap_or(LeaseJobs::TERM_DEFAULT) }
    };
    let usual = JobRetry::DEFAULT;
    let attempts = number(words, "attempts")?.and_then(|attempts| u32::try_from(attempts).ok());
    let retry = JobRetry {
        max_attempts: attempts.unwrap_or(usual.max_attempts),
        base: span(words, "base")?.unwrap_or(usual.base),
        max: span(words, "max")?.unwrap_or(usual.max),
    };
    let queue = words.named("queue").map(QueueName::parse).transpose()?;
    let queue = queue.unwrap_or_else(QueueName::default_queue);
    let reference = words.named("reference").map(Into::into);
    let (start, budgets) = (first, budgets::named(words)?);
    let create = CreateJob { job, amount, funding, queue, retry, start, reference, budgets };
    Ok(Operation::CreateJob(Box::new(create)))
}

fn outcome(
    reader: &Reader<'_>,
    book: &Book,
    words: &mut Words<'_>,
) -> Result<Operation, LineError> {
    let (job, retryable) = (job(words)?, !words.flag("for_good"));
    let verdict = match words.plain("outcome")? {
        "succeeded" => JobVerdict::Succeeded,
        "failed" => JobVerdict::Failed { retryable },
        _ => {
            return Err(LineError::Choice { what: "outcome", allowed: "succeeded or failed" });
        }
    };
    let lease = words.named("by").map(|worker| reader.names.lease(worker, book, &job));
    Ok(Operation::ReportOutcome(ReportOutcome { job, verdict, lease }))
}

fn renew(reader: &Reader<'_>, book: &Book, words: &mut Words<'_>) -> Result<Operation, LineError> {
    let job = job(words)?;
    let worker = words.named("by").ok_or(LineError::Missing("by"))?;
    let lease = reader.names.lease(worker, book, &job);
    let term = span(words, "for")?.unwrap_or(LeaseJobs::TERM_DEFAULT);
    Ok(Operation::RenewJob(RenewJob { job, lease, term }))
}

/// Confirms the job as it stands if the line confirms nothing.
fn discard(
    reader: &Reader<'_>,
    book: &Book,
    words: &mut Words<'_>,
) -> Result<Operation, LineError> {
    let job = job(words)?;
    let last = reader.group.book(book).and_then(|account| {
        let mut jobs = account.jobs_from(std::ops::Bound::Unbounded);
        jobs.find(|live| live.id == job).map(|live| Confirm(live.changed_by))
    });
    let named = number(words, "confirm")?.map(|sequence| Confirm(Sequence(sequence)));
    let confirm = named.or(last).unwrap_or(Confirm(Sequence::ZERO));
    Ok(Operation::DiscardJob(DiscardJob { job, confirm }))
}

/// A token that no lease has: what becomes of it is for the ledger to say.
pub(super) const NO_LEASE: LeaseToken = LeaseToken([0; 16]);

impl Teller<'_> {
    /// ` h1 40 until=900s, job j1 leased until=900s attempts=1`.
    pub(super) fn job_change(&self, change: &JobChange) -> String {
        let JobChange { job, hold, .. } = change;
        format!(" {} net={}, {}", self.hold_name(hold.number), hold.net(), job_text(job))
    }
}

/// `j1 queued due=3s attempts=1`.
pub(super) fn job_text(job: &Job) -> String {
    let state = match job.state {
        JobState::Queued { due_at } => format!(" due={}", instant_text(due_at)),
        JobState::Leased { until, .. } => format!(" until={}", instant_text(until)),
        JobState::Succeeded { .. }
        | JobState::Failed { .. }
        | JobState::Dead { .. }
        | JobState::Discarded { .. } => String::new(),
    };
    let counted = |name: &str, count: u32| match count {
        0 => String::new(),
        count => format!(" {name}={count}"),
    };
    let (attempts, redriven) =
        (counted("attempts", job.attempts), counted("redriven", job.redriven));
    let failure = job.failure.as_ref().map(|failure| format!(" ({failure})")).unwrap_or_default();
    format!("job {} {}{state}{attempts}{redriven}{failure}", job.id, job.state.name())
}

/// ` job=dead`: where a job stands that is refused something, or which it is.
pub(super) fn job_figures(rejection: &Rejection) -> String {
    if let Rejection::JobIdConflict { number } = rejection {
        return format!(" job=#{}", number.0.0);
    }
    if let Rejection::JobNotDead { state }
    | Rejection::LeaseLost { state }
    | Rejection::JobEnded { state } = rejection
    {
        return format!(" job={}", state.name());
    }
    String::new()
}
