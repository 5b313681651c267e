//! Region side: how fast credits are used, and what calls cost.

use purser_types::{Credits, Span};

use super::arithmetic::{rate, wide};
use super::costs::Costs;
use super::{DemandReport, Rate};

/// The demand that one book of a region serves, or that home serves itself.
///
/// The rate is a moving average over time: in a second of steady use it comes halfway closer to a
/// higher use, and a tenth closer to a lower one. So more is asked for at once, and given up late.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    rate: Rate,
    costs: Costs,
    /// What home decided for this region and accepted: it is demand, though the book never saw it.
    forwarded: u128,
    /// What the book had spent and held, and home had accepted, when the rate was last brought up.
    used: u128,
    /// When that was.
    observed_at: Span,
    /// When the demand began.
    began_at: Option<Span>,
    /// When the last call came.
    called_at: Span,
    /// What the calls cost that wait or were refused.
    want: Credits,
}

/// A part of the way from one rate to another, for each second.
struct Pace {
    /// One part in so many.
    parts: u64,
}

const RISING: Pace = Pace { parts: 2 };
const FALLING: Pace = Pace { parts: 10 };

/// One second: the time in which the rate goes one part of the way.
const SECOND: Span = Span::from_secs(1);

/// Shorter times say too little about a rate.
const OBSERVED_MIN: Span = Span::from_micros(50_000);

/// After so many seconds the average is the use itself, to a thousandth of a credit in a second for
/// rates up to 10^15.
const SECONDS_MAX: u64 = 400;

impl Demand {
    /// No demand yet, for a book that has spent and holds `used`.
    pub fn new(used: Credits, now: Span) -> Self {
        Self {
            rate: Rate::default(),
            costs: Costs::default(),
            forwarded: 0,
            used: wide(used),
            observed_at: now,
            began_at: None,
            called_at: now,
            want: Credits::ZERO,
        }
    }

    /// A call was accepted by the book.
    pub fn accepted(&mut self, cost: Credits, now: Span) {
        self.costs.note(cost);
        self.called_at = self.called_at.max(now);
        self.began_at = self.began_at.or(Some(now));
    }

    /// A call was passed on to home, who accepted it. What is far dearer than usual counts as four times
    /// the usual.
    pub fn accepted_by_home(&mut self, cost: Credits, now: Span) {
        self.accepted(cost, now);
        self.forwarded = self.forwarded.saturating_add(wide(self.costs.usual(cost)));
    }

    /// A call waits for credits, or was refused for want of them. It does not count for the rate or the
    /// costs: who asks for a billion and is refused has used nothing.
    pub fn wanted(&mut self, cost: Credits, now: Span) {
        self.called_at = self.called_at.max(now);
        self.want = self.want.checked_add(cost).unwrap_or(Credits::MAX);
    }

    /// What to tell home now. `used` is all that the book has spent and holds: a hold takes of the
    /// region's right as a spend does.
    ///
    /// What was wanted is told once: whoever still waits says so again. What ends, the book knows.
    pub fn report(&mut self, used: Credits, now: Span) -> DemandReport {
        self.observe(used, now);
        DemandReport {
            rate: self.rate,
            mean_cost: self.costs.mean(),
            p99_cost: self.costs.p99(),
            want: std::mem::take(&mut self.want),
            idle: since(now, self.called_at),
            ending: Credits::ZERO,
        }
    }

    /// As [`Demand::report`], for whoever only looks.
    pub fn peek(&self, used: Credits, now: Span) -> DemandReport {
        self.clone().report(used, now)
    }

    /// Brings the rate up to now.
    fn observe(&mut self, used: Credits, now: Span) {
        let elapsed = since(now, self.observed_at);
        if elapsed < OBSERVED_MIN {
            return;
        }
        let used = wide(used).saturating_add(self.forwarded);
        // Holds that ended unspent may have freed more than was used.
        let seen = rate(used.saturating_sub(self.used), elapsed);
        self.rate = approach(self.rate, seen, elapsed);
        // In its first second, what was used so far is all that is known, and it counts whole.
        if self.began_at.is_some_and(|began_at| since(now, began_at) < SECOND) {
            self.rate = self.rate.max(rate(used.saturating_sub(self.used), SECOND));
        }
        self.used = used;
        self.observed_at = now;
    }
}

/// A rate after use at `seen` for `elapsed`.
fn approach(from: Rate, seen: Rate, elapsed: Span) -> Rate {
    let pace = if from < seen { RISING } else { FALLING };
    let seconds = elapsed.as_secs();
    if seconds > SECONDS_MAX {
        return seen;
    }
    let mut rate = from;
    for _second in 0..seconds {
        rate = step(rate, seen, &pace, SECOND);
    }
    let whole = Span::from_secs(seconds);
    step(
        rate,
        seen,
        &pace,
        Span::from_micros(elapsed.as_micros().saturating_sub(whole.as_micros())),
    )
}

/// The same for at most a second. What does not come out even is rounded away from where it was, so
/// that the average arrives.
fn step(from: Rate, seen: Rate, pace: &Pace, elapsed: Span) -> Rate {
    let distance = u128::from(from.0.abs_diff(seen.0)).saturating_mul(elapsed.as_micros().into());
    let parts = u128::from(pace.parts).saturating_mul(SECOND.as_micros().into());
    let way = u64::try_from(distance.div_ceil(parts.max(1))).unwrap_or(u64::MAX);
    Rate(if from < seen { from.0.saturating_add(way) } else { from.0.saturating_sub(way) })
}

fn since(now: Span, earlier: Span) -> Span {
    Span::from_micros(now.as_micros().saturating_sub(earlier.as_micros()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn amount(amount: u64) -> Credits {
        Credits::from_u64(amount).unwrap()
    }

    fn at(seconds: u64) -> Span {
        Span::from_secs(seconds)
    }

    #[test]
    fn the_rate_rises_by_half_and_falls_by_a_tenth_in_a_second() {
        let mut demand = Demand::new(Credits::ZERO, at(0));
        let rates = [(1, 100), (2, 200), (3, 200), (4, 200), (9, 200)]
            .map(|(second, used)| demand.report(amount(used), at(second)).rate.0);
        // A report that comes late has seen as many seconds as those that come in time.
        assert_eq!(rates, [50_000, 75_000, 67_500, 60_750, 35_871]);
    }

    #[test]
    fn the_first_second_counts_whole() {
        let mut demand = Demand::new(Credits::ZERO, at(0));
        demand.accepted(amount(20), at(100));
        let early = at(100).as_micros() + 100_000;
        assert_eq!(demand.report(amount(20), Span::from_micros(early)).rate, Rate(20_000));
    }

    #[test]
    fn what_home_accepts_for_the_region_is_demand_and_what_it_refuses_is_want() {
        let mut demand = Demand::new(Credits::ZERO, at(0));
        demand.accepted_by_home(amount(6), at(1));
        demand.wanted(amount(1_000_000), at(3));
        let report = demand.report(Credits::ZERO, at(4));
        let expected = DemandReport {
            rate: Rate(1_407),
            mean_cost: amount(6),
            p99_cost: amount(6),
            want: amount(1_000_000),
            idle: at(1),
            ending: Credits::ZERO,
        };
        assert_eq!(report, expected);
        assert_eq!(demand.report(Credits::ZERO, at(4)).want, Credits::ZERO);
    }

    #[test]
    fn the_bytes_of_a_demand_report_are_pinned() {
        let report = DemandReport {
            rate: Rate(1_500),
            mean_cost: amount(3),
            p99_cost: amount(9),
            want: amount(40),
            idle: Span::from_micros(7),
            ending: Credits::ZERO,
        };
        let bytes = crate::codec::encode(&report);
        assert_eq!(bytes, [0x85, 0x19, 0x05, 0xdc, 0x03, 0x09, 0x18, 0x28, 0x07]);
        assert_eq!(crate::codec::decode::<DemandReport>(&bytes).unwrap(), report);
    }

    proptest! {
        #[test]
        fn the_rate_stays_between_what_it_was_and_what_is_seen(
            from in 0..=u64::MAX,
            seen in 0..=u64::MAX,
            micros in 0..2_000_000_000u64,
        ) {
            let rate = approach(Rate(from), Rate(seen), Span::from_micros(micros)).0;
            prop_assert!((from.min(seen)..=from.max(seen)).contains(&rate));
            prop_assert!(micros <= SECONDS_MAX * 1_000_000 || rate == seen);
        }
    }
}
