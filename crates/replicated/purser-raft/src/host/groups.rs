//! Opening a group: snapshot, history, log, consensus, tasks, in this order.

use std::sync::{Arc, PoisonError};

use futures_util::future::BoxFuture;
use openraft::{Config, SnapshotPolicy};
use purser_types::Machine;
use tokio::sync::{Mutex, watch};

use crate::error::{OpenError, StopReason};
use crate::group::Group;
use crate::group::core::GroupCore;
use crate::group::replicas::Acknowledgments;
use crate::ids::{GroupId, NodeId};
use crate::network::server::GroupPort;
use crate::proposer::ProposerCounters;
use crate::raft::Raft;
use crate::raft::group_log::GroupLog;
use crate::raft::log_store::LogStore;
use crate::raft::network::NetworkFactory;
use crate::raft::state_machine::{Applied, Hosted, HostedMachine, Parts, StateMachine};
use crate::settings::{GroupSettings, RaftTimings};
use crate::snapshot::incoming::Incoming;
use crate::status::GroupStatus;
use crate::tasks::Stop;

use super::folder::{GroupPlace, StoredGroup, open_stored};
use super::registry::Opening;
use super::{Host, Inner};

impl Host {
    /// Opens a group and takes part in it. `initial` is the machine before the first command; it
    /// must be the same on every node and every time.
    ///
    /// Refuses a group that is open, or that has not ended yet. Returns when snapshot and known
    /// commits are applied. A group without members waits for
    /// [`Group::bootstrap`] or for a leader that adds this node.
    pub async fn group<M: Machine>(
        &self,
        id: GroupId,
        initial: M,
        settings: GroupSettings,
    ) -> Result<Group<M>, OpenError> {
        self.group_hearing(id, initial, (settings, Hearing::Members)).await
    }

    /// Opens a group like [`Host::group`] that takes entries only of some.
    pub async fn group_hearing<M: Machine>(
        &self,
        id: GroupId,
        initial: M,
        (settings, hearing): (GroupSettings, Hearing),
    ) -> Result<Group<M>, OpenError> {
        let inner = &self.inner;
        let opening = Arc::new(inner.registry.reserve(id)?);
        let hosted = HostedMachine::new(initial, inner.identity.node, random_incarnation()?);
        let hosted = Arc::new(hosted);
        let erased: Arc<dyn Hosted> = Arc::<HostedMachine<M>>::clone(&hosted);
        let core = inner.open_group(id, erased, (settings, hearing), &opening).await?;
        opening.open(Arc::clone(&core));
        let group = Group::start(Arc::clone(&core), hosted, Arc::clone(&inner.wal));
        // Only now may it campaign: whoever it answers has somebody to look after it.
        inner.begin(&core);
        Ok(group)
    }
}

/// Whose entries a group takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hearing {
    /// Those of whoever leads.
    Members,
    /// Those of one leader, until [`Group::hear`] names the next. Whoever leads in his own eyes, but is not
    /// named, is told nothing of what this node has.
    Only(Leading),
    /// None at all, so that the group stays as it is on disk: to be [shut down](Group::shutdown) and
    /// [read to its end](Group::whole).
    Nobody,
}

impl Hearing {
    /// The only leader that is heard, if it is one.
    const fn only(self) -> Option<Leading> {
        match self {
            Self::Only(leader) => Some(leader),
            Self::Members | Self::Nobody => None,
        }
    }
}

/// Who leads in which term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Leading {
    /// The term.
    pub term: u64,
    /// The leader. Of several in one term, the one with the highest number is the last.
    pub node: NodeId,
}

impl Inner {
    /// The part that does not depend on the machine; boxed, so that it is compiled once and not for
    /// each kind of machine.
    fn open_group<'a>(
        &'a self,
        id: GroupId,
        hosted: Arc<dyn Hosted>,
        settings: (GroupSettings, Hearing),
        opening: &'a Arc<Opening>,
    ) -> BoxFuture<'a, Result<Arc<GroupCore>, OpenError>> {
        Box::pin(self.open_core(id, hosted, settings, opening))
    }

    async fn open_core(
        &self,
        id: GroupId,
        hosted: Arc<dyn Hosted>,
        (settings, hearing): (GroupSettings, Hearing),
        opening: &Arc<Opening>,
    ) -> Result<Arc<GroupCore>, OpenError> {
        let timings = settings.timings.unwrap_or(self.timings);
        let stored = self.open_stored(id, &hosted, settings, opening).await?;
        let covered = stored.snapshots.current().and_then(|now| now.covered().last);
        let log = self.open_log(id, settings, covered.map(|last| last.index));
        let (stop, tasks) = (Stop::new(), self.tasks.subset());
        let history = stored.history.reader();
        let applied = Arc::new(Applied::new(self.clocks.own()));
        let state_machine = StateMachine::new(Parts {
            hosted: Arc::clone(&hosted),
            history: stored.history,
            snapshots: Arc::clone(&stored.snapshots),
            log: Arc::clone(&log),
            applied: Arc::clone(&applied),
            writing: Arc::clone(&self.snapshot_writing),
            stop: stop.clone(),
        });
        let writers = state_machine.writers();
        let store = LogStore::new(Arc::clone(&log));
        let network = NetworkFactory {
            group: id,
            links: self.links.clone(),
            history: history.clone(),
            timings,
        };
        let raft = match self.build_raft(network, store, state_machine).await {
            Ok(raft) => raft,
            Err(error) => {
                // Order matters: the opening is given up when nobody writes any more.
                writers.close();
                writers.wait().await;
                return Err(OpenError::Start(stop.reason().map_or(error, |why| why.to_string())));
            }
        };
        let incoming = Arc::new(Incoming::new(Arc::clone(&stored.snapshots)));
        if hearing != Hearing::Nobody {
            let (raft, stop) = (raft.clone(), stop.clone());
            let (incoming, history) = (Arc::clone(&incoming), history.clone());
            let step_timeout = timings.snapshot_step;
            let heard = hearing.only();
            self.ports.insert(id, GroupPort { raft, stop, incoming, history, step_timeout, heard });
        }
        Ok(Arc::new(GroupCore {
            id,
            node: self.identity.node,
            settings,
            timings,
            raft,
            hosted,
            log,
            history,
            snapshots: stored.snapshots,
            applied,
            clocks: self.clocks.clone(),
            proposer: ProposerCounters::default(),
            status: watch::Sender::new(GroupStatus::default()),
            leads: watch::Sender::new(false),
            paused: watch::Sender::new(false),
            is_quiet: watch::Sender::new(false),
            acknowledgments: Acknowledgments::default(),
            stop,
            tasks,
            ports: self.ports.clone(),
            links: self.links.clone(),
            incoming,
            writers,
            registration: opening.registration(),
            ending: Mutex::new(false),
        }))
    }

    /// Starts consensus, which does nothing yet. An error is given in words.
    async fn build_raft(
        &self,
        network: NetworkFactory,
        store: LogStore,
        state_machine: StateMachine,
    ) -> Result<Raft, String> {
        let config = config(network.group, &network.timings).map_err(|error| error.to_string())?;
        let node = self.identity.node;
        let raft = Raft::build(node, Arc::new(config), network, store, state_machine).await;
        raft.map_err(|error| error.to_string())
    }

    async fn open_stored(
        &self,
        id: GroupId,
        hosted: &Arc<dyn Hosted>,
        settings: GroupSettings,
        opening: &Arc<Opening>,
    ) -> Result<StoredGroup, OpenError> {
        let place = GroupPlace {
            disk: Arc::clone(&self.disk),
            dir: self.dir.clone(),
            cluster: self.identity.cluster,
            group: id,
        };
        let (hosted, opening) = (Arc::clone(hosted), Arc::clone(opening));
        let opening = tokio::task::spawn_blocking(move || {
            // Also if whoever wanted the group gives up meanwhile.
            let _opening = opening;
            open_stored(&place, &*hosted, settings.history_segment_bytes)
        });
        opening.await.map_err(|error| OpenError::Start(error.to_string()))?
    }

    fn open_log(
        &self,
        id: GroupId,
        settings: GroupSettings,
        covered: Option<u64>,
    ) -> Arc<GroupLog> {
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(log) = logs.opened.get(&id) {
            return Arc::clone(log);
        }
        let recovered = logs.recovered.remove(&id).unwrap_or_default();
        let wal = Arc::clone(&self.wal);
        let log = GroupLog::open(id, wal, settings.cache_log_bytes, recovered, covered);
        let log = Arc::new(log);
        logs.opened.insert(id, Arc::clone(&log));
        log
    }

    /// Lets consensus run.
    fn begin(&self, core: &Arc<GroupCore>) {
        core.raft.run();
        self.watch(core);
    }

    /// A group that stops by itself stops the node.
    fn watch(&self, core: &Arc<GroupCore>) {
        let (core, stop) = (Arc::clone(core), self.stop.clone());
        self.tasks.spawn(async move {
            let reason = core.stop.stopped().await;
            if reason != StopReason::ShutDown {
                tracing::error!(group = %core.id, reason = %reason, "a group has stopped");
                stop.stop(reason);
            }
        });
    }
}

/// Tells one opening of a group from every other, in the names of batches.
///
/// Invariant: drawn per opening, because each counts its batches from the start.
fn random_incarnation() -> Result<u64, OpenError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| OpenError::Start(error.to_string()))?;
    Ok(u64::from_le_bytes(bytes))
}

fn config(id: GroupId, timings: &RaftTimings) -> Result<Config, openraft::ConfigError> {
    let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let config = Config {
        cluster_name: format!("group {id}"),
        heartbeat_interval: millis(timings.heartbeat),
        election_timeout_min: millis(timings.election_min),
        election_timeout_max: millis(timings.election_max),
        install_snapshot_timeout: millis(timings.snapshot_step),
        // Snapshots and purges are triggered by bytes, by the keeper.
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: u64::MAX,
        purge_batch_size: 1,
        replication_lag_threshold: u64::MAX,
        max_payload_entries: 1024,
        enable_pre_vote: Some(true),
        // A leader without a quorum falls silent now and then, so that others can be elected who
        // still hear it.
        quorum_loss_probe_interval: Some(millis(timings.election_max).saturating_mul(2)),
        // Order matters for safety: with it, a leader that lost un-synced entries in a crash would
        // go on in the same term and give their names to others.
        enable_leader_restore: Some(false),
        // A node that comes back without its storage, or with an older one, is sent everything anew. Without
        // this a leader that had heard its acknowledgments would stop, or never reach it again. What it had
        // acknowledged is on one disk less until then, whatever its leader does.
        allow_log_reversion: Some(true),
        ..Config::default()
    };
    config.validate()
}

#[cfg(test)]
mod tests;
