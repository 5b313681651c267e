//! What a node of a development cluster is told: the same that a configuration file could say.
//!
//! Not here: which nodes there are (`layout`), and when they start (`fleet`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use purser_node::{
    ConfigError, LimitsConfig, NodeConfig, NodeSettings, PeerConfig, RaftConfig, RegionSettings,
    RegionsConfig, RetentionConfig, Scope, StorageConfig, StorageProfile, Token, TokenHash,
    WebhooksConfig,
};

use crate::dev::layout::{DevLayout, NodePlace};
use crate::dev::wire::Wire;
use crate::dev::{DEV_TOKEN, GRACE, folder};

/// The cluster's name: all regions are one cluster.
const CLUSTER: &str = "purser-dev";
/// Two in each region, so that there is more than one leader to lose; more would only cost when idle.
pub(super) const SHARDS: u32 = 2;
/// How often due events are written down, in milliseconds.
const SWEEP_MS: u64 = 1_000;
/// How often each node verifies what it has, in seconds: so that one sees it done.
const VERIFY_SECONDS: u64 = 600;
/// Patience of a follower, in milliseconds: at least four heartbeats, so that a machine that is
/// busy (all nodes share it with whatever else its owner runs) does not change leaders for nothing.
/// A lost leader is replaced within twice the longer time, so a kill is over within 1.5 s.
const ELECTION_MS: (u64, u64) = (400, 700);
/// How often a leader shows that it is alive, in milliseconds. Not more often: each of these wakes
/// the nodes of a region for every shard, also when nothing happens.
const HEARTBEAT_MS: u64 = 100;

/// A node's settings: the same that a file could say, and the development token.
pub(super) fn settings(
    layout: &DevLayout,
    wire: &Wire,
    place: &NodePlace,
) -> Result<NodeSettings, ConfigError> {
    let mut settings = config(layout, wire, place).validate()?;
    let scopes = Scope::ALL.into_iter().collect();
    let hash = TokenHash::of(DEV_TOKEN.as_bytes());
    let token = Token { name: DEV_TOKEN.into(), hash, scopes, tenants: None };
    settings.tokens.push(Arc::new(token));
    Ok(settings)
}

fn config(layout: &DevLayout, wire: &Wire, place: &NodePlace) -> NodeConfig {
    let others = layout.nodes().filter(|other| other.name != place.name);
    let (election_min_ms, election_max_ms) = ELECTION_MS;
    NodeConfig {
        node: place.id,
        cluster: CLUSTER.to_owned(),
        region: place.name.region.to_string(),
        data_dir: place.dir.clone(),
        listen: place.api,
        admin_listen: None,
        peer_listen: place.peer,
        peer: others.map(|other| peer(wire, place, other)).collect(),
        regions: Some(regions(layout)),
        join: false,
        shards: SHARDS,
        grace_ms: millis(GRACE),
        sweep_ms: SWEEP_MS,
        verify_seconds: VERIFY_SECONDS,
        raft: RaftConfig {
            heartbeat_ms: HEARTBEAT_MS,
            election_min_ms,
            election_max_ms,
            ..RaftConfig::default()
        },
        storage: StorageConfig { profile: StorageProfile::Small, ..StorageConfig::default() },
        limits: LimitsConfig::default(),
        retention: RetentionConfig::default(),
        postgres: None,
        // Whoever tries webhooks has the receiver on this machine.
        webhooks: WebhooksConfig { allow_private_targets: true },
        token: Vec::new(),
    }
}

/// Where the node at `place` finds another: where that listens, or over the wire.
fn peer(wire: &Wire, place: &NodePlace, other: &NodePlace) -> PeerConfig {
    let entrance = wire.entrance(place.name.region, &other.name);
    let (api, peer) = entrance.map_or((other.api, other.peer), |way| (way.api, way.peer));
    PeerConfig {
        node: other.id,
        address: peer.to_string(),
        api_url: format!("http://{api}"),
        admin_url: None,
        region: Some(other.name.region.to_string()),
    }
}

fn regions(layout: &DevLayout) -> RegionsConfig {
    let names = layout.regions.iter().map(|(region, _)| region.to_string());
    let standbys = layout
        .standbys()
        .map(|(home, standby)| (home.to_string(), BTreeSet::from([standby.to_string()])));
    RegionsConfig {
        numbers: names.zip(0..).collect(),
        placement_voters: layout.first_nodes().map(|place| place.id).collect(),
        voucher_key_file: Some(folder::voucher_key(&layout.data)),
        standbys: standbys.collect(),
        standby_silence_seconds: RegionSettings::STANDBY_SILENCE.as_secs(),
        fail_over_after_seconds: layout.fail_over_after,
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).expect("a grace period is a few seconds")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dev::folder::DataFolder;
    use crate::dev::layout::NodesPerRegion;
    use crate::dev::wire::Distances;

    /// A node that knew the true address of one in another region would talk past the wire.
    #[tokio::test]
    async fn every_node_knows_its_region_as_it_is_and_all_others_over_the_wire() {
        let folder = DataFolder::open(None).unwrap();
        let nodes = folder.settle_nodes(Some(NodesPerRegion::Three)).unwrap();
        let layout = DevLayout::new(7_700, folder.path(), nodes);
        let wire = Wire::lay(&layout, Distances::default()).await.unwrap();
        let true_addresses: BTreeSet<String> =
            layout.nodes().map(|place| place.peer.to_string()).collect();
        for place in layout.nodes() {
            let settings = settings(&layout, &wire, place).unwrap();
            assert_eq!(settings.peers.len(), 8, "{}", place.name);
            assert!(settings.listen.ip().is_loopback() && settings.peer_listen.ip().is_loopback());
            for (node, peer) in settings.peers {
                let is_near = peer.region == place.name.region;
                let is_true = true_addresses.contains(&peer.address);
                assert_eq!(is_near, is_true, "{} to {node}: {peer:?}", place.name);
            }
            let regions = settings.regions.unwrap();
            let voters: Vec<u64> = regions.placement_voters.iter().map(|node| node.0).collect();
            assert_eq!(voters, [11, 21, 31], "one in each region");
            let standbys: Vec<String> = regions
                .standbys
                .iter()
                .flat_map(|(home, by)| by.iter().map(move |by| format!("{home} by {by}")))
                .collect();
            assert_eq!(standbys, ["ap by us", "eu by ap", "us by eu"], "each by another");
        }
        wire.end().await;
    }
}
