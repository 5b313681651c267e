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
    /// How fast the groups notice a lost leader, but those that have timings of their own.
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
/// Shorter fails over sooner; longer bears slow disks, busy machines and distance without elections.
/// A leader is lost after about `election_max` and replaced within twice that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RaftTimings {
    /// How often a leader shows that it is alive. Longer than the round trip to any voter: an
    /// answer that takes longer than this counts as lost, and a leader that hears no answers
    /// confirms no read and falls silent.
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

    /// For a group whose voters stand in several regions: round trips of 180 to 500 ms, and twice
    /// that for a while. A lost leader is replaced in some five to ten seconds.
    ///
    /// A heartbeat lasts twice the longest round trip. The shortest patience is six of them: a vote
    /// may use three quarters of it, and needs three when the connection has to be made first.
    pub const WIDE: Self = Self {
        heartbeat: Duration::from_millis(1_000),
        election_min: Duration::from_millis(3_000),
        election_max: Duration::from_millis(5_000),
        snapshot_step: Duration::from_secs(60),
    };

    /// How long commands wait for a follower to get the last entries, before a transfer of
    /// leadership is given up: two round trips, and never less than a busy disk takes.
    pub(crate) fn catch_up_limit(&self) -> Duration {
        (self.heartbeat * 2).max(Duration::from_secs(1))
    }

    /// Longer than this nobody waits for a successor to take over.
    pub(crate) fn hand_over_limit(&self) -> Duration {
        self.election_max * 2
    }

    /// How long an append may be without a sign of progress before the stream it is in is given
    /// up: longer than any healthy disk takes.
    pub(crate) fn append_limit(&self) -> Duration {
        self.election_max * 4
    }
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
    /// How fast this group notices a lost leader; `None`: as the node's others do. The same on all
    /// its nodes.
    pub timings: Option<RaftTimings>,
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
        timings: None,
    };

    /// For development and tests: everything small.
    pub const SMALL: Self = Self {
        snapshot_log_bytes: 4 << 20,
        keep_log_bytes: 1 << 20,
        cache_log_bytes: 4 << 20,
        queue_commands: 8_192,
        queue_bytes: 16 << 20,
        history_segment_bytes: 4 << 20,
        timings: None,
    };
}
