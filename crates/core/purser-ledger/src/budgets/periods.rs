//! The periods of a budget, as instants.
//!
//! Whoever sets a budget resolves its calendar once, for years ahead, and the list goes into the log as
//! lengths: `24 h × 126, 23 h × 1, 24 h × 237, 25 h × 1, …`. From then on log time alone says in which
//! period something happens, on every replica and in every audit.
//!
//! When the list ends, its lengths begin again from the front. So a budget goes on whether or not anybody
//! renews it; the list covers whole cycles of leap years, and what differs then is at most when exactly a
//! period begins. Setting the budget again renews the list.

use minicbor::{Decode, Encode};
use purser_types::{LogTime, Span};

/// One period: `from <= t < until`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct BudgetPeriod {
    /// Its first instant.
    #[n(0)]
    pub from: LogTime,
    /// The first instant after it; nothing if it never ends.
    #[n(1)]
    pub until: Option<LogTime>,
}

/// Periods without gaps, from an instant on and for ever.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Periods {
    /// When the first of them begins. What is before it is one period as well.
    #[n(0)]
    first: LogTime,
    /// Their lengths, one after the other.
    #[n(1)]
    runs: Box<[PeriodRun]>,
}

/// Periods of one length that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct PeriodRun {
    /// How long each is.
    #[n(0)]
    pub length: Span,
    /// How many there are.
    #[n(1)]
    pub count: u32,
}

/// Why instants are not where periods end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PeriodsError {
    /// They bound no period, or one that is not later than the one before.
    #[error("periods must follow one another")]
    NotAscending,
    /// Their lengths change too often.
    #[error("periods change their length more than {} times", Periods::RUNS_MAX)]
    TooManyRuns,
}

impl Periods {
    /// The most runs: months over 12 years are 144, with some room.
    pub const RUNS_MAX: usize = 256;

    /// The periods between instants. Refuses: fewer than two, or not ascending; too many lengths.
    pub fn between(boundaries: &[LogTime]) -> Result<Self, PeriodsError> {
        let first = *boundaries.first().ok_or(PeriodsError::NotAscending)?;
        let mut runs: Vec<PeriodRun> = Vec::new();
        for (from, until) in boundaries.iter().zip(boundaries.iter().skip(1)) {
            let length = until.since(*from);
            if length == Span::ZERO {
                return Err(PeriodsError::NotAscending);
            }
            match runs.last_mut() {
                Some(run) if run.length == length => run.count = run.count.saturating_add(1),
                Some(_) | None => runs.push(PeriodRun { length, count: 1 }),
            }
        }
        match runs.len() {
            0 => Err(PeriodsError::NotAscending),
            count if count > Self::RUNS_MAX => Err(PeriodsError::TooManyRuns),
            _ => Ok(Self { first, runs: runs.into() }),
        }
    }

    /// When the first of them begins.
    pub const fn first(&self) -> LogTime {
        self.first
    }

    /// The period that an instant lies in.
    pub fn at(&self, instant: LogTime) -> BudgetPeriod {
        if instant < self.first {
            return BudgetPeriod { from: LogTime::ZERO, until: Some(self.first) };
        }
        let whole = |run: &PeriodRun| run.length.as_micros().saturating_mul(u64::from(run.count));
        let cycle = self.runs.iter().fold(0_u64, |sum, run| sum.saturating_add(whole(run)));
        let passed = instant.since(self.first).as_micros();
        let Some(mut rest) = passed.checked_rem(cycle) else {
            return BudgetPeriod { from: self.first, until: None };
        };
        let mut from = self.first.saturating_add(Span::from_micros(passed.saturating_sub(rest)));
        for run in &self.runs {
            let length = run.length.as_micros();
            if rest < whole(run) {
                let within = rest.checked_rem(length).unwrap_or(0);
                let from = from.saturating_add(Span::from_micros(rest.saturating_sub(within)));
                return BudgetPeriod { from, until: Some(from.saturating_add(run.length)) };
            }
            rest = rest.saturating_sub(whole(run));
            from = from.saturating_add(Span::from_micros(whole(run)));
        }
        BudgetPeriod { from, until: None }
    }
}

impl BudgetPeriod {
    /// All the time there is.
    pub const ALWAYS: Self = Self { from: LogTime::ZERO, until: None };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> LogTime {
        LogTime::ZERO.saturating_add(Span::from_secs(seconds))
    }

    fn period(from: u64, until: u64) -> BudgetPeriod {
        BudgetPeriod { from: at(from), until: Some(at(until)) }
    }

    #[test]
    fn an_instant_lies_in_the_period_that_begins_at_it() {
        let periods = Periods::between(&[at(100), at(110), at(120), at(125)]).unwrap();
        let expected = [
            (0, period(0, 100)),
            (99, period(0, 100)),
            (100, period(100, 110)),
            (109, period(100, 110)),
            (110, period(110, 120)),
            (120, period(120, 125)),
            (124, period(120, 125)),
            // The lengths again: 10, 10 and 5.
            (125, period(125, 135)),
            (144, period(135, 145)),
            (145, period(145, 150)),
            (150, period(150, 160)),
        ];
        for (instant, expected) in expected {
            assert_eq!(periods.at(at(instant)), expected, "{instant}");
        }
    }

    #[test]
    fn the_end_of_time_lies_in_a_period() {
        let periods = Periods::between(&[at(0), at(86_400)]).unwrap();
        let last = periods.at(LogTime::MAX);
        assert_eq!(last.until, Some(LogTime::MAX));
        assert!(last.from < LogTime::MAX);
    }

    #[test]
    fn instants_that_bound_nothing_are_refused() {
        let odd: [&[LogTime]; 4] = [&[], &[at(1)], &[at(1), at(1)], &[at(2), at(1)]];
        for boundaries in odd {
            assert_eq!(Periods::between(boundaries), Err(PeriodsError::NotAscending));
        }
        let uneven: Vec<LogTime> = (0..=257).map(|n| at(u64::saturating_mul(n, n))).collect();
        assert_eq!(Periods::between(&uneven), Err(PeriodsError::TooManyRuns));
    }
}
