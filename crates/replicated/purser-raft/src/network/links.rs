//! The calling side: one connection per peer and lane, made when it is needed.
//!
//! Calls on a lane are sent in the order in which they are made and may overlap; the answers find
//! their callers by number. When a connection breaks, everything that waits on it fails at once. A
//! connection whose peer is silent counts as broken, and so that this is noticed without calls, and
//! with calls that take long, a ping goes out now and then.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tokio::io::{AsyncWriteExt, BufWriter};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, Semaphore, mpsc};

use crate::codec::Encoder;
use crate::ids::{ClusterId, GroupId, NodeId};
use crate::tasks::Tasks;

use super::calls::CALLS_AT_ONCE_MAX;
use super::frame;
use super::messages::{Hello, Lane, RequestKind, decode_answer, request};
use super::switch::PeerSwitch;
use super::waiting::{Caller, Pending, Waiting};

/// Calls that may wait for a connection to take them.
const CALLS_QUEUED_MAX: usize = 256;

/// A peer that does not take a connection in this time is unreachable: two round trips of seconds,
/// or one lost packet on the way to another region.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a connection is looked at for a silent peer.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// How often a connection is tried, used or not: a third of a server's patience.
const PING_PERIOD: Duration = Duration::from_secs(10);

/// The same for calls. Their answers may take as long as they like, and meanwhile the peer shows
/// several times within its patience that it is there.
const CALLS_PING_PERIOD: Duration = Duration::from_secs(1);

/// Why a call has no answer. It may have been carried out all the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("node {0} is cut off")]
    Cut(NodeId),
    #[error("node {peer} can not be reached: {detail}")]
    Unreachable { peer: NodeId, detail: String },
    #[error("node {peer} refused: {detail}")]
    Refused { peer: NodeId, detail: String },
}

/// The connections to all peers.
#[derive(Clone)]
pub(crate) struct Links {
    shared: Arc<Shared>,
}

struct Shared {
    cluster: ClusterId,
    node: NodeId,
    peers: RwLock<BTreeMap<NodeId, String>>,
    switch: PeerSwitch,
    tasks: Tasks,
    numbers: AtomicU64,
    links: Mutex<HashMap<(NodeId, Lane), LinkHandle>>,
    connected: Mutex<BTreeSet<NodeId>>,
    round_trips: Mutex<BTreeMap<NodeId, Duration>>,
    /// Told when a connection for log entries is there.
    on_connected: Arc<Notify>,
}

#[derive(Clone)]
struct LinkHandle {
    calls: mpsc::Sender<Call>,
    waiting: Arc<Waiting>,
    /// For the lane of calls: one permit for each that is on its way.
    at_once: Arc<Semaphore>,
}

struct Call {
    number: u64,
    payload: Vec<u8>,
    caller: Caller,
}

impl Links {
    pub(crate) fn new(
        (cluster, node): (ClusterId, NodeId),
        peers: BTreeMap<NodeId, String>,
        switch: PeerSwitch,
        tasks: Tasks,
        on_connected: Arc<Notify>,
    ) -> Self {
        let shared = Shared {
            cluster,
            node,
            peers: RwLock::new(peers),
            switch,
            tasks,
            numbers: AtomicU64::new(1),
            links: Mutex::default(),
            connected: Mutex::default(),
            round_trips: Mutex::default(),
            on_connected,
        };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn set_peers(&self, peers: BTreeMap<NodeId, String>) {
        *self.shared.peers.write().unwrap_or_else(PoisonError::into_inner) = peers;
    }

    pub(crate) fn peers(&self) -> Vec<NodeId> {
        let peers = self.shared.peers.read().unwrap_or_else(PoisonError::into_inner);
        peers.keys().copied().filter(|peer| *peer != self.shared.node).collect()
    }

    /// Ends all connections.
    pub(crate) async fn end(&self) {
        self.shared.tasks.end().await;
        lock(&self.shared.links).clear();
    }

    /// Peers with a connection for log entries.
    pub(crate) fn connected(&self) -> BTreeSet<NodeId> {
        lock(&self.shared.connected).clone()
    }

    /// A short message to `peer` and its answer took so long.
    pub(super) fn note_round_trip(&self, peer: NodeId, took: Duration) {
        lock(&self.shared.round_trips).insert(peer, took);
    }

    /// How long the last short message to `peer` and its answer took; nothing before the first.
    pub(crate) fn round_trip(&self, peer: NodeId) -> Duration {
        lock(&self.shared.round_trips).get(&peer).copied().unwrap_or_default()
    }

    /// Sends a request. Returns when it is queued behind those sent before.
    pub(crate) async fn send(
        &self,
        (peer, lane): (NodeId, Lane),
        kind: RequestKind,
        group: GroupId,
        encode_body: impl FnOnce(&mut Encoder),
    ) -> Result<Pending, LinkError> {
        if !self.shared.switch.lets_out(peer) {
            return Err(LinkError::Cut(peer));
        }
        let number = self.next_number();
        let mut encoder = request(number, kind, group);
        encode_body(&mut encoder);
        let LinkHandle { calls, waiting, .. } = self.link(peer, lane);
        let (caller, pending) = Pending::new(peer, number, waiting);
        let call = Call { number, payload: encoder.finish(), caller };
        calls.send(call).await.map_err(|_stopped| LinkError::Unreachable {
            peer,
            detail: "this node is stopping".to_owned(),
        })?;
        Ok(pending)
    }

    /// The permits for calls to `peer` that are on their way.
    pub(super) fn calls_at_once(&self, peer: NodeId) -> Arc<Semaphore> {
        self.link(peer, Lane::Calls).at_once
    }

    fn next_number(&self) -> u64 {
        self.shared.numbers.fetch_add(1, Ordering::Relaxed)
    }

    fn link(&self, peer: NodeId, lane: Lane) -> LinkHandle {
        let mut links = lock(&self.shared.links);
        let link = links.entry((peer, lane)).or_insert_with(|| {
            let (sender, calls) = mpsc::channel(CALLS_QUEUED_MAX);
            let waiting = Arc::new(Waiting::default());
            let link = Link { links: self.clone(), peer, lane, waiting: Arc::clone(&waiting) };
            self.shared.tasks.spawn(link.run(calls));
            let at_once = Arc::new(Semaphore::new(CALLS_AT_ONCE_MAX));
            LinkHandle { calls: sender, waiting, at_once }
        });
        link.clone()
    }

    fn address(&self, peer: NodeId) -> Option<String> {
        self.shared.peers.read().unwrap_or_else(PoisonError::into_inner).get(&peer).cloned()
    }

    /// Makes a connection and agrees on what it is for.
    pub(crate) async fn connect(&self, peer: NodeId, lane: Lane) -> io::Result<TcpStream> {
        if !self.shared.switch.lets_out(peer) {
            return Err(io::Error::other(LinkError::Cut(peer)));
        }
        let address = self.address(peer);
        let address = address.ok_or_else(|| io::Error::other("its address is not known"))?;
        let connecting = async {
            let mut stream = TcpStream::connect(&address).await?;
            stream.set_nodelay(true)?;
            let (cluster, from) = (self.shared.cluster, self.shared.node);
            frame::write(&mut stream, &Hello { cluster, from, to: peer, lane }.encode()).await?;
            let welcome = decode_answer(&frame::expect(&mut stream).await?)?;
            welcome.outcome.map_err(io::Error::other)?;
            Ok(stream)
        };
        match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
            Ok(connected) => connected,
            Err(_elapsed) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One lane to one peer.
struct Link {
    links: Links,
    peer: NodeId,
    lane: Lane,
    waiting: Arc<Waiting>,
}

impl Link {
    async fn run(self, mut calls: mpsc::Receiver<Call>) {
        while let Some(first) = calls.recv().await {
            match self.links.connect(self.peer, self.lane).await {
                Ok(stream) => self.serve(stream, first, &mut calls).await,
                Err(error) => {
                    let error = self.unreachable(&error);
                    let mut next = Some(first);
                    while let Some(call) = next {
                        call.caller.tell(Err(error.clone()));
                        next = calls.try_recv().ok();
                    }
                }
            }
        }
    }

    /// Carries calls over a connection until it breaks.
    async fn serve(&self, stream: TcpStream, first: Call, calls: &mut mpsc::Receiver<Call>) {
        let (reader, writer) = stream.into_split();
        if self.lane == Lane::Entries {
            lock(&self.links.shared.connected).insert(self.peer);
            self.links.shared.on_connected.notify_one();
        }
        let result = tokio::select! {
            result = self.read(reader) => result,
            result = self.write(writer, first, calls) => result,
            () = self.until_silent() => Err(io::ErrorKind::TimedOut.into()),
        };
        if self.lane == Lane::Entries {
            lock(&self.links.shared.connected).remove(&self.peer);
        }
        let error = match result {
            Ok(()) => io::ErrorKind::ConnectionReset.into(),
            Err(error) => error,
        };
        let error = self.unreachable(&error);
        tracing::debug!(peer = %self.peer, lane = ?self.lane, error = %error, "connection lost");
        self.waiting.fail(&error);
    }

    async fn write(
        &self,
        writer: OwnedWriteHalf,
        first: Call,
        calls: &mut mpsc::Receiver<Call>,
    ) -> io::Result<()> {
        let mut writer = BufWriter::with_capacity(64 << 10, writer);
        let mut next = Some(first);
        let period = if self.lane == Lane::Calls { CALLS_PING_PERIOD } else { PING_PERIOD };
        let mut ping_at = Instant::now() + period;
        loop {
            while let Some(call) = next.take() {
                if !self.links.shared.switch.lets_out(self.peer) {
                    call.caller.tell(Err(LinkError::Cut(self.peer)));
                } else if self.waiting.enter(call.number, call.caller, Instant::now()) {
                    frame::write(&mut writer, &call.payload).await?;
                }
                next = calls.try_recv().ok();
            }
            writer.flush().await?;
            if let Ok(call) = tokio::time::timeout_at(ping_at.into(), calls.recv()).await {
                let Some(call) = call else {
                    return Ok(());
                };
                next = Some(call);
            }
            if Instant::now() >= ping_at {
                self.ping(&mut writer).await?;
                ping_at = Instant::now() + period;
            }
        }
    }

    /// Asks for the time, and cares only whether there is an answer.
    async fn ping(&self, writer: &mut BufWriter<OwnedWriteHalf>) -> io::Result<()> {
        if self.links.shared.switch.lets_out(self.peer) {
            let ping = request(self.links.next_number(), RequestKind::Clock, GroupId(0)).finish();
            self.waiting.owe(Instant::now());
            frame::write(writer, &ping).await?;
        }
        Ok(())
    }

    async fn read(&self, mut reader: OwnedReadHalf) -> io::Result<()> {
        while let Some(payload) = frame::read(&mut reader).await? {
            if !self.links.shared.switch.lets_in(self.peer) {
                continue;
            }
            let answer = decode_answer(&payload)?;
            // The caller may have given up.
            let Some(caller) = self.waiting.take(answer.number, Instant::now()) else {
                continue;
            };
            let answer =
                answer.outcome.map_err(|detail| LinkError::Refused { peer: self.peer, detail });
            caller.tell(answer);
        }
        Ok(())
    }

    async fn until_silent(&self) {
        let mut ticks = tokio::time::interval(LOOK_PERIOD);
        while !self.waiting.is_silent(Instant::now()) {
            ticks.tick().await;
        }
    }

    fn unreachable(&self, error: &io::Error) -> LinkError {
        LinkError::Unreachable { peer: self.peer, detail: error.to_string() }
    }
}

#[cfg(test)]
mod tests;
