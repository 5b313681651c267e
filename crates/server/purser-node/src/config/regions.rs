//! `[regions]`: the regions of a cluster, and what they share.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use purser_raft::NodeId;
use purser_types::Region;
use serde::Deserialize;

use super::ConfigError;
use crate::settings::{PeerSettings, RegionNumber, RegionSettings, VoucherKey};

/// `[regions]`: the same on all nodes of the cluster.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RegionsConfig {
    /// The regions' names and numbers, such as `us = 0`. A number says which groups are a region's,
    /// so it stays with its region for good.
    pub numbers: BTreeMap<String, u16>,
    /// The nodes that vote about who is home: best one in each of at least three regions, so that
    /// the loss of one region stops nobody.
    pub placement_voters: BTreeSet<u64>,
    /// A file with the secret that home signs vouchers with.
    pub voucher_key_file: PathBuf,
}

impl RegionsConfig {
    pub(super) fn validate(
        &self,
        (node, own): (NodeId, Region),
        peers: &BTreeMap<NodeId, PeerSettings>,
    ) -> Result<RegionSettings, ConfigError> {
        let wrong = |text: String| ConfigError::Regions(text);
        let mut numbers = BTreeMap::new();
        let mut used = BTreeSet::new();
        for (name, number) in &self.numbers {
            let region = Region::parse(name).map_err(|error| wrong(format!("{name} {error}")))?;
            let checked = RegionNumber::from_u16(*number).ok_or_else(|| {
                wrong(format!("the number of {name} may be at most {}", RegionNumber::MAX))
            })?;
            if !used.insert(checked) {
                return Err(wrong(format!("two regions have the number {number}")));
            }
            numbers.insert(region, checked);
        }
        for region in peers.values().map(|peer| peer.region).chain([own]) {
            if !numbers.contains_key(&region) {
                return Err(wrong(format!("{region} has no number")));
            }
        }
        let placement_voters: BTreeSet<NodeId> =
            self.placement_voters.iter().copied().map(NodeId).collect();
        if placement_voters.is_empty() {
            return Err(wrong("placement-voters names no node".to_owned()));
        }
        let is_known = |voter: &&NodeId| **voter == node || peers.contains_key(voter);
        if let Some(stranger) = placement_voters.iter().find(|voter| !is_known(voter)) {
            return Err(wrong(format!("placement-voters: there is no node {stranger}")));
        }
        let path = &self.voucher_key_file;
        let secret = std::fs::read(path)
            .map_err(|source| ConfigError::VoucherKey { path: path.clone(), source })?;
        const SECRET_BYTES_MIN: usize = 32;
        let secret = secret.trim_ascii();
        if secret.len() < SECRET_BYTES_MIN {
            let file = path.display();
            return Err(wrong(format!("{file} has less than {SECRET_BYTES_MIN} bytes")));
        }
        Ok(RegionSettings { numbers, placement_voters, voucher_key: VoucherKey::of(secret) })
    }
}
