//! What home's leader keeps in mind of one account.

use std::collections::BTreeMap;
use std::sync::Arc;

use purser_ledger::{Demand, DemandReport, Mode, Pool, Tuning};
use purser_types::{Credits, Owner, Region, Span};

use super::heard::AllocationNotes;
use super::waiting::Place;

/// See the module's documentation.
pub(super) struct DeskAccount {
    pub(super) pool: Pool,
    /// The demand that home decides of its own.
    pub(super) here: Demand,
    /// What that demand has used.
    pub(super) used_here: Credits,
    pub(super) heard: BTreeMap<Region, Heard>,
    /// What is remembered of each allocation.
    pub(super) allocations: BTreeMap<Owner, AllocationNotes>,
    /// Calls that wait, in the order in which they came.
    pub(super) places: BTreeMap<u64, Place>,
    /// Since when this is kept.
    pub(super) since: Span,
    /// Held by whoever decides: what is decided is booked before anything else is.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
}

/// What a region said last.
#[derive(Clone, Copy)]
pub(super) struct Heard {
    pub(super) demand: DemandReport,
    /// Counts its reports.
    pub(super) reports: u64,
    /// When the last one was applied here.
    pub(super) at: Span,
    pub(super) refill: Span,
}

impl DeskAccount {
    /// Of an account whose regions were told `mode`.
    pub(super) fn new(mode: Mode, now: Span) -> Self {
        Self {
            pool: Pool::new(Tuning::USUAL, mode),
            here: Demand::new(Credits::ZERO, now),
            used_here: Credits::ZERO,
            heard: BTreeMap::new(),
            allocations: BTreeMap::new(),
            places: BTreeMap::new(),
            since: now,
            turn: Arc::default(),
        }
    }

    /// What a region said last; of one that never said anything, that it is idle.
    pub(super) fn heard_mut(&mut self, region: Region, now: Span) -> &mut Heard {
        let none = Heard {
            demand: DemandReport::default(),
            reports: 0,
            at: now,
            refill: Span::from_micros(0),
        };
        self.heard.entry(region).or_insert(none)
    }

    /// When a region was last heard about this account, or since when this leader could have.
    pub(super) fn heard_or_since(&self, region: Region) -> Span {
        self.heard.get(&region).map_or(self.since, |heard| heard.at)
    }

    pub(super) fn note_told(&mut self, owner: Owner, voucher: u64, now: Span) {
        let notes = self.notes_mut(owner, now);
        notes.told = notes.told.max(voucher);
    }
}
