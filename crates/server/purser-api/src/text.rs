//! The vocabulary as text in JSON.
//!
//! A value of `purser-types` knows nothing of JSON. Here each gets a thin wrapper that reads it
//! strictly, once, and writes it in its one spelling. Where a type says so, a JSON integer is read
//! too; nothing ever is a floating-point number.

use std::fmt;

use purser_types::{
    BudgetName, Credits, Epoch, Generation, IdempotencyKey, JobId, LogTime, OperationId, QueueName,
    Region, Sequence, TenantId, Unit,
};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, SchemaType, Type};

use crate::spelled::{Spelled, read_digits, spelled, text_schema};

/// A wrapper around a type of the vocabulary, with conversions both ways.
macro_rules! wrapper {
    ($($(#[$doc:meta])+ $name:ident($inner:ty);)+) => {$(
        $(#[$doc])+
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl From<$inner> for $name {
            fn from(inner: $inner) -> Self {
                Self(inner)
            }
        }

        impl From<$name> for $inner {
            fn from(wrapper: $name) -> Self {
                wrapper.0
            }
        }

        spelled!($name);
    )+};
}

wrapper! {
    /// An amount of credits in an answer: a string of digits.
    Amount(Credits);
    /// An instant: RFC 3339 with an offset when read, `Z` when written.
    Moment(LogTime);
    /// The place of an entry in its account, as a string of digits.
    SequenceNumber(Sequence);
    /// Counts a tenant's homes, as a string of digits.
    EpochNumber(Epoch);
    /// Counts an account's allocations to one region, as a string of digits.
    GenerationNumber(Generation);
    /// One operation as the log knows it: index and ordinal, joined by a dot.
    OperationName(OperationId);
    /// The caller's name for a tenant.
    TenantName(TenantId);
    /// What an account counts.
    UnitName(Unit);
    /// A region.
    RegionName(Region);
    /// The caller's name for one change.
    KeyText(IdempotencyKey);
    /// The caller's name for one job.
    JobName(JobId);
    /// The caller's name for a budget.
    BudgetLabel(BudgetName);
    /// A queue that workers take jobs from.
    QueueLabel(QueueName);
}

impl Default for UnitName {
    /// The unit of an account for which none is named.
    fn default() -> Self {
        Self(Unit::credits())
    }
}

impl Default for QueueLabel {
    /// The queue of a job for which none is named.
    fn default() -> Self {
        Self(QueueName::default_queue())
    }
}

impl Spelled for Amount {
    const EXPECTED: &'static str = "an amount: a string of digits or a whole number";

    fn read(text: &str) -> Result<Self, String> {
        Credits::parse(text).map(Self).map_err(|error| format!("an amount {error}"))
    }

    fn read_integer(number: u64) -> Option<Result<Self, String>> {
        let amount = Credits::from_u64(number);
        Some(amount.map(Self).map_err(|error| format!("an amount {error}")))
    }

    fn write(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }

    fn describe() -> Schema {
        text_schema("An amount of credits, in the unit's smallest part.", "^(0|[1-9][0-9]{0,18})$")
    }
}

impl Spelled for Moment {
    const EXPECTED: &'static str = "an instant as RFC 3339 text with an offset";

    fn read(text: &str) -> Result<Self, String> {
        crate::moment::parse(text).map(Self).map_err(|error| error.to_string())
    }

    fn write(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::moment::write(self.0, formatter)
    }

    fn describe() -> Schema {
        ObjectBuilder::new()
            .schema_type(SchemaType::new(Type::String))
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .description(Some("RFC 3339 with an offset and at most six digits of a second."))
            .into()
    }
}

/// The numbers share everything but their words.
macro_rules! spelled_number {
    ($($wrapper:ident($inner:ident), $noun:literal, $meaning:literal;)+) => {$(
        impl Spelled for $wrapper {
            const EXPECTED: &'static str = concat!($noun, ": a string of digits or a whole number");

            fn read(text: &str) -> Result<Self, String> {
                let number = read_digits(text);
                number.map(|number| Self($inner(number))).ok_or_else(|| {
                    let must_be = "must be a whole number below 2^64, without leading zeros";
                    format!("{} {must_be}", $noun)
                })
            }

            fn read_integer(number: u64) -> Option<Result<Self, String>> {
                Some(Ok(Self($inner(number))))
            }

            fn write(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0.0, formatter)
            }

            fn describe() -> Schema {
                text_schema($meaning, "^(0|[1-9][0-9]{0,19})$")
            }
        }
    )+};
}

spelled_number! {
    SequenceNumber(Sequence), "a sequence", "The place of an entry in its account.";
    EpochNumber(Epoch), "an epoch", "Counts a tenant's homes.";
    GenerationNumber(Generation), "a generation", "Counts an account's allocations to a region.";
}

impl Spelled for OperationName {
    const EXPECTED: &'static str = "an operation: index and ordinal, joined by a dot";

    fn read(text: &str) -> Result<Self, String> {
        let parts = text.split_once('.').and_then(|(index, ordinal)| {
            let ordinal = read_digits(ordinal)?;
            Some(OperationId { index: read_digits(index)?, ordinal: ordinal.try_into().ok()? })
        });
        parts.map(Self).ok_or_else(|| format!("expected {}", Self::EXPECTED))
    }

    fn write(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }

    fn describe() -> Schema {
        text_schema("One operation as the log knows it.", r"^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$")
    }
}

/// The caller's names share everything but their checks and their words.
macro_rules! spelled_name {
    ($($wrapper:ident($inner:ty), $noun:literal, $pattern:literal;)+) => {$(
        impl Spelled for $wrapper {
            const EXPECTED: &'static str = concat!($noun, " as a string");

            fn read(text: &str) -> Result<Self, String> {
                <$inner>::parse(text).map(Self).map_err(|error| format!("{} {error}", $noun))
            }

            fn write(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(self.0.as_str())
            }

            fn describe() -> Schema {
                text_schema(concat!("The name of ", $noun, "."), $pattern)
            }
        }
    )+};
}

spelled_name! {
    TenantName(TenantId), "a tenant", "^[A-Za-z0-9._:-]{1,128}$";
    UnitName(Unit), "a unit", "^[a-z0-9_-]{1,32}$";
    RegionName(Region), "a region", "^[a-z0-9-]{1,16}$";
    JobName(JobId), "a job", "^[A-Za-z0-9._:-]{1,128}$";
    BudgetLabel(BudgetName), "a budget", "^[A-Za-z0-9._:-]{1,128}$";
    QueueLabel(QueueName), "a queue", "^[A-Za-z0-9._:-]{1,128}$";
    KeyText(IdempotencyKey), "an idempotency key", r"^[^\x00-\x1f\x7f-\x9f]{1,255}$";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_spelling_both_ways() {
        for text in ["0.0", "12.7"] {
            assert_eq!(text.parse::<OperationName>().unwrap().to_string(), text);
        }
        for odd in ["", "1", "01.0", "1.00", "1.4294967296", "1.0.0"] {
            assert!(odd.parse::<OperationName>().is_err(), "{odd:?}");
        }
        for odd in ["", "01", "+1", "18446744073709551616"] {
            assert!(odd.parse::<SequenceNumber>().is_err(), "{odd:?}");
        }
    }

    #[test]
    fn a_wrong_type_is_named_in_the_message() {
        let error = serde_json::from_str::<TenantName>("7").unwrap_err().to_string();
        assert!(error.starts_with("invalid type: integer `7`, expected a tenant"), "{error}");
    }
}
