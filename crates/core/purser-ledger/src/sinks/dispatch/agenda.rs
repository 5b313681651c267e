//! What waits for its time.

use std::collections::BTreeSet;

use purser_types::LogTime;

/// What waits, by when it is due; what is due at the same time, in the order in which it came.
#[derive(Debug)]
pub(super) struct Agenda<T> {
    waiting: BTreeSet<(LogTime, u64, T)>,
    /// How many have come.
    count: u64,
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Self { waiting: BTreeSet::new(), count: 0 }
    }
}

impl<T: Ord> Agenda<T> {
    /// Has something wait. It must not wait already.
    pub(super) fn add(&mut self, due: LogTime, what: T) {
        self.count = self.count.saturating_add(1);
        self.waiting.insert((due, self.count, what));
    }

    /// When the first is due.
    pub(super) fn next_due(&self) -> Option<LogTime> {
        self.waiting.first().map(|(due, ..)| *due)
    }

    /// Whether one is due.
    pub(super) fn is_due(&self, now: LogTime) -> bool {
        self.next_due().is_some_and(|due| due <= now)
    }

    /// The first that is due.
    pub(super) fn take_due(&mut self, now: LogTime) -> Option<T> {
        if !self.is_due(now) {
            return None;
        }
        self.waiting.pop_first().map(|(.., what)| what)
    }

    /// Keeps only some.
    pub(super) fn retain(&mut self, mut is_kept: impl FnMut(&T) -> bool) {
        self.waiting.retain(|(.., what)| is_kept(what));
    }
}
