//! Instants and spans on the log's clock.

use std::time::Duration;

use minicbor::encode::Write;
use minicbor::{Decode, Decoder, Encode, Encoder};

/// An instant on the log's clock: microseconds since 1970-01-01T00:00:00Z.
///
/// It comes from the stamp of a Raft entry (or from a caller who names a deadline), never from the
/// clock of whoever looks at it. Intervals are half-open: at the deadline itself it is over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogTime(u64);

/// A length of log time, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

/// The instant lies outside the years 1970 to 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("lies outside the years 1970 to 9999")]
pub struct LogTimeOutOfRange;

const MICROS_PER_SECOND: u64 = 1_000_000;
const SECONDS_PER_DAY: u64 = 86_400;

impl LogTime {
    /// The first instant there is.
    pub const ZERO: Self = Self(0);
    /// The last instant of the year 9999.
    pub const MAX: Self = Self(253_402_300_799_999_999);

    /// Makes an instant from microseconds since 1970.
    pub const fn from_unix_micros(micros: u64) -> Result<Self, LogTimeOutOfRange> {
        if micros <= Self::MAX.0 { Ok(Self(micros)) } else { Err(LogTimeOutOfRange) }
    }

    /// Microseconds since 1970.
    pub const fn as_unix_micros(self) -> u64 {
        self.0
    }

    /// The instant `span` later; [`LogTime::MAX`] if that would lie beyond the year 9999.
    pub const fn saturating_add(self, span: Span) -> Self {
        let micros = self.0.saturating_add(span.0);
        if micros <= Self::MAX.0 { Self(micros) } else { Self::MAX }
    }

    /// How long it has been since `earlier`; nothing if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// The start of the interval of length `width` that holds this instant; intervals are counted
    /// from 1970. A `width` of nothing holds only the instant itself.
    pub const fn floor(self, width: Span) -> Self {
        match self.0.checked_rem(width.0) {
            Some(rest) => Self(self.0.saturating_sub(rest)),
            None => self,
        }
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A span of so many microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// A span of so many seconds; the longest span there is, if that is too many.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(MICROS_PER_SECOND))
    }

    /// A span of so many days of 24 hours; the longest span there is, if that is too many.
    pub const fn from_days(days: u64) -> Self {
        Self::from_secs(days.saturating_mul(SECONDS_PER_DAY))
    }

    /// A span of a clock's time; the longest span there is, if it is too long.
    pub fn of(time: Duration) -> Self {
        Self(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
    }

    /// The span on a clock.
    pub const fn on_clock(self) -> Duration {
        Duration::from_micros(self.0)
    }

    /// The span in microseconds.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The span in whole seconds, rounded down.
    pub const fn as_secs(self) -> u64 {
        self.0.wrapping_div(MICROS_PER_SECOND)
    }

    /// One `parts`-th of the span, at least a microsecond. `parts` of zero counts as one.
    pub const fn split(self, parts: u64) -> Self {
        match self.0.checked_div(parts) {
            Some(0) => Self(1),
            Some(part) => Self(part),
            None => self,
        }
    }
}

impl<C> Encode<C> for LogTime {
    fn encode<W: Write>(
        &self,
        encoder: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        encoder.u64(self.0)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for LogTime {
    fn decode(decoder: &mut Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        Self::from_unix_micros(decoder.u64()?).map_err(minicbor::decode::Error::custom)
    }
}

impl<C> Encode<C> for Span {
    fn encode<W: Write>(
        &self,
        encoder: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        encoder.u64(self.0)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Span {
    fn decode(decoder: &mut Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        decoder.u64().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_end_with_the_year_9999() {
        assert_eq!(LogTime::MAX.saturating_add(Span::from_micros(1)), LogTime::MAX);
        let beyond = LogTime::MAX.as_unix_micros() + 1;
        assert_eq!(LogTime::from_unix_micros(beyond), Err(LogTimeOutOfRange));
    }

    #[test]
    fn an_interval_starts_at_or_before_its_instants() {
        let at = LogTime::from_unix_micros(25).unwrap();
        assert_eq!(at.floor(Span::from_micros(10)).as_unix_micros(), 20);
        assert_eq!(at.floor(Span::from_micros(25)).as_unix_micros(), 25);
        assert_eq!(at.floor(Span::ZERO), at);
    }
}
