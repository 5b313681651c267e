//! The part of the feed that was read and is not done with.

use std::collections::VecDeque;

use purser_types::{LogTime, Position};

/// Events in the order of the feed. The cursor stands before the first that is not settled.
#[derive(Debug)]
pub(super) struct Window {
    start: Position,
    end: Position,
    /// The number of the first slot.
    first: u64,
    slots: VecDeque<Slot>,
    unsettled: usize,
}

/// One event.
#[derive(Debug)]
struct Slot {
    /// Behind it.
    cursor: Position,
    at: LogTime,
    is_settled: bool,
}

impl Window {
    /// Nothing was read behind `cursor`.
    pub(super) const fn new(cursor: Position) -> Self {
        Self { start: cursor, end: cursor, first: 0, slots: VecDeque::new(), unsettled: 0 }
    }

    /// Behind all that is settled without a gap.
    pub(super) const fn start(&self) -> Position {
        self.start
    }

    /// Behind all that was read.
    pub(super) const fn end(&self) -> Position {
        self.end
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) const fn unsettled(&self) -> usize {
        self.unsettled
    }

    /// When the first event was decided that is not settled.
    pub(super) fn oldest(&self) -> Option<LogTime> {
        self.slots.front().map(|slot| slot.at)
    }

    /// Adds an event; gives its number.
    pub(super) fn push(&mut self, cursor: Position, at: LogTime) -> u64 {
        let number = self.first.saturating_add(u64::try_from(self.slots.len()).unwrap_or(u64::MAX));
        self.slots.push_back(Slot { cursor, at, is_settled: false });
        self.end = cursor;
        self.unsettled = self.unsettled.saturating_add(1);
        number
    }

    /// An event is done with.
    pub(super) fn settle(&mut self, number: u64) {
        let place = number.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        let slot = place.and_then(|place| self.slots.get_mut(place));
        if let Some(slot) = slot.filter(|slot| !slot.is_settled) {
            slot.is_settled = true;
            self.unsettled = self.unsettled.saturating_sub(1);
        }
    }

    /// Moves the start on. Whether it moved.
    pub(super) fn shrink(&mut self) -> bool {
        let before = self.start;
        while self.slots.front().is_some_and(|slot| slot.is_settled)
            && let Some(slot) = self.slots.pop_front()
        {
            self.start = slot.cursor;
            self.first = self.first.saturating_add(1);
        }
        self.start != before
    }
}
