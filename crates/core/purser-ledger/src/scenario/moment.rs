//! Spans and instants as a transcript spells them: `90s`, `15m`, `24h`, `7d`, `0.000001s`.
//!
//! An instant is the span since the log's clock began. Answers are in seconds, to the microsecond.

use purser_types::{LogTime, Span};

const MICROS_PER_SECOND: u64 = 1_000_000;
/// The digits of a second's fraction: as many as make microseconds.
const FRACTION_DIGITS: usize = 6;

/// Why a text is not a span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum TimeError {
    #[error("must be a number with one of the units s, m, h, d")]
    Unreadable,
    #[error("is finer than a microsecond")]
    TooFine,
    #[error("lies beyond the year 9999")]
    TooLarge,
}

/// Reads a span.
pub(super) fn parse_span(text: &str) -> Result<Span, TimeError> {
    let unit = text.chars().next_back().ok_or(TimeError::Unreadable)?;
    let unit_seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(TimeError::Unreadable),
    };
    let number = text.strip_suffix(unit).ok_or(TimeError::Unreadable)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if unit != 's' && number.contains('.') {
        return Err(TimeError::Unreadable);
    }
    let whole = digits(whole)?.checked_mul(unit_seconds).ok_or(TimeError::TooLarge)?;
    let micros = whole.checked_mul(MICROS_PER_SECOND).ok_or(TimeError::TooLarge)?;
    micros.checked_add(micros_of(fraction)?).map(Span::from_micros).ok_or(TimeError::TooLarge)
}

/// Reads an instant.
pub(super) fn parse_instant(text: &str) -> Result<LogTime, TimeError> {
    let micros = parse_span(text)?.as_micros();
    LogTime::from_unix_micros(micros).map_err(|_out_of_range| TimeError::TooLarge)
}

/// Spells a span.
pub(super) fn span_text(span: Span) -> String {
    let seconds = span.as_secs();
    let micros = span.as_micros().saturating_sub(Span::from_secs(seconds).as_micros());
    if micros == 0 {
        return format!("{seconds}s");
    }
    let fraction = format!("{micros:06}");
    format!("{seconds}.{}s", fraction.trim_end_matches('0'))
}

/// Spells an instant.
pub(super) fn instant_text(instant: LogTime) -> String {
    span_text(instant.since(LogTime::ZERO))
}

fn micros_of(fraction: &str) -> Result<u64, TimeError> {
    if fraction.is_empty() {
        return Err(TimeError::Unreadable);
    }
    if fraction.len() > FRACTION_DIGITS {
        return Err(TimeError::TooFine);
    }
    digits(&format!("{fraction:0<FRACTION_DIGITS$}"))
}

fn digits(text: &str) -> Result<u64, TimeError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(TimeError::Unreadable);
    }
    // Digits only, so the one thing that can be wrong is the size.
    text.parse().map_err(|_too_large: std::num::ParseIntError| TimeError::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_span(text: &str, micros: u64, spelled: &str) {
        let span = parse_span(text);
        assert_eq!(span, Ok(Span::from_micros(micros)), "{text}");
        assert_eq!(span.map(span_text).as_deref(), Ok(spelled));
    }

    #[test]
    fn a_span_is_read_in_four_units_and_spelled_in_seconds() {
        check_span("0s", 0, "0s");
        check_span("90s", 90_000_000, "90s");
        check_span("15m", 900_000_000, "900s");
        check_span("7d", 604_800_000_000, "604800s");
        check_span("86399.999999s", 86_399_999_999, "86399.999999s");
        check_span("1.5s", 1_500_000, "1.5s");
        for odd in ["", "s", "5", "1.5m", "-1s", ".5s", "1.s", "5 s"] {
            assert_eq!(parse_span(odd), Err(TimeError::Unreadable), "{odd:?}");
        }
        assert_eq!(parse_span("0.0000001s"), Err(TimeError::TooFine));
        assert_eq!(parse_span("99999999999999999999d"), Err(TimeError::TooLarge));
        assert_eq!(parse_instant("253402300800s"), Err(TimeError::TooLarge));
    }
}
