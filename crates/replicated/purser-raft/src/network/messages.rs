//! The bytes of what nodes say to each other.
//!
//! Every payload starts with the number of its request; a request then names its kind and group, an
//! answer whether it is one. The version is agreed on when a connection is made ([`Hello`]).

use bytes::Bytes;
use openraft::EmptyNode;
use openraft::raft::{
    AppendEntriesRequest, StreamAppendError, TransferLeaderError, TransferLeaderRequest,
    VoteRequest, VoteResponse,
};

use crate::codec::{Decoder, Encoder, Malformed, share};
use crate::entry::{EntryId, LogEntry, VoteRecord};
use crate::ids::{ClusterId, GroupId, NodeId};
use crate::raft::types::{LogId, TypeConfig, Vote, openraft_entry};

const MAGIC: &[u8; 8] = b"PURSNET1";

/// The one way of speaking there is so far.
const VERSION: u8 = 1;

/// What a connection is for. Each has its own, so that a long append delays no heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// Log entries.
    Entries,
    /// Heartbeats, votes, clocks.
    Control,
    /// One snapshot.
    Snapshot,
    /// What the owners of nodes ask each other.
    Calls,
}

/// The first frame on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) cluster: ClusterId,
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) lane: Lane,
}

/// What a request asks for. The numbers are on the wire: never reuse one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Append,
    StreamAppend,
    Vote,
    PreVote,
    Transfer,
    Clock,
    Call,
}

/// A request as it arrives.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) number: u64,
    pub(crate) kind: RequestKind,
    pub(crate) group: GroupId,
    pub(crate) body: Bytes,
}

/// An answer as it arrives: the body, or why there is none.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) number: u64,
    pub(crate) outcome: Result<Bytes, String>,
}

impl Hello {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let lane = match self.lane {
            Lane::Entries => 1,
            Lane::Control => 2,
            Lane::Snapshot => 3,
            Lane::Calls => 4,
        };
        let mut encoder = Encoder::new();
        encoder.raw(MAGIC).u8(VERSION).raw(self.cluster.as_bytes());
        encoder.u64(self.from.0).u64(self.to.0).u8(lane);
        encoder.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes);
        if decoder.array()? != *MAGIC {
            return Err(Malformed("not a node of ours"));
        }
        if decoder.u8()? != VERSION {
            return Err(Malformed("a version this release does not speak"));
        }
        let cluster = ClusterId::from_bytes(decoder.array()?);
        let (from, to) = (NodeId(decoder.u64()?), NodeId(decoder.u64()?));
        let lane = match decoder.u8()? {
            1 => Lane::Entries,
            2 => Lane::Control,
            3 => Lane::Snapshot,
            4 => Lane::Calls,
            _ => return Err(Malformed("unknown purpose of a connection")),
        };
        decoder.finish()?;
        Ok(Self { cluster, from, to, lane })
    }
}

impl RequestKind {
    const fn number(self) -> u8 {
        match self {
            Self::Append => 1,
            Self::StreamAppend => 2,
            Self::Vote => 3,
            Self::PreVote => 4,
            Self::Transfer => 5,
            Self::Clock => 6,
            Self::Call => 7,
        }
    }

    const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Append,
            2 => Self::StreamAppend,
            3 => Self::Vote,
            4 => Self::PreVote,
            5 => Self::Transfer,
            6 => Self::Clock,
            7 => Self::Call,
            _ => return None,
        })
    }
}

/// A request's payload, but for its body.
pub(crate) fn request(number: u64, kind: RequestKind, group: GroupId) -> Encoder {
    let mut encoder = Encoder::with_capacity(256);
    encoder.u64(number).u8(kind.number()).u32(group.0);
    encoder
}

pub(crate) fn decode_request(payload: &Bytes) -> Result<Request, Malformed> {
    let mut decoder = Decoder::new(payload);
    let number = decoder.u64()?;
    let kind = RequestKind::from_number(decoder.u8()?).ok_or(Malformed("unknown request"))?;
    let group = GroupId(decoder.u32()?);
    Ok(Request { number, kind, group, body: share(payload, decoder.rest()) })
}

/// The payload of an answer.
pub(crate) fn answer(number: u64, outcome: Result<Vec<u8>, String>) -> Vec<u8> {
    let mut encoder = Encoder::new();
    encoder.u64(number).bool(outcome.is_ok());
    match outcome {
        Ok(body) => encoder.raw(&body),
        Err(text) => encoder.raw(text.as_bytes()),
    };
    encoder.finish()
}

pub(crate) fn decode_answer(payload: &Bytes) -> Result<Answer, Malformed> {
    let mut decoder = Decoder::new(payload);
    let number = decoder.u64()?;
    let outcome = if decoder.bool()? {
        Ok(share(payload, decoder.rest()))
    } else {
        Err(String::from_utf8_lossy(decoder.rest()).into_owned())
    };
    Ok(Answer { number, outcome })
}

fn encode_log_id(encoder: &mut Encoder, id: Option<LogId>) {
    encoder.option(id, |encoder, id| EntryId::from(id).encode(encoder));
}

fn decode_log_id(decoder: &mut Decoder<'_>) -> Result<Option<LogId>, Malformed> {
    Ok(decoder.option(EntryId::decode)?.map(LogId::from))
}

pub(crate) fn encode_vote(encoder: &mut Encoder, vote: Vote) {
    VoteRecord::from(vote).encode(encoder);
}

pub(crate) fn decode_vote(decoder: &mut Decoder<'_>) -> Result<Vote, Malformed> {
    VoteRecord::decode(decoder).map(Vote::from)
}

pub(crate) fn encode_append(encoder: &mut Encoder, append: AppendEntriesRequest<TypeConfig>) {
    encode_vote(encoder, append.vote);
    encode_log_id(encoder, append.prev_log_id);
    encode_log_id(encoder, append.leader_commit);
    encoder.length(append.entries.len());
    for entry in append.entries {
        let (head, body) = LogEntry::from(entry).encode_parts();
        encoder.length(head.len() + body.len()).raw(&head).raw(&body);
    }
}

pub(crate) fn decode_append(body: &Bytes) -> Result<AppendEntriesRequest<TypeConfig>, Malformed> {
    let mut decoder = Decoder::new(body);
    let vote = decode_vote(&mut decoder)?;
    let prev_log_id = decode_log_id(&mut decoder)?;
    let leader_commit = decode_log_id(&mut decoder)?;
    let count = decoder.length()?;
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        let bytes = share(body, decoder.bytes()?);
        entries.push(openraft_entry(LogEntry::decode(&bytes)?)?);
    }
    decoder.finish()?;
    Ok(AppendEntriesRequest { vote, prev_log_id, entries, leader_commit })
}

/// How far a follower's log matches, or why it does not.
pub(crate) type Matched = Result<Option<LogId>, StreamAppendError<TypeConfig>>;

const MATCHED: u8 = 0;
const CONFLICT: u8 = 1;
const HIGHER_VOTE: u8 = 2;

pub(crate) fn encode_matched(matched: &Matched) -> Vec<u8> {
    let mut encoder = Encoder::new();
    match matched {
        Ok(last) => encode_log_id(encoder.u8(MATCHED), *last),
        Err(StreamAppendError::Conflict(at)) => encode_log_id(encoder.u8(CONFLICT), Some(*at)),
        Err(StreamAppendError::HigherVote(vote)) => encode_vote(encoder.u8(HIGHER_VOTE), *vote),
    }
    encoder.finish()
}

pub(crate) fn decode_matched(body: &[u8]) -> Result<Matched, Malformed> {
    let mut decoder = Decoder::new(body);
    let matched = match decoder.u8()? {
        MATCHED => Ok(decode_log_id(&mut decoder)?),
        CONFLICT => {
            let at = decode_log_id(&mut decoder)?.ok_or(Malformed("a conflict nowhere"))?;
            Err(StreamAppendError::Conflict(at))
        }
        HIGHER_VOTE => Err(StreamAppendError::HigherVote(decode_vote(&mut decoder)?)),
        _ => return Err(Malformed("unknown outcome of an append")),
    };
    decoder.finish()?;
    Ok(matched)
}

pub(crate) fn encode_vote_request(encoder: &mut Encoder, request: &VoteRequest<TypeConfig>) {
    encode_vote(encoder, request.vote);
    encode_log_id(encoder, request.last_log_id);
    encoder.bool(request.leadership_transfer);
}

pub(crate) fn decode_vote_request(body: &[u8]) -> Result<VoteRequest<TypeConfig>, Malformed> {
    let mut decoder = Decoder::new(body);
    let mut request = VoteRequest::new(decode_vote(&mut decoder)?, decode_log_id(&mut decoder)?);
    request.leadership_transfer = decoder.bool()?;
    decoder.finish()?;
    Ok(request)
}

pub(crate) fn encode_vote_response(response: &VoteResponse<TypeConfig>) -> Vec<u8> {
    let mut encoder = Encoder::new();
    encode_vote(&mut encoder, response.vote);
    encode_log_id(&mut encoder, response.last_log_id);
    encoder.bool(response.vote_granted);
    encoder.finish()
}

pub(crate) fn decode_vote_response(body: &[u8]) -> Result<VoteResponse<TypeConfig>, Malformed> {
    let mut decoder = Decoder::new(body);
    let vote = decode_vote(&mut decoder)?;
    let last_log_id = decode_log_id(&mut decoder)?;
    let granted = decoder.bool()?;
    decoder.finish()?;
    Ok(VoteResponse::new(vote, last_log_id, granted))
}

pub(crate) fn encode_transfer(encoder: &mut Encoder, request: &TransferLeaderRequest<TypeConfig>) {
    encode_vote(encoder, *request.from_leader());
    encoder.u64(request.to_node_id().0);
    encode_log_id(encoder, request.last_log_id().copied());
}

pub(crate) fn decode_transfer(body: &[u8]) -> Result<TransferLeaderRequest<TypeConfig>, Malformed> {
    let mut decoder = Decoder::new(body);
    let from = decode_vote(&mut decoder)?;
    let to = NodeId(decoder.u64()?);
    let last = decode_log_id(&mut decoder)?;
    decoder.finish()?;
    Ok(TransferLeaderRequest::new(from, to, last))
}

/// Whether a leader may hand over.
pub(crate) type Transferred = Result<(), TransferLeaderError<TypeConfig>>;

pub(crate) fn encode_transferred(transferred: &Transferred) -> Vec<u8> {
    let mut encoder = Encoder::new();
    match transferred {
        Ok(()) => {
            encoder.u8(0);
        }
        Err(TransferLeaderError::VoteChanged { expected, actual }) => {
            encoder.u8(1);
            encode_vote(&mut encoder, *expected);
            encode_vote(&mut encoder, *actual);
        }
        Err(TransferLeaderError::LogNotFlushed { expected, actual }) => {
            encoder.u8(2);
            encode_log_id(&mut encoder, *expected);
            encode_log_id(&mut encoder, *actual);
        }
    }
    encoder.finish()
}

pub(crate) fn decode_transferred(body: &[u8]) -> Result<Transferred, Malformed> {
    let mut decoder = Decoder::new(body);
    let transferred = match decoder.u8()? {
        0 => Ok(()),
        1 => Err(TransferLeaderError::VoteChanged {
            expected: decode_vote(&mut decoder)?,
            actual: decode_vote(&mut decoder)?,
        }),
        2 => Err(TransferLeaderError::LogNotFlushed {
            expected: decode_log_id(&mut decoder)?,
            actual: decode_log_id(&mut decoder)?,
        }),
        _ => return Err(Malformed("unknown outcome of a transfer")),
    };
    decoder.finish()?;
    Ok(transferred)
}

/// openraft's snapshot description, for a snapshot that arrived.
pub(crate) type Meta = openraft::SnapshotMeta<crate::raft::types::LeaderId, NodeId, EmptyNode>;
