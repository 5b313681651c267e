//! A machine for tests: named counters, each change a record in the history.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use purser_types::{
    ApplyError, CorruptSnapshot, History, HistoryReader, LogTime, Machine, Position, Stamped,
};

/// Named counters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    values: Arc<BTreeMap<String, Counter>>,
    log_time: LogTime,
}

/// A value and where the history has its last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counter {
    pub(crate) value: u64,
    pub(crate) last: Position,
}

/// What a change is answered with: the value after it, and the stamp as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Changed {
    pub(crate) value: u64,
    pub(crate) at: LogTime,
}

/// The command that adds to a counter; `padding` makes it long.
pub(crate) fn add(name: &str, amount: u64, padding: usize) -> Bytes {
    Bytes::from(format!("{name} {amount} {}", "x".repeat(padding)))
}

impl Counters {
    pub(crate) fn value(&self, name: &str) -> u64 {
        self.values.get(name).map_or(0, |counter| counter.value)
    }

    pub(crate) fn total(&self) -> u64 {
        self.values.values().map(|counter| counter.value).sum()
    }

    /// Every counter's last record must say its value.
    #[track_caller]
    pub(crate) fn check_history(&self, history: &dyn HistoryReader) {
        for (name, counter) in self.values.iter() {
            let record = history.read(counter.last).unwrap();
            let text = String::from_utf8(record).unwrap();
            assert!(text.starts_with(&format!("{name} = {} ", counter.value)), "{text}");
        }
    }
}

impl Machine for Counters {
    type Answer = Changed;

    fn apply(
        &mut self,
        stamped: Stamped<'_>,
        history: &mut dyn History,
    ) -> Result<Changed, ApplyError> {
        let unreadable = || ApplyError::UnreadableCommand("not a change".to_owned());
        let text = std::str::from_utf8(stamped.command).map_err(|_invalid| unreadable())?;
        let mut words = text.split(' ');
        let name = words.next().ok_or_else(unreadable)?.to_owned();
        let amount: u64 = words.next().and_then(|word| word.parse().ok()).ok_or_else(unreadable)?;
        let padding = words.next().unwrap_or_default();
        let values = Arc::make_mut(&mut self.values);
        let before = values.get(&name).copied();
        if let Some(before) = before {
            history.read(before.last)?;
        }
        let value = before.map_or(0, |before| before.value) + amount;
        self.log_time = self.log_time.max(stamped.at);
        let record = format!("{name} = {value} {}.{} {padding}", stamped.index, stamped.ordinal);
        let last = history.append(record.as_bytes());
        values.insert(name, Counter { value, last });
        Ok(Changed { value, at: stamped.at })
    }

    fn log_time(&self) -> LogTime {
        self.log_time
    }

    fn snapshot(&self) -> Box<dyn Iterator<Item = Vec<u8>> + Send> {
        let head = self.log_time.as_unix_micros().to_string();
        let values = Arc::clone(&self.values);
        let lines: Vec<String> = values
            .iter()
            .map(|(name, counter)| format!("{name} {} {}", counter.value, counter.last.0))
            .collect();
        Box::new(std::iter::once(head).chain(lines).map(String::into_bytes))
    }

    fn restore(chunks: &mut dyn Iterator<Item = Vec<u8>>) -> Result<Self, CorruptSnapshot> {
        let corrupt = || CorruptSnapshot("not counters".to_owned());
        let mut lines = chunks.map(|chunk| String::from_utf8(chunk).map_err(|_invalid| corrupt()));
        let head = lines.next().ok_or_else(corrupt)??;
        let micros = head.parse().map_err(|_invalid| corrupt())?;
        let log_time = LogTime::from_unix_micros(micros).map_err(|_invalid| corrupt())?;
        let mut values = BTreeMap::new();
        for line in lines {
            let line = line?;
            let mut words = line.split(' ');
            let name = words.next().ok_or_else(corrupt)?.to_owned();
            let mut number = || words.next()?.parse::<u64>().ok();
            let value = number().ok_or_else(corrupt)?;
            let last = Position(number().ok_or_else(corrupt)?);
            values.insert(name, Counter { value, last });
        }
        Ok(Self { values: Arc::new(values), log_time })
    }
}
