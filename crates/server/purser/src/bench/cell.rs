//! One measurement: so many workers, one spread, for a few seconds.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::BenchError;
use super::process;
use super::worker::{self, Phase, Schedule, Shared, Target, Worked};
use crate::replay::random::Zipf;
use crate::replay::tally::{Quantiles, to_float};

/// How long a call may be on its way at the end of a measurement: longer than a node takes to give
/// up, and than a lost leader takes to be replaced.
const PATIENCE: Duration = Duration::from_secs(30);

/// How calls are spread over tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Spread {
    /// All are called equally often.
    Uniform,
    /// The n-th is called 1/n as often as the first.
    Zipf,
    /// One is called, and no other.
    Hot,
}

/// What is to be measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) spread: Spread,
    /// Workers.
    pub(crate) concurrency: NonZeroU32,
    /// Operations in a request, if they are sent as batches.
    pub(crate) batch: Option<u32>,
    /// Pairs that fall due in a second, if the loop is open.
    pub(crate) rate: Option<NonZeroU32>,
    /// How long to work before the measurement starts.
    pub(crate) warm: Duration,
    /// How long to measure.
    pub(crate) measured: Duration,
}

/// What was measured.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct CellResult {
    pub(crate) spread: Spread,
    pub(crate) concurrency: u32,
    pub(crate) batch: Option<u32>,
    pub(crate) rate: Option<u32>,
    pub(crate) pairs_per_second: f64,
    pub(crate) calls_per_second: f64,
    pub(crate) authorize: Quantiles,
    pub(crate) capture: Quantiles,
    /// CPU of all servers for each call, in microseconds, if their processes are known.
    pub(crate) server_micros_per_call: Option<f64>,
    /// Calls that did not do what they should.
    pub(crate) errors: u64,
    /// The first of them, in words.
    pub(crate) first_error: Option<String>,
}

impl fmt::Display for Cell {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}, {}", self.spread, self.concurrency)
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
            Self::Hot => "hot",
        })
    }
}

/// Measures one cell.
pub(crate) async fn measure(
    target: &Arc<Target>,
    cell: Cell,
    pids: &[u32],
) -> Result<CellResult, BenchError> {
    let shared = Arc::new(Shared::new(run_name(), picks(target, cell.spread), schedule(&cell)));
    let mut workers = JoinSet::new();
    for number in 0..cell.concurrency.get() {
        let (target, shared) = (Arc::clone(target), Arc::clone(&shared));
        workers.spawn(worker::work(target, shared, number, cell.batch));
    }
    sleep(cell.warm).await;
    let (start, cpu_before) = (Instant::now(), process::cpu(pids)?);
    shared.phase.store(Phase::MEASURE, Ordering::Relaxed);
    sleep(cell.measured).await;

    let mut worked = Worked::default();
    if shared.schedule.is_some() {
        // What fell due is still to be made. A service that is behind takes longer, and that counts.
        gather(&mut workers, &shared, &mut worked).await?;
    }
    shared.phase.store(Phase::STOP, Ordering::Relaxed);
    let (elapsed, cpu) = (start.elapsed(), process::cpu(pids)?.saturating_sub(cpu_before));
    gather(&mut workers, &shared, &mut worked).await?;
    if let Some(schedule) = &shared.schedule {
        let made = worked.pairs.saturating_add(worked.errors);
        let missed = schedule.measured_count().saturating_sub(made);
        if missed > 0 {
            worked.fail(missed, format_args!("{missed} pairs fell due and were never begun"));
        }
    }
    let cpu = (!pids.is_empty()).then_some(cpu);
    Ok(result(&cell, worked, elapsed, cpu))
}

/// Waits for all workers, but for [`PATIENCE`] only: what has not been answered by then is an error.
async fn gather(
    workers: &mut JoinSet<Worked>,
    shared: &Shared,
    worked: &mut Worked,
) -> Result<(), BenchError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match timeout_at(deadline, workers.join_next()).await {
            Ok(Some(ended)) => worked.merge(ended?),
            Ok(None) => return Ok(()),
            Err(_elapsed) => {
                shared.phase.store(Phase::STOP, Ordering::Relaxed);
                shared.give_up.cancel();
                while let Some(ended) = workers.join_next().await {
                    worked.merge(ended?);
                }
            }
        }
    }
}

/// The start of every key of one measurement: keys of different ones shall not meet.
fn run_name() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("b{:x}", now.as_micros())
}

fn picks(target: &Target, spread: Spread) -> Zipf {
    match spread {
        Spread::Uniform => Zipf::new(target.tenants, 0.0),
        Spread::Zipf => Zipf::new(target.tenants, 1.0),
        Spread::Hot => Zipf::new(1, 0.0),
    }
}

fn schedule(cell: &Cell) -> Option<Schedule> {
    let rate = cell.rate?;
    let every = Duration::from_secs(1) / rate.get();
    Some(Schedule::new(Instant::now(), every, cell.warm, cell.measured))
}

fn result(cell: &Cell, worked: Worked, elapsed: Duration, cpu: Option<Duration>) -> CellResult {
    let pairs = to_float(worked.pairs);
    let pairs_per_second = pairs / elapsed.as_secs_f64().max(f64::EPSILON);
    let micros_per_call = |cpu: Duration| cpu.as_secs_f64() * 1e6 / (pairs * 2.0).max(1.0);
    CellResult {
        spread: cell.spread,
        concurrency: cell.concurrency.get(),
        batch: cell.batch,
        rate: cell.rate.map(NonZeroU32::get),
        pairs_per_second,
        calls_per_second: pairs_per_second * 2.0,
        authorize: worked.authorize.quantiles(),
        capture: worked.capture.quantiles(),
        server_micros_per_call: cpu.map(micros_per_call),
        errors: worked.errors,
        first_error: worked.first_error,
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;
    use crate::replay::connection::Address;

    /// Where nobody listens every pair fails. All that fell due are told, and none is left out.
    #[tokio::test]
    async fn pairs_that_fell_due_and_failed_are_errors() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::of(listener.local_addr().unwrap());
        drop(listener);
        let authorization = HeaderValue::from_static("Bearer none");
        let target = Arc::new(Target { addresses: vec![address], authorization, tenants: 1 });
        let cell = Cell {
            spread: Spread::Hot,
            concurrency: NonZeroU32::MIN,
            batch: None,
            rate: NonZeroU32::new(100),
            warm: Duration::ZERO,
            measured: Duration::from_millis(100),
        };
        let result = measure(&target, cell, &[]).await.unwrap();
        assert_eq!((result.pairs_per_second, result.errors), (0.0, 10));
        assert_eq!(result.first_error.as_deref(), Some("could not connect"));
    }
}
