//! Every metric of this crate: its name, its labels, its meaning.
//!
//! Labels come from enums, from the number of the node and from the numbers of its groups, so the
//! number of series is known when the cluster is; a tenant is never a label. Handles are made once,
//! when the node starts: recording is an addition, not a look-up.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use purser_raft::{GroupId, GroupStatus, HostStatus, NodeId, Role};
use purser_types::{Credits, LogTime};

use crate::http::Operation;

const BUILD_INFO: &str = "purser_build_info";
const REQUESTS: &str = "purser_requests_total";
const REQUEST_SECONDS: &str = "purser_request_duration_seconds";
const REPLAYS: &str = "purser_replays_total";
const LATE_CAPTURES: &str = "purser_late_captures_total";
const DEBT_ADDED: &str = "purser_debt_added_credits_total";
const CONNECTIONS: &str = "purser_connections_open";
const ACCOUNTS: &str = "purser_accounts";
const HOLDS_OPEN: &str = "purser_holds_open";
const RAFT_HAS_LEADER: &str = "purser_raft_has_leader";
const RAFT_IS_LEADER: &str = "purser_raft_is_leader";
const RAFT_LEADER_CHANGES: &str = "purser_raft_leader_changes_total";
const RAFT_COMMIT_LAG: &str = "purser_raft_commit_lag_entries";
const RAFT_APPLY_LAG: &str = "purser_raft_apply_lag_entries";
const RAFT_LOG_BYTES: &str = "purser_raft_log_bytes";
const RAFT_HISTORY_BYTES: &str = "purser_raft_history_bytes";
const RAFT_SNAPSHOT_AGE: &str = "purser_raft_snapshot_age_seconds";
const RAFT_QUEUED: &str = "purser_raft_queued_commands";
const RAFT_COMMANDS: &str = "purser_raft_proposed_commands_total";
const RAFT_ENTRIES: &str = "purser_raft_proposed_entries_total";
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
    describe_counter!(DEBT_ADDED, Unit::Count, "Credits that became debt");
    describe_gauge!(CONNECTIONS, Unit::Count, "Open connections of callers");
    describe_gauge!(ACCOUNTS, Unit::Count, "Accounts in the groups that this node leads");
    describe_gauge!(HOLDS_OPEN, Unit::Count, "Open holds in the groups that this node leads");
    describe_groups();
    describe_log();
}

fn describe_groups() {
    describe_gauge!(RAFT_HAS_LEADER, "Whether the node knows the group's leader");
    describe_gauge!(RAFT_IS_LEADER, "Whether the node leads the group");
    describe_counter!(RAFT_LEADER_CHANGES, Unit::Count, "Leaders that the node has seen come");
    describe_gauge!(RAFT_COMMIT_LAG, Unit::Count, "Entries in the log that are not committed");
    describe_gauge!(RAFT_APPLY_LAG, Unit::Count, "Committed entries that are not applied");
    describe_gauge!(RAFT_LOG_BYTES, Unit::Bytes, "Bytes of the group's log");
    describe_gauge!(RAFT_HISTORY_BYTES, Unit::Bytes, "Bytes of the group's history");
    describe_gauge!(RAFT_SNAPSHOT_AGE, Unit::Seconds, "Log time since the last snapshot");
    describe_gauge!(RAFT_QUEUED, Unit::Count, "Commands that wait to be proposed");
    describe_counter!(RAFT_COMMANDS, Unit::Count, "Commands proposed");
    describe_counter!(RAFT_ENTRIES, Unit::Count, "Log entries that carried them");
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
    connections: Gauge,
    accounts: Gauge,
    holds_open: Gauge,
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
            debt_added: counter!(DEBT_ADDED, "node" => node.clone()),
            connections: gauge!(CONNECTIONS, "node" => node.clone()),
            accounts: gauge!(ACCOUNTS, "node" => node.clone()),
            holds_open: gauge!(HOLDS_OPEN, "node" => node.clone()),
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
    pub(crate) fn record_ledgers(&self, accounts: usize, holds: usize) {
        self.accounts.set(float(accounts));
        self.holds_open.set(float(holds));
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

/// Counts one connection down when it is dropped.
pub(crate) struct ConnectionCount(Gauge);

impl Drop for ConnectionCount {
    fn drop(&mut self) {
        self.0.decrement(1);
    }
}

/// What one group records.
struct GroupMetrics {
    has_leader: Gauge,
    is_leader: Gauge,
    leader_changes: Counter,
    commit_lag: Gauge,
    apply_lag: Gauge,
    log_bytes: Gauge,
    history_bytes: Gauge,
    snapshot_age: Gauge,
    queued: Gauge,
    commands: Counter,
    entries: Counter,
    last_leader: Option<NodeId>,
}

impl GroupMetrics {
    fn new(node: &str, group: GroupId) -> Self {
        let labels = || [("node", node.to_owned()), ("group", group.to_string())];
        Self {
            has_leader: gauge!(RAFT_HAS_LEADER, &labels()),
            is_leader: gauge!(RAFT_IS_LEADER, &labels()),
            leader_changes: counter!(RAFT_LEADER_CHANGES, &labels()),
            commit_lag: gauge!(RAFT_COMMIT_LAG, &labels()),
            apply_lag: gauge!(RAFT_APPLY_LAG, &labels()),
            log_bytes: gauge!(RAFT_LOG_BYTES, &labels()),
            history_bytes: gauge!(RAFT_HISTORY_BYTES, &labels()),
            snapshot_age: gauge!(RAFT_SNAPSHOT_AGE, &labels()),
            queued: gauge!(RAFT_QUEUED, &labels()),
            commands: counter!(RAFT_COMMANDS, &labels()),
            entries: counter!(RAFT_ENTRIES, &labels()),
            last_leader: None,
        }
    }

    fn record(&mut self, status: &GroupStatus, now: LogTime) {
        self.has_leader.set(flag(status.leader.is_some()));
        self.is_leader.set(flag(status.role == Role::Leader));
        if status.leader.is_some() && status.leader != self.last_leader {
            self.leader_changes.increment(1);
            self.last_leader = status.leader;
        }
        self.commit_lag.set(float(behind(status.committed_index, status.last_index)));
        self.apply_lag.set(float(behind(status.applied_index, status.committed_index)));
        self.log_bytes.set(float(status.log_bytes));
        self.history_bytes.set(float(status.history_bytes));
        let age = status.snapshot_at.map_or(0, |at| now.since(at).as_secs());
        self.snapshot_age.set(float(age));
        self.queued.set(float(status.queued_commands));
        self.commands.absolute(status.proposed_commands);
        self.entries.absolute(status.proposed_entries);
    }
}

/// How many entries `index` is behind `last`. Indexes count from 0; `None` is before the first.
fn behind(index: Option<u64>, last: Option<u64>) -> u64 {
    let count = |index: Option<u64>| index.map_or(0, |index| index.saturating_add(1));
    count(last).saturating_sub(count(index))
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
    fn lag_counts_entries_from_before_the_first() {
        assert_eq!(behind(None, None), 0);
        assert_eq!(behind(None, Some(0)), 1);
        assert_eq!(behind(Some(4), Some(9)), 5);
        assert_eq!(behind(Some(9), Some(4)), 0);
    }

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
