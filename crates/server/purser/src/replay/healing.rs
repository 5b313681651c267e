//! How long it takes after a cut until home has booked what regions have done meanwhile.
//!
//! Looked at for the tenants that are used most, because the service is busy with the jobs: each
//! allocation over the link that was cut must have been reported since.

use std::time::Duration;

use purser_api::{Allocation, List, paths};
use purser_types::{Credits, Region};
use tokio::time::{Instant, sleep};

use super::ReplayError;
use super::desk::Desk;
use super::front_door::FrontDoor;

/// How many tenants are looked at.
const WATCHED: usize = 12;
/// How often.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// For how long: regions report every five seconds even if nothing happens.
const HEALED_MAX: Duration = Duration::from_secs(30);

/// Waits until all is booked that concerns a region; `since` is when it was linked again. Returns how
/// long that took, or nothing if it took too long. Asks at the front door: the jobs may need all
/// connections that they have.
pub(crate) async fn wait_until_booked(
    desk: &Desk,
    front_door: &FrontDoor,
    (region, since): (Region, Instant),
) -> Result<Option<Duration>, ReplayError> {
    let mut waiting: Vec<usize> = (0..desk.tenants_count().min(WATCHED)).collect();
    while !waiting.is_empty() {
        if since.elapsed() > HEALED_MAX {
            return Ok(None);
        }
        let mut rest = Vec::new();
        for tenant in waiting {
            if !is_booked(desk, front_door, tenant, (region, since)).await? {
                rest.push(tenant);
            }
        }
        waiting = rest;
        if !waiting.is_empty() {
            sleep(LOOK_EVERY).await;
        }
    }
    Ok(Some(since.elapsed()))
}

/// Whether every allocation of a tenant that a cut of `region` concerned has been reported since.
async fn is_booked(
    desk: &Desk,
    front_door: &FrontDoor,
    tenant: usize,
    (region, since): (Region, Instant),
) -> Result<bool, ReplayError> {
    let elapsed = since.elapsed();
    let path = paths::fill(paths::ADMIN_ALLOCATIONS, &[desk.name(tenant)]);
    let allocations: List<Allocation> = front_door.read(&path).await?;
    let place = desk.spread().and_then(|spread| spread.place_of(&region));
    let is_home = place == desk.home(tenant);
    let is_open =
        |it: &Allocation| it.outstanding.0 != Credits::ZERO || it.unresolved.0 != Credits::ZERO;
    let concerned = allocations.items.iter();
    let concerned = concerned.filter(|it| (is_home || it.region.0 == region) && is_open(it));
    let since_cut = |age: Option<u64>| age.is_some_and(|age| Duration::from_millis(age) <= elapsed);
    Ok(concerned.map(|it| it.report_age_ms).all(since_cut))
}
