//! Entries, votes and members, in this crate's own words and bytes.
//!
//! They are what the log, the snapshots and the messages are made of. openraft's types are
//! converted at its edge (`raft::types`) and have no bytes of their own, so a new release of it
//! changes no file.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::codec::{Decoder, Encoder, Malformed, share};
use crate::ids::NodeId;

/// Names an entry of a group's log for good: whoever has an entry of this name has the same
/// content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntryId {
    pub(crate) term: u64,
    pub(crate) leader: NodeId,
    pub(crate) index: u64,
}

/// Whom a node votes for in a term, and whether that node has won.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VoteRecord {
    pub(crate) term: u64,
    pub(crate) node: NodeId,
    pub(crate) committed: bool,
}

/// Who belongs to a group. Two sets of voters while one gives way to the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Members {
    pub(crate) voter_sets: Vec<BTreeSet<NodeId>>,
    pub(crate) nodes: BTreeSet<NodeId>,
}

/// What an entry carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// Nothing: a new leader's first entry.
    Blank,
    /// Commands under one stamp, as `batch` writes them.
    Commands(Bytes),
    /// Who belongs to the group from here on.
    Members(Members),
}

/// An entry: its name and what it carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogEntry {
    pub(crate) id: EntryId,
    pub(crate) content: Content,
}

const BLANK: u8 = 0;
const COMMANDS: u8 = 1;
const MEMBERS: u8 = 2;

impl EntryId {
    pub(crate) fn encode(&self, encoder: &mut Encoder) {
        encoder.u64(self.term).u64(self.leader.0).u64(self.index);
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Self { term: decoder.u64()?, leader: NodeId(decoder.u64()?), index: decoder.u64()? })
    }
}

impl VoteRecord {
    pub(crate) fn encode(&self, encoder: &mut Encoder) {
        encoder.u64(self.term).u64(self.node.0).bool(self.committed);
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Self { term: decoder.u64()?, node: NodeId(decoder.u64()?), committed: decoder.bool()? })
    }
}

impl Members {
    pub(crate) fn encode(&self, encoder: &mut Encoder) {
        encoder.length(self.voter_sets.len());
        for voters in &self.voter_sets {
            encode_nodes(voters, encoder);
        }
        encode_nodes(&self.nodes, encoder);
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let sets = decoder.length()?;
        let voter_sets = (0..sets).map(|_| decode_nodes(decoder)).collect::<Result<_, _>>()?;
        Ok(Self { voter_sets, nodes: decode_nodes(decoder)? })
    }
}

fn encode_nodes(nodes: &BTreeSet<NodeId>, encoder: &mut Encoder) {
    encoder.length(nodes.len());
    for node in nodes {
        encoder.u64(node.0);
    }
}

fn decode_nodes(decoder: &mut Decoder<'_>) -> Result<BTreeSet<NodeId>, Malformed> {
    let count = decoder.length()?;
    (0..count).map(|_| decoder.u64().map(NodeId)).collect()
}

impl LogEntry {
    /// Name and kind, and apart from them the commands, which are long and shared.
    pub(crate) fn encode_parts(&self) -> (Vec<u8>, Bytes) {
        let mut head = Encoder::with_capacity(32);
        self.id.encode(&mut head);
        let body = match &self.content {
            Content::Blank => {
                head.u8(BLANK);
                Bytes::new()
            }
            Content::Commands(commands) => {
                head.u8(COMMANDS);
                commands.clone()
            }
            Content::Members(members) => {
                head.u8(MEMBERS);
                members.encode(&mut head);
                Bytes::new()
            }
        };
        (head.finish(), body)
    }

    /// Reads what [`LogEntry::encode_parts`] gave, put together again.
    pub(crate) fn decode(bytes: &Bytes) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes);
        let id = EntryId::decode(&mut decoder)?;
        let content = match decoder.u8()? {
            BLANK => Content::Blank,
            COMMANDS => return Ok(Self { id, content: commands_of(bytes, decoder.rest()) }),
            MEMBERS => Content::Members(Members::decode(&mut decoder)?),
            _ => return Err(Malformed("unknown kind of entry")),
        };
        decoder.finish()?;
        Ok(Self { id, content })
    }

    /// Roughly how much memory and log it takes.
    pub(crate) fn size(&self) -> usize {
        const NAME_AND_FRAME_BYTES: usize = 48;
        let content = match &self.content {
            Content::Blank => 0,
            Content::Commands(commands) => commands.len(),
            Content::Members(members) => members.nodes.len().saturating_mul(16),
        };
        content.saturating_add(NAME_AND_FRAME_BYTES)
    }
}

fn commands_of(whole: &Bytes, rest: &[u8]) -> Content {
    Content::Commands(share(whole, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_read_back_as_they_are_written() {
        let voters = BTreeSet::from([NodeId(1), NodeId(2)]);
        let members = Members { voter_sets: vec![voters.clone(), voters.clone()], nodes: voters };
        for content in [
            Content::Blank,
            Content::Commands(Bytes::from_static(b"commands")),
            Content::Members(members),
        ] {
            let id = EntryId { term: 3, leader: NodeId(2), index: 7 };
            let entry = LogEntry { id, content };
            let (mut bytes, body) = entry.encode_parts();
            bytes.extend_from_slice(&body);
            assert_eq!(LogEntry::decode(&Bytes::from(bytes)), Ok(entry));
        }
    }
}
