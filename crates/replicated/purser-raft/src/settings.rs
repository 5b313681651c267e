//! What an owner decides about a node and its groups. Checked values; no file is read here.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::disk::Disk;
use crate::ids::{ClusterId, NodeId};
use crate::network::PeerSwitch;

/// A node: where it keeps its data and whom it talks to.
#[derive(Clone)]
pub struct HostSettings {
    /// The data folder; made if it does not exist.
    pub dir: PathBuf,
    /// Which node this is. A folder of another node is refused.
    pub node: NodeId,
    /// Which cluster this is. `None`: the folder's, or a new one if the folder is new. All nodes
    /// of a cluster need the same one, so only a lone node can do without.
    pub cluster: Option<ClusterId>,
    /// `host:port` of every other node. [`crate::Host::set_peers`] replaces it at run time.
    pub peers: BTreeMap<NodeId, String>,
    /// How fast the groups notice a lost leader.
    pub timings: RaftTimings,
    /// The node's write-ahead log.
    pub wal: WalSettings,
    /// Where files are kept: [`crate::disk::RealDisk`] outside tests and simulations.
    pub disk: Arc<dyn Disk>,
    /// What stamps entries: [`crate::SystemClock`] outside tests and simulations.
    pub clock: Arc<dyn Clock>,
    /// Cuts this node off from others on purpose.
    pub switch: PeerSwitch,
}

/// How fast a group notices a lost leader.
///
/// Shorter fails over sooner; longer bears slow disks and busy machines without elections. A leader
/// is lost after about `election_max` and replaced within twice that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RaftTimings {
    /// How often a leader shows that it is alive.
    pub heartbeat: Duration,
    /// Shortest patience of a follower. At least two heartbeats.
    pub election_min: Duration,
    /// Longest patience of a follower, and how long a leader without a quorum stays one.
    pub election_max: Duration,
    /// How long one step of a snapshot transfer may take.
    pub snapshot_step: Duration,
}

impl RaftTimings {
    /// For nodes with a network and processors of their own: a lost leader is replaced in about a
    /// second.
    pub const LAN: Self = Self {
        heartbeat: Duration::from_millis(100),
        election_min: Duration::from_millis(300),
        election_max: Duration::from_millis(500),
        snapshot_step: Duration::from_secs(60),
    };

    /// For many nodes on one busy machine (development, tests), which may stall for a second.
    pub const SHARED_MACHINE: Self = Self {
        heartbeat: Duration::from_millis(250),
        election_min: Duration::from_millis(1_500),
        election_max: Duration::from_millis(3_000),
        snapshot_step: Duration::from_secs(60),
    };
}

/// The node's write-ahead log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalSettings {
    /// Size of a segment file. Larger rolls over less often; smaller returns disk space sooner.
    pub segment_bytes: u64,
    /// Whether the next segment is zero-filled ahead of time, by a thread of its own. Without, it
    /// is made when it is needed: appends wait for it, but the order of all writes is
    /// deterministic.
    pub prepare_ahead: bool,
}

impl WalSettings {
    /// 64 MiB segments, made ahead of time.
    pub const LARGE: Self = Self { segment_bytes: 64 << 20, prepare_ahead: true };
    /// 1 MiB segments, made when needed.
    pub const SMALL: Self = Self { segment_bytes: 1 << 20, prepare_ahead: false };
}

/// One group on this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupSettings {
    /// A snapshot is taken when the log has grown by about this much since the last one. Smaller
    /// restarts faster, larger writes less.
    pub snapshot_log_bytes: u64,
    /// How much of the log is kept behind a snapshot for followers that lag. A follower that lags
    /// further is sent the snapshot instead.
    pub keep_log_bytes: u64,
    /// How much of the log's tail is held in memory for replication.
    pub cache_log_bytes: usize,
    /// Commands that may wait to be proposed; one more is answered with `Overloaded` at once.
    pub queue_commands: usize,
    /// Bytes of commands that may wait to be proposed.
    pub queue_bytes: usize,
    /// Size of a history segment file.
    pub history_segment_bytes: u64,
}

impl GroupSettings {
    /// For a server.
    pub const SERVER: Self = Self {
        snapshot_log_bytes: 64 << 20,
        keep_log_bytes: 32 << 20,
        cache_log_bytes: 32 << 20,
        queue_commands: 8_192,
        queue_bytes: 16 << 20,
        history_segment_bytes: 256 << 20,
    };

    /// For development and tests: everything small.
    pub const SMALL: Self = Self {
        snapshot_log_bytes: 4 << 20,
        keep_log_bytes: 1 << 20,
        cache_log_bytes: 4 << 20,
        queue_commands: 8_192,
        queue_bytes: 16 << 20,
        history_segment_bytes: 4 << 20,
    };
}
