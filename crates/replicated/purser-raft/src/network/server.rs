//! The answering side: accepts connections and passes requests to the groups.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use openraft::raft::AppendEntriesRequest;
use tokio::io::{AsyncWriteExt, BufWriter};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use crate::codec::Encoder;
use crate::history::GroupHistory;
use crate::host::Leading;
use crate::ids::{ClusterId, GroupId, NodeId};
use crate::raft::Raft;
use crate::raft::types::{LeaderId, TypeConfig, Vote};
use crate::snapshot::incoming::Incoming;
use crate::tasks::{Stop, Tasks};

use super::calls::{Handler, IncomingCalls};
use super::clocks::Clocks;
use super::messages::{
    Hello, Lane, Request, RequestKind, answer, decode_append, decode_request, decode_transfer,
    decode_vote_request, encode_matched, encode_transferred, encode_vote_response,
};
use super::switch::PeerSwitch;
use super::{frame, transfer};

/// Who connects without saying why is cut off.
pub(super) const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// Four lanes for each of a few dozen nodes.
const CONNECTIONS_MAX: usize = 256;

/// A connection on which nothing arrives, or nothing leaves, for so long has lost its peer: clients
/// show themselves more often.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Requests to groups of one connection that may be carried out at once; further ones are not read.
const REQUESTS_AT_ONCE_MAX: usize = 64;

/// Answers that may wait for a peer to read them.
const ANSWERS_QUEUED_MAX: usize = 1024;

/// Appends of one leader that may wait for one group; openraft keeps as many in flight.
const APPENDS_QUEUED_MAX: usize = 64;

/// What the server needs of a group.
#[derive(Clone)]
pub(crate) struct GroupPort {
    pub(crate) raft: Raft,
    /// Says when the group ends here.
    pub(crate) stop: Stop,
    pub(crate) incoming: Arc<Incoming>,
    pub(crate) history: GroupHistory,
    pub(crate) step_timeout: Duration,
    /// The only leader whose entries are taken; those of any, if nothing.
    pub(crate) heard: Option<Leading>,
}

/// What a leader is told whose entries are not taken.
pub(crate) const NOT_HEARD: &str = "another leader is heard here";

impl GroupPort {
    /// Whether entries of a leader are taken.
    pub(crate) fn hears(&self, vote: &Vote) -> bool {
        let LeaderId { term, node_id: node } = vote.leader_id;
        self.heard.is_none_or(|heard| heard == Leading { term, node })
    }
}

/// The groups that are open, by id.
#[derive(Clone, Default)]
pub(crate) struct Ports {
    groups: Arc<RwLock<HashMap<GroupId, GroupPort>>>,
}

impl Ports {
    pub(crate) fn insert(&self, group: GroupId, port: GroupPort) {
        self.groups.write().unwrap_or_else(PoisonError::into_inner).insert(group, port);
    }

    pub(crate) fn remove(&self, group: GroupId) {
        self.groups.write().unwrap_or_else(PoisonError::into_inner).remove(&group);
    }

    /// Has a group take entries of this leader, in place of one that led before. Whether it does now.
    pub(crate) fn hear(&self, group: GroupId, leader: Leading) -> bool {
        let mut groups = self.groups.write().unwrap_or_else(PoisonError::into_inner);
        let Some(port) = groups.get_mut(&group) else { return false };
        port.heard = port.heard.map(|heard| heard.max(leader));
        port.heard.is_none_or(|heard| heard == leader)
    }

    pub(crate) fn get(&self, group: GroupId) -> Option<GroupPort> {
        self.groups.read().unwrap_or_else(PoisonError::into_inner).get(&group).cloned()
    }
}

/// The answering side.
pub(crate) struct Server {
    pub(crate) cluster: ClusterId,
    pub(crate) node: NodeId,
    pub(crate) switch: PeerSwitch,
    pub(crate) clocks: Clocks,
    pub(crate) ports: Ports,
    pub(crate) handler: Handler,
    pub(crate) tasks: Tasks,
}

type Answers = mpsc::Sender<Vec<u8>>;

/// An append and the number to answer it under.
type Numbered = (u64, AppendEntriesRequest<TypeConfig>);

/// Appends of one leader, in the order in which they came.
struct AppendStream {
    id: u64,
    appends: mpsc::Sender<Numbered>,
}

impl Server {
    /// Accepts connections until the tasks end.
    pub(crate) async fn run(self: Arc<Self>, listener: TcpListener) {
        let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
                return;
            };
            match listener.accept().await {
                Ok((stream, from)) => {
                    let server = Arc::clone(&self);
                    self.tasks.spawn(async move {
                        let _permit = permit;
                        if let Err(error) = server.serve(stream).await {
                            tracing::debug!(%from, error = %error, "connection ended");
                        }
                    });
                }
                Err(error) => {
                    // Out of file descriptors, for instance; it passes, and a loop without a
                    // pause would make it worse.
                    tracing::warn!(error = %error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn serve(self: Arc<Self>, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let hello = timeout(HELLO_TIMEOUT, frame::expect(&mut stream)).await??;
        let hello = Hello::decode(&hello)?;
        let refusal = if hello.cluster != self.cluster {
            Some(format!("this is a node of cluster {}", self.cluster))
        } else if hello.to != self.node {
            Some(format!("this is node {}", self.node))
        } else if !self.switch.lets_in(hello.from) {
            return self.ignore(hello.from, stream).await;
        } else {
            None
        };
        let welcome = refusal.clone().map_or(Ok(Vec::new()), Err);
        frame::write(&mut stream, &answer(0, welcome)).await?;
        if let Some(refusal) = refusal {
            tracing::warn!(peer = %hello.from, reason = refusal, "refused a connection");
            return Ok(());
        }
        match hello.lane {
            Lane::Entries | Lane::Control | Lane::Calls => {
                let (reader, writer) = stream.into_split();
                let (answers, queued) = mpsc::channel(ANSWERS_QUEUED_MAX);
                tokio::select! {
                    result = self.read_requests(hello.from, reader, answers) => result,
                    result = self.write_answers(hello.from, writer, queued) => result,
                }
            }
            Lane::Snapshot => {
                transfer::receive(&self.ports, &self.switch, hello.from, stream).await
            }
        }
    }

    /// Leaves a peer without an answer from which nothing arrives, for as long as it waits.
    async fn ignore(&self, peer: NodeId, mut stream: TcpStream) -> io::Result<()> {
        if self.switch.lets_out(peer) {
            while timeout(SILENCE_MAX, frame::read(&mut stream)).await??.is_some() {}
        }
        Ok(())
    }

    async fn write_answers(
        &self,
        peer: NodeId,
        writer: OwnedWriteHalf,
        mut answers: mpsc::Receiver<Vec<u8>>,
    ) -> io::Result<()> {
        let mut writer = BufWriter::with_capacity(16 << 10, writer);
        while let Some(first) = answers.recv().await {
            let mut next = Some(first);
            while let Some(payload) = next {
                if self.switch.lets_out(peer) {
                    timeout(SILENCE_MAX, frame::write(&mut writer, &payload)).await??;
                }
                next = answers.try_recv().ok();
            }
            timeout(SILENCE_MAX, writer.flush()).await??;
        }
        Ok(())
    }

    async fn read_requests(
        &self,
        peer: NodeId,
        mut reader: OwnedReadHalf,
        answers: Answers,
    ) -> io::Result<()> {
        let mut streams: HashMap<GroupId, AppendStream> = HashMap::new();
        let permits = Arc::new(Semaphore::new(REQUESTS_AT_ONCE_MAX));
        let (handler, tasks) = (self.handler.clone(), self.tasks.clone());
        let calls = IncomingCalls::new(peer, handler, answers.clone(), tasks);
        while let Some(payload) = timeout(SILENCE_MAX, frame::read(&mut reader)).await?? {
            if !self.switch.lets_in(peer) {
                continue;
            }
            let request = decode_request(&payload)?;
            let number = request.number;
            let refused = match (request.kind, self.ports.get(request.group)) {
                (RequestKind::Clock, _) => {
                    let mut body = Encoder::new();
                    body.u64(self.clocks.now().as_unix_micros());
                    Some(Ok(body.finish()))
                }
                (RequestKind::Call, _) => calls.begin(request).err().map(Err),
                (_, None) => Some(Err(format!("group {} is not open here", request.group))),
                (RequestKind::StreamAppend, Some(port)) => self
                    .queue_append(&mut streams, port, &answers, &request)
                    .await?
                    .map(|text| Err(text.to_owned())),
                (_, Some(port)) => {
                    let answers = answers.clone();
                    let permit = Arc::clone(&permits).acquire_owned().await;
                    self.tasks.spawn(async move {
                        let _permit = permit;
                        let outcome = carry_out(&port, request).await;
                        // The connection may be gone, and with it whoever asked.
                        drop(answers.send(answer(number, outcome)).await);
                    });
                    None
                }
            };
            if let Some(outcome) = refused
                && answers.send(answer(number, outcome)).await.is_err()
            {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Passes an append to its stream, begun anew if the leader began one. Gives a refusal.
    async fn queue_append(
        &self,
        streams: &mut HashMap<GroupId, AppendStream>,
        port: GroupPort,
        answers: &Answers,
        request: &Request,
    ) -> io::Result<Option<&'static str>> {
        let (id, body) = request.body.split_first_chunk::<8>().ok_or(io::ErrorKind::InvalidData)?;
        let id = u64::from_le_bytes(*id);
        let append = decode_append(&request.body.slice_ref(body))?;
        if !port.hears(&append.vote) {
            return Ok(Some(NOT_HEARD));
        }
        let is_current = streams.get(&request.group).is_some_and(|stream| stream.id == id);
        if !is_current {
            let (appends, queued) = mpsc::channel(APPENDS_QUEUED_MAX);
            self.tasks.spawn(run_stream(port.raft, queued, answers.clone()));
            streams.insert(request.group, AppendStream { id, appends });
        }
        let Some(stream) = streams.get(&request.group) else {
            return Ok(Some("the stream has ended"));
        };
        let queued = stream.appends.send((request.number, append)).await;
        Ok(queued.err().map(|_ended| "the stream has ended"))
    }
}

/// Feeds one stream of appends to the group, and answers each in turn.
async fn run_stream(raft: Raft, appends: mpsc::Receiver<Numbered>, answers: Answers) {
    // One place more than openraft takes in advance, so that this never waits on its reader.
    let (numbers, mut queued) = mpsc::channel(APPENDS_QUEUED_MAX * 2 + 2);
    let requests = stream::unfold((appends, numbers), |(mut appends, numbers)| async {
        let (number, append) = appends.recv().await?;
        numbers.send(number).await.ok()?;
        Some((append, (appends, numbers)))
    });
    let mut results = Box::pin(raft.stream_append(requests));
    while let Some(result) = results.next().await {
        let Some(number) = queued.recv().await else {
            break;
        };
        let outcome =
            result.map(|matched| encode_matched(&matched)).map_err(|fatal| fatal.to_string());
        if answers.send(answer(number, outcome)).await.is_err() {
            return;
        }
    }
    drop(results);
    queued.close();
    while let Some(number) = queued.recv().await {
        let outcome = Err("the stream has ended".to_owned());
        if answers.send(answer(number, outcome)).await.is_err() {
            return;
        }
    }
}

async fn carry_out(port: &GroupPort, request: Request) -> Result<Vec<u8>, String> {
    let (raft, body): (&Raft, &Bytes) = (&port.raft, &request.body);
    let malformed = |error: crate::codec::Malformed| error.to_string();
    match request.kind {
        RequestKind::Append => {
            let append = decode_append(body).map_err(malformed)?;
            if !port.hears(&append.vote) {
                return Err(NOT_HEARD.to_owned());
            }
            let last = append.entries.last().map(|entry| entry.log_id).or(append.prev_log_id);
            let prev = append.prev_log_id;
            let response = raft.append_entries(append).await.map_err(|error| error.to_string())?;
            // Only a previous entry can conflict; without one there is nothing to convert.
            if response.is_conflict() && prev.is_none() {
                return Err("a conflict before the first entry".to_owned());
            }
            Ok(encode_matched(&response.into_stream_result(prev, last)))
        }
        RequestKind::Vote => {
            let vote = decode_vote_request(body).map_err(malformed)?;
            let response = raft.vote(vote).await.map_err(|error| error.to_string())?;
            Ok(encode_vote_response(&response))
        }
        RequestKind::PreVote => {
            let vote = decode_vote_request(body).map_err(malformed)?;
            let response = raft.pre_vote(vote).await.map_err(|error| error.to_string())?;
            Ok(encode_vote_response(&response))
        }
        RequestKind::Transfer => {
            let transfer = decode_transfer(body).map_err(malformed)?;
            let transferred =
                raft.handle_transfer_leader(transfer).await.map_err(|error| error.to_string())?;
            Ok(encode_transferred(&transferred))
        }
        RequestKind::StreamAppend | RequestKind::Clock | RequestKind::Call => {
            Err("not for a group".to_owned())
        }
    }
}
