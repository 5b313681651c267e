//! What a node needs to know, checked.
//!
//! [`NodeSettings`] is the only form of configuration that the rest of the crate accepts, so a bad
//! value is found before a file or a port is opened. Where the values come from (a file, a
//! development command, a test) is not known here; see [`crate::NodeConfig`] for the file.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::Uri;
use purser_raft::{ClusterId, GroupSettings, NodeId, RaftTimings, WalSettings};
use purser_types::{Region, Span};
use sha2::{Digest, Sha256};

use crate::shards::ShardCount;
use crate::token::Token;
use crate::webhooks::WebhookSettings;

/// A node's settings.
#[derive(Debug, Clone)]
pub struct NodeSettings {
    /// Which node this is: unique in its cluster, and never used again for other data.
    pub node: NodeId,
    /// Which cluster it belongs to.
    pub cluster: ClusterName,
    /// Where it stands.
    pub region: Region,
    /// Where it keeps its data.
    pub data_dir: PathBuf,
    /// Where it serves the API; port 0 lets the system choose.
    pub listen: SocketAddr,
    /// Where it serves the admin API, if not with the rest.
    pub admin_listen: Option<SocketAddr>,
    /// Where the other nodes reach it.
    pub peer_listen: SocketAddr,
    /// The other nodes, of all regions.
    pub peers: BTreeMap<NodeId, PeerSettings>,
    /// The regions of the cluster; nothing if it stands in one region only.
    pub regions: Option<RegionSettings>,
    /// Whether the groups are made of this node and its peers if the data folder is new. A node
    /// that is added to a running cluster must wait to be added instead.
    pub bootstrap: bool,
    /// How many shards the accounts are spread over. Never changes in the life of a cluster.
    pub shards: ShardCount,
    /// How fast the groups notice a lost leader.
    pub timings: RaftTimings,
    /// The node's write-ahead log.
    pub wal: WalSettings,
    /// Each group's log and snapshots.
    pub group: GroupSettings,
    /// What callers may take up.
    pub limits: LimitSettings,
    /// Who may ask for what.
    pub tokens: Vec<Arc<Token>>,
    /// The policy of an account that is opened without one.
    pub retention: RetentionSettings,
    /// What webhooks may do.
    pub webhooks: WebhookSettings,
    /// How often due events are looked for, to be written down. Nothing depends on it: whoever
    /// looks at an account applies what is due first. `None` switches it off.
    pub sweep_every: Option<Duration>,
    /// How often the node verifies what it has by itself; never if there is none.
    pub verify_every: Option<Duration>,
}

impl NodeSettings {
    /// The number of this node's region.
    pub(crate) fn region_number(&self) -> RegionNumber {
        let numbers = self.regions.as_ref().map(|regions| &regions.numbers);
        let number = numbers.and_then(|numbers| numbers.get(&self.region));
        number.copied().unwrap_or(RegionNumber::FIRST)
    }
}

/// A router's settings: what a node knows, less what it keeps and decides.
#[derive(Debug, Clone)]
pub struct RouterSettings {
    /// The number under which nodes see it, which none of them has.
    pub node: NodeId,
    /// Which cluster it serves.
    pub cluster: ClusterName,
    /// Where it stands: new holds and charges are asked of this region.
    pub region: Region,
    /// Where it serves the API; port 0 lets the system choose.
    pub listen: SocketAddr,
    /// Where it serves the admin API, if not with the rest.
    pub admin_listen: Option<SocketAddr>,
    /// The nodes, of all regions.
    pub peers: BTreeMap<NodeId, PeerSettings>,
    /// The regions of the cluster.
    pub regions: BTreeSet<Region>,
    /// The nodes that vote in the Placement group.
    pub placement_voters: BTreeSet<NodeId>,
    /// The regions that stand by for each home.
    pub standbys: BTreeMap<Region, BTreeSet<Region>>,
    /// How many shards the accounts are spread over.
    pub shards: ShardCount,
    /// What callers may take up.
    pub limits: LimitSettings,
    /// Who may ask for what: the same as on all nodes.
    pub tokens: Vec<Arc<Token>>,
}

/// The nodes of each region.
pub(crate) fn nodes_by_region(
    peers: &BTreeMap<NodeId, PeerSettings>,
) -> BTreeMap<Region, Vec<NodeId>> {
    let mut nodes: BTreeMap<Region, Vec<NodeId>> = BTreeMap::new();
    for (node, peer) in peers {
        nodes.entry(peer.region).or_default().push(*node);
    }
    nodes
}

/// What a node of a cluster in several regions has to know of them. The same on all nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionSettings {
    /// The regions, this one too, with their numbers. A number is never used again.
    pub numbers: BTreeMap<Region, RegionNumber>,
    /// The nodes that vote in the Placement group: best one in each of at least three regions.
    pub placement_voters: BTreeSet<NodeId>,
    /// What vouchers are signed with.
    pub voucher_key: VoucherKey,
    /// The regions that stand by for a home: they follow its shards, and one of them takes over if it is
    /// lost. A home that is not named, or has none, waits for nobody and cannot be failed over.
    pub standbys: BTreeMap<Region, BTreeSet<Region>>,
    /// A standby that was silent for so long, or lags by so much, is not waited for any more.
    pub standby_silence: Duration,
    /// A region of which the leader of Placement hears nothing for so long is failed over without being asked;
    /// `None` leaves that to operators. The leader's own counts, so it is the same on all nodes.
    pub fail_over_after: Option<Duration>,
}

impl RegionSettings {
    /// After how long a silent standby is dropped.
    pub const STANDBY_SILENCE: Duration = Duration::from_secs(3);
    /// After how many seconds of silence a region may be failed over without being asked. Less, and an
    /// election or a route that changes would do it; more, and an operator is faster.
    pub const FAIL_OVER_SECONDS: RangeInclusive<u64> = 10..=3_600;
}

/// The number of a region in its cluster: which groups are its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RegionNumber(u16);

impl RegionNumber {
    /// The first one, and that of a region that is alone.
    pub const FIRST: Self = Self(0);
    /// The highest number.
    pub const MAX: u16 = 1_023;

    /// Checks a number.
    pub const fn from_u16(number: u16) -> Option<Self> {
        if number <= Self::MAX { Some(Self(number)) } else { None }
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// The secret with which home signs vouchers: whoever knows it can let regions spend.
#[derive(Clone, PartialEq, Eq)]
pub struct VoucherKey([u8; 32]);

impl VoucherKey {
    /// The key made of a secret.
    pub fn of(secret: &[u8]) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(b"purser voucher key\0");
        hasher.update(secret);
        Self(hasher.finalize().into())
    }

    /// The key's bytes.
    pub(crate) const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for VoucherKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("VoucherKey(…)")
    }
}

/// Another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerSettings {
    /// Where it stands.
    pub region: Region,
    /// `host:port` of its peer listener.
    pub address: String,
    /// Where it serves the API.
    pub api: BaseUrl,
    /// Where it serves the admin API.
    pub admin: BaseUrl,
}

/// The start of another node's addresses: `http://host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl(hyper::http::uri::Authority);

/// The text is not the start of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must look like http://host:port, without a path")]
pub struct InvalidBaseUrl;

impl BaseUrl {
    /// Reads `http://host:port`.
    pub fn parse(text: &str) -> Result<Self, InvalidBaseUrl> {
        let uri: Uri = text.parse().map_err(|_unreadable| InvalidBaseUrl)?;
        let bare = matches!(uri.path(), "" | "/") && uri.query().is_none();
        match uri.into_parts() {
            parts if bare && parts.scheme == Some(hyper::http::uri::Scheme::HTTP) => {
                parts.authority.map(Self).ok_or(InvalidBaseUrl)
            }
            _ => Err(InvalidBaseUrl),
        }
    }

    /// The API of a node that listens at `address`.
    pub fn of(address: SocketAddr) -> Self {
        let authority = address.to_string().parse();
        Self(authority.expect("an address and a port are an authority"))
    }

    /// Host and port.
    pub(crate) const fn authority(&self) -> &hyper::http::uri::Authority {
        &self.0
    }
}

/// What callers may take up of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitSettings {
    /// Open connections. Further ones wait to be accepted.
    pub connections_max: usize,
    /// Bytes of a request's line and headers, at least 8 KiB. Also how much of a body is read at
    /// once, so much less makes large batches slower.
    pub header_bytes_max: usize,
    /// Bytes of request bodies in memory at once, over all connections; room for one body at least.
    /// A request that finds no room is refused.
    pub body_bytes_max: usize,
    /// How long a connection may take to send a request's headers, and how long it may be idle.
    pub header_read: Duration,
    /// How long a connection may take no byte of an answer that waits for it.
    pub write_stall: Duration,
    /// How long a caller may take to take a whole answer.
    pub answer: Duration,
    /// Reads that go through an account's history or through all accounts, and dry runs, at once.
    /// Each has a thread and keeps a copy of a shard's state. Further ones wait for as long as their requests
    /// may take.
    pub long_reads_max: usize,
    /// How long a request may take from its headers to its answer.
    pub request: Duration,
}

impl LimitSettings {
    /// For a server.
    pub const STANDARD: Self = Self {
        connections_max: 10_000,
        header_bytes_max: 64 << 10,
        body_bytes_max: 256 << 20,
        header_read: Duration::from_secs(30),
        write_stall: Duration::from_secs(20),
        answer: Duration::from_secs(60),
        long_reads_max: 64,
        request: Duration::from_secs(10),
    };
}

/// How long an account that is opened without saying so remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionSettings {
    /// Decisions under idempotency keys, from commit.
    pub keys: Span,
    /// Ended holds and charges, from their last change.
    pub records: Span,
    /// Usage events, from their time.
    pub events: Span,
}

impl RetentionSettings {
    /// A day, 400 days, and 72 hours.
    pub const STANDARD: Self = Self {
        keys: Span::from_days(1),
        records: Span::from_days(400),
        events: Span::from_days(3),
    };
}

/// The name of a cluster: the same on all its nodes, and different from other clusters'.
///
/// It stands in every file and on every connection, so that a folder or a node of another cluster
/// is refused instead of mixed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterName(String);

/// The text is not the name of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must have 1 to {} bytes without control characters", ClusterName::BYTES_MAX)]
pub struct InvalidClusterName;

impl ClusterName {
    /// The most bytes.
    pub const BYTES_MAX: usize = 128;

    /// Checks a name.
    pub fn parse(text: &str) -> Result<Self, InvalidClusterName> {
        let fits = (1..=Self::BYTES_MAX).contains(&text.len());
        if fits && !text.chars().any(char::is_control) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidClusterName)
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What consensus knows the cluster by.
    ///
    /// The number of shards is part of it: with another number, accounts would be looked for where
    /// they are not. So such a node is refused as if it were of another cluster.
    pub fn id(&self, shards: ShardCount) -> ClusterId {
        let mut hasher = Sha256::new();
        hasher.update(b"purser cluster\0");
        hasher.update(shards.get().to_be_bytes());
        hasher.update(&self.0);
        let digest: [u8; 32] = hasher.finalize().into();
        ClusterId::from_bytes(*digest.first_chunk().expect("a digest has 32 bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_number_of_shards_is_another_cluster() {
        let name = ClusterName::parse("purser-prod").unwrap();
        let id = |shards| name.id(ShardCount::from_u32(shards).unwrap());
        assert_eq!(id(16), id(16));
        assert_ne!(id(16), id(8));
        assert_ne!(
            id(16),
            ClusterName::parse("other").unwrap().id(ShardCount::from_u32(16).unwrap())
        );
    }

    #[test]
    fn a_base_url_is_scheme_host_and_port() {
        assert!(BaseUrl::parse("http://127.0.0.1:7710").is_ok());
        assert!(BaseUrl::parse("http://node-2.example:80/").is_ok());
        for odd in ["", "127.0.0.1:7710", "https://a:1", "http://a:1/path", "http://a:1?x=1"] {
            assert_eq!(BaseUrl::parse(odd), Err(InvalidBaseUrl), "{odd:?}");
        }
    }
}
