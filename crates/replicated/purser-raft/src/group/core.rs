//! The part of a group that does not depend on its machine.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openraft::async_runtime::watch::WatchReceiver;
use openraft::error::{ClientWriteError, InitializeError, LinearizableReadError, RaftError};
use openraft::{EmptyNode, ReadPolicy, ServerState};
use purser_types::LogTime;
use tokio::sync::{Mutex, watch};
use tokio_util::task::TaskTracker;

use crate::clock::{ClockVerdict, Judgement};
use crate::error::{ChangeError, ReadError, StopReason};
use crate::history::GroupHistory;
use crate::host::Registration;
use crate::ids::{GroupId, NodeId};
use crate::network::clocks::Clocks;
use crate::network::links::Links;
use crate::network::server::Ports;
use crate::proposer::ProposerCounters;
use crate::raft::Raft;
use crate::raft::group_log::GroupLog;
use crate::raft::state_machine::{Applied, Hosted};
use crate::raft::types::{TypeConfig, with_empty_nodes};
use crate::settings::{GroupSettings, RaftTimings};
use crate::snapshot::SnapshotStore;
use crate::snapshot::incoming::Incoming;
use crate::status::{GroupStatus, Role};
use crate::tasks::{Stop, Tasks};

use super::change::{Steps, change_error};
use super::replicas::{Acknowledgments, Replica};

/// Entries that a follower may lack when proposing stops for it to catch up: what is in flight
/// anyway.
const TRANSFER_LAG_MAX: u64 = 8;

/// How often a transfer looks whether its target has caught up.
const TRANSFER_LOOK_PERIOD: Duration = Duration::from_millis(10);

/// A group without its machine.
pub(crate) struct GroupCore {
    pub(crate) id: GroupId,
    pub(crate) node: NodeId,
    pub(crate) settings: GroupSettings,
    pub(crate) timings: RaftTimings,
    pub(crate) raft: Raft,
    pub(crate) hosted: Arc<dyn Hosted>,
    pub(crate) log: Arc<GroupLog>,
    pub(crate) history: GroupHistory,
    pub(crate) snapshots: Arc<SnapshotStore>,
    pub(crate) applied: Arc<Applied>,
    pub(crate) clocks: Clocks,
    pub(crate) proposer: ProposerCounters,
    pub(crate) status: watch::Sender<GroupStatus>,
    pub(crate) leads: watch::Sender<bool>,
    /// `true` while commands wait in the queue because leadership is being handed over.
    pub(crate) paused: watch::Sender<bool>,
    /// Whether that is so and no entry of this node's is in flight. The proposer says it.
    pub(crate) is_quiet: watch::Sender<bool>,
    pub(crate) acknowledgments: Acknowledgments,
    pub(crate) stop: Stop,
    pub(crate) tasks: Tasks,
    pub(crate) ports: Ports,
    pub(crate) links: Links,
    pub(crate) incoming: Arc<Incoming>,
    /// Everybody who may write the group's files.
    pub(crate) writers: TaskTracker,
    /// Where the group is registered for as long as it may write.
    pub(crate) registration: Registration,
    /// Held while the group is being ended, so that the second who asks waits for the first.
    pub(crate) ending: Mutex<bool>,
}

/// That this node does not lead, and who does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NotLeading {
    pub(crate) leader: Option<NodeId>,
}

impl GroupCore {
    /// Becomes `true` and `false` with the leadership of this node.
    pub(crate) fn leadership(&self) -> watch::Receiver<bool> {
        self.leads.subscribe()
    }

    /// Who leads instead, if this node does not.
    pub(crate) fn not_leader(&self) -> Option<NotLeading> {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        if metrics.state == ServerState::Leader {
            return None;
        }
        // A leader that has just been deposed may still be named, and it may be this node.
        let leader = metrics.current_leader.filter(|leader| *leader != self.node);
        Some(NotLeading { leader })
    }

    /// Who leads, as far as this node knows.
    pub(crate) fn leader(&self) -> Option<NodeId> {
        self.raft.server_metrics().borrow_watched().current_leader
    }

    /// The term in which this node leads.
    pub(crate) fn leading_term(&self) -> Option<u64> {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        (metrics.state == ServerState::Leader).then(|| metrics.vote.leader_id().term)
    }

    /// What this node's clock is worth among the group's voters when it says `now`.
    pub(crate) fn judge_clock(&self, now: LogTime) -> Judgement {
        self.clocks.judge(self.node, now, &self.voters())
    }

    pub(crate) fn voters(&self) -> BTreeSet<NodeId> {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        metrics.membership_config.voter_ids().collect()
    }

    pub(crate) async fn read_barrier(&self, deadline: Instant) -> Result<(), ReadError> {
        if self.stop.reason().is_some() {
            return Err(ReadError::Stopped);
        }
        let confirming = self.raft.ensure_linearizable(ReadPolicy::ReadIndex);
        match tokio::time::timeout_at(deadline.into(), confirming).await {
            Ok(Ok(_applied)) => Ok(()),
            Ok(Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(forward)))) => {
                Err(ReadError::NotLeader { leader: forward.leader_id })
            }
            Ok(Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_)))) | Err(_) => {
                Err(ReadError::TimedOut)
            }
            Ok(Err(RaftError::Fatal(_))) => Err(ReadError::Stopped),
        }
    }

    pub(crate) async fn bootstrap(&self, voters: &BTreeSet<NodeId>) -> Result<(), ChangeError> {
        match self.raft.initialize(with_empty_nodes(voters)).await {
            // Not allowed: the group has members or a leader already.
            Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Ok(()),
            Err(RaftError::APIError(InitializeError::NotInMembers(_))) => {
                Err(ChangeError::Refused("this node is not among the voters".to_owned()))
            }
            Err(RaftError::Fatal(_)) => Err(ChangeError::Stopped),
        }
    }

    pub(crate) async fn add_learner(
        &self,
        node: NodeId,
        deadline: Instant,
    ) -> Result<(), ChangeError> {
        let adding = self.raft.add_learner(node, EmptyNode {}, false);
        self.change(adding, Steps::One, deadline).await
    }

    pub(crate) async fn change_membership(
        &self,
        voters: BTreeSet<NodeId>,
        deadline: Instant,
    ) -> Result<(), ChangeError> {
        let changing = self.raft.change_membership(voters, false);
        self.change(changing, Steps::UpToTwo, deadline).await
    }

    async fn change<T>(
        &self,
        changing: impl Future<Output = Result<T, RaftError<TypeConfig, ClientWriteError<TypeConfig>>>>,
        steps: Steps,
        deadline: Instant,
    ) -> Result<(), ChangeError> {
        // Sure only here: once it has begun, a part of it may be written.
        if self.stop.reason().is_some() {
            return Err(ChangeError::Stopped);
        }
        if let Some(other) = self.not_leader() {
            return Err(ChangeError::NotLeader { leader: other.leader });
        }
        match tokio::time::timeout_at(deadline.into(), changing).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(change_error(error, steps)),
            Err(_elapsed) => Err(ChangeError::OutcomeUnknown),
        }
    }

    /// The follower that lacks least, among those that are there and have a good clock.
    pub(crate) fn successor(&self) -> Option<NodeId> {
        let voters = self.voters();
        let now = self.clocks.now();
        let has_good_clock =
            |node: NodeId| self.clocks.judge(node, now, &voters).sure() == Some(ClockVerdict::Good);
        self.links
            .connected()
            .iter()
            .filter(|node| voters.contains(node) && has_good_clock(**node))
            .filter_map(|node| Some((self.lag(*node)?, *node)))
            .min()
            .map(|(_, node)| node)
    }

    /// Waits until `to` lacks no more than `lag_max` entries.
    async fn wait_for_lag(
        &self,
        to: NodeId,
        lag_max: u64,
        deadline: Instant,
    ) -> Result<(), ChangeError> {
        loop {
            if let Some(other) = self.not_leader() {
                return Err(ChangeError::NotLeader { leader: other.leader });
            }
            match self.lag(to) {
                Some(lag) if lag <= lag_max => return Ok(()),
                lag if Instant::now() >= deadline => {
                    let lag = lag
                        .map_or_else(|| "an unknown number of".to_owned(), |lag| lag.to_string());
                    return Err(ChangeError::Refused(format!("node {to} lacks {lag} entries")));
                }
                _ => tokio::time::sleep(TRANSFER_LOOK_PERIOD).await,
            }
        }
    }

    /// Hands leadership to `to`, once it has caught up.
    ///
    /// A target that lacks an entry would not be elected at once, and the group would be without a
    /// leader until an election. So it is waited for twice: until it almost has everything, and
    /// then, with commands waiting in the queue, until it has.
    pub(crate) async fn transfer_leadership(
        &self,
        to: NodeId,
        deadline: Instant,
    ) -> Result<(), ChangeError> {
        if to == self.node {
            let leading = self.not_leader();
            return leading
                .map_or(Ok(()), |other| Err(ChangeError::NotLeader { leader: other.leader }));
        }
        if !self.voters().contains(&to) {
            return Err(ChangeError::Refused(format!("node {to} does not vote")));
        }
        self.wait_for_lag(to, TRANSFER_LAG_MAX, deadline).await?;
        let pause = Pause::begin(&self.paused);
        let catch_up_ends = deadline.min(Instant::now() + self.timings.catch_up_limit());
        // Order matters: an entry that is on its way into the log is not counted as lacking yet.
        let mut is_quiet = self.is_quiet.subscribe();
        let quiet = is_quiet.wait_for(|is_quiet| *is_quiet);
        if tokio::time::timeout_at(catch_up_ends.into(), quiet).await.is_err() {
            return Err(ChangeError::Refused("commands are in flight".to_owned()));
        }
        self.wait_for_lag(to, 0, catch_up_ends).await?;
        self.raft.trigger().transfer_leader(to).await.map_err(|_fatal| ChangeError::Stopped)?;
        let pause_ends = deadline.min(Instant::now() + self.timings.hand_over_limit());
        let handed_over = tokio::time::timeout_at(pause_ends.into(), self.other_leads()).await;
        // Nobody took over in time: this node goes on, and somebody may still.
        drop(pause);
        match handed_over {
            Ok(handed_over) => handed_over,
            Err(_elapsed) => tokio::time::timeout_at(deadline.into(), self.other_leads())
                .await
                .unwrap_or(Err(ChangeError::OutcomeUnknown)),
        }
    }

    /// Waits until another node leads, once it has been told to.
    async fn other_leads(&self) -> Result<(), ChangeError> {
        let mut metrics = self.raft.server_metrics();
        loop {
            let leader = metrics.borrow_watched().current_leader;
            if leader.is_some_and(|leader| leader != self.node) {
                return Ok(());
            }
            metrics.changed().await.map_err(|_ended| ChangeError::OutcomeUnknown)?;
        }
    }

    pub(crate) async fn trigger_snapshot(&self) -> Result<(), ChangeError> {
        self.raft.trigger().snapshot().await.map_err(|_fatal| ChangeError::Stopped)
    }

    async fn hand_over(&self, deadline: Instant) {
        if self.not_leader().is_some() {
            return;
        }
        let Some(successor) = self.successor() else {
            // As for the last voter that is shut down.
            tracing::info!(group = %self.id, "there is nobody to hand leadership over to");
            return;
        };
        let deadline = deadline.min(Instant::now() + self.timings.hand_over_limit());
        if let Err(error) = self.transfer_leadership(successor, deadline).await {
            tracing::warn!(group = %self.id, error = %error, "leadership was not handed over");
        }
    }

    /// Ends the group; `hand_over_until` hands leadership over first. Returns when nobody writes
    /// its files any more; only then can it be opened again.
    pub(crate) async fn end(&self, hand_over_until: Option<Instant>) {
        let mut ended = self.ending.lock().await;
        if *ended {
            return;
        }
        if let Some(deadline) = hand_over_until {
            self.hand_over(deadline).await;
        }
        self.stop.stop(StopReason::ShutDown);
        self.ports.remove(self.id);
        if let Err(error) = self.raft.shutdown().await {
            tracing::error!(group = %self.id, error = %error, "consensus did not end in order");
        }
        self.tasks.end().await;
        self.hosted.abandon_waiters();
        self.incoming.end().await;
        self.writers.close();
        self.writers.wait().await;
        // Order matters: from here on it can be opened again.
        self.registration.leave();
        *ended = true;
    }

    /// Whether the group has been ended, so that nobody writes its files any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.ending.try_lock().is_ok_and(|ended| *ended)
    }

    /// The status as of now.
    pub(crate) fn current_status(&self, queued_commands: usize) -> GroupStatus {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched().clone();
        let members = &metrics.membership_config;
        let voters: BTreeSet<NodeId> = members.voter_ids().collect();
        let learners = members.nodes().map(|(node, _)| *node);
        let learners = learners.filter(|node| !voters.contains(node)).collect();
        let replicated = metrics.replication.unwrap_or_default();
        let followers = replicated.keys().filter(|node| **node != self.node);
        let replicas = followers.filter_map(|node| Some((*node, self.replica(*node)?)));
        let replicas: BTreeMap<NodeId, Replica> = replicas.collect();
        let matched = replicas.iter().filter_map(|(node, seen)| Some((*node, seen.matched?)));
        let matched_index = matched.collect();
        let lag_entries = replicas.iter().map(|(node, seen)| (*node, seen.lag)).collect();
        let snapshot = self.snapshots.current();
        let size = self.log.size();
        let load = |counter: &std::sync::atomic::AtomicU64| {
            counter.load(std::sync::atomic::Ordering::Relaxed)
        };
        GroupStatus {
            role: role(metrics.state),
            term: metrics.current_term,
            leader: metrics.current_leader,
            last_index: metrics.last_log_index,
            committed_index: metrics.local_committed.map(|id| id.index),
            applied_index: metrics.last_applied.map(|id| id.index),
            purged_index: metrics.purged.map(|id| id.index),
            log_bytes: size.bytes,
            log_bytes_since_snapshot: size.bytes_since_snapshot,
            snapshot_index: snapshot
                .as_ref()
                .and_then(|snapshot| snapshot.covered().last)
                .map(|id| id.index),
            snapshot_at: snapshot.map(|snapshot| snapshot.covered().stamp),
            history_bytes: self.history.length(),
            matched_index,
            lag_entries,
            queued_commands: u64::try_from(queued_commands).unwrap_or(u64::MAX),
            proposed_commands: load(&self.proposer.commands),
            proposed_entries: load(&self.proposer.entries),
            clock: self.clocks.judge(self.node, self.clocks.now(), &voters).verdict,
            voters,
            learners,
        }
    }
}

/// Has commands wait in the queue until it is dropped.
struct Pause<'a> {
    paused: &'a watch::Sender<bool>,
}

impl<'a> Pause<'a> {
    fn begin(paused: &'a watch::Sender<bool>) -> Self {
        paused.send_replace(true);
        Self { paused }
    }
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.paused.send_replace(false);
    }
}

fn role(state: ServerState) -> Role {
    match state {
        ServerState::Learner => Role::Learner,
        ServerState::Follower => Role::Follower,
        ServerState::Candidate => Role::Candidate,
        ServerState::Leader => Role::Leader,
        ServerState::Shutdown => Role::Stopped,
    }
}
