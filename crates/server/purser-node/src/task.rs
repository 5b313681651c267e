//! The node's background tasks: watching consensus, writing down due events, publishing numbers.
//!
//! Tasks take no input and are idempotent: a run after a crash or a missed tick is the same as any
//! other. A failed run is not retried; the next tick is the retry.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::select_all;
use purser_ledger::{Answer, Command, Ledger, codec};
use purser_raft::{Group, Host, ProposeError, StopReason};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::http::Api;
use crate::metrics::LedgerSizes;

/// Ends when a group or the whole host has stopped, with the reason.
pub(crate) async fn watch_consensus(
    host: Host,
    groups: Vec<Group<Ledger>>,
    stopping: CancellationToken,
) -> Result<(), StopReason> {
    let stops = groups.iter().map(|group| Box::pin(group.stopped()));
    tokio::select! {
        biased;
        () = stopping.cancelled() => Ok(()),
        reason = host.failed() => Err(reason),
        (reason, ..) = select_all(stops) => Err(reason),
    }
}

/// How many accounts one sweep looks at: a few milliseconds of work, so that callers hardly wait.
const SWEEP_ACCOUNTS_MAX: u32 = 256;

/// How long a sweep may take before it counts as failed.
const SWEEP_PATIENCE: Duration = Duration::from_secs(10);

/// Writes down what has become due in one group, until shutdown.
///
/// Runs on every node; only the leader proposes. Decisions never depend on it.
pub(crate) async fn sweep(
    group: Group<Ledger>,
    period: Duration,
    stopping: CancellationToken,
) -> Result<(), StopReason> {
    let sweep = codec::encode(&Command::Sweep { accounts_max: SWEEP_ACCOUNTS_MAX });
    let sweep = Bytes::from(sweep);
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            // Shutdown first: a node with a backlog must still stop.
            biased;
            () = stopping.cancelled() => return Ok(()),
            _ = ticks.tick() => (),
        }
        while group.is_leading() && is_due(&group) && !stopping.is_cancelled() {
            match group.propose(sweep.clone(), Instant::now() + SWEEP_PATIENCE).await {
                Ok(Answer::Swept { accounts }) => tracing::trace!(accounts, "swept"),
                Ok(
                    Answer::Account(_)
                    | Answer::PassedOn(_)
                    | Answer::Move(_)
                    | Answer::Life(_)
                    | Answer::Leased(_)
                    | Answer::Sink(_),
                ) => (),
                Err(ProposeError::NotLeader { .. } | ProposeError::Stopped) => break,
                Err(error) => {
                    tracing::warn!(group = %group.id(), error = %error, "sweep failed");
                    break;
                }
            }
        }
    }
}

fn is_due(group: &Group<Ledger>) -> bool {
    let now = group.now();
    group.view(|ledger, _| ledger.next_due()).is_some_and(|due| due <= now)
}

/// How often a router makes room for what will be recorded.
const UPKEEP_PERIOD: Duration = Duration::from_secs(15);

/// Makes room for what a router records, until shutdown.
pub(crate) async fn keep_up(
    api: Arc<Api>,
    stopping: CancellationToken,
) -> Result<(), std::convert::Infallible> {
    let mut ticks = tokio::time::interval(UPKEEP_PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = stopping.cancelled() => return Ok(()),
            _ = ticks.tick() => (),
        }
        if let Some(recorder) = api.recorder() {
            recorder.upkeep();
        }
    }
}

/// How often numbers are published.
const STATS_PERIOD: Duration = Duration::from_secs(1);

/// Every so many publications the ledgers are counted too, which looks at every account.
const LEDGERS_EVERY: u32 = 15;

/// Every so many publications it is summed up what is out in regions: a step for each allocation.
const AWAY_EVERY: u32 = 5;

/// Publishes the status of the host and the groups as metrics, until shutdown.
pub(crate) async fn publish_stats(
    host: Host,
    api: Arc<Api>,
    stopping: CancellationToken,
) -> Result<(), StopReason> {
    let mut ticks = tokio::time::interval(STATS_PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut turn = 0_u32;
    loop {
        tokio::select! {
            biased;
            () = stopping.cancelled() => return Ok(()),
            _ = ticks.tick() => (),
        }
        api.metrics().record_host(&host.status());
        for group in api.groups().all() {
            api.metrics().record_group(group.id(), &group.status(), group.now());
        }
        for group in api.regions().map(|regions| regions.following()).unwrap_or_default() {
            api.metrics().record_group(group.id(), &group.status(), group.now());
        }
        if turn.is_multiple_of(AWAY_EVERY) && api.regions().is_some() {
            let api = Arc::clone(&api);
            if tokio::task::spawn_blocking(move || sum_up_away(&api)).await.is_err() {
                tracing::warn!("what is out in regions could not be summed up");
            }
        }
        if turn.is_multiple_of(LEDGERS_EVERY) {
            let api = Arc::clone(&api);
            // On a thread that may take its time: there may be a million accounts.
            if tokio::task::spawn_blocking(move || count_ledgers(&api)).await.is_err() {
                tracing::warn!("the ledgers could not be counted");
            }
        }
        turn = turn.wrapping_add(1);
    }
}

/// Shows what the groups that this node leads have out in regions, and what may be overspent.
fn sum_up_away(api: &Api) {
    let Some(regions) = api.regions() else { return };
    let led = api.groups().all().iter().filter(|group| group.is_leading());
    let overspends = led.map(|group| group.machine().overspend());
    let reach = |(region, totals)| (region, (totals, regions.links().is_reachable(region)));
    let away = regions.totals().into_iter().map(reach).collect();
    api.metrics().record_away(overspends, &away);
}

fn count_ledgers(api: &Api) {
    let mut sizes = LedgerSizes::default();
    for group in api.groups().all().iter().filter(|group| group.is_leading()) {
        let ledger = group.machine();
        sizes.accounts = sizes.accounts.saturating_add(ledger.accounts_count());
        let all = ledger.accounts_from(std::ops::Bound::Unbounded);
        all.for_each(|account| sizes.add(account));
    }
    api.metrics().record_ledgers(sizes);
    if let Some(recorder) = api.recorder() {
        recorder.upkeep();
    }
}
