//! What goes into a dispatch and what comes out.

use purser_types::{LogTime, Position};

use super::super::EntryName;

/// How much one webhook may take up in one shard.
#[derive(Debug, Clone, Copy)]
pub struct DispatchLimits {
    /// Events that were read and are not behind the cursor. Beyond that nothing is read.
    pub window: usize,
    /// Accounts with lines of their own. Beyond that, failing ones stay on the main line and hold it up.
    pub lines: usize,
    /// Dead letters. Where one more would be, the webhook is disabled.
    pub letters: usize,
}

impl DispatchLimits {
    /// A kilobyte or two for each event in the window, some 300 bytes for each line and letter.
    pub const STANDARD: Self = Self { window: 1_024, lines: 1_000, letters: 10_000 };
}

/// An event from the feed.
#[derive(Debug, Clone)]
pub struct Offer<T> {
    /// Which.
    pub event: EntryName,
    /// When it was decided.
    pub at: LogTime,
    /// Behind it.
    pub cursor: Position,
    /// What is sent; nothing if the webhook is not for this one.
    pub content: Option<T>,
}

/// An event that is to be sent now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errand<T> {
    /// Which.
    pub event: EntryName,
    /// Where it comes from.
    pub way: ErrandWay<T>,
}

/// Where an errand comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrandWay<T> {
    /// The main line, with what is sent.
    Main(T),
    /// Its account's own line: whoever sends it reads it.
    Line,
    /// It is a dead letter that is tried once more.
    Redriven,
}
