//! `[regions]`: the regions of a cluster, and what they share.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use purser_placement::Standby;
use purser_raft::NodeId;
use purser_types::Region;
use serde::Deserialize;

use super::ConfigError;
use crate::settings::{PeerSettings, RegionNumber, RegionSettings, VoucherKey};

/// The longest that calls may have to wait for a silent standby.
const SILENCE_SECONDS_MAX: u64 = 60;

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
    /// A file with the secret that home signs vouchers with. A router needs none, and should have none.
    pub voucher_key_file: Option<PathBuf>,
    /// For each home the regions that stand by for it, such as `us = ["eu"]`: they follow its shards, its
    /// answers wait for them, and one of them takes over if the home is lost.
    #[serde(default)]
    pub standbys: BTreeMap<String, BTreeSet<String>>,
    /// After how many seconds a silent standby is not waited for any more.
    #[serde(default = "standby_silence")]
    pub standby_silence_seconds: u64,
    /// After how many seconds a region of which nothing is heard is failed over without being asked; left to
    /// operators if left out. More lets longer cuts heal by themselves; less has calls that only a home
    /// decides wait for less long.
    pub fail_over_after_seconds: Option<u64>,
}

const fn standby_silence() -> u64 {
    RegionSettings::STANDBY_SILENCE.as_secs()
}

impl RegionsConfig {
    pub(super) fn validate(
        &self,
        (node, own): (NodeId, Region),
        peers: &BTreeMap<NodeId, PeerSettings>,
    ) -> Result<RegionSettings, ConfigError> {
        let numbers = self.numbers(own, peers)?;
        let known: BTreeSet<NodeId> = peers.keys().copied().chain([node]).collect();
        let placement_voters = self.voters(&known)?;
        let standbys = self.standbys(&numbers)?;
        let region_of = |node: &NodeId| peers.get(node).map_or(own, |peer| peer.region);
        let voting = placement_voters.iter().map(region_of).collect();
        Ok(RegionSettings {
            fail_over_after: self.fail_over_after(&standbys, voting)?,
            placement_voters,
            voucher_key: self.voucher_key()?,
            standbys,
            standby_silence: self.silence()?,
            numbers,
        })
    }

    /// The regions, each with its number; those where somebody stands must be among them.
    pub(super) fn numbers(
        &self,
        own: Region,
        peers: &BTreeMap<NodeId, PeerSettings>,
    ) -> Result<BTreeMap<Region, RegionNumber>, ConfigError> {
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
        Ok(numbers)
    }

    /// The nodes that vote about who is home, all of them among `known`.
    pub(super) fn voters(&self, known: &BTreeSet<NodeId>) -> Result<BTreeSet<NodeId>, ConfigError> {
        let voters: BTreeSet<NodeId> = self.placement_voters.iter().copied().map(NodeId).collect();
        if voters.is_empty() {
            return Err(wrong("placement-voters names no node".to_owned()));
        }
        match voters.difference(known).next() {
            Some(stranger) => Err(wrong(format!("placement-voters: there is no node {stranger}"))),
            None => Ok(voters),
        }
    }

    fn voucher_key(&self) -> Result<VoucherKey, ConfigError> {
        const SECRET_BYTES_MIN: usize = 32;
        let missing = || wrong("voucher-key-file is missing".to_owned());
        let path = self.voucher_key_file.as_ref().ok_or_else(missing)?;
        let secret = std::fs::read(path)
            .map_err(|source| ConfigError::VoucherKey { path: path.clone(), source })?;
        let secret = secret.trim_ascii();
        if secret.len() < SECRET_BYTES_MIN {
            let file = path.display();
            return Err(wrong(format!("{file} has less than {SECRET_BYTES_MIN} bytes")));
        }
        Ok(VoucherKey::of(secret))
    }

    fn silence(&self) -> Result<Duration, ConfigError> {
        let silence = self.standby_silence_seconds;
        if !(1..=SILENCE_SECONDS_MAX).contains(&silence) {
            let limits = format!("must be from 1 to {SILENCE_SECONDS_MAX}");
            return Err(wrong(format!("standby-silence-seconds {limits}")));
        }
        Ok(Duration::from_secs(silence))
    }

    /// `voting` are the regions of Placement's voters, each as often as it has one.
    fn fail_over_after(
        &self,
        standbys: &BTreeMap<Region, BTreeSet<Region>>,
        voting: Vec<Region>,
    ) -> Result<Option<Duration>, ConfigError> {
        let wrong = |text: String| wrong(format!("fail-over-after-seconds {text}"));
        let Some(seconds) = self.fail_over_after_seconds else { return Ok(None) };
        let limits = RegionSettings::FAIL_OVER_SECONDS;
        if !limits.contains(&seconds) {
            let (min, max) = (limits.start(), limits.end());
            return Err(wrong(format!("must be from {min} to {max}")));
        }
        let followed = standbys.iter().filter(|(_, standbys)| !standbys.is_empty());
        let mut homes = followed.map(|(home, _)| *home).peekable();
        if homes.peek().is_none() {
            return Err(wrong("needs standbys: nobody could take over".to_owned()));
        }
        let decides = |lost: &Region| {
            let left = voting.iter().filter(|region| *region != lost).count();
            left > voting.len() / 2
        };
        match homes.find(|home| !decides(home)) {
            Some(home) => Err(wrong(format!(
                "needs a majority of placement-voters outside of {home}: nobody could decide without it"
            ))),
            None => Ok(Some(Duration::from_secs(seconds))),
        }
    }

    /// The standbys of each home.
    pub(super) fn standbys(
        &self,
        numbers: &BTreeMap<Region, RegionNumber>,
    ) -> Result<BTreeMap<Region, BTreeSet<Region>>, ConfigError> {
        let wrong = |text: String| wrong(format!("standbys: {text}"));
        let known = |name: &String| {
            let region = Region::parse(name).map_err(|error| wrong(format!("{name} {error}")))?;
            let is_known = numbers.contains_key(&region);
            if is_known { Ok(region) } else { Err(wrong(format!("there is no region {name}"))) }
        };
        let mut standbys = BTreeMap::new();
        for (home, names) in &self.standbys {
            let home = known(home)?;
            let of_home = names.iter().map(known).collect::<Result<BTreeSet<Region>, _>>()?;
            if of_home.contains(&home) {
                return Err(wrong(format!("{home} cannot stand by for itself")));
            }
            if of_home.len() > Standby::COUNT_MAX {
                return Err(wrong(format!("{home} has more than {}", Standby::COUNT_MAX)));
            }
            standbys.insert(home, of_home);
        }
        Ok(standbys)
    }
}

const fn wrong(text: String) -> ConfigError {
    ConfigError::Regions(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: [&str; 3] = ["us", "eu", "ap"];

    fn region(name: &str) -> Region {
        Region::parse(name).unwrap()
    }

    /// What three regions say about failing over, with Placement's voters in `voting`.
    fn fail_over_after(more: &str, voting: [&str; 3]) -> Result<Option<u64>, String> {
        let text = "numbers = { us = 0, eu = 1, ap = 2 }\nplacement-voters = [1, 2, 3]";
        let config: RegionsConfig = toml::from_str(&format!("{text}\n{more}")).unwrap();
        let number = |number| RegionNumber::from_u16(number).unwrap();
        let numbers = THREE.into_iter().map(region).zip((0..).map(number)).collect();
        let standbys = config.standbys(&numbers).unwrap();
        let after = config.fail_over_after(&standbys, voting.map(region).to_vec());
        after.map(|after| after.map(|after| after.as_secs())).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn check_refused(more: &str, voting: [&str; 3], expected: &str) {
        let text = fail_over_after(more, voting).unwrap_err();
        assert!(text.contains(expected), "{text:?} should contain {expected:?}");
    }

    #[test]
    fn failing_over_unasked_needs_patience_a_standby_and_somebody_who_decides() {
        let after = |seconds: u64| {
            format!("standbys = {{ us = [\"eu\"] }}\nfail-over-after-seconds = {seconds}")
        };
        assert_eq!(fail_over_after("standbys = { us = [\"eu\"] }", THREE), Ok(None));
        assert_eq!(fail_over_after(&after(30), THREE), Ok(Some(30)));
        let limits = "regions: fail-over-after-seconds must be from 10 to 3600";
        check_refused(&after(9), THREE, limits);
        check_refused(&after(3_601), THREE, limits);
        check_refused("fail-over-after-seconds = 30", THREE, "needs standbys");
        let nobody = "standbys = { us = [] }\nfail-over-after-seconds = 30";
        check_refused(nobody, THREE, "needs standbys");
        check_refused(
            &after(30),
            ["us", "us", "ap"],
            "a majority of placement-voters outside of us",
        );
        assert_eq!(fail_over_after(&after(30), ["eu", "eu", "ap"]), Ok(Some(30)));
    }
}
