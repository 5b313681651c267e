//! An account's entries as a chain of history records.
//!
//! Each record points back to the one before it in its account, so an account can be read backwards
//! from its head; and the account remembers where every 64th entry is, so that no walk is long.

use std::collections::VecDeque;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use purser_types::{HistoryError, HistoryReader, Position, Sequence};

use crate::account::AccountNumber;
use crate::codec;
use crate::digest::{Digest32, hash_of};
use crate::entry::Entry;
use crate::moving::ImportPart;

/// How far apart the remembered places are: a quarter of a byte an entry, and 32 reads a look-up.
pub(crate) const MARK_EVERY: u64 = 64;

/// What a history record holds.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Record {
    /// The account, by its number in the group.
    #[n(0)]
    pub account: AccountNumber,
    /// Where the account's entry before this one stands.
    #[n(1)]
    pub previous: Option<Position>,
    /// The entry's bytes, of which the hash is taken.
    #[n(2)]
    #[cbor(with = "minicbor::bytes")]
    pub entry: Vec<u8>,
}

/// The most bytes of entries in one part of an import or of a tail: it fits into one Raft entry with
/// room to spare.
const PAGE_BYTES: usize = 256 << 10;

/// The bytes of the entries after `after`, as they were written, oldest first, given the last of them:
/// as many as fit into one part, and at least one if there is one.
pub(crate) fn page_after(
    last: Link,
    after: Sequence,
    history: &dyn HistoryReader,
) -> Result<Vec<ByteVec>, HistoryError> {
    let mut oldest = VecDeque::new();
    let mut next = Some(last);
    while let Some(Link { sequence, position }) = next.filter(|link| link.sequence > after) {
        oldest.push_front(position);
        oldest.truncate(ImportPart::COUNT_MAX);
        let previous = Record::read(history, position)?.previous;
        let sequence = Sequence(sequence.0.saturating_sub(1));
        next = previous.map(|position| Link { sequence, position });
    }
    let mut page: Vec<ByteVec> = Vec::with_capacity(oldest.len());
    let mut bytes = 0_usize;
    for position in oldest {
        let entry = Record::read(history, position)?.entry;
        bytes = bytes.saturating_add(entry.len());
        if bytes > PAGE_BYTES && !page.is_empty() {
            break;
        }
        page.push(entry.into());
    }
    Ok(page)
}

/// An entry with its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hashed {
    /// The entry.
    pub entry: Entry,
    /// SHA-256 of its bytes.
    pub hash: Digest32,
}

impl Record {
    /// Reads the record at `position`.
    pub fn read(history: &dyn HistoryReader, position: Position) -> Result<Self, HistoryError> {
        Self::decode(position, &history.read(position)?)
    }

    /// The record with these bytes, which stand at `position`.
    pub fn decode(position: Position, bytes: &[u8]) -> Result<Self, HistoryError> {
        codec::decode(bytes).map_err(|error| damaged(position, &error))
    }

    /// The entry in it, with its hash.
    pub fn entry(&self, position: Position) -> Result<Hashed, HistoryError> {
        let entry = codec::decode(&self.entry).map_err(|error| damaged(position, &error))?;
        Ok(Hashed { entry, hash: hash_of(&self.entry) })
    }
}

/// A place in an account's chain: the entry with `sequence` stands at `position`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    /// The entry's sequence.
    pub(crate) sequence: Sequence,
    /// Where its record stands.
    pub(crate) position: Position,
}

/// Walks an account's entries backwards.
pub(crate) struct Backwards<'a> {
    history: &'a dyn HistoryReader,
    next: Option<Position>,
}

impl<'a> Backwards<'a> {
    /// Starts with the entry at `from`.
    pub(crate) fn new(history: &'a dyn HistoryReader, from: Option<Position>) -> Self {
        Self { history, next: from }
    }
}

impl Iterator for Backwards<'_> {
    type Item = Result<(Position, Hashed), HistoryError>;

    fn next(&mut self) -> Option<Self::Item> {
        let position = self.next.take()?;
        let step = || {
            let record = Record::read(self.history, position)?;
            Ok((record.previous, record.entry(position)?))
        };
        match step() {
            Ok((previous, hashed)) => {
                self.next = previous;
                Some(Ok((position, hashed)))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

fn damaged(position: Position, error: &minicbor::decode::Error) -> HistoryError {
    HistoryError::Damaged { position, detail: format!("not a ledger record: {error}") }
}
