//! A node's life: start, shutdown, kill, failure.
//!
//! ```text
//!  bind ports ──▶ open data folder ──▶ open groups ──▶ serve ──┬── shutdown: drain, hand over, end
//!                                                              ├── kill: as if the process died
//!                                                              └── failed: a vital task ended
//! ```
//!
//! A node whose folder was restored from a backup answers 503 to everything until its groups have begun
//! another life ([`crate::restoring`]).
//!
//! What starts and ends a node is boxed: otherwise the whole node, which is one large future, would
//! be compiled again in every program that starts one.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use purser_raft::disk::{Disk, RealDisk};
use purser_raft::{Clock, Host, HostSettings, OpenError, PeerSwitch, SystemClock};

use crate::feed::Feed;
use crate::groups::{Groups, GroupsError};
use crate::http::{Api, Behind};
use crate::listeners::{Addresses, Listeners};
use crate::metrics::{NodeMetrics, Recorder};
use crate::regions::{Monotonic, Regions};
use crate::restoring::{Gate, Marker, MarkerError};
use crate::settings::NodeSettings;
use crate::task;
use crate::tasks::{NodeFailure, Tasks};
use crate::verification::{AnsweringAlone, ReadModel, Verifier};
use crate::webhooks;

/// What a node takes from outside: time, files, a way to be cut off, a place for metrics.
#[derive(Clone)]
pub struct Surroundings {
    /// What stamps entries.
    pub clock: Arc<dyn Clock>,
    /// What leases and silences between regions are measured on.
    pub spans: Monotonic,
    /// Where files are kept.
    pub disk: Arc<dyn Disk>,
    /// Cuts this node off from others on purpose.
    pub switch: PeerSwitch,
    /// What `/metrics` shows. Without one it answers 404.
    pub recorder: Option<Recorder>,
}

impl Surroundings {
    /// The system's clock and files.
    pub fn real() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            spans: Monotonic::start(),
            disk: Arc::new(RealDisk),
            switch: PeerSwitch::default(),
            recorder: None,
        }
    }
}

/// Why a node could not be started. Nothing was changed that a later start minds.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data folder could not be opened.
    #[error("the data folder could not be opened")]
    Host(#[source] OpenError),
    /// The folder belongs to a cluster of another name, or with another number of shards.
    #[error("the data folder belongs to a cluster of another name or another number of shards")]
    OtherCluster(#[source] OpenError),
    /// A group could not be opened.
    #[error(transparent)]
    Groups(#[from] GroupsError),
    /// Nobody can tell whether the folder was restored from a backup.
    #[error(transparent)]
    Marker(#[from] MarkerError),
}

/// A running node. Dropping it does not stop it; [`Node::shutdown`] and [`Node::kill`] do.
pub struct Node {
    addresses: Addresses,
    api: Arc<Api>,
    host: Host,
    /// What accepts and serves connections.
    servers: Tasks,
    /// Everything else.
    background: Tasks,
}

impl Node {
    /// Opens the data folder and the groups, founds the groups if they are new and the settings
    /// say so, and serves.
    ///
    /// Returns when the API answers. Whether the groups have leaders, [`Node::ready`] tells.
    pub fn start(
        settings: NodeSettings,
        listeners: Listeners,
        surroundings: Surroundings,
    ) -> BoxFuture<'static, Result<Self, StartError>> {
        Box::pin(Self::start_now(settings, listeners, surroundings))
    }

    async fn start_now(
        settings: NodeSettings,
        listeners: Listeners,
        surroundings: Surroundings,
    ) -> Result<Self, StartError> {
        let addresses = listeners.addresses();
        let Listeners { api: api_listeners, peer, .. } = listeners;
        let host = Host::open(host_settings(&settings, &surroundings), peer).await;
        let host = host.map_err(|error| match error {
            OpenError::OtherCluster { .. } => StartError::OtherCluster(error),
            _ => StartError::Host(error),
        })?;
        let folder = (Arc::clone(&surroundings.disk), settings.data_dir.clone());
        let opened = open_groups(&host, &settings, &*folder.0).await;
        let (groups, restored) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                host.kill().await;
                return Err(error);
            }
        };
        let regions = match open_regions((&host, surroundings.spans), &settings, &groups).await {
            Ok(regions) => regions,
            Err(error) => {
                host.kill().await;
                return Err(error.into());
            }
        };
        let metrics = Arc::new(NodeMetrics::new(settings.node));
        let background = Tasks::new();
        let servers = background.sibling();
        let recorder = surroundings.recorder;
        let of_node = (settings.node, settings.region);
        let verified = (groups.clone(), regions.clone());
        let verifier = Verifier::new(of_node, verified, host.calls(), background.clone());
        let verifier = Some(Arc::new(verifier));
        let api = Api::new(
            (&settings).into(),
            Behind { groups, regions, verifier },
            Arc::clone(&metrics),
            recorder,
            &background,
        );
        let api = Arc::new(api);
        let restored = restored.map(|restored| (restored, folder));
        start_tasks(&background, &host, &api, &settings, restored);
        api_listeners.serve(&api, &metrics, &servers);
        tracing::info!(node = %settings.node, api = %addresses.api, "node serves");
        Ok(Self { addresses, api, host, servers, background })
    }

    /// Where the node listens.
    pub const fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Resolves when every group knows its leader and this node has caught up.
    pub async fn ready(&self) {
        self.api.groups().ready().await;
    }

    /// Resolves when the node has heard of every other region, and of who is home of whom.
    pub async fn connected(&self) {
        if let Some(regions) = self.api.regions() {
            regions.connected().await;
        }
    }

    /// What each shard of the node's region has decided, as far as this node leads it.
    pub fn feeds(&self) -> &[Feed] {
        self.api.feeds()
    }

    /// Has the read model that is kept of the node's homes verified with them. There is one.
    pub fn attach_read_model(&self, read_model: Arc<dyn ReadModel>) {
        if let Some(verifier) = self.api.verifier() {
            verifier.attach(read_model);
        }
    }

    /// Resolves when the node cannot go on. The owner should then end it with [`Node::kill`].
    pub async fn failed(&self) -> NodeFailure {
        self.background.failed().await
    }

    /// Ends the node in order, within about `grace`: no longer ready, no new connections, requests
    /// in flight finished, leadership handed over, tasks ended, files closed.
    pub fn shutdown(&self, grace: Duration) -> BoxFuture<'_, ()> {
        Box::pin(self.shutdown_now(grace))
    }

    async fn shutdown_now(&self, grace: Duration) {
        let deadline = Instant::now() + grace;
        self.api.drain();
        // A part is kept for handing over, which is what others wait for.
        if !self.servers.shutdown(grace / 2).await {
            tracing::warn!("requests were still running when their grace period was over");
        }
        // Order matters: the task that watches consensus must not take this for a failure.
        self.background.request_shutdown();
        self.host.shutdown(deadline).await;
        if !self.background.shutdown(deadline.saturating_duration_since(Instant::now())).await {
            tracing::warn!("tasks were still running when the grace period was over");
        }
        self.servers.kill().await;
        self.background.kill().await;
        tracing::info!("node has shut down");
    }

    /// Ends the node like a killed process: nothing is finished, handed over or written that was
    /// not written before. What was acknowledged is on disk.
    pub fn kill(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.background.kill().await;
            self.servers.kill().await;
            self.host.kill().await;
        })
    }
}

async fn open_regions(
    host: (&Host, Monotonic),
    settings: &NodeSettings,
    groups: &Groups,
) -> Result<Option<Arc<Regions>>, GroupsError> {
    match &settings.regions {
        Some(regions) => {
            let regions = Regions::open(host, settings, regions, groups.clone()).await?;
            Ok(Some(Arc::new(regions)))
        }
        None => Ok(None),
    }
}

fn host_settings(settings: &NodeSettings, surroundings: &Surroundings) -> HostSettings {
    let address = |peer: &crate::settings::PeerSettings| peer.address.clone();
    HostSettings {
        dir: settings.data_dir.clone(),
        node: settings.node,
        cluster: Some(settings.cluster.id(settings.shards)),
        peers: settings.peers.iter().map(|(node, peer)| (*node, address(peer))).collect(),
        timings: settings.timings,
        wal: settings.wal,
        disk: Arc::clone(&surroundings.disk),
        clock: Arc::clone(&surroundings.clock),
        switch: surroundings.switch.clone(),
    }
}

/// The groups, which may be used at once unless the folder was restored: then the marker says what has to
/// happen first.
async fn open_groups(
    host: &Host,
    settings: &NodeSettings,
    disk: &dyn Disk,
) -> Result<(Groups, Option<Restored>), StartError> {
    let marker = Marker::read(disk, &settings.data_dir)?;
    let gate = Gate::new(marker.is_none());
    let groups = Groups::open(host, settings, gate.clone()).await?;
    Ok((groups, marker.map(|marker| Restored { marker, gate })))
}

/// What has to happen before the groups may be used.
struct Restored {
    marker: Marker,
    gate: Gate,
}

/// How often a node does something by itself.
#[derive(Clone, Copy)]
struct Periods {
    sweep: Option<Duration>,
    verify: Option<Duration>,
}

/// Where the data of a node lies.
type Folder = (Arc<dyn Disk>, PathBuf);

fn start_tasks(
    tasks: &Tasks,
    host: &Host,
    api: &Arc<Api>,
    settings: &NodeSettings,
    restored: Option<(Restored, Folder)>,
) {
    tasks.spawn_vital("consensus", |stopping| {
        task::watch_consensus(host.clone(), api.groups().all().to_vec(), stopping)
    });
    tasks.spawn_vital("stats", |stopping| {
        task::publish_stats(host.clone(), Arc::clone(api), stopping)
    });
    let periods = Periods { sweep: settings.sweep_every, verify: settings.verify_every };
    let Some((Restored { marker, gate }, folder)) = restored else {
        return start_using_groups(tasks, host, api, periods);
    };
    let (all, host, api) = (tasks.clone(), host.clone(), Arc::clone(api));
    tasks.spawn_vital("restored", |stopping| async move {
        let groups = api.groups().all().to_vec();
        tokio::select! {
            biased;
            () = stopping.cancelled() => return Ok(()),
            dealt_with = marker.deal_with(&groups, folder, &gate) => dealt_with?,
        }
        start_using_groups(&all, &host, &api, periods);
        stopping.cancelled().await;
        Ok::<(), MarkerError>(())
    });
}

/// Starts whatever changes the groups without having been asked.
fn start_using_groups(tasks: &Tasks, host: &Host, api: &Arc<Api>, periods: Periods) {
    match api.regions() {
        Some(regions) => regions.start(host, tasks),
        None => host.serve_calls(Arc::new(AnsweringAlone(api.groups().clone()))),
    }
    for feed in api.feeds() {
        let parts = (Arc::clone(api), feed.clone());
        let all = tasks.clone();
        tasks.spawn_vital("webhooks", |stopping| webhooks::keep_delivering(parts, all, stopping));
    }
    if let (Some(every), Some(verifier)) = (periods.verify, api.verifier()) {
        let verifier = Arc::clone(verifier);
        tasks.spawn_vital("verifier", |stopping| verifier.verify_always(every, stopping));
    }
    if let Some(period) = periods.sweep {
        for group in api.groups().all() {
            let group = group.clone();
            tasks.spawn_vital("sweeper", |stopping| task::sweep(group, period, stopping));
        }
    }
}
