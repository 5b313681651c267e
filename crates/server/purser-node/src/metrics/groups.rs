//! The metrics of Raft groups, as each node sees them.

use metrics::{Counter, Gauge, Unit, counter, describe_counter, describe_gauge, gauge};
use purser_raft::{GroupId, GroupStatus, NodeId, Role};
use purser_types::LogTime;

use super::{flag, float};

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

/// Tells the recorder what the names mean.
pub(super) fn describe() {
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

/// What one group records.
pub(super) struct GroupMetrics {
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
    /// The handles of a group.
    pub(super) fn new(node: &str, group: GroupId) -> Self {
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

    /// Shows its status.
    pub(super) fn record(&mut self, status: &GroupStatus, now: LogTime) {
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
}
