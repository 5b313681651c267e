//! `purser bench jobs`: what a look for due jobs costs however many wait, and whether thousands of dead
//! letters that are listed, redriven and discarded hold up other calls.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use purser_api::paths;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::asking::{AskError, Asking, Whom, many};
use crate::failure::CommandError;
use crate::output::{Output, Progress};
use crate::replay::tally::{Quantiles, Waits};

/// How many calls that only prepare a measurement are under way at once.
const AT_ONCE: usize = 64;
/// How many looks for due jobs are timed, one after the other.
const LOOKS: u64 = 500;
/// How many dead letters an operator's program deals with at once.
const OPERATORS: usize = 8;

/// Measure looks for due jobs, and dead letters beside other calls.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    whom: Whom,
    /// How many jobs wait, one measurement each, each more than the last.
    #[arg(long, value_delimiter = ',', default_value = "0,1000,100000")]
    queued: Vec<u64>,
    /// How many dead letters are dealt with.
    #[arg(long, default_value_t = 10_000)]
    dead: u64,
    /// Over how many tenants the jobs are spread.
    #[arg(long, default_value = "1000")]
    tenants: NonZeroU32,
    /// How many callers charge other tenants meanwhile.
    #[arg(long, default_value = "4")]
    callers: NonZeroU32,
    /// How long those are measured alone, before.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 5,
        value_parser = clap::value_parser!(u64).range(1..=600),
    )]
    seconds: u64,
}

/// What was measured.
#[derive(Debug, Serialize)]
struct Measured {
    looks: Vec<Looks>,
    letters: Letters,
}

/// Looks for due jobs.
#[derive(Debug, Serialize)]
struct Looks {
    /// While so many waited.
    queued: u64,
    /// A look into a queue in which nothing is.
    empty: Quantiles,
    /// A look that takes one, which is an entry.
    taking: Option<Quantiles>,
}

/// Dead letters, and other calls meanwhile.
#[derive(Debug, Serialize)]
struct Letters {
    count: u64,
    /// Other calls, alone.
    alone: Quantiles,
    /// The whole list, again and again, and other calls meanwhile.
    listed: Beside,
    /// Half of the letters redriven.
    redriven: Beside,
    /// The other half discarded: shown, then confirmed.
    discarded: Beside,
}

/// Something that was done, and other calls meanwhile.
#[derive(Debug, Serialize)]
struct Beside {
    seconds: f64,
    calls: Quantiles,
}

/// Measures.
pub(crate) async fn run(args: Args, output: &Output) -> Result<(), CommandError> {
    let measured = measure(&args, output).await?;
    output.answer(&measured, Measured::render)?;
    Ok(())
}

async fn measure(args: &Args, output: &Output) -> Result<Measured, AskError> {
    let asking = Asking::new(&args.whom).await?;
    let tenants: Arc<[String]> = asking.open(args.tenants.get()).await?.into();
    let bench = Bench { asking, tenants };
    let letters = bench.letters(args, output).await?;
    let (mut looks, mut queued) = (Vec::new(), 0);
    for wanted in &args.queued {
        let more = wanted.saturating_sub(queued);
        let progress = output.progress("jobs queued", Some(more));
        bench.create("waiting", (queued, more), &progress).await?;
        progress.finish(more);
        queued = queued.max(*wanted);
        looks.push(bench.looks(queued).await?);
    }
    Ok(Measured { looks, letters })
}

/// What the measurements need.
#[derive(Clone)]
struct Bench {
    asking: Arc<Asking>,
    tenants: Arc<[String]>,
}

impl Bench {
    fn tenant(&self, number: u64) -> &str {
        let length = u64::try_from(self.tenants.len()).unwrap_or(u64::MAX);
        let place = number.checked_rem(length).and_then(|place| usize::try_from(place).ok());
        place.and_then(|place| self.tenants.get(place)).map_or("", String::as_str)
    }

    fn queue(&self, name: &str) -> String {
        format!("{}-{name}", self.asking.run)
    }

    /// Creates jobs for workers, numbered from `first` on.
    async fn create(
        &self,
        queue: &str,
        (first, count): (u64, u64),
        progress: &Progress,
    ) -> Result<(), AskError> {
        let create = |place| async move {
            let number = first + place;
            let job = format!("{queue}-{number}");
            let path = paths::fill(paths::JOBS, &[&self.tenant(number)]);
            let body = json!({
                "job_id": job, "amount": "1", "queue": self.queue(queue), "enqueue": true,
                "max_attempts": 1, "ttl_seconds": 604_800,
            });
            self.asking.change(&path, &format!("create-{job}"), &body).await?;
            progress.advance(1);
            Ok(())
        };
        many(count, AT_ONCE, create).await?;
        Ok(())
    }

    async fn lease(&self, queue: &str, max: u32) -> Result<Vec<Value>, AskError> {
        let body = json!({ "queue": self.queue(queue), "max": max, "lease_seconds": 3_600 });
        let mut answer = self.asking.change_unkeyed(paths::JOBS_LEASE, &body).await?;
        Ok(answer["jobs"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    async fn looks(&self, queued: u64) -> Result<Looks, AskError> {
        let look = |queue: &'static str| {
            move |_: u64| async move { self.lease(queue, 1).await.map(|_jobs| ()) }
        };
        let empty = many(LOOKS, 1, look("empty")).await?.quantiles();
        let taking =
            if queued > LOOKS { Some(many(LOOKS, 1, look("waiting")).await?) } else { None };
        Ok(Looks { queued, empty, taking: taking.map(|waits| waits.quantiles()) })
    }

    /// Makes dead letters, and deals with them beside other calls.
    async fn letters(&self, args: &Args, output: &Output) -> Result<Letters, AskError> {
        let progress = output.progress("dead letters", Some(args.dead));
        self.create("dead", (0, args.dead), &progress).await?;
        self.fail_all(args.dead).await?;
        progress.finish(args.dead);
        let callers = args.callers.get();
        let pause = Duration::from_secs(args.seconds);
        let alone = self.beside(callers, async {
            tokio::time::sleep(pause).await;
            Ok(())
        });
        let alone = alone.await?.calls;
        let listed = self.beside(callers, self.list(args.dead, pause)).await?;
        let half = args.dead / 2;
        let redriving = async { many(half, OPERATORS, |number| self.redrive(number)).await };
        let redriven = self.beside(callers, async { redriving.await.map(|_waits| ()) }).await?;
        let rest = args.dead.saturating_sub(half);
        let discarding = async { many(rest, OPERATORS, |it| self.discard(half + it)).await };
        let discarded = self.beside(callers, async { discarding.await.map(|_waits| ()) }).await?;
        Ok(Letters { count: args.dead, alone, listed, redriven, discarded })
    }

    /// Leases all jobs of the queue, and fails them for the only time that they may.
    async fn fail_all(&self, count: u64) -> Result<(), AskError> {
        let mut failed = 0;
        while failed < count {
            let jobs = self.lease("dead", 1_000).await?;
            let length = u64::try_from(jobs.len()).unwrap_or(u64::MAX);
            let fail = |place: u64| {
                let job = usize::try_from(place).ok().and_then(|place| jobs.get(place));
                let text = |name| job.and_then(|job| job[name].as_str()).unwrap_or_default();
                let (tenant, name, lease) = (text("tenant"), text("job_id"), text("lease"));
                let path = paths::fill(paths::JOB_OUTCOME, &[&tenant, &name]);
                let body = json!({ "outcome": "failed", "lease": lease });
                let key = format!("fail-{name}");
                async move { self.asking.change(&path, &key, &body).await.map(|_answer| ()) }
            };
            many(length, AT_ONCE, fail).await?;
            failed += length;
        }
        Ok(())
    }

    /// Reads the whole list, again and again, for a while.
    async fn list(&self, count: u64, during: Duration) -> Result<(), AskError> {
        let since = Instant::now();
        let first =
            format!("{}?limit=1000&queue={}", paths::ADMIN_DEAD_LETTERS, self.queue("dead"));
        while since.elapsed() < during {
            let (mut path, mut found) = (Some(first.clone()), 0);
            while let Some(page) = path.take() {
                let page = self.asking.read(&page).await?;
                found += page["items"].as_array().map_or(0, Vec::len);
                let cursor = page["next_cursor"].as_str();
                path = cursor.map(|cursor| format!("{first}&cursor={cursor}"));
            }
            if u64::try_from(found).is_ok_and(|found| found != count) {
                return Err(AskError::Unreadable { path: first });
            }
        }
        Ok(())
    }

    async fn redrive(&self, number: u64) -> Result<(), AskError> {
        let (tenant, job) = (self.tenant(number), format!("dead-{number}"));
        let path = paths::fill(paths::ADMIN_DEAD_LETTER_REDRIVE, &[&tenant, &job]);
        let body = json!({ "reason": "measured" });
        self.asking.change(&path, &format!("redrive-{job}"), &body).await?;
        Ok(())
    }

    async fn discard(&self, number: u64) -> Result<(), AskError> {
        let (tenant, job) = (self.tenant(number), format!("dead-{number}"));
        let path = paths::fill(paths::ADMIN_DEAD_LETTER_DISCARD, &[&tenant, &job]);
        let body = json!({ "reason": "measured", "dry_run": true });
        let shown = self.asking.change(&path, &format!("dry-{job}"), &body).await?;
        let body = json!({ "reason": "measured", "confirm": shown["confirm"] });
        self.asking.change(&path, &format!("discard-{job}"), &body).await?;
        Ok(())
    }

    /// Does something while callers charge other tenants, and tells how long those waited.
    async fn beside(
        &self,
        callers: u32,
        act: impl Future<Output = Result<(), AskError>>,
    ) -> Result<Beside, AskError> {
        let (mut calling, end) = (JoinSet::new(), CancellationToken::new());
        for caller in 0..callers {
            calling.spawn(charge(self.clone(), caller, end.clone()));
        }
        let since = Instant::now();
        act.await?;
        let seconds = since.elapsed().as_secs_f64();
        end.cancel();
        let mut waits = Waits::default();
        while let Some(ended) = calling.join_next().await {
            waits.merge(&ended??);
        }
        Ok(Beside { seconds, calls: waits.quantiles() })
    }
}

/// Charges one tenant after the other until `end`, and tells how long each charge took.
async fn charge(bench: Bench, caller: u32, end: CancellationToken) -> Result<Waits, AskError> {
    let (mut waits, began) = (Waits::default(), crate::replay::setup::wall_time().as_micros());
    let mut number = 0_u64;
    while !end.is_cancelled() {
        let path = paths::fill(paths::CHARGES, &[&bench.tenant(number * 7 + u64::from(caller))]);
        let since = Instant::now();
        let key = format!("charge-{began}-{caller}-{number}");
        bench.asking.change(&path, &key, &json!({ "amount": "1" })).await?;
        waits.add(since.elapsed());
        number += 1;
    }
    Ok(waits)
}

impl Measured {
    fn render(&self) -> String {
        let mut lines = Vec::new();
        for Looks { queued, empty, taking } in &self.looks {
            lines.push(format!("{queued} jobs wait: a look into an empty queue {empty}"));
            let taking = taking.map(|taking| format!("  a look that takes one: {taking}"));
            lines.extend(taking);
        }
        let Letters { count, alone, listed, redriven, discarded } = &self.letters;
        lines.push(format!("{count} dead letters; other calls alone: {alone}"));
        for (what, beside) in [
            ("listed again and again", listed),
            ("half of them redriven", redriven),
            ("the others discarded", discarded),
        ] {
            let Beside { seconds, calls } = beside;
            let ratio = |of: fn(&Quantiles) -> f64| of(calls) / of(alone).max(f64::EPSILON);
            let (middle, late) = (ratio(|it| it.p50_ms), ratio(|it| it.p99_ms));
            lines.push(format!(
                "  {what} in {seconds:.1} s: other calls {calls}; p50 × {middle:.1}, p99 × {late:.1}"
            ));
        }
        lines.join("\n")
    }
}
