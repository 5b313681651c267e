//! A machine that keeps every command in its history, and what it must be after a given log.

use std::sync::Arc;

use purser_types::{
    ApplyError, CorruptSnapshot, History, HistoryReader, LogTime, Machine, Position, Stamped,
};

use crate::batch;
use crate::entry::{Content, LogEntry};
use crate::history::GroupHistory;
use crate::history::format::FRAME_HEADER_BYTES;

/// Where the record of each command stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Journal {
    positions: Arc<Vec<Position>>,
    at: LogTime,
}

/// A chunk of a snapshot holds so many positions: few, so that there are several chunks.
const CHUNK_POSITIONS: usize = 40;

fn record(index: u64, ordinal: u32, at: LogTime, command: &[u8]) -> Vec<u8> {
    let mut record = format!("{index}.{ordinal} {} ", at.as_unix_micros()).into_bytes();
    record.extend_from_slice(command);
    record
}

impl Machine for Journal {
    type Answer = ();

    fn apply(&mut self, stamped: Stamped<'_>, history: &mut dyn History) -> Result<(), ApplyError> {
        if let Some(last) = self.positions.last() {
            history.read(*last)?;
        }
        let Stamped { index, ordinal, at, command } = stamped;
        let position = history.append(&record(index, ordinal, at, command));
        Arc::make_mut(&mut self.positions).push(position);
        self.at = self.at.max(at);
        Ok(())
    }

    fn log_time(&self) -> LogTime {
        self.at
    }

    fn snapshot(&self) -> Box<dyn Iterator<Item = Vec<u8>> + Send> {
        let head = self.at.as_unix_micros().to_le_bytes().to_vec();
        let bytes = |part: &[Position]| part.iter().flat_map(|at| at.0.to_le_bytes()).collect();
        let chunks: Vec<Vec<u8>> = self.positions.chunks(CHUNK_POSITIONS).map(bytes).collect();
        Box::new(std::iter::once(head).chain(chunks))
    }

    fn restore(chunks: &mut dyn Iterator<Item = Vec<u8>>) -> Result<Self, CorruptSnapshot> {
        let corrupt = || CorruptSnapshot("not a journal".to_owned());
        let mut numbers = Vec::new();
        for chunk in chunks {
            let (words, rest) = chunk.as_chunks::<8>();
            if !rest.is_empty() {
                return Err(corrupt());
            }
            numbers.extend(words.iter().map(|word| u64::from_le_bytes(*word)));
        }
        let (at, positions) = numbers.split_first().ok_or_else(corrupt)?;
        let at = LogTime::from_unix_micros(*at).map_err(|_out_of_range| corrupt())?;
        Ok(Self { positions: Arc::new(positions.iter().copied().map(Position).collect()), at })
    }
}

/// The journal and its history must be what `log` makes of them, told without any of the code under
/// test.
#[track_caller]
pub(super) fn check_journal(
    journal: &Journal,
    history: &GroupHistory,
    log: &[LogEntry],
    what: &str,
) {
    let mut expected = Journal::default();
    let mut end = 0;
    for entry in log {
        let Content::Commands(commands) = &entry.content else {
            continue;
        };
        let batch = batch::decode(commands).unwrap();
        expected.at = expected.at.max(batch.at);
        for (ordinal, command) in (0..).zip(batch.commands) {
            let record = record(entry.id.index, ordinal, expected.at, command);
            assert_eq!(history.read(Position(end)).unwrap(), record, "{what}");
            Arc::make_mut(&mut expected.positions).push(Position(end));
            end += u64::try_from(FRAME_HEADER_BYTES + record.len()).unwrap();
        }
    }
    assert_eq!(*journal, expected, "{what}");
    assert_eq!(history.length(), end, "{what}: the history ends elsewhere");
}
