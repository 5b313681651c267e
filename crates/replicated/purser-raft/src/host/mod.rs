//! The process-wide part of a node: its data folder, its log, its listener, its groups.
//!
//! What starts and ends it is boxed where others call it. Otherwise all of consensus, which is one
//! large future, would be compiled again in every crate that opens a host.

pub(crate) mod folder;
mod groups;
mod registry;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use futures_util::future::BoxFuture;
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};

use crate::disk::{Disk, DiskLock};
use crate::error::{OpenError, StopReason};
use crate::identity::Identity;
use crate::ids::{ClusterId, GroupId, NodeId};
use crate::network::calls::{CallHandler, Handler};
use crate::network::clocks::Clocks;
use crate::network::links::Links;
use crate::network::peer_calls::PeerCalls;
use crate::network::server::{Ports, Server};
use crate::raft::group_log::GroupLog;
use crate::settings::{HostSettings, RaftTimings};
use crate::status::HostStatus;
use crate::tasks::{Stop, Tasks};
use crate::wal::{RecoveredGroup, Wal};

use folder::{disk_error, open_folder};
pub use groups::{Hearing, Leading};
pub(crate) use registry::Registration;
use registry::Registry;

/// A node. Cloning gives another handle to the same node.
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

struct Inner {
    dir: PathBuf,
    disk: Arc<dyn Disk>,
    identity: Identity,
    timings: RaftTimings,
    listen_address: SocketAddr,
    wal: Arc<Wal>,
    links: Links,
    clocks: Clocks,
    ports: Ports,
    handler: Handler,
    tasks: Tasks,
    stop: Stop,
    /// One snapshot is written at a time.
    snapshot_writing: Arc<Semaphore>,
    registry: Arc<Registry>,
    logs: Mutex<Logs>,
    /// Held while the node is being ended, so that the second who asks waits for the first.
    ending: tokio::sync::Mutex<bool>,
    /// Given back when everything has ended.
    lock: Mutex<Option<Box<dyn DiskLock>>>,
}

/// The groups' parts of the write-ahead log.
struct Logs {
    /// What was there at the start, of groups that were not opened yet.
    recovered: BTreeMap<GroupId, RecoveredGroup>,
    /// Of groups that were opened in this process, also if they were closed again.
    opened: BTreeMap<GroupId, Arc<GroupLog>>,
}

impl Host {
    /// Opens a data folder, or makes one, and starts to serve other nodes on `listener`.
    ///
    /// Refuses a folder that is in use, that belongs to another node or cluster, or whose log is
    /// damaged anywhere but at its very end.
    pub fn open(
        settings: HostSettings,
        listener: TcpListener,
    ) -> BoxFuture<'static, Result<Self, OpenError>> {
        Box::pin(Self::open_now(settings, listener))
    }

    async fn open_now(settings: HostSettings, listener: TcpListener) -> Result<Self, OpenError> {
        let dir = settings.dir.clone();
        let listen_address = listener.local_addr().map_err(|source| disk_error(&dir, source))?;
        let folder = settings.clone();
        let opening = tokio::task::spawn_blocking(move || open_folder(&folder));
        let opened = opening.await.map_err(|error| OpenError::Start(error.to_string()))??;
        let (cluster, node) = (opened.identity.cluster, opened.identity.node);
        let (tasks, stop) = (Tasks::new(), Stop::new());
        let switch = settings.switch.clone();
        let ask_clocks = Arc::new(Notify::new());
        let links = Links::new(
            (cluster, node),
            settings.peers,
            switch.clone(),
            tasks.subset(),
            Arc::clone(&ask_clocks),
        );
        let clocks = Clocks::new(node, settings.clock, ask_clocks);
        let (ports, handler) = (Ports::default(), Handler::default());
        let server = Server {
            cluster,
            node,
            switch,
            clocks: clocks.clone(),
            ports: ports.clone(),
            handler: handler.clone(),
            tasks: tasks.clone(),
        };
        tasks.spawn_vital("server", &stop, Arc::new(server).run(listener));
        tasks.spawn_vital("clocks", &stop, clocks.clone().ask(links.clone(), tasks.clone()));
        let mut failed = opened.wal.failed();
        let wal_stop = stop.clone();
        tasks.spawn(async move {
            if let Ok(reason) = failed.wait_for(Option::is_some).await {
                let reason = reason.clone().unwrap_or_default();
                wal_stop.stop(StopReason::Log(reason));
            }
        });
        let logs = Logs { recovered: opened.recovered, opened: BTreeMap::new() };
        let inner = Inner {
            dir,
            disk: settings.disk,
            identity: opened.identity,
            timings: settings.timings,
            listen_address,
            wal: Arc::new(opened.wal),
            links,
            clocks,
            ports,
            handler,
            tasks,
            stop,
            snapshot_writing: Arc::new(Semaphore::new(1)),
            registry: Arc::default(),
            logs: Mutex::new(logs),
            ending: tokio::sync::Mutex::new(false),
            lock: Mutex::new(Some(opened.lock)),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Which node this is.
    pub fn node(&self) -> NodeId {
        self.inner.identity.node
    }

    /// Which cluster this is.
    pub fn cluster(&self) -> ClusterId {
        self.inner.identity.cluster
    }

    /// Where other nodes reach this one, as the system gave it.
    pub fn listen_address(&self) -> SocketAddr {
        self.inner.listen_address
    }

    /// Replaces the addresses of the other nodes.
    pub fn set_peers(&self, peers: BTreeMap<NodeId, String>) {
        self.inner.links.set_peers(peers);
    }

    /// Has `handler` answer what other nodes ask by [`PeerCalls`], in place of the one before.
    /// Without one, calls are refused. It is let go when the node has ended.
    pub fn serve_calls(&self, handler: Arc<dyn CallHandler>) {
        self.inner.handler.set(Some(handler));
    }

    /// The node's way to ask others.
    pub fn calls(&self) -> PeerCalls {
        PeerCalls::of_node(self.node(), self.inner.links.clone())
    }

    /// Numbers about the node.
    pub fn status(&self) -> HostStatus {
        let mut status = HostStatus {
            clock_offset_micros: self.inner.clocks.offsets(),
            connected: self.inner.links.connected(),
            ..HostStatus::default()
        };
        self.inner.wal.fill_status(&mut status);
        status
    }

    /// Resolves when the node can not go on, with the reason; also after a shutdown.
    pub async fn failed(&self) -> StopReason {
        self.inner.stop.stopped().await
    }

    /// Stops every group as [`crate::Group::shutdown`] does, then the log and the listener. Returns
    /// when all tasks and threads have ended and the folder is free.
    pub fn shutdown(&self, deadline: Instant) -> BoxFuture<'_, ()> {
        Box::pin(self.end(Some(deadline)))
    }

    /// Stops like a killed process: nothing is handed over, nothing buffered is written. Returns
    /// when all tasks and threads have ended and the folder is free.
    pub fn kill(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.end(None))
    }

    async fn end(&self, hand_over_until: Option<Instant>) {
        let inner = &self.inner;
        inner.stop.stop(StopReason::ShutDown);
        let mut ended = inner.ending.lock().await;
        if *ended {
            return;
        }
        let open = inner.registry.close().await;
        if hand_over_until.is_none() {
            // Order matters: whoever is told that the log has ended knows that it was on purpose.
            for core in &open {
                core.stop.stop(StopReason::ShutDown);
            }
            // Before anything else, so that nothing more reaches the disk.
            let wal = Arc::clone(&inner.wal);
            join_blocking(move || wal.kill()).await;
        }
        let ending = open.iter().map(|core| core.end(hand_over_until));
        futures_util::future::join_all(ending).await;
        inner.links.end().await;
        inner.tasks.end().await;
        if hand_over_until.is_some() {
            let wal = Arc::clone(&inner.wal);
            join_blocking(move || wal.close()).await;
        }
        // It may hold this node.
        inner.handler.set(None);
        // Order matters: last of all, or another process could meet this one's writes.
        drop(inner.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
        *ended = true;
    }
}

async fn join_blocking(work: impl FnOnce() + Send + 'static) {
    if let Err(error) = tokio::task::spawn_blocking(work).await {
        tracing::error!(error = %error, "ending the write-ahead log failed");
    }
}
