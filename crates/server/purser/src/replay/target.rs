//! What is called: the nodes of one region or of several, and the front door if there is one.
//!
//! ```text
//!  GET /dev/status at the first address ─┬─ a development cluster ─▶ the nodes of all its regions
//!                                        └─ 404, a node ─▶ GET /admin/v1/cluster at each address
//! ```
//!
//! A front door spreads calls as it likes; who wants them to come in at a certain region must call
//! that region's nodes. So the nodes are called, except where there is one region.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use hyper::StatusCode;
use purser_api::{ClusterAnswer, paths};
use purser_types::Region;

use super::caller::{Call, Caller, CallerSettings};
use super::connection::Address;
use super::front_door::FrontDoor;
use super::spread::Spread;
use super::{ReplayError, wire};
use crate::dev::control::{STATUS, StatusAnswer};
use crate::dev::layout::NodeName;

/// See the module's documentation.
pub(crate) struct Target {
    /// Whom to call.
    pub(crate) addresses: Vec<Address>,
    /// The regions, if there are several, and which of the addresses are theirs.
    pub(crate) regions: Vec<(Region, Range<usize>)>,
    /// The front door of a development cluster.
    pub(crate) front_door: Option<FrontDoor>,
}

impl Target {
    /// Asks the addresses of `settings` what they are.
    pub(crate) async fn find(settings: &CallerSettings) -> Result<Self, ReplayError> {
        let first = settings.addresses.first().ok_or(ReplayError::Unreached)?;
        let decided = ask(settings, first, STATUS).await?;
        let (front_door, nodes) = if decided.status == StatusCode::OK {
            let status: StatusAnswer = serde_json::from_slice(&decided.body)
                .map_err(|error| ReplayError::Wire(error.into()))?;
            (Some(FrontDoor::at(first.clone(), settings)), nodes_of(&status)?)
        } else {
            (None, ask_each(settings).await?)
        };
        if nodes.len() < 2 {
            let addresses = settings.addresses.clone();
            return Ok(Self { addresses, regions: Vec::new(), front_door });
        }
        let (mut addresses, mut regions) = (Vec::new(), Vec::new());
        for (region, theirs) in nodes {
            let from = addresses.len();
            addresses.extend(theirs);
            regions.push((region, from..addresses.len()));
        }
        Ok(Self { addresses, regions, front_door })
    }

    /// How calls are to be spread over the regions, if there are several.
    pub(crate) fn spread(&self, strict_percent: u64, seed: u64) -> Option<Spread> {
        let regions: Vec<Region> = self.regions.iter().map(|(region, _)| *region).collect();
        (!regions.is_empty()).then(|| Spread::new(regions, strict_percent, seed))
    }

    /// Whom to call, as a caller wants to know it.
    pub(crate) fn settings(&self, settings: CallerSettings) -> CallerSettings {
        let regions = self.regions.iter().map(|(_, addresses)| addresses.clone()).collect();
        CallerSettings { addresses: self.addresses.clone(), regions, ..settings }
    }
}

type Nodes = BTreeMap<Region, Vec<Address>>;

fn nodes_of(status: &StatusAnswer) -> Result<Nodes, ReplayError> {
    let mut nodes = Nodes::new();
    for node in &status.nodes {
        let odd = || ReplayError::Control { path: STATUS.to_owned(), text: node.node.clone() };
        let name: NodeName = node.node.parse().map_err(|_invalid| odd())?;
        let address: Address = node.api.parse().map_err(|_invalid| odd())?;
        nodes.entry(name.region).or_default().push(address);
    }
    Ok(nodes)
}

async fn ask_each(settings: &CallerSettings) -> Result<Nodes, ReplayError> {
    let mut nodes = Nodes::new();
    for address in &settings.addresses {
        let what = paths::ADMIN_CLUSTER;
        let decided = ask(settings, address, what).await?;
        let cluster = wire::read::<ClusterAnswer>(&decided)?
            .map_err(|refusal| ReplayError::Refused { what: what.to_owned(), refusal })?;
        nodes.entry(cluster.region.0).or_default().push(address.clone());
    }
    Ok(nodes)
}

/// What one address answers to a read.
pub(super) async fn ask(
    settings: &CallerSettings,
    address: &Address,
    path: &str,
) -> Result<super::caller::Decided, ReplayError> {
    let addresses = vec![address.clone()];
    let settings = CallerSettings { addresses, regions: Vec::new(), ..settings.clone() };
    let caller = Caller::new(settings, Arc::default());
    Ok(caller.decide(&Call::read(path.to_owned())).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dev::control::{NodeState, NodeStatus};

    #[test]
    fn the_nodes_of_a_development_cluster_are_found_by_region() {
        let node = |name: &str, port: u16| NodeStatus {
            node: name.to_owned(),
            id: 1,
            state: NodeState::Running,
            api: format!("http://127.0.0.1:{port}"),
            reason: None,
        };
        let nodes = vec![node("us/1", 1), node("us/2", 2), node("eu/1", 3)];
        let nodes = nodes_of(&StatusAnswer { nodes, links: Vec::new() }).unwrap();
        let us = &nodes[&Region::parse("us").unwrap()];
        assert_eq!(us.len(), 2);
        assert_eq!(nodes[&Region::parse("eu").unwrap()][0].to_string(), "http://127.0.0.1:3");
        let odd = vec![node("us", 1)];
        assert!(nodes_of(&StatusAnswer { nodes: odd, links: Vec::new() }).is_err());
    }
}
