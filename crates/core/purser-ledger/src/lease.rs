//! When a lease ends, on either side's clock.
//!
//! ```text
//!  region:  sent ─────────── D(1−ρ) − ε ──▶ spends no more
//!  home:           applied ─────────────── D(1+ρ) + ε ──▶ may take back
//! ```
//!
//! Each side measures by a clock of its own that only ever goes on, and starts at an instant that the
//! other cannot be ahead of: the report was sent before it was applied. So no safety property rests on
//! this; it decides how likely a take-back is to be clean. Not here: clocks.

use purser_types::Span;

/// How far a clock may run fast or slow: one part in so many (ρ = 1/1000). Quartz is a hundred times
/// better.
const DRIFT_ONE_IN: u64 = 1_000;

/// What is left for reading clocks and stopping work on time (ε).
const SLACK: Span = Span::from_micros(250_000);

/// When a region spends no more under a lease of `term`, on the clock by which it *sent* the report
/// that earned the voucher at `sent_at`.
pub const fn region_deadline(sent_at: Span, term: Span) -> Span {
    let lasts = term.as_micros().saturating_sub(drift(term));
    let lasts = lasts.saturating_sub(SLACK.as_micros());
    Span::from_micros(sent_at.as_micros().saturating_add(lasts))
}

/// When home may take back what was given for `term`, on the clock by which its leader *applied* that
/// report at `applied_at`. A new leader starts from when it began to lead, which is later.
pub const fn home_deadline(applied_at: Span, term: Span) -> Span {
    let lasts = term.as_micros().saturating_add(drift(term));
    let lasts = lasts.saturating_add(SLACK.as_micros());
    Span::from_micros(applied_at.as_micros().saturating_add(lasts))
}

/// By how much a clock may be wrong after `term`, rounded up.
const fn drift(term: Span) -> u64 {
    term.as_micros().div_ceil(DRIFT_ONE_IN)
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test may panic, and its figures are small")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::policy::OnExpiry;

    const MILLION: u64 = 1_000_000;

    /// A clock that showed `offset` microseconds when it all began, and goes `rate` microseconds in a
    /// second.
    #[derive(Debug, Clone, Copy)]
    struct Clock {
        offset: u64,
        rate: u64,
    }

    impl Clock {
        /// What it shows at a true instant. It has not reached the next microsecond.
        fn reads(self, at: u64) -> Span {
            Span::from_micros(self.offset + at * self.rate / MILLION)
        }
    }

    fn clocks() -> impl Strategy<Value = Clock> {
        let rates = prop_oneof![Just(999_000), Just(1_001_000), 999_000..=1_001_000_u64];
        (0..1_000 * MILLION, rates).prop_map(|(offset, rate)| Clock { offset, rate })
    }

    proptest! {
        /// At no true instant has home's lease run out while the region's has not.
        #[test]
        fn a_region_stops_before_home_takes_back_whatever_the_clocks(
            (region, home) in (clocks(), clocks()),
            (sent, delay) in (0..10_000 * MILLION, 0..100 * MILLION),
            term in prop_oneof![
                Just(OnExpiry::Keep.term()),
                Just(OnExpiry::TakeBack.term()),
                (0..600 * MILLION).prop_map(Span::from_micros),
            ],
            since in 0..700 * MILLION,
        ) {
            let ends = region_deadline(region.reads(sent), term);
            let takes_back = home_deadline(home.reads(sent + delay), term);
            let check = |at: u64| home.reads(at) < takes_back || ends <= region.reads(at);
            prop_assert!(check(sent + since));
            // And at the very instant at which home's runs out.
            let left = takes_back.as_micros() - home.offset;
            prop_assert!(check((left * MILLION).div_ceil(home.rate)));
        }
    }

    #[test]
    fn a_lease_lasts_nearly_its_term() {
        let sent = Span::from_secs(100);
        let term = OnExpiry::TakeBack.term();
        assert_eq!(region_deadline(sent, term), Span::from_micros(159_690_000));
        assert_eq!(home_deadline(sent, term), Span::from_micros(160_310_000));
        // One that is too short for clocks to tell gives the region no time, and home waits all the same.
        assert_eq!(region_deadline(sent, Span::from_micros(1)), sent);
        assert_eq!(home_deadline(sent, Span::ZERO), Span::from_micros(100_250_000));
    }
}
