//! `purser replay --jobs`: a trace as jobs and usage events, in a world where much goes wrong; and then the
//! proof that everything counts once.
//!
//! ```text
//!  trace ─▶ plan: what becomes of each, and what everybody has at the end (pure, from the seed)
//!             │
//!             ├─ telling ─▶ create, outcomes ─┐
//!             ├─ events ──▶ alone, in batches ┼─▶ the service ─▶ PostgreSQL
//!             ├─ workers ─▶ lease, crash      │        │              │
//!             └─ letters ─▶ redrive, discard ─┘        ▼              ▼
//!                                                    check ───────▶ tables
//! ```
//!
//! One job in five fails; every outcome and event is told one to five times, late and in any order; workers
//! crash. The end of each job is known beforehand and does not depend on chance: see [`story`].
//!
//! Not here: the trace, the caller, and killing nodes, which `purser replay` has without jobs too.

mod check;
mod events;
mod floor;
mod letters;
mod lookout;
mod plan;
mod report;
mod story;
mod tables;
mod telling;
mod workers;

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use purser_postgres::Database;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use self::check::Compared;
use self::floor::Floor;
use self::lookout::Lookout;
use self::plan::{JobsPlan, JobsPlanSettings};
use self::report::Ran;
use self::tables::TablesReport;
use self::telling::Lane;
use super::book::{Asked, Granting, Opening};
use super::caller::Caller;
use super::outage::{LeaderKill, Outage};
use super::tally::{Tally, Waits};
use super::target::Target;
use super::wire::{self, Choice, Handle, Verdict};
use super::{Args, ReplayError, setup, trace};
use crate::output::{Output, Progress};

pub(crate) use self::report::JobsReport;

/// How many tenants are opened, or compared, at once.
const AT_ONCE: usize = 32;

/// Replays the traces as jobs.
pub(super) async fn replay(args: Args, output: &Output) -> Result<JobsReport, ReplayError> {
    let mut requests = trace::read(&args.traces)?;
    requests.truncate(args.limit.map_or(usize::MAX, std::num::NonZeroUsize::get));
    let settings = JobsPlanSettings {
        tenants: args.tenants,
        zipf: args.zipf,
        seed: args.seed,
        speed: args.speed,
        unacknowledged_percent: args.unacknowledged_max,
    };
    let plan = JobsPlan::new(&requests, settings);
    let (ends, length) = (plan.ends(), plan.length);
    let database = args.postgres.as_deref().map(database).transpose()?;
    let tally = Arc::new(Tally::default());
    let settings = args.caller_settings()?;
    let target = Target::find(&settings).await?;
    let kill = match args.kill_leader_at {
        Some(at) => {
            let front_door = target.front_door.clone().ok_or(ReplayError::NoFrontDoor)?;
            Some((at.of(length), LeaderKill { at, front_door }))
        }
        None => None,
    };
    let settings = target.settings(settings);
    let lookout = Lookout::start(&settings).await;
    let caller = Caller::new(settings, Arc::clone(&tally));
    let run = args.run.unwrap_or_else(|| format!("r{:x}", setup::wall_time().as_millis()));
    let regions = target.regions.iter().map(|(region, _)| *region).collect();
    let (outbound, inbound) = events::way();
    let floor = Floor::new(caller, (run.clone(), plan), regions, outbound)?;

    open_all(&floor, output).await?;
    let crew = Crew::start(&floor, inbound, database.clone());
    let (since, progress) = (Instant::now(), output.progress("jobs over", Some(jobs(&ends))));
    let outage = drive(&floor, kill, &tally).await?;
    let unsettled = letters::settle(&floor, &progress).await;
    let lag = crew.end(&floor).await?;
    letters::take_up_stranded(&floor).await;
    let took = since.elapsed();
    let was_out_of_reach = lookout.end().await;
    floor.noted().judge_stranded(was_out_of_reach);
    progress.finish(format_args!("{:.1} s", took.as_secs_f64()));

    let compared = compare_all(&floor, database.as_ref(), output).await;
    let tables = lag.map(|lag| TablesReport { lag: lag.quantiles(), ..compared.tables });
    let parts = (floor.noted().clone(), tally.lock().clone());
    let ran = Ran { run, took, ends, outage, unsettled };
    Ok(JobsReport::new(ran, parts, (compared.compared, tables)))
}

fn jobs(ends: &std::collections::BTreeMap<story::End, u64>) -> u64 {
    ends.values().sum()
}

fn database(address: &str) -> Result<Database, ReplayError> {
    let database = Database::at(address, Database::SCHEMA_DEFAULT, tables::CONNECTIONS);
    database.map_err(ReplayError::Database)
}

/// Opens and funds every tenant; their homes go by turns over the regions.
async fn open_all(floor: &Arc<Floor>, output: &Output) -> Result<(), ReplayError> {
    let count = floor.plan.tenants.len();
    let progress = output.progress("tenants opened", Some(super::count(count)));
    let opened = stream::iter(0..count).map(|tenant| open(floor, tenant)).buffer_unordered(AT_ONCE);
    let mut opened = std::pin::pin!(opened);
    while let Some(one) = opened.next().await {
        one?;
        progress.advance(1);
    }
    progress.finish(count);
    Ok(())
}

async fn open(floor: &Arc<Floor>, tenant: usize) -> Result<(), ReplayError> {
    let payer = &floor.plan.tenants[tenant];
    let home = tenant.checked_rem(floor.regions.len());
    let choice =
        Choice { home: home.and_then(|place| floor.regions.get(place).copied()), is_strict: false };
    let unacknowledged_max = payer.unacknowledged_max;
    let opening = Asked::Open(Opening { unacknowledged_max, ..Opening::default() });
    let grants = payer.lots.iter().zip([100, 50]).map(|(amount, priority)| {
        let amount = *amount;
        let (promotional, effective_at, expires_at) = (false, None, None);
        Asked::Grant(Granting { amount, promotional, priority, effective_at, expires_at })
    });
    for (place, asked) in std::iter::once(opening).chain(grants).enumerate() {
        let name = format!("{}-open-{tenant}-{place}", floor.run);
        let call = wire::call(floor.name(tenant), &asked, &Handle::None, choice, name.clone())?;
        let decided = floor.caller.decide(&call).await?;
        if let Verdict::Refused(refusal) = wire::verdict(&asked, &decided)? {
            return Err(ReplayError::SetUp { name, why: refusal.code });
        }
    }
    Ok(())
}

/// Those who are at work all the time.
struct Crew {
    workers: JoinSet<()>,
    lag: JoinSet<Waits>,
    end: CancellationToken,
}

impl Crew {
    fn start(floor: &Arc<Floor>, inbound: events::Inbound, database: Option<Database>) -> Self {
        let (mut workers, mut lag, end) =
            (JoinSet::new(), JoinSet::new(), CancellationToken::new());
        for lane in Lane::ALL {
            for _ in 0..workers::WORKERS {
                workers.spawn(workers::work(Arc::clone(floor), lane, end.clone()));
            }
        }
        workers.spawn(events::send_batches(Arc::clone(floor), inbound, end.clone()));
        if let Some(database) = database {
            lag.spawn(tables::measure_lag(Arc::clone(floor), database, end.clone()));
        }
        Self { workers, lag, end }
    }

    /// Waits until everything is told that was to be told, and sends all home. How late the tables were, if
    /// there are any.
    async fn end(mut self, floor: &Floor) -> Result<Option<Waits>, ReplayError> {
        floor.tellers.close();
        floor.tellers.wait().await;
        self.end.cancel();
        while let Some(ended) = self.workers.join_next().await {
            ended.map_err(ReplayError::Task)?;
        }
        let lag = self.lag.join_next().await;
        lag.transpose().map_err(ReplayError::Task)
    }
}

/// Begins every work when it is due, and kills a leader on the way if that is wanted.
async fn drive(
    floor: &Arc<Floor>,
    kill: Option<(Duration, LeaderKill)>,
    tally: &Arc<Tally>,
) -> Result<Option<Outage>, ReplayError> {
    let start = Instant::now();
    let mut killing = JoinSet::new();
    if let Some((at, kill)) = kill {
        let tally = Arc::clone(tally);
        killing.spawn(async move {
            sleep_until(start + at).await;
            kill.carry_out(&tally).await
        });
    }
    let mut begun = JoinSet::new();
    for (place, work) in floor.plan.works.iter().enumerate() {
        sleep_until(start + work.due).await;
        let floor = Arc::clone(floor);
        begun.spawn(async move { telling::begin(&floor, place).await });
        while let Some(ended) = begun.try_join_next() {
            ended.map_err(ReplayError::Task)?;
        }
    }
    while let Some(ended) = begun.join_next().await {
        ended.map_err(ReplayError::Task)?;
    }
    let killed = killing.join_next().await;
    killed.transpose().map_err(ReplayError::Task)?.transpose()
}

/// What the comparison came to.
struct ComparedAll {
    compared: Compared,
    tables: TablesReport,
}

/// Compares every tenant, by what the API shows and by the tables.
async fn compare_all(
    floor: &Arc<Floor>,
    database: Option<&Database>,
    output: &Output,
) -> ComparedAll {
    let count = floor.plan.tenants.len();
    let progress: Progress = output.progress("tenants compared", Some(super::count(count)));
    let mut all = ComparedAll { compared: Compared::default(), tables: TablesReport::default() };
    let looks = stream::iter(0..count).map(|tenant| compare_one(floor, database, tenant));
    let mut looks = std::pin::pin!(looks.buffer_unordered(AT_ONCE));
    while let Some(one) = looks.next().await {
        progress.advance(1);
        all.compared.add(one.0);
        all.tables.add(&one.1);
    }
    all.compared.differences.sort();
    progress.finish(all.compared.tenants);
    all
}

async fn compare_one(
    floor: &Arc<Floor>,
    database: Option<&Database>,
    tenant: usize,
) -> (Compared, TablesReport) {
    let (mut compared, mut found) = (Compared::default(), TablesReport::default());
    let Some((shown, same)) = check::compare(floor, tenant).await else {
        compared.differences.push(format!("{}: could not be read", floor.name(tenant)));
        return (compared, found);
    };
    compared.count(floor, tenant, &shown);
    let tables = match (same, database) {
        (Ok(()), Some(database)) => tables::compare(floor, database, (tenant, &shown)).await,
        (Ok(()), None) => Ok(TablesReport::default()),
        (Err(difference), _) => Err(difference),
    };
    match tables {
        Ok(tables) => found = tables,
        Err(difference) => {
            compared.differences.push(format!("{}: {difference}", floor.name(tenant)));
        }
    }
    (compared, found)
}
