//! The entries of a group's log and its marks, as they are in memory. No file is touched here.

use std::collections::VecDeque;

use crate::entry::{EntryId, LogEntry, VoteRecord};
use crate::wal::Location;

/// A log's entries and marks. Entries have no holes.
#[derive(Default)]
pub(super) struct Slots {
    pub(super) vote: Option<VoteRecord>,
    pub(super) committed: Option<EntryId>,
    pub(super) purged: Option<EntryId>,
    pub(super) slots: VecDeque<Slot>,
    /// Bytes of all slots.
    pub(super) bytes: u64,
    /// Bytes of the slots that are in memory.
    pub(super) cached_bytes: usize,
    /// No slot before this index is in memory.
    pub(super) cached_from: u64,
    pub(super) bytes_since_snapshot: u64,
    /// A snapshot covers everything up to here, durably.
    pub(super) covered: Option<u64>,
    /// Purged in memory, waiting for a snapshot that covers it.
    pub(super) uncovered_purge: Option<EntryId>,
    /// Purges and truncations that are known in memory and not yet durable.
    pub(super) removals_pending: usize,
}

/// An entry's place.
pub(super) struct Slot {
    pub(super) id: EntryId,
    pub(super) size: usize,
    /// `None` until durable.
    pub(super) location: Option<Location>,
    /// `None` when it has to be read back.
    pub(super) cached: Option<LogEntry>,
}

impl Slots {
    pub(super) fn last(&self) -> Option<EntryId> {
        self.slots.back().map(|slot| slot.id).or(self.purged)
    }

    /// Index of the first slot, or of the first one to come.
    pub(super) fn start(&self) -> u64 {
        self.slots.front().map_or_else(|| self.end(), |slot| slot.id.index)
    }

    /// Index of the next entry to come.
    pub(super) fn end(&self) -> u64 {
        self.last().map_or(0, |last| last.index.saturating_add(1))
    }

    /// Whether the next entry would follow a purge that a restart undoes, with a hole between.
    pub(super) fn leaves_a_hole(&self) -> bool {
        self.slots.is_empty() && self.uncovered_purge.is_some()
    }

    pub(super) fn place(&self, index: u64) -> Option<usize> {
        usize::try_from(index.checked_sub(self.start())?).ok()
    }

    pub(super) fn slot(&self, index: u64) -> Option<&Slot> {
        self.slots.get(self.place(index)?)
    }

    pub(super) fn slot_mut(&mut self, index: u64) -> Option<&mut Slot> {
        let place = self.place(index)?;
        self.slots.get_mut(place)
    }

    pub(super) fn push(&mut self, entry: LogEntry) {
        let size = entry.size();
        self.bytes += wide(size);
        self.bytes_since_snapshot += wide(size);
        self.cached_bytes += size;
        self.slots.push_back(Slot { id: entry.id, size, location: None, cached: Some(entry) });
    }

    pub(super) fn forget(&mut self, slot: &Slot) {
        self.bytes -= wide(slot.size);
        if slot.cached.is_some() {
            self.cached_bytes -= slot.size;
        }
    }

    pub(super) fn truncate_after(&mut self, end: u64) {
        while let Some(slot) = self.slots.pop_back_if(|slot| slot.id.index >= end) {
            self.bytes_since_snapshot = self.bytes_since_snapshot.saturating_sub(wide(slot.size));
            self.forget(&slot);
        }
        self.cached_from = self.cached_from.min(end);
    }

    pub(super) fn purge(&mut self, upto: EntryId) {
        while let Some(slot) = self.slots.pop_front_if(|slot| slot.id.index <= upto.index) {
            self.forget(&slot);
        }
        self.purged = Some(upto);
    }

    /// Drops the oldest durable entries from memory until the rest fits.
    pub(super) fn shrink_cache(&mut self, cache_bytes: usize) {
        self.cached_from = self.cached_from.max(self.start());
        while self.cached_bytes > cache_bytes {
            let index = self.cached_from;
            let Some(slot) = self.slot_mut(index).filter(|slot| slot.location.is_some()) else {
                return;
            };
            let freed = slot.cached.take().map_or(0, |_entry| slot.size);
            self.cached_bytes -= freed;
            self.cached_from = index + 1;
        }
    }
}

pub(super) fn wide(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
