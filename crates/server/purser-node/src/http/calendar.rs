//! Calendars become instants here, once, before the log.
//!
//! The time zones are those that the program was built with, whatever the machine has. A replica or an audit
//! never asks for them: the instants stand in the log.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use purser_api as api;
use purser_ledger::{BudgetCalendar, CalendarUnit, Periods};
use purser_types::LogTime;

use crate::http::problem::Refusal;

/// How many years ahead a calendar is resolved: whole cycles of leap years, so that its lengths may begin
/// again from the front.
const YEARS: i64 = 12;

/// A local time with seconds, and without.
const ANCHOR_LENGTHS: [usize; 2] = ["2026-03-01T00:00:00".len(), "2026-03-01T00:00".len()];

/// The first midnight of a calendar, and the first that begins a week.
const MIDNIGHT: &str = "1970-01-01T00:00:00";
const MONDAY: &str = "1970-01-05T00:00:00";

/// A calendar whose periods begin at an anchor, and so many units before and after it.
struct Calendar {
    unit: CalendarUnit,
    zone: TimeZone,
    anchor: DateTime,
}

/// The periods of a calendar from the one before `now` on. Refuses: no such zone; an anchor that is no local
/// time.
pub(crate) fn resolve(asked: &api::BudgetPeriod, now: LogTime) -> Result<BudgetCalendar, Refusal> {
    let unit = match asked.every {
        api::PeriodUnit::Day => CalendarUnit::Day,
        api::PeriodUnit::Week => CalendarUnit::Week,
        api::PeriodUnit::Month => CalendarUnit::Month,
    };
    let zone = TimeZone::get(&asked.time_zone)
        .map_err(|_unknown| Refusal::invalid("time_zone is not the name of an IANA time zone"))?;
    let name = zone.iana_name().unwrap_or("UTC").into();
    let usual = if unit == CalendarUnit::Week { MONDAY } else { MIDNIGHT };
    let anchor = local(asked.anchor.as_deref().unwrap_or(usual))?;
    let calendar = Calendar { unit, zone, anchor };
    let periods = calendar.periods(now).ok_or_else(out_of_range)?;
    Ok(BudgetCalendar { unit, zone: name, anchor: anchor.to_string().into(), periods })
}

fn out_of_range() -> Refusal {
    Refusal::invalid("the periods lie outside the years 1970 to 9999")
}

/// A local time, without an offset: the zone says it.
fn local(text: &str) -> Result<DateTime, Refusal> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || b"-:T".contains(&byte));
    let parsed = text.parse().ok().filter(|_| is_plain && ANCHOR_LENGTHS.contains(&text.len()));
    parsed.ok_or_else(|| {
        Refusal::invalid("anchor must be a local time without an offset, as 2026-03-01T00:00:00")
    })
}

impl Calendar {
    /// When the period begins that is `number` units after the anchor.
    fn boundary(&self, number: i64) -> Option<Timestamp> {
        let span = match self.unit {
            CalendarUnit::Day => Span::new().try_days(number),
            CalendarUnit::Week => Span::new().try_weeks(number),
            CalendarUnit::Month => Span::new().try_months(number),
        };
        // Counted from the anchor and not from the boundary before, a 31st that February cuts short is a 31st
        // again in March.
        let at = self.anchor.checked_add(span.ok()?).ok()?;
        // A local time that there is not moves on by the gap; of two, the earlier counts.
        self.zone.to_ambiguous_timestamp(at).compatible().ok()
    }

    /// The number of the period that an instant lies in.
    fn number_at(&self, now: Timestamp) -> Option<i64> {
        let day =
            |date: jiff::civil::Date| date.since(self.anchor.date()).ok().map(|it| it.get_days());
        let today = self.zone.to_datetime(now).date();
        let months = (i64::from(today.year()) - i64::from(self.anchor.year())) * 12
            + (i64::from(today.month()) - i64::from(self.anchor.month()));
        let mut number = match self.unit {
            CalendarUnit::Day => i64::from(day(today)?),
            CalendarUnit::Week => i64::from(day(today)?).div_euclid(7),
            CalendarUnit::Month => months,
        };
        while self.boundary(number)? > now {
            number -= 1;
        }
        while self.boundary(number + 1)? <= now {
            number += 1;
        }
        Some(number)
    }

    /// From the period before the present one on: the log's clock may be a little behind.
    fn periods(&self, now: LogTime) -> Option<Periods> {
        let micros = i64::try_from(now.as_unix_micros()).ok()?;
        let first = self.number_at(Timestamp::from_microsecond(micros).ok()?)? - 1;
        let count = match self.unit {
            CalendarUnit::Day => YEARS * 365 + YEARS / 4,
            CalendarUnit::Week => (YEARS * 365 + YEARS / 4) / 7,
            CalendarUnit::Month => YEARS * 12,
        };
        let instants = (first..=first + count).map(|number| {
            let micros = u64::try_from(self.boundary(number)?.as_microsecond()).ok()?;
            LogTime::from_unix_micros(micros).ok()
        });
        let mut instants = instants.collect::<Option<Vec<LogTime>>>()?;
        // A zone may have left a day out.
        instants.dedup();
        Periods::between(&instants).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> LogTime {
        let micros = text.parse::<Timestamp>().unwrap().as_microsecond();
        LogTime::from_unix_micros(u64::try_from(micros).unwrap()).unwrap()
    }

    fn asked(every: api::PeriodUnit, zone: &str, anchor: Option<&str>) -> api::BudgetPeriod {
        api::BudgetPeriod { every, time_zone: zone.to_owned(), anchor: anchor.map(str::to_owned) }
    }

    #[track_caller]
    fn check(asked: &api::BudgetPeriod, now: &str, from: &str, until: &str) {
        let set_at = at("2026-03-05T12:00:00Z");
        let period = resolve(asked, set_at).unwrap().periods.at(at(now));
        assert_eq!((period.from, period.until), (at(from), Some(at(until))), "{asked:?} at {now}");
    }

    /// K072: sums of days and months are sums on a calendar, and not of so many hours.
    #[test]
    fn a_period_ends_where_its_calendar_says() {
        use api::PeriodUnit::{Day, Month, Week};
        let week = asked(Week, "America/New_York", Some("2026-03-03T00:00"));
        check(&week, "2026-03-05T12:00:00Z", "2026-03-03T05:00:00Z", "2026-03-10T04:00:00Z");
        let month = asked(Month, "Asia/Kolkata", Some("2026-03-01T00:00:00"));
        check(&month, "2026-03-05T12:00:00Z", "2026-02-28T18:30:00Z", "2026-03-31T18:30:00Z");
        // The days on which the clocks change have 23 and 25 hours.
        let day = asked(Day, "America/New_York", None);
        check(&day, "2026-03-08T23:00:00Z", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z");
        check(&day, "2026-11-01T23:00:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z");
        check(&day, "2037-07-01T12:00:00Z", "2037-07-01T04:00:00Z", "2037-07-02T04:00:00Z");
        // Mondays, if nothing else is said.
        let week = asked(Week, "UTC", None);
        check(&week, "2026-03-05T12:00:00Z", "2026-03-02T00:00:00Z", "2026-03-09T00:00:00Z");
    }

    #[test]
    fn a_month_that_is_too_short_ends_on_its_last_day_and_the_next_does_not() {
        let month = asked(api::PeriodUnit::Month, "UTC", Some("2026-01-31T06:00:00"));
        check(&month, "2026-03-05T12:00:00Z", "2026-02-28T06:00:00Z", "2026-03-31T06:00:00Z");
        check(&month, "2026-04-10T00:00:00Z", "2026-03-31T06:00:00Z", "2026-04-30T06:00:00Z");
    }

    #[test]
    fn a_list_that_has_ended_goes_on_with_its_lengths() {
        let month = asked(api::PeriodUnit::Month, "UTC", None);
        check(&month, "2038-06-15T00:00:00Z", "2038-06-01T00:00:00Z", "2038-07-01T00:00:00Z");
        check(&month, "2052-02-15T00:00:00Z", "2052-02-01T00:00:00Z", "2052-03-01T00:00:00Z");
    }

    #[test]
    fn a_local_time_is_one_and_a_zone_has_a_name() {
        let odd = ["2026-11-01T01:30:00Z", "2026-11-01T01:30:00-04:00", "2026-11-01", "noon", ""];
        for anchor in odd {
            let asked = asked(api::PeriodUnit::Day, "UTC", Some(anchor));
            assert!(resolve(&asked, at("2026-03-05T12:00:00Z")).is_err(), "{anchor}");
        }
        for zone in ["", "Mars/Phobos", "+02:00"] {
            let asked = asked(api::PeriodUnit::Day, zone, None);
            assert!(resolve(&asked, at("2026-03-05T12:00:00Z")).is_err(), "{zone}");
        }
    }
}
