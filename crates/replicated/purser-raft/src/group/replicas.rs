//! What the others have of a leader's log, and waiting for it.

use std::time::Instant;

use openraft::ServerState;
use openraft::async_runtime::watch::WatchReceiver;

use crate::error::AcknowledgeError;
use crate::ids::NodeId;

use super::core::GroupCore;

/// What a leader knows of another replica's log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replica {
    /// The last entry that it has on its disk; `None` before the first.
    pub(crate) matched: Option<u64>,
    /// How many entries it lacks.
    pub(crate) lag: u64,
}

impl GroupCore {
    /// What `node` has, on a leader that replicates to it.
    pub(super) fn replica(&self, node: NodeId) -> Option<Replica> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let matched = metrics.replication.as_ref()?.get(&node)?.map(|matched| matched.index);
        let next = |index: Option<u64>| index.map_or(0, |index| index.saturating_add(1));
        let lag = next(metrics.last_log_index).saturating_sub(next(matched));
        Some(Replica { matched, lag })
    }

    /// How many entries `node` lacks, on a leader that replicates to it.
    pub(super) fn lag(&self, node: NodeId) -> Option<u64> {
        self.replica(node).map(|replica| replica.lag)
    }

    /// See [`crate::Group::acknowledged`].
    pub(crate) async fn acknowledged(
        &self,
        node: NodeId,
        index: u64,
        deadline: Instant,
    ) -> Result<(), AcknowledgeError> {
        let waiting = self.wait_for_match(node, index);
        match tokio::time::timeout_at(deadline.into(), waiting).await {
            Ok(outcome) => outcome,
            Err(_elapsed) => Err(AcknowledgeError::TimedOut),
        }
    }

    async fn wait_for_match(&self, node: NodeId, index: u64) -> Result<(), AcknowledgeError> {
        // Order matters: subscribed before the first look, so that no change is missed.
        let mut metrics = self.raft.metrics();
        loop {
            // All of one moment: who leads, and what it knows.
            let seen = metrics.borrow_watched().clone();
            if self.stop.reason().is_some() || seen.state == ServerState::Shutdown {
                return Err(AcknowledgeError::Stopped);
            }
            if seen.state != ServerState::Leader {
                let leader = seen.current_leader.filter(|leader| *leader != self.node);
                return Err(AcknowledgeError::NotLeader { leader });
            }
            let matched = seen.replication.as_ref().and_then(|known| known.get(&node)?.as_ref());
            if matched.is_some_and(|matched| matched.index >= index) {
                return Ok(());
            }
            metrics.changed().await.map_err(|_ended| AcknowledgeError::Stopped)?;
        }
    }
}
