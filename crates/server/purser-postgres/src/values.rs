//! Values of the ledger as PostgreSQL keeps them.

use std::borrow::Cow;

use bytes::BytesMut;
use purser_types::{Credits, LogTime};
use serde::Serialize;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

type AnyError = Box<dyn std::error::Error + Sync + Send>;

/// Microseconds from 1970, where log time begins, to 2000, where PostgreSQL's does.
const POSTGRES_EPOCH_MICROS: i64 = 946_684_800_000_000;

/// An instant as a `timestamptz`: both count microseconds, so nothing is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instant(pub(crate) LogTime);

impl ToSql for Instant {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, AnyError> {
        let micros = i64::try_from(self.0.as_unix_micros())?;
        out.extend_from_slice(&micros.saturating_sub(POSTGRES_EPOCH_MICROS).to_be_bytes());
        Ok(IsNull::No)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Instant {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, AnyError> {
        let micros = i64::from_be_bytes(raw.try_into()?).saturating_add(POSTGRES_EPOCH_MICROS);
        Ok(Self(LogTime::from_unix_micros(u64::try_from(micros)?)?))
    }

    accepts!(TIMESTAMPTZ);
}

/// A count, a sequence or a position. None of them reaches 2^63 in the life of a ledger; should one, the
/// row that has it already stops the projector.
pub(crate) fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// An amount. [`Credits::MAX`] is the largest `bigint`.
pub(crate) fn amount(credits: Credits) -> i64 {
    number(credits.get())
}

/// A text that a caller wrote. PostgreSQL keeps no NUL; the entry's bytes say what stood there.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { text.into() }
}

/// Credits in a JSON document: digits in a string, as in the API, because readers of JSON round numbers.
#[derive(Debug, Serialize)]
pub(crate) struct Posted {
    pub(crate) bucket: String,
    pub(crate) amount: String,
}

/// Credits of a lot, or owed since an entry, in a JSON document.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Part {
    /// Of a lot.
    Lot {
        /// Its number.
        lot: u64,
        /// How many.
        amount: String,
    },
    /// Owed.
    Debt {
        /// Since the entry with this sequence.
        debt: u64,
        /// How many.
        amount: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_instant(micros: u64) {
        let instant = Instant(LogTime::from_unix_micros(micros).unwrap());
        let mut bytes = BytesMut::new();
        instant.to_sql(&Type::TIMESTAMPTZ, &mut bytes).unwrap();
        assert_eq!(Instant::from_sql(&Type::TIMESTAMPTZ, &bytes).unwrap(), instant);
    }

    #[test]
    fn every_instant_of_log_time_comes_back_as_it_was() {
        check_instant(0);
        check_instant(946_684_799_999_999);
        check_instant(1_796_046_600_000_001);
        check_instant(LogTime::MAX.as_unix_micros());
    }

    #[test]
    fn an_instant_before_log_time_is_refused() {
        let before = (-POSTGRES_EPOCH_MICROS - 1).to_be_bytes();
        assert!(Instant::from_sql(&Type::TIMESTAMPTZ, &before).is_err());
    }
}
