//! Instants as text: RFC 3339 on the outside, microseconds on the log's clock inside.
//!
//! Read once, at the edge; behind it there are only integers, so replicas cannot disagree.
//!
//! - An offset is required: `Z`, `z`, `+09:00`. A local time names no instant and is refused.
//! - `T` and `Z` may be lower case, as RFC 3339 allows; they are written in upper case.
//! - At most six digits of a second. Finer time is refused, not rounded, so that the text that
//!   comes back is the instant that was sent.
//! - Second 60 is refused, also where there was a leap second: the log's clock has none.
//! - From 1970 to the end of 9999, after the offset is taken off.

use std::fmt;

use jiff::SignedDuration;
use jiff::civil::DateTime;
use purser_types::{LogTime, LogTimeOutOfRange};

/// Why a text is not an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MomentError {
    /// Not of the form of RFC 3339.
    #[error("an instant must look like 2026-08-01T00:00:00Z or 2026-08-01T09:00:00.5+09:00")]
    Form,
    /// No offset: a local time.
    #[error("an instant needs an offset such as Z or +09:00; a local time names no instant")]
    Local,
    /// More than six digits of a second.
    #[error("an instant must not be finer than microseconds")]
    TooFine,
    /// The 61st second of a minute.
    #[error("an instant must not have second 60; the log's clock has no leap seconds")]
    LeapSecond,
    /// A month, day, hour or offset that does not exist.
    #[error("an instant must be a date and time that exist")]
    NoSuchTime,
    /// Before 1970 or after 9999.
    #[error("an instant {0}")]
    OutOfRange(#[from] LogTimeOutOfRange),
}

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
const FRACTION_DIGITS_MAX: usize = 6;
const NANOS_PER_MICRO: i32 = 1_000;

/// Reads an instant.
pub(crate) fn parse(text: &str) -> Result<LogTime, MomentError> {
    let bytes = text.as_bytes();
    let (date_time, rest) = bytes.split_at_checked(19).ok_or(MomentError::Form)?;
    let [y0, y1, y2, y3, b'-', mo0, mo1, b'-', d0, d1, b'T' | b't', time @ ..] = date_time else {
        return Err(MomentError::Form);
    };
    let [h0, h1, b':', mi0, mi1, b':', s0, s1] = time else {
        return Err(MomentError::Form);
    };
    let century = two_digits(*y0, *y1)?;
    let year = i16::from(century) * 100 + i16::from(two_digits(*y2, *y3)?);
    let (month, day) = (two_digits(*mo0, *mo1)?, two_digits(*d0, *d1)?);
    let (hour, minute) = (two_digits(*h0, *h1)?, two_digits(*mi0, *mi1)?);
    let second = two_digits(*s0, *s1)?;
    let (nanos, rest) = fraction(rest)?;
    let offset = offset(rest)?;
    if second == 60 {
        return Err(MomentError::LeapSecond);
    }
    let local = DateTime::new(year, month, day, hour, minute, second, nanos);
    let local = local.map_or(Err(MomentError::NoSuchTime), Ok)?;
    // Civil arithmetic, because jiff's `Timestamp` ends a day before the log's clock does.
    let micros = (local.duration_since(EPOCH) - offset).as_micros();
    let micros = u64::try_from(micros).map_or(Err(LogTimeOutOfRange), Ok)?;
    Ok(LogTime::from_unix_micros(micros)?)
}

/// Writes an instant in UTC, with microseconds only where there are any.
pub(crate) fn write(at: LogTime, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    let micros = i64::try_from(at.as_unix_micros()).expect("log time ends in the year 9999");
    let civil = EPOCH
        .checked_add(SignedDuration::from_micros(micros))
        .expect("log time ends in the year 9999");
    write!(
        formatter,
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
        civil.year(),
        civil.month(),
        civil.day(),
        civil.hour(),
        civil.minute(),
        civil.second()
    )?;
    match civil.subsec_nanosecond() / NANOS_PER_MICRO {
        0 => formatter.write_str("Z"),
        micros => write!(formatter, ".{micros:06}Z"),
    }
}

fn digit(byte: u8) -> Result<i8, MomentError> {
    match byte {
        b'0'..=b'9' => i8::try_from(byte - b'0').map_or(Err(MomentError::Form), Ok),
        _ => Err(MomentError::Form),
    }
}

fn two_digits(tens: u8, ones: u8) -> Result<i8, MomentError> {
    Ok(digit(tens)? * 10 + digit(ones)?)
}

/// Takes the fraction of a second off the front, if there is one; gives nanoseconds.
fn fraction(rest: &[u8]) -> Result<(i32, &[u8]), MomentError> {
    let Some((b'.', rest)) = rest.split_first() else {
        return Ok((0, rest));
    };
    let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = rest.split_at(length);
    if digits.is_empty() {
        return Err(MomentError::Form);
    }
    if digits.len() > FRACTION_DIGITS_MAX {
        return Err(MomentError::TooFine);
    }
    let mut micros = 0;
    for place in 0..FRACTION_DIGITS_MAX {
        let digit = digits.get(place).map_or(Ok(0), |byte| digit(*byte))?;
        micros = micros * 10 + i32::from(digit);
    }
    Ok((micros * NANOS_PER_MICRO, rest))
}

/// Reads the offset, which must be all that is left.
fn offset(rest: &[u8]) -> Result<SignedDuration, MomentError> {
    let (sign, hour, minute) = match rest {
        [] => return Err(MomentError::Local),
        [b'Z' | b'z'] => return Ok(SignedDuration::ZERO),
        [sign @ (b'+' | b'-'), h0, h1, b':', m0, m1] => {
            (*sign, two_digits(*h0, *h1)?, two_digits(*m0, *m1)?)
        }
        _ => return Err(MomentError::Form),
    };
    if hour > 23 || minute > 59 {
        return Err(MomentError::NoSuchTime);
    }
    let ahead = SignedDuration::from_mins(i64::from(hour) * 60 + i64::from(minute));
    Ok(if sign == b'-' { -ahead } else { ahead })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::Moment;

    #[track_caller]
    fn check_same(text: &str, written: &str) {
        assert_eq!(parse(text).map(|at| Moment(at).to_string()), Ok(written.to_owned()), "{text}");
    }

    #[track_caller]
    fn check_refused(text: &str, expected: MomentError) {
        assert_eq!(parse(text), Err(expected), "{text}");
    }

    #[test]
    fn an_offset_names_the_same_instant_in_utc() {
        check_same("2026-08-01T00:00:00+09:00", "2026-07-31T15:00:00Z");
        check_same("2026-08-01T00:00:00.25-02:30", "2026-08-01T02:30:00.250000Z");
        check_same("1969-12-31T23:00:00-05:00", "1970-01-01T04:00:00Z");
        check_same("2026-08-01t00:00:00z", "2026-08-01T00:00:00Z");
        check_same("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z");
        check_same("2024-02-29T12:00:00.000001-00:00", "2024-02-29T12:00:00.000001Z");
    }

    #[test]
    fn what_names_no_instant_is_refused() {
        check_refused("2026-11-01T01:30:00", MomentError::Local);
        check_refused("2026-11-01T01:30:00.1234567Z", MomentError::TooFine);
        check_refused("2026-11-01T01:30:00.0000000Z", MomentError::TooFine);
        check_refused("2016-12-31T23:59:60Z", MomentError::LeapSecond);
        check_refused("2026-06-15T12:00:60Z", MomentError::LeapSecond);
        for odd in ["2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-01T24:00:00Z"] {
            check_refused(odd, MomentError::NoSuchTime);
        }
        for odd in ["2026-01-01T00:00:61Z", "2026-01-01T00:00:00+24:00"] {
            check_refused(odd, MomentError::NoSuchTime);
        }
        for odd in ["1969-12-31T23:59:59Z", "9999-12-31T23:59:59-00:01"] {
            check_refused(odd, MomentError::OutOfRange(LogTimeOutOfRange));
        }
        for odd in [
            "",
            "now",
            "1785542400",
            "2026-08-01",
            "2026-08-01 00:00:00Z",
            "2026-08-01T00:00Z",
            "2026-08-01T00:00:00.Z",
            "2026-08-01T00:00:00+0900",
            "2026-08-01T00:00:00+09",
            "2026-08-01T00:00:00Z ",
            "2026-08-01T00:00:00Z[UTC]",
            "+2026-08-01T00:00:00Z",
            "２026-08-01T00:00:00Z",
        ] {
            check_refused(odd, MomentError::Form);
        }
    }

    proptest! {
        #[test]
        fn every_instant_survives_the_round_trip(micros in 0..=LogTime::MAX.as_unix_micros()) {
            let at = LogTime::from_unix_micros(micros).unwrap();
            prop_assert_eq!(parse(&Moment(at).to_string()), Ok(at));
        }
    }
}
