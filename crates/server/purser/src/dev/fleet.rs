//! The nodes of a development cluster: started, killed and started again, all in this process.
//!
//! A killed node loses what a killed process would lose: nothing that was acknowledged. Starting it
//! again reads its folder as a restarted process would.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use purser_node::{
    BindError, ConfigError, Listeners, Node, NodeSettings, Recorder, StartError, Surroundings,
};
use purser_postgres::{Database, InvalidShard};
use tokio::sync::{Mutex, watch};

use crate::dev::control::{NodeState, NodeStatus};
use crate::dev::layout::{DevLayout, NodeName, NodePlace};
use crate::dev::settings::settings;
use crate::dev::wire::Wire;
use crate::read_model::ReadModel;

/// The nodes.
pub(crate) struct Fleet {
    layout: DevLayout,
    /// What lies between the regions.
    wire: Wire,
    recorder: Recorder,
    /// Where the read model is kept, if it is.
    database: Option<Database>,
    /// The projectors of the nodes that run.
    read_models: Mutex<BTreeMap<NodeName, ReadModel>>,
    /// Where the APIs of the nodes that run listen. Apart from the slots, because a request must
    /// not wait while a node starts.
    running: watch::Sender<Vec<SocketAddr>>,
    /// Invariant: every node of the layout has its slot. The lock is held while a node starts or
    /// is killed, so that no node is ever started twice.
    slots: Mutex<BTreeMap<NodeName, Slot>>,
}

enum Slot {
    Running(Arc<Node>),
    Killed,
    Failed(String),
}

/// Why a node could not be started or killed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FleetError {
    /// There is no such node.
    #[error("there is no node {0}")]
    NoSuchNode(NodeName),
    /// It does not run, so it cannot be killed.
    #[error("node {0} does not run")]
    NotRunning(NodeName),
    /// It runs, so it cannot be started.
    #[error("node {0} runs already")]
    RunsAlready(NodeName),
    /// It did not start.
    #[error("node {name} did not start")]
    Start {
        /// Which node.
        name: NodeName,
        /// Why not.
        #[source]
        cause: NodeStartError,
    },
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NodeStartError {
    /// Its settings are refused.
    #[error("its settings are refused")]
    Settings(#[from] ConfigError),
    /// A port is taken.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// Its data cannot be used.
    #[error(transparent)]
    Node(#[from] StartError),
    /// Its shards have no names in the database.
    #[error("its read model cannot be kept")]
    ReadModel(#[from] InvalidShard),
}

/// A node whose ports are bound. Connections wait in them until it starts.
#[derive(Debug)]
pub(crate) struct BoundNode {
    name: NodeName,
    settings: NodeSettings,
    listeners: Listeners,
}

impl BoundNode {
    async fn bind(
        layout: &DevLayout,
        wire: &Wire,
        place: &NodePlace,
    ) -> Result<Self, NodeStartError> {
        let settings = settings(layout, wire, place)?;
        let listeners = Listeners::bind(&settings).await?;
        Ok(Self { name: place.name.clone(), settings, listeners })
    }

    /// Binds the ports of every node of a layout: one that is taken is told before anything is
    /// written.
    pub(crate) async fn bind_all(layout: &DevLayout, wire: &Wire) -> Result<Vec<Self>, FleetError> {
        let mut bound = Vec::new();
        for place in layout.nodes() {
            let node = Self::bind(layout, wire, place).await;
            bound.push(node.map_err(|error| failed(place, error))?);
        }
        Ok(bound)
    }
}

impl Fleet {
    /// Starts the nodes of a layout. If one cannot be, those that could are killed again. Each projects
    /// what it leads into `database`, if there is one.
    pub(crate) async fn start_all(
        (layout, wire): (DevLayout, Wire),
        bound: Vec<BoundNode>,
        recorder: Recorder,
        database: Option<Database>,
    ) -> Result<Self, FleetError> {
        let (running, read_models) = (watch::Sender::default(), Mutex::default());
        let slots = Mutex::default();
        let fleet = Self { layout, wire, recorder, database, read_models, running, slots };
        let mut slots = fleet.slots.lock().await;
        for node in bound {
            let name = node.name.clone();
            match fleet.start_bound(node).await {
                Ok(node) => slots.insert(name, Slot::Running(Arc::new(node))),
                Err(error) => {
                    for slot in slots.values() {
                        if let Slot::Running(node) = slot {
                            node.kill().await;
                        }
                    }
                    return Err(FleetError::Start { name, cause: error });
                }
            };
        }
        fleet.publish(&slots);
        drop(slots);
        Ok(fleet)
    }

    /// How the cluster is laid out.
    pub(crate) fn layout(&self) -> &DevLayout {
        &self.layout
    }

    /// What lies between the regions.
    pub(crate) fn wire(&self) -> &Wire {
        &self.wire
    }

    /// Resolves when every running node is ready.
    pub(crate) async fn ready(&self) {
        for node in self.nodes().await {
            node.ready().await;
            node.connected().await;
        }
    }

    /// Where the APIs of the nodes that run listen, now and later.
    pub(crate) fn running(&self) -> watch::Receiver<Vec<SocketAddr>> {
        self.running.subscribe()
    }

    /// Every node, and whether it runs.
    pub(crate) async fn status(&self) -> Vec<NodeStatus> {
        let slots = self.slots.lock().await;
        let status = |place: &NodePlace| {
            let (state, reason) = match slots.get(&place.name) {
                Some(Slot::Running(_)) => (NodeState::Running, None),
                Some(Slot::Failed(reason)) => (NodeState::Failed, Some(reason.clone())),
                Some(Slot::Killed) | None => (NodeState::Killed, None),
            };
            NodeStatus {
                node: place.name.to_string(),
                id: place.id,
                state,
                api: format!("http://{}", place.api),
                reason,
            }
        };
        self.layout.nodes().map(status).collect()
    }

    /// Ends a node like a killed process.
    pub(crate) async fn kill(&self, name: &NodeName) -> Result<(), FleetError> {
        let mut slots = self.slots.lock().await;
        let slot = slots.get_mut(name).ok_or_else(|| FleetError::NoSuchNode(name.clone()))?;
        let Slot::Running(node) = std::mem::replace(slot, Slot::Killed) else {
            return Err(FleetError::NotRunning(name.clone()));
        };
        // Order matters: the front door stops to send requests there first.
        self.publish(&slots);
        self.wire.set_gone(name, true);
        self.end_read_model(name).await;
        node.kill().await;
        tracing::warn!(node = %name, "killed");
        Ok(())
    }

    /// Starts a node that was killed or that failed, from its data.
    pub(crate) async fn start(&self, name: &NodeName) -> Result<(), FleetError> {
        let mut slots = self.slots.lock().await;
        let slot = slots.get_mut(name).ok_or_else(|| FleetError::NoSuchNode(name.clone()))?;
        if matches!(slot, Slot::Running(_)) {
            return Err(FleetError::RunsAlready(name.clone()));
        }
        let place = self.layout.nodes().find(|place| place.name == *name);
        let place = place.ok_or_else(|| FleetError::NoSuchNode(name.clone()))?;
        let bound = BoundNode::bind(&self.layout, &self.wire, place).await;
        let bound = bound.map_err(|error| failed(place, error))?;
        self.wire.set_gone(name, false);
        let node = self.start_bound(bound).await.map_err(|error| {
            self.wire.set_gone(name, true);
            failed(place, error)
        })?;
        *slot = Slot::Running(Arc::new(node));
        self.publish(&slots);
        tracing::warn!(node = %name, "started again");
        Ok(())
    }

    /// Notes nodes that stopped by themselves, for ever.
    ///
    /// Not here: a watcher for each node, that comes and goes with it. Looking once a second is
    /// enough for a person, and a node that failed no longer answers anyhow.
    pub(crate) async fn note_failures(&self) {
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        loop {
            ticks.tick().await;
            let mut slots = self.slots.lock().await;
            for (name, slot) in slots.iter_mut() {
                let Slot::Running(node) = slot else { continue };
                let failure = tokio::time::timeout(Duration::ZERO, node.failed()).await;
                let Ok(failure) = failure else { continue };
                tracing::error!(node = %name, error = %failure, "a node cannot go on");
                self.wire.set_gone(name, true);
                self.end_read_model(name).await;
                node.kill().await;
                *slot = Slot::Failed(failure.to_string());
            }
            self.publish(&slots);
        }
    }

    /// Ends all nodes at once, like killed processes: what was acknowledged is on disk.
    ///
    /// Not here: an orderly end of each. It would be spent on handing leadership over, and where all
    /// end there is nobody to hand it to.
    pub(crate) async fn end(&self) {
        let read_models = std::mem::take(&mut *self.read_models.lock().await);
        for read_model in read_models.into_values() {
            read_model.end().await;
        }
        let endings = tokio_util::task::TaskTracker::new();
        for node in self.nodes().await {
            endings.spawn(async move { node.kill().await });
        }
        endings.close();
        endings.wait().await;
        self.wire.end().await;
    }

    async fn nodes(&self) -> Vec<Arc<Node>> {
        let slots = self.slots.lock().await;
        let running = slots.values().filter_map(|slot| match slot {
            Slot::Running(node) => Some(Arc::clone(node)),
            Slot::Killed | Slot::Failed(_) => None,
        });
        running.collect()
    }

    async fn start_bound(&self, bound: BoundNode) -> Result<Node, NodeStartError> {
        let surroundings =
            Surroundings { recorder: Some(self.recorder.clone()), ..Surroundings::real() };
        let node = Node::start(bound.settings, bound.listeners, surroundings).await?;
        if let Some(database) = &self.database {
            let region = bound.name.region.to_string();
            let read_model = ReadModel::start(database, (&region, node.feeds()))?;
            node.attach_read_model(read_model.kept());
            self.read_models.lock().await.insert(bound.name, read_model);
        }
        Ok(node)
    }

    /// Ends a node's projectors: they read its files.
    async fn end_read_model(&self, name: &NodeName) {
        let read_model = self.read_models.lock().await.remove(name);
        if let Some(read_model) = read_model {
            read_model.end().await;
        }
    }

    fn publish(&self, slots: &BTreeMap<NodeName, Slot>) {
        let running = slots.values().filter_map(|slot| match slot {
            Slot::Running(node) => Some(node.addresses().api),
            Slot::Killed | Slot::Failed(_) => None,
        });
        self.running.send_replace(running.collect());
    }
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Fleet").field("layout", &self.layout).finish_non_exhaustive()
    }
}

fn failed(place: &NodePlace, cause: NodeStartError) -> FleetError {
    FleetError::Start { name: place.name.clone(), cause }
}
