//! A history on disk that nobody writes, and what comes behind it in memory only.

use purser_types::{History, HistoryError, HistoryReader, Position};

use super::format::{HistoryMark, decode_frame, encode_frame};
use super::reader::GroupHistory;

/// See the module's documentation.
pub(crate) struct Overlay {
    stored: GroupHistory,
    /// Behind the last frame appended or begun with.
    mark: HistoryMark,
    /// Frames behind the stored ones.
    appended: Vec<u8>,
}

impl Overlay {
    /// A history that ends at `mark`, of which all is in `stored`; whatever is there behind it is passed
    /// over when that is appended again.
    pub(crate) const fn new(stored: GroupHistory, mark: HistoryMark) -> Self {
        Self { stored, mark, appended: Vec::new() }
    }

    /// What is on disk.
    pub(crate) const fn stored(&self) -> &GroupHistory {
        &self.stored
    }

    /// Bytes of the whole stream.
    pub(crate) const fn length(&self) -> u64 {
        self.mark.length
    }
}

impl HistoryReader for Overlay {
    fn read(&self, position: Position) -> Result<Vec<u8>, HistoryError> {
        if position.0 >= self.mark.length {
            return Err(HistoryError::NoRecord(position));
        }
        let Some(offset) = position.0.checked_sub(self.stored.length()) else {
            return self.stored.read(position);
        };
        let frame = usize::try_from(offset).ok().and_then(|offset| self.appended.get(offset..));
        let frame = frame.and_then(|bytes| decode_frame(bytes, position));
        frame.map(|frame| frame.record.to_vec()).ok_or(HistoryError::NoRecord(position))
    }
}

impl History for Overlay {
    fn append(&mut self, record: &[u8]) -> Position {
        let position = Position(self.mark.length);
        let mut frame = Vec::new();
        let crc = encode_frame(&mut frame, position, self.mark.crc, record);
        let length = self.mark.length + u64::try_from(frame.len()).unwrap_or(u64::MAX);
        if position.0 >= self.stored.length() {
            self.appended.extend_from_slice(&frame);
        }
        self.mark = HistoryMark { length, crc, last: position.0 };
        position
    }
}
