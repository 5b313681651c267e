//! One job, followed through the entries that are about it.

use std::collections::BTreeMap;

use purser_types::{Credits, LogTime};

use super::expect;
use crate::entry::{Entry, Fact};
use crate::hold::HoldState;
use crate::jobs::{Job, JobChange, JobState};

/// What the entries say of each job, by its number.
#[derive(Debug, Default)]
pub(super) struct AuditedJobs(BTreeMap<u64, Job>);

impl AuditedJobs {
    /// Follows the job that an entry is about, if it is about one.
    pub(super) fn follow(&mut self, entry: &Entry) -> Result<(), String> {
        let Some(job) = entry.fact.job() else { return Ok(()) };
        let number = job.number.0.0;
        expect("the entry that changed the job", job.changed_by, entry.sequence)?;
        match self.0.get(&number) {
            None => check_new(job, entry)?,
            Some(before) => check_next(before, job, entry)?,
        }
        self.0.insert(number, job.clone());
        Ok(())
    }
}

fn check_new(job: &Job, entry: &Entry) -> Result<(), String> {
    let Fact::JobCreated(change) = &entry.fact else {
        return Err(format!("job {} was never made", job.number.0.0));
    };
    expect("the number of a new job", job.number.0, entry.sequence)?;
    expect("the hold of a new job", change.hold.number, job.number)?;
    expect("what a new job costs", job.cost, change.hold.amount)
}

fn check_next(before: &Job, job: &Job, entry: &Entry) -> Result<(), String> {
    let state = before.state;
    let impossible =
        || Err(format!("job {} is {} after {}", job.id, job.state.name(), state.name()));
    let (at, is_of) = (entry.log_time, (&before.id, before.kind, before.cost, &before.queue));
    expect("what a job is", (&job.id, job.kind, job.cost, &job.queue), is_of)?;
    expect("the entry that changed the job before", job.changed_before, Some(before.changed_by))?;
    let is_possible = if let Fact::JobLeased(_) = &entry.fact {
        // Several workers never have one job, and none has one that is not due.
        is_due(state, at) && is_leased(job.state, at)
    } else if let Fact::JobRenewed(_) = &entry.fact {
        is_leased(state, at) && job.state.token() == state.token()
    } else if let Fact::JobRedriven(_) = &entry.fact {
        matches!(state, JobState::Dead { .. })
    } else if let Fact::JobDiscarded(change) = &entry.fact {
        check_credits(change)?;
        !state.is_ended()
    } else if let Some(change) = entry.fact.job_outcome() {
        check_credits(change)?;
        !matches!(state, JobState::Succeeded { .. })
    } else {
        false
    };
    if is_possible { Ok(()) } else { impossible() }
}

fn is_due(state: JobState, at: LogTime) -> bool {
    match state {
        JobState::Queued { due_at: due } | JobState::Leased { until: due, .. } => due <= at,
        JobState::Succeeded { .. }
        | JobState::Failed { .. }
        | JobState::Dead { .. }
        | JobState::Discarded { .. } => false,
    }
}

fn is_leased(state: JobState, at: LogTime) -> bool {
    matches!(state, JobState::Leased { until, .. } if at < until)
}

/// INV-19: a delivered job is paid once, one that failed is not; whoever did something by hand to its
/// hold has changed what that means, but never to more than was captured.
fn check_credits(JobChange { job, hold, .. }: &JobChange) -> Result<(), String> {
    let name = format!("what job {} has taken", job.id);
    expect("a job that is over and holds credits", hold.state == HoldState::Active, false)?;
    expect("more taken for a job than was captured", hold.captured < hold.net(), false)?;
    let delivered = matches!(job.state, JobState::Succeeded { .. });
    match hold.reclaimed {
        // Who reclaimed it by hand has said that it was delivered.
        Some(_) if !delivered => Ok(()),
        // What was reclaimed and refunded once more stays with the tenant: it is reclaimed once.
        Some(reclaimed) if reclaimed < hold.refunded => Ok(()),
        Some(_) | None if delivered => expect(&name, hold.net(), hold.captured),
        Some(_) | None => expect(&name, hold.net(), Credits::ZERO),
    }
}
