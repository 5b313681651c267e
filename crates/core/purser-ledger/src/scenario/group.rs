//! One group in memory: its ledger, the history and the log that lead to it.
//!
//! Home is one group and each region another, as they are in reality: nothing passes between them
//! but what the transcript delivers.

use purser_types::{ApplyError, LogTime, Machine, Owner, Position, Stamped};

use super::Stop;
use super::memory::MemoryHistory;
use super::names::{Book, Place};
use super::proof::{self, Unproved};
use crate::account::{Account, AccountNumber};
use crate::answer::Answer;
use crate::chain::Record;
use crate::codec;
use crate::command::{AccountName, Command};
use crate::entry::Entry;
use crate::invariants;
use crate::ledger::Ledger;

/// A command as it went through the log.
#[derive(Debug, Clone)]
pub(super) struct Logged {
    pub(super) at: LogTime,
    pub(super) bytes: Vec<u8>,
}

impl Logged {
    /// The command as the log delivers it.
    pub(super) fn stamped(&self, index: u64) -> Stamped<'_> {
        Stamped { index, ordinal: 0, at: self.at, command: &self.bytes }
    }
}

/// A group and its past.
#[derive(Debug, Clone, Default)]
pub(super) struct Group {
    pub(super) ledger: Ledger,
    pub(super) history: MemoryHistory,
    pub(super) log: Vec<Logged>,
}

impl Group {
    /// Applies a command as a replica does, from its bytes, and checks what must always hold.
    /// Returns the answer and the entries that were written.
    pub(super) fn apply(
        &mut self,
        command: &Command,
        clock: LogTime,
    ) -> Result<(Answer, Vec<(AccountNumber, Entry)>), Stop> {
        let logged = Logged { at: clock, bytes: codec::encode(command) };
        let index = u64::try_from(self.log.len()).unwrap_or(u64::MAX).saturating_add(1);
        let end_before = self.history.end();
        let answer = self.ledger.apply(logged.stamped(index), &mut self.history)?;
        self.log.push(logged);
        invariants::check_ledger(&self.ledger)?;
        Ok((answer, self.written_from(end_before)?))
    }

    /// The entries whose records stand at `from` and after it.
    fn written_from(&self, from: Position) -> Result<Vec<(AccountNumber, Entry)>, ApplyError> {
        let mut written = Vec::new();
        for (position, _) in self.history.records_from(from) {
            let record = Record::read(&self.history, position)?;
            written.push((record.account, record.entry(position)?.entry));
        }
        Ok(written)
    }

    /// Goes on from a snapshot, as a node does that was started again.
    pub(super) fn restart(&mut self) -> Result<(), Stop> {
        self.ledger = Ledger::restore(&mut self.ledger.snapshot())?;
        Ok(())
    }

    /// Log time never goes back, whatever the clock shows.
    pub(super) fn now(&self, clock: LogTime) -> LogTime {
        clock.max(self.ledger.log_time())
    }

    /// A book that this group keeps.
    pub(super) fn book(&self, book: &Book) -> Option<&Account> {
        let generation = book.owner.map(|owner| owner.generation).unwrap_or_default();
        self.ledger.book(&book.account, generation).map(|account| &**account)
    }

    /// What is called a book, given its number.
    pub(super) fn book_numbered(&self, number: AccountNumber, place: Place) -> Option<Book> {
        let account = self.ledger.account_numbered(number)?;
        let owner = place.map(|_| account.owner());
        Some(Book { account: account.name().clone(), owner })
    }

    /// An account's newest allocation here.
    pub(super) fn newest(&self, account: &AccountName) -> Option<Owner> {
        let books = self.ledger.allocations().filter(|book| book.name() == account);
        books.map(|book| book.owner()).max()
    }

    /// Proves what the log led to.
    pub(super) fn prove(&self) -> Result<(), Unproved> {
        proof::prove(&self.ledger, &self.history, &self.log)
    }
}
