//! After the run: reads what the service shows of every tenant, and compares.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use purser_api::{
    Balance, Charge, ChargeDetail, Entry, Hold, HoldDetail, List, Lot, ProblemCode, paths,
};
use purser_client::AnswerBody;
use purser_types::{Region, TenantId};
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::ReplayError;
use super::caller::Call;
use super::compare::{self, Compared, Shown};
use super::desk::Desk;
use super::difference::Difference;
use super::regional::{self, ShownAtHome, ShownWork};
use super::wire;
use crate::output::Progress;

/// How many tenants are read at once.
const AT_ONCE: usize = 32;
/// How often a tenant is read again because something changed while it was read.
const READ_AGAIN_MAX: u32 = 50;
/// Pause before that: with all of them it is several times as long as a sweeper takes to come by.
const READ_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// How long after the run regions may take until home has booked all of it: reports come once a second,
/// and after a cut connections are made anew.
const BOOKED_MAX: Duration = Duration::from_secs(30);
/// Pause until what regions have reported is looked at again.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Items of a page: the most there can be.
const PAGE: u32 = 1_000;

/// What the comparison of all tenants came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Verification {
    /// Tenants compared.
    pub(crate) tenants: u64,
    /// Entries compared.
    pub(crate) entries: u64,
    /// Lots compared.
    pub(crate) lots: u64,
    /// Holds and charges compared.
    pub(crate) holds: u64,
    /// Answers of accepted calls compared.
    pub(crate) answers: u64,
    /// Refusals compared.
    pub(crate) refusals: u64,
    /// Tenants whose credits were out in regions.
    pub(crate) regional: u64,
    /// What regions have spent beyond what was granted.
    pub(crate) overspent: u64,
    /// What was found, at most one for each tenant.
    pub(crate) differences: Vec<String>,
}

/// Compares every tenant of the desk.
pub(crate) async fn verify(
    desk: &Arc<Desk>,
    progress: &Progress,
) -> Result<Verification, ReplayError> {
    let mut verification = Verification::default();
    let (since, mut running) = (Instant::now(), JoinSet::new());
    for tenant in 0..desk.tenants_count() {
        while running.len() >= AT_ONCE {
            take_one(&mut running, &mut verification, progress).await?;
        }
        let desk = Arc::clone(desk);
        running.spawn(async move { verify_one(&desk, tenant, since).await });
    }
    while !running.is_empty() {
        take_one(&mut running, &mut verification, progress).await?;
    }
    verification.differences.sort();
    Ok(verification)
}

type One = Result<Result<Compared, String>, ReplayError>;

async fn take_one(
    running: &mut JoinSet<One>,
    verification: &mut Verification,
    progress: &Progress,
) -> Result<(), ReplayError> {
    let Some(ended) = running.join_next().await else { return Ok(()) };
    progress.advance(1);
    verification.tenants += 1;
    match ended.map_err(ReplayError::Task)?? {
        Ok(compared) => {
            verification.regional += u64::from(compared.is_regional);
            verification.entries += compared.entries;
            verification.lots += compared.lots;
            verification.holds += compared.works;
            verification.answers += compared.answers;
            verification.refusals += compared.refusals;
            verification.overspent += compared.overspent;
        }
        Err(difference) => verification.differences.push(difference),
    }
    Ok(())
}

/// Compares one tenant; the inner error is a difference.
async fn verify_one(desk: &Desk, tenant: usize, since: Instant) -> One {
    let name = desk.name(tenant);
    let told = |difference: Difference| format!("{name}: {difference}");
    if desk.spread().is_some()
        && let Some(compared) = verify_regional(desk, tenant, since).await?
    {
        return Ok(compared.map_err(told));
    }
    let shown = read_tenant(desk, tenant).await?;
    let journal = desk.journal(tenant);
    let compared = || -> Result<Compared, Difference> {
        let book = compare::rebuild(&journal, &shown.entries, &shown.balance.as_of)?;
        compare::compare(&journal, &book, &shown)
    };
    Ok(compared().map_err(told))
}

/// Compares a tenant whose credits were out in regions; nothing if they never were. What regions have
/// decided is booked a little later, so what differs is looked at again until [`BOOKED_MAX`].
async fn verify_regional(
    desk: &Desk,
    tenant: usize,
    since: Instant,
) -> Result<Option<Result<Compared, Difference>>, ReplayError> {
    loop {
        let home = read_home(desk, tenant).await?;
        if !regional::is_touched(&home.entries) {
            return Ok(None);
        }
        let cuts = desk.caller().tally().lock().regional.cut_times.clone();
        let mut compared = regional::compare_home(&desk.journal(tenant), &home, &cuts);
        if compared.is_ok() {
            let works = read_works(desk, tenant).await?;
            let now = Instant::now();
            let works = regional::ShownWorks { works, may_be_closed: home.has_taken_back() };
            let same = regional::compare_works(&desk.journal(tenant), &works, now);
            compared = same.and(compared);
        }
        if compared.is_ok() || since.elapsed() > BOOKED_MAX {
            return Ok(Some(compared));
        }
        sleep(LOOK_AGAIN_AFTER).await;
    }
}

async fn read_home(desk: &Desk, tenant: usize) -> Result<ShownAtHome, ReplayError> {
    let (name, at_home) = (desk.name(tenant), desk.home(tenant));
    for _ in 0..READ_AGAIN_MAX {
        let balance: Balance = read(desk, at(paths::BALANCE, name), at_home).await?;
        let mut entries: Vec<Entry> = read_all(desk, tenant, paths::ENTRIES).await?;
        let lots: Vec<Lot> = read_all(desk, tenant, paths::LOTS).await?;
        entries.sort_by_key(|entry| entry.sequence.0);
        let again: Balance = read(desk, at(paths::BALANCE, name), at_home).await?;
        if stood_still(&balance, &again) {
            return Ok(ShownAtHome { balance, entries, lots });
        }
        sleep(READ_AGAIN_AFTER).await;
    }
    Err(ReplayError::NeverStill(name.to_string()))
}

/// Asks the owner of each hold and charge.
async fn read_works(
    desk: &Desk,
    tenant: usize,
) -> Result<BTreeMap<String, ShownWork>, ReplayError> {
    let ids = regional::works_of(&desk.journal(tenant));
    let mut works = BTreeMap::new();
    for id in ids {
        let region = id.splitn(3, '-').nth(2).and_then(|region| Region::parse(region).ok());
        let spread = desk.spread();
        let owner = region.and_then(|region| spread.and_then(|spread| spread.place_of(&region)));
        let path = |template: &str| paths::fill(template, &[desk.name(tenant), &id]);
        let work = if id.starts_with('h') {
            let detail = read::<HoldDetail>(desk, path(paths::HOLD), owner).await;
            detail.map(|detail| ShownWork::Hold(Box::new(detail.hold), detail.history))
        } else {
            let detail = read::<ChargeDetail>(desk, path(paths::CHARGE), owner).await;
            detail.map(|detail| ShownWork::Charge(Box::new(detail.charge), detail.history))
        };
        match work {
            Ok(work) => drop(works.insert(id, work)),
            // Whether that may be is for the comparison to judge.
            Err(ReplayError::Refused { refusal, .. }) if is_not_found(&refusal.code) => (),
            Err(error) => return Err(error),
        }
    }
    Ok(works)
}

/// Reads a tenant until nothing happened between the first read and the last, neither written down
/// nor by time alone.
async fn read_tenant(desk: &Desk, tenant: usize) -> Result<Shown, ReplayError> {
    let (name, at_home) = (desk.name(tenant), desk.home(tenant));
    for _ in 0..READ_AGAIN_MAX {
        let shown = read_tenant_once(desk, tenant).await?;
        let again: Balance = read(desk, at(paths::BALANCE, name), at_home).await?;
        if stood_still(&shown.balance, &again) {
            return Ok(shown);
        }
        sleep(READ_AGAIN_AFTER).await;
    }
    Err(ReplayError::NeverStill(name.to_string()))
}

fn stood_still(before: &Balance, after: &Balance) -> bool {
    let figures = |balance: &Balance| {
        let Balance { buckets, pending, totals, as_of, .. } = balance;
        (buckets.clone(), pending.clone(), totals.clone(), as_of.sequence.clone())
    };
    figures(before) == figures(after)
}

async fn read_tenant_once(desk: &Desk, tenant: usize) -> Result<Shown, ReplayError> {
    let (name, at_home) = (desk.name(tenant), desk.home(tenant));
    let balance = read(desk, at(paths::BALANCE, name), at_home).await?;
    let mut entries: Vec<Entry> = read_all(desk, tenant, paths::ENTRIES).await?;
    let lots: Vec<Lot> = read_all(desk, tenant, paths::LOTS).await?;
    entries.sort_by_key(|entry| entry.sequence.0);
    let (mut holds, mut charges): (Vec<Hold>, Vec<Charge>) = (Vec::new(), Vec::new());
    let ids = |id: fn(&Entry) -> Option<String>| -> BTreeSet<String> {
        entries.iter().filter_map(id).collect()
    };
    for id in ids(|entry| entry.hold_id.as_ref().map(ToString::to_string)) {
        let path = paths::fill(paths::HOLD, &[name, &id]);
        let detail: HoldDetail = read(desk, path, at_home).await?;
        holds.push(detail.hold);
    }
    for id in ids(|entry| entry.charge_id.as_ref().map(ToString::to_string)) {
        let path = paths::fill(paths::CHARGE, &[name, &id]);
        let detail: ChargeDetail = read(desk, path, at_home).await?;
        charges.push(detail.charge);
    }
    Ok(Shown { balance, entries, lots, holds, charges })
}

fn is_not_found(code: &str) -> bool {
    [ProblemCode::HoldNotFound, ProblemCode::ChargeNotFound].iter().any(|it| it.name() == code)
}

fn at(template: &str, tenant: &TenantId) -> String {
    paths::fill(template, &[tenant])
}

async fn read_all<T>(desk: &Desk, tenant: usize, template: &str) -> Result<Vec<T>, ReplayError>
where
    List<T>: AnswerBody,
{
    let (path, at_home) = (at(template, desk.name(tenant)), desk.home(tenant));
    let mut items = Vec::new();
    let mut cursor = String::new();
    loop {
        let page: List<T> = read(desk, format!("{path}?limit={PAGE}{cursor}"), at_home).await?;
        items.extend(page.items);
        if !page.has_more {
            return Ok(items);
        }
        let next = page.next_cursor.map(|next| format!("&cursor={next}"));
        // A page that is followed by nothing, or by itself, would end the list early or never.
        cursor = next
            .filter(|next| *next != cursor)
            .ok_or_else(|| ReplayError::BrokenList(path.clone()))?;
    }
}

async fn read<T: AnswerBody>(
    desk: &Desk,
    path: String,
    entrance: Option<usize>,
) -> Result<T, ReplayError> {
    let call = Call::read(path).at(entrance);
    let decided = desk.caller().decide(&call).await?;
    let what = call.path;
    wire::read(&decided)?.map_err(|refusal| ReplayError::Refused { what, refusal })
}
