//! `purser bench moves`: what callers notice of a home that moves.
//!
//! Callers in every region charge one tenant, and insist on home's decision, one call after the other.
//! Meanwhile the tenant's home goes from region to region. A call that has to wait for a move waits;
//! one that is refused or has to be sent again is counted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::StatusCode;
use purser_api::{
    CallAmount, ChargeRequest, Consistency, GrantRequest, InvalidText, MoveRequest,
    OpenTenantRequest, PolicyRequest, RegionName, TenantName, UnitName, paths,
};
use purser_types::{Credits, CreditsError, Region, TenantId};
use serde::Serialize;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep};

use crate::failure::CommandError;
use crate::output::Output;
use crate::replay::ReplayError;
use crate::replay::caller::{ATTEMPT_MAX, Call, Caller, CallerSettings, Undecided};
use crate::replay::connection::{self, Callees};
use crate::replay::setup::wall_time;
use crate::replay::tally::{Quantiles, Tally, Waits};
use crate::replay::target::Target;

/// How long a call is repeated before it is given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// What the tenant gets: more than can be charged, one credit at a time.
const FUNDS: u64 = 1_000_000_000;

/// Measure what callers notice of a home that moves.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    callees: Callees,
    /// How often the home moves.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    moves: u32,
    /// How many callers there are in each region.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    callers: u32,
    /// How long the home stays, before, between and after its moves.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 2,
        value_parser = clap::value_parser!(u64).range(1..=60),
    )]
    stay: u64,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
enum MovesError {
    #[error("the regions could not be found")]
    Target(#[from] ReplayError),
    #[error("there are no regions between which a home could move")]
    OneRegion,
    #[error("the service does not decide")]
    Undecided(#[from] Undecided),
    #[error("{path} was refused: {status}: {body}")]
    Refused { path: String, status: StatusCode, body: String },
    #[error("a request could not be made")]
    Text(#[from] InvalidText),
    #[error("an amount")]
    Amount(#[from] CreditsError),
    #[error("a request could not be written")]
    Json(#[from] serde_json::Error),
    #[error("a part of the measurement failed")]
    Task(#[from] JoinError),
}

/// What was measured.
#[derive(Debug, Serialize)]
struct MovesReport {
    moves: u32,
    /// From the order to its answer.
    a_move: Quantiles,
    /// Calls that did not meet a move.
    quiet: Quantiles,
    /// Calls that did.
    moving: Quantiles,
    /// Calls that were refused.
    refused: u64,
    /// Attempts after which a call was sent again, whyever.
    sent_again: u64,
    /// The largest overspend bound that an answer named.
    bound_max: u64,
}

/// What callers share.
#[derive(Default)]
struct Shared {
    has_ended: AtomicBool,
    /// Counts beginnings and ends of moves: odd while one is under way.
    moves: AtomicU64,
    noticed: Mutex<Noticed>,
}

#[derive(Default)]
struct Noticed {
    quiet: Waits,
    moving: Waits,
    refused: u64,
    bound_max: u64,
}

/// One tenant at the service.
struct Tenant {
    name: TenantId,
    caller: Caller,
}

/// Measures.
pub(super) async fn run(args: Args, output: &Output) -> Result<(), CommandError> {
    let report = measure(args, output)
        .await
        .map_err(|error| CommandError::broken("nothing was measured", error))?;
    output.answer(&report, render)?;
    Ok(())
}

async fn measure(args: Args, output: &Output) -> Result<MovesReport, MovesError> {
    let settings = CallerSettings {
        addresses: args.callees.url.clone(),
        regions: Vec::new(),
        authorization: connection::bearer(&args.callees.token).map_err(ReplayError::from)?,
        patience: PATIENCE,
        attempt_max: ATTEMPT_MAX,
    };
    let target = Target::find(&settings).await?;
    let regions: Vec<Region> = target.regions.iter().map(|(region, _)| *region).collect();
    let Some(first) = regions.first() else { return Err(MovesError::OneRegion) };
    let tally = Arc::new(Tally::default());
    let caller = Caller::new(target.settings(settings), Arc::clone(&tally));
    let name = format!("bench-moves-{:x}", wall_time().as_millis());
    let name = TenantId::parse(&name).expect("letters, digits and dashes make a name");
    let tenant = Arc::new(Tenant { name, caller });
    tenant.open(*first).await?;

    let shared = Arc::new(Shared::default());
    let mut callers = JoinSet::new();
    for number in 0..args.callers {
        for place in 0..regions.len() {
            let (tenant, shared) = (Arc::clone(&tenant), Arc::clone(&shared));
            callers.spawn(async move { tenant.charge_on(place, number, &shared).await });
        }
    }
    let mut took = Waits::default();
    let progress = output.progress("moves", Some(u64::from(args.moves)));
    let stay = Duration::from_secs(args.stay);
    for to in regions.iter().cycle().skip(1).zip(0..args.moves).map(|(to, _)| *to) {
        sleep(stay).await;
        shared.moves.fetch_add(1, Ordering::Relaxed);
        let begun = Instant::now();
        tenant.move_to(to).await?;
        took.add(begun.elapsed());
        shared.moves.fetch_add(1, Ordering::Relaxed);
        progress.advance(1);
    }
    sleep(stay).await;
    shared.has_ended.store(true, Ordering::Relaxed);
    while let Some(ended) = callers.join_next().await {
        ended??;
    }
    progress.finish(args.moves);
    let noticed = shared.noticed.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(MovesReport {
        moves: args.moves,
        a_move: took.quantiles(),
        quiet: noticed.quiet.quantiles(),
        moving: noticed.moving.quantiles(),
        refused: noticed.refused,
        sent_again: tally.lock().retried_count(),
        bound_max: noticed.bound_max,
    })
}

impl Tenant {
    async fn open(&self, home: Region) -> Result<(), MovesError> {
        let request = OpenTenantRequest {
            tenant: TenantName(self.name.clone()),
            unit: UnitName::default(),
            home: Some(RegionName(home)),
            standbys: None,
            policy: PolicyRequest::default(),
        };
        self.must(paths::ADMIN_TENANTS.to_owned(), "open", &request).await?;
        let amount = CallAmount::from_credits(Credits::from_u64(FUNDS)?)?;
        let path = paths::fill(paths::ADMIN_GRANTS, &[&self.name]);
        self.must(path, "grant", &GrantRequest::new(amount)).await
    }

    async fn move_to(&self, to: Region) -> Result<(), MovesError> {
        let path = paths::fill(paths::ADMIN_MOVE, &[&self.name]);
        let key = format!("move-{to}-{:x}", wall_time().as_micros());
        self.must(path, &key, &MoveRequest { to: RegionName(to) }).await
    }

    /// Makes a call without which the measurement makes no sense.
    async fn must(
        &self,
        path: String,
        key: &str,
        request: &impl Serialize,
    ) -> Result<(), MovesError> {
        let body = serde_json::to_vec(request)?;
        let call = Call::change(path.clone(), format!("{}-{key}", self.name), body.into());
        let decided = self.caller.decide(&call).await?;
        if decided.status.is_success() {
            return Ok(());
        }
        let body = String::from_utf8_lossy(&decided.body).into_owned();
        Err(MovesError::Refused { path, status: decided.status, body })
    }

    /// Charges in one region, one call after the other, until the measurement has ended.
    async fn charge_on(
        &self,
        place: usize,
        number: u32,
        shared: &Shared,
    ) -> Result<(), MovesError> {
        let mut request = ChargeRequest::new(CallAmount::from_credits(Credits::from_u64(1)?)?);
        request.consistency = Consistency::Strict;
        let body: bytes::Bytes = serde_json::to_vec(&request)?.into();
        let path = paths::fill(paths::CHARGES, &[&self.name]);
        for count in 0_u64.. {
            if shared.has_ended.load(Ordering::Relaxed) {
                break;
            }
            let key = format!("{}-{place}-{number}-{count}", self.name);
            let call = Call::change(path.clone(), key, body.clone()).at(Some(place));
            let (begun, before) = (Instant::now(), shared.moves.load(Ordering::Relaxed));
            let decided = self.caller.decide(&call).await?;
            let (wait, after) = (begun.elapsed(), shared.moves.load(Ordering::Relaxed));
            let mut noticed = shared.noticed.lock().unwrap_or_else(PoisonError::into_inner);
            let is_quiet = before == after && before % 2 == 0;
            if is_quiet { &mut noticed.quiet } else { &mut noticed.moving }.add(wait);
            noticed.refused += u64::from(!decided.status.is_success());
            noticed.bound_max = noticed.bound_max.max(decided.bound.unwrap_or_default());
        }
        Ok(())
    }
}

fn render(report: &MovesReport) -> String {
    let row = |what: &str, waits: &Quantiles| {
        let Quantiles { count, p50_ms, p95_ms, p99_ms, max_ms } = waits;
        format!("| {what} | {count} | {p50_ms:.1} | {p95_ms:.1} | {p99_ms:.1} | {max_ms:.1} |\n")
    };
    let MovesReport { moves, refused, sent_again, bound_max, .. } = report;
    format!(
        "| ms | count | p50 | p95 | p99 | longest |\n|---|---|---|---|---|---|\n{}{}{}\n\
         {moves} moves; {refused} calls refused, {sent_again} attempts sent again; \
         largest bound {bound_max}",
        row("a move", &report.a_move),
        row("calls between moves", &report.quiet),
        row("calls that met one", &report.moving),
    )
}
