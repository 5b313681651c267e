//! A history for what-if: a rehearsed batch, a read ahead of what is written.

use purser_types::{History, HistoryError, HistoryReader, Position};

/// Reads what there is below, keeps what is appended to itself.
pub(crate) struct Scratch<'a> {
    below: &'a dyn HistoryReader,
    appended: Vec<Vec<u8>>,
}

/// Scratch positions start here, beyond any real history.
const SCRATCH_BASE: u64 = 1 << 63;

impl<'a> Scratch<'a> {
    pub(crate) fn over(below: &'a dyn HistoryReader) -> Self {
        Self { below, appended: Vec::new() }
    }
}

impl HistoryReader for Scratch<'_> {
    fn read(&self, position: Position) -> Result<Vec<u8>, HistoryError> {
        let Some(place) = position.0.checked_sub(SCRATCH_BASE) else {
            return self.below.read(position);
        };
        let record = usize::try_from(place).ok().and_then(|place| self.appended.get(place));
        record.cloned().ok_or(HistoryError::NoRecord(position))
    }
}

impl History for Scratch<'_> {
    fn append(&mut self, record: &[u8]) -> Position {
        let place = u64::try_from(self.appended.len()).unwrap_or(u64::MAX);
        self.appended.push(record.to_vec());
        Position(SCRATCH_BASE.saturating_add(place))
    }
}
