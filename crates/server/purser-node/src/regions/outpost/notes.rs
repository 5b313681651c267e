//! What a region's leader keeps in mind of one account.

use std::collections::BTreeMap;
use std::sync::Arc;

use purser_ledger::{Account, Demand, DemandReport, Report};
use purser_types::{Credits, Generation, Region, Sequence, Span};
use tokio::sync::Notify;

use super::covering::ShortCalls;

/// See the module's documentation.
#[derive(Default)]
pub(super) struct AccountNotes {
    /// Where its home was when it was last looked up.
    pub(super) home: Option<Region>,
    pub(super) books: BTreeMap<Generation, BookNotes>,
    /// When home was asked for credits, if it has not answered.
    pub(super) asked_at: Option<Span>,
    /// To which home a report is under way that it has not answered.
    pub(super) reporting_to: Option<Region>,
    /// Whether home was asked for more while that was under way.
    pub(super) asks_again: bool,
    /// Told when home has answered, or something has come that was not asked for.
    pub(super) answered: Arc<Notify>,
    /// The account's overspend bound, as home last stated it.
    pub(super) bound: Option<Credits>,
    /// What home is to hear of allocations that it has spoken of and that are not begun here any more.
    pub(super) lost: Vec<Report>,
}

/// What is kept of one book.
pub(super) struct BookNotes {
    pub(super) demand: Demand,
    /// What was last reported of it.
    pub(super) told: DemandReport,
    /// How far home has booked; nothing until it has said so.
    pub(super) booked: Option<Sequence>,
    /// Whether home is done with the allocation.
    pub(super) is_closed: bool,
    /// When the last report was sent that home has answered: the lease counts from then.
    pub(super) lease_from: Option<Span>,
    /// Below this, home is asked at once.
    pub(super) low_water: Credits,
    /// What there was after the last grant.
    pub(super) filled: Credits,
    pub(super) reported_at: Option<Span>,
    /// Calls that need more than the book may spend.
    pub(super) short: ShortCalls,
    /// What the book had been granted when it was last looked at.
    pub(super) granted: Credits,
}

impl BookNotes {
    pub(super) fn new(book: &Account, now: Span) -> Self {
        Self {
            demand: Demand::new(used(book), now),
            told: DemandReport::default(),
            booked: None,
            is_closed: false,
            lease_from: None,
            low_water: Credits::ZERO,
            filled: book.right(),
            reported_at: None,
            short: ShortCalls::default(),
            granted: Credits::ZERO,
        }
    }

    /// Notes a grant if one has come, or was there from the start; whether it was so.
    pub(super) fn note_grant(&mut self, book: &Account, refill: Span) -> bool {
        let has_come = book.balance().granted > self.granted;
        if has_come {
            self.granted = book.balance().granted;
            self.filled = book.right();
            self.low_water = self.told.low_water(refill, self.filled);
        }
        has_come
    }
}

impl AccountNotes {
    pub(super) fn book(&mut self, book: &Account, now: Span) -> &mut BookNotes {
        let generation = book.owner().generation;
        self.books.entry(generation).or_insert_with(|| BookNotes::new(book, now))
    }

    /// Home is asked for credits.
    pub(super) fn ask(&mut self, now: Span) {
        self.asked_at = self.asked_at.or(Some(now));
        self.asks_again = self.reporting_to.is_some();
    }

    /// The report to `home` is under way no more. Whether home was asked for more meanwhile.
    pub(super) fn end_reporting(&mut self, home: Region, now: Span) -> bool {
        if self.reporting_to != Some(home) {
            return false;
        }
        self.reporting_to = None;
        let asks_again = std::mem::take(&mut self.asks_again);
        if asks_again {
            self.ask(now);
        }
        asks_again
    }

    /// Home has answered a report, or will not.
    pub(super) fn note_answered(&mut self) {
        self.asked_at = None;
        self.books.values_mut().for_each(|book| book.short.note_answered());
        self.answered.notify_waiters();
    }
}

/// What a book has spent and holds.
pub(super) fn used(book: &Account) -> Credits {
    let balance = book.balance();
    balance.used.checked_add(balance.held).unwrap_or(Credits::MAX)
}
