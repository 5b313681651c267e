//! The handle to one replicated machine.

mod change;
pub(crate) mod core;
mod keeper;
pub(crate) mod replicas;
mod whole;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use purser_types::{HistoryReader, LogTime, Machine, Span};
use tokio::sync::{Semaphore, watch};

use crate::clock::{self, ClockVerdict};
use crate::error::{AcknowledgeError, ChangeError, ProposeError, ReadError, StopReason};
use crate::history::GroupHistory;
use crate::host::Leading;
use crate::ids::{GroupId, NodeId};
use crate::proposer::{Proposer, Queue, queue};
use crate::raft::state_machine::HostedMachine;
use crate::status::GroupStatus;
use crate::wal::Wal;

use self::core::GroupCore;
use self::keeper::Keeper;
pub use self::whole::{Whole, WholeError};

/// A replicated machine, as its owner uses it. Clones are cheap and all mean the same group.
pub struct Group<M: Machine> {
    pub(crate) core: Arc<GroupCore>,
    pub(crate) hosted: Arc<HostedMachine<M>>,
    queue: Arc<Queue<M::Answer>>,
}

impl<M: Machine> Group<M> {
    /// Starts the group's tasks.
    pub(crate) fn start(
        core: Arc<GroupCore>,
        hosted: Arc<HostedMachine<M>>,
        wal: Arc<Wal>,
    ) -> Self {
        let settings = core.settings;
        let (queue, queued) = queue(settings.queue_commands, settings.queue_bytes);
        let queue = Arc::new(queue);
        let proposer = Proposer::new(Arc::clone(&core), Arc::clone(&hosted), queued);
        core.tasks.spawn_vital("proposer", &core.stop, proposer.run());
        let length = Arc::clone(&queue);
        let swept = Arc::clone(&hosted);
        let keeper = Keeper {
            core: Arc::clone(&core),
            wal,
            queued: Box::new(move || length.length()),
            sweep: Box::new(move || swept.waiters.sweep()),
            handing_over: Arc::new(Semaphore::new(1)),
        };
        core.tasks.spawn_vital("keeper", &core.stop, keeper.run());
        let telling = replicas::tell_acknowledgments(Arc::clone(&core));
        core.tasks.spawn_vital("acknowledgments", &core.stop, telling);
        Self { core, hosted, queue }
    }

    /// Which group this is.
    pub fn id(&self) -> GroupId {
        self.core.id
    }

    /// Puts a command into the log and waits until this node has applied it.
    ///
    /// `deadline` bounds the wait; beyond it the answer is [`ProposeError::OutcomeUnknown`]. Every
    /// other error means that nothing happened and that nothing will. A new leader refuses as if it
    /// did not lead, without naming another, until it knows the clocks of a majority.
    pub async fn propose(
        &self,
        command: Bytes,
        deadline: Instant,
    ) -> Result<M::Answer, ProposeError> {
        self.propose_indexed(command, deadline).await.map(|(answer, _index)| answer)
    }

    /// As [`Group::propose`], and gives with the answer the index of the entry that the command is
    /// in: what [`Group::acknowledged`] waits for.
    pub async fn propose_indexed(
        &self,
        command: Bytes,
        deadline: Instant,
    ) -> Result<(M::Answer, u64), ProposeError> {
        if self.core.stop.reason().is_some() {
            return Err(ProposeError::Stopped);
        }
        // Told at once, without a turn in the queue.
        if let Some(other) = self.core.not_leader() {
            return Err(ProposeError::NotLeader { leader: other.leader });
        }
        self.queue.propose(command, deadline).await
    }

    /// Waits until this node has applied everything that was committed when the call was made,
    /// and was confirmed as leader by a majority since. A [`Group::view`] after that is
    /// linearizable.
    pub async fn read_barrier(&self, deadline: Instant) -> Result<(), ReadError> {
        self.core.read_barrier(deadline).await
    }

    /// Waits until `node`, a follower or learner, has acknowledged the entry at `index` as on its
    /// disk. Only a leader is told of it, this node from the moment it leads.
    ///
    /// It says something only of an entry that is known to be committed, as by
    /// [`Group::propose_indexed`]: of another one it may have been a later leader's in its place.
    pub async fn acknowledged(
        &self,
        node: NodeId,
        index: u64,
        deadline: Instant,
    ) -> Result<(), AcknowledgeError> {
        self.core.acknowledged(node, index, deadline).await
    }

    /// Who leads, as far as this node knows.
    pub fn leader(&self) -> Option<NodeId> {
        self.core.leader()
    }

    /// Whether this node leads.
    pub fn is_leading(&self) -> bool {
        self.core.not_leader().is_none()
    }

    /// Takes entries of this leader from now on, in a group that was opened with
    /// [`Hearing::Only`](crate::Hearing::Only). Refuses one that has led before the one that is heard. Whether
    /// it is heard.
    pub fn hear(&self, leader: Leading) -> bool {
        self.core.ports.hear(self.core.id, leader)
    }

    /// The term in which this node leads; `None` if it does not.
    pub fn leading_term(&self) -> Option<u64> {
        self.core.leading_term()
    }

    /// Index of the last entry of which a [look](Group::view) before this call may have shown something:
    /// what was seen does not rest on any later one.
    pub fn shown_index(&self) -> Option<u64> {
        self.core.applied.shown_index()
    }

    /// Index of the last entry that `node` has acknowledged as on its disk, on a leader: what
    /// [`Group::acknowledged`] waits for, without waiting.
    pub fn acknowledged_index(&self, node: NodeId) -> Option<u64> {
        self.core.replica(node)?.matched
    }

    /// Looks at the machine and its history as they are on this node now: after a
    /// [`Group::read_barrier`] linearizable, otherwise as stale as this node is.
    ///
    /// Applying waits for `look`, so it should be short; [`Group::machine`] is for long looks.
    ///
    /// # Panics
    ///
    /// If the machine stopped in the middle of an entry: it is not shown half applied.
    pub fn view<T>(&self, look: impl FnOnce(&M, &dyn HistoryReader) -> T) -> T {
        self.hosted.view(&self.core.history, look)
    }

    /// The machine as it is on this node now.
    ///
    /// # Panics
    ///
    /// As [`Group::view`] does.
    pub fn machine(&self) -> M {
        self.hosted.machine()
    }

    /// The machine with all entries up to `index`, and none behind it: what replicas are compared by.
    ///
    /// It comes when the next command behind `index` is about to be applied; so whoever leads should propose
    /// commands meanwhile. Nothing if this node is beyond `index`, or a snapshot has taken its machine's
    /// place.
    pub async fn machine_at(&self, index: u64) -> Option<M> {
        let wanted = self.hosted.want(index);
        // Order matters: what is begun from here on is held against what is wanted.
        if self.shown_index() > Some(index) {
            return None;
        }
        wanted.await.ok()
    }

    /// Reads the group's history. Clones are cheap.
    pub fn history(&self) -> GroupHistory {
        self.core.history.clone()
    }

    /// What a read on the leader uses as "now": the larger of the highest stamp applied and this
    /// node's clock. A clock that runs ahead, or that nobody has compared yet, does not count.
    pub fn now(&self) -> LogTime {
        let (applied, now) = (self.core.applied.stamp(), self.core.clocks.now());
        match self.core.judge_clock(now).sure() {
            Some(ClockVerdict::Good | ClockVerdict::Behind) => applied.max(now),
            Some(ClockVerdict::Ahead) | None => applied,
        }
    }

    /// How long ago a stamp that this node has applied was given, by this node's clock; `None` if
    /// the clock cannot tell. A clock that runs ahead tells more than it was. Never less than the
    /// time for which this node has applied nothing.
    pub fn age_of(&self, stamp: LogTime) -> Option<Span> {
        let now = self.core.clocks.now();
        let verdict = self.core.judge_clock(now).sure();
        clock::age(now, stamp, verdict, self.core.applied.since_stamped())
    }

    /// Numbers about the group, as of this call.
    pub fn status(&self) -> GroupStatus {
        self.core.current_status(self.queue.length())
    }

    /// Numbers about the group, whenever they change: role, leader and members at once, the rest
    /// at least once a second.
    pub fn watch(&self) -> watch::Receiver<GroupStatus> {
        self.core.status.subscribe()
    }

    /// Makes `voters` the group's first members, if it has none. Idempotent; every one of them may
    /// call it, with the same voters.
    pub async fn bootstrap(&self, voters: BTreeSet<NodeId>) -> Result<(), ChangeError> {
        self.core.bootstrap(&voters).await
    }

    /// Hands leadership to `to`, which must be a voter that lacks nothing, and waits until another
    /// node leads.
    pub async fn transfer_leadership(
        &self,
        to: NodeId,
        deadline: Instant,
    ) -> Result<(), ChangeError> {
        self.core.transfer_leadership(to, deadline).await
    }

    /// Adds a node that gets the log without voting, and waits until that is committed; not until
    /// the node has caught up ([`GroupStatus::lag_entries`] tells).
    pub async fn add_learner(&self, node: NodeId, deadline: Instant) -> Result<(), ChangeError> {
        self.core.add_learner(node, deadline).await
    }

    /// Makes `voters` the voters. New ones must be learners that have caught up. Voters that are
    /// not named leave the group.
    ///
    /// After [`ChangeError::OutcomeUnknown`] the group may need the majorities of both the old and
    /// the new voters; the same call again goes on from there.
    pub async fn change_membership(
        &self,
        voters: BTreeSet<NodeId>,
        deadline: Instant,
    ) -> Result<(), ChangeError> {
        self.core.change_membership(voters, deadline).await
    }

    /// Starts taking a snapshot, if none is being taken. [`GroupStatus::snapshot_index`] tells when
    /// it is done.
    pub async fn trigger_snapshot(&self) -> Result<(), ChangeError> {
        self.core.trigger_snapshot().await
    }

    /// Resolves when the group has stopped on this node, with the reason.
    pub async fn stopped(&self) -> StopReason {
        self.core.stop.stopped().await
    }

    /// Stops the group on this node: hands leadership over if it can within `deadline`, answers
    /// what waits, ends the group's tasks. Returns when nobody writes the group's files any more; it
    /// can be opened again then, and not before.
    pub async fn shutdown(&self, deadline: Instant) {
        self.core.end(Some(deadline)).await;
    }
}

impl<M: Machine> Clone for Group<M> {
    fn clone(&self) -> Self {
        Self {
            core: Arc::clone(&self.core),
            hosted: Arc::clone(&self.hosted),
            queue: Arc::clone(&self.queue),
        }
    }
}
