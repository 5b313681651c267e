//! Whose clock stamps the log.
//!
//! The leader of a group stamps every entry with its own clock, so one wrong clock could expire
//! everybody's holds. Therefore the nodes exchange their readings each second, and a leader whose
//! clock runs ahead of the others does not stamp, nor does one that does not know the clocks of a
//! majority. The rule is a pure function, [`judge`]; nothing here sets a clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use purser_types::{LogTime, Span};

/// How far ahead of the median, or behind it, a clock may be: 5 s, in microseconds.
///
/// Synchronised clocks differ by milliseconds, so this only meets clocks that are broken.
pub const TOLERANCE_MICROS: i64 = 5_000_000;

/// The clock that stamps entries.
pub trait Clock: Send + Sync + 'static {
    /// The present instant. May jump in either direction.
    fn now(&self) -> LogTime;

    /// The present instant by a clock that nobody sets: only good for how long something took.
    fn steady(&self) -> Instant {
        Instant::now()
    }
}

/// The clock of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> LogTime {
        // A clock before 1970 or after 9999 is wrong in a way that `judge` will see; clamping keeps
        // this total.
        let Ok(since) = SystemTime::now().duration_since(UNIX_EPOCH) else {
            return LogTime::ZERO;
        };
        u64::try_from(since.as_micros())
            .ok()
            .and_then(|micros| LogTime::from_unix_micros(micros).ok())
            .unwrap_or(LogTime::MAX)
    }
}

/// What a node's clock is worth, seen from the clocks of its group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClockVerdict {
    /// Within tolerance of the median. Stamps.
    #[default]
    Good,
    /// More than 5 s ahead of the median. Does not stamp; hands leadership over if it can.
    Ahead,
    /// More than 5 s behind the median. Stamps the larger of its clock and the last stamp; hands
    /// leadership over if it can.
    Behind,
}

/// A verdict, and whether it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Judgement {
    /// Of the readings there are.
    pub(crate) verdict: ClockVerdict,
    /// Whether these are readings of a majority of the voters, the node's own included.
    pub(crate) is_sure: bool,
}

impl Judgement {
    /// The verdict, if it counts.
    pub(crate) fn sure(self) -> Option<ClockVerdict> {
        self.is_sure.then_some(self.verdict)
    }
}

/// Judges the clock that is `own_micros` away from some common zero, among `others`.
///
/// The median counts the own clock too. Of an even number of clocks it is the middle of the two
/// middle ones: with two clocks there is no telling which is wrong until they are 10 s apart. A
/// clock alone is good.
pub fn judge(own_micros: i64, others: &[i64]) -> ClockVerdict {
    let mut all: Vec<i64> = others.to_vec();
    all.push(own_micros);
    all.sort_unstable();
    let upper = all.len() / 2;
    let lower = (all.len() - 1) / 2;
    let median = match (all.get(lower), all.get(upper)) {
        (Some(&lower), Some(&upper)) => i64::midpoint(lower, upper),
        _ => own_micros,
    };
    let ahead = own_micros.saturating_sub(median);
    if ahead > TOLERANCE_MICROS {
        ClockVerdict::Ahead
    } else if ahead < -TOLERANCE_MICROS {
        ClockVerdict::Behind
    } else {
        ClockVerdict::Good
    }
}

/// How long ago `stamp` was, for a node whose clock says `now` and is worth `verdict`, and which has
/// applied nothing for so long; `None` if that clock cannot tell.
///
/// A clock that runs ahead tells more than it was, which a reader can live with. One that is behind
/// would tell less, down to nothing at all, and nobody may take "unknown" for "just now". Two good
/// clocks may differ too, so it is never less than the time for which nothing was applied: that a
/// node is cut off shows whatever its clock says.
pub(crate) fn age(
    now: LogTime,
    stamp: LogTime,
    verdict: Option<ClockVerdict>,
    since_applied: Duration,
) -> Option<Span> {
    let told = match verdict {
        Some(ClockVerdict::Good | ClockVerdict::Ahead) => Some(now.since(stamp)),
        Some(ClockVerdict::Behind) => None,
        None => (stamp <= now).then(|| now.since(stamp)),
    };
    let quiet = u64::try_from(since_applied.as_micros()).unwrap_or(u64::MAX);
    told.map(|told| told.max(Span::from_micros(quiet)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    #[track_caller]
    fn check_verdict(own: i64, others: &[i64], expected: ClockVerdict) {
        assert_eq!(judge(own, others), expected);
    }

    #[test]
    fn a_clock_is_judged_by_the_median_of_its_group() {
        check_verdict(0, &[], ClockVerdict::Good);
        check_verdict(0, &[-5 * SECOND, -5 * SECOND], ClockVerdict::Good);
        check_verdict(0, &[-5 * SECOND - 1, -5 * SECOND - 1], ClockVerdict::Ahead);
        check_verdict(0, &[5 * SECOND, 5 * SECOND], ClockVerdict::Good);
        check_verdict(0, &[6 * SECOND, 7 * SECOND], ClockVerdict::Behind);
        // One other clock that is wrong does not spoil a good one.
        check_verdict(0, &[0, 3_600 * SECOND], ClockVerdict::Good);
        check_verdict(0, &[0, -3_600 * SECOND], ClockVerdict::Good);
    }

    #[test]
    fn of_two_clocks_neither_is_wrong_until_they_are_ten_seconds_apart() {
        check_verdict(0, &[-10 * SECOND], ClockVerdict::Good);
        check_verdict(0, &[-11 * SECOND], ClockVerdict::Ahead);
        check_verdict(0, &[11 * SECOND], ClockVerdict::Behind);
    }

    #[test]
    fn an_age_that_a_clock_cannot_tell_is_not_nothing() {
        let at = |seconds: u64| LogTime::from_unix_micros(seconds * 1_000_000).unwrap();
        let age = |now, verdict| age(at(now), at(100), verdict, Duration::ZERO).map(Span::as_secs);
        assert_eq!(age(103, Some(ClockVerdict::Good)), Some(3));
        // The stamp is another good clock's, which may be a little ahead.
        assert_eq!(age(99, Some(ClockVerdict::Good)), Some(0));
        assert_eq!(age(160, Some(ClockVerdict::Ahead)), Some(60));
        assert_eq!(age(90, Some(ClockVerdict::Behind)), None);
        assert_eq!(age(103, Some(ClockVerdict::Behind)), None);
        assert_eq!(age(103, None), Some(3));
        assert_eq!(age(90, None), None);
    }

    #[test]
    fn an_age_is_at_least_the_time_for_which_nothing_was_applied() {
        let at = |seconds: u64| LogTime::from_unix_micros(seconds * 1_000_000).unwrap();
        let age = |now, verdict| {
            age(at(now), at(100), verdict, Duration::from_secs(7)).map(Span::as_secs)
        };
        // The clock that stamped is 9 s ahead of this one, and both are good.
        assert_eq!(age(98, Some(ClockVerdict::Good)), Some(7));
        // Cut off, and set back since.
        assert_eq!(age(101, None), Some(7));
        assert_eq!(age(120, None), Some(20));
        assert_eq!(age(98, Some(ClockVerdict::Behind)), None);
    }
}
