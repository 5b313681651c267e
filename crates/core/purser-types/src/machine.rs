//! What consensus hosts: a deterministic machine and its history.
//!
//! `purser-raft` replicates stamped commands and knows no credits; `purser-ledger` knows credits
//! and no Raft. This file is the seam between them.

use crate::log_time::LogTime;

/// A deterministic state machine, replicated by applying the same commands in the same order.
///
/// `Clone` must be cheap at any size (shared, copied on write): a clone is how a snapshot is taken
/// while commands go on being applied, and how a read looks at a moment in peace.
pub trait Machine: Clone + Send + Sync + 'static {
    /// What a command is answered with. Only the node that proposed it looks.
    type Answer: Send + 'static;

    /// Applies one committed command. The same calls give the same state, the same history bytes
    /// and the same answers on every replica, for good.
    ///
    /// An error means that this replica can not go on (damaged history, a command from a newer
    /// release); the group stops on this node and nothing further is applied.
    fn apply(
        &mut self,
        stamped: Stamped<'_>,
        history: &mut dyn History,
    ) -> Result<Self::Answer, ApplyError>;

    /// The highest stamp applied. Log time never goes back, whatever a later stamp says.
    fn log_time(&self) -> LogTime;

    /// The whole state as a list of byte strings, each of about a megabyte at most.
    ///
    /// Equal states give equal bytes, however they came about.
    fn snapshot(&self) -> Box<dyn Iterator<Item = Vec<u8>> + Send>;

    /// Rebuilds a state from what [`Machine::snapshot`] gave.
    fn restore(chunks: &mut dyn Iterator<Item = Vec<u8>>) -> Result<Self, CorruptSnapshot>;
}

/// A command as the log carries it.
#[derive(Debug, Clone, Copy)]
pub struct Stamped<'a> {
    /// Index of the Raft entry that carries the command.
    pub index: u64,
    /// Place of the command in that entry, from 0.
    pub ordinal: u32,
    /// The leader's clock when it proposed the entry; "now" for every decision.
    pub at: LogTime,
    /// The command, in the machine's own encoding.
    pub command: &'a [u8],
}

/// Where a record stands in a history: the same on every replica, because it counts the bytes of
/// the records before it.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    minicbor::Encode,
    minicbor::Decode,
)]
#[cbor(transparent)]
pub struct Position(#[n(0)] pub u64);

/// Reads the records of a history.
pub trait HistoryReader {
    /// The record at `position`, as it was appended.
    fn read(&self, position: Position) -> Result<Vec<u8>, HistoryError>;
}

/// An append-only list of records that is kept for ever, on the disk of every replica.
pub trait History: HistoryReader {
    /// Appends a record and tells where it stands. It can be read at once.
    fn append(&mut self, record: &[u8]) -> Position;
}

/// Why a record could not be read.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// No record starts at this position.
    #[error("no record starts at position {}", .0.0)]
    NoRecord(Position),
    /// The bytes at this position are not what was written.
    #[error("damaged history at position {}: {detail}", position.0)]
    Damaged {
        /// Where the record starts.
        position: Position,
        /// File, offset and what is wrong there.
        detail: String,
    },
    /// The disk refused.
    #[error("history could not be read")]
    Disk(#[source] std::io::Error),
}

/// Why a replica can not apply a command.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The command can not be read: it comes from a newer release, or memory was damaged.
    #[error("unreadable command: {0}")]
    UnreadableCommand(String),
    /// The history that the command needs can not be read.
    #[error("the command needs an earlier record")]
    History(#[from] HistoryError),
}

/// A snapshot that does not describe a state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("corrupt snapshot: {0}")]
pub struct CorruptSnapshot(pub String);
