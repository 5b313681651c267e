//! `purser bench`: how fast the service is, and what it takes.
//!
//! ```text
//!  grid ──▶ cell ──▶ worker ──▶ connection ──▶ service      time and errors, as a client sees them
//!            │
//!            └──▶ process: the servers' CPU, from /proc
//!  moves:   what callers notice of a home that moves
//!  jobs:    looks for due jobs, and dead letters beside other calls
//!  events:  usage events in batches
//!  storage: bytes of memory and disk, and how long a restart takes
//! ```
//!
//! A pair is an authorize under a key of its own and the capture of its hold: two durable calls.
//! Closed loop, unless a rate is given: then pairs fall due on a schedule and are timed from when
//! they are due, and all that fall due in the time of a measurement are counted, however late they
//! are made. So a service that falls behind cannot hide it.
//!
//! Client and servers usually share the machine, and the client's share of it is not free. Only
//! ratios within one run count.
//!
//! Not here: whether the answers are right (`purser replay` proves that).

mod asking;
mod cell;
mod cluster;
mod events;
mod fund;
mod jobs;
mod moves;
mod process;
mod storage;
mod table;
mod worker;

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderValue;

use self::cell::{Cell, CellResult, Spread};
use self::cluster::{ClusterError, SpawnedCluster};
use self::fund::FundError;
use self::process::ProcessError;
use self::worker::Target;
use crate::cli::SECONDS_MAX;
use crate::failure::CommandError;
use crate::output::Output;
use crate::replay::connection::{self, Callees};
use crate::signals::StopSignals;

/// Measure pairs of authorize and capture, or what a sub-command names.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    load: LoadArgs,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Measure what callers notice of a home that moves.
    Moves(moves::Args),
    /// Measure bytes of memory and of disk, and how long a restart takes.
    Storage(storage::Args),
    /// Measure looks for due jobs, and dead letters beside other calls.
    Jobs(jobs::Args),
    /// Measure usage events in batches.
    Events(events::Args),
}

#[derive(Debug, clap::Args)]
struct LoadArgs {
    #[command(flatten)]
    callees: Callees,
    /// Start three nodes of this program for the measurement, and end them afterwards.
    #[arg(long)]
    spawn: bool,
    /// Into how many groups the nodes of `--spawn` divide the accounts.
    #[arg(long, default_value_t = 16, requires = "spawn")]
    shards: u16,
    /// Where the nodes of `--spawn` keep their data for the time; the system's folder for
    /// temporary files if left out. Its disk is part of what is measured.
    #[arg(long, value_name = "DIR", requires = "spawn")]
    data: Option<PathBuf>,
    /// Processes of the servers, whose CPU is to be counted.
    #[arg(long, value_name = "PID", value_delimiter = ',', conflicts_with = "spawn")]
    pids: Vec<u32>,
    /// How many workers there are, one measurement each.
    #[arg(long, value_delimiter = ',', default_value = "1,16,64,256")]
    concurrency: Vec<NonZeroU32>,
    /// How calls are spread over tenants, one measurement each.
    #[arg(long, value_delimiter = ',', value_enum, default_value = "uniform,zipf,hot")]
    spread: Vec<Spread>,
    /// How many tenants there are.
    #[arg(long, default_value = "20000")]
    tenants: NonZeroU32,
    /// How long each measurement takes.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 4,
        value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX),
    )]
    seconds: u64,
    /// How long each measurement is warmed up.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(..=SECONDS_MAX),
    )]
    warm: u64,
    /// Send so many operations in each request, as batches.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    batch: Option<u32>,
    /// So many pairs fall due in each second; as many as there can be if left out.
    #[arg(long, value_name = "PAIRS", conflicts_with = "batch")]
    rate: Option<NonZeroU32>,
}

/// Why a measurement could not be made.
#[derive(Debug, thiserror::Error)]
enum BenchError {
    /// The nodes could not be started.
    #[error("the nodes did not start")]
    Cluster(#[from] ClusterError),
    /// The tenants could not be set up.
    #[error("the tenants could not be set up")]
    Fund(#[from] FundError),
    /// The token cannot be sent.
    #[error(transparent)]
    Token(#[from] connection::InvalidToken),
    /// A server's figures could not be read.
    #[error("the servers' CPU could not be read")]
    Process(#[from] ProcessError),
    /// A task of this program ended by itself.
    #[error("a part of the measurement failed")]
    Task(#[from] tokio::task::JoinError),
}

/// Measures.
pub(crate) async fn run(args: Args, output: &Output) -> Result<(), CommandError> {
    match args.what {
        Some(What::Moves(args)) => moves::run(args, output).await,
        Some(What::Storage(args)) => storage::run(args, output).await,
        Some(What::Jobs(args)) => jobs::run(args, output).await,
        Some(What::Events(args)) => events::run(args, output).await,
        None => {
            let mut signals = StopSignals::listen()?;
            let results = tokio::select! {
                measured = measure(args.load, output) => measured?,
                // The nodes of `--spawn` end with the measurement, and must not outlive it.
                () = signals.next() => return Err(CommandError::Failed("stopped".to_owned())),
            };
            output.answer(&results, |results| table::render(results))?;
            check_measured(&results)
        }
    }
}

/// A measurement in which nothing ever worked is none.
fn check_measured(results: &[CellResult]) -> Result<(), CommandError> {
    let Some(failed) = results.iter().find(|result| result.authorize.count == 0) else {
        return Ok(());
    };
    let CellResult { spread, concurrency, first_error, .. } = failed;
    let why = first_error.as_deref().unwrap_or("no pair ended in time");
    Err(CommandError::Failed(format!("nothing was measured at {spread}, {concurrency}: {why}")))
}

impl From<BenchError> for CommandError {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::Fund(FundError::Undecided(undecided)) => {
                Self::unreached("the tenants could not be set up", undecided)
            }
            BenchError::Token(invalid) => Self::Usage(invalid.to_string()),
            error => Self::broken("nothing was measured", error),
        }
    }
}

async fn measure(args: LoadArgs, output: &Output) -> Result<Vec<CellResult>, BenchError> {
    let cluster = if args.spawn {
        output.note("starting three nodes");
        Some(SpawnedCluster::start(args.data.as_deref(), args.shards).await?)
    } else {
        None
    };
    let (addresses, token, pids) = match &cluster {
        Some(cluster) => (cluster.addresses(), cluster.token().to_owned(), cluster.pids()),
        None => (args.callees.url.clone(), args.callees.token.clone(), args.pids.clone()),
    };
    let authorization: HeaderValue = connection::bearer(&token)?;
    let target = Arc::new(Target { addresses, authorization, tenants: args.tenants.get() });
    fund::fund(&target, output).await?;

    let cells = grid(&args);
    let progress = output.progress("measurements", u64::try_from(cells.len()).ok());
    let mut results = Vec::new();
    for cell in cells {
        progress.detail(cell);
        results.push(cell::measure(&target, cell, &pids).await?);
        progress.advance(1);
    }
    progress.finish("done");
    drop(cluster);
    Ok(results)
}

fn grid(args: &LoadArgs) -> Vec<Cell> {
    let cell = |spread, concurrency| Cell {
        spread,
        concurrency,
        batch: args.batch,
        rate: args.rate,
        warm: Duration::from_secs(args.warm),
        measured: Duration::from_secs(args.seconds),
    };
    let concurrencies = |spread: &Spread| {
        let spread = *spread;
        args.concurrency.iter().map(move |concurrency| cell(spread, *concurrency))
    };
    args.spread.iter().flat_map(concurrencies).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        bench: Args,
    }

    #[test]
    fn the_grid_has_every_spread_at_every_concurrency() {
        let cli = Cli::try_parse_from(["bench", "--concurrency", "1,8", "--spread", "hot,zipf"]);
        let cells = grid(&cli.unwrap().bench.load);
        let names: Vec<String> = cells.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["hot, 1", "hot, 8", "zipf, 1", "zipf, 8"]);
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        for odd in [
            &["bench", "--spawn", "--pids", "1"][..],
            &["bench", "--data", "/tmp"],
            &["bench", "--batch", "10", "--rate", "5"],
            &["bench", "--batch", "1001"],
            &["bench", "--concurrency", "0"],
        ] {
            assert!(Cli::try_parse_from(odd).is_err(), "{odd:?}");
        }
    }
}
