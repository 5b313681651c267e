//! A router's life: a process that takes any call of the API and passes it on, with no data of its own.
//!
//! ```text
//!  bind ports ──▶ follow Placement, pulses ──▶ serve ──┬── shutdown: drain, end
//!                                                      └── kill: as if the process died
//! ```
//!
//! It reads a call as a node does, so what a node would refuse unread, it refuses; everything else is
//! for `http::passing`. Nodes see it as one that asks, and never ask it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use purser_raft::{PeerCalls, PeerSwitch};

use crate::groups::Groups;
use crate::http::{Api, Behind};
use crate::listeners::{ApiAddresses, ApiListeners};
use crate::metrics::{NodeMetrics, Recorder};
use crate::regions::Regions;
use crate::settings::RouterSettings;
use crate::task;
use crate::tasks::{NodeFailure, Tasks};

/// A running router. Dropping it does not stop it; [`Router::shutdown`] and [`Router::kill`] do.
pub struct Router {
    addresses: ApiAddresses,
    api: Arc<Api>,
    regions: Arc<Regions>,
    calls: PeerCalls,
    /// What accepts and serves connections.
    servers: Tasks,
    /// Everything else.
    background: Tasks,
}

/// A router could not be started.
#[derive(Debug, thiserror::Error)]
#[error("the system gives no randomness")]
pub struct RouterStartError(#[source] getrandom::Error);

impl Router {
    /// Serves, and begins to look for the nodes. `recorder` is what `/metrics` shows, and `switch` cuts
    /// it off from nodes on purpose.
    ///
    /// Returns when the API answers. Whether calls find their way, [`Router::connected`] tells.
    pub fn start(
        settings: &RouterSettings,
        listeners: ApiListeners,
        recorder: Option<Recorder>,
        switch: PeerSwitch,
    ) -> Result<Self, RouterStartError> {
        let addresses = listeners.addresses();
        let identity = (settings.cluster.id(settings.shards), settings.node);
        let peers = settings.peers.iter().map(|(node, peer)| (*node, peer.address.clone()));
        let calls = PeerCalls::outside(identity, peers.collect(), switch);
        let regions = Regions::outside(calls.clone(), settings).map_err(RouterStartError)?;
        let regions = Arc::new(regions);
        let metrics = Arc::new(NodeMetrics::new(settings.node));
        let background = Tasks::new();
        let servers = background.sibling();
        let (groups, followed) = (Groups::none(settings.shards), Some(Arc::clone(&regions)));
        let behind = Behind { groups, regions: followed, verifier: None };
        let api = Api::new(settings.into(), behind, Arc::clone(&metrics), recorder, &background);
        let api = Arc::new(api);
        regions.start_following(&background);
        background.spawn_vital("upkeep", |stopping| task::keep_up(Arc::clone(&api), stopping));
        listeners.serve(&api, &metrics, &servers);
        tracing::info!(node = %settings.node, api = %addresses.api, "router serves");
        Ok(Self { addresses, api, regions, calls, servers, background })
    }

    /// Where the router listens.
    pub const fn addresses(&self) -> ApiAddresses {
        self.addresses
    }

    /// Resolves when the router has heard of every region, and of who is home of whom.
    pub async fn connected(&self) {
        self.regions.connected().await;
    }

    /// Resolves when the router cannot go on. The owner should then end it with [`Router::kill`].
    pub async fn failed(&self) -> NodeFailure {
        self.background.failed().await
    }

    /// Ends the router in order, within about `grace`: no longer ready, no new connections, requests in
    /// flight finished, tasks ended.
    pub async fn shutdown(&self, grace: Duration) {
        let deadline = Instant::now() + grace;
        self.api.drain();
        if !self.servers.shutdown(grace).await {
            tracing::warn!("requests were still running when the grace period was over");
        }
        if !self.background.shutdown(deadline.saturating_duration_since(Instant::now())).await {
            tracing::warn!("tasks were still running when the grace period was over");
        }
        self.kill().await;
        tracing::info!("router has shut down");
    }

    /// Ends the router like a killed process: nothing is finished.
    pub async fn kill(&self) {
        self.background.kill().await;
        self.servers.kill().await;
        self.calls.end().await;
    }
}
