//! Cuts connections on purpose.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::ids::NodeId;

/// Cuts this node off from others on purpose: for tests, and for showing people what happens.
/// Clones are the same switch.
#[derive(Debug, Clone, Default)]
pub struct PeerSwitch {
    cuts: Arc<RwLock<BTreeMap<NodeId, Cut>>>,
}

/// What of a connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Nothing leaves for the peer.
    Outgoing,
    /// Nothing arrives from the peer, who is told nothing of that: it waits as for lost packets.
    Incoming,
    /// Neither, and whoever tries notices at once.
    Both,
}

impl PeerSwitch {
    /// Cuts the connections with `peer`, in place of what was cut before.
    pub fn cut(&self, peer: NodeId, cut: Cut) {
        self.cuts.write().unwrap_or_else(PoisonError::into_inner).insert(peer, cut);
    }

    /// Undoes what was cut with `peer`.
    pub fn heal(&self, peer: NodeId) {
        self.cuts.write().unwrap_or_else(PoisonError::into_inner).remove(&peer);
    }

    /// Whether something may be sent to `peer`.
    pub(crate) fn lets_out(&self, peer: NodeId) -> bool {
        !matches!(self.cut_of(peer), Some(Cut::Outgoing | Cut::Both))
    }

    /// Whether something from `peer` may be heard.
    pub(crate) fn lets_in(&self, peer: NodeId) -> bool {
        !matches!(self.cut_of(peer), Some(Cut::Incoming | Cut::Both))
    }

    fn cut_of(&self, peer: NodeId) -> Option<Cut> {
        self.cuts.read().unwrap_or_else(PoisonError::into_inner).get(&peer).copied()
    }
}
