//! The operator: looks through the dead letters, does with each what the plan says, and waits until every
//! job has ended as it must.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use hyper::StatusCode;
use purser_api::{
    DiscardAnswer, Job, JobAnswer, JobDetail, JobStatus, List, ParkedEvent, ParkedEventAnswer,
    paths,
};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::floor::{Floor, STRANDED};
use super::plan::Kind;
use super::story::{End, Fate, Then};
use super::telling::{Lane, tell_success};
use crate::output::Progress;

/// How long nothing may come nearer to its end before it is taken as it stands.
const STANDSTILL_MAX: Duration = Duration::from_secs(90);
/// How long to wait before everything is looked through again.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(300);
/// How many jobs are looked at at once.
const AT_ONCE: usize = 32;
/// How often the button is pressed that redrives a dead letter.
const PRESSED: usize = 3;

/// Waits until every job has ended as planned, or nothing moves any more. Tells how many have not.
pub(crate) async fn settle(floor: &Arc<Floor>, progress: &Progress) -> usize {
    let jobs = floor.plan.works.iter().enumerate().filter(|(_, work)| work.end().is_some());
    let mut waiting: BTreeSet<usize> = jobs.map(|(place, _)| place).collect();
    let mut dealt_with = BTreeSet::new();
    let mut moved = Instant::now();
    while !waiting.is_empty() && moved.elapsed() < STANDSTILL_MAX {
        for place in dead_letters(floor).await {
            if dealt_with.insert(place) && !deal_with(floor, place).await {
                dealt_with.remove(&place);
            }
        }
        take_up_stranded(floor).await;
        let ended = ended(floor, &waiting).await;
        if !ended.is_empty() {
            moved = Instant::now();
            progress.advance(u64::try_from(ended.len()).unwrap_or(u64::MAX));
            waiting.retain(|place| !ended.contains(place));
        }
        sleep(LOOK_AGAIN_AFTER).await;
    }
    waiting.len()
}

/// Has the service take events that it parked because only regions that were away could pay.
pub(crate) async fn take_up_stranded(floor: &Floor) {
    let tenants = std::mem::take(&mut floor.noted().stranded);
    for tenant in tenants {
        let path = paths::fill(paths::ADMIN_PARKED_EVENTS, &[floor.name(tenant)]);
        let path = format!("{path}?limit=1000&reason={STRANDED}");
        let page = floor.read::<List<ParkedEvent>>(path).await;
        if page.as_ref().is_none_or(|page| page.has_more) {
            floor.noted().stranded.insert(tenant);
        }
        for event in page.into_iter().flat_map(|page| page.items) {
            let entry = event.entry.0.0.to_string();
            let path = paths::ADMIN_PARKED_EVENT_REDRIVE;
            let path = paths::fill(path, &[floor.name(tenant), &entry]);
            let body = json!({ "reason": "the region is back" });
            let key = format!("redrive-event-{tenant}-{entry}");
            if floor.ask_again::<ParkedEventAnswer>(&path, &key, &body).await.is_some() {
                floor.count("events_taken_up");
            }
        }
    }
}

/// Those of the jobs that have ended as they must.
async fn ended(floor: &Arc<Floor>, waiting: &BTreeSet<usize>) -> BTreeSet<usize> {
    let looks = stream::iter(waiting.iter().copied()).map(|place| async move {
        let work = &floor.plan.works[place];
        let path = paths::fill(paths::JOB, &[floor.name(work.tenant), &Floor::job(place)]);
        let detail = floor.read::<JobDetail>(path).await?;
        (work.end() == end_of(detail.job.status)).then_some(place)
    });
    looks.buffer_unordered(AT_ONCE).filter_map(async |ended| ended).collect().await
}

/// How a job has ended, if it has.
pub(crate) const fn end_of(status: JobStatus) -> Option<End> {
    match status {
        JobStatus::Queued | JobStatus::Leased => None,
        JobStatus::Succeeded => Some(End::Succeeded),
        JobStatus::Failed => Some(End::Failed),
        JobStatus::Dead => Some(End::Dead),
        JobStatus::Discarded => Some(End::Discarded),
    }
}

/// The dead letters of the run, in all regions.
async fn dead_letters(floor: &Floor) -> Vec<usize> {
    let own = [String::new()];
    let regions: Vec<String> = floor.regions.iter().map(|it| format!("&region={it}")).collect();
    let regions = if regions.is_empty() { &own[..] } else { &regions };
    let mut letters = Vec::new();
    for (region, lane) in regions.iter().flat_map(|it| Lane::ALL.map(|lane| (it, lane))) {
        let queue = lane.queue(&floor.run);
        let first = format!("{}?limit=1000&queue={queue}{region}", paths::ADMIN_DEAD_LETTERS);
        let mut next = Some(first.clone());
        while let Some(path) = next.take() {
            let Some(page) = floor.read::<List<Job>>(path).await else { break };
            let place = |job: &Job| floor.place_of(job.tenant.0.as_str(), &job.job_id.to_string());
            letters.extend(page.items.iter().filter_map(place));
            let cursor = page.next_cursor.filter(|_| page.has_more);
            next = cursor.map(|cursor| format!("{first}&cursor={cursor}"));
        }
    }
    letters
}

/// Does with a dead letter what is planned. Tells whether that is done.
async fn deal_with(floor: &Arc<Floor>, place: usize) -> bool {
    let Kind::Job { story, .. } = &floor.plan.works[place].kind else { return true };
    match story.then {
        Then::Dead(Fate::Left) => true,
        Then::Dead(Fate::Redriven) => redrive(floor, place).await,
        Then::Dead(Fate::Discarded) => discard(floor, place).await,
        Then::Dead(Fate::DeliveredAfterAll) => {
            floor.count("delivered_after_all");
            tell_success(floor, place, &story.tells);
            true
        }
        Then::Delivered | Then::FailsForGood => {
            floor.complain(format!("{} is dead: {story:?}", Floor::job(place)));
            true
        }
    }
}

/// Lets a job be tried again: the button is pressed several times at once.
async fn redrive(floor: &Arc<Floor>, place: usize) -> bool {
    // Before it is due, because a worker may have it at once.
    floor.set_redriven(place);
    let (job, body) = (Floor::job(place), json!({ "reason": "mended" }));
    let tenant = floor.name(floor.plan.works[place].tenant);
    let path = paths::fill(paths::ADMIN_DEAD_LETTER_REDRIVE, &[tenant, &job]);
    let presses = (0..PRESSED).map(|press| {
        let (path, key) = (path.clone(), format!("redrive-{job}-{press}"));
        let body = &body;
        async move { floor.ask::<JobAnswer>(path, Some(&key), body).await }
    });
    let answers = futures_util::future::join_all(presses).await;
    for answer in answers.iter().flatten() {
        if answer.job.redriven != 1 {
            floor.complain(format!("{job} was redriven {} times", answer.job.redriven));
        }
    }
    floor.count("redriven");
    answers.iter().any(Option::is_some)
}

/// Discards a job as it is shown. Not done if it changes meanwhile.
async fn discard(floor: &Arc<Floor>, place: usize) -> bool {
    let job = Floor::job(place);
    let tenant = floor.name(floor.plan.works[place].tenant);
    let path = paths::fill(paths::ADMIN_DEAD_LETTER_DISCARD, &[tenant, &job]);
    let body = json!({ "reason": "beyond repair", "dry_run": true });
    let key = format!("discard-{job}-dry");
    let shown = floor.ask::<DiscardAnswer>(path.clone(), Some(&key), &body).await;
    let Some(confirm) = shown.and_then(|answer| answer.confirm) else { return false };
    let body = json!({ "reason": "beyond repair", "confirm": confirm });
    let decided = floor.send(path, Some(&format!("discard-{job}")), &body).await;
    let is_done = decided.is_some_and(|decided| decided.status == StatusCode::OK);
    if is_done {
        floor.count("discarded");
    }
    is_done
}
