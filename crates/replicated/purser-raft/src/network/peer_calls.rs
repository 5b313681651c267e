//! Asking other nodes, for a node and for a process that is none.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use crate::ids::{ClusterId, NodeId};
use crate::tasks::Tasks;

use super::calls::CallError;
use super::links::Links;
use super::switch::PeerSwitch;

/// A way to ask other nodes what their [`crate::CallHandler`]s answer. Clones share connections.
#[derive(Clone)]
pub struct PeerCalls {
    links: Links,
    node: NodeId,
}

impl PeerCalls {
    /// That of a node.
    pub(crate) const fn of_node(node: NodeId, links: Links) -> Self {
        Self { links, node }
    }

    /// That of a process that takes part in no group: it has no data folder, and nobody asks it.
    /// `node` is the number under which others see it, which no node has.
    pub fn outside(
        (cluster, node): (ClusterId, NodeId),
        peers: BTreeMap<NodeId, String>,
        switch: PeerSwitch,
    ) -> Self {
        let on_connected = Arc::default();
        let links = Links::new((cluster, node), peers, switch, Tasks::new(), on_connected);
        Self { links, node }
    }

    /// Asks another node, and waits for what its handler answers until `deadline`.
    ///
    /// A body has at most 4 MiB, in both directions. Calls to one node overlap, up to 512; further
    /// ones wait for their turn. They delay nothing that groups say to each other. Whoever asks is
    /// not asked: that is refused, as a mistake of the program.
    pub async fn call(
        &self,
        node: NodeId,
        body: Bytes,
        deadline: Instant,
    ) -> Result<Bytes, CallError> {
        if node == self.node {
            return Err(CallError::Refused { detail: "a node does not call itself".to_owned() });
        }
        self.links.call(node, body, deadline).await
    }

    /// Ends all connections, and whatever waits for an answer on them. Those of a node end with it.
    pub async fn end(&self) {
        self.links.end().await;
    }
}
