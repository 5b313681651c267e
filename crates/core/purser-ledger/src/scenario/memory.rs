//! A history that lives in memory and ends with the program.

use std::collections::BTreeMap;
use std::ops::Bound;

use purser_types::{History, HistoryError, HistoryReader, Position};

/// A history in memory. Records stand where the bytes before them end, as they would in files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryHistory {
    records: BTreeMap<Position, Vec<u8>>,
    end: Position,
}

impl MemoryHistory {
    /// Where the next record will stand.
    pub fn end(&self) -> Position {
        self.end
    }

    /// The records from `from` on, in the order in which they were appended.
    pub fn records_from(&self, from: Position) -> impl Iterator<Item = (Position, &[u8])> {
        let range = (Bound::Included(from), Bound::Unbounded);
        self.records.range(range).map(|(position, record)| (*position, record.as_slice()))
    }
}

impl HistoryReader for MemoryHistory {
    fn read(&self, position: Position) -> Result<Vec<u8>, HistoryError> {
        self.records.get(&position).cloned().ok_or(HistoryError::NoRecord(position))
    }
}

impl History for MemoryHistory {
    fn append(&mut self, record: &[u8]) -> Position {
        let position = self.end;
        let length = u64::try_from(record.len()).expect("a record in memory has a 64-bit length");
        self.end = Position(position.0.saturating_add(length));
        self.records.insert(position, record.to_vec());
        position
    }
}
