//! The wide-area wire of a development cluster: what lies between its regions.
//!
//! ```text
//!        nodes of us                    the wire                     nodes of eu
//!  us/1 ── "eu/1 is at :41001" ──▶ listener :41001 ── 40 ms ──▶ eu/1, at :7720
//!  eu/1 ── "us/1 is at :41007" ──▶ listener :41007 ── 40 ms ──▶ us/1, at :7710
//! ```
//!
//! For each region and each port of each node elsewhere there is one listener, and the nodes of the
//! region are told that address as the other node's. So real nodes talk over real connections, know
//! nothing of the wire, and what they do when it is cut is what they do on any network.
//!
//! Within a region, and between clients and nodes, there is no wire.

mod distance;
mod pipe;
mod proxy;
#[cfg(test)]
mod tests;
mod weather;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

use purser_types::Region;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

use self::distance::RegionPair;
pub(crate) use self::distance::{DEFAULT_WAN, Delay, Distances, InvalidDistances};
use self::proxy::Proxy;
use self::weather::{Way, Weather};
use crate::dev::layout::{DevLayout, NodeName, NodePlace};

/// The wire between all regions of a cluster.
#[derive(Debug)]
pub(crate) struct Wire {
    weather: watch::Sender<Weather>,
    /// Each two regions, in the order of the layout.
    pairs: Vec<[Region; 2]>,
    /// Where the nodes of a region find a node elsewhere.
    entrances: BTreeMap<(Region, NodeName), Entrance>,
    proxies: Mutex<JoinSet<()>>,
}

/// Where a node of another region is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entrance {
    /// Its API.
    pub(crate) api: SocketAddr,
    /// Where its peers reach it.
    pub(crate) peer: SocketAddr,
}

/// A region's wire is not where one looked for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no region {0}")]
pub(crate) struct NoSuchRegion(pub(crate) Region);

/// What lies between two regions now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    /// The regions.
    pub(crate) regions: [Region; 2],
    /// Whether everything is lost.
    pub(crate) is_cut: bool,
    /// How long a message and its answer are under way.
    pub(crate) round_trip: std::time::Duration,
}

impl Wire {
    /// Lays the wire of a cluster whose regions are so far from each other.
    pub(crate) async fn lay(layout: &DevLayout, distances: Distances) -> io::Result<Self> {
        let weather = watch::Sender::new(Weather { distances, ..Weather::default() });
        let mut wire = Self {
            weather,
            pairs: Vec::new(),
            entrances: BTreeMap::new(),
            proxies: Mutex::default(),
        };
        for (at, (region, _)) in layout.regions.iter().enumerate() {
            let later = layout.regions.iter().skip(at + 1);
            wire.pairs.extend(later.map(|(other, _)| [*region, *other]));
            for place in layout.nodes().filter(|place| place.name.region != *region) {
                let entrance = wire.open_entrance(*region, place).await?;
                wire.entrances.insert((*region, place.name.clone()), entrance);
            }
        }
        Ok(wire)
    }

    async fn open_entrance(&mut self, from: Region, to: &NodePlace) -> io::Result<Entrance> {
        let way = Way::new(self.weather.subscribe(), from, to.name.clone());
        let api = Proxy::bind(to.api, way.clone()).await?;
        let peer = Proxy::bind(to.peer, way).await?;
        let entrance = Entrance { api: api.address(), peer: peer.address() };
        for proxy in [api, peer] {
            self.proxies.get_mut().spawn(async move {
                if let Err(error) = proxy.serve().await {
                    tracing::error!(%error, "a way between regions is gone until the next start");
                }
            });
        }
        Ok(entrance)
    }

    /// Where the nodes of `from` find the node `to` of another region.
    pub(crate) fn entrance(&self, from: Region, to: &NodeName) -> Option<Entrance> {
        self.entrances.get(&(from, to.clone())).copied()
    }

    /// What lies between each two regions.
    pub(crate) fn links(&self) -> Vec<Link> {
        let weather = self.weather.borrow();
        let link = |regions: &[Region; 2]| {
            let [one, other] = *regions;
            let pair = RegionPair::of(one, other);
            Link {
                regions: *regions,
                is_cut: weather.is_cut(pair),
                round_trip: weather.delay(pair).saturating_mul(2),
            }
        };
        self.pairs.iter().map(link).collect()
    }

    /// Cuts a region off from all others: everything under way from and to it is lost.
    pub(crate) fn cut(&self, region: Region) -> Result<(), NoSuchRegion> {
        self.change(region, weather::RegionWire::cut)?;
        tracing::warn!(%region, "cut off");
        Ok(())
    }

    /// Mends a region's wire, whatever was done to it. Connections from before a cut are closed.
    pub(crate) fn heal(&self, region: Region) -> Result<(), NoSuchRegion> {
        self.change(region, weather::RegionWire::heal)?;
        tracing::warn!(%region, "healed");
        Ok(())
    }

    /// Adds so much to each direction from and to a region, instead of what was added before.
    pub(crate) fn slow(&self, region: Region, by: Delay) -> Result<(), NoSuchRegion> {
        self.change(region, |wire| wire.slowed_by = by.duration())?;
        tracing::warn!(%region, by = ?by.duration(), "slowed down");
        Ok(())
    }

    fn change(
        &self,
        region: Region,
        change: impl FnOnce(&mut weather::RegionWire),
    ) -> Result<(), NoSuchRegion> {
        if !self.pairs.iter().any(|pair| pair.contains(&region)) {
            return Err(NoSuchRegion(region));
        }
        self.weather.send_modify(|weather| change(weather.regions.entry(region).or_default()));
        Ok(())
    }

    /// Says whether a node is gone: then nobody in another region can connect to it. Connections
    /// that there are end with the node.
    pub(crate) fn set_gone(&self, node: &NodeName, is_gone: bool) {
        self.weather.send_modify(|weather| {
            if is_gone {
                weather.gone.insert(node.clone());
            } else {
                weather.gone.remove(node);
            }
        });
    }

    /// Takes the wire down. Every connection over it is closed.
    pub(crate) async fn end(&self) {
        self.proxies.lock().await.shutdown().await;
    }
}
