//! The way to one port of one node, as a listener that stands for it.
//!
//! ```text
//!  node of us ──▶ listener ──▶ pipe ──▶ port of eu/1
//!                          ◀── pipe ◀──
//! ```
//!
//! While the way is open, each connection is passed on with the delay of the way, and making it
//! costs a round trip. While it is closed, because one of the regions is cut off or the node is
//! gone, a new connection gets no answer at all, as if its packets were lost: the listener's queue
//! is kept full, and a system drops what asks for a place in a full queue. A cut loses everything
//! under way; both ends hear of that when the way is whole again, and the connections from before
//! are closed.

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::pipe;
use super::weather::Way;

/// Connections that wait to be accepted while the way is open.
const QUEUE_OPEN: u32 = 1_024;
/// The shortest queue: one connection fills it on Linux, and a few more do elsewhere.
const QUEUE_CLOSED: u32 = 0;
/// Connections of our own that fill the shortest queue.
const PLUGS: usize = 1;
/// Connections at once through one listener; further ones wait in the queue.
const CONNECTIONS_MAX: usize = 1_024;
/// Pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listener that stands for a port of a node in another region.
#[derive(Debug)]
pub(super) struct Proxy {
    listener: TcpListener,
    address: SocketAddr,
    target: SocketAddr,
    way: Way,
}

/// What keeps the queue of a listener full.
#[derive(Debug, Default)]
struct Plugs {
    /// Where our own connections come from, so that none of them is passed on.
    own: BTreeSet<SocketAddr>,
    held: JoinSet<()>,
}

impl Proxy {
    /// Listens at a port that the system chooses.
    pub(super) async fn bind(target: SocketAddr, way: Way) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address, target, way })
    }

    /// Where it listens.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Passes connections on until it is dropped. Returns only what went wrong.
    pub(super) async fn serve(self) -> io::Result<()> {
        let Self { mut listener, address, target, mut way } = self;
        let mut connections = JoinSet::new();
        let mut plugs = Plugs::default();
        loop {
            listener = with_queue(listener, QUEUE_OPEN)?;
            let open = accept(&listener, (&way, target), &mut plugs.own, &mut connections);
            let mut closing = way.clone();
            tokio::select! {
                biased;
                () = closing.until_open_is(false) => {}
                () = open => {}
            }
            // Order matters: whoever connects between these two lines takes the place of a plug,
            // and waits in the queue until the way is open.
            listener = with_queue(listener, QUEUE_CLOSED)?;
            plugs = Plugs::into(address)?;
            way.until_open_is(true).await;
            plugs.held.shutdown().await;
        }
    }
}

impl Plugs {
    fn into(listener: SocketAddr) -> io::Result<Self> {
        let mut plugs = Self::default();
        for _ in 0..PLUGS {
            let socket = TcpSocket::new_v4()?;
            socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
            plugs.own.insert(socket.local_addr()?);
            plugs.held.spawn(async move {
                // Held until the way is open, whether it got a place in the queue or waits for one.
                let _held = socket.connect(listener).await;
                std::future::pending::<()>().await;
            });
        }
        Ok(plugs)
    }
}

/// The same listener with another length of its queue.
///
/// Not here: closing it and listening anew, for which the port would have to be free still, and
/// which would refuse connections at once instead of leaving them without an answer.
fn with_queue(listener: TcpListener, length: u32) -> io::Result<TcpListener> {
    let descriptor = OwnedFd::from(listener.into_std()?);
    TcpSocket::from_std_stream(descriptor.into()).listen(length)
}

/// Accepts connections and has them passed on, for ever.
async fn accept(
    listener: &TcpListener,
    (way, target): (&Way, SocketAddr),
    own: &mut BTreeSet<SocketAddr>,
    connections: &mut JoinSet<()>,
) {
    loop {
        let accepted = tokio::select! {
            Some(ended) = connections.join_next() => {
                if let Err(panicked) = ended {
                    tracing::error!(%panicked, "a connection of the wire ended oddly");
                }
                continue;
            }
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => accepted,
        };
        match accepted {
            Ok((_stream, from)) if own.remove(&from) => {}
            Ok((stream, _)) => {
                connections.spawn(pass_on(stream, way.clone(), target));
            }
            Err(error) => {
                tracing::warn!(%error, "the wire could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Passes one connection on until both ends are done with it, or one breaks, or the way is cut.
async fn pass_on(mut near: TcpStream, mut way: Way, target: SocketAddr) {
    let accepted_at = Instant::now();
    let cuts = way.cuts();
    let mut far = None;
    let carried = async {
        // There and back: what a handshake takes.
        way.clone().until_arrival(accepted_at, 2).await;
        let far = far.insert(TcpStream::connect(target).await?);
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        let ((mut near_reader, mut near_writer), (mut far_reader, mut far_writer)) =
            (near.split(), far.split());
        let there = pipe::carry(&mut near_reader, &mut far_writer, way.clone());
        let back = pipe::carry(&mut far_reader, &mut near_writer, way.clone());
        tokio::try_join!(there, back)
    };
    let mut cutting = way.clone();
    let ended = tokio::select! {
        biased;
        () = cutting.until_cut_since(cuts) => None,
        ended = carried => Some(ended),
    };
    match ended {
        Some(Ok(_)) => {}
        Some(Err(error)) => tracing::debug!(%error, %target, "a connection of the wire broke"),
        // What was under way is lost. Order matters: both streams stay open for as long as nobody
        // can hear that they are closed.
        None => way.until_whole().await,
    }
}
