//! What things take in memory.
//!
//! Each kind of thing is made many times, in a ledger of its own that stays until the end, so that
//! no memory is handed from one measurement to the next.

use purser_ledger::{AccountName, Command, Ledger};
use purser_types::{
    ApplyError, History, HistoryError, HistoryReader, LogTime, OperationId, Position, Sequence,
    Span,
};
use serde::Serialize;

use super::commands::{self, NotAccepted};
use crate::bench::process::{self, ProcessError};
use crate::output::{Output, Progress};
use crate::replay::tally::to_float;

/// Accounts over which holds and keys are spread.
const ACCOUNTS: u32 = 1_000;
/// After how many things the progress moves.
const TELL_EVERY: u32 = 10_000;

/// Bytes of memory for each thing.
#[derive(Debug, Serialize)]
pub(super) struct MemoryFigures {
    pub(super) idle_account_bytes: f64,
    pub(super) live_hold_bytes: f64,
    pub(super) ended_hold_bytes: f64,
    pub(super) remembered_key_bytes: f64,
}

/// Why memory could not be measured.
#[derive(Debug, thiserror::Error)]
pub(super) enum MemoryError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("a command could not be applied")]
    Apply(#[from] ApplyError),
    #[error(transparent)]
    NotAccepted(#[from] NotAccepted),
}

/// A history that only counts: what is measured here never reads one.
#[derive(Debug, Default)]
struct Counted {
    bytes: u64,
}

impl HistoryReader for Counted {
    fn read(&self, position: Position) -> Result<Vec<u8>, HistoryError> {
        Err(HistoryError::NoRecord(position))
    }
}

impl History for Counted {
    fn append(&mut self, record: &[u8]) -> Position {
        let position = Position(self.bytes);
        let length = u64::try_from(record.len()).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(length);
        position
    }
}

/// A ledger and its clock.
#[derive(Default)]
struct Filled {
    ledger: Ledger,
    history: Counted,
    accounts: Vec<AccountName>,
    commands: u64,
}

impl Filled {
    /// A ledger with funded accounts.
    fn with_accounts(count: u32, progress: &Progress) -> Result<Self, MemoryError> {
        let mut filled = Self::default();
        for number in 0..count {
            let account = commands::account(number);
            filled.apply(&commands::open(&account))?;
            filled.apply(&commands::grant(&account))?;
            filled.accounts.push(account);
            tell(number, progress);
        }
        // The names are this program's own and not the ledger's.
        filled.accounts.truncate(usize::try_from(ACCOUNTS).unwrap_or(usize::MAX));
        filled.accounts.shrink_to_fit();
        Ok(filled)
    }

    /// Applies a command a microsecond after the one before.
    fn apply(&mut self, command: &Command) -> Result<Sequence, MemoryError> {
        self.commands = self.commands.saturating_add(1);
        let now = LogTime::ZERO.saturating_add(Span::from_micros(self.commands));
        let operation = OperationId { index: self.commands, ordinal: 0 };
        let answer = self.ledger.apply_command(command, now, operation, &mut self.history)?;
        Ok(commands::sequence_of(answer)?)
    }

    fn account(&self, number: u32) -> AccountName {
        let place = usize::try_from(number).unwrap_or(0) % self.accounts.len().max(1);
        self.accounts[place].clone()
    }

    fn live_hold(&mut self, number: u32) -> Result<(), MemoryError> {
        let account = self.account(number);
        self.apply(&commands::authorize(&account, None)).map(drop)
    }

    fn ended_hold(&mut self, number: u32) -> Result<(), MemoryError> {
        let account = self.account(number);
        let hold = self.apply(&commands::authorize(&account, None))?;
        self.apply(&commands::capture(&account, hold, None)).map(drop)
    }

    /// An ended hold and the two keys of its calls.
    fn keyed_hold(&mut self, number: u32) -> Result<(), MemoryError> {
        let account = self.account(number);
        let hold = self.apply(&commands::authorize(&account, Some(&format!("a{number}"))))?;
        self.apply(&commands::capture(&account, hold, Some(&format!("c{number}")))).map(drop)
    }
}

/// Measures with so many accounts, and so many holds.
pub(super) fn measure(
    accounts: u32,
    holds: u32,
    output: &Output,
) -> Result<MemoryFigures, MemoryError> {
    let (accounts, holds) = (accounts.max(1), holds.max(1));
    let progress = output.progress("things in memory", None);
    let before = process::resident_bytes()?;
    let idle = Filled::with_accounts(accounts, &progress)?;
    let idle_account_bytes = each(before, accounts)?;

    let mut live = Filled::with_accounts(ACCOUNTS, &progress)?;
    let live_hold_bytes = grow(&mut live, holds, &progress, Filled::live_hold)?;
    let mut ended = Filled::with_accounts(ACCOUNTS, &progress)?;
    let ended_hold_bytes = grow(&mut ended, holds, &progress, Filled::ended_hold)?;
    let mut keyed = Filled::with_accounts(ACCOUNTS, &progress)?;
    let keyed_hold_bytes = grow(&mut keyed, holds, &progress, Filled::keyed_hold)?;
    progress.finish("done");
    drop((idle, live, ended, keyed));

    let remembered_key_bytes = (keyed_hold_bytes - ended_hold_bytes) / 2.0;
    Ok(MemoryFigures {
        idle_account_bytes,
        live_hold_bytes,
        ended_hold_bytes,
        remembered_key_bytes,
    })
}

/// Makes `count` things and tells what each has taken.
fn grow(
    filled: &mut Filled,
    count: u32,
    progress: &Progress,
    make: fn(&mut Filled, u32) -> Result<(), MemoryError>,
) -> Result<f64, MemoryError> {
    let before = process::resident_bytes()?;
    for number in 0..count {
        make(filled, number)?;
        tell(number, progress);
    }
    each(before, count)
}

fn each(before: u64, count: u32) -> Result<f64, MemoryError> {
    let more = process::resident_bytes()?.saturating_sub(before);
    // In KiB, because those are counted exactly up to four TiB.
    Ok(to_float(more / 1_024) * 1_024.0 / f64::from(count))
}

fn tell(number: u32, progress: &Progress) {
    if number.is_multiple_of(TELL_EVERY) {
        progress.advance(u64::from(TELL_EVERY));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;

    #[test]
    fn every_kind_of_thing_can_be_made() {
        let progress = Output::new(Format::People).progress("things", None);
        let mut filled = Filled::with_accounts(2, &progress).unwrap();
        for number in 0..10 {
            filled.live_hold(number).unwrap();
            filled.ended_hold(number).unwrap();
            filled.keyed_hold(number).unwrap();
        }
        let account = filled.ledger.account(&commands::account(0)).unwrap();
        assert_eq!(account.holds_count(), 5);
        assert_eq!(account.remembered_counts(), (10, 10));
    }
}
