//! Calls that a region has passed on to home, noted before it does (R10).
//!
//! A retry of such a call is passed on again and never decided here, for as long as its key is
//! remembered. Not here: what home decided.

use minicbor::{Decode, Encode};
use purser_types::{CowMap, LogTime, Span};

use crate::digest::Digest16;
use crate::time_ring::Kept;

/// How many marks that have ended are freed with one command. A command makes one at most, so
/// memory follows; and no command frees a day's marks at once.
const FORGOTTEN_MAX: usize = 8;

/// What a region notes of a call that it passes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Mark {
    /// Of what was asked first under the key.
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub(crate) fingerprint: Digest16,
}

/// The marks of a group, by the digest of account and key, each found until its own instant.
///
/// Not a [`TimeRing`](crate::time_ring::TimeRing): accounts differ in how long they keep keys, and one
/// that keeps them for a year would keep everybody's.
#[derive(Debug, Clone, Default)]
pub(super) struct Marks {
    by_call: CowMap<Digest16, Kept<Mark>>,
    by_end: CowMap<(LogTime, Digest16), ()>,
}

impl Marks {
    /// The mark of a call, if it is kept at `now`.
    pub(super) fn get(&self, call: &Digest16, now: LogTime) -> Option<&Mark> {
        let kept = self.by_call.get(call)?;
        (now < kept.until).then_some(&kept.value)
    }

    /// Marks a call at `now`, or keeps its mark as much longer: home may remember the retry for as
    /// long again.
    pub(super) fn insert(&mut self, call: Digest16, mark: Mark, now: LogTime, retention: Span) {
        let mut kept = Kept { value: mark, until: now.saturating_add(retention) };
        if let Some(before) = self.by_call.get(&call) {
            self.by_end.remove(&(before.until, call));
            if now < before.until {
                kept = Kept { value: before.value, until: before.until.max(kept.until) };
            }
        }
        self.add(call, kept);
    }

    /// Frees the memory of some marks that have ended at `now`. No answer depends on it.
    pub(super) fn forget(&mut self, now: LogTime) {
        for _ in 0..FORGOTTEN_MAX {
            let Some(&(until, call)) = self.by_end.first().map(|(end, ())| end) else { return };
            if now < until {
                return;
            }
            self.by_end.remove(&(until, call));
            self.by_call.remove(&call);
        }
    }

    /// The marks that take memory.
    pub(super) fn pairs(&self) -> CowMap<Digest16, Kept<Mark>> {
        self.by_call.clone()
    }

    /// Adds a mark as it was. For rebuilding them from a snapshot.
    pub(super) fn add(&mut self, call: Digest16, kept: Kept<Mark>) {
        self.by_end.insert((kept.until, call), ());
        self.by_call.insert(call, kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> LogTime {
        LogTime::ZERO.saturating_add(Span::from_secs(seconds))
    }

    fn mark(marks: &mut Marks, call: u8, second: u64, kept: u64) {
        let mark = Mark { fingerprint: [call; 16] };
        marks.insert([call; 16], mark, at(second), Span::from_secs(kept));
    }

    #[test]
    fn a_mark_lives_as_long_as_the_last_retry_needs() {
        let mut marks = Marks::default();
        mark(&mut marks, 1, 0, 100);
        mark(&mut marks, 1, 50, 100);
        mark(&mut marks, 1, 60, 10);
        assert!(marks.get(&[1; 16], at(149)).is_some());
        assert!(marks.get(&[1; 16], at(150)).is_none());
    }

    #[test]
    fn the_first_request_under_a_key_stays_the_marked_one_until_its_mark_ends() {
        let mut marks = Marks::default();
        mark(&mut marks, 1, 0, 100);
        let other = Mark { fingerprint: [2; 16] };
        marks.insert([1; 16], other, at(99), Span::from_secs(100));
        assert_eq!(marks.get(&[1; 16], at(198)), Some(&Mark { fingerprint: [1; 16] }));
        marks.insert([1; 16], other, at(199), Span::from_secs(100));
        assert_eq!(marks.get(&[1; 16], at(199)), Some(&other));
    }

    #[test]
    fn a_mark_that_lives_long_keeps_no_other_in_memory() {
        let mut marks = Marks::default();
        mark(&mut marks, 1, 0, 1_000_000);
        for call in 2..40 {
            mark(&mut marks, call, 1, 10);
        }
        for _ in 0..5 {
            marks.forget(at(11));
        }
        assert_eq!((marks.by_call.len(), marks.by_end.len()), (1, 1));
        assert!(marks.get(&[1; 16], at(11)).is_some());
    }
}
