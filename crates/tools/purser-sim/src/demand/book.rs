//! One account's allocation in one region: cumulative figures, and the demand they serve.

use purser_ledger::{Demand, DemandReport, Mode};
use purser_types::{Credits, Span};

use super::load::Call;

/// A region's side.
#[derive(Debug)]
pub(super) struct Book {
    pub(super) granted: u64,
    pub(super) spent: u64,
    pub(super) returned: u64,
    pub(super) held: u64,
    pub(super) mode: Mode,
    pub(super) demand: Demand,
    /// Calls that wait for the answer to what was sent last.
    pub(super) waiting: Vec<Call>,
    /// Whether home was asked for credits, and has not answered.
    pub(super) is_asking: bool,
    /// Below this, home is asked at once.
    pub(super) low_water: u64,
    /// What there was after the last grant.
    pub(super) filled: u64,
    /// The last recall that was answered.
    pub(super) recall: u64,
    /// Whether anything happened since the last report.
    pub(super) has_news: bool,
    pub(super) has_called: bool,
    pub(super) reported_at: Span,
    pub(super) reports: u64,
    pub(super) voucher: u64,
    /// What the last report said of demand.
    pub(super) told: DemandReport,
}

/// What home says: the figures that matter here of a voucher.
#[derive(Debug, Clone, Copy)]
pub(super) struct Voucher {
    pub(super) number: u64,
    pub(super) granted: u64,
    pub(super) mode: Mode,
    /// Its number, and what may be kept.
    pub(super) recall: (u64, u64),
}

/// What a region says.
#[derive(Debug, Clone, Copy)]
pub(super) struct BookReport {
    pub(super) number: u64,
    pub(super) spent: u64,
    pub(super) returned: u64,
    pub(super) held: u64,
    /// The last recall that was answered.
    pub(super) recall: u64,
    pub(super) demand: DemandReport,
}

impl Book {
    pub(super) fn new(now: Span) -> Self {
        Self {
            granted: 0,
            spent: 0,
            returned: 0,
            held: 0,
            mode: Mode::Local,
            demand: Demand::new(Credits::ZERO, now),
            waiting: Vec::new(),
            is_asking: false,
            low_water: 0,
            filled: 0,
            recall: 0,
            has_news: false,
            has_called: false,
            reported_at: now,
            reports: 0,
            voucher: 0,
            told: DemandReport::default(),
        }
    }

    /// What may be spent.
    pub(super) fn right(&self) -> u64 {
        self.granted - self.returned - self.spent - self.held
    }

    /// Spends on a call, if the right suffices.
    pub(super) fn accept(&mut self, cost: u64, now: Span) -> bool {
        if self.mode != Mode::Local || self.right() < cost {
            return false;
        }
        self.held += cost;
        self.has_news = true;
        self.demand.accepted(credits(cost), now);
        true
    }

    /// The work of an accepted call is done.
    pub(super) fn end_hold(&mut self, held: u64, captured: u64) {
        self.held -= held;
        self.spent += captured;
        self.has_news = true;
        if self.mode == Mode::Strict {
            self.returned += self.right();
        }
    }

    /// Does as home says; whether home should hear of it at once.
    pub(super) fn follow(&mut self, voucher: &Voucher, refill: Span) -> bool {
        if voucher.number <= self.voucher {
            return false;
        }
        self.voucher = voucher.number;
        self.mode = voucher.mode;
        if voucher.granted > self.granted {
            self.granted = voucher.granted;
            self.filled = self.right();
            self.low_water = self.told.low_water(refill, credits(self.filled)).get();
        }
        let (number, keep) = voucher.recall;
        let is_asked = number > self.recall;
        let keep = match self.mode {
            Mode::Strict => 0,
            _ if is_asked => keep,
            _ => self.right(),
        };
        self.recall = number;
        let back = self.right().saturating_sub(keep);
        self.returned += back;
        self.has_news |= back > 0;
        is_asked || back > 0
    }

    pub(super) fn report(&mut self, refill: Span, now: Span) -> BookReport {
        for call in &self.waiting {
            self.demand.wanted(credits(call.cost), now);
        }
        self.told = self.demand.report(credits(self.spent + self.held), now);
        self.low_water = self.told.low_water(refill, credits(self.filled)).get();
        self.has_news = false;
        self.reported_at = now;
        self.reports += 1;
        BookReport {
            number: self.reports,
            spent: self.spent,
            returned: self.returned,
            held: self.held,
            recall: self.recall,
            demand: self.told,
        }
    }
}

/// # Panics
///
/// If there are more credits than there can be.
pub(super) fn credits(amount: u64) -> Credits {
    Credits::from_u64(amount).expect("scenarios have few credits")
}
