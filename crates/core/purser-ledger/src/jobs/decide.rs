//! Deciding about jobs. Everything is refused in the order: closed, not there, in the wrong state, stale,
//! lacking credits. An outcome that changes nothing is no refusal: it is answered with what did.

use purser_types::{Credits, HistoryError, HistoryReader, LogTime, Sequence};

use super::credits::Settled;
use super::state::Known;
use super::{
    CreateJob, DiscardJob, FirstAttempt, Job, JobChange, JobEffect, JobFunding, JobState,
    JobVerdict, LeaseToken, RenewJob, ReportOutcome,
};
use crate::account::{Account, Draft, Side, Verdict as Decided};
use crate::codec;
use crate::command::{Authorize, Charge, Context, HoldNumber, Item, Operation};
use crate::digest::digest16;
use crate::entry::Fact;
use crate::hold::Hold;
use crate::rejection::Rejection;
use crate::standing::AccountStatus;

/// The most queues in which an account can have jobs that are queued or leased: each change of the
/// first due job of one costs a step for each of them.
pub(super) const QUEUES_MAX: usize = 64;

/// What a decision comes to, or why the history could not be read.
type Decision = Result<Result<Decided, Rejection>, HistoryError>;

/// The circumstances of a decision about a job.
struct About<'a> {
    context: &'a Context,
    now: LogTime,
    history: &'a dyn HistoryReader,
}

impl Account {
    /// Decides about an operation on a job; nothing if it is none.
    pub(crate) fn decide_of_job(
        &self,
        item: &Item,
        now: LogTime,
        history: &dyn HistoryReader,
    ) -> Result<Option<Result<Decided, Rejection>>, HistoryError> {
        let Some(id) = item.operation.job() else { return Ok(None) };
        if self.standing.status == AccountStatus::Closed {
            return Ok(Some(Err(Rejection::AccountClosed)));
        }
        if matches!(self.side, Side::Region(_)) {
            return Ok(Some(Err(Rejection::DecidedElsewhere)));
        }
        let known = self.find_job(id, now, history)?;
        let about = About { context: &item.context, now, history };
        Ok(Some(if let Operation::CreateJob(asked) = &item.operation {
            self.decide_create_job(asked, known, now)
        } else if let Operation::ReportOutcome(asked) = &item.operation {
            self.decide_outcome(asked, known, &about)?
        } else if let Operation::RenewJob(asked) = &item.operation {
            self.decide_renew(asked, known, now)
        } else if let Operation::RedriveJob(_) = &item.operation {
            self.decide_redrive(known, now)
        } else if let Operation::DiscardJob(asked) = &item.operation {
            self.decide_discard(asked, known, &about)?
        } else {
            return Ok(None);
        }))
    }

    /// A job with its hold or charge. Refuses: a job of that name with other content; frozen; too many
    /// queues; too few credits.
    fn decide_create_job(
        &self,
        asked: &CreateJob,
        known: Option<Known>,
        now: LogTime,
    ) -> Result<Decided, Rejection> {
        let content = digest16(&codec::encode(asked));
        if let Some(Known { job, at }) = known {
            let conflict = Rejection::JobIdConflict { number: job.number };
            return if job.content == content { Ok(Decided::Found(at)) } else { Err(conflict) };
        }
        self.refuse_if_frozen()?;
        let jobs = self.jobs();
        if jobs.queues_count() >= QUEUES_MAX && !jobs.has_queue(&asked.queue) {
            return Err(Rejection::TooManyQueues);
        }
        let (amount, reference) = (asked.amount, asked.reference.clone());
        let budgets = asked.budgets.clone();
        let Draft { fact, moves } = match asked.funding {
            JobFunding::Hold { ttl } => {
                self.decide_authorize(&Authorize { amount, ttl, reference, budgets }, now)?
            }
            JobFunding::Charge { allow_debt } => {
                self.decide_charge(&Charge { amount, allow_debt, reference, budgets }, now)?
            }
        };
        let hold = fact.into_hold().expect("an authorize and a charge make a hold");
        let (state, attempts) = match asked.start {
            FirstAttempt::Caller { lease } => {
                let token = self.next_token(hold.number);
                (JobState::Leased { until: now.saturating_add(lease), token }, 1)
            }
            FirstAttempt::Queue => (JobState::Queued { due_at: now }, 0),
        };
        let job = Job {
            id: asked.job.clone(),
            number: hold.number,
            kind: hold.kind,
            cost: asked.amount,
            queue: asked.queue.clone(),
            retry: asked.retry,
            reference: asked.reference.clone(),
            state,
            attempts,
            redriven: 0,
            failure: None,
            created_at: now,
            content,
            changed_by: self.head.sequence.next(),
            changed_before: None,
            budgets: asked.budgets.clone(),
            freed: Credits::ZERO,
        };
        let change = JobChange { job, hold, effect: JobEffect::Began, regrant: None };
        Ok(Decided::Write(Draft { fact: Fact::JobCreated(Box::new(change)), moves }))
    }

    /// What an outcome does that is told by something else than a call of its own.
    pub(crate) fn decide_told(
        &self,
        asked: &ReportOutcome,
        context: &Context,
        (now, history): (LogTime, &dyn HistoryReader),
    ) -> Decision {
        let known = self.find_job(&asked.job, now, history)?;
        self.decide_outcome(asked, known, &About { context, now, history })
    }

    /// What is known of a job once its outcome is. Refuses: no such job.
    fn decide_outcome(
        &self,
        asked: &ReportOutcome,
        known: Option<Known>,
        about: &About<'_>,
    ) -> Decision {
        let Some(Known { job, at }) = known else { return Ok(Err(Rejection::JobNotFound)) };
        if !changes(&job, asked) {
            return Ok(Ok(Decided::Found(at)));
        }
        let now = about.now;
        let Some(hold) = self.hold_of(&job, about)? else {
            return Ok(Err(Rejection::JobNotFound));
        };
        Ok(match asked.verdict {
            JobVerdict::Succeeded => self.take_for_job(hold, job.freed).map(|settled| {
                let state = JobState::Succeeded { at: now };
                let job = Job { state, attempts: 0, failure: None, ..job };
                self.settled(job, settled, Fact::JobOutcome)
            }),
            JobVerdict::Failed { retryable } => {
                let failure = about.context.reason.clone();
                self.fail(job, hold, Failure { failure, retryable, now })
            }
        }
        .map(Decided::Write))
    }

    /// A job after a failed attempt.
    pub(super) fn fail(
        &self,
        job: Job,
        hold: Hold,
        Failure { failure, retryable, now }: Failure,
    ) -> Result<Draft, Rejection> {
        let settled = self.give_back_for_job(hold, job.freed, now)?;
        let attempts = job.attempts.max(1);
        let state = if !retryable {
            JobState::Failed { at: now }
        } else if attempts >= job.retry.max_attempts {
            JobState::Dead { at: now }
        } else {
            JobState::Queued { due_at: now.saturating_add(job.retry.wait(&job.id, attempts)) }
        };
        let job = Job { state, attempts, failure, ..job };
        Ok(self.settled(job, settled, Fact::JobOutcome))
    }

    /// Keeps a lease for longer. Refuses: no such job; the lease has run out, or another has it.
    fn decide_renew(
        &self,
        asked: &RenewJob,
        known: Option<Known>,
        now: LogTime,
    ) -> Result<Decided, Rejection> {
        let Some(Known { job, .. }) = known else { return Err(Rejection::JobNotFound) };
        let JobState::Leased { until, token } = job.state else {
            return Err(Rejection::LeaseLost { state: job.state });
        };
        if token != asked.lease || until <= now {
            return Err(Rejection::LeaseLost { state: job.state });
        }
        let until = until.max(now.saturating_add(asked.term));
        let job = Job { state: JobState::Leased { until, token }, ..job };
        Ok(Decided::Write(Draft::still(Fact::JobRenewed(Box::new(self.next(job))))))
    }

    /// Begins another streak of attempts. Refuses: no such job; not dead, and never redriven.
    fn decide_redrive(&self, known: Option<Known>, now: LogTime) -> Result<Decided, Rejection> {
        let Some(Known { job, at }) = known else { return Err(Rejection::JobNotFound) };
        let JobState::Dead { .. } = job.state else {
            // It was pressed again, or by somebody else before.
            let gave_up = matches!(job.state, JobState::Failed { .. } | JobState::Discarded { .. });
            let is_done = job.redriven > 0 && !gave_up;
            let not_dead = Rejection::JobNotDead { state: job.state };
            return if is_done { Ok(Decided::Found(at)) } else { Err(not_dead) };
        };
        let redriven = job.redriven.saturating_add(1);
        let state = JobState::Queued { due_at: now };
        let job = self.next(Job { state, attempts: 0, redriven, ..job });
        Ok(Decided::Write(Draft::still(Fact::JobRedriven(Box::new(job)))))
    }

    /// Lets nothing become of a job. Refuses: no such job; it has ended; it has changed since the
    /// operator looked.
    fn decide_discard(
        &self,
        asked: &DiscardJob,
        known: Option<Known>,
        about: &About<'_>,
    ) -> Decision {
        let Some(Known { job, .. }) = known else { return Ok(Err(Rejection::JobNotFound)) };
        if job.state.is_ended() {
            return Ok(Err(Rejection::JobEnded { state: job.state }));
        }
        if job.changed_by != asked.confirm.0 {
            return Ok(Err(Rejection::StaleConfirmation { sequence: job.changed_by }));
        }
        let Some(hold) = self.hold_of(&job, about)? else {
            return Ok(Err(Rejection::JobNotFound));
        };
        let settled = self.give_back_for_job(hold, job.freed, about.now);
        Ok(settled.map(|settled| {
            let job = Job { state: JobState::Discarded { at: about.now }, ..job };
            Decided::Write(self.settled(job, settled, Fact::JobDiscarded))
        }))
    }

    /// The hold or charge of a job, which is kept for as long as the job is.
    fn hold_of(&self, job: &Job, about: &About<'_>) -> Result<Option<Hold>, HistoryError> {
        self.find_hold(job.target(), about.now, about.history)
    }

    fn settled(&self, job: Job, settled: Settled, fact: fn(Box<JobChange>) -> Fact) -> Draft {
        let Settled { hold, moves, effect, regrant, freed } = settled;
        let job = self.next(Job { freed, ..job });
        let change = JobChange { job, hold, effect, regrant };
        Draft { fact: fact(Box::new(change)), moves }
    }

    /// Notes in the job that the next entry changes it.
    pub(super) fn next(&self, job: Job) -> Job {
        let changed_before = Some(job.changed_by);
        Job { changed_by: self.head.sequence.next(), changed_before, ..job }
    }

    /// The token of a lease that the next entry gives. The hash before it is another for every entry, and
    /// another after a fork.
    pub(super) fn next_token(&self, HoldNumber(Sequence(number)): HoldNumber) -> LeaseToken {
        LeaseToken(digest16(
            &[&b"purser lease\0"[..], &self.head.hash, &number.to_be_bytes()].concat(),
        ))
    }
}

/// An attempt that failed.
pub(super) struct Failure {
    pub(super) failure: Option<Box<str>>,
    pub(super) retryable: bool,
    pub(super) now: LogTime,
}

/// Whether an outcome tells anything new.
fn changes(job: &Job, asked: &ReportOutcome) -> bool {
    match (asked.verdict, job.state) {
        (_, JobState::Succeeded { .. }) => false,
        (JobVerdict::Succeeded, _) => true,
        (JobVerdict::Failed { .. }, JobState::Leased { token, .. }) => {
            asked.lease.is_none_or(|lease| lease == token)
        }
        // The failure by which it is queued is known; if nobody has tried it yet, this is the first.
        (JobVerdict::Failed { .. }, JobState::Queued { .. }) => {
            job.attempts == 0 && job.redriven == 0 && asked.lease.is_none()
        }
        (
            JobVerdict::Failed { .. },
            JobState::Failed { .. } | JobState::Dead { .. } | JobState::Discarded { .. },
        ) => false,
    }
}
