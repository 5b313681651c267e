//! Where everything of a development cluster lies: names, ports and folders.
//!
//! ```text
//!  base           the front door
//!  base + 10·r    API of the first node of region r, its second and third on the next ports
//!  base + 10·r+5  how the nodes of region r reach each other, in the same order
//! ```

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use purser_types::Region;

/// The regions, in the order of their ports.
const REGIONS: &[&str] = &["us"];
/// Three, so that one may be down.
const NODES_PER_REGION: u16 = 3;
/// Ports that belong to one region.
const PORTS_PER_REGION: u16 = 10;
/// From a node's API to where its peers reach it.
const PEER_PORT_DISTANCE: u16 = 5;
/// The last base port that leaves room for every region that there may ever be here.
pub(crate) const BASE_PORT_MAX: u16 = 65_000;

/// A node by its region and its place there, from 1: `us/2`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeName {
    /// The region.
    pub(crate) region: Region,
    /// The place, from 1. It is also the node's id in its region's cluster.
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
}

impl DevLayout {
    /// Lays a cluster out from `base_port` on (at most [`BASE_PORT_MAX`]) and below `data`.
    pub(crate) fn new(base_port: u16, data: &Path) -> Self {
        let loopback = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut regions = Vec::new();
        let mut first_port = base_port;
        for name in REGIONS {
            first_port = first_port.saturating_add(PORTS_PER_REGION);
            let region = Region::parse(name).expect("the names above are regions");
            let nodes = (1..=NODES_PER_REGION).map(|place| {
                let port = first_port.saturating_add(place).saturating_sub(1);
                NodePlace {
                    name: NodeName { region, place },
                    api: loopback(port),
                    peer: loopback(port.saturating_add(PEER_PORT_DISTANCE)),
                    dir: data.join(format!("{name}-{place}")),
                }
            });
            regions.push((region, nodes.collect()));
        }
        Self { front_door: loopback(base_port), data: data.to_owned(), regions }
    }

    /// All nodes of all regions.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &NodePlace> {
        self.regions.iter().flat_map(|(_, nodes)| nodes)
    }

    /// The nodes of one node's region.
    pub(crate) fn region_of(&self, name: &NodeName) -> &[NodePlace] {
        let region = self.regions.iter().find(|(region, _)| *region == name.region);
        region.map(|(_, nodes)| nodes.as_slice()).unwrap_or_default()
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
    fn the_first_region_starts_ten_ports_above_the_front_door() {
        let layout = DevLayout::new(7_700, Path::new("data"));
        let ports: Vec<u16> = layout.nodes().map(|node| node.api.port()).collect();
        assert_eq!(ports, [7_710, 7_711, 7_712]);
        assert_eq!(layout.front_door.port(), 7_700);
    }

    #[test]
    fn no_two_listeners_share_a_port_and_none_leaves_the_machine() {
        let layout = DevLayout::new(BASE_PORT_MAX, Path::new("data"));
        let mut listeners = vec![layout.front_door];
        listeners.extend(layout.nodes().flat_map(|node| [node.api, node.peer]));
        assert!(listeners.iter().all(|listener| listener.ip().is_loopback()));
        let ports: BTreeSet<u16> = listeners.iter().map(SocketAddr::port).collect();
        assert_eq!(ports.len(), listeners.len());
    }
}
