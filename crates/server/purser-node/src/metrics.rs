//! Every metric of this crate: its name, its labels, its meaning.
//!
//! Labels come from enums, from the number of the node and from the numbers of its groups, so the
//! number of series is known when the cluster is; a tenant is never a label. Handles are made once,
//! when the node starts: recording is an addition, not a look-up.

mod groups;
#[cfg(test)]
mod listing;
mod regions;
mod verification;
mod webhooks;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use purser_api::VerdictKind;
use purser_ledger::{Account, Overspend};
use purser_raft::{GroupId, GroupStatus, HostStatus, NodeId};
use purser_types::{Credits, LogTime, Region};

use self::groups::GroupMetrics;
pub(crate) use self::regions::{AskKind, HomeAct, RegionMetrics, SpendMetrics, SpendOutcome};
pub(crate) use self::verification::record_verification;
pub(crate) use self::webhooks::WebhookMetrics;
use crate::http::Operation;
use crate::regions::AwayTotals;

const BUILD_INFO: &str = "purser_build_info";
const REQUESTS: &str = "purser_requests_total";
const REQUEST_SECONDS: &str = "purser_request_duration_seconds";
const REPLAYS: &str = "purser_replays_total";
const LATE_CAPTURES: &str = "purser_late_captures_total";
const EVENTS: &str = "purser_usage_events_total";
const DEBT_ADDED: &str = "purser_debt_added_credits_total";
const CONNECTIONS: &str = "purser_connections_open";
const ACCOUNTS: &str = "purser_accounts";
const HOLDS_OPEN: &str = "purser_holds_open";
const JOBS_OPEN: &str = "purser_jobs_open";
const JOBS_DEAD: &str = "purser_jobs_dead";
const EVENTS_PARKED: &str = "purser_usage_events_parked";
const WAL_SYNCS: &str = "purser_wal_syncs_total";
const WAL_RECORDS: &str = "purser_wal_records_total";
const WAL_BYTES: &str = "purser_wal_written_bytes_total";
const WAL_BATCH_MAX: &str = "purser_wal_batch_records_max";
const WAL_BUSY: &str = "purser_wal_busy_milliseconds_total";
const PEERS_CONNECTED: &str = "purser_peers_connected";
const CLOCK_OFFSET: &str = "purser_clock_offset_max_seconds";

/// From a quarter of a millisecond, which is one sync of a fast disk, to the request's deadline.
const DURATION_BUCKETS: [f64; 14] = [
    0.000_25, 0.000_5, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 1.0, 4.0,
    10.0,
];

/// Collects what the process records and writes it in the format of Prometheus.
#[derive(Clone)]
pub struct Recorder(PrometheusHandle);

/// There is a recorder in this process already.
#[derive(Debug, thiserror::Error)]
#[error("the metrics recorder could not be installed")]
pub struct RecorderError(#[from] BuildError);

impl Recorder {
    /// Makes the process's recorder. Once a process; all its nodes share it.
    pub fn install() -> Result<Self, RecorderError> {
        let durations = Matcher::Full(REQUEST_SECONDS.to_owned());
        let builder = PrometheusBuilder::new();
        let builder = builder.set_buckets_for_metric(durations, &DURATION_BUCKETS)?;
        let handle = builder.install_recorder()?;
        describe();
        Ok(Self(handle))
    }

    /// Everything recorded so far.
    pub fn render(&self) -> String {
        self.0.render()
    }

    /// Makes room for what will be recorded. Called regularly; without it memory grows.
    pub(crate) fn upkeep(&self) {
        self.0.run_upkeep();
    }
}

/// Tells the recorder what the names mean.
fn describe() {
    describe_gauge!(BUILD_INFO, "1, with the release as a label");
    describe_counter!(REQUESTS, Unit::Count, "Requests answered, by operation and outcome");
    describe_histogram!(
        REQUEST_SECONDS,
        Unit::Seconds,
        "Time from a request's headers to its answer, by operation"
    );
    describe_counter!(REPLAYS, Unit::Count, "Requests decided before under the same key");
    describe_counter!(LATE_CAPTURES, Unit::Count, "Captures of holds that had expired");
    describe_counter!(EVENTS, Unit::Count, "Usage events decided here, by verdict");
    describe_counter!(DEBT_ADDED, Unit::Count, "Credits that became debt");
    describe_gauge!(CONNECTIONS, Unit::Count, "Open connections of callers");
    describe_gauge!(ACCOUNTS, Unit::Count, "Accounts in the groups that this node leads");
    describe_gauge!(HOLDS_OPEN, Unit::Count, "Open holds in the groups that this node leads");
    describe_gauge!(
        JOBS_OPEN,
        Unit::Count,
        "Jobs that are queued or leased in the groups that this node leads"
    );
    describe_gauge!(JOBS_DEAD, Unit::Count, "Dead letters in the groups that this node leads");
    describe_gauge!(
        EVENTS_PARKED,
        Unit::Count,
        "Usage events that wait for people in the groups that this node leads"
    );
    groups::describe();
    describe_log();
    regions::describe();
    webhooks::describe();
    verification::describe();
}

fn describe_log() {
    describe_counter!(WAL_SYNCS, Unit::Count, "Times that the log was synced to disk");
    describe_counter!(WAL_RECORDS, Unit::Count, "Records made durable");
    describe_counter!(WAL_BYTES, Unit::Bytes, "Bytes written to the log");
    describe_gauge!(WAL_BATCH_MAX, Unit::Count, "The most records that one sync made durable");
    describe_counter!(WAL_BUSY, Unit::Milliseconds, "Time spent in writing and syncing");
    describe_gauge!(PEERS_CONNECTED, Unit::Count, "Other nodes with a connection");
    describe_gauge!(
        CLOCK_OFFSET,
        Unit::Seconds,
        "The furthest that another node's clock is away from this node's"
    );
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestOutcome {
    /// Done.
    Done,
    /// The ledger said no.
    Refused,
    /// It could not be read.
    Invalid,
    /// The token did not allow it.
    Denied,
    /// Nothing happened, for reasons of the service.
    Unavailable,
    /// What happened is not known.
    Unknown,
    /// The service failed.
    Failed,
    /// Another node answered it.
    Relayed,
}

impl RequestOutcome {
    const fn label(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
            Self::Invalid => "invalid",
            Self::Denied => "denied",
            Self::Unavailable => "unavailable",
            Self::Unknown => "unknown",
            Self::Failed => "failed",
            Self::Relayed => "relayed",
        }
    }

    /// The outcome of a request that was answered here with `status`.
    pub(crate) const fn of_status(status: u16) -> Self {
        match status {
            ..400 => Self::Done,
            400 | 405 | 408 | 413 | 415 => Self::Invalid,
            401 | 403 => Self::Denied,
            429 | 503 => Self::Unavailable,
            504 => Self::Unknown,
            500.. => Self::Failed,
            402 | 404 | 406 | 407 | 409..=412 | 414 | 416..=428 | 430..=499 => Self::Refused,
        }
    }
}

/// What one operation records.
pub(crate) struct OperationMetrics {
    done: Counter,
    refused: Counter,
    invalid: Counter,
    denied: Counter,
    unavailable: Counter,
    unknown: Counter,
    failed: Counter,
    relayed: Counter,
    seconds: Histogram,
    replays: Counter,
}

impl OperationMetrics {
    /// Counts one answered request.
    pub(crate) fn record_request(&self, outcome: RequestOutcome, elapsed: Duration) {
        let counter = match outcome {
            RequestOutcome::Done => &self.done,
            RequestOutcome::Refused => &self.refused,
            RequestOutcome::Invalid => &self.invalid,
            RequestOutcome::Denied => &self.denied,
            RequestOutcome::Unavailable => &self.unavailable,
            RequestOutcome::Unknown => &self.unknown,
            RequestOutcome::Failed => &self.failed,
            RequestOutcome::Relayed => &self.relayed,
        };
        counter.increment(1);
        self.seconds.record(elapsed);
    }

    /// Counts one answer that was decided before.
    pub(crate) fn record_replay(&self) {
        self.replays.increment(1);
    }
}

/// What one node records.
pub(crate) struct NodeMetrics {
    node: String,
    late_captures: Counter,
    debt_added: Counter,
    events: BTreeMap<VerdictKind, Counter>,
    connections: Gauge,
    accounts: Gauge,
    holds_open: Gauge,
    jobs_open: Gauge,
    jobs_dead: Gauge,
    events_parked: Gauge,
    spends: SpendMetrics,
    groups: Mutex<BTreeMap<GroupId, GroupMetrics>>,
}

impl NodeMetrics {
    /// The handles of a node.
    pub(crate) fn new(node: NodeId) -> Self {
        let node = node.to_string();
        let release = env!("CARGO_PKG_VERSION");
        gauge!(BUILD_INFO, "node" => node.clone(), "release" => release).set(1.0);
        Self {
            late_captures: counter!(LATE_CAPTURES, "node" => node.clone()),
            events: VerdictKind::ALL
                .iter()
                .map(|it| (*it, counter!(EVENTS, "node" => node.clone(), "verdict" => it.name())))
                .collect(),
            debt_added: counter!(DEBT_ADDED, "node" => node.clone()),
            connections: gauge!(CONNECTIONS, "node" => node.clone()),
            accounts: gauge!(ACCOUNTS, "node" => node.clone()),
            holds_open: gauge!(HOLDS_OPEN, "node" => node.clone()),
            jobs_open: gauge!(JOBS_OPEN, "node" => node.clone()),
            jobs_dead: gauge!(JOBS_DEAD, "node" => node.clone()),
            events_parked: gauge!(EVENTS_PARKED, "node" => node.clone()),
            spends: SpendMetrics::new(&node),
            groups: Mutex::default(),
            node,
        }
    }

    /// The handles of an operation.
    pub(crate) fn operation(&self, operation: Operation) -> OperationMetrics {
        let name = operation.name();
        let of = |outcome: RequestOutcome| {
            let node = self.node.clone();
            counter!(REQUESTS, "node" => node, "operation" => name, "outcome" => outcome.label())
        };
        OperationMetrics {
            done: of(RequestOutcome::Done),
            refused: of(RequestOutcome::Refused),
            invalid: of(RequestOutcome::Invalid),
            denied: of(RequestOutcome::Denied),
            unavailable: of(RequestOutcome::Unavailable),
            unknown: of(RequestOutcome::Unknown),
            failed: of(RequestOutcome::Failed),
            relayed: of(RequestOutcome::Relayed),
            seconds: histogram!(REQUEST_SECONDS, "node" => self.node.clone(), "operation" => name),
            replays: counter!(REPLAYS, "node" => self.node.clone(), "operation" => name),
        }
    }

    /// Counts a capture of an expired hold.
    pub(crate) fn record_late_capture(&self) {
        self.late_captures.increment(1);
    }

    /// Counts a usage event.
    pub(crate) fn record_event(&self, verdict: VerdictKind) {
        if let Some(events) = self.events.get(&verdict) {
            events.increment(1);
        }
    }

    /// Counts credits that became debt.
    pub(crate) fn record_debt_added(&self, amount: Credits) {
        if !amount.is_zero() {
            self.debt_added.increment(amount.get());
        }
    }

    /// Counts a connection until the answer is dropped.
    pub(crate) fn connection(&self) -> ConnectionCount {
        self.connections.increment(1);
        ConnectionCount(self.connections.clone())
    }

    /// Shows the sizes of the ledgers that this node leads.
    pub(crate) fn record_ledgers(&self, sizes: LedgerSizes) {
        self.accounts.set(float(sizes.accounts));
        self.holds_open.set(float(sizes.holds));
        self.jobs_open.set(float(sizes.jobs.saturating_sub(sizes.dead_jobs)));
        self.jobs_dead.set(float(sizes.dead_jobs));
        self.events_parked.set(float(sizes.parked_events));
    }

    /// Counts what becomes of spends whose account's home is elsewhere.
    pub(crate) const fn spends(&self) -> &SpendMetrics {
        &self.spends
    }

    /// Shows what the ledgers that this node leads have out in regions, whether each of these can be
    /// reached, and what may be overspent.
    pub(crate) fn record_away(
        &self,
        overspends: impl Iterator<Item = Overspend>,
        away: &BTreeMap<Region, (AwayTotals, bool)>,
    ) {
        regions::record_away(&self.node, overspends, away);
    }

    /// The handles of a webhook in one shard.
    pub(crate) fn webhook(&self, webhook: &str, shard: u32) -> WebhookMetrics {
        WebhookMetrics::new(&self.node, webhook, shard)
    }

    /// Shows a group's status.
    pub(crate) fn record_group(&self, group: GroupId, status: &GroupStatus, now: LogTime) {
        let mut groups = self.groups.lock().expect("nothing that holds this lock can panic");
        let metrics = groups.entry(group).or_insert_with(|| GroupMetrics::new(&self.node, group));
        metrics.record(status, now);
    }

    /// Shows the node's log and its connections.
    pub(crate) fn record_host(&self, status: &HostStatus) {
        const MICROS_PER_MILLI: u64 = 1_000;
        const MICROS_PER_SECOND: f64 = 1_000_000.0;
        let node = || self.node.clone();
        counter!(WAL_SYNCS, "node" => node()).absolute(status.wal_syncs);
        counter!(WAL_RECORDS, "node" => node()).absolute(status.wal_records);
        counter!(WAL_BYTES, "node" => node()).absolute(status.wal_bytes);
        let busy = status.wal_busy_micros / MICROS_PER_MILLI;
        counter!(WAL_BUSY, "node" => node()).absolute(busy);
        gauge!(WAL_BATCH_MAX, "node" => node()).set(float(status.wal_batch_records_max));
        gauge!(PEERS_CONNECTED, "node" => node()).set(float(status.connected.len()));
        let offsets = status.clock_offset_micros.values().map(|offset| offset.unsigned_abs());
        let furthest = float(offsets.max().unwrap_or(0)) / MICROS_PER_SECOND;
        gauge!(CLOCK_OFFSET, "node" => node()).set(furthest);
    }
}

/// How much there is in ledgers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LedgerSizes {
    /// Accounts of all kinds.
    pub(crate) accounts: usize,
    holds: usize,
    /// Jobs that have not ended, the dead ones among them.
    jobs: usize,
    dead_jobs: usize,
    parked_events: usize,
}

impl LedgerSizes {
    /// Adds what an account has.
    pub(crate) fn add(&mut self, account: &Account) {
        self.holds = self.holds.saturating_add(account.holds_count());
        self.jobs = self.jobs.saturating_add(account.jobs_count());
        self.dead_jobs = self.dead_jobs.saturating_add(account.dead_jobs_count());
        self.parked_events = self.parked_events.saturating_add(account.parked_events_count());
    }
}

/// Counts one connection down when it is dropped.
pub(crate) struct ConnectionCount(Gauge);

impl Drop for ConnectionCount {
    fn drop(&mut self) {
        self.0.decrement(1);
    }
}

const fn flag(set: bool) -> f64 {
    if set { 1.0 } else { 0.0 }
}

/// A gauge's value. Gauges are floating-point; beyond 2^53 the last digits are rounded, which no
/// chart shows.
#[expect(clippy::cast_precision_loss, reason = "rounding is meant, see above")]
fn float(number: impl TryInto<u64>) -> f64 {
    number.try_into().map_or(f64::MAX, |number: u64| number as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_an_outcome() {
        let outcome = RequestOutcome::of_status;
        assert_eq!([200, 201, 302].map(outcome), [RequestOutcome::Done; 3]);
        assert_eq!([402, 404, 409, 422].map(outcome), [RequestOutcome::Refused; 4]);
        assert_eq!([400, 405, 408, 413, 415].map(outcome), [RequestOutcome::Invalid; 5]);
        assert_eq!([429, 503].map(outcome), [RequestOutcome::Unavailable; 2]);
        assert_eq!(outcome(504), RequestOutcome::Unknown);
        assert_eq!(outcome(500), RequestOutcome::Failed);
    }
}
