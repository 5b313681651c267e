//! The replay's own book: what an account must look like after what was asked of it.
//!
//! It exists to disagree. It shares no code with the service's ledger and knows the rules in the
//! plainest way: lots are a list that is searched from end to end, the balance is a sum over the
//! lots, and what an entry moved is the balance after it minus the balance before it. Slow and
//! short, so that a person can check it against the rules by reading.
//!
//! What it takes from the service is the order of the calls and the log time of each; amounts,
//! lots, holds, due events and refusals it works out itself.
//!
//! Not here: idempotency keys (each call is entered once).

mod asked;
mod due;
mod operations;
mod refusals;
mod shelf;
#[cfg(test)]
mod tests;
mod work;

use std::collections::{BTreeMap, BTreeSet};

use purser_api::EntryKind;
use purser_types::LogTime;

pub(crate) use self::asked::{Asked, Capturing, Granting, Opening};
pub(crate) use self::refusals::BookError;
pub(crate) use self::shelf::{BookLot, Part, Shelf, Stage};
pub(crate) use self::work::{Work, WorkState};

/// The buckets of an account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) granted: u64,
    pub(crate) available: u64,
    pub(crate) held: u64,
    pub(crate) used: u64,
    pub(crate) expired: u64,
    pub(crate) voided: u64,
    pub(crate) debt: u64,
    /// In lots whose start is still to come; beside the buckets, not among them.
    pub(crate) pending: u64,
}

/// What went through an account in its life.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Throughput {
    pub(crate) authorized: u128,
    pub(crate) captured: u128,
    pub(crate) released: u128,
    pub(crate) refunded: u128,
    pub(crate) reclaimed: u128,
}

/// What an entry is about, by the sequences of the entries that made it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct About {
    /// The hold or charge.
    pub(crate) work: Option<u64>,
    /// The lot that it made, or that it alone is about.
    pub(crate) lot: Option<u64>,
}

impl About {
    const NOTHING: Self = Self { work: None, lot: None };

    const fn work(number: u64) -> Self {
        Self { work: Some(number), lot: None }
    }

    const fn lot(number: u64) -> Self {
        Self { work: None, lot: Some(number) }
    }
}

/// One entry that there must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// When it took effect.
    pub(crate) at: LogTime,
    /// What happened.
    pub(crate) kind: EntryKind,
    /// What it is about.
    pub(crate) about: About,
    /// The buckets before it.
    pub(crate) before: Figures,
    /// The buckets after it.
    pub(crate) after: Figures,
}

/// One account.
#[derive(Debug, Clone, Default)]
pub(crate) struct Book {
    opening: Option<Opening>,
    shelf: Shelf,
    works: BTreeMap<u64, Work>,
    /// The holds that have not ended.
    active: BTreeSet<u64>,
    /// What is owed: by the entry that made it, for which hold or charge, how much.
    debts: BTreeMap<u64, (u64, u64)>,
    throughput: Throughput,
    lines: Vec<Line>,
}

impl Book {
    /// The entries so far; the first has sequence 1.
    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The lots, by the sequence that made them.
    pub(crate) fn lots(&self) -> &BTreeMap<u64, BookLot> {
        &self.shelf.lots
    }

    /// The holds and charges, by the sequence that made them.
    pub(crate) fn works(&self) -> &BTreeMap<u64, Work> {
        &self.works
    }

    /// What went through the account.
    pub(crate) fn throughput(&self) -> Throughput {
        self.throughput
    }

    /// The buckets.
    pub(crate) fn figures(&self) -> Figures {
        let debt = self.debts.values().map(|(_, owed)| owed).sum();
        let (amount, pending) =
            (self.shelf.sum(|lot| lot.amount), self.shelf.sum(|lot| lot.waiting));
        Figures {
            granted: amount - pending,
            available: self.shelf.available(),
            held: self.shelf.sum(|lot| lot.held),
            used: self.shelf.sum(|lot| lot.used) + debt,
            expired: self.shelf.sum(|lot| lot.expired),
            voided: self.shelf.sum(|lot| lot.voided),
            debt,
            pending,
        }
    }

    /// Enters a call that the service accepted at `at`, after everything that was due by then.
    pub(crate) fn enter(&mut self, asked: &Asked, at: LogTime) -> Result<(), BookError> {
        self.let_pass(at);
        self.refuse(asked, at)?;
        let before = self.figures();
        let (kind, about) = self.apply(asked, at);
        self.write(at, kind, about, before);
        self.repay(at);
        Ok(())
    }

    fn is_open(&self) -> bool {
        self.opening.is_some()
    }

    fn debt_limit(&self) -> u64 {
        self.opening.unwrap_or_default().debt_limit
    }

    fn work(&mut self, number: u64) -> &mut Work {
        self.works.get_mut(&number).expect("looked up before, and nothing is ever removed")
    }

    fn next_sequence(&self) -> u64 {
        u64::try_from(self.lines.len()).unwrap_or(u64::MAX).saturating_add(1)
    }

    fn write(&mut self, at: LogTime, kind: EntryKind, about: About, before: Figures) {
        self.lines.push(Line { at, kind, about, before, after: self.figures() });
    }
}
