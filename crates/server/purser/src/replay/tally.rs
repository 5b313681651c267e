//! What a replay counts while it runs: calls, refusals, retries, and how long callers waited.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::caller::Undecided;
use super::regional_counts::RegionalCounts;

/// The longest wait that is told apart from longer ones: ten minutes, in microseconds.
const WAIT_MAX_MICROS: u64 = 600_000_000;

/// How many of the calls that were given up are named; a fault usually makes many alike.
const UNDECIDED_NAMED_MAX: usize = 10;

/// Waits, to three digits.
#[derive(Debug, Clone)]
pub(crate) struct Waits {
    histogram: Histogram<u64>,
}

/// Waits at some ranks, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Quantiles {
    /// How many there were.
    pub(crate) count: u64,
    /// Half of them were shorter.
    pub(crate) p50_ms: f64,
    /// 95 of a hundred were shorter.
    pub(crate) p95_ms: f64,
    /// 99 of a hundred were shorter.
    pub(crate) p99_ms: f64,
    /// The longest.
    pub(crate) max_ms: f64,
}

impl Default for Waits {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, WAIT_MAX_MICROS, 3);
        Self { histogram: histogram.expect("the bounds are in order and three digits are allowed") }
    }
}

impl Waits {
    /// Counts one.
    pub(crate) fn add(&mut self, wait: Duration) {
        let micros = u64::try_from(wait.as_micros()).unwrap_or(WAIT_MAX_MICROS);
        self.histogram.saturating_record(micros.clamp(1, WAIT_MAX_MICROS));
    }

    /// Counts all of another's.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("all have the same bounds");
    }

    /// The waits at the usual ranks.
    pub(crate) fn quantiles(&self) -> Quantiles {
        let millis = |micros: u64| Duration::from_micros(micros).as_secs_f64() * 1_000.0;
        let at = |quantile| millis(self.histogram.value_at_quantile(quantile));
        Quantiles {
            count: self.histogram.len(),
            p50_ms: at(0.5),
            p95_ms: at(0.95),
            p99_ms: at(0.99),
            max_ms: millis(self.histogram.max()),
        }
    }
}

impl std::fmt::Display for Quantiles {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { p50_ms, p95_ms, p99_ms, max_ms, .. } = self;
        write!(
            formatter,
            "p50 {p50_ms:.1} ms, p95 {p95_ms:.1} ms, p99 {p99_ms:.1} ms, max {max_ms:.1} ms"
        )
    }
}

/// Counts that the calls of a replay share.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: Mutex<Counts>,
}

/// See [`Tally`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    /// Calls that were decided, by operation.
    pub(crate) decided: BTreeMap<&'static str, u64>,
    /// Calls that were refused, by problem code.
    pub(crate) refused: BTreeMap<String, u64>,
    /// Attempts that had to be repeated, by reason.
    pub(crate) retried: BTreeMap<String, u64>,
    /// Answers that were marked as decided before.
    pub(crate) replayed: u64,
    /// Calls that were given up undecided.
    pub(crate) undecided: u64,
    /// The first of them, in words.
    pub(crate) undecided_first: Vec<String>,
    /// Calls whose outcome was unknown after an attempt, and that the same key brought to a decision.
    pub(crate) resolved: u64,
    /// From when an authorize was due to its decision.
    pub(crate) authorize: Waits,
    /// From when a capture was due to its decision.
    pub(crate) capture: Waits,
    /// Calls that needed more than one attempt.
    pub(crate) delayed: Waits,
    /// All calls, as long as there is an outage that was made on purpose.
    pub(crate) outage: Option<Waits>,
    /// Who decided, where the service spans regions.
    pub(crate) regional: RegionalCounts,
}

impl Tally {
    /// The counts, to look at or to change.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    /// Calls that were decided.
    pub(crate) fn decided_count(&self) -> u64 {
        self.decided.values().sum()
    }

    /// Counts a call that is given up.
    pub(crate) fn count_undecided(&mut self, key: Option<&str>, why: &Undecided) {
        self.undecided += 1;
        if self.undecided_first.len() < UNDECIDED_NAMED_MAX {
            self.undecided_first.push(format!("key {}: {why}", key.unwrap_or("none")));
        }
    }

    /// Counts an attempt that has to be repeated, of a call that came in at a region.
    pub(crate) fn count_retry(&mut self, reason: String, entrance: Option<usize>) {
        if let Some(cut) = entrance.and_then(|place| self.regional.cuts.get_mut(&place)) {
            cut.count_retry(reason.clone());
        }
        count(&mut self.retried, reason);
    }

    /// Calls that were refused.
    pub(crate) fn refused_count(&self) -> u64 {
        self.refused.values().sum()
    }

    /// Attempts that had to be repeated.
    pub(crate) fn retried_count(&self) -> u64 {
        self.retried.values().sum()
    }
}

/// A count as a number that can be divided. Exact up to four thousand million.
pub(crate) fn to_float(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Adds one to a count.
pub(crate) fn count<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K) {
    let count = counts.entry(key).or_default();
    *count = count.saturating_add(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_in_milliseconds() {
        let mut waits = Waits::default();
        for millis in 1..=100 {
            waits.add(Duration::from_millis(millis));
        }
        let quantiles = waits.quantiles();
        assert_eq!(quantiles.count, 100);
        assert!((49.9..50.2).contains(&quantiles.p50_ms), "{quantiles}");
        assert!((98.9..99.2).contains(&quantiles.p99_ms), "{quantiles}");
    }
}
