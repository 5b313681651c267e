//! openraft's types for this crate, and the way between them and our own words.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bytes::Bytes;
use openraft::impls::{
    BoxedErrorSource, InlineBatch, OneshotResponder, TokioRuntime, leader_id_adv,
};
use openraft::vote::RaftLeaderId;
use openraft::{EmptyNode, EntryPayload, OptionalSend, RaftTypeConfig};

use crate::codec::Malformed;
use crate::entry::{Content, EntryId, LogEntry, Members, VoteRecord};
use crate::ids::NodeId;

/// The one set of types that openraft is compiled for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TypeConfig;

impl RaftTypeConfig for TypeConfig {
    type D = Commands;
    type R = ();
    type NodeId = NodeId;
    type Node = EmptyNode;
    type Term = u64;
    type LeaderId = leader_id_adv::LeaderId<u64, NodeId>;
    type Vote = openraft::impls::Vote<Self::LeaderId>;
    type Payload = EntryPayload<Commands, NodeId, EmptyNode>;
    type Entry = openraft::Entry<<Self::LeaderId as RaftLeaderId>::Committed, Self::Payload>;
    type AsyncRuntime = TokioRuntime;
    type Responder<T>
        = OneshotResponder<Self, T>
    where
        T: OptionalSend + 'static;
    type Batch<T>
        = InlineBatch<T>
    where
        T: OptionalSend + 'static;
    type ErrorSource = BoxedErrorSource;
}

/// Opaque commands, as `batch` writes them.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Commands(pub(crate) Bytes);

pub(crate) type LeaderId = leader_id_adv::LeaderId<u64, NodeId>;
pub(crate) type LogId = openraft::LogId<LeaderId>;
pub(crate) type Vote = openraft::impls::Vote<LeaderId>;
pub(crate) type Membership = openraft::Membership<NodeId, EmptyNode>;
pub(crate) type StoredMembership = openraft::StoredMembership<LeaderId, NodeId, EmptyNode>;
pub(crate) type Entry = <TypeConfig as RaftTypeConfig>::Entry;

impl fmt::Debug for Commands {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes", self.0.len())
    }
}

impl fmt::Display for Commands {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes", self.0.len())
    }
}

impl From<LogId> for EntryId {
    fn from(id: LogId) -> Self {
        Self { term: id.leader_id.term, leader: id.leader_id.node_id, index: id.index }
    }
}

impl From<EntryId> for LogId {
    fn from(id: EntryId) -> Self {
        Self { leader_id: LeaderId { term: id.term, node_id: id.leader }, index: id.index }
    }
}

impl From<Vote> for VoteRecord {
    fn from(vote: Vote) -> Self {
        let LeaderId { term, node_id } = vote.leader_id;
        Self { term, node: node_id, committed: vote.committed }
    }
}

impl From<VoteRecord> for Vote {
    fn from(vote: VoteRecord) -> Self {
        let leader_id = LeaderId { term: vote.term, node_id: vote.node };
        Self { leader_id, committed: vote.committed }
    }
}

impl From<&Membership> for Members {
    fn from(membership: &Membership) -> Self {
        let nodes = membership.nodes().map(|(node, _)| *node).collect();
        Self { voter_sets: membership.get_joint_config().clone(), nodes }
    }
}

/// The nodes as openraft wants them: with something beside each, which here is nothing.
pub(crate) fn with_empty_nodes(nodes: &BTreeSet<NodeId>) -> BTreeMap<NodeId, EmptyNode> {
    nodes.iter().map(|node| (*node, EmptyNode {})).collect()
}

impl TryFrom<&Members> for Membership {
    type Error = Malformed;

    fn try_from(members: &Members) -> Result<Self, Malformed> {
        if *members == Members::default() {
            return Ok(Self::default());
        }
        Self::new(members.voter_sets.clone(), with_empty_nodes(&members.nodes))
            .map_err(|_not_members| Malformed("a voter that is no member"))
    }
}

impl From<Entry> for LogEntry {
    fn from(entry: Entry) -> Self {
        let content = match entry.payload {
            EntryPayload::Blank => Content::Blank,
            EntryPayload::Normal(commands) => Content::Commands(commands.0),
            EntryPayload::Membership(membership) => Content::Members(Members::from(&membership)),
        };
        Self { id: entry.log_id.into(), content }
    }
}

/// The entry as openraft wants it.
pub(crate) fn openraft_entry(entry: LogEntry) -> Result<Entry, Malformed> {
    let payload = match entry.content {
        Content::Blank => EntryPayload::Blank,
        Content::Commands(commands) => EntryPayload::Normal(Commands(commands)),
        Content::Members(members) => EntryPayload::Membership((&members).try_into()?),
    };
    Ok(Entry { log_id: entry.id.into(), payload })
}
