//! Those who create jobs and tell how they ended: callers, workers, webhooks, pollers; each as often as the
//! plan says, and not in the order in which it happened.

use std::sync::Arc;
use std::time::Duration;

use purser_api::{JobAnswer, JobStatus, LeaseId, paths};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::events::{Awaited, Event};
use super::floor::Floor;
use super::plan::Kind;
use super::story::{Attempt, Story, Stumble, Tell, Way};

/// How long a lease lasts where somebody crashes, in seconds: the next one has to wait for its end.
const SHORT_LEASE: u32 = 3;
/// How long any other lease lasts, in seconds: longer than a node is dead, and short enough to wait for one
/// that nobody got to know of.
const LONG_LEASE: u32 = 20;
/// How long a job waits to be tried again, in seconds.
const BACKOFF: u32 = 1;

/// A queue of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Of jobs that somebody leaves lying about.
    Crashing,
    /// Of all others.
    Steady,
}

impl Lane {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::Crashing, Self::Steady];

    /// The queue's name.
    pub(crate) fn queue(self, run: &str) -> String {
        match self {
            Self::Crashing => format!("{run}-crashing"),
            Self::Steady => format!("{run}-steady"),
        }
    }

    /// How long its leases last, in seconds.
    pub(crate) const fn lease_seconds(self) -> u32 {
        match self {
            Self::Crashing => SHORT_LEASE,
            Self::Steady => LONG_LEASE,
        }
    }

    fn of(story: &Story) -> Self {
        if story.crashes() { Self::Crashing } else { Self::Steady }
    }
}

/// Does what a work of the plan says.
pub(crate) async fn begin(floor: &Arc<Floor>, place: usize) {
    match &floor.plan.works[place].kind {
        Kind::Job { is_charged, is_enqueued, story } => {
            if story.is_ahead {
                floor.count("told_ahead");
                delivered(floor, place).told_alone(floor, Awaited::Anything).await;
            }
            create(floor, place, (*is_charged, *is_enqueued), story).await;
        }
        Kind::Usage { tells, has_conflict } => use_up(floor, place, tells, *has_conflict).await,
    }
}

async fn create(
    floor: &Arc<Floor>,
    place: usize,
    (is_charged, is_enqueued): (bool, bool),
    story: &Story,
) {
    let (work, job, lane) = (&floor.plan.works[place], Floor::job(place), Lane::of(story));
    let mut body = json!({
        "job_id": job,
        "amount": work.amount,
        "mode": if is_charged { "charge" } else { "hold" },
        "queue": lane.queue(&floor.run),
        "max_attempts": story.attempts_max(),
        "backoff_seconds": BACKOFF,
        "backoff_max_seconds": BACKOFF,
    });
    if is_enqueued {
        body["enqueue"] = true.into();
    } else {
        body["lease_seconds"] = lane.lease_seconds().into();
    }
    let path = paths::fill(paths::JOBS, &[floor.name(work.tenant)]);
    let key = format!("create-{job}");
    let Some(created) = floor.ask_again::<JobAnswer>(&path, &key, &body).await else { return };
    floor.count("jobs_created");
    let (tenant, entry) = (work.tenant, created.balance.as_of.sequence.0.0);
    floor.noted().newest = Some((tenant, entry, tokio::time::Instant::now()));
    if let (JobStatus::Leased, Some(lease)) = (created.job.status, created.lease) {
        attempt(floor, place, (created.job.attempts, lease));
    }
}

/// Makes an attempt of a job: the n-th, under a lease.
pub(crate) fn attempt(floor: &Arc<Floor>, place: usize, (number, lease): (u32, LeaseId)) {
    let Kind::Job { story, .. } = &floor.plan.works[place].kind else { return };
    match story.attempt(number, floor.is_redriven(place)) {
        Attempt::Stumbles(Stumble::Crashes) => floor.count("workers_crashed"),
        Attempt::Stumbles(Stumble::Fails(delays)) => {
            let body = json!({ "outcome": "failed", "lease": lease, "reason": "as planned" });
            for (teller, delay) in delays.iter().enumerate() {
                let key = format!("failed-{}-{lease}-{teller}", Floor::job(place));
                tell(floor, place, *delay, (key, body.clone()));
            }
        }
        Attempt::Stumbles(Stumble::FailsByEvent) => {
            let id = format!("{}-failed-{lease}", Floor::job(place));
            let data = json!({ "job_id": Floor::job(place), "outcome": "failed" });
            Event { tenant: floor.plan.works[place].tenant, id, data }.tell(
                floor,
                Duration::ZERO,
                Awaited::Taken,
            );
        }
        Attempt::Delivers(tells) => tell_success(floor, place, tells),
        Attempt::GivesUp(tells) => tell_useless(floor, place, tells, lease),
    }
}

/// Tells that a job was delivered, as often as is planned.
pub(crate) fn tell_success(floor: &Arc<Floor>, place: usize, tells: &[Tell]) {
    for Tell { way, later } in tells {
        match way {
            Way::Outcome(teller) => {
                let key = format!("done-{}-{teller}", Floor::job(place));
                tell(floor, place, *later, (key, json!({ "outcome": "succeeded" })));
            }
            Way::Event => delivered(floor, place).tell(floor, *later, Awaited::Taken),
        }
    }
}

fn tell_useless(floor: &Arc<Floor>, place: usize, tells: &[Tell], lease: LeaseId) {
    for Tell { way, later } in tells {
        match way {
            Way::Outcome(teller) => {
                let key = format!("useless-{}-{lease}-{teller}", Floor::job(place));
                let body = json!({ "outcome": "failed", "retryable": false, "lease": lease });
                tell(floor, place, *later, (key, body));
            }
            Way::Event => {
                let (job, id) = (Floor::job(place), format!("{}-useless", Floor::job(place)));
                let data = json!({ "job_id": job, "outcome": "failed", "retryable": false });
                let tenant = floor.plan.works[place].tenant;
                Event { tenant, id, data }.tell(floor, *later, Awaited::Taken);
            }
        }
    }
}

/// The event that says that a job was delivered: always the same one.
fn delivered(floor: &Floor, place: usize) -> Event {
    let (job, tenant) = (Floor::job(place), floor.plan.works[place].tenant);
    let data = json!({ "job_id": job, "outcome": "succeeded" });
    Event { tenant, id: format!("{job}-done"), data }
}

/// Tells an outcome, later than it could be.
fn tell(floor: &Arc<Floor>, place: usize, later: Duration, (key, body): (String, Value)) {
    let (floor, tellers) = (Arc::clone(floor), floor.tellers.clone());
    tellers.spawn(async move {
        sleep(later).await;
        let tenant = floor.name(floor.plan.works[place].tenant);
        let path = paths::fill(paths::JOB_OUTCOME, &[tenant, &Floor::job(place)]);
        if floor.ask::<JobAnswer>(path, Some(&key), &body).await.is_some() {
            floor.count("outcomes_told");
        }
    });
}

/// Reports use, as often as is planned; and then perhaps something else under the same name.
async fn use_up(floor: &Arc<Floor>, place: usize, tells: &[Duration], has_conflict: bool) {
    let work = &floor.plan.works[place];
    let event = |amount: u64| Event {
        tenant: work.tenant,
        id: format!("u{place}"),
        data: json!({ "amount": amount.to_string() }),
    };
    if has_conflict {
        // The first one must be taken before the other one comes: which of them counts is no matter of
        // chance here.
        event(work.amount).told_alone(floor, Awaited::Taken).await;
        event(work.amount.saturating_add(1)).tell(floor, Duration::ZERO, Awaited::Conflict);
    }
    for later in tells {
        event(work.amount).tell(floor, *later, Awaited::Taken);
    }
}
