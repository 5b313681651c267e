//! Giving a due job to a worker.

use purser_types::{HistoryError, LogTime};

use super::decide::Failure;
use super::{Job, JobState, LeaseJobs};
use crate::account::{Account, Draft, Origin, Scribe};
use crate::entry::Fact;

/// What is said of an attempt whose worker was not heard of again.
const RAN_OUT: &str = "the lease of the last attempt ran out";

impl Account {
    /// Leases the job that is due first in a queue. Gives none out if nothing is due, or if that job's
    /// last attempt was one whose lease ran out: then it is dead from now on.
    pub(crate) fn lease_next(
        &mut self,
        asked: &LeaseJobs,
        now: LogTime,
        scribe: &mut Scribe<'_>,
    ) -> Result<Option<Job>, HistoryError> {
        self.settle_due(now, scribe)?;
        let Some(live) = self.next_job(&asked.queue, now) else { return Ok(None) };
        let job = live.job.clone();
        if job.attempts >= job.retry.max_attempts {
            self.give_up(job, now, scribe)?;
            return Ok(None);
        }
        let (until, token) = (now.saturating_add(asked.term), self.next_token(job.number));
        let attempts = job.attempts.saturating_add(1);
        let job = self.next(Job { state: JobState::Leased { until, token }, attempts, ..job });
        let draft = Draft::still(Fact::JobLeased(Box::new(job.clone())));
        let origin = Origin { context: Some(&asked.context), asked: None };
        self.append(draft, now, origin, scribe);
        Ok(Some(job))
    }

    fn give_up(
        &mut self,
        job: Job,
        now: LogTime,
        scribe: &mut Scribe<'_>,
    ) -> Result<(), HistoryError> {
        let hold = self.find_hold(job.target(), now, &*scribe.history)?;
        let hold = hold.expect("INV-19: a job's hold is kept for as long as the job");
        let failure = Failure { failure: Some(RAN_OUT.into()), retryable: true, now };
        let draft = self.fail(job, hold, failure);
        let draft = draft.expect("INV-5: what a hold took is within the range of amounts");
        self.append(draft, now, Origin::default(), scribe);
        self.repay_debt(now, scribe)?;
        Ok(())
    }
}
