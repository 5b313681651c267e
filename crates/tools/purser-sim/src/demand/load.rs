//! When calls come, for whom, and how long the work takes.

use std::time::Duration;

use fastrand::Rng;
use purser_types::Span;

use super::agenda::{after, millis};
use super::scenario::Scenario;

/// A call for credits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) account: usize,
    /// Where it was made.
    pub(super) region: usize,
    pub(super) cost: u64,
    pub(super) at: Span,
    /// Whether it is the account's first call in the region.
    pub(super) is_first: bool,
}

/// See the module's documentation.
pub(super) struct Load {
    rng: Rng,
    /// Up to which number each account is drawn.
    ends: Vec<u64>,
}

impl Load {
    pub(super) fn new(scenario: &Scenario, seed: u64) -> Self {
        let mut end = 0;
        let weight = |place: u64| 1_000_000 / place;
        let ends = (1..=scenario.accounts).map(|place| {
            end += weight(place);
            end
        });
        Self { ends: ends.collect(), rng: Rng::with_seed(seed) }
    }

    /// When the next call comes to a region, or when to look again because none are coming.
    pub(super) fn next_call(
        &mut self,
        scenario: &Scenario,
        region: usize,
        now: Span,
    ) -> (Span, bool) {
        match (scenario.rate)(region, now.as_secs()) {
            0 => (after(now, millis(100)), false),
            rate => (after(now, self.exponential(Span::from_secs(1).split(rate))), true),
        }
    }

    /// How long after one call of a burst the next one comes.
    pub(super) fn between(&mut self) -> Span {
        self.exponential(millis(100))
    }

    pub(super) fn account(&mut self) -> usize {
        let drawn = self.rng.u64(0..self.ends.last().copied().unwrap_or(1));
        self.ends.partition_point(|end| *end <= drawn)
    }

    pub(super) fn cost(&mut self, scenario: &Scenario) -> u64 {
        self.rng.u64(1..=scenario.cost_max)
    }

    /// How long the work takes: most is done in less than a second.
    pub(super) fn work(&mut self) -> Span {
        self.exponential(millis(400))
    }

    /// What the work turns out to cost: usually what it was authorized for, sometimes half, sometimes
    /// nothing.
    pub(super) fn captured(&mut self, scenario: &Scenario, cost: u64) -> u64 {
        match self.rng.u8(0..10) {
            _ if cost > scenario.cost_max => 0,
            0 => 0,
            1 => cost / 2,
            _ => cost,
        }
    }

    /// An interval, a tenth more or less.
    pub(super) fn jittered(&mut self, interval: Span) -> Span {
        let tenth = interval.as_micros() / 10;
        Span::from_micros(self.rng.u64(interval.as_micros() - tenth..=interval.as_micros() + tenth))
    }

    fn exponential(&mut self, mean: Span) -> Span {
        // Never the logarithm of zero: the generator's numbers are below one.
        let factor = -(1.0 - self.rng.f64()).ln();
        let drawn = Duration::from_micros(mean.as_micros()).mul_f64(factor);
        Span::from_micros(u64::try_from(drawn.as_micros()).unwrap_or(u64::MAX))
    }
}
