//! `purser bench events`: how many usage events a second are counted, by the size of their batches.

use std::num::NonZeroU32;
use std::sync::Arc;

use purser_api::paths;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::asking::{AskError, Asking, Whom, many};
use crate::failure::CommandError;
use crate::output::Output;
use crate::replay::drive::per_second;
use crate::replay::tally::Quantiles;

/// Measure usage events in batches.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    whom: Whom,
    /// How many events a batch has, one measurement each.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1,100,1000",
        value_parser = clap::value_parser!(u32).range(1..=1_000),
    )]
    batch: Vec<u32>,
    /// How many batches are under way at once.
    #[arg(long, default_value = "8")]
    senders: NonZeroU32,
    /// How many events are sent in each measurement.
    #[arg(long, default_value = "100000")]
    events: NonZeroU32,
    /// Over how many tenants they are spread.
    #[arg(long, default_value = "1000")]
    tenants: NonZeroU32,
}

/// One measurement.
#[derive(Debug, Serialize)]
struct Measured {
    batch: u32,
    events_per_second: f64,
    /// Of a whole batch.
    call: Quantiles,
}

/// Measures.
pub(crate) async fn run(args: Args, output: &Output) -> Result<(), CommandError> {
    let measured = measure(&args).await?;
    output.answer(&measured, |measured| {
        let line = |Measured { batch, events_per_second, call }: &Measured| {
            format!("{batch:>5} in a batch: {events_per_second:>8.0} events/s, a batch {call}")
        };
        measured.iter().map(line).collect::<Vec<_>>().join("\n")
    })?;
    Ok(())
}

async fn measure(args: &Args) -> Result<Vec<Measured>, AskError> {
    let asking = Asking::new(&args.whom).await?;
    let tenants: Arc<[String]> = asking.open(args.tenants.get()).await?.into();
    let at_once = usize::try_from(args.senders.get()).unwrap_or(usize::MAX);
    let mut measured = Vec::new();
    for batch in &args.batch {
        let (size, since) = (u64::from(*batch), Instant::now());
        let batches = u64::from(args.events.get()).div_ceil(size);
        let send = |number: u64| {
            let bodies: Vec<Value> = (0..size)
                .map(|place| event(&asking.run, (*batch, number * size + place), &tenants))
                .collect();
            send_one(Arc::clone(&asking), Value::Array(bodies))
        };
        let waits = many(batches, at_once, send).await?;
        let events_per_second = per_second(batches * size, since.elapsed());
        measured.push(Measured { batch: *batch, events_per_second, call: waits.quantiles() });
    }
    Ok(measured)
}

/// An event of its own: no other one of the run has its id.
fn event(run: &str, (batch, number): (u32, u64), tenants: &[String]) -> Value {
    let length = u64::try_from(tenants.len()).unwrap_or(u64::MAX);
    let place = number.checked_rem(length).and_then(|place| usize::try_from(place).ok());
    json!({
        "specversion": "1.0",
        "source": format!("/bench/{run}"),
        "id": format!("{batch}-{number}"),
        "type": "used",
        "subject": place.and_then(|place| tenants.get(place)),
        "data": { "amount": "1" },
    })
}

/// Sends a batch, all of which must count.
async fn send_one(asking: Arc<Asking>, body: Value) -> Result<(), AskError> {
    let answer = asking.change_unkeyed(paths::EVENTS, &body).await?;
    let verdicts = answer["verdicts"].as_array().map(Vec::as_slice).unwrap_or_default();
    // A batch that had to be sent again was counted before.
    let counts = |verdict: &Value| verdict == "applied" || verdict == "duplicate";
    if !verdicts.is_empty() && verdicts.iter().all(|it| counts(&it["verdict"])) {
        return Ok(());
    }
    Err(AskError::Unreadable { path: paths::EVENTS.to_owned() })
}
