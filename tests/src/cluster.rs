//! Three nodes of one region: real `purser serve` processes with real files on this machine.
//!
//! The nodes are named 1, 2 and 3. Each can be killed, stopped, paused and started again at any
//! time; all of them end with the cluster. Not here: what a test does with them.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

use crate::http::Api;
use crate::leaders::{group_of, leaders};
use crate::ports::free_address;
use crate::program::{Running, printed};
use crate::wait::wait_for;

/// How long a node may take until it serves. Generous: a start on a busy machine takes a second.
const READY_DEADLINE: Duration = Duration::from_secs(60);
/// How long a node may take to shut down; its own grace period is shorter.
const STOP_DEADLINE: Duration = Duration::from_secs(30);
/// How much of a node's log is shown when a test fails.
const LOG_LINES_SHOWN: usize = 40;

/// How a cluster differs from the usual one.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// How many shards the accounts are spread over.
    pub shards: u32,
    /// Whether due events are written down without being looked at. No answer depends on it.
    pub sweeper: bool,
    /// After how many bytes of log a group takes a snapshot, if not as usual.
    pub snapshot_log_bytes: Option<u64>,
}

impl Default for Shape {
    /// More than one shard, so that nodes lead and follow at once; few, so that a start is quick.
    fn default() -> Self {
        Self { shards: 4, sweeper: true, snapshot_log_bytes: None }
    }
}

/// Who the caller is. Every node knows the same tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// May do everything.
    Admin,
    /// May use the data plane.
    Spend,
    /// May read the data plane.
    Read,
    /// May use the data plane of the tenant [`Caller::ACME`] alone.
    AcmeSpend,
    /// May do everything, for the tenant [`Caller::ACME`] alone.
    AcmeAdmin,
}

impl Caller {
    /// All callers.
    pub const ALL: [Self; 5] =
        [Self::Admin, Self::Spend, Self::Read, Self::AcmeSpend, Self::AcmeAdmin];
    /// The tenant that some callers are limited to.
    pub const ACME: &'static str = "acme";

    /// The caller's secret.
    pub const fn secret(self) -> &'static str {
        match self {
            Self::Admin => "secret-of-admin",
            Self::Spend => "secret-of-spend",
            Self::Read => "secret-of-read",
            Self::AcmeSpend => "secret-of-acme-spend",
            Self::AcmeAdmin => "secret-of-acme-admin",
        }
    }

    const fn scope(self) -> &'static str {
        match self {
            Self::Admin | Self::AcmeAdmin => "admin",
            Self::Spend | Self::AcmeSpend => "spend",
            Self::Read => "read",
        }
    }

    const fn limit(self) -> Option<&'static str> {
        match self {
            Self::Admin | Self::Spend | Self::Read => None,
            Self::AcmeSpend | Self::AcmeAdmin => Some(Self::ACME),
        }
    }
}

/// Three nodes.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Member>,
    shape: Shape,
    folder: TempDir,
}

/// One node, running or not.
#[derive(Debug)]
struct Member {
    id: usize,
    api: SocketAddr,
    peer: SocketAddr,
    running: Option<Running>,
}

impl Cluster {
    /// Starts three nodes of the usual shape and waits until all serve.
    pub async fn start() -> Self {
        Self::start_shaped(Shape::default()).await
    }

    /// Starts three nodes and waits until all serve.
    pub async fn start_shaped(shape: Shape) -> Self {
        Self::start_with(shape, "").await
    }

    /// The same, with more lines in each configuration.
    pub async fn start_with(shape: Shape, more: &str) -> Self {
        let mut cluster = Self::prepare(shape, more);
        for id in Self::IDS {
            cluster.start_node(id);
        }
        cluster.wait_for_all().await;
        cluster
    }

    /// The ids of the nodes.
    pub const IDS: [usize; 3] = [1, 2, 3];

    /// Writes tokens and configurations, and starts nothing.
    fn prepare(shape: Shape, more: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        for caller in Caller::ALL {
            let secret = format!("{}\n", caller.secret());
            std::fs::write(token_file(folder.path(), caller), secret).expect("a file is written");
        }
        let nodes: Vec<Member> = Self::IDS
            .into_iter()
            .map(|id| Member { id, api: free_address(), peer: free_address(), running: None })
            .collect();
        for node in &nodes {
            let text = configuration(node, &nodes, folder.path(), shape) + more;
            std::fs::write(config_file(folder.path(), node.id), text).expect("a file is written");
        }
        Self { nodes, shape, folder }
    }

    /// A node as the administrator sees it.
    pub fn api(&self, id: usize) -> Api {
        self.api_of(id, Caller::Admin)
    }

    /// A node as a caller sees it.
    pub fn api_of(&self, id: usize, caller: Caller) -> Api {
        Api::new(format!("http://{}", self.address(id)), caller.secret())
    }

    /// All nodes as the administrator sees them.
    pub fn apis(&self) -> Vec<Api> {
        Self::IDS.map(|id| self.api(id)).to_vec()
    }

    /// Where a node serves the API.
    pub fn address(&self, id: usize) -> SocketAddr {
        self.member(id).api
    }

    /// A node's data folder.
    pub fn data_dir(&self, id: usize) -> PathBuf {
        data_dir(self.folder.path(), id)
    }

    /// A node's configuration file.
    pub fn config_file(&self, id: usize) -> PathBuf {
        config_file(self.folder.path(), id)
    }

    /// A folder for what a test writes.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// All that a node has printed, over all its starts.
    pub fn printed(&self, id: usize) -> String {
        printed(&self.output_file(id))
    }

    /// Starts a node that does not run. Does not wait until it serves.
    pub fn start_node(&mut self, id: usize) {
        let (config, output) = (self.config_file(id), self.output_file(id));
        let member = self.member_mut(id);
        assert!(member.running.is_none(), "node {id} runs already");
        let arguments = ["serve".as_ref(), "--config".as_ref(), config.as_os_str()];
        member.running = Some(Running::start(arguments, &output));
    }

    /// Ends a node as a power cut would (SIGKILL).
    pub fn kill(&mut self, id: usize) {
        self.take_running(id).kill();
    }

    /// Asks a node to stop (SIGTERM) and waits until it has.
    pub async fn stop(&mut self, id: usize) -> ExitStatus {
        let running = self.take_running(id);
        running.signal(Signal::TERM);
        running.wait_for_end(STOP_DEADLINE).await
    }

    /// Stops all nodes in order.
    pub async fn stop_all(&mut self) {
        for id in Self::IDS {
            let status = self.stop(id).await;
            assert!(status.success(), "node {id} ended with {status}: {}", self.printed(id));
        }
    }

    /// Freezes a node in the middle of whatever it does (SIGSTOP). It stands still at the return.
    pub fn pause(&self, id: usize) {
        self.running(id).freeze();
    }

    /// Lets a frozen node go on (SIGCONT).
    pub fn resume(&self, id: usize) {
        self.running(id).signal(Signal::CONT);
    }

    /// Waits until a node serves: every group knows its leader, and this node has caught up.
    pub async fn wait_for_node(&mut self, id: usize) {
        let api = self.api(id);
        wait_for(format!("node {id} is ready"), READY_DEADLINE, async || {
            let ended = self.member_mut(id).running.as_mut().and_then(Running::ended);
            assert_eq!(ended, None, "node {id} ended: {}", self.printed(id));
            api.try_get("/readyz").await.is_ok_and(|reply| reply.status == 200).then_some(())
        })
        .await;
    }

    /// The node that leads the group of a tenant's account, as the running nodes agree.
    pub async fn leader_of(&self, tenant: &str) -> usize {
        let group = group_of(tenant, self.shape.shards);
        let running: Vec<Api> = self
            .nodes
            .iter()
            .filter(|node| node.running.is_some())
            .map(|node| self.api(node.id))
            .collect();
        wait_for(format!("the nodes agree who leads for {tenant}"), READY_DEADLINE, async || {
            let mut named = Vec::new();
            for api in &running {
                named.push(leaders(api).await.get(&group).copied()?);
            }
            let first = *named.first()?;
            let agreed = named.iter().all(|leader| *leader == first);
            agreed.then(|| usize::try_from(first).expect("the nodes are 1, 2 and 3"))
        })
        .await
    }

    /// Makes a node lead the group of a tenant's account, and waits until all agree that it does.
    pub async fn hand_leadership(&self, tenant: &str, id: usize) {
        let group = group_of(tenant, self.shape.shards);
        let path = format!("/admin/v1/cluster/groups/{group}/leader");
        let api = self.api(id);
        wait_for(format!("node {id} leads for {tenant}"), READY_DEADLINE, async || {
            if self.leader_of(tenant).await == id {
                return Some(());
            }
            // A leader that changes meanwhile refuses; then the next look decides.
            let body = json!({ "node": id }).to_string();
            let request = api.request(Method::PUT, &path).header(CONTENT_TYPE, "application/json");
            drop(api.send(request.body(body)).await);
            None
        })
        .await;
    }

    /// Waits until all nodes serve.
    pub async fn wait_for_all(&mut self) {
        for id in Self::IDS {
            self.wait_for_node(id).await;
        }
    }

    fn take_running(&mut self, id: usize) -> Running {
        self.member_mut(id).running.take().expect("the node runs")
    }

    fn running(&self, id: usize) -> &Running {
        self.member(id).running.as_ref().expect("the node runs")
    }

    fn member(&self, id: usize) -> &Member {
        self.nodes.iter().find(|node| node.id == id).expect("the nodes are 1, 2 and 3")
    }

    fn member_mut(&mut self, id: usize) -> &mut Member {
        self.nodes.iter_mut().find(|node| node.id == id).expect("the nodes are 1, 2 and 3")
    }

    fn output_file(&self, id: usize) -> PathBuf {
        self.folder.path().join(format!("node-{id}.log"))
    }
}

impl Drop for Cluster {
    /// Shows the ends of the logs if the test has failed. The nodes end by themselves.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for id in Self::IDS {
            let text = self.printed(id);
            let lines: Vec<&str> = text.lines().collect();
            let shown = lines.get(lines.len().saturating_sub(LOG_LINES_SHOWN)..).unwrap_or(&[]);
            eprintln!("the last lines of node {id}:\n{}", shown.join("\n"));
        }
    }
}

fn data_dir(folder: &Path, id: usize) -> PathBuf {
    folder.join(format!("node-{id}"))
}

fn config_file(folder: &Path, id: usize) -> PathBuf {
    folder.join(format!("node-{id}.toml"))
}

fn token_file(folder: &Path, caller: Caller) -> PathBuf {
    folder.join(format!("{}.token", caller.secret()))
}

/// A node's configuration file.
///
/// The timings bear two busy processors and still replace a lost leader in about two seconds. What a
/// node alone cannot decide is given up within five.
fn configuration(node: &Member, nodes: &[Member], folder: &Path, shape: Shape) -> String {
    let Member { id, api, peer, .. } = node;
    let data_dir = data_dir(folder, *id);
    let (shards, sweep_ms) = (shape.shards, if shape.sweeper { 1_000 } else { 0 });
    let mut text = format!(
        "node = {id}\ncluster = \"process-tests\"\nregion = \"us\"\ndata-dir = {data_dir:?}\n\
         listen = \"{api}\"\npeer-listen = \"{peer}\"\nshards = {shards}\n\
         sweep-ms = {sweep_ms}\ngrace-ms = 10000\n\
         [raft]\nheartbeat-ms = 150\nelection-min-ms = 900\nelection-max-ms = 1500\n\
         [limits]\nrequest-ms = 5000\n\
         [storage]\nprofile = \"small\"\n"
    );
    if let Some(bytes) = shape.snapshot_log_bytes {
        let written = writeln!(text, "snapshot-log-bytes = {bytes}\nkeep-log-bytes = {bytes}");
        written.expect("a string takes all");
    }
    for Member { id, api, peer, .. } in nodes.iter().filter(|other| other.id != *id) {
        let written = write!(
            text,
            "[[peer]]\nnode = {id}\naddress = \"{peer}\"\napi-url = \"http://{api}\"\n"
        );
        written.expect("a string takes all");
    }
    for caller in Caller::ALL {
        let (file, scope) = (token_file(folder, caller), caller.scope());
        let tenants = caller.limit().map(|name| format!("tenants = [\"{name}\"]\n"));
        let written = write!(
            text,
            "[[token]]\nname = \"{scope}-{caller:?}\"\ntoken-file = {file:?}\n\
             scopes = [\"{scope}\"]\n{}",
            tenants.unwrap_or_default()
        );
        written.expect("a string takes all");
    }
    text
}
