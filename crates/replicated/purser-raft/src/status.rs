//! Numbers about a group and a node, for people and for metrics.

use std::collections::{BTreeMap, BTreeSet};

use purser_types::LogTime;

use crate::clock::ClockVerdict;
use crate::ids::NodeId;

/// What this node is in a group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Role {
    /// Gets the log, does not vote.
    #[default]
    Learner,
    /// Gets the log and votes.
    Follower,
    /// Asks for votes.
    Candidate,
    /// Decides what enters the log.
    Leader,
    /// Has stopped.
    Stopped,
}

/// A group as this node sees it. Indexes count Raft entries from 0; `None` is before the first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupStatus {
    /// What this node is.
    pub role: Role,
    /// The term.
    pub term: u64,
    /// Who leads, if known.
    pub leader: Option<NodeId>,
    /// Last entry in the log.
    pub last_index: Option<u64>,
    /// Last entry known to be committed.
    pub committed_index: Option<u64>,
    /// Last entry applied to the machine.
    pub applied_index: Option<u64>,
    /// Last entry that is no longer in the log.
    pub purged_index: Option<u64>,
    /// Bytes of the entries in the log.
    pub log_bytes: u64,
    /// Bytes appended since the last snapshot.
    pub log_bytes_since_snapshot: u64,
    /// Last entry that the last snapshot covers.
    pub snapshot_index: Option<u64>,
    /// Log time of the last snapshot.
    pub snapshot_at: Option<LogTime>,
    /// Bytes of the history.
    pub history_bytes: u64,
    /// Who votes.
    pub voters: BTreeSet<NodeId>,
    /// Who gets the log without voting.
    pub learners: BTreeSet<NodeId>,
    /// On a leader: the last entry that each of the others has acknowledged, which is on its disk.
    /// Who has acknowledged nothing yet is missing.
    pub matched_index: BTreeMap<NodeId, u64>,
    /// On a leader: how many entries each of the others lacks.
    pub lag_entries: BTreeMap<NodeId, u64>,
    /// Commands that wait to be proposed.
    pub queued_commands: u64,
    /// Commands proposed since the start.
    pub proposed_commands: u64,
    /// Entries that carried them.
    pub proposed_entries: u64,
    /// What this node's clock is worth.
    pub clock: ClockVerdict,
}

/// The node as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostStatus {
    /// Batches written to the write-ahead log since the start; each was synced once.
    pub wal_syncs: u64,
    /// Records in those batches.
    pub wal_records: u64,
    /// Bytes in those batches.
    pub wal_bytes: u64,
    /// The most records one sync made durable.
    pub wal_batch_records_max: u64,
    /// Microseconds spent in writing and syncing.
    pub wal_busy_micros: u64,
    /// Segment files in use.
    pub wal_segments: u64,
    /// How far each peer's clock is ahead of this node's, in microseconds, by the last reading.
    pub clock_offset_micros: BTreeMap<NodeId, i64>,
    /// Peers with a connection for log entries right now.
    pub connected: BTreeSet<NodeId>,
}
