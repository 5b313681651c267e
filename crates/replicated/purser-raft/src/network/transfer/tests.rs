//! Transfers between two nodes, one of which also breaks them off and sends nonsense.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use purser_types::{ApplyError, CorruptSnapshot, History, LogTime, Machine, Stamped};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::clock::SystemClock;
use crate::disk::RealDisk;
use crate::group::Group;
use crate::host::Host;
use crate::ids::ClusterId;
use crate::network::PeerSwitch;
use crate::network::messages::{Hello, Lane};
use crate::settings::{GroupSettings, HostSettings, RaftTimings, WalSettings};

use super::*;

const CLUSTER: ClusterId = ClusterId::from_bytes([5; 16]);
const GROUP: GroupId = GroupId(1);
const SENDER: NodeId = NodeId(2);
const RECEIVER: NodeId = NodeId(1);

/// Keeps every command in the history, and counts them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Pages(u64);

impl Machine for Pages {
    type Answer = ();

    fn apply(&mut self, stamped: Stamped<'_>, history: &mut dyn History) -> Result<(), ApplyError> {
        history.append(stamped.command);
        self.0 += 1;
        Ok(())
    }

    fn log_time(&self) -> LogTime {
        LogTime::ZERO
    }

    fn snapshot(&self) -> Box<dyn Iterator<Item = Vec<u8>> + Send> {
        Box::new(std::iter::once(self.0.to_le_bytes().to_vec()))
    }

    fn restore(chunks: &mut dyn Iterator<Item = Vec<u8>>) -> Result<Self, CorruptSnapshot> {
        let chunk = chunks.next().unwrap_or_default();
        Ok(Self(u64::from_le_bytes(chunk.try_into().unwrap())))
    }
}

struct Node {
    host: Host,
    group: Group<Pages>,
    dir: TempDir,
}

fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

async fn node(node: NodeId) -> Node {
    let dir = tempfile::tempdir().unwrap();
    let settings = HostSettings {
        dir: dir.path().to_path_buf(),
        node,
        cluster: Some(CLUSTER),
        peers: Default::default(),
        timings: RaftTimings::SHARED_MACHINE,
        wal: WalSettings::SMALL,
        disk: Arc::new(RealDisk),
        clock: Arc::new(SystemClock),
        switch: PeerSwitch::default(),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = Host::open(settings, listener).await.unwrap();
    let group = host.group(GROUP, Pages::default(), GroupSettings::SMALL).await.unwrap();
    Node { host, group, dir }
}

/// A node with a snapshot and a history of several parts.
async fn sender() -> Node {
    let node = node(SENDER).await;
    node.group.bootstrap(BTreeSet::from([SENDER])).await.unwrap();
    let mut watch = node.group.watch();
    watch.wait_for(|status| status.leader == Some(SENDER)).await.unwrap();
    for number in 0..3 {
        let page = Bytes::from(vec![number; PART_BYTES]);
        node.group.propose(page, deadline()).await.unwrap();
    }
    let applied = node.group.status().applied_index;
    node.group.trigger_snapshot().await.unwrap();
    watch.wait_for(|status| status.snapshot_index >= applied).await.unwrap();
    node
}

fn outgoing(sender: &Node) -> Outgoing {
    let core = &sender.group.core;
    Outgoing {
        group: GROUP,
        vote: core.log.vote().unwrap().into(),
        file: core.snapshots.current().unwrap(),
        history: sender.group.history(),
        limit: Duration::from_secs(60),
    }
}

async fn connect(to: &Node) -> TcpStream {
    let mut stream = TcpStream::connect(to.host.listen_address()).await.unwrap();
    let hello = Hello { cluster: CLUSTER, from: SENDER, to: RECEIVER, lane: Lane::Snapshot };
    frame::write(&mut stream, &hello.encode()).await.unwrap();
    let welcome = frame::expect(&mut stream).await.unwrap();
    decode_answer(&welcome).unwrap().outcome.unwrap();
    stream
}

/// Makes the offer. Gives from where on the receiver wants the history.
async fn offer(stream: &mut TcpStream, outgoing: &Outgoing) -> u64 {
    let mut offer = Encoder::new();
    offer.u32(GROUP.0);
    encode_vote(&mut offer, outgoing.vote);
    frame::write(stream, &offer.finish()).await.unwrap();
    let reply = frame::expect(stream).await.unwrap();
    let reply = decode_answer(&reply).unwrap().outcome.unwrap();
    let mut decoder = Decoder::new(&reply);
    HistoryMark::decode(&mut decoder).unwrap();
    decoder.u64().unwrap()
}

/// The receiver's last word, which it says when it is done with what came.
async fn last_word(stream: &mut TcpStream) -> Result<Bytes, String> {
    decode_answer(&frame::expect(stream).await.unwrap()).unwrap().outcome
}

async fn send_history(stream: &mut TcpStream, outgoing: &Outgoing, bytes: &[u8]) {
    for part in bytes.chunks(PART_BYTES) {
        outgoing.send_part(stream, HISTORY_PART, part).await.unwrap();
    }
}

fn whole_history(outgoing: &Outgoing) -> Vec<u8> {
    let end = outgoing.history.length();
    let mut bytes: Vec<u8> = Vec::new();
    while u64::try_from(bytes.len()).unwrap() < end {
        let start = u64::try_from(bytes.len()).unwrap();
        bytes.extend(outgoing.history.raw(start, end, u64::MAX).unwrap());
    }
    bytes
}

/// Ends both nodes, and checks that the receiver has what the sender has, and nothing beside it.
async fn check_installed(receiver: &Node, sender: &Node) {
    // Whatever is on its way is gone after that.
    receiver.host.shutdown(deadline()).await;
    sender.host.shutdown(deadline()).await;
    assert_eq!(receiver.group.machine(), sender.group.machine());
    assert_eq!(receiver.group.history().mark(), sender.group.history().mark());
    let dir: &Path = &receiver.group.core.snapshots.place().dir;
    assert!(dir.starts_with(receiver.dir.path()));
    let files = std::fs::read_dir(dir).unwrap().count();
    assert_eq!(files, 1, "nothing but the snapshot is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_that_breaks_off_goes_on_where_it_ended() {
    let (sender, receiver) = (sender().await, node(RECEIVER).await);
    let outgoing = outgoing(&sender);
    let history = whole_history(&outgoing);
    let mut stream = connect(&receiver).await;
    assert_eq!(offer(&mut stream, &outgoing).await, 0);
    send_history(&mut stream, &outgoing, &history[..PART_BYTES + 5]).await;
    stream.shutdown().await.unwrap();
    assert!(last_word(&mut stream).await.is_err());

    let mut stream = connect(&receiver).await;
    assert_eq!(offer(&mut stream, &outgoing).await, u64::try_from(PART_BYTES + 5).unwrap());
    stream.shutdown().await.unwrap();
    assert!(last_word(&mut stream).await.is_err());

    outgoing.send(connect(&receiver).await).await.unwrap();
    check_installed(&receiver, &sender).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_that_breaks_is_thrown_away_and_asked_for_again() {
    let (sender, receiver) = (sender().await, node(RECEIVER).await);
    let outgoing = outgoing(&sender);
    let whole = whole_history(&outgoing);
    let mut flipped = whole.clone();
    flipped[PART_BYTES + 100] ^= 1;
    let mut endless = whole.clone();
    endless[3] = 0xff;
    let short = whole[..whole.len() - 1].to_vec();
    for damaged in [flipped, endless, short] {
        let mut stream = connect(&receiver).await;
        assert_eq!(offer(&mut stream, &outgoing).await, 0, "nothing is kept of the one before");
        outgoing.send_file(&mut stream).await.unwrap();
        send_history(&mut stream, &outgoing, &damaged).await;
        frame::write(&mut stream, &[END]).await.unwrap();
        assert!(last_word(&mut stream).await.is_err());
        assert_eq!(receiver.group.core.stop.reason(), None, "its node is none the worse");
    }
    outgoing.send(connect(&receiver).await).await.unwrap();
    check_installed(&receiver, &sender).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_that_is_not_newer_leaves_no_file_behind() {
    let (sender, receiver) = (sender().await, node(RECEIVER).await);
    for _ in 0..2 {
        outgoing(&sender).send(connect(&receiver).await).await.unwrap();
    }
    check_installed(&receiver, &sender).await;
}
