//! Clusters in one process, over loopback.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use purser_raft::disk::RealDisk;
use purser_raft::offline::{LoggedContent, OfflineNode};
use purser_raft::{
    Clock, ClusterId, Cut, Group, GroupId, GroupSettings, GroupStatus, Host, HostSettings, NodeId,
    PeerSwitch, ProposeError, RaftTimings, Role, SystemClock, WalSettings,
};
use purser_types::LogTime;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::counters::{Changed, Counters, add};
use crate::distance;

pub(crate) const GROUP: GroupId = GroupId(1);

/// Long enough for a stalled machine; nothing waits for it to pass.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn deadline() -> Instant {
    Instant::now() + PATIENCE
}

/// The system's clock, set wrong on purpose.
#[derive(Clone, Default)]
pub(crate) struct WrongClock(Arc<AtomicI64>);

impl WrongClock {
    pub(crate) fn set_ahead_by(&self, seconds: i64) {
        self.0.store(seconds * 1_000_000, Ordering::SeqCst);
    }
}

impl Clock for WrongClock {
    fn now(&self) -> LogTime {
        let now = i64::try_from(SystemClock.now().as_unix_micros()).unwrap();
        let wrong = now + self.0.load(Ordering::SeqCst);
        LogTime::from_unix_micros(u64::try_from(wrong).unwrap()).unwrap()
    }
}

/// A node that may be down.
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) dir: TempDir,
    pub(crate) switch: PeerSwitch,
    pub(crate) clock: WrongClock,
    running: Option<(Host, Group<Counters>)>,
}

pub(crate) struct Cluster {
    pub(crate) cluster: ClusterId,
    pub(crate) nodes: Vec<Node>,
    /// Where the nodes listen,
    addresses: BTreeMap<NodeId, String>,
    /// and where they reach each other.
    peers: BTreeMap<NodeId, String>,
    settings: GroupSettings,
    /// What lies between the two, if anything does.
    lines: JoinSet<()>,
}

impl Cluster {
    /// Nodes 1 to `count`, running, without members.
    pub(crate) async fn start(count: u64, settings: GroupSettings) -> Self {
        Self::start_apart(count, settings, Duration::ZERO).await
    }

    /// The same with nodes that are so far from each other, one way.
    pub(crate) async fn start_apart(count: u64, settings: GroupSettings, delay: Duration) -> Self {
        let mut this = Self {
            cluster: ClusterId::random().unwrap(),
            nodes: Vec::new(),
            addresses: BTreeMap::new(),
            peers: BTreeMap::new(),
            settings,
            lines: JoinSet::new(),
        };
        let mut listeners = Vec::new();
        for number in 1..=count {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let mut reached = address.clone();
            if !delay.is_zero() {
                let line = TcpListener::bind("127.0.0.1:0").await.unwrap();
                reached = line.local_addr().unwrap().to_string();
                this.lines.spawn(distance::lay(line, address.clone(), delay));
            }
            this.peers.insert(NodeId(number), reached);
            this.addresses.insert(NodeId(number), address);
            listeners.push(listener);
            this.nodes.push(Node {
                id: NodeId(number),
                dir: tempfile::tempdir().unwrap(),
                switch: PeerSwitch::default(),
                clock: WrongClock::default(),
                running: None,
            });
        }
        for (place, listener) in listeners.into_iter().enumerate() {
            this.run(place, listener).await;
        }
        this
    }

    /// Nodes 1 to `count` as voters of one group, with a leader.
    pub(crate) async fn with_voters(count: u64, settings: GroupSettings) -> Self {
        let cluster = Self::start(count, settings).await;
        let voters: BTreeSet<NodeId> = (1..=count).map(NodeId).collect();
        cluster.group(NodeId(1)).bootstrap(voters).await.unwrap();
        cluster.leader().await;
        cluster
    }

    async fn run(&mut self, place: usize, listener: TcpListener) {
        let node = &mut self.nodes[place];
        let settings = HostSettings {
            dir: node.dir.path().to_path_buf(),
            node: node.id,
            cluster: Some(self.cluster),
            peers: self.peers.clone(),
            timings: RaftTimings::SHARED_MACHINE,
            wal: WalSettings::SMALL,
            disk: Arc::new(RealDisk),
            clock: Arc::new(node.clock.clone()),
            switch: node.switch.clone(),
        };
        let host = Host::open(settings, listener).await.unwrap();
        let group = host.group(GROUP, Counters::default(), self.settings).await.unwrap();
        node.running = Some((host, group));
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        self.nodes.iter().find(|node| node.id == id).unwrap()
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.nodes.iter_mut().find(|node| node.id == id).unwrap()
    }

    pub(crate) fn group(&self, id: NodeId) -> &Group<Counters> {
        &self.node(id).running.as_ref().unwrap().1
    }

    pub(crate) fn host(&self, id: NodeId) -> &Host {
        &self.node(id).running.as_ref().unwrap().0
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = (NodeId, &Group<Counters>)> {
        self.nodes
            .iter()
            .filter_map(|node| node.running.as_ref().map(|(_, group)| (node.id, group)))
    }

    /// Stops a node like a killed process.
    pub(crate) async fn kill(&mut self, id: NodeId) {
        let (host, _group) = self.node_mut(id).running.take().unwrap();
        host.kill().await;
    }

    pub(crate) async fn shutdown(&mut self, id: NodeId) {
        let (host, _group) = self.node_mut(id).running.take().unwrap();
        host.shutdown(deadline()).await;
    }

    /// Takes a stopped node's storage away.
    pub(crate) fn empty(&mut self, id: NodeId) {
        self.node_mut(id).dir = tempfile::tempdir().unwrap();
    }

    /// Starts a stopped node again, at its old address.
    pub(crate) async fn restart(&mut self, id: NodeId) {
        let place = self.nodes.iter().position(|node| node.id == id).unwrap();
        let listener = TcpListener::bind(&self.addresses[&id]).await.unwrap();
        self.run(place, listener).await;
    }

    /// Cuts `id` off from all others, in both directions.
    pub(crate) fn isolate(&self, id: NodeId) {
        for other in self.nodes.iter().filter(|node| node.id != id) {
            self.node(id).switch.cut(other.id, Cut::Both);
        }
    }

    pub(crate) fn heal(&self, id: NodeId) {
        for other in &self.nodes {
            self.node(id).switch.heal(other.id);
        }
    }

    /// Waits until a running node leads.
    pub(crate) async fn leader(&self) -> NodeId {
        self.leader_among(&self.running().map(|(id, _)| id).collect::<Vec<_>>()).await
    }

    /// Waits until one of `among` leads.
    pub(crate) async fn leader_among(&self, among: &[NodeId]) -> NodeId {
        let leads = |id: NodeId| async move {
            self.wait_for(id, "leads", |status| status.role == Role::Leader).await;
            id
        };
        let waiting = among.iter().map(|id| Box::pin(leads(*id)));
        futures_util::future::select_all(waiting).await.0
    }

    /// Waits until a node's status is as wanted.
    pub(crate) async fn wait_for(
        &self,
        id: NodeId,
        what: &str,
        wanted: impl FnMut(&GroupStatus) -> bool,
    ) -> GroupStatus {
        let mut watch = self.group(id).watch();
        let waiting = tokio::time::timeout(PATIENCE, watch.wait_for(wanted));
        let status = waiting.await.map(|status| status.unwrap().clone());
        status.unwrap_or_else(|_| {
            panic!("node {id}: not in time: {what}; {:?}", self.group(id).status())
        })
    }

    /// Waits until every running node has applied what the leader has.
    pub(crate) async fn converge(&self) {
        let leader = self.leader().await;
        self.group(leader).read_barrier(deadline()).await.unwrap();
        let applied = self.group(leader).status().applied_index;
        for (id, _) in self.running() {
            self.wait_for(id, "converges", |status| status.applied_index >= applied).await;
        }
    }

    /// Adds to a counter through whoever leads.
    pub(crate) async fn add(&self, name: &str, amount: u64, padding: usize) -> Changed {
        let running: Vec<NodeId> = self.running().map(|(id, _)| id).collect();
        self.add_among(&running, name, amount, padding).await
    }

    /// Adds to a counter through whichever of `among` leads. A new leader refuses until its first
    /// heartbeats are answered.
    pub(crate) async fn add_among(
        &self,
        among: &[NodeId],
        name: &str,
        amount: u64,
        padding: usize,
    ) -> Changed {
        let patience = deadline();
        loop {
            let leader = self.leader_among(among).await;
            match self.group(leader).propose(add(name, amount, padding), patience).await {
                Ok(changed) => return changed,
                Err(ProposeError::NotLeader { .. }) if Instant::now() < patience => {
                    tokio::task::yield_now().await;
                }
                Err(error) => panic!("the change was not made: {error}"),
            }
        }
    }

    /// Every running node has the same machine, and its history has what the machine points to.
    #[track_caller]
    pub(crate) fn check_equal(&self) {
        let mut nodes = self.running();
        let (_, first) = nodes.next().unwrap();
        let (expected, bytes) = (first.machine(), first.status().history_bytes);
        expected.check_history(&first.history());
        for (id, group) in nodes {
            assert_eq!(group.machine(), expected, "node {id}");
            assert_eq!(group.status().history_bytes, bytes, "node {id}");
            group.machine().check_history(&group.history());
        }
    }

    async fn end_all(&mut self) {
        for id in self.running().map(|(id, _)| id).collect::<Vec<_>>() {
            self.shutdown(id).await;
        }
    }

    pub(crate) async fn end(mut self) {
        self.end_all().await;
    }

    /// Ends all nodes, and checks their folders: the same records everywhere, and stamps that never
    /// go down.
    pub(crate) async fn end_equal(mut self) {
        self.converge().await;
        self.check_equal();
        self.end_all().await;
        let mut histories = Vec::new();
        for node in &self.nodes {
            let offline = OfflineNode::open(node.dir.path()).unwrap();
            let records: Vec<_> = offline.history(GROUP).unwrap().map(Result::unwrap).collect();
            histories.push(records);
            check_stamps(&offline);
        }
        for history in &histories {
            assert!(*history == histories[0], "two nodes' histories differ");
        }
    }
}

#[track_caller]
fn check_stamps(node: &OfflineNode) {
    let stamp = |content: LoggedContent| match content {
        LoggedContent::Commands { at, .. } => Some(at),
        LoggedContent::Blank | LoggedContent::Membership => None,
    };
    let log = node.log(GROUP).unwrap();
    let stamps: Vec<LogTime> = log.into_iter().filter_map(|entry| stamp(entry.content)).collect();
    assert!(stamps.is_sorted(), "node {}: {stamps:?}", node.node());
}
