//! The API over the ledgers.
//!
//! A handler translates and nothing else: path, query and body become checked types, those become
//! a command, and the ledger's answer becomes a body. Whether something is allowed is the ledger's
//! business ([`routing`] takes it there), and what a refusal looks like is [`problem`]'s.

mod admin;
mod admission;
mod astray;
mod at_home;
mod balance;
mod batch;
mod calendar;
mod call;
mod changes;
mod charges;
mod check;
mod convert;
mod describe;
mod entries;
mod events;
mod forward;
mod health;
mod holds;
mod jobs;
mod leasing;
mod long_read;
mod lots;
mod names;
mod openapi;
mod operation;
mod paging;
mod passing;
mod problem;
mod reply;
mod routes;
mod routing;
mod seat;
mod spending;
mod statement;
mod undo;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::routing::get;
use hyper::Uri;
use purser_api::paths;
use purser_raft::NodeId;
use purser_types::{Owner, Region};
use tokio::sync::Semaphore;

pub(crate) use self::changes::change_of;
pub use self::openapi::openapi_document;
pub(crate) use self::operation::Operation;
use crate::feed::Feed;
use crate::groups::Groups;
use crate::http::admission::BodyRoom;
use crate::http::call::RequestIds;
use crate::http::forward::Forwarder;
use crate::http::routes::Routes;
use crate::metrics::{NodeMetrics, Recorder};
use crate::regions::Regions;
use crate::settings::{
    BaseUrl, ClusterName, LimitSettings, NodeSettings, PeerSettings, RetentionSettings,
    RouterSettings,
};
use crate::tasks::Tasks;
use crate::token::Token;
use crate::verification::Verifier;
use crate::webhooks::WebhookSettings;

/// What all handlers of a node share.
pub(crate) struct Api {
    node: NodeId,
    cluster: ClusterName,
    owner: Owner,
    groups: Groups,
    /// Where the cluster stands in several regions.
    regions: Option<Arc<Regions>>,
    /// What each shard has decided, by shard.
    feeds: Vec<Feed>,
    peers: BTreeMap<NodeId, PeerSettings>,
    tokens: Vec<Arc<Token>>,
    limits: LimitSettings,
    body_room: BodyRoom,
    long_reads: Arc<Semaphore>,
    retention: RetentionSettings,
    webhooks: WebhookSettings,
    metrics: Arc<NodeMetrics>,
    recorder: Option<Recorder>,
    forwarder: Forwarder,
    /// Nothing in a router, which keeps nothing that could be verified.
    verifier: Option<Arc<Verifier>>,
    request_ids: RequestIds,
    draining: AtomicBool,
}

/// What an API stands before.
pub(crate) struct Behind {
    /// The groups.
    pub(crate) groups: Groups,
    /// Where the cluster stands in several regions.
    pub(crate) regions: Option<Arc<Regions>>,
    /// What verifies the groups.
    pub(crate) verifier: Option<Arc<Verifier>>,
}

/// What an API has to know, whether a node serves it or a router.
pub(crate) struct ApiSettings {
    node: NodeId,
    cluster: ClusterName,
    region: Region,
    peers: BTreeMap<NodeId, PeerSettings>,
    tokens: Vec<Arc<Token>>,
    limits: LimitSettings,
    retention: RetentionSettings,
    webhooks: WebhookSettings,
}

impl From<&NodeSettings> for ApiSettings {
    fn from(settings: &NodeSettings) -> Self {
        Self {
            node: settings.node,
            cluster: settings.cluster.clone(),
            region: settings.region,
            peers: settings.peers.clone(),
            tokens: settings.tokens.clone(),
            limits: settings.limits,
            retention: settings.retention,
            webhooks: settings.webhooks,
        }
    }
}

impl From<&RouterSettings> for ApiSettings {
    fn from(settings: &RouterSettings) -> Self {
        Self {
            node: settings.node,
            cluster: settings.cluster.clone(),
            region: settings.region,
            peers: settings.peers.clone(),
            tokens: settings.tokens.clone(),
            limits: settings.limits,
            // It opens no account.
            retention: RetentionSettings::STANDARD,
            // It delivers nothing.
            webhooks: WebhookSettings::default(),
        }
    }
}

impl Api {
    /// The API of a node, or of a router. Connections to other nodes are tasks of `tasks`.
    pub(crate) fn new(
        settings: ApiSettings,
        Behind { groups, regions, verifier }: Behind,
        metrics: Arc<NodeMetrics>,
        recorder: Option<Recorder>,
        tasks: &Tasks,
    ) -> Self {
        let ApiSettings { node, cluster, region, peers, tokens, limits, retention, webhooks } =
            settings;
        let long_reads_max = limits.long_reads_max.min(Semaphore::MAX_PERMITS);
        let feeds = groups.by_shard().map(|(shard, group)| {
            let watch = regions.as_ref().and_then(|regions| regions.watch_of(shard));
            Feed::new(shard, group.clone(), watch.cloned())
        });
        let feeds = feeds.collect();
        Self {
            node,
            cluster,
            owner: Owner::home(region),
            groups,
            regions,
            feeds,
            peers,
            tokens,
            limits,
            body_room: BodyRoom::new(limits.body_bytes_max),
            long_reads: Arc::new(Semaphore::new(long_reads_max)),
            retention,
            webhooks,
            metrics,
            recorder,
            forwarder: Forwarder::new(tasks),
            verifier,
            request_ids: RequestIds::new(),
            draining: AtomicBool::new(false),
        }
    }

    /// From now on the node says that it is not ready.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    pub(crate) const fn node(&self) -> NodeId {
        self.node
    }

    pub(crate) const fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    /// Who decides about the accounts of this node: home, in this region.
    pub(crate) const fn owner(&self) -> &Owner {
        &self.owner
    }

    pub(crate) const fn region(&self) -> &Region {
        &self.owner.region
    }

    /// What there is of other regions; nothing where the cluster stands in one region only.
    pub(crate) const fn regions(&self) -> Option<&Arc<Regions>> {
        self.regions.as_ref()
    }

    /// Whether this is a router: it hosts no group, so it decides nothing, and passes on whatever comes.
    pub(crate) fn is_router(&self) -> bool {
        self.groups.all().is_empty()
    }

    /// What each shard has decided, by shard.
    pub(crate) fn feeds(&self) -> &[Feed] {
        &self.feeds
    }

    pub(crate) const fn groups(&self) -> &Groups {
        &self.groups
    }

    pub(crate) fn tokens(&self) -> &[Arc<Token>] {
        &self.tokens
    }

    pub(crate) const fn limits(&self) -> LimitSettings {
        self.limits
    }

    pub(crate) const fn body_room(&self) -> &BodyRoom {
        &self.body_room
    }

    /// As many permits as there may be long reads at once.
    pub(crate) const fn long_reads(&self) -> &Arc<Semaphore> {
        &self.long_reads
    }

    pub(crate) const fn retention(&self) -> RetentionSettings {
        self.retention
    }

    pub(crate) const fn webhooks(&self) -> WebhookSettings {
        self.webhooks
    }

    pub(crate) fn metrics(&self) -> &NodeMetrics {
        &self.metrics
    }

    pub(crate) const fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_ref()
    }

    pub(crate) const fn forwarder(&self) -> &Forwarder {
        &self.forwarder
    }

    /// What verifies what the node has.
    pub(crate) const fn verifier(&self) -> Option<&Arc<Verifier>> {
        self.verifier.as_ref()
    }

    pub(crate) const fn request_ids(&self) -> &RequestIds {
        &self.request_ids
    }

    /// The nodes of a region that the configuration names, this one among them.
    pub(crate) fn nodes_in(&self, region: Region) -> BTreeSet<NodeId> {
        let peers = self.peers.iter().filter(|(_, peer)| peer.region == region);
        let own = (region == *self.region()).then_some(self.node);
        peers.map(|(node, _)| *node).chain(own).collect()
    }

    /// Whether the configuration names a node, or it is this one.
    pub(crate) fn knows(&self, node: NodeId) -> bool {
        node == self.node || self.peers.contains_key(&node)
    }

    /// The region of another node, if the configuration names it.
    pub(crate) fn region_of(&self, node: NodeId) -> Option<Region> {
        self.peers.get(&node).map(|peer| peer.region)
    }

    /// Where another node serves what this node was asked for at `uri`.
    pub(crate) fn base_url(&self, node: NodeId, uri: &Uri) -> Option<&BaseUrl> {
        let peer = self.peers.get(&node)?;
        Some(if uri.path().starts_with("/admin/") { &peer.admin } else { &peer.api })
    }
}

/// The router of the API's listener; with the admin API, unless that has a listener of its own.
pub(crate) fn data_router(api: &Arc<Api>, with_admin: bool) -> Router {
    let routes = data_routes(Routes::new(api.metrics()));
    let routes = if with_admin { admin_routes(routes) } else { routes };
    finish(routes, api)
}

/// The router of the admin API's own listener.
pub(crate) fn admin_router(api: &Arc<Api>) -> Router {
    finish(admin_routes(Routes::new(api.metrics())), api)
}

fn data_routes(routes: Routes<'_>) -> Routes<'_> {
    let routes = holds::declare(routes);
    let routes = charges::declare(routes);
    let routes = undo::declare(routes);
    let routes = check::declare(routes);
    let routes = jobs::declare(routes);
    let routes = leasing::declare(routes);
    let routes = events::declare(routes);
    let routes = batch::declare(routes);
    let routes = balance::declare(routes);
    let routes = entries::declare(routes);
    let routes = changes::declare(routes);
    let routes = lots::declare(routes);
    statement::declare(routes)
}

fn admin_routes(routes: Routes<'_>) -> Routes<'_> {
    admin::declare(routes)
}

/// Adds what every listener serves.
fn finish(routes: Routes<'_>, api: &Arc<Api>) -> Router {
    routes
        .into_router()
        .route(paths::LIVEZ, get(health::livez))
        .route(paths::READYZ, get(health::readyz))
        .route(paths::METRICS, get(health::metrics))
        .route(paths::OPENAPI, get(health::openapi))
        .fallback(routes::no_such_path)
        .method_not_allowed_fallback(routes::no_such_method)
        .with_state(Arc::clone(api))
}
