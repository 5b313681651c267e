//! The replay's own book: what an account must look like after what was asked of it.
//!
//! It exists to disagree. It shares no code with the service's ledger and knows the rules in the
//! plainest way: lots are a list that is searched from end to end, the balance is a sum over the
//! lots, and what an entry moved is the balance after it minus the balance before it. Slow and
//! short, so that a person can check it against the rules by reading.
//!
//! What it takes from the service is the order of the calls and the log time of each; amounts,
//! lots, holds and due events it works out itself. A call that the service accepted and the rules
//! refuse is a [`BookError`].
//!
//! Not here: idempotency keys (each call is entered once), and whether refusals were right.

mod asked;
mod due;
mod operations;
mod shelf;
#[cfg(test)]
mod tests;
mod work;

use std::collections::{BTreeMap, BTreeSet};

use purser_api::EntryKind;
use purser_types::LogTime;

pub(crate) use self::asked::{Asked, Capturing, Granting, Opening};
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

/// One entry that there must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// When it took effect.
    pub(crate) at: LogTime,
    /// What happened.
    pub(crate) kind: EntryKind,
    /// The buckets before it.
    pub(crate) before: Figures,
    /// The buckets after it.
    pub(crate) after: Figures,
}

/// The rules refuse what the service accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BookError {
    /// Too few credits.
    #[error("{asked} credits were asked for and only {available} were available")]
    TooFewCredits {
        /// What was asked for beyond what was held.
        asked: u64,
        /// What was available.
        available: u64,
    },
    /// There is no such hold, charge or lot.
    #[error("there is no {what} {number}")]
    Unknown {
        /// What kind of thing.
        what: &'static str,
        /// Its number.
        number: u64,
    },
    /// The hold had ended.
    #[error("hold {hold} had ended ({state:?})")]
    Ended {
        /// The hold.
        hold: u64,
        /// How it had ended.
        state: WorkState,
    },
    /// More was given back than was taken.
    #[error("{asked} credits of {of} were asked back and only {refundable} could be refunded")]
    NotRefundable {
        /// The hold or charge.
        of: u64,
        /// What was asked for.
        asked: u64,
        /// What could be given back.
        refundable: u64,
    },
    /// Nothing was refunded, or it was reclaimed before.
    #[error("there was nothing to reclaim of {of}")]
    NothingToReclaim {
        /// The hold or charge.
        of: u64,
    },
    /// The lot's end had come before it started.
    #[error("the grant had expired before it was made")]
    GrantExpired,
    /// The account was open, or not open yet.
    #[error("the account was opened twice, or used before it was opened")]
    Opening,
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
        let is_open = self.opening.is_some();
        if is_open == matches!(asked, Asked::Open(_)) {
            return Err(BookError::Opening);
        }
        let before = self.figures();
        let kind = self.apply(asked, at)?;
        self.write(at, kind, before);
        self.repay(at);
        Ok(())
    }

    fn hold(&self, number: u64) -> Result<&Work, BookError> {
        let found = self.works.get(&number).filter(|work| !work.is_charge);
        found.ok_or(BookError::Unknown { what: "hold", number })
    }

    fn any_work(&self, number: u64) -> Result<&Work, BookError> {
        self.works.get(&number).ok_or(BookError::Unknown { what: "hold or charge", number })
    }

    fn work(&mut self, number: u64) -> &mut Work {
        self.works.get_mut(&number).expect("looked up before, and nothing is ever removed")
    }

    fn next_sequence(&self) -> u64 {
        u64::try_from(self.lines.len()).unwrap_or(u64::MAX).saturating_add(1)
    }

    fn write(&mut self, at: LogTime, kind: EntryKind, before: Figures) {
        self.lines.push(Line { at, kind, before, after: self.figures() });
    }
}
