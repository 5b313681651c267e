//! A map whose pairs are forgotten with time: buckets of pairs by the instant they came in.
//!
//! Forgetting drops whole buckets, so it costs nothing a pair and is due at instants that every
//! replica agrees on. A bucket goes when its youngest pair is past its retention; whoever must
//! forget a pair exactly on time compares the pair's own instant as well.

use std::collections::VecDeque;

use purser_types::{LogTime, Span};

use crate::cow_map::CowMap;

/// How many buckets a retention is divided into: a pair stays at most an eighth too long, and a
/// look-up that finds nothing looks into nine buckets.
const BUCKETS: u64 = 8;

/// See the module's documentation.
#[derive(Debug, Clone)]
pub(crate) struct TimeRing<K, V> {
    /// Oldest first. No bucket is empty.
    buckets: VecDeque<Bucket<K, V>>,
}

/// The pairs of one interval.
#[derive(Debug, Clone)]
pub(crate) struct Bucket<K, V> {
    /// When the interval starts.
    pub(crate) starts_at: LogTime,
    /// When its youngest pair came in.
    pub(crate) youngest: LogTime,
    pub(crate) pairs: CowMap<K, V>,
}

impl<K, V> Default for TimeRing<K, V> {
    fn default() -> Self {
        Self { buckets: VecDeque::new() }
    }
}

impl<K: Ord + Clone, V: Clone> TimeRing<K, V> {
    /// The latest value of a key.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.buckets.iter().rev().find_map(|bucket| bucket.pairs.get(key))
    }

    /// Adds a pair at `now`, which never goes back.
    pub(crate) fn insert(&mut self, key: K, value: V, now: LogTime, retention: Span) {
        let starts_at = now.floor(retention.split(BUCKETS));
        match self.buckets.back_mut() {
            Some(bucket) if starts_at <= bucket.starts_at => {
                bucket.youngest = now;
                bucket.pairs.insert(key, value);
            }
            Some(_) | None => {
                let pairs = [(key, value)].into_iter().collect();
                self.buckets.push_back(Bucket { starts_at, youngest: now, pairs });
            }
        }
    }

    /// Drops the buckets whose youngest pair is `retention` old at `now`.
    pub(crate) fn forget(&mut self, now: LogTime, retention: Span) {
        while self.next_forget(retention).is_some_and(|due| due <= now) {
            self.buckets.pop_front();
        }
    }

    /// When the oldest bucket can be dropped.
    pub(crate) fn next_forget(&self, retention: Span) -> Option<LogTime> {
        self.buckets.front().map(|bucket| bucket.youngest.saturating_add(retention))
    }

    /// How many pairs there are, overtaken ones included.
    pub(crate) fn len(&self) -> usize {
        self.buckets.iter().map(|bucket| bucket.pairs.len()).sum()
    }

    /// The buckets, oldest first.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = &Bucket<K, V>> {
        self.buckets.iter()
    }

    /// Adds pairs to the newest bucket, or opens it. For rebuilding a ring from a snapshot.
    pub(crate) fn restore(
        &mut self,
        starts_at: LogTime,
        youngest: LogTime,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) {
        match self.buckets.back_mut() {
            Some(bucket) if bucket.starts_at == starts_at => bucket.pairs.extend(pairs),
            Some(_) | None => {
                let pairs = pairs.into_iter().collect();
                self.buckets.push_back(Bucket { starts_at, youngest, pairs });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> LogTime {
        LogTime::ZERO.saturating_add(Span::from_secs(seconds))
    }

    #[test]
    fn a_bucket_goes_when_its_youngest_pair_does() {
        let retention = Span::from_secs(80);
        let mut ring = TimeRing::default();
        ring.insert("a", 1, at(1), retention);
        ring.insert("b", 2, at(9), retention);
        ring.insert("a", 3, at(10), retention);
        assert_eq!(ring.get(&"a"), Some(&3));
        assert_eq!(ring.next_forget(retention), Some(at(89)));

        ring.forget(at(88), retention);
        assert_eq!((ring.get(&"b"), ring.len()), (Some(&2), 3));
        ring.forget(at(89), retention);
        assert_eq!((ring.get(&"b"), ring.get(&"a")), (None, Some(&3)));
        ring.forget(at(90), retention);
        assert_eq!(ring.len(), 0);
    }
}
