//! What comes before the first job: tenants are opened and granted their lots.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use purser_types::{LogTime, Span};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::ReplayError;
use super::book::{Asked, Granting};
use super::desk::{Desk, Request};
use super::job::Repeat;
use super::plan::{LotPlan, Plan, TenantPlan};
use super::wire::{self, Handle, Receipt};
use crate::output::Progress;

/// How many tenants are set up at once.
const AT_ONCE: usize = 64;

/// Opens and funds every tenant of the plan. Lots that start or end while the jobs run have their
/// instants fixed when their tenant is set up, counted from `lead` later on: the rest of the set-up
/// lies between, and retries of the grant itself. Returns the wall time, since 1970, when the last of
/// their lots has ended that ends during the run.
pub(crate) async fn set_up(
    desk: &Arc<Desk>,
    plan: &Arc<Plan>,
    lead: Duration,
    progress: &Progress,
) -> Result<Duration, ReplayError> {
    let mut running = JoinSet::new();
    for place in 0..plan.tenants.len() {
        while running.len() >= AT_ONCE {
            finish_one(&mut running, progress).await?;
        }
        let (desk, plan) = (Arc::clone(desk), Arc::clone(plan));
        running.spawn(async move { set_up_one(&desk, place, &plan.tenants[place], lead).await });
    }
    while !running.is_empty() {
        finish_one(&mut running, progress).await?;
    }
    Ok(wall_time() + lead + plan.length)
}

async fn finish_one(
    running: &mut JoinSet<Result<(), ReplayError>>,
    progress: &Progress,
) -> Result<(), ReplayError> {
    if let Some(ended) = running.join_next().await {
        ended.map_err(ReplayError::Task)??;
        progress.advance(1);
    }
    Ok(())
}

/// Wall time since 1970. The service's log time follows its own clock, which is near enough for
/// lots that end "during the run".
pub(crate) fn wall_time() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

async fn set_up_one(
    desk: &Arc<Desk>,
    tenant: usize,
    plan: &TenantPlan,
    lead: Duration,
) -> Result<(), ReplayError> {
    let jobs_start = wall_time() + lead;
    let asked = Asked::Open(plan.opening);
    must(desk, request(tenant, format!("open-{tenant}"), asked, Handle::None)).await?;
    for (place, lot) in plan.lots.iter().enumerate() {
        let asked = Asked::Grant(granting(lot, jobs_start));
        let name = format!("grant-{tenant}-{place}");
        let granted = must(desk, request(tenant, name, asked, Handle::None)).await?;
        if lot.mistaken {
            void(desk, tenant, place, &granted).await?;
        }
    }
    Ok(())
}

/// Takes a lot back: first as a dry run, then with what that showed.
async fn void(
    desk: &Arc<Desk>,
    tenant: usize,
    place: usize,
    lot: &Receipt,
) -> Result<(), ReplayError> {
    let name = format!("void-{tenant}-{place}");
    let dry_run = wire::void_dry_run(desk.name(tenant), &lot.id, desk.key(&format!("{name}-dry")))?;
    let decided = desk.caller().decide(&dry_run).await?;
    let confirm = wire::confirmation(&decided.body)?;
    let handle = Handle::Lot { id: lot.id.clone(), confirm };
    must(desk, request(tenant, name, Asked::Void { lot: lot.sequence }, handle)).await?;
    Ok(())
}

fn request(tenant: usize, name: String, asked: Asked, handle: Handle) -> Request {
    Request { tenant, name, asked, handle, repeat: Repeat::Never, due: Instant::now() }
}

/// Makes a call that has to be done, or the replay makes no sense.
async fn must(desk: &Arc<Desk>, request: Request) -> Result<Receipt, ReplayError> {
    let (tenant, name) = (request.tenant, request.name.clone());
    if let Some(receipt) = desk.ask(request).await {
        return Ok(receipt);
    }
    let journal = desk.journal(tenant);
    let refusal = journal.calls.get(&desk.key(&name)).and_then(|call| call.refusal());
    let why = match (refusal, journal.complaints.first()) {
        (Some(refusal), _) => refusal.code.clone(),
        (None, Some(complaint)) => complaint.clone(),
        (None, None) => return Err(ReplayError::Unreached),
    };
    Err(ReplayError::SetUp { name, why })
}

fn granting(lot: &LotPlan, jobs_start: Duration) -> Granting {
    let instant = |after: Duration| {
        let micros = u64::try_from((jobs_start + after).as_micros()).unwrap_or(u64::MAX);
        LogTime::ZERO.saturating_add(Span::from_micros(micros))
    };
    Granting {
        amount: lot.amount,
        promotional: lot.promotional,
        priority: 100,
        effective_at: lot.starts.map(instant),
        expires_at: lot.ends.map(instant),
    }
}
