//! A map whose pairs are forgotten with time, each at its own instant.
//!
//! A pair says how long it is kept when it comes in, and is found until exactly then. Its memory is
//! freed later: pairs lie in buckets by that instant, and a bucket is dropped as a whole, so
//! forgetting costs nothing a pair. No answer depends on when that happens.

use std::collections::VecDeque;

use minicbor::{Decode, Encode};
use purser_types::{CowMap, LogTime, Span};

/// How many buckets a retention is divided into: a pair takes memory an eighth too long at most, and
/// a look-up that finds nothing looks into nine buckets.
const BUCKETS: u64 = 8;

/// See the module's documentation.
#[derive(Debug, Clone)]
pub(crate) struct TimeRing<K, V> {
    /// In the order in which they were begun. No bucket is empty.
    buckets: VecDeque<Bucket<K, V>>,
}

/// The pairs that end in one interval, and those that came later and end before it.
#[derive(Debug, Clone)]
pub(crate) struct Bucket<K, V> {
    /// When the interval starts.
    pub(crate) starts_at: LogTime,
    /// When the last of its pairs ends.
    pub(crate) ends_at: LogTime,
    pub(crate) pairs: CowMap<K, Kept<V>>,
}

/// A value and until when it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Kept<V> {
    #[n(0)]
    pub(crate) value: V,
    #[n(1)]
    pub(crate) until: LogTime,
}

impl<K, V> TimeRing<K, V> {
    /// Nothing to remember.
    pub(crate) const EMPTY: Self = Self { buckets: VecDeque::new() };
}

impl<K, V> Default for TimeRing<K, V> {
    fn default() -> Self {
        Self { buckets: VecDeque::new() }
    }
}

impl<K: Ord + Clone, V: Clone> TimeRing<K, V> {
    /// The latest value of a key, if it is still kept at `now`.
    pub(crate) fn get(&self, key: &K, now: LogTime) -> Option<&V> {
        let latest = self.latest(key)?;
        (now < latest.until).then_some(&latest.value)
    }

    /// The latest value of a key that still takes memory.
    pub(crate) fn latest(&self, key: &K) -> Option<&Kept<V>> {
        self.buckets.iter().rev().find_map(|bucket| bucket.pairs.get(key))
    }

    /// Adds a pair at `now`, to be kept for `retention`.
    pub(crate) fn insert(&mut self, key: K, value: V, now: LogTime, retention: Span) {
        self.insert_until(key, value, now.saturating_add(retention), retention);
    }

    /// Adds a pair that is kept until an instant; `retention` only says how coarsely memory is freed.
    pub(crate) fn insert_until(&mut self, key: K, value: V, until: LogTime, retention: Span) {
        let starts_at = until.floor(retention.split(BUCKETS));
        let kept = Kept { value, until };
        match self.buckets.back_mut() {
            Some(bucket) if starts_at <= bucket.starts_at => {
                bucket.ends_at = bucket.ends_at.max(until);
                bucket.pairs.insert(key, kept);
            }
            Some(_) | None => {
                let pairs = [(key, kept)].into_iter().collect();
                self.buckets.push_back(Bucket { starts_at, ends_at: until, pairs });
            }
        }
    }

    /// Frees the memory of the oldest buckets that have ended at `now`.
    pub(crate) fn forget(&mut self, now: LogTime) {
        while self.next_forget().is_some_and(|due| due <= now) {
            self.buckets.pop_front();
        }
    }

    /// When the oldest bucket can be dropped.
    pub(crate) fn next_forget(&self) -> Option<LogTime> {
        self.buckets.front().map(|bucket| bucket.ends_at)
    }

    /// How many pairs take memory.
    pub(crate) fn len(&self) -> usize {
        self.buckets.iter().map(|bucket| bucket.pairs.len()).sum()
    }

    /// The buckets, in the order in which they were begun.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = &Bucket<K, V>> {
        self.buckets.iter()
    }

    /// Whether another answers at `now` as this one does, for each key that either has.
    pub(crate) fn tells_like(&self, other: &Self, now: LogTime) -> bool
    where
        V: PartialEq,
    {
        let keys = [self, other].into_iter().flat_map(|ring| &ring.buckets);
        let mut keys = keys.flat_map(|bucket| bucket.pairs.iter().map(|(key, _)| key));
        keys.all(|key| self.get(key, now) == other.get(key, now))
    }

    /// Adds pairs to the newest bucket, or begins it. For rebuilding a ring from a snapshot.
    pub(crate) fn restore(
        &mut self,
        starts_at: LogTime,
        ends_at: LogTime,
        pairs: impl IntoIterator<Item = (K, Kept<V>)>,
    ) {
        match self.buckets.back_mut() {
            Some(bucket) if bucket.starts_at == starts_at => bucket.pairs.extend(pairs),
            Some(_) | None => {
                let pairs = pairs.into_iter().collect();
                self.buckets.push_back(Bucket { starts_at, ends_at, pairs });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETENTION: Span = Span::from_secs(80);

    fn at(seconds: u64) -> LogTime {
        LogTime::ZERO.saturating_add(Span::from_secs(seconds))
    }

    #[test]
    fn a_pair_is_found_until_its_own_instant() {
        let mut ring = TimeRing::default();
        ring.insert("a", 1, at(1), RETENTION);
        ring.insert("b", 2, at(9), RETENTION);
        assert_eq!(ring.get(&"a", at(80)), Some(&1));
        assert_eq!(ring.get(&"a", at(81)), None);
        assert_eq!(ring.get(&"b", at(88)), Some(&2));
        ring.insert("a", 3, at(10), RETENTION);
        assert_eq!(ring.get(&"a", at(89)), Some(&3));
    }

    #[test]
    fn memory_is_freed_by_the_bucket_and_no_answer_depends_on_it() {
        let mut ring = TimeRing::default();
        for (key, second) in [("a", 1), ("b", 9), ("c", 10)] {
            ring.insert(key, second, at(second), RETENTION);
        }
        assert_eq!(ring.next_forget(), Some(at(89)));
        ring.forget(at(88));
        assert_eq!(ring.len(), 3);
        ring.forget(at(89));
        assert_eq!((ring.len(), ring.get(&"c", at(89))), (1, Some(&10)));
        ring.forget(at(90));
        assert_eq!(ring.next_forget(), None);
    }

    #[test]
    fn a_value_that_ended_early_does_not_uncover_an_older_one() {
        let mut ring = TimeRing::default();
        ring.insert("a", 1, at(0), RETENTION);
        ring.insert("a", 2, at(1), Span::from_secs(4));
        assert_eq!(ring.get(&"a", at(4)), Some(&2));
        assert_eq!(ring.get(&"a", at(5)), None);
    }
}
