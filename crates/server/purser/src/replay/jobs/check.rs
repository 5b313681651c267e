//! What must be true at the end, tenant by tenant, by what the API shows: exact balances, one charge for
//! each job that was delivered and none for the others, each usage event once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use purser_api::{Balance, Bucket, Entry, JobDetail, List, Lot, ParkedEvent, paths};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::floor::Floor;
use super::letters::end_of;
use super::plan::Kind;
use crate::replay::difference::{Difference, same};

/// The largest page that the API gives.
const PAGE: u32 = 1_000;

/// What was compared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Compared {
    /// Tenants.
    pub(crate) tenants: u64,
    /// Their entries.
    pub(crate) entries: u64,
    /// Their lots.
    pub(crate) lots: u64,
    /// Their jobs.
    pub(crate) jobs: u64,
    /// Their usage events.
    pub(crate) events: u64,
    /// What was found, at most one for each tenant.
    pub(crate) differences: Vec<String>,
}

/// A tenant as the API shows it.
#[derive(Debug)]
pub(crate) struct ShownTenant {
    /// Its balance.
    pub(crate) balance: Balance,
    /// All its entries, oldest first.
    pub(crate) entries: Vec<Entry>,
    /// Its lots, oldest first.
    pub(crate) lots: Vec<Lot>,
    /// Its jobs, by the place of their works.
    jobs: BTreeMap<usize, JobDetail>,
    /// The usage events that conflict with others.
    conflicts: BTreeSet<String>,
}

/// Reads a tenant and compares it with the plan. Nothing if a call was given up or refused.
pub(crate) async fn compare(
    floor: &Arc<Floor>,
    tenant: usize,
) -> Option<(ShownTenant, Result<(), Difference>)> {
    let shown = read(floor, tenant).await?;
    let same = compare_shown(floor, tenant, &shown);
    Some((shown, same))
}

async fn read(floor: &Floor, tenant: usize) -> Option<ShownTenant> {
    let at = |template: &str| paths::fill(template, &[floor.name(tenant)]);
    let mut entries: Vec<Entry> = read_all(floor, at(paths::ENTRIES), "").await?;
    entries.sort_by_key(|entry| entry.sequence.0);
    let mut lots: Vec<Lot> = read_all(floor, at(paths::LOTS), "").await?;
    lots.sort_by_key(|lot| lot.lot_id.sequence.0);
    let conflict = "&reason=conflict";
    let parked: Vec<ParkedEvent> =
        read_all(floor, at(paths::ADMIN_PARKED_EVENTS), conflict).await?;
    let mut jobs = BTreeMap::new();
    for place in jobs_of(floor, tenant) {
        let path = paths::fill(paths::JOB, &[floor.name(tenant), &Floor::job(place)]);
        jobs.insert(place, floor.read::<JobDetail>(path).await?);
    }
    let balance = floor.read(at(paths::BALANCE)).await?;
    let conflicts = parked.into_iter().map(|event| event.id).collect();
    Some(ShownTenant { balance, entries, lots, jobs, conflicts })
}

async fn read_all<T>(floor: &Floor, path: String, filter: &str) -> Option<Vec<T>>
where
    List<T>: DeserializeOwned,
{
    let first = format!("{path}?limit={PAGE}{filter}");
    let (mut items, mut next) = (Vec::new(), Some(first.clone()));
    while let Some(path) = next.take() {
        let page: List<T> = floor.read(path).await?;
        items.extend(page.items);
        let cursor = page.next_cursor.filter(|_| page.has_more);
        next = cursor.map(|cursor| format!("{first}&cursor={cursor}"));
    }
    Some(items)
}

fn jobs_of(floor: &Floor, tenant: usize) -> impl Iterator<Item = usize> {
    let works = floor.plan.works.iter().enumerate();
    let theirs = works.filter(move |(_, it)| it.tenant == tenant && it.end().is_some());
    theirs.map(|(place, _)| place)
}

fn compare_shown(floor: &Floor, tenant: usize, shown: &ShownTenant) -> Result<(), Difference> {
    let payer = &floor.plan.tenants[tenant];
    let granted: u64 = payer.lots.iter().sum();
    let buckets = &shown.balance.buckets;
    let figures =
        [&buckets.granted, &buckets.used, &buckets.available, &buckets.held, &buckets.debt]
            .map(|amount| amount.0.get());
    let expected = [granted, payer.used, granted.saturating_sub(payer.used), 0, 0];
    same("granted, used, available, held, debt", figures, expected)?;
    for (place, job) in &shown.jobs {
        compare_job(floor, *place, job)?;
    }
    compare_entries(floor, tenant, shown)?;
    let conflicts = floor.plan.conflicts(tenant).map(|place| format!("u{place}")).collect();
    same("events that conflict", &shown.conflicts, &conflicts)
}

/// A job has ended as it must, and has cost what it must: at no time more than once.
fn compare_job(floor: &Floor, place: usize, detail: &JobDetail) -> Result<(), Difference> {
    let (work, job) = (&floor.plan.works[place], Floor::job(place));
    same(&format!("{job}, how it ended"), end_of(detail.job.status), work.end())?;
    if detail.has_older {
        return Err(Difference(format!("{job} has more entries than can be looked through")));
    }
    let mut paid = 0_i128;
    for entry in &detail.history {
        paid += used_by(entry);
        if paid != 0 && paid != i128::from(work.amount) {
            let what = format!("{job}, entry {}: paid in all", entry.sequence.0.0);
            return same(&what, paid, i128::from(work.amount));
        }
    }
    same(&format!("{job}, paid at the end"), paid, i128::from(work.cost()))
}

/// Entries are numbered without holes, chained by their hashes, and add up; each usage event has charged
/// once, and nothing else has.
fn compare_entries(floor: &Floor, tenant: usize, shown: &ShownTenant) -> Result<(), Difference> {
    let mut before: Option<&Entry> = None;
    let (mut by_jobs, mut by_events, mut charges) = (0_i128, 0_i128, Vec::new());
    for entry in &shown.entries {
        let expected = before.map_or(1, |before| before.sequence.0.0.saturating_add(1));
        same("sequence of an entry", entry.sequence.0.0, expected)?;
        if let Some(before) = before {
            let what = format!("entry {expected}, the hash before it");
            same(&what, &entry.prev_hash, &before.hash)?;
        }
        before = Some(entry);
        match (&entry.job_id, used_by(entry)) {
            (Some(_), used) => by_jobs += used,
            (None, 0) => (),
            (None, used) => {
                by_events += used;
                charges.push(used);
            }
        }
    }
    let theirs = floor.plan.works.iter().filter(|work| work.tenant == tenant);
    let (jobs, usage): (Vec<_>, Vec<_>) = theirs.partition(|work| work.end().is_some());
    let cost = jobs.iter().map(|work| i128::from(work.cost())).sum();
    same("used by jobs", by_jobs, cost)?;
    let mut expected: Vec<i128> = usage.iter().map(|work| i128::from(work.amount)).collect();
    expected.sort_unstable();
    charges.sort_unstable();
    same("charges of usage events", charges, expected)?;
    same(
        "entries add up to what is used",
        by_jobs + by_events,
        shown.balance.buckets.used.0.get().into(),
    )
}

/// By how much an entry changed what is used.
fn used_by(entry: &Entry) -> i128 {
    let used = entry.postings.iter().filter(|posting| posting.bucket == Bucket::Used);
    used.map(|posting| i128::from(posting.amount.get())).sum()
}

impl Compared {
    /// Counts what another one has counted.
    pub(crate) fn add(&mut self, other: Self) {
        self.tenants += other.tenants;
        self.entries += other.entries;
        self.lots += other.lots;
        self.jobs += other.jobs;
        self.events += other.events;
        self.differences.extend(other.differences);
    }

    /// Counts a tenant that was looked at.
    pub(crate) fn count(&mut self, floor: &Floor, tenant: usize, shown: &ShownTenant) {
        let works = floor.plan.works.iter().filter(|work| work.tenant == tenant);
        let usage = works.filter(|work| matches!(work.kind, Kind::Usage { .. })).count();
        let length = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        self.tenants += 1;
        self.entries += length(shown.entries.len());
        self.lots += length(shown.lots.len());
        self.jobs += length(shown.jobs.len());
        self.events += length(usage);
    }
}
