//! `purser replay`: a real trace against a real service, and then the proof that every credit is
//! where it must be.
//!
//! ```text
//!  trace ──▶ plan ──▶ setup ──▶ drive ──▶ story ──▶ desk ──▶ caller ──▶ connection ──▶ service
//!                                                    │                                    │
//!                                                    ▼ what was asked, what was answered  │
//!                                                 journal ──▶ book ──▶ compare ◀── verify ┘
//! ```
//!
//! Where the service spans regions, calls come in at all of them ([`spread`]), and regions may be cut
//! off on the way ([`cuts`]). What a region decided reaches home's ledger as a sum, so such a tenant is
//! compared with sums of what was answered ([`regional`]), and any other with the book, lot by lot.
//!
//! The service decides the order of racing calls and the log time of each. All else is worked out
//! again by [`book`], which shares no code with the service.
//!
//! Not here: how fast the service can be (`purser bench` measures that).

mod book;
pub(crate) mod caller;
mod compare;
pub(crate) mod connection;
mod cuts;
mod desk;
mod difference;
pub(crate) mod drive;
mod front_door;
mod healing;
mod job;
mod jobs;
mod journal;
mod outage;
mod overdrafts;
mod overspend;
mod plan;
pub(crate) mod random;
mod regional;
mod regional_counts;
mod report;
mod sampled;
pub(crate) mod setup;
mod spread;
mod story;
pub(crate) mod tally;
pub(crate) mod target;
#[cfg(test)]
pub(crate) mod test_node;
#[cfg(test)]
mod tests;
mod trace;
mod traffic;
mod verify;
mod wire;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use purser_postgres::DatabaseError;
use purser_types::Region;

use self::caller::{Caller, CallerSettings, Undecided};
use self::connection::{Callees, InvalidToken};
use self::cuts::{Cut, Cuts};
use self::desk::Desk;
use self::drive::Faults;
use self::jobs::JobsReport;
use self::outage::{LeaderKill, Share};
use self::overdrafts::Operator;
use self::overspend::Listener;
use self::plan::{Plan, PlanSettings};
use self::report::{RegionsReport, Report};
use self::spread::Spread;
use self::tally::Tally;
use self::target::Target;
use self::trace::TraceError;
use self::traffic::Counters;
use self::wire::{Refusal, WireError};
use crate::cli::SECONDS_MAX;
use crate::failure::CommandError;
use crate::output::Output;

/// Replay a trace of real requests, and check every balance against an independent book.
///
/// Reads CSV with a header, or JSON lines: `time`, `tenant` (optional), `estimated`, `actual`,
/// `duration_ms` (optional); and the public Azure traces of LLM inference (`TIMESTAMP`,
/// `ContextTokens`, `GeneratedTokens`) as they are. Several files are merged by time.
///
/// Exits with 1 if anything at the service differs from the book, with 3 if calls were given up.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The traces.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    #[command(flatten)]
    callees: Callees,
    /// Over how many tenants to spread requests that name none.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    tenants: u32,
    /// How unevenly: the n-th tenant makes 1/n^ZIPF as many requests as the first.
    #[arg(long, default_value_t = 1.0, value_parser = exponent)]
    zipf: f64,
    /// How many times faster than the trace.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    speed: u32,
    /// Stop after so many requests of the trace.
    #[arg(long, value_name = "COUNT")]
    limit: Option<NonZeroUsize>,
    /// Where the randomness starts: the same seed asks for the same things.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The run's name, with which every tenant and every key starts; the current time if left out.
    #[arg(long, value_parser = run_name)]
    run: Option<String>,
    /// For how many seconds a call is repeated before it is given up.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(..=SECONDS_MAX),
    )]
    patience: u64,
    /// How many seconds after their tenant's set-up the lots start to count that begin or end during
    /// the run. More for a service that takes long to set many tenants up.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 5,
        value_parser = clap::value_parser!(u64).range(..=SECONDS_MAX),
    )]
    lead: u64,
    /// After this share of the run, kill the node that leads the most groups, and start it again a
    /// few seconds later. The first address must be the front door of `purser dev`.
    #[arg(long, value_name = "PERCENT")]
    kill_leader_at: Option<Share>,
    /// What most tenants have at first, in percent of what their requests can take. A region decides by
    /// itself only as long as there is far more than what calls cost at a time.
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 130,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000),
    )]
    supply: u32,
    /// How much home may take back from regions that it does not hear of for longer than their lease, in
    /// percent of what a tenant has at first. Nothing if it is 0: then regions keep what they have.
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(..=1_000),
    )]
    take_back: u32,
    /// How much home may answer before its standby has it, in percent of what a tenant has at first. What
    /// goes beyond waits for a round trip to the standby. No matter where homes have no standbys.
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(..=1_000),
    )]
    unacknowledged_max: u32,
    /// How much each region but the home may spend beyond what it was granted, in percent of what a
    /// tenant has at first. The bound shows as much from the start.
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(..=1_000),
    )]
    overdraft: u32,
    /// Where there are several regions: the share of authorizes and charges that home must decide.
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 5,
        value_parser = clap::value_parser!(u64).range(..=100),
    )]
    strict: u64,
    /// Cut a region off from all others between two times since the start of the jobs, such as
    /// `eu:10s..25s`; repeatable. The first address must be the front door of `purser dev`.
    #[arg(long, value_name = "REGION:FROM..UNTIL")]
    cut: Vec<Cut>,
    /// Cut every region off for so long, one after the other over the run. As for `--cut`.
    #[arg(long, value_name = "SECONDS", value_parser = cuts::seconds, conflicts_with = "cut")]
    cut_each: Option<Duration>,
    /// Make jobs and usage events of the requests: one job in five fails, whatever happens is told one to
    /// five times and in any order, workers crash. How each must end is known beforehand.
    #[arg(
        long,
        conflicts_with_all = ["cut", "cut_each", "strict", "overdraft", "take_back", "supply", "lead"],
    )]
    jobs: bool,
    /// With `--jobs`: the address of the PostgreSQL database that the service keeps its read model in, to
    /// compare the tables and the outbox too.
    #[arg(
        long,
        value_name = "URL",
        env = "PURSER_POSTGRES",
        hide_env_values = true,
        requires = "jobs"
    )]
    postgres: Option<String>,
}

impl Args {
    /// Whom to call, before anything is known of them.
    fn caller_settings(&self) -> Result<CallerSettings, InvalidToken> {
        Ok(CallerSettings {
            addresses: self.callees.url.clone(),
            regions: Vec::new(),
            authorization: connection::bearer(&self.callees.token)?,
            patience: Duration::from_secs(self.patience),
            attempt_max: caller::ATTEMPT_MAX,
        })
    }
}

fn exponent(text: &str) -> Result<f64, String> {
    let exponent: f64 = text.parse().map_err(|error| format!("{error}"))?;
    let steepest = 10.0;
    if (0.0..=steepest).contains(&exponent) {
        Ok(exponent)
    } else {
        Err(format!("must be from 0 to {steepest}"))
    }
}

fn run_name(text: &str) -> Result<String, String> {
    wire::tenant(text).map(|_name| text.to_owned()).map_err(|error| error.to_string())
}

/// Why a replay could not be carried out. That the service is wrong is not among it: that is a
/// result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplayError {
    /// The traces cannot be read.
    #[error("the trace cannot be replayed")]
    Trace(#[from] TraceError),
    /// A call cannot be made, or its answer cannot be read.
    #[error("the service and this program do not understand each other")]
    Wire(#[from] WireError),
    /// The token cannot be sent.
    #[error(transparent)]
    Token(#[from] InvalidToken),
    /// A call that everything else needs was not decided.
    #[error("the service does not decide")]
    Undecided(#[from] Undecided),
    /// Nothing answered.
    #[error("the service was not reached")]
    Unreached,
    /// A tenant could not be opened or funded.
    #[error("{name} was refused: {why}")]
    SetUp {
        /// Which call.
        name: String,
        /// The code of the refusal.
        why: String,
    },
    /// A call that reads was refused.
    #[error("{what} was refused: {}", refusal.code)]
    Refused {
        /// The path.
        what: String,
        /// The refusal.
        refusal: Refusal,
    },
    /// Something is to be broken, and nothing but the front door of a development cluster can do that.
    #[error("the first address is not the front door of a development cluster")]
    NoFrontDoor,
    /// A region is to be cut off, and there is only one.
    #[error("there is one region, which nothing can be cut off from")]
    OneRegion,
    /// A region is to be cut off that is none of the cluster.
    #[error("there is no region {0}")]
    NoSuchRegion(Region),
    /// Two regions are to be cut off at a time.
    #[error("two cuts overlap")]
    CutsOverlap,
    /// All regions are to be cut off in turn, and the run is over before.
    #[error("the run is too short to cut each region off for so long")]
    TooShort,
    /// There is no leader to kill.
    #[error("no node of a development cluster leads any group")]
    NoLeader,
    /// The development cluster did not do what it was asked to.
    #[error("{path} failed: {text}")]
    Control {
        /// The path.
        path: String,
        /// What it answered.
        text: String,
    },
    /// A tenant changed whenever it was read.
    #[error("tenant {0} never stood still after the run")]
    NeverStill(String),
    /// A page of a list says that there is more, and not where.
    #[error("{0} does not lead to its end")]
    BrokenList(String),
    /// The database's address is none.
    #[error(transparent)]
    Database(DatabaseError),
    /// A task of this program ended by itself.
    #[error("a part of the replay failed")]
    Task(#[source] tokio::task::JoinError),
}

impl From<ReplayError> for CommandError {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Undecided(undecided) => Self::unreached("the replay stopped", undecided),
            ReplayError::Unreached => Self::unreached("the replay did not start", error),
            ReplayError::Token(invalid) => Self::Usage(invalid.to_string()),
            ReplayError::Database(invalid) => Self::Usage(invalid.to_string()),
            ReplayError::NoFrontDoor
            | ReplayError::OneRegion
            | ReplayError::NoSuchRegion(_)
            | ReplayError::CutsOverlap
            | ReplayError::TooShort => Self::Usage(error.to_string()),
            other => Self::broken("the replay was not carried out", other),
        }
    }
}

/// Replays the traces.
pub(crate) async fn run(args: Args, output: &Output) -> Result<(), CommandError> {
    if args.jobs {
        let report = Box::pin(jobs::replay(args, output)).await?;
        output.answer(&report, JobsReport::render)?;
        return report.outcome();
    }
    let report = replay(args, output).await?;
    output.answer(&report, Report::render)?;
    report.outcome()
}

async fn replay(args: Args, output: &Output) -> Result<Report, ReplayError> {
    let mut requests = trace::read(&args.traces)?;
    requests.truncate(args.limit.map_or(usize::MAX, NonZeroUsize::get));
    let Args { tenants, zipf, seed, speed, supply: supply_percent, .. } = args;
    let plan = PlanSettings {
        tenants,
        zipf,
        seed,
        speed,
        supply_percent,
        take_back_percent: args.take_back,
        unacknowledged_percent: args.unacknowledged_max,
        overdraft_percent: args.overdraft,
    };
    let plan = Arc::new(Plan::new(&requests, plan));
    let tally = Arc::new(Tally::default());
    let settings = args.caller_settings()?;
    let target = Target::find(&settings).await?;
    let scarce = plan.top_ups.iter().map(|top_up| top_up.tenant).collect();
    let spread = target.spread(args.strict, seed).map(|spread| spread.knowing_scarce(scarce));
    let faults = faults(&args, &target, spread.as_ref(), plan.length)?;
    let settings = target.settings(settings);
    let listener = spread.as_ref().map(|_| Listener::start(&settings));
    let caller = Caller::new(settings.clone(), Arc::clone(&tally));
    let run = args.run.unwrap_or_else(|| format!("r{:x}", setup::wall_time().as_millis()));
    let names = plan.tenants.iter().map(|tenant| tenant.name.as_str());
    let desk = Arc::new(Desk::new(caller, run.clone(), names, spread)?);

    output.note(format_args!(
        "home may answer {} % of what a tenant has at first before its standby has it",
        args.unacknowledged_max
    ));
    let progress = output.progress("tenants opened", Some(count(plan.tenants.len())));
    let lead = Duration::from_secs(args.lead);
    let lots_over = setup::set_up(&desk, &plan, lead, &progress).await?;
    progress.finish(plan.tenants.len());
    let set_up = tally.lock().decided_count();

    let before = Counters::read(&settings).await?;
    let progress = output.progress("requests replayed", Some(count(plan.jobs.len())));
    let operator = Operator::start(&desk, &plan, &settings);
    let driven = drive::drive(&desk, &plan, &faults, &progress).await?;
    operator.end().await?;
    progress.finish(format_args!("{} in {:.1} s", plan.jobs.len(), driven.took.as_secs_f64()));
    let counts = tally.lock().clone();
    let traffic = Counters::read(&settings).await?.since(&before);

    wait_for_lots(lots_over, output).await;
    let progress = output.progress("tenants compared", Some(count(plan.tenants.len())));
    let verification = verify::verify(&desk, &progress).await?;
    progress.finish(verification.tenants);
    let regions = match listener {
        Some(listener) => {
            let overspend = listener.end().await;
            Some(RegionsReport::new(&desk, (&counts, traffic), &driven, overspend))
        }
        None => None,
    };
    Ok(Report::new(run, (counts, set_up), driven, regions, verification))
}

/// What is to be broken on the way.
fn faults(
    args: &Args,
    target: &Target,
    spread: Option<&Spread>,
    length: Duration,
) -> Result<Faults, ReplayError> {
    let front_door = || target.front_door.clone().ok_or(ReplayError::NoFrontDoor);
    let kill = match args.kill_leader_at {
        Some(at) => Some(LeaderKill { at, front_door: front_door()? }),
        None => None,
    };
    if args.cut.is_empty() && args.cut_each.is_none() {
        return Ok(Faults { kill, cuts: None });
    }
    let front_door = front_door()?;
    let spread = spread.ok_or(ReplayError::OneRegion)?;
    let list = match args.cut_each {
        Some(each) => Cuts::in_turn(each, length, spread.regions())?,
        None => args.cut.clone(),
    };
    Ok(Faults { kill, cuts: Some(Cuts::new(list, front_door, spread)?) })
}

/// Waits until the lots have ended that end during the run, so that nothing more happens by itself
/// while the tenants are read.
async fn wait_for_lots(over: Duration, output: &Output) {
    let rest = (over + Duration::from_secs(1)).saturating_sub(setup::wall_time());
    if rest > Duration::from_secs(1) {
        output.note(format_args!("waiting {} s for the last lots to end", rest.as_secs()));
    }
    tokio::time::sleep(rest).await;
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
