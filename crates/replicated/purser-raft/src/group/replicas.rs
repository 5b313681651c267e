//! What the others have of a leader's log, and waiting for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use openraft::async_runtime::watch::WatchReceiver;
use openraft::{RaftMetrics, ServerState};
use tokio::sync::oneshot;

use crate::error::AcknowledgeError;
use crate::ids::NodeId;
use crate::raft::types::TypeConfig;

use super::core::GroupCore;

/// What a leader knows of another replica's log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replica {
    /// The last entry that it has on its disk; `None` before the first.
    pub(crate) matched: Option<u64>,
    /// How many entries it lacks.
    pub(crate) lag: u64,
}

/// Whose acknowledgment of which entry somebody waits for, and a number that tells callers apart.
type Awaited = (NodeId, u64, u64);

type Outcome = Result<(), AcknowledgeError>;

/// Callers that wait until another replica has an entry. One task looks for all of them, so that an
/// acknowledgment wakes those it is for and nobody else.
#[derive(Default)]
pub(crate) struct Acknowledgments {
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    callers: BTreeMap<Awaited, oneshot::Sender<Outcome>>,
    count: u64,
    /// Nobody looks any more.
    has_ended: bool,
}

/// Forgets a caller that does not wait any more.
struct Place<'a> {
    of: &'a Acknowledgments,
    awaited: Awaited,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.of.lock().callers.remove(&self.awaited);
    }
}

impl Acknowledgments {
    fn join(&self, node: NodeId, index: u64) -> (Place<'_>, oneshot::Receiver<Outcome>) {
        let (sender, outcome) = oneshot::channel();
        let mut waiting = self.lock();
        waiting.count = waiting.count.wrapping_add(1);
        let awaited = (node, index, waiting.count);
        if !waiting.has_ended {
            waiting.callers.insert(awaited, sender);
        }
        (Place { of: self, awaited }, outcome)
    }

    /// Tells callers for whom `judge` knows an outcome, asking it about each node's nearest entry
    /// first: who waits for a later one waits at least as long.
    fn tell(&self, judge: impl Fn(NodeId, u64) -> Option<Outcome>) {
        let mut waiting = self.lock();
        let mut next = waiting.callers.keys().next().copied();
        while let Some(awaited @ (node, index, _)) = next {
            let after = if let Some(outcome) = judge(node, index) {
                if let Some(caller) = waiting.callers.remove(&awaited) {
                    // Whoever has gone since does not want to know.
                    drop(caller.send(outcome));
                }
                awaited
            } else {
                (node, u64::MAX, u64::MAX)
            };
            next =
                waiting.callers.range(after..).map(|(awaited, _)| *awaited).find(|it| *it > after);
        }
    }

    /// Tells everybody, now and from now on, that it has stopped.
    fn end(&self) {
        let mut waiting = self.lock();
        waiting.has_ended = true;
        waiting.callers.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        // Order matters: waiting before the first look, so that no change is missed.
        let (_place, outcome) = self.acknowledgments.join(node, index);
        let seen = self.raft.metrics();
        if let Some(known) = self.judge(&seen.borrow_watched(), node, index) {
            return known;
        }
        match tokio::time::timeout_at(deadline.into(), outcome).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_ended)) => Err(AcknowledgeError::Stopped),
            Err(_elapsed) => Err(AcknowledgeError::TimedOut),
        }
    }

    /// What becomes of waiting for an entry, by what was seen at one moment. Nothing if it goes on.
    fn judge(&self, seen: &RaftMetrics<TypeConfig>, node: NodeId, index: u64) -> Option<Outcome> {
        if self.stop.reason().is_some() || seen.state == ServerState::Shutdown {
            return Some(Err(AcknowledgeError::Stopped));
        }
        if seen.state != ServerState::Leader {
            let leader = seen.current_leader.filter(|leader| *leader != self.node);
            return Some(Err(AcknowledgeError::NotLeader { leader }));
        }
        let matched = seen.replication.as_ref().and_then(|known| known.get(&node)?.as_ref());
        matched.is_some_and(|matched| matched.index >= index).then_some(Ok(()))
    }
}

/// Tells those who wait what becomes of it.
pub(super) async fn tell_acknowledgments(core: Arc<GroupCore>) {
    /// Ends the waiting however the task ends.
    struct Telling(Arc<GroupCore>);

    impl Drop for Telling {
        fn drop(&mut self) {
            self.0.acknowledgments.end();
        }
    }

    let Telling(core) = &Telling(core);
    let mut metrics = core.raft.metrics();
    loop {
        {
            // All of one moment: who leads, and what it knows.
            let seen = metrics.borrow_and_update();
            core.acknowledgments.tell(|node, index| core.judge(&seen, node, index));
        }
        if metrics.changed().await.is_err() {
            core.acknowledgments.end();
            // Why consensus has ended, the keeper says.
            return std::future::pending().await;
        }
    }
}
