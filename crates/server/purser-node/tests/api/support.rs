//! Nodes in this process, and somebody who asks them.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use http_body_util::{BodyExt, Full};
use hyper::header::HeaderMap;
use hyper::{Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use purser_node::{
    ApiListeners, BaseUrl, ClusterName, LimitSettings, Listeners, Monotonic, Node, NodeSettings,
    PeerSettings, Recorder, RegionNumber, RegionSettings, RetentionSettings, Router,
    RouterSettings, Scope, ShardCount, Surroundings, Token, TokenHash, VoucherKey, WebhookSettings,
};
use purser_raft::disk::Disk;
use purser_raft::{Clock, Cut, GroupSettings, NodeId, PeerSwitch, RaftTimings, WalSettings};
use purser_types::{LogTime, Region, Span, TenantId};
use serde_json::Value;
use tempfile::TempDir;

/// 2026-08-01T00:00:00Z.
pub(crate) const START: &str = "2026-08-01T00:00:00Z";
const START_MICROS: u64 = 1_785_542_400_000_000;

/// A clock that stands still until it is moved.
#[derive(Clone)]
pub(crate) struct TestClock {
    /// What it says.
    micros: Arc<AtomicU64>,
    /// How far it was moved on in all.
    passed_micros: Arc<AtomicU64>,
    began: Instant,
}

impl TestClock {
    fn new() -> Self {
        let micros = Arc::new(AtomicU64::new(START_MICROS));
        Self { micros, passed_micros: Arc::default(), began: Instant::now() }
    }

    /// Moves on.
    pub(crate) fn advance(&self, seconds: u64) {
        let micros = Span::from_secs(seconds).as_micros();
        self.micros.fetch_add(micros, Ordering::Relaxed);
        self.passed_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Is set back, while no time passes.
    pub(crate) fn set_back(&self, seconds: u64) {
        self.micros.fetch_sub(Span::from_secs(seconds).as_micros(), Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn now(&self) -> LogTime {
        LogTime::from_unix_micros(self.micros.load(Ordering::Relaxed)).unwrap()
    }

    fn steady(&self) -> Instant {
        self.began + Duration::from_micros(self.passed_micros.load(Ordering::Relaxed))
    }
}

/// Nodes that make up a cluster, and their data.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    pub(crate) clock: TestClock,
    settings: Vec<NodeSettings>,
    surroundings: Surroundings,
    /// What each node measures leases and silences on.
    spans: Vec<Monotonic>,
    /// What cuts each node off.
    switches: Vec<PeerSwitch>,
    /// Removed with the cluster.
    _data: TempDir,
}

/// How a cluster departs from the usual.
#[derive(Default)]
pub(crate) struct Unusual {
    /// Keeps files elsewhere than on the real disk.
    pub(crate) disk: Option<Arc<dyn Disk>>,
    /// Records metrics.
    pub(crate) recorder: Option<Recorder>,
    /// Writes down what is due, so often.
    pub(crate) sweep_every: Option<Duration>,
    /// Serves the admin API on a port of its own.
    pub(crate) admin_apart: bool,
    /// Where every node believes that the others serve the API and the admin API.
    pub(crate) others_api: Option<SocketAddr>,
    /// What callers may take up.
    pub(crate) limits: Option<LimitSettings>,
    /// Where each node stands, those of a region one after the other, if not all are in one.
    pub(crate) regions: Option<&'static [&'static str]>,
    /// With each home the region that stands by for it.
    pub(crate) standbys: &'static [(&'static str, &'static str)],
    /// A region that is silent for so long is failed over without being asked.
    pub(crate) fail_over_after: Option<Duration>,
    /// What webhooks may do.
    pub(crate) webhooks: WebhookSettings,
    /// Nobody hears anybody until healed.
    pub(crate) apart: bool,
}

impl Cluster {
    /// A cluster of so many nodes, ready to serve.
    pub(crate) async fn start(count: u64) -> Self {
        Self::start_unusual(count, Unusual::default()).await
    }

    /// A cluster of so many nodes that departs from the usual.
    pub(crate) async fn start_unusual(count: u64, unusual: Unusual) -> Self {
        let data = tempfile::tempdir().unwrap();
        let clock = TestClock::new();
        let mut settings = Vec::new();
        let mut listeners = Vec::new();
        for node in 1..=count {
            let mut of_node = node_settings(NodeId(node), data.path().join(node.to_string()));
            of_node.sweep_every = unusual.sweep_every;
            of_node.webhooks = unusual.webhooks;
            of_node.limits = unusual.limits.unwrap_or(of_node.limits);
            if let Some(regions) = unusual.regions {
                of_node.region = region(regions[usize::try_from(node - 1).unwrap()]);
                let fail_over_after = unusual.fail_over_after;
                let of_regions = region_settings(regions, unusual.standbys);
                of_node.regions = Some(RegionSettings { fail_over_after, ..of_regions });
            }
            of_node.admin_listen = unusual.admin_apart.then_some(of_node.listen);
            let bound = Listeners::bind(&of_node).await.unwrap();
            let addresses = bound.addresses();
            of_node.listen = addresses.api;
            of_node.admin_listen = addresses.admin;
            of_node.peer_listen = addresses.peer;
            settings.push(of_node);
            listeners.push(bound);
        }
        let peers: BTreeMap<NodeId, PeerSettings> = settings.iter().map(as_peer).collect();
        for of_node in &mut settings {
            of_node.peers = peers.clone();
            of_node.peers.remove(&of_node.node);
            for peer in of_node.peers.values_mut() {
                if let Some(address) = unusual.others_api {
                    peer.api = BaseUrl::of(address);
                    peer.admin = BaseUrl::of(address);
                }
            }
        }
        let mut surroundings = Surroundings {
            clock: Arc::new(clock.clone()),
            recorder: unusual.recorder,
            ..Surroundings::real()
        };
        if let Some(disk) = unusual.disk {
            surroundings.disk = disk;
        }
        let switches: Vec<PeerSwitch> = settings.iter().map(|_| PeerSwitch::default()).collect();
        if unusual.apart {
            for switch in &switches {
                peers.keys().for_each(|node| switch.cut(*node, Cut::Both));
            }
        }
        let spans: Vec<Monotonic> = settings.iter().map(|_| Monotonic::start()).collect();
        let starting = settings.iter().zip(listeners).zip(switches.iter().zip(&spans));
        let starting = starting.map(|((settings, bound), (switch, spans))| {
            let (switch, spans) = (switch.clone(), spans.clone());
            let surroundings = Surroundings { switch, spans, ..surroundings.clone() };
            Node::start(settings.clone(), bound, surroundings)
        });
        let nodes = futures_util::future::try_join_all(starting).await.unwrap();
        for node in &nodes {
            node.ready().await;
        }
        Self { nodes, clock, settings, surroundings, spans, switches, _data: data }
    }

    /// Kills the node at `place`.
    pub(crate) async fn lose(&self, place: usize) {
        self.nodes[place].kill().await;
    }

    /// Kills the node at `place` and starts it again without its data.
    pub(crate) async fn lose_storage(&mut self, place: usize) {
        self.lose(place).await;
        std::fs::remove_dir_all(&self.settings[place].data_dir).unwrap();
        self.bring_back(place).await;
    }

    /// Kills the node at `place`, has its data folder changed and starts it again.
    pub(crate) async fn meanwhile(&mut self, place: usize, change: impl FnOnce(&Path)) {
        self.lose(place).await;
        change(&self.settings[place].data_dir);
        self.bring_back(place).await;
    }

    /// Kills the node at `place` and starts it again from its data.
    pub(crate) async fn crash(&mut self, place: usize) {
        self.lose(place).await;
        self.bring_back(place).await;
    }

    /// Stops the node at `place` for as long as it takes to copy its data, and gives the copy.
    pub(crate) async fn back_up(&mut self, place: usize) -> TempDir {
        self.lose(place).await;
        let backup = tempfile::tempdir().unwrap();
        copy_folder(&self.settings[place].data_dir, backup.path());
        self.bring_back(place).await;
        backup
    }

    /// Kills the node at `place` and starts it again from a copy of its data.
    pub(crate) async fn set_back(&mut self, place: usize, backup: &TempDir) {
        self.lose(place).await;
        let data = &self.settings[place].data_dir;
        std::fs::remove_dir_all(data).unwrap();
        copy_folder(backup.path(), data);
        self.bring_back(place).await;
    }

    /// Has so much time pass for the leases and silences of the node at `place`.
    pub(crate) fn pass(&self, place: usize, seconds: u64) {
        self.spans[place].put_forward(Span::from_secs(seconds));
    }

    /// Starts the node at `place` again from its data.
    pub(crate) async fn bring_back(&mut self, place: usize) {
        let settings = self.settings[place].clone();
        let listeners = Listeners::bind(&settings).await.unwrap();
        let (switch, spans) = (self.switches[place].clone(), self.spans[place].clone());
        let surroundings = Surroundings { switch, spans, ..self.surroundings.clone() };
        let node = Node::start(settings, listeners, surroundings).await.unwrap();
        node.ready().await;
        self.nodes[place] = node;
    }

    /// A cluster with one node in each of three regions: `us`, `eu` and `ap`.
    pub(crate) async fn of_regions() -> Self {
        let regions: &[&str] = &["us", "eu", "ap"];
        let unusual = Unusual { regions: Some(regions), ..Unusual::default() };
        Self::start_connected(unusual).await
    }

    /// A cluster with three nodes in `us`, three in `eu` and one in `ap`.
    pub(crate) async fn of_large_regions() -> Self {
        let regions: &[&str] = &["us", "us", "us", "eu", "eu", "eu", "ap"];
        let unusual = Unusual { regions: Some(regions), ..Unusual::default() };
        Self::start_connected(unusual).await
    }

    /// A cluster with three nodes in `us` and one each in `eu`, which stands by for it, and `ap`.
    pub(crate) async fn of_a_large_home() -> Self {
        let regions: &[&str] = &["us", "us", "us", "eu", "ap"];
        let standbys: &[(&str, &str)] = &[("us", "eu")];
        let unusual = Unusual { regions: Some(regions), standbys, ..Unusual::default() };
        Self::start_connected(unusual).await
    }

    /// A cluster whose nodes have heard of each other.
    pub(crate) async fn start_connected(unusual: Unusual) -> Self {
        let count = unusual.regions.map_or(1, <[_]>::len);
        let cluster = Self::start_unusual(u64::try_from(count).unwrap(), unusual).await;
        for node in &cluster.nodes {
            node.connected().await;
        }
        cluster
    }

    /// The same, where each home is followed by the region behind it: `us` by `eu`, `eu` by `ap`, `ap` by
    /// `us`.
    pub(crate) async fn of_regions_with_standbys() -> Self {
        Self::followed(Unusual::default()).await
    }

    /// The same, where receivers of webhooks may stand on this machine.
    pub(crate) async fn of_regions_with_webhooks() -> Self {
        let webhooks = WebhookSettings { allow_private_targets: true };
        Self::followed(Unusual { webhooks, ..Unusual::default() }).await
    }

    /// The same, where a region that is silent for so many seconds is failed over without being asked.
    pub(crate) async fn that_fails_over_after(seconds: u64) -> Self {
        let fail_over_after = Some(Duration::from_secs(seconds));
        Self::followed(Unusual { fail_over_after, ..Unusual::default() }).await
    }

    async fn followed(unusual: Unusual) -> Self {
        let regions = Some(["us", "eu", "ap"].as_slice());
        let standbys: &[(&str, &str)] = &[("us", "eu"), ("eu", "ap"), ("ap", "us")];
        Self::start_connected(Unusual { regions, standbys, ..unusual }).await
    }

    /// Cuts the node at `place` off from all others.
    pub(crate) fn cut(&self, place: usize) {
        for other in self.settings.iter().filter(|it| it.node != self.settings[place].node) {
            self.switches[place].cut(other.node, Cut::Both);
        }
    }

    /// Cuts two nodes off from each other.
    pub(crate) fn part(&self, one: usize, other: usize) {
        self.switches[one].cut(self.settings[other].node, Cut::Both);
    }

    /// Has all be lost on its way that two nodes tell each other. Neither notices at once.
    pub(crate) fn lose_packets(&self, one: usize, other: usize) {
        for (from, to) in [(one, other), (other, one)] {
            self.switches[from].cut(self.settings[to].node, Cut::Incoming);
        }
    }

    /// Undoes [`Cluster::part`] and [`Cluster::lose_packets`].
    pub(crate) fn join(&self, one: usize, other: usize) {
        for (from, to) in [(one, other), (other, one)] {
            self.switches[from].heal(self.settings[to].node);
        }
    }

    /// Undoes [`Cluster::cut`].
    pub(crate) fn heal(&self, place: usize) {
        for other in &self.settings {
            self.switches[place].heal(other.node);
        }
    }

    /// A cluster of one node with the tenant `acme`, who has so many credits.
    pub(crate) async fn with_credits(credits: u64) -> (Self, Caller) {
        let cluster = Self::start(1).await;
        let caller = cluster.caller(0, "root");
        open_with(&caller, "acme", credits).await;
        (cluster, caller)
    }

    /// Somebody who asks the node at `place` with the token `secret`.
    pub(crate) fn caller(&self, place: usize, secret: &str) -> Caller {
        Caller::new(self.nodes[place].addresses().api, secret)
    }

    /// Ends all nodes, none of which may have failed by itself.
    pub(crate) async fn end(self) {
        for node in &self.nodes {
            let failure = node.failed().now_or_never();
            assert!(failure.is_none(), "a node has failed: {failure:?}");
            node.kill().await;
        }
    }
}

/// A router in front of a cluster, and what cuts it off.
pub(crate) struct RouterOf {
    router: Router,
    switch: PeerSwitch,
}

impl RouterOf {
    /// A router in a region of a cluster, that has found everybody.
    pub(crate) async fn start(cluster: &Cluster, own: &str) -> Self {
        Self::start_with(cluster, own, |_settings| ()).await
    }

    /// The same, with other settings.
    pub(crate) async fn start_with(
        cluster: &Cluster,
        own: &str,
        change: impl FnOnce(&mut RouterSettings),
    ) -> Self {
        let node = &cluster.settings[0];
        let regions = node.regions.as_ref().unwrap();
        let mut settings = RouterSettings {
            node: NodeId(91),
            cluster: node.cluster.clone(),
            region: region(own),
            listen: "127.0.0.1:0".parse().unwrap(),
            admin_listen: None,
            peers: cluster.settings.iter().map(as_peer).collect(),
            regions: regions.numbers.keys().copied().collect(),
            placement_voters: regions.placement_voters.clone(),
            standbys: regions.standbys.clone(),
            shards: node.shards,
            limits: node.limits,
            tokens: node.tokens.clone(),
        };
        change(&mut settings);
        let listeners = ApiListeners::bind_router(&settings).await.unwrap();
        let switch = PeerSwitch::default();
        let router = Router::start(&settings, listeners, None, switch.clone()).unwrap();
        router.connected().await;
        Self { router, switch }
    }

    /// Somebody who asks the router with the token `secret`.
    pub(crate) fn caller(&self, secret: &str) -> Caller {
        Caller::new(self.router.addresses().api, secret)
    }

    /// Cuts the router off from the node at `place`.
    pub(crate) fn cut(&self, place: usize, cluster: &Cluster) {
        self.switch.cut(cluster.settings[place].node, Cut::Both);
    }

    pub(crate) async fn end(self) {
        self.router.kill().await;
    }
}

/// Opens a tenant and grants it credits, if any.
pub(crate) async fn open_with(caller: &Caller, tenant: &str, credits: u64) {
    let body = serde_json::json!({ "tenant": tenant });
    caller.keyed("POST", "/admin/v1/tenants", &format!("open-{tenant}"), &body).await.expect(201);
    if credits > 0 {
        let body = serde_json::json!({ "amount": credits });
        let path = format!("/admin/v1/tenants/{tenant}/grants");
        caller.keyed("POST", &path, &format!("grant-{tenant}"), &body).await.expect(201);
    }
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let copy = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &copy);
        } else {
            std::fs::copy(entry.path(), copy).unwrap();
        }
    }
}

fn as_peer(settings: &NodeSettings) -> (NodeId, PeerSettings) {
    let api = BaseUrl::of(settings.listen);
    let admin = settings.admin_listen.map_or_else(|| api.clone(), BaseUrl::of);
    (
        settings.node,
        PeerSettings {
            region: settings.region,
            address: settings.peer_listen.to_string(),
            api,
            admin,
        },
    )
}

fn node_settings(node: NodeId, data_dir: std::path::PathBuf) -> NodeSettings {
    let anywhere: SocketAddr = "127.0.0.1:0".parse().unwrap();
    NodeSettings {
        node,
        cluster: ClusterName::parse("test").unwrap(),
        region: Region::parse("us").unwrap(),
        data_dir,
        listen: anywhere,
        admin_listen: None,
        peer_listen: anywhere,
        regions: None,
        peers: BTreeMap::new(),
        bootstrap: true,
        shards: ShardCount::from_u32(2).unwrap(),
        timings: RaftTimings::SHARED_MACHINE,
        wal: WalSettings::SMALL,
        group: GroupSettings::SMALL,
        limits: LimitSettings::STANDARD,
        tokens: vec![
            token("root", &[Scope::Admin], None),
            token("spender", &[Scope::Spend], None),
            token("reader", &[Scope::Read], None),
            token("acme-spender", &[Scope::Spend], Some("acme")),
            token("acme-admin", &[Scope::Admin], Some("acme")),
        ],
        retention: RetentionSettings::STANDARD,
        webhooks: WebhookSettings::default(),
        sweep_every: None,
        verify_every: None,
    }
}

pub(crate) fn region(name: &str) -> Region {
    Region::parse(name).unwrap()
}

fn region_settings(regions: &[&str], standbys: &[(&str, &str)]) -> RegionSettings {
    let mut nodes: Vec<_> = regions.iter().zip((1..).map(NodeId)).collect();
    nodes.dedup_by_key(|(name, _)| *name);
    let numbered = nodes.iter().zip(0_u16..);
    let number = |number| RegionNumber::from_u16(number).unwrap();
    RegionSettings {
        numbers: numbered.map(|((name, _), it)| (region(name), number(it))).collect(),
        placement_voters: nodes.iter().map(|(_, node)| *node).collect(),
        voucher_key: VoucherKey::of(b"only for tests"),
        standbys: standbys.iter().map(|(home, to)| (region(home), [region(to)].into())).collect(),
        standby_silence: RegionSettings::STANDBY_SILENCE,
        fail_over_after: None,
    }
}

fn token(secret: &str, scopes: &[Scope], tenant: Option<&str>) -> Arc<Token> {
    Arc::new(Token {
        name: secret.into(),
        hash: TokenHash::of(secret.as_bytes()),
        scopes: scopes.iter().copied().collect(),
        tenants: tenant.map(|tenant| [TenantId::parse(tenant).unwrap()].into()),
    })
}

/// Somebody who asks a node.
#[derive(Clone)]
pub(crate) struct Caller {
    address: SocketAddr,
    secret: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

/// What a node answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
    /// The body as it came.
    pub(crate) bytes: Bytes,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:#}", self.status, self.body)
    }
}

impl Answer {
    /// The answer, which must have this status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{:#}", self.body);
        self
    }

    /// The answer, which must be a problem with this status and code.
    #[track_caller]
    pub(crate) fn expect_problem(self, status: u16, code: &str) -> Self {
        let answer = self.expect(status);
        assert_eq!(answer.body["code"], code, "{:#}", answer.body);
        assert_eq!(answer.body["status"], status);
        assert_eq!(answer.header("content-type"), "application/problem+json");
        answer
    }

    /// A header's text; empty if it is not there.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// A text of the body.
    #[track_caller]
    pub(crate) fn text(&self, pointer: &str) -> &str {
        let value = self.body.pointer(pointer).and_then(Value::as_str);
        value.unwrap_or_else(|| panic!("no text at {pointer} in {:#}", self.body))
    }
}

impl Caller {
    pub(crate) fn new(address: SocketAddr, secret: &str) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { address, secret: secret.to_owned(), client }
    }

    /// Reads.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.raw("GET", path, &[], Bytes::new()).await
    }

    /// Changes something under a key.
    pub(crate) async fn keyed(&self, method: &str, path: &str, key: &str, body: &Value) -> Answer {
        let headers = [("idempotency-key", key), ("content-type", "application/json")];
        self.raw(method, path, &headers, body.to_string().into()).await
    }

    /// Changes something under a key.
    pub(crate) async fn post(&self, path: &str, key: &str, body: &Value) -> Answer {
        self.keyed("POST", path, key, body).await
    }

    /// Sends anything.
    pub(crate) async fn raw(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Answer {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let mut request =
            Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        if !self.secret.is_empty() {
            request = request.header("authorization", format!("Bearer {}", self.secret));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body)).unwrap();
        let answering = self.client.request(request);
        let response = tokio::time::timeout(Duration::from_secs(30), answering).await;
        let (parts, body) = response.expect("an answer in time").unwrap().into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = || Value::from(String::from_utf8_lossy(&bytes).into_owned());
        let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| text());
        Answer { status: parts.status.as_u16(), headers: parts.headers, body, bytes }
    }
}
