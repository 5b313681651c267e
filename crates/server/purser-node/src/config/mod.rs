//! The configuration file, and what the node makes of it.
//!
//! One TOML file. [`NodeConfig`] is the file as it stands: plain fields, a default for everything
//! that has a sensible one. [`NodeConfig::validate`] checks it and gives [`NodeSettings`], the only
//! form that the rest of the crate accepts. Secrets stand in files of their own, named by path.
//! All keys exist since v0.1.

mod regions;
mod router;
mod sections;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use purser_raft::NodeId;
use purser_types::{IdError, Region};
use serde::Deserialize;

pub use self::regions::RegionsConfig;
pub use self::router::RouterConfig;
pub use self::sections::{
    LimitsConfig, PeerConfig, PostgresConfig, RaftConfig, RetentionConfig, StorageConfig,
    StorageProfile, WebhooksConfig,
};
pub use self::tokens::TokenConfig;
use crate::settings::{
    ClusterName, InvalidBaseUrl, InvalidClusterName, NodeSettings, PeerSettings, RegionSettings,
};
use crate::shards::{InvalidShardCount, ShardCount};
use crate::token::{InvalidTokenHash, Token};

/// The configuration file of a node.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NodeConfig {
    /// Which node this is, from 1. Unique in its cluster; a number is never used again for another
    /// data folder.
    pub node: u64,
    /// The cluster's name: the same on all its nodes, different from other clusters'.
    pub cluster: String,
    /// The region this node stands in, for example `eu`.
    pub region: String,
    /// Where the node keeps its data.
    pub data_dir: PathBuf,
    /// Where the API is served.
    pub listen: SocketAddr,
    /// Where the admin API is served; with the rest if left out. Set it to keep operators' calls
    /// off the callers' network.
    pub admin_listen: Option<SocketAddr>,
    /// Where the other nodes reach this one.
    pub peer_listen: SocketAddr,
    /// The other nodes of the cluster, of all its regions.
    #[serde(default)]
    pub peer: Vec<PeerConfig>,
    /// The regions of the cluster; to be left out if it stands in one region only.
    pub regions: Option<RegionsConfig>,
    /// Set it on a node that is added to a running cluster: it then waits until an operator adds it
    /// instead of founding groups with its peers.
    #[serde(default)]
    pub join: bool,
    /// How many shards the accounts are spread over. More use more processors and disks at once;
    /// fewer cost less when idle. Fixed for the life of the cluster.
    #[serde(default = "default_shards")]
    pub shards: u32,
    /// How long a shutdown may take before what is left is cut off, in milliseconds. Longer lets
    /// slow requests finish; shorter restarts sooner.
    #[serde(default = "default_grace_ms")]
    pub grace_ms: u64,
    /// How often due events are looked for, in milliseconds; 0 switches it off. More often keeps
    /// the read model fresher; less often writes fewer, larger batches. No answer depends on it.
    #[serde(default = "default_sweep_ms")]
    pub sweep_ms: u64,
    /// How often the node verifies by itself what it has, in seconds; 0 switches it off. More often finds
    /// damage sooner; each time all history is read and folded, in the background.
    #[serde(default = "default_verify_seconds")]
    pub verify_seconds: u64,
    /// Consensus.
    #[serde(default)]
    pub raft: RaftConfig,
    /// Logs and snapshots.
    #[serde(default)]
    pub storage: StorageConfig,
    /// What callers may take up.
    #[serde(default)]
    pub limits: LimitsConfig,
    /// How long accounts remember that are opened without saying so.
    #[serde(default)]
    pub retention: RetentionConfig,
    /// What webhooks may do.
    #[serde(default)]
    pub webhooks: WebhooksConfig,
    /// Who may ask for what.
    #[serde(default)]
    pub token: Vec<TokenConfig>,
    /// Where a read model is kept; nowhere if left out. No answer depends on it.
    pub postgres: Option<PostgresConfig>,
}

const fn default_shards() -> u32 {
    16
}

const fn default_grace_ms() -> u64 {
    10_000
}

const fn default_sweep_ms() -> u64 {
    1_000
}

const fn default_verify_seconds() -> u64 {
    6 * 3_600
}

/// Why a configuration is refused. The texts name the keys as they stand in the file.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("{} could not be read", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Not TOML, or not these keys.
    #[error("the configuration could not be read")]
    Syntax(#[from] toml::de::Error),
    /// `node` is 0, which no node may be.
    #[error("node must be at least 1")]
    NodeZero,
    /// A bad name.
    #[error("cluster")]
    Cluster(#[from] InvalidClusterName),
    /// A bad name.
    #[error("region")]
    Region(#[source] IdError),
    /// Out of range.
    #[error("shards")]
    Shards(#[from] InvalidShardCount),
    /// A peer with this node's number, or two with one number.
    #[error("peer: node {0} stands there twice, or is this node itself")]
    PeerTwice(u64),
    /// A bad address.
    #[error("peer: address {0:?} must look like host:port")]
    PeerAddress(String),
    /// A bad address.
    #[error("peer: {key} of node {node}")]
    PeerUrl {
        /// Which key.
        key: &'static str,
        /// Of which peer.
        node: u64,
        /// What is wrong.
        #[source]
        source: InvalidBaseUrl,
    },
    /// A router's region has no node that could be asked.
    #[error("peer: no node stands in {0}, which is the router's region")]
    NoNodeHere(Region),
    /// A peer stands in another region, and no regions are named.
    #[error("regions: missing, though a peer stands in another region")]
    RegionsMissing,
    /// A region that stands nowhere in the table, or a table that contradicts itself.
    #[error("regions: {0}")]
    Regions(String),
    /// The file with the secret for vouchers could not be read.
    #[error("regions: voucher-key-file {} could not be read", path.display())]
    VoucherKey {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Timings that no group could live with.
    #[error(
        "raft: needs 0 < 2 * heartbeat-ms <= election-min-ms < election-max-ms, snapshot-step-ms > 0"
    )]
    RaftTimings,
    /// A limit that lets nothing through.
    #[error("limits: {0} must be at least {1}")]
    Limit(&'static str, u64),
    /// No usage event would ever be accepted.
    #[error("retention: event-seconds must be at least 1")]
    EventRetention,
    /// An account would forget every key at once: a repeated request would be done twice.
    #[error("retention: key-seconds must be at least 1")]
    KeyRetention,
    /// An account would forget what a key still answers for.
    #[error("retention: record-seconds must be at least key-seconds, which is {key_seconds}")]
    RecordRetention {
        /// How long keys are remembered.
        key_seconds: u64,
    },
    /// A token without a secret, or with two.
    #[error("token {0:?}: needs exactly one of sha256 and token-file")]
    TokenSecret(String),
    /// A bad hash.
    #[error("token {name:?}: sha256")]
    TokenHash {
        /// Which token.
        name: String,
        /// What is wrong.
        #[source]
        source: InvalidTokenHash,
    },
    /// A secret that could be guessed.
    #[error("token {0:?}: the secret in token-file is empty")]
    TokenEmpty(String),
    /// Two tokens of one name.
    #[error("token {0:?} stands there twice")]
    TokenTwice(String),
    /// A bad name.
    #[error("token {name:?}: tenants")]
    TokenTenant {
        /// Which token.
        name: String,
        /// What is wrong.
        #[source]
        source: IdError,
    },
}

impl NodeConfig {
    /// Reads a file.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::File { path: path.to_owned(), source })?;
        Self::parse(&text)
    }

    /// Reads the text of a file.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        Ok(toml::from_str(text)?)
    }

    /// How long a shutdown may take.
    pub const fn grace(&self) -> Duration {
        Duration::from_millis(self.grace_ms)
    }

    /// Checks everything and reads the tokens' files.
    pub fn validate(&self) -> Result<NodeSettings, ConfigError> {
        if self.node == 0 {
            return Err(ConfigError::NodeZero);
        }
        Ok(NodeSettings {
            node: NodeId(self.node),
            cluster: ClusterName::parse(&self.cluster)?,
            region: self.own_region()?,
            data_dir: self.data_dir.clone(),
            listen: self.listen,
            admin_listen: self.admin_listen,
            peer_listen: self.peer_listen,
            peers: validate_peers(&self.peer, (self.node, self.own_region()?))?,
            regions: self.regions()?,
            bootstrap: !self.join,
            shards: ShardCount::from_u32(self.shards)?,
            timings: self.raft.validate()?,
            wal: self.storage.wal(),
            group: self.storage.group(),
            limits: self.limits.validate()?,
            tokens: validate_tokens(&self.token)?,
            retention: self.retention.validate()?,
            webhooks: self.webhooks.settings(),
            sweep_every: (self.sweep_ms > 0).then(|| Duration::from_millis(self.sweep_ms)),
            verify_every: (self.verify_seconds > 0)
                .then(|| Duration::from_secs(self.verify_seconds)),
        })
    }

    fn own_region(&self) -> Result<Region, ConfigError> {
        Region::parse(&self.region).map_err(ConfigError::Region)
    }

    fn regions(&self) -> Result<Option<RegionSettings>, ConfigError> {
        let own = self.own_region()?;
        let peers = validate_peers(&self.peer, (self.node, own))?;
        let here = |region| peers.values().all(|peer| peer.region == region);
        match &self.regions {
            Some(regions) => regions.validate((NodeId(self.node), own), &peers).map(Some),
            None if here(own) => Ok(None),
            None => Err(ConfigError::RegionsMissing),
        }
    }
}

/// Checks the nodes that a process with this number in this region knows.
fn validate_peers(
    peers: &[PeerConfig],
    (node, own): (u64, Region),
) -> Result<BTreeMap<NodeId, PeerSettings>, ConfigError> {
    let mut checked = BTreeMap::new();
    for peer in peers {
        let known = checked.insert(NodeId(peer.node), peer.validate(own)?);
        if known.is_some() || peer.node == node {
            return Err(ConfigError::PeerTwice(peer.node));
        }
    }
    Ok(checked)
}

/// Checks tokens and reads their files.
fn validate_tokens(tokens: &[TokenConfig]) -> Result<Vec<Arc<Token>>, ConfigError> {
    let mut names = BTreeSet::new();
    for token in tokens {
        if !names.insert(&token.name) {
            return Err(ConfigError::TokenTwice(token.name.clone()));
        }
    }
    tokens.iter().map(|token| token.validate().map(Arc::new)).collect()
}

#[cfg(test)]
mod tests {
    use purser_raft::{GroupSettings, RaftTimings};
    use purser_types::TenantId;

    use super::*;
    use crate::settings::{LimitSettings, RetentionSettings};

    const SMALLEST: &str = r#"
        node = 1
        cluster = "purser-prod"
        region = "us"
        data-dir = "/var/lib/purser"
        listen = "127.0.0.1:7710"
        peer-listen = "127.0.0.1:7810"
    "#;

    fn chain(error: &dyn std::error::Error) -> String {
        match error.source() {
            Some(source) => format!("{error}: {}", chain(source)),
            None => error.to_string(),
        }
    }

    #[track_caller]
    fn check_refused(more: &str, expected: &str) {
        let config = NodeConfig::parse(&format!("{SMALLEST}\n{more}"));
        let error = config.and_then(|config| config.validate()).unwrap_err();
        let text = chain(&error);
        assert!(text.contains(expected), "{text:?} should contain {expected:?}");
    }

    #[test]
    fn what_is_left_out_has_a_default() {
        let settings = NodeConfig::parse(SMALLEST).unwrap().validate().unwrap();
        assert_eq!(settings.shards.get(), 16);
        assert_eq!(settings.timings, RaftTimings::LAN);
        assert_eq!(settings.group, GroupSettings::SERVER);
        assert_eq!(settings.limits, LimitSettings::STANDARD);
        assert_eq!(settings.retention, RetentionSettings::STANDARD);
        assert!(settings.bootstrap && settings.tokens.is_empty() && settings.peers.is_empty());
    }

    #[test]
    fn a_token_is_read_from_a_file_or_by_its_hash() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        std::fs::write(&file, "foo\n").unwrap();
        let more = format!(
            "[[token]]\nname = \"a\"\ntoken-file = {file:?}\nscopes = [\"admin\"]\n\
             [[token]]\nname = \"b\"\nsha256 = \"{}\"\nscopes = [\"spend\", \"read\"]\n\
             tenants = [\"acme\"]",
            "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
        );
        let config = NodeConfig::parse(&format!("{SMALLEST}\n{more}")).unwrap();
        let tokens = config.validate().unwrap().tokens;
        assert_eq!(crate::token::find(&tokens, b"foo").map(|token| &*token.name), Some("b"));
        assert!(!tokens[1].reaches(&TenantId::parse("other").unwrap()));
    }

    #[test]
    fn a_bad_configuration_is_refused_by_the_name_of_its_key() {
        check_refused("nodes = 3", "unknown field `nodes`");
        check_refused("shards = 0", "shards: must be from 1");
        check_refused("[raft]\nheartbeat-ms = 400", "2 * heartbeat-ms <= election-min-ms");
        check_refused("[limits]\nrequest-ms = 0", "request-ms must be at least 1");
        check_refused("[limits]\nheader-bytes-max = 100", "header-bytes-max");
        check_refused("[limits]\nbody-bytes-max = 1000", "body-bytes-max must be at least 1048576");
        check_refused("[limits]\nlong-reads-max = 0", "long-reads-max must be at least 1");
        check_refused("[limits]\nanswer-ms = 0", "answer-ms must be at least 1");
        check_refused("[retention]\nevent-seconds = 0", "event-seconds must be at least 1");
        check_refused("[retention]\nkey-seconds = 0", "key-seconds must be at least 1");
        check_refused("[retention]\nrecord-seconds = 0", "at least key-seconds, which is 86400");
        check_refused("[retention]\nkey-seconds = 9\nrecord-seconds = 8", "which is 9");
        check_refused("[[token]]\nname = \"a\"\nscopes = []", "exactly one of");
        check_refused(
            "[[token]]\nname = \"a\"\nscopes = [\"root\"]\nsha256 = \"\"",
            "unknown variant `root`",
        );
        check_refused("[[token]]\nname = \"a\"\nscopes = []\nsha256 = \"00\"", "64 hexadecimal");
        let peer = "[[peer]]\nnode = 1\naddress = \"a:1\"\napi-url = \"http://a:2\"";
        check_refused(peer, "node 1 stands there twice");
        let peer = "[[peer]]\nnode = 2\naddress = \"a\"\napi-url = \"http://a:2\"";
        check_refused(peer, "must look like host:port");
        let peer = "[[peer]]\nnode = 2\naddress = \"a:1\"\napi-url = \"a:2\"";
        check_refused(peer, "must look like http://host:port");
    }
}
