//! Short texts that people write: references, reasons and the sources of grants.

use std::fmt;

use utoipa::openapi::schema::Schema;

use crate::spelled::{InvalidText, Spelled, spelled, text_schema};

/// A text of limited length that people wrote, and what it is called.
macro_rules! prose {
    ($($(#[$doc:meta])+ $name:ident, $noun:literal, $bytes_max:literal;)+) => {$(
        $(#[$doc])+
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// The most bytes of UTF-8 it may have.
            pub const BYTES_MAX: usize = $bytes_max;

            /// Checks the text: 1 to [`Self::BYTES_MAX`] bytes, no control characters.
            pub fn parse(text: &str) -> Result<Self, InvalidText> {
                Self::read(text).map_err(InvalidText)
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Spelled for $name {
            const EXPECTED: &'static str = concat!($noun, " as a string");

            fn read(text: &str) -> Result<Self, String> {
                let fits = !text.is_empty() && text.len() <= Self::BYTES_MAX;
                if !fits {
                    return Err(format!("{} must have 1 to {} bytes", $noun, Self::BYTES_MAX));
                }
                // PostgreSQL cannot keep a NUL, and a log line should stay one line.
                if text.chars().any(char::is_control) {
                    return Err(concat!($noun, " may not contain control characters").to_owned());
                }
                Ok(Self(text.to_owned()))
            }

            fn write(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }

            fn describe() -> Schema {
                text_schema(
                    concat!("At most ", $bytes_max, " bytes without control characters."),
                    concat!(r"^[^\x00-\x1f\x7f-\x9f]{1,", $bytes_max, "}$"),
                )
            }
        }

        spelled!($name);
    )+};
}

prose! {
    /// The caller's own name for what a hold or a charge is about, to search by. Not unique.
    Reference, "a reference", 255;
    /// Why someone did it, for whoever reads the history.
    Reason, "a reason", 500;
    /// The business fact behind a grant, for example a payment. Unique in its account for ever.
    SourceRef, "a source_ref", 255;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_short_and_printable() {
        assert!(Reason::parse("die Karte wurde zurückgebucht").is_ok());
        assert!(Reason::parse(&"x".repeat(501)).is_err());
        for odd in ["", "a\0b", "two\nlines"] {
            assert!(Reason::parse(odd).is_err(), "{odd:?}");
        }
    }
}
