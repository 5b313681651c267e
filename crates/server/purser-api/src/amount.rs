//! Amounts in requests and in postings.
//!
//! A request may write an amount as a string of digits or as a JSON integer. Anything that only
//! looks like one (`30.0`, `3e1`, `"030"`, `" 30"`, `-1`, `true`, `null`) is refused, and so is
//! what no call may name: more than 10^18, and zero where zero has no meaning. An answer always
//! writes strings, because many JSON readers keep integers in 53 bits.
//!
//! Not here: whether an account can pay.

use std::fmt;

use purser_types::Credits;
use utoipa::openapi::OneOfBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};

use crate::spelled::{InvalidText, Spelled, spelled, text_schema};

/// The amounts that calls name differ in where they start.
macro_rules! bounded_amount {
    ($($(#[$doc:meta])+ $name:ident, $least:literal, $pattern:literal;)+) => {$(
        $(#[$doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Credits);

        impl $name {
            /// Checks an amount.
            pub fn from_credits(amount: Credits) -> Result<Self, InvalidText> {
                Self::bounded(amount).map_err(InvalidText)
            }

            /// The amount.
            pub const fn credits(self) -> Credits {
                self.0
            }

            fn bounded(amount: Credits) -> Result<Self, String> {
                if ($least..=Credits::CALL_MAX.get()).contains(&amount.get()) {
                    Ok(Self(amount))
                } else {
                    Err(concat!("an amount here is from ", $least, " to 10^18").to_owned())
                }
            }
        }

        impl Spelled for $name {
            const EXPECTED: &'static str = concat!(
                "an amount: a whole number from ",
                $least,
                " to 10^18, or a string of its digits"
            );

            fn read(text: &str) -> Result<Self, String> {
                let amount = Credits::parse(text).map_err(|error| format!("an amount {error}"))?;
                Self::bounded(amount)
            }

            fn read_integer(number: u64) -> Option<Result<Self, String>> {
                let amount = Credits::from_u64(number);
                Some(amount.map_err(|error| format!("an amount {error}")).and_then(Self::bounded))
            }

            fn write(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, formatter)
            }

            fn describe() -> Schema {
                let integer = ObjectBuilder::new()
                    .schema_type(SchemaType::new(Type::Integer))
                    .minimum(Some($least))
                    .maximum(Some(Credits::CALL_MAX.get()));
                OneOfBuilder::new()
                    .description(Some("An amount of credits, in the unit's smallest part."))
                    .item(text_schema("Digits.", $pattern))
                    .item(integer)
                    .into()
            }
        }

        spelled!($name);
    )+};
}

bounded_amount! {
    /// An amount that a call names: 1 to 10^18.
    CallAmount, 1, "^([1-9][0-9]{0,17}|10{18})$";
    /// An amount that a capture names: 0 to 10^18. Zero says that the work ran and cost nothing.
    CaptureAmount, 0, "^(0|[1-9][0-9]{0,17}|10{18})$";
}

/// What went through an account in its life. Wider than an amount, because the same credits may
/// pass many times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TotalAmount(pub u128);

impl Spelled for TotalAmount {
    const EXPECTED: &'static str = "a total: a string of digits";

    fn read(text: &str) -> Result<Self, String> {
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let canonical = plain && (text.len() == 1 || !text.starts_with('0'));
        let total = if canonical { text.parse().ok() } else { None };
        total.map(Self).ok_or_else(|| format!("expected {}", Self::EXPECTED))
    }

    fn write(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }

    fn describe() -> Schema {
        text_schema("Credits that went through; may be more than there are.", "^(0|[1-9][0-9]*)$")
    }
}

spelled!(TotalAmount);

/// A change of a bucket: positive into it, negative out of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SignedAmount(i64);

impl SignedAmount {
    /// So much into the bucket.
    pub fn into_bucket(amount: Credits) -> Self {
        Self(i64::try_from(amount.get()).expect("credits end at 2^63 - 1"))
    }

    /// So much out of the bucket.
    pub fn out_of_bucket(amount: Credits) -> Self {
        Self(-Self::into_bucket(amount).0)
    }

    /// A change by its number; `None` beyond the largest amount in either direction.
    pub fn from_number(change: i128) -> Option<Self> {
        i64::try_from(change).ok().filter(|change| *change != i64::MIN).map(Self)
    }

    /// The change as a number.
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl Spelled for SignedAmount {
    const EXPECTED: &'static str = "a change: digits as a string, behind a minus if credits leave";

    fn read(text: &str) -> Result<Self, String> {
        let (leaves, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let amount = Credits::parse(digits).map_err(|error| format!("a change {error}"))?;
        match (leaves, amount.is_zero()) {
            (true, true) => Err("a change of nothing has no sign".to_owned()),
            (true, false) => Ok(Self::out_of_bucket(amount)),
            (false, _) => Ok(Self::into_bucket(amount)),
        }
    }

    fn write(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }

    fn describe() -> Schema {
        text_schema("A change of a bucket, with a sign if credits leave.", "^(0|-?[1-9][0-9]*)$")
    }
}

spelled!(SignedAmount);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Amount;

    /// Reads `json` as each kind of amount; `None` where it is refused.
    #[track_caller]
    fn check_read(json: &str, call: Option<u64>, capture: Option<u64>) {
        let read = serde_json::from_str::<CallAmount>(json).ok().map(|it| it.credits().get());
        assert_eq!(read, call, "{json} as a call's amount");
        let read = serde_json::from_str::<CaptureAmount>(json).ok().map(|it| it.credits().get());
        assert_eq!(read, capture, "{json} as a capture's amount");
    }

    #[test]
    fn an_amount_is_a_string_of_digits_or_a_whole_number() {
        const LIMIT: u64 = 1_000_000_000_000_000_000;
        check_read("30", Some(30), Some(30));
        check_read(r#""30""#, Some(30), Some(30));
        check_read("0", None, Some(0));
        check_read(r#""0""#, None, Some(0));
        check_read("1000000000000000000", Some(LIMIT), Some(LIMIT));
        check_read("9007199254740993", Some(9_007_199_254_740_993), Some(9_007_199_254_740_993));
    }

    #[test]
    fn everything_that_only_looks_like_an_amount_is_refused() {
        for odd in [
            "30.0",
            "30.5",
            "3e1",
            "1e400",
            "-0",
            "-1",
            "-9223372036854775808",
            "true",
            "null",
            "[]",
            "{}",
            r#""""#,
            r#""030""#,
            r#"" 30""#,
            r#""30 ""#,
            r#""+30""#,
            r#""-1""#,
            r#""30.0""#,
            r#""3e1""#,
            r#""all""#,
            r#""٣٠""#,
            "1000000000000000001",
            r#""1000000000000000001""#,
            "9223372036854775808",
            r#""9223372036854775808""#,
            "18446744073709551616",
        ] {
            check_read(odd, None, None);
        }
    }

    #[test]
    fn a_refused_amount_says_what_was_expected() {
        let text = |json: &str| serde_json::from_str::<CallAmount>(json).unwrap_err().to_string();
        assert!(text("30.0").contains("expected an amount: a whole number from 1 to 10^18"));
        assert!(text("-1").contains("expected an amount: a whole number from 1 to 10^18"));
        assert!(text("0").contains("an amount here is from 1 to 10^18"));
        assert!(text("1e400").contains("number out of range"));
    }

    #[test]
    fn an_answer_keeps_every_digit() {
        let json = r#""9007199254740993""#;
        let amount: Amount = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&amount).unwrap(), json);
    }

    #[test]
    fn a_change_has_a_sign_only_when_credits_leave() {
        for text in ["0", "5", "-5", "9223372036854775807", "-9223372036854775807"] {
            assert_eq!(text.parse::<SignedAmount>().unwrap().to_string(), text);
        }
        for odd in ["-0", "+5", "--5", "-", "05", "-9223372036854775808"] {
            assert!(odd.parse::<SignedAmount>().is_err(), "{odd:?}");
        }
    }
}
