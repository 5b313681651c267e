//! Where everything of a development cluster lies: names, ports and folders.
//!
//! ```text
//!  base           the front door
//!  base + 10·r    API of the first node of region r, its second and third on the next ports
//!  base + 10·r+5  how other nodes reach those of region r, in the same order
//! ```
//!
//! Not here: the ports of the wire between regions, which the system chooses.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::ValueEnum;
use purser_types::Region;

/// The regions, in the order of their ports and numbers.
const REGIONS: &[&str] = &["us", "eu", "ap"];
/// Ports that belong to one region.
const PORTS_PER_REGION: u16 = 10;
/// Node ids of one region; with ten, an id looks like the end of its node's port.
const IDS_PER_REGION: u64 = 10;
/// From a node's API to where its peers reach it.
const PEER_PORT_DISTANCE: u16 = 5;
/// The last base port that leaves room for every region that there may ever be here.
pub(crate) const BASE_PORT_MAX: u16 = 65_000;

/// How many nodes a region has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NodesPerRegion {
    /// The smallest: a region is there or it is not.
    #[value(name = "1")]
    One,
    /// One may be down.
    #[value(name = "3")]
    Three,
}

impl NodesPerRegion {
    /// The number.
    pub(crate) const fn count(self) -> u16 {
        match self {
            Self::One => 1,
            Self::Three => 3,
        }
    }

    /// The number that was written down as text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "1" => Some(Self::One),
            "3" => Some(Self::Three),
            _ => None,
        }
    }
}

/// A node by its region and its place there, from 1: `us/2`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeName {
    /// The region.
    pub(crate) region: Region,
    /// The place, from 1.
    pub(crate) place: u16,
}

/// The text is not a node's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a node is named by region and place, such as us/2")]
pub(crate) struct InvalidNodeName;

impl fmt::Display for NodeName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.region, self.place)
    }
}

impl FromStr for NodeName {
    type Err = InvalidNodeName;

    fn from_str(text: &str) -> Result<Self, InvalidNodeName> {
        let (region, place) = text.split_once('/').ok_or(InvalidNodeName)?;
        let region = Region::parse(region).map_err(|_invalid| InvalidNodeName)?;
        let place = place.parse().map_err(|_invalid| InvalidNodeName)?;
        if place == 0 { Err(InvalidNodeName) } else { Ok(Self { region, place }) }
    }
}

/// One node: its name, where it listens, where its data lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodePlace {
    /// Its name.
    pub(crate) name: NodeName,
    /// Its id in the cluster: 11 for us/1, 22 for eu/2.
    pub(crate) id: u64,
    /// Where its API listens.
    pub(crate) api: SocketAddr,
    /// Where its peers reach it.
    pub(crate) peer: SocketAddr,
    /// Its data folder.
    pub(crate) dir: PathBuf,
}

/// A development cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DevLayout {
    /// Where the front door listens.
    pub(crate) front_door: SocketAddr,
    /// The folder of all data.
    pub(crate) data: PathBuf,
    /// The regions with their nodes, in the order of their ports.
    pub(crate) regions: Vec<(Region, Vec<NodePlace>)>,
    /// After how many seconds of silence a region is failed over by itself, if it is.
    pub(crate) fail_over_after: Option<u64>,
}

impl DevLayout {
    /// Lays a cluster out from `base_port` on (at most [`BASE_PORT_MAX`]) and below `data`.
    pub(crate) fn new(base_port: u16, data: &Path, nodes: NodesPerRegion) -> Self {
        let loopback = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut regions = Vec::new();
        let (mut first_port, mut first_id) = (base_port, 0);
        for region in Self::region_names() {
            first_port = first_port.saturating_add(PORTS_PER_REGION);
            first_id += IDS_PER_REGION;
            let nodes = (1..=nodes.count()).map(|place| {
                let port = first_port.saturating_add(place).saturating_sub(1);
                NodePlace {
                    name: NodeName { region, place },
                    id: first_id + u64::from(place),
                    api: loopback(port),
                    peer: loopback(port.saturating_add(PEER_PORT_DISTANCE)),
                    dir: data.join(format!("{region}-{place}")),
                }
            });
            regions.push((region, nodes.collect()));
        }
        let (front_door, data) = (loopback(base_port), data.to_owned());
        Self { front_door, data, regions, fail_over_after: None }
    }

    /// The regions of every development cluster, in the order of their ports.
    pub(crate) fn region_names() -> Vec<Region> {
        let names = REGIONS.iter().map(|name| Region::parse(name));
        names.map(|region| region.expect("the names above are regions")).collect()
    }

    /// Each region with the one that stands by for its homes: the next, so that any may be lost.
    pub(crate) fn standbys(&self) -> impl Iterator<Item = (Region, Region)> {
        let homes = self.regions.iter().map(|(region, _)| *region);
        homes.clone().zip(homes.cycle().skip(1))
    }

    /// All nodes of all regions.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &NodePlace> {
        self.regions.iter().flat_map(|(_, nodes)| nodes)
    }

    /// The first node of each region.
    pub(crate) fn first_nodes(&self) -> impl Iterator<Item = &NodePlace> {
        self.regions.iter().filter_map(|(_, nodes)| nodes.first())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_node_is_named_by_region_and_place() {
        let name: NodeName = "us/2".parse().unwrap();
        assert_eq!(name.to_string(), "us/2");
        for odd in ["", "us", "us/", "/2", "us/0", "us/-1", "US/1", "us/2/3"] {
            assert_eq!(odd.parse::<NodeName>(), Err(InvalidNodeName), "{odd:?}");
        }
    }

    #[test]
    fn each_region_starts_ten_ports_further_on() {
        let ports = |nodes| {
            let layout = DevLayout::new(7_700, Path::new("data"), nodes);
            assert_eq!(layout.front_door.port(), 7_700);
            layout.nodes().map(|node| node.api.port()).collect::<Vec<_>>()
        };
        assert_eq!(ports(NodesPerRegion::One), [7_710, 7_720, 7_730]);
        let three = [7_710, 7_711, 7_712, 7_720, 7_721, 7_722, 7_730, 7_731, 7_732];
        assert_eq!(ports(NodesPerRegion::Three), three);
    }

    #[test]
    fn no_two_nodes_share_an_id_or_a_port_and_none_leaves_the_machine() {
        let layout = DevLayout::new(BASE_PORT_MAX, Path::new("data"), NodesPerRegion::Three);
        let mut listeners = vec![layout.front_door];
        listeners.extend(layout.nodes().flat_map(|node| [node.api, node.peer]));
        assert!(listeners.iter().all(|listener| listener.ip().is_loopback()));
        let ports: BTreeSet<u16> = listeners.iter().map(SocketAddr::port).collect();
        assert_eq!(ports.len(), listeners.len());
        let ids: BTreeSet<u64> = layout.nodes().map(|node| node.id).collect();
        assert_eq!(ids.len(), layout.nodes().count());
    }
}
