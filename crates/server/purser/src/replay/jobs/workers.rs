//! Workers: each takes jobs from a queue, again and again, and does what the plan says of each attempt.

use std::sync::Arc;
use std::time::Duration;

use purser_api::{LeaseAnswer, paths};
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::floor::Floor;
use super::telling::{Lane, attempt};

/// How many workers a queue has.
pub(crate) const WORKERS: usize = 4;
/// How many jobs a worker takes at a time.
const TAKEN_MAX: u32 = 25;
/// How long a worker waits when there was nothing to do.
const PAUSE: Duration = Duration::from_millis(100);

/// Works until `end`.
pub(crate) async fn work(floor: Arc<Floor>, lane: Lane, end: CancellationToken) {
    let body = json!({
        "queue": lane.queue(&floor.run),
        "max": TAKEN_MAX,
        "lease_seconds": lane.lease_seconds(),
    });
    while !end.is_cancelled() {
        let leased = floor.ask::<LeaseAnswer>(paths::JOBS_LEASE.to_owned(), None, &body).await;
        let jobs = leased.map(|answer| answer.jobs).unwrap_or_default();
        let is_idle = jobs.is_empty();
        for leased in jobs {
            floor.count("leases");
            let (tenant, job) = (&leased.job.tenant.0, &leased.job.job_id);
            match floor.place_of(tenant.as_str(), &job.to_string()) {
                Some(place) => attempt(&floor, place, (leased.job.attempts, leased.lease)),
                None => floor.complain(format!("a worker got job {job} of {tenant}")),
            }
        }
        if is_idle {
            tokio::select! {
                () = end.cancelled() => (),
                () = sleep(PAUSE) => (),
            }
        }
    }
}
