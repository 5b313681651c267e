//! openraft's network, over the links.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::{FutureExt, Stream, StreamExt, future::BoxFuture, stream, stream::BoxStream};
use openraft::error::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2, stream_append_sequential};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendError,
    StreamAppendResult, TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{EmptyNode, OptionalSend};
use tokio::time::Instant;
use tokio::time::error::Elapsed;

use crate::codec::{Encoder, Malformed};
use crate::history::GroupHistory;
use crate::ids::{GroupId, NodeId};
use crate::network::links::{LinkError, Links, Pending};
use crate::network::messages::{
    Lane, RequestKind, decode_matched, decode_transferred, decode_vote_response, encode_append,
    encode_transfer, encode_vote_request,
};
use crate::network::transfer::Outgoing;
use crate::raft::types::{LeaderId, TypeConfig, Vote};
use crate::settings::RaftTimings;
use crate::snapshot::incoming::SnapshotData;

/// Appends that may be on their way to one follower before the first is answered.
const APPENDS_IN_FLIGHT_MAX: usize = 32;

type RpcError = RPCError<TypeConfig>;
type Snapshot = openraft::Snapshot<LeaderId, NodeId, EmptyNode, SnapshotData>;

/// Makes the connections of one group.
#[derive(Clone)]
pub(crate) struct NetworkFactory {
    pub(crate) group: GroupId,
    pub(crate) links: Links,
    pub(crate) history: GroupHistory,
    pub(crate) timings: RaftTimings,
}

/// One group's way to one peer, on one lane.
pub(crate) struct Network {
    factory: NetworkFactory,
    peer: NodeId,
    lane: Lane,
}

/// Tells streams of appends apart, in the whole process.
static STREAMS: AtomicU64 = AtomicU64::new(1);

impl RaftNetworkFactory<TypeConfig> for NetworkFactory {
    type Network = Network;

    async fn new_client(&mut self, target: NodeId, _node: &EmptyNode) -> Network {
        Network { factory: self.clone(), peer: target, lane: Lane::Entries }
    }

    async fn new_heartbeat_client(&mut self, target: NodeId, _node: &EmptyNode) -> Network {
        Network { factory: self.clone(), peer: target, lane: Lane::Control }
    }
}

fn rpc_error(error: &LinkError) -> RpcError {
    match error {
        LinkError::Refused { .. } => RPCError::Network(NetworkError::new(error)),
        LinkError::Cut(_) | LinkError::Unreachable { .. } => {
            RPCError::Unreachable(Unreachable::new(error))
        }
    }
}

fn malformed(error: &Malformed) -> RpcError {
    RPCError::Network(NetworkError::new(error))
}

impl Network {
    /// One request and its answer, on the lane for short messages.
    async fn call<T>(
        &self,
        limit: Duration,
        kind: RequestKind,
        encode: impl FnOnce(&mut Encoder),
        decode: impl FnOnce(&[u8]) -> Result<T, Malformed>,
    ) -> Result<T, RpcError> {
        let calling = async {
            let target = (self.peer, Lane::Control);
            let pending = self.factory.links.send(target, kind, self.factory.group, encode).await?;
            pending.answer().await
        };
        match tokio::time::timeout(limit, calling).await {
            Ok(Ok(answer)) => decode(&answer).map_err(|error| malformed(&error)),
            Ok(Err(error)) => Err(rpc_error(&error)),
            Err(elapsed) => Err(RPCError::Unreachable(Unreachable::new(&elapsed))),
        }
    }

    /// How long one append may take, from being queued behind others to its answer, before the
    /// stream is given up: longer than any healthy disk takes. (A connection that died is noticed
    /// by the link, which fails everything on it.)
    fn append_limit(&self) -> Duration {
        self.factory.timings.election_max * 4
    }
}

/// One append on its way.
async fn answer_to(
    sent: Result<Result<Pending, LinkError>, Elapsed>,
    deadline: Instant,
) -> Result<StreamAppendResult<TypeConfig>, RpcError> {
    let pending = sent.map_err(|elapsed| RPCError::Unreachable(Unreachable::new(&elapsed)))?;
    let pending = pending.map_err(|error| rpc_error(&error))?;
    match tokio::time::timeout_at(deadline, pending.answer()).await {
        Ok(Ok(body)) => decode_matched(&body).map_err(|error| malformed(&error)),
        Ok(Err(error)) => Err(rpc_error(&error)),
        Err(elapsed) => Err(RPCError::Unreachable(Unreachable::new(&elapsed))),
    }
}

impl RaftNetworkV2<TypeConfig> for Network {
    type SnapshotData = SnapshotData;

    async fn append_entries(
        &mut self,
        append: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RpcError> {
        let encode = |body: &mut Encoder| encode_append(body, append);
        let matched =
            self.call(option.hard_ttl(), RequestKind::Append, encode, decode_matched).await?;
        Ok(match matched {
            Ok(last) => AppendEntriesResponse::PartialSuccess(last),
            Err(StreamAppendError::Conflict(_)) => AppendEntriesResponse::Conflict,
            Err(StreamAppendError::HigherVote(vote)) => AppendEntriesResponse::HigherVote(vote),
        })
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        option: RPCOption,
    ) -> BoxFuture<
        's,
        Result<BoxStream<'s, Result<StreamAppendResult<TypeConfig>, RpcError>>, RpcError>,
    >
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + OptionalSend + Unpin + 'static,
    {
        // Heartbeats come one at a time and have a lane of their own.
        if self.lane == Lane::Control {
            return stream_append_sequential(self, input, option);
        }
        let id = STREAMS.fetch_add(1, Ordering::Relaxed);
        let limit = self.append_limit();
        let (links, group, target) =
            (self.factory.links.clone(), self.factory.group, (self.peer, Lane::Entries));
        // Sent in order, one after the other; answered in order, many at once.
        let answers = input
            .then(move |append| {
                let links = links.clone();
                async move {
                    let deadline = Instant::now() + limit;
                    let encode = |body: &mut Encoder| encode_append(body.u64(id), append);
                    let sending = links.send(target, RequestKind::StreamAppend, group, encode);
                    (tokio::time::timeout_at(deadline, sending).await, deadline)
                }
            })
            .map(|(sent, deadline)| answer_to(sent, deadline))
            .buffered(APPENDS_IN_FLIGHT_MAX);
        // After a failure nothing that was sent behind it counts.
        let until_failure = stream::unfold(Some(Box::pin(answers)), |answers| async {
            let mut answers = answers?;
            let answer = answers.next().await?;
            let goes_on = matches!(answer, Ok(Ok(_)));
            Some((answer, goes_on.then_some(answers)))
        });
        let until_failure: BoxStream<'s, _> = until_failure.boxed();
        async move { Ok(until_failure) }.boxed()
    }

    async fn vote(
        &mut self,
        vote: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RpcError> {
        let encode = |body: &mut Encoder| encode_vote_request(body, &vote);
        self.call(option.soft_ttl(), RequestKind::Vote, encode, decode_vote_response).await
    }

    async fn pre_vote(
        &mut self,
        vote: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RpcError> {
        let encode = |body: &mut Encoder| encode_vote_request(body, &vote);
        self.call(option.soft_ttl(), RequestKind::PreVote, encode, decode_vote_response).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        let outgoing = Outgoing {
            group: self.factory.group,
            vote,
            file: snapshot.snapshot.file.snapshot().clone(),
            history: self.factory.history.clone(),
            limit: self.factory.timings.snapshot_step,
        };
        let (links, peer) = (self.factory.links.clone(), self.peer);
        let sending = async move {
            let stream = links.connect(peer, Lane::Snapshot).await?;
            outgoing.send(stream).await
        };
        match select(Box::pin(sending), Box::pin(cancel)).await {
            Either::Left((Ok(vote), _)) => Ok(SnapshotResponse::new(vote)),
            Either::Left((Err(error), _)) => {
                tracing::warn!(peer = %self.peer, error = %error, "a snapshot could not be sent");
                Err(StreamingError::Unreachable(Unreachable::new(&error)))
            }
            Either::Right((closed, _)) => Err(StreamingError::Closed(closed)),
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<TypeConfig>, RpcError> {
        let encode = |body: &mut Encoder| encode_transfer(body, &request);
        self.call(option.soft_ttl(), RequestKind::Transfer, encode, decode_transferred).await
    }
}
