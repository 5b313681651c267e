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
use crate::network::links::{LinkError, Links};
use crate::network::messages::{
    Lane, RequestKind, decode_matched, decode_transferred, decode_vote_response, encode_append,
    encode_transfer, encode_vote_request,
};
use crate::network::transfer::Outgoing;
use crate::network::waiting::Pending;
use crate::raft::progress::Progress;
use crate::raft::types::{LeaderId, TypeConfig, Vote};
use crate::settings::RaftTimings;
use crate::snapshot::incoming::SnapshotData;

/// Appends that may be on their way to one follower before the first is answered.
const APPENDS_IN_FLIGHT_MAX: u32 = 32;

/// The shortest pause between two appends that is worth a timer. A follower that is nearer than 32 ms gets
/// appends as they come.
const PACE_MIN: Duration = Duration::from_millis(1);

/// Round trips that an append of the largest size, 4 MiB, needs at most: a connection begins with
/// some 14 KiB for each and doubles them, which makes nine, and one loss begins half way again.
const APPEND_ROUND_TRIPS: u32 = 16;

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

    /// How long a stream of appends may be without progress before it is given up. (A connection
    /// that died is noticed by the link, which fails everything on it.)
    ///
    /// A learner may be further away than the voters, whom the timings are for.
    fn append_limit(&self) -> Duration {
        let round_trip = self.factory.links.round_trip(self.peer);
        self.factory.timings.append_limit() + round_trip * APPEND_ROUND_TRIPS
    }
}

/// The appends of `input`, so far apart that as many as may be on their way fill a round trip evenly. Without
/// that all of them leave at once, and what comes after them waits for a round trip.
///
/// The pause is before an append is asked for, so that it has all that came meanwhile.
fn paced<S>(input: S, (links, peer): (Links, NodeId)) -> impl Stream<Item = S::Item>
where
    S: Stream + Unpin,
{
    stream::unfold((input, links, None), move |(mut input, links, ready_at)| async move {
        if let Some(ready_at) = ready_at {
            tokio::time::sleep_until(ready_at).await;
        }
        let append = input.next().await?;
        let pace = links.round_trip(peer) / APPENDS_IN_FLIGHT_MAX;
        let ready_at = (pace >= PACE_MIN).then(|| Instant::now() + pace);
        Some((append, (input, links, ready_at)))
    })
}

/// One append on its way.
async fn answer_to(
    sent: Result<Result<Pending, LinkError>, Elapsed>,
    progress: Progress,
) -> Result<StreamAppendResult<TypeConfig>, RpcError> {
    let pending = sent.map_err(|elapsed| RPCError::Unreachable(Unreachable::new(&elapsed)))?;
    let pending = pending.map_err(|error| rpc_error(&error))?;
    match progress.bound(pending.answer()).await {
        Ok(Ok(body)) => {
            progress.note();
            decode_matched(&body).map_err(|error| malformed(&error))
        }
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
        let progress = Progress::new(self.append_limit());
        let (links, group, target) =
            (self.factory.links.clone(), self.factory.group, (self.peer, Lane::Entries));
        // Sent in order, one after the other; answered in order, many at once.
        let answers = paced(input, (links.clone(), self.peer))
            .then(move |append| {
                let (links, progress) = (links.clone(), progress.clone());
                async move {
                    let encode = |body: &mut Encoder| encode_append(body.u64(id), append);
                    let sending = links.send(target, RequestKind::StreamAppend, group, encode);
                    (progress.bound(sending).await, progress)
                }
            })
            .map(|(sent, progress)| answer_to(sent, progress))
            .buffered(APPENDS_IN_FLIGHT_MAX as usize);
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
