//! A machine with everything that its node has been sent, for when whoever sent it is lost.
//!
//! A node learns that an entry is committed a little later than it acknowledges the entry. What it has
//! acknowledged may have been answered, so whoever takes over for a lost leader goes by all of the log
//! and not by what was known to be committed.

use std::io;

use purser_types::{ApplyError, HistoryReader, LogTime, Machine, Stamped};

use crate::batch;
use crate::codec::Malformed;
use crate::entry::{Content, LogEntry};
use crate::history::Overlay;

use super::Group;

/// How much of the log is read at once.
const READ_BYTES: usize = 4 << 20;

/// A machine as it is if all that its node has in the log is applied. Nothing of it is written.
pub struct Whole<M> {
    /// The machine.
    pub machine: M,
    /// The last entry of the log; `None` if there is none.
    pub last: Option<u64>,
    history: Overlay,
}

/// Why there is no [`Whole`].
#[derive(Debug, thiserror::Error)]
pub enum WholeError {
    /// The group still runs, so there is no last entry.
    #[error("the group still runs")]
    Running,
    /// The log could not be read.
    #[error("the log could not be read")]
    Log(#[from] io::Error),
    /// An entry could not be read.
    #[error("entry {index} could not be read")]
    Unreadable {
        /// Which.
        index: u64,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// An entry could not be applied.
    #[error("entry {index} could not be applied")]
    Apply {
        /// Which.
        index: u64,
        /// Why.
        #[source]
        source: ApplyError,
    },
}

impl<M> Whole<M> {
    /// Reads the history of [`Whole::machine`].
    pub fn history(&self) -> &(dyn HistoryReader + Send + Sync) {
        &self.history
    }
}

impl<M: Machine> Group<M> {
    /// The machine with all of this node's log. Reads the disk and takes as long as applying does.
    ///
    /// Refuses a group that was not [shut down](Group::shutdown): only then has the log an end.
    pub fn whole(&self) -> Result<Whole<M>, WholeError> {
        if !self.core.has_ended() {
            return Err(WholeError::Running);
        }
        let stored = self.core.history.clone();
        let mark = stored.mark();
        let mut whole = Whole {
            machine: self.machine(),
            last: self.core.applied.last_index(),
            history: Overlay::new(stored, mark),
        };
        let mut stamp = self.core.applied.stamp();
        loop {
            let first = whole.last.map_or(0, |last| last.saturating_add(1));
            let entries = self.core.log.read_from(first..u64::MAX, READ_BYTES)?;
            if entries.is_empty() {
                return Ok(whole);
            }
            for entry in &entries {
                whole.apply(entry, &mut stamp)?;
            }
        }
    }
}

impl<M: Machine> Whole<M> {
    fn apply(&mut self, entry: &LogEntry, stamp: &mut LogTime) -> Result<(), WholeError> {
        let index = entry.id.index;
        self.last = Some(index);
        let Content::Commands(commands) = &entry.content else { return Ok(()) };
        let unreadable =
            |error: Malformed| WholeError::Unreadable { index, source: io::Error::from(error) };
        let batch = batch::decode(commands).map_err(unreadable)?;
        // As a replica applies it: stamps never go down.
        *stamp = (*stamp).max(batch.at);
        for (ordinal, command) in (0..).zip(batch.commands) {
            let stamped = Stamped { index, ordinal, at: *stamp, command };
            let applied = self.machine.apply(stamped, &mut self.history);
            applied.map_err(|source| WholeError::Apply { index, source })?;
        }
        Ok(())
    }
}
