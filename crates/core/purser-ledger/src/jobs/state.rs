//! An account's jobs in memory, and how entries change them.
//!
//! The jobs that have not ended are kept whole, with where the last entries about them and their credits
//! are; of those that have ended only that. By name, by due time and by queue they are found through maps
//! that follow from these and stand in no snapshot.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use minicbor::{Decode, Encode};
use purser_types::{
    CowMap, HistoryError, HistoryReader, JobId, LogTime, Position, QueueName, Sequence, Span,
};

use super::{Job, JobState};
use crate::account::{Account, read_entry};
use crate::command::HoldNumber;
use crate::digest::{Digest16, digest16};
use crate::entry::{Entry, Fact};
use crate::hold::Hold;
use crate::standing::AccountStatus;
use crate::time_ring::TimeRing;

/// When something is next due in each queue.
pub(crate) type Heads = Arc<BTreeMap<QueueName, LogTime>>;

/// See the module's documentation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Jobs {
    live: CowMap<HoldNumber, LiveJob>,
    /// The jobs that have ended, by the digest of their names: where the last entry about each is.
    pub(crate) ended: TimeRing<Digest16, Position>,
    by_id: CowMap<Digest16, HoldNumber>,
    due: CowMap<(QueueName, LogTime, HoldNumber), ()>,
    dead: CowMap<HoldNumber, ()>,
    heads: Heads,
}

/// A job that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct LiveJob {
    #[n(0)]
    pub(crate) job: Job,
    /// Where the last entry about it is.
    #[n(1)]
    pub(crate) at: Position,
    /// Where the last entry about its hold or charge is.
    #[n(2)]
    pub(crate) hold_at: Position,
}

/// A job that was looked for, and where the last entry about it is.
pub(super) struct Known {
    pub(super) job: Job,
    pub(super) at: Position,
}

/// What a job's name is looked up by.
fn job_digest(id: &JobId) -> Digest16 {
    digest16(id.as_str().as_bytes())
}

impl Jobs {
    /// Nothing.
    fn none() -> &'static Self {
        static NONE: std::sync::LazyLock<Jobs> = std::sync::LazyLock::new(Jobs::default);
        &NONE
    }

    /// Adds a job that has not ended, or puts it in the place of what it was.
    pub(crate) fn insert(&mut self, live: LiveJob) {
        let number = live.job.number;
        self.remove(number);
        let queue = live.job.queue.clone();
        if let Some(at) = live.job.due() {
            self.due.insert((queue.clone(), at, number), ());
            self.set_head(&queue);
        } else {
            self.dead.insert(number, ());
        }
        self.by_id.insert(job_digest(&live.job.id), number);
        self.live.insert(number, live);
    }

    fn remove(&mut self, number: HoldNumber) -> Option<LiveJob> {
        let live = self.live.remove(&number)?;
        self.by_id.remove(&job_digest(&live.job.id));
        self.dead.remove(&number);
        if let Some(at) = live.job.due() {
            self.due.remove(&(live.job.queue.clone(), at, number));
            self.set_head(&live.job.queue);
        }
        Some(live)
    }

    /// Keeps true when something is next due in a queue.
    fn set_head(&mut self, queue: &QueueName) {
        let head = self.first_due(queue).map(|(at, _)| at);
        if self.heads.get(queue).copied() == head {
            return;
        }
        let heads = Arc::make_mut(&mut self.heads);
        match head {
            Some(at) => drop(heads.insert(queue.clone(), at)),
            None => drop(heads.remove(queue)),
        }
    }

    /// The job of a queue that is due first, and when.
    fn first_due(&self, queue: &QueueName) -> Option<(LogTime, HoldNumber)> {
        let from = (queue.clone(), LogTime::ZERO, HoldNumber(Sequence::ZERO));
        let ((first, at, number), ()) = self.due.range_from(Bound::Included(&from)).next()?;
        (first == queue).then_some((*at, *number))
    }

    /// The jobs that have not ended, in the order in which they were made.
    pub(crate) fn live(&self) -> &CowMap<HoldNumber, LiveJob> {
        &self.live
    }

    /// How many queues have a job that is queued or leased.
    pub(super) fn queues_count(&self) -> usize {
        self.heads.len()
    }

    /// Whether a queue has a job that is queued or leased.
    pub(super) fn has_queue(&self, queue: &QueueName) -> bool {
        self.heads.contains_key(queue)
    }

    /// As if they had been forgotten.
    #[cfg(test)]
    pub(crate) fn lose_queues(&mut self) {
        self.due = CowMap::default();
    }

    /// Whether everything that follows from the jobs is what follows from them.
    pub(crate) fn follows(&self) -> bool {
        let mut again = Self::default();
        self.live.iter().for_each(|(_, live)| again.insert(live.clone()));
        self.is_like(&again)
    }

    /// Whether the jobs that have not ended are the same, and what follows from them.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.live == other.live
            && self.by_id == other.by_id
            && self.due == other.due
            && self.dead == other.dead
            && self.heads == other.heads
    }
}

impl Account {
    /// The account's jobs.
    pub(crate) fn jobs(&self) -> &Jobs {
        self.jobs.as_deref().unwrap_or_else(|| Jobs::none())
    }

    /// The same, to change them. Most accounts have none, and it is made where it is needed.
    pub(crate) fn jobs_mut(&mut self) -> &mut Jobs {
        self.jobs.get_or_insert_default()
    }

    /// A job, ended or not, if its record is kept at `now`.
    pub fn job(
        &self,
        id: &JobId,
        now: LogTime,
        history: &dyn HistoryReader,
    ) -> Result<Option<Job>, HistoryError> {
        Ok(self.find_job(id, now, history)?.map(|known| known.job))
    }

    /// The jobs that have not ended from `from` on, in the order in which they were made.
    pub fn jobs_from(&self, from: Bound<&HoldNumber>) -> impl Iterator<Item = &Job> {
        self.jobs().live.range_from(from).map(|(_, live)| &live.job)
    }

    /// The dead ones of them.
    pub fn dead_jobs_from(&self, from: Bound<&HoldNumber>) -> impl Iterator<Item = &Job> {
        let jobs = self.jobs();
        let dead = jobs.dead.range_from(from);
        dead.filter_map(|(number, ())| jobs.live.get(number)).map(|live| &live.job)
    }

    /// How many jobs are queued, leased or dead.
    pub fn jobs_count(&self) -> usize {
        self.jobs().live.len()
    }

    /// How many of them are dead.
    pub fn dead_jobs_count(&self) -> usize {
        self.jobs().dead.len()
    }

    /// Whether some are dead.
    pub(crate) fn has_dead_jobs(&self) -> bool {
        !self.jobs().dead.is_empty()
    }

    /// When something is next due in each queue, if this account's jobs are given out: not while it is
    /// frozen or has stopped for a move.
    pub(crate) fn heads(&self) -> Option<Heads> {
        let jobs = self.jobs.as_deref().filter(|jobs| !jobs.heads.is_empty())?;
        let works = self.standing.status == AccountStatus::Open && self.stopped().is_none();
        works.then(|| Arc::clone(&jobs.heads))
    }

    /// The job of a queue that is due first at `now`.
    pub(super) fn next_job(&self, queue: &QueueName, now: LogTime) -> Option<&LiveJob> {
        let jobs = self.jobs();
        let (_, number) = jobs.first_due(queue).filter(|(at, _)| *at <= now)?;
        jobs.live.get(&number)
    }

    pub(super) fn find_job(
        &self,
        id: &JobId,
        now: LogTime,
        history: &dyn HistoryReader,
    ) -> Result<Option<Known>, HistoryError> {
        let (jobs, digest) = (self.jobs(), job_digest(id));
        if let Some(live) = jobs.by_id.get(&digest).and_then(|number| jobs.live.get(number)) {
            return Ok(Some(Known { job: live.job.clone(), at: live.at }));
        }
        let Some(at) = jobs.ended.get(&digest, now).copied() else { return Ok(None) };
        let job = read_entry(history, at)?.fact.into_job();
        Ok(job.map(|job| Known { job, at }))
    }

    /// Where the last entry about the hold or charge of a job is that has not ended: its record is kept
    /// for as long as the job's.
    pub(crate) fn position_for_job(&self, number: HoldNumber) -> Option<&Position> {
        self.jobs().live.get(&number).map(|live| &live.hold_at)
    }

    /// Notes where the last entry about a job's hold or charge is.
    pub(crate) fn evolve_hold_of_job(&mut self, number: HoldNumber, position: Position) {
        let Some(jobs) = self.jobs.as_deref_mut() else { return };
        if let Some(live) = jobs.live.get_mut(&number) {
            live.hold_at = position;
        }
    }

    /// Why an entry from another region cannot be about a job as it is here; nothing if it can. A job that
    /// goes on has its hold or charge here.
    pub(crate) fn unsound_job(&self, entry: &Entry) -> Option<&'static str> {
        let job = entry.fact.job()?;
        let is_its = |hold: &Hold| (hold.number, hold.kind) == (job.number, job.kind);
        if !entry.fact.hold().is_none_or(is_its) {
            return Some("its job has another hold");
        }
        if matches!(entry.fact, Fact::JobCreated(_)) {
            return (job.number.0 != entry.sequence).then_some("its job has another number");
        }
        let is_same = |live: &LiveJob| (&live.job.id, live.job.kind) == (&job.id, job.kind);
        let is_live = self.jobs().live.get(&job.number).is_some_and(is_same);
        (!is_live && !job.state.is_ended()).then_some("it is about a job that is not there")
    }

    /// A job stands as the entry says.
    pub(crate) fn evolve_job(&mut self, job: &Job, entry: &Entry, position: Position) {
        let retention: Span = self.standing.policy.record_retention;
        let jobs = self.jobs_mut();
        if job.state.is_ended() {
            jobs.remove(job.number);
            jobs.ended.insert(job_digest(&job.id), position, entry.log_time, retention);
            return;
        }
        let hold_at = jobs.live.get(&job.number).map_or(position, |before| before.hold_at);
        jobs.insert(LiveJob { job: job.clone(), at: position, hold_at });
    }
}

impl JobState {
    /// The token of the present lease, run out or not.
    pub const fn token(self) -> Option<super::LeaseToken> {
        if let Self::Leased { token, .. } = self { Some(token) } else { None }
    }
}
