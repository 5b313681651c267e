//! The calling side: one connection per peer and lane, made when it is needed.
//!
//! Calls on a lane are sent in the order in which they are made and may overlap; the answers find
//! their callers by number. When a connection breaks, everything that waits on it fails at once. A
//! connection whose peer is silent counts as broken, and so that this is noticed without calls, a
//! ping goes out now and then.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::{AsyncWriteExt, BufWriter};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::codec::Encoder;
use crate::ids::{ClusterId, GroupId, NodeId};
use crate::tasks::Tasks;

use super::frame;
use super::messages::{Hello, Lane, RequestKind, decode_answer, request};
use super::switch::PeerSwitch;
use super::waiting::{Outcome, Waiting};

/// Calls that may wait for a connection to take them.
const CALLS_QUEUED_MAX: usize = 256;

/// A peer that does not take a connection in this time is unreachable.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// How often a connection is looked at for a silent peer.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// A connection that is not used for so long is tried: a third of a server's patience.
const PING_PERIOD: Duration = Duration::from_secs(10);

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
    /// Told when a connection for log entries is there.
    on_connected: Arc<Notify>,
}

#[derive(Clone)]
struct LinkHandle {
    calls: mpsc::Sender<Call>,
    waiting: Arc<Waiting>,
}

struct Call {
    number: u64,
    payload: Vec<u8>,
    outcome: Outcome,
}

/// An answer that is on its way. Dropped, it is not waited for any more.
pub(crate) struct Pending {
    peer: NodeId,
    number: u64,
    waiting: Arc<Waiting>,
    outcome: oneshot::Receiver<Result<Bytes, LinkError>>,
}

impl Drop for Pending {
    fn drop(&mut self) {
        // Order matters: a call that is about to be sent is not entered once this is closed.
        self.outcome.close();
        self.waiting.forget(self.number);
    }
}

impl Pending {
    pub(crate) async fn answer(mut self) -> Result<Bytes, LinkError> {
        match (&mut self.outcome).await {
            Ok(outcome) => outcome,
            Err(_dropped) => {
                let detail = "this node is stopping".to_owned();
                Err(LinkError::Unreachable { peer: self.peer, detail })
            }
        }
    }
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
        let (sender, outcome) = oneshot::channel();
        let call = Call { number, payload: encoder.finish(), outcome: sender };
        let LinkHandle { calls, waiting } = self.link(peer, lane);
        calls.send(call).await.map_err(|_stopped| LinkError::Unreachable {
            peer,
            detail: "this node is stopping".to_owned(),
        })?;
        Ok(Pending { peer, number, waiting, outcome })
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
            LinkHandle { calls: sender, waiting }
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
                        drop(call.outcome.send(Err(error.clone())));
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
        loop {
            while let Some(call) = next.take() {
                if !self.links.shared.switch.lets_out(self.peer) {
                    drop(call.outcome.send(Err(LinkError::Cut(self.peer))));
                } else if self.waiting.enter(call.number, call.outcome, Instant::now()) {
                    frame::write(&mut writer, &call.payload).await?;
                }
                next = calls.try_recv().ok();
            }
            writer.flush().await?;
            match tokio::time::timeout(PING_PERIOD, calls.recv()).await {
                Ok(Some(call)) => next = Some(call),
                Ok(None) => return Ok(()),
                Err(_elapsed) => self.ping(&mut writer).await?,
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
            let Some(outcome) = self.waiting.take(answer.number, Instant::now()) else {
                continue;
            };
            let answer =
                answer.outcome.map_err(|detail| LinkError::Refused { peer: self.peer, detail });
            drop(outcome.send(answer));
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
mod tests {
    use tokio::net::TcpListener;

    use super::super::messages::{answer, decode_request};
    use super::*;

    #[tokio::test]
    async fn a_call_that_is_given_up_leaves_nothing_behind() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peers = [(NodeId(2), listener.local_addr().unwrap().to_string())].into();
        let (cluster, tasks) = (ClusterId::from_bytes([1; 16]), Tasks::new());
        let node = (cluster, NodeId(1));
        let links = Links::new(node, peers, PeerSwitch::default(), tasks, Arc::default());
        let target = (NodeId(2), Lane::Control);
        let sending = links.send(target, RequestKind::Clock, GroupId(0), |_body| ());
        let pending = sending.await.unwrap();

        let (mut stream, _) = listener.accept().await.unwrap();
        frame::expect(&mut stream).await.unwrap();
        frame::write(&mut stream, &answer(0, Ok(Vec::new()))).await.unwrap();
        let request = decode_request(&frame::expect(&mut stream).await.unwrap()).unwrap();
        let waiting = Arc::clone(&pending.waiting);
        let numbers = || waiting.numbers();
        assert_eq!(numbers(), [request.number]);
        drop(pending);
        assert_eq!(numbers(), []);
        links.end().await;
    }
}
