//! The open loop: every job starts when it is due, however the service is doing.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, interval, sleep_until};

use super::ReplayError;
use super::cuts::{Cut, CutMade, Cuts};
use super::desk::Desk;
use super::outage::{LeaderKill, Outage};
use super::plan::Plan;
use super::story;
use super::tally::{Counts, to_float};
use crate::output::Progress;

/// How often the words beside the progress change.
const TELL_EVERY: Duration = Duration::from_millis(500);

/// What a run of the jobs came to.
#[derive(Debug)]
pub(crate) struct Driven {
    /// From the first job's start to the last one's end.
    pub(crate) took: Duration,
    /// The outage that was made on purpose.
    pub(crate) outage: Option<Outage>,
    /// The regions that were cut off on purpose.
    pub(crate) cuts: Vec<CutMade>,
}

/// What is broken on purpose on the way.
#[derive(Clone, Default)]
pub(crate) struct Faults {
    /// A leader that is killed.
    pub(crate) kill: Option<LeaderKill>,
    /// Regions that are cut off.
    pub(crate) cuts: Option<Cuts>,
}

/// Something that is due.
#[derive(Debug, Clone, Copy)]
enum Due {
    Job(usize),
    TopUp(usize),
    Kill,
    Cut(Cut),
}

/// What ended.
enum Ended {
    Job,
    Other,
    Kill(Result<Outage, ReplayError>),
    Cut(Result<CutMade, ReplayError>),
}

/// Runs all jobs of a plan, and breaks on the way what is to be broken.
pub(crate) async fn drive(
    desk: &Arc<Desk>,
    plan: &Arc<Plan>,
    faults: &Faults,
    progress: &Progress,
) -> Result<Driven, ReplayError> {
    let (start, decided_before) = (Instant::now(), decided_count(desk));
    let tell = || tell(desk, start, decided_before, progress);
    let mut running: JoinSet<Ended> = JoinSet::new();
    let (mut outage, mut cuts) = (None, Vec::new());
    let mut ticks = interval(TELL_EVERY);
    let mut end = |ended: Result<Ended, JoinError>| -> Result<(), ReplayError> {
        match ended.map_err(ReplayError::Task)? {
            Ended::Job => progress.advance(1),
            Ended::Other => (),
            Ended::Kill(killed) => outage = Some(killed?),
            Ended::Cut(cut) => cuts.push(cut?),
        }
        Ok(())
    };
    for (due, what) in agenda(plan, faults) {
        let due = start + due;
        loop {
            tokio::select! {
                biased;
                () = sleep_until(due) => break,
                Some(ended) = running.join_next() => end(ended)?,
                _ = ticks.tick() => tell(),
            }
        }
        running.spawn(task(Arc::clone(desk), Arc::clone(plan), faults.clone(), what, due));
    }
    while !running.is_empty() {
        tokio::select! {
            Some(ended) = running.join_next() => end(ended)?,
            _ = ticks.tick() => tell(),
        }
    }
    Ok(Driven { took: start.elapsed(), outage, cuts })
}

/// Everything by the time it is due, from the start on.
fn agenda(plan: &Plan, faults: &Faults) -> Vec<(Duration, Due)> {
    let jobs = plan.jobs.iter().enumerate().map(|(place, job)| (job.due, Due::Job(place)));
    let top_ups = plan.top_ups.iter().enumerate().map(|(place, it)| (it.due, Due::TopUp(place)));
    let kill = faults.kill.iter().map(|kill| (kill.at.of(plan.length), Due::Kill));
    let cuts = faults.cuts.iter().flat_map(|cuts| &cuts.list);
    let cuts = cuts.map(|cut| (cut.from, Due::Cut(*cut)));
    let mut agenda: Vec<_> = jobs.chain(top_ups).chain(kill).chain(cuts).collect();
    agenda.sort_by_key(|(due, _)| *due);
    agenda
}

async fn task(desk: Arc<Desk>, plan: Arc<Plan>, faults: Faults, what: Due, due: Instant) -> Ended {
    let tally = desk.caller().tally();
    match what {
        Due::Job(place) => {
            story::tell(&desk, place, &plan.jobs[place], due).await;
            Ended::Job
        }
        Due::TopUp(place) => {
            story::top_up(&desk, place, plan.top_ups[place], due).await;
            Ended::Other
        }
        Due::Kill => match faults.kill {
            Some(kill) => Ended::Kill(kill.carry_out(tally).await),
            None => Ended::Other,
        },
        Due::Cut(cut) => {
            let place = desk.spread().and_then(|spread| spread.place_of(&cut.region));
            match (faults.cuts, place) {
                (Some(cuts), Some(place)) => Ended::Cut(cuts.make(cut, place, &desk).await),
                (None, _) | (_, None) => Ended::Other,
            }
        }
    }
}

fn decided_count(desk: &Desk) -> u64 {
    desk.caller().tally().lock().decided_count()
}

fn tell(desk: &Desk, start: Instant, decided_before: u64, progress: &Progress) {
    let counts = desk.caller().tally().lock();
    let decided = counts.decided_count().saturating_sub(decided_before);
    let rate = per_second(decided, start.elapsed());
    progress.detail(words(&counts, rate));
}

/// The words beside the progress.
fn words(counts: &Counts, calls_per_second: f64) -> String {
    let authorize = counts.authorize.quantiles();
    format!(
        "{calls_per_second:.0} calls/s, {} refused, {} retries, authorize p50 {:.1} ms, p99 {:.1} ms",
        counts.refused_count(),
        counts.retried_count(),
        authorize.p50_ms,
        authorize.p99_ms
    )
}

/// So many, as a rate.
pub(crate) fn per_second(count: u64, elapsed: Duration) -> f64 {
    to_float(count) / elapsed.as_secs_f64().max(f64::EPSILON)
}
