//! Rebuilds a machine from a snapshot and the log behind it.

use std::sync::Arc;

use purser_types::{History, HistoryError, HistoryReader, LogTime, Machine, Position, Stamped};

use crate::batch;
use crate::entry::{Content, LogEntry};
use crate::history::format::HistoryMark;
use crate::history::scan::HistoryScan;
use crate::history::{GroupHistory, Overlay};
use crate::ids::GroupId;

use super::{OfflineError, OfflineNode, Rebuilt};

/// The history on disk, compared with what a replay appends; what the disk does not have is kept in
/// memory.
struct Replay {
    overlay: Overlay,
    difference: Option<(Position, String)>,
}

impl HistoryReader for Replay {
    fn read(&self, position: Position) -> Result<Vec<u8>, HistoryError> {
        self.overlay.read(position)
    }
}

impl History for Replay {
    fn append(&mut self, record: &[u8]) -> Position {
        let position = self.overlay.append(record);
        if position.0 < self.overlay.stored().length() && self.difference.is_none() {
            match self.overlay.stored().read(position) {
                Ok(stored) if stored == record => (),
                Ok(stored) => {
                    let text = format!("{} bytes stored, {} made", stored.len(), record.len());
                    self.difference = Some((position, text));
                }
                Err(error) => self.difference = Some((position, error.to_string())),
            }
        }
        position
    }
}

impl OfflineNode {
    pub(super) fn replay<M: Machine>(
        &self,
        group: GroupId,
        initial: M,
        up_to: Option<u64>,
    ) -> Result<Rebuilt<M>, OfflineError> {
        let snapshot = self.snapshot_file(group)?;
        let mut machine = initial;
        let (mut applied, mut stamp, mut mark) = (None, LogTime::ZERO, HistoryMark::default());
        if let Some(snapshot) = &snapshot {
            machine = snapshot.restore(|chunks| M::restore(chunks))?;
            let covered = snapshot.covered();
            applied = covered.last.map(|last| last.index);
            (stamp, mark) = (covered.stamp, covered.history);
        }
        let up_to = up_to.or(self.committed(group)?);
        let mut history = self.stored_history(group, mark)?;
        if let Some(wanted) = up_to {
            if Some(wanted) < applied {
                let have = format!("a snapshot up to entry {}", applied.unwrap_or_default());
                return Err(OfflineError::NotInLog { wanted, have });
            }
            let first = applied.map_or(0, |applied| applied.saturating_add(1));
            for index in first..=wanted {
                let entry = self.entry(group, index)?;
                apply(&mut machine, &mut history, &mut stamp, &entry)?;
                applied = Some(index);
            }
        }
        let history_bytes = history.overlay.length();
        Ok(Rebuilt { machine, applied, history: Box::new(history), history_bytes })
    }

    /// The history in the folder, with a replay to start at `mark`.
    fn stored_history(&self, group: GroupId, mark: HistoryMark) -> Result<Replay, OfflineError> {
        let mut scan = HistoryScan::open(self.history_place(group), mark)
            .map_err(|source| self.disk_error(source))?;
        while scan.next_record().map_err(|source| self.disk_error(source))?.is_some() {}
        let files = scan.files().iter().map(|(start, file)| (*start, Arc::clone(file))).collect();
        let stored = GroupHistory::of_files(files, scan.mark());
        Ok(Replay { overlay: Overlay::new(stored, mark), difference: None })
    }
}

fn apply<M: Machine>(
    machine: &mut M,
    history: &mut Replay,
    stamp: &mut LogTime,
    entry: &LogEntry,
) -> Result<(), OfflineError> {
    let Content::Commands(commands) = &entry.content else {
        return Ok(());
    };
    let index = entry.id.index;
    let unreadable = |error: crate::codec::Malformed| OfflineError::Apply {
        index,
        source: purser_types::ApplyError::UnreadableCommand(error.to_string()),
    };
    let batch = batch::decode(commands).map_err(unreadable)?;
    *stamp = (*stamp).max(batch.at);
    for (ordinal, command) in (0..).zip(batch.commands) {
        let stamped = Stamped { index, ordinal, at: *stamp, command };
        machine.apply(stamped, history).map_err(|source| OfflineError::Apply { index, source })?;
        if let Some((position, detail)) = history.difference.take() {
            return Err(OfflineError::HistoryDiffers { position, detail });
        }
    }
    Ok(())
}
