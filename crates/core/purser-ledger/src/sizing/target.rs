//! How much a region should have, and when it should ask for more.

use purser_types::{Credits, Span};

use super::arithmetic::{credits, lasts, over, strays, wide};
use super::{DemandReport, LASTING, Rate};

/// By how many times its usual stray the use in a second may exceed the average.
const STRAYS: u128 = 8;

/// The same for the time that it takes to be refilled: then it is late by one round trip at worst.
const REFILL_STRAYS: u128 = 4;

const SECOND: Span = Span::from_secs(1);

/// How many dear calls a region should be able to serve at once, where there is plenty: calls come in
/// bursts with long pauses between, and the average of a pause says nothing about the next burst.
const BURST_CALLS: u128 = 32;

/// All regions together have at most one part in so many of the whole for the sake of bursts.
const BURST_PARTS: u128 = 8;

/// With less than so many dear calls left, a region does not wait for its turn to report.
const EARLY_CALLS: u128 = 8;

/// How long everybody should be able to go on: ten seconds, or as long as half of the whole lasts.
pub(super) fn runway(whole: u128, total_rate: u128) -> Span {
    lasts(whole.wrapping_div(2), total_rate).map_or(LASTING, |time| time.min(LASTING))
}

/// What each of `regions` should have for a burst of calls that cost up to `p99_cost`, of a whole.
pub(super) fn burst(p99_cost: Credits, whole: u128, regions: usize) -> Credits {
    let regions = u128::try_from(regions).unwrap_or(u128::MAX).max(1);
    let part = whole.checked_div(regions.saturating_mul(BURST_PARTS)).unwrap_or(0);
    credits(wide(p99_cost).saturating_mul(BURST_CALLS).min(part))
}

impl Rate {
    /// The rate as a wide number, for sums.
    pub(super) fn wide(self) -> u128 {
        self.0.into()
    }
}

impl DemandReport {
    /// Less than this is not worth having: the next calls would go to home anyway.
    pub fn minimum(&self) -> Credits {
        let dear = wide(self.p99_cost).saturating_mul(4);
        credits(dear.max(over(self.rate, SECOND)))
    }

    /// What there should be for `runway`, and for the chance that calls come closer together or cost
    /// more than usual.
    pub(super) fn target(&self, runway: Span) -> Credits {
        let strays = strays(STRAYS, self.rate, SECOND, self.mean_cost);
        let target = over(self.rate, runway).saturating_add(strays);
        credits(target.saturating_add(wide(self.p99_cost))).max(self.minimum())
    }

    /// With less than this, a region reports at once instead of in its turn: what is left lasts until
    /// the answer is there, but no longer; or a burst has used most of what there was.
    ///
    /// `refill` is the round trip to home and the standby's acknowledgment. `filled` is what there was
    /// after the last voucher: who was given little does not ask again before half of it is used.
    pub fn low_water(&self, refill: Span, filled: Credits) -> Credits {
        // A burst is over before the rate has risen.
        let quarter = half(half(filled));
        let early = match wide(self.p99_cost).saturating_mul(EARLY_CALLS) {
            // The first calls have not been reported yet.
            0 => quarter,
            early => quarter.min(credits(early)),
        };
        early.max(credits(self.used_in(refill)).min(half(filled)))
    }

    /// What may be used in a time, a dear call included.
    pub(super) fn used_in(&self, time: Span) -> u128 {
        let strays = strays(REFILL_STRAYS, self.rate, time, self.mean_cost);
        over(self.rate, time).saturating_add(strays).saturating_add(wide(self.p99_cost))
    }

    /// The demand of a region whose first call home has just accepted: what it costs is all that is
    /// known of its calls.
    #[must_use]
    pub fn with_first_call(self, cost: Credits) -> Self {
        self.with_costs_of(&Self { mean_cost: cost, p99_cost: cost, ..Self::default() })
    }

    /// The same demand, with what calls cost earlier if it knows of none: what home has accepted before
    /// there was an allocation, the region's book never saw.
    #[must_use]
    pub fn with_costs_of(self, earlier: &Self) -> Self {
        let Self { mean_cost, p99_cost, .. } = *earlier;
        if self.p99_cost.is_zero() { Self { mean_cost, p99_cost, ..self } } else { self }
    }
}

/// Half of it, rounded down.
pub(super) fn half(amount: Credits) -> Credits {
    credits(wide(amount).wrapping_div(2))
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a sum that overflows fails the test")]
mod tests {
    use super::*;

    fn amount(amount: u64) -> Credits {
        Credits::from_u64(amount).unwrap()
    }

    fn demand(rate: u64, mean_cost: u64, p99_cost: u64) -> DemandReport {
        let (mean_cost, p99_cost) = (amount(mean_cost), amount(p99_cost));
        DemandReport { rate: Rate(rate * 1_000), mean_cost, p99_cost, ..DemandReport::default() }
    }

    #[test]
    fn the_runway_is_ten_seconds_or_half_the_whole() {
        assert_eq!(runway(4_000, 100_000), Span::from_secs(10));
        assert_eq!(runway(1_000, 100_000), Span::from_secs(5));
        assert_eq!(runway(0, 100_000), Span::ZERO);
        assert_eq!(runway(0, 0), Span::from_secs(10));
    }

    #[test]
    fn the_target_is_the_runway_and_eight_strays_and_a_dear_call() {
        // 100 × 10 + 8 × √(100 × 4) + 20.
        assert_eq!(demand(100, 4, 20).target(Span::from_secs(10)), amount(1_180));
        // Four dear calls, or a second, where that is more.
        assert_eq!(demand(1, 4, 20).target(Span::ZERO), amount(80));
        assert_eq!(demand(100_000, 1, 1).target(Span::ZERO), amount(100_000));
    }

    #[test]
    fn low_water_covers_the_refill_and_is_at_most_half_full() {
        let refill = Span::from_micros(250_000);
        // 1,000 × 0.25 + 4 × √(1,000 × 0.25 × 4) + 20.
        assert_eq!(demand(1_000, 4, 20).low_water(refill, amount(11_000)), amount(396));
        assert_eq!(demand(1_000, 4, 20).low_water(refill, amount(600)), amount(300));
    }

    #[test]
    fn a_region_asks_early_when_a_burst_has_used_most_of_what_there_was() {
        let refill = Span::from_micros(250_000);
        // Eight dear calls; or a quarter, where that is less, and where no cost is known yet.
        assert_eq!(demand(0, 4, 20).low_water(refill, amount(1_000)), amount(160));
        assert_eq!(demand(0, 4, 20).low_water(refill, amount(400)), amount(100));
        assert_eq!(demand(0, 0, 0).low_water(refill, amount(1_000)), amount(250));
    }

    #[test]
    fn a_burst_is_thirty_two_dear_calls_or_an_eighth_shared_by_all_regions() {
        assert_eq!(burst(amount(20), 1_000_000, 4), amount(640));
        assert_eq!(burst(amount(20), 10_000, 4), amount(312));
        assert_eq!(burst(amount(20), 10_000, 0), amount(640));
    }

    #[test]
    fn a_report_without_calls_does_not_hide_what_the_first_call_cost() {
        let first = DemandReport::default().with_first_call(amount(7));
        let costs = |report: DemandReport| (report.mean_cost, report.p99_cost);
        assert_eq!(costs(DemandReport::default().with_costs_of(&first)), (amount(7), amount(7)));
        assert_eq!(costs(demand(0, 2, 3).with_costs_of(&first)), (amount(2), amount(3)));
    }
}
