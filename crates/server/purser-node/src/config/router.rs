//! The configuration file of a router: a node's, less what a router does not have.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use purser_raft::NodeId;
use purser_types::Region;
use serde::Deserialize;

use super::{
    ConfigError, LimitsConfig, PeerConfig, RegionsConfig, TokenConfig, default_grace_ms,
    default_shards, validate_peers, validate_tokens,
};
use crate::settings::{ClusterName, RouterSettings};
use crate::shards::ShardCount;

/// The configuration file of a router. Its keys mean what they mean in a node's.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RouterConfig {
    /// The number under which nodes see the router in their logs, which no node has.
    pub node: u64,
    /// The cluster's name.
    pub cluster: String,
    /// The region that is asked for new holds and charges.
    pub region: String,
    /// Where the API is served.
    pub listen: SocketAddr,
    /// Where the admin API is served; with the rest if left out.
    pub admin_listen: Option<SocketAddr>,
    /// The nodes of the cluster, of all its regions.
    pub peer: Vec<PeerConfig>,
    /// The regions of the cluster.
    pub regions: RegionsConfig,
    /// How many shards the accounts are spread over.
    #[serde(default = "default_shards")]
    pub shards: u32,
    /// How long a shutdown may take before what is left is cut off, in milliseconds.
    #[serde(default = "default_grace_ms")]
    pub grace_ms: u64,
    /// What callers may take up.
    #[serde(default)]
    pub limits: LimitsConfig,
    /// Who may ask for what: the same as on all nodes.
    #[serde(default)]
    pub token: Vec<TokenConfig>,
}

impl RouterConfig {
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
    pub fn validate(&self) -> Result<RouterSettings, ConfigError> {
        if self.node == 0 {
            return Err(ConfigError::NodeZero);
        }
        let region = Region::parse(&self.region).map_err(ConfigError::Region)?;
        let peers = validate_peers(&self.peer, (self.node, region))?;
        if !peers.values().any(|peer| peer.region == region) {
            return Err(ConfigError::NoNodeHere(region));
        }
        let numbers = self.regions.numbers(region, &peers)?;
        let standbys = self.regions.standbys(&numbers)?;
        let regions = numbers.into_keys().collect();
        let placement_voters = self.regions.voters(&peers.keys().copied().collect())?;
        Ok(RouterSettings {
            node: NodeId(self.node),
            cluster: ClusterName::parse(&self.cluster)?,
            region,
            listen: self.listen,
            admin_listen: self.admin_listen,
            peers,
            regions,
            placement_voters,
            standbys,
            shards: ShardCount::from_u32(self.shards)?,
            limits: self.limits.validate()?,
            tokens: validate_tokens(&self.token)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALLEST: &str = r#"
        node = 91
        cluster = "purser-prod"
        region = "eu"
        listen = "127.0.0.1:7700"
        [[peer]]
        node = 21
        address = "eu-1.example:7810"
        api-url = "http://eu-1.example:7710"
        [regions]
        numbers = { us = 0, eu = 1 }
        placement-voters = [21]
    "#;

    #[track_caller]
    fn check_refused(line: &str, instead: &str, expected: &str) {
        assert!(SMALLEST.contains(line));
        let config = RouterConfig::parse(&SMALLEST.replace(line, instead));
        let text = config.and_then(|config| config.validate()).unwrap_err();
        let text = crate::tasks::chain(&text);
        assert!(text.contains(expected), "{text:?} should contain {expected:?}");
    }

    #[test]
    fn a_router_needs_nodes_and_no_secret_and_no_folder() {
        let settings = RouterConfig::parse(SMALLEST).unwrap().validate().unwrap();
        assert_eq!((settings.node, settings.peers.len()), (NodeId(91), 1));
        check_refused("node = 91", "node = 21", "node 21 stands there twice");
        check_refused("[21]", "[91]", "there is no node 91");
        check_refused("node = 91", "node = 91\ndata-dir = \"x\"", "unknown field `data-dir`");
        let elsewhere = "region = \"us\"\nnode = 21";
        check_refused("node = 21", elsewhere, "no node stands in eu");
    }
}
