//! The service's own ids as text: holds, charges, lots and allocations.
//!
//! An id is `kind sequence-generation-region`, for example `h42-0-us`: made by entry 42 of the
//! account's book in `us`, generation 0, which means home. So any node can tell who decides about
//! the thing, and no look-up table is needed. An id means something only together with the tenant
//! and the unit that stand beside it in the path.
//!
//! Invariant: one thing has one spelling. What is read is written again byte for byte, so an id can
//! be compared as text.

use std::fmt;

use purser_types::{Generation, Owner, Region, Sequence};
use utoipa::openapi::schema::Schema;

use crate::spelled::{Spelled, read_digits, spelled, text_schema};

/// The ids differ in their letter and in nothing else.
macro_rules! service_id {
    ($($(#[$doc:meta])+ $name:ident, $noun:literal, $letter:literal;)+) => {$(
        $(#[$doc])+
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name {
            /// The entry that made it, in the owner's book.
            pub sequence: Sequence,
            /// Who decides about it.
            pub owner: Owner,
        }

        impl $name {
            /// Names what entry `sequence` of `owner` made.
            pub const fn new(sequence: Sequence, owner: Owner) -> Self {
                Self { sequence, owner }
            }
        }

        impl Spelled for $name {
            const EXPECTED: &'static str =
                concat!("the id of ", $noun, ", such as ", $letter, "42-0-us");

            fn read(text: &str) -> Result<Self, String> {
                let parts = text.strip_prefix($letter).and_then(read_parts);
                parts
                    .map(|(sequence, owner)| Self { sequence, owner })
                    .ok_or_else(|| format!("expected {}", Self::EXPECTED))
            }

            fn write(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                let Owner { region, generation } = &self.owner;
                write!(formatter, "{}{}-{}-{region}", $letter, self.sequence.0, generation.0)
            }

            fn describe() -> Schema {
                text_schema(
                    concat!("The id of ", $noun, "."),
                    concat!("^", $letter, "[1-9][0-9]{0,19}-(0|[1-9][0-9]{0,19})-[a-z0-9-]{1,16}$"),
                )
            }
        }

        spelled!($name);
    )+};
}

service_id! {
    /// A hold.
    HoldId, "a hold", "h";
    /// A charge.
    ChargeId, "a charge", "c";
    /// A lot.
    LotId, "a lot", "l";
    /// An allocation: named by home's entry that opened it, and by the region that has it.
    AllocationId, "an allocation", "a";
}

fn read_parts(text: &str) -> Option<(Sequence, Owner)> {
    // A region's name may contain the separator, so it comes last and takes all the rest.
    let mut parts = text.splitn(3, '-');
    let sequence = parts.next().and_then(read_digits).filter(|sequence| *sequence != 0)?;
    let generation = Generation(parts.next().and_then(read_digits)?);
    let region = parts.next().and_then(|name| Region::parse(name).ok())?;
    Some((Sequence(sequence), Owner { region, generation }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_its_owner() {
        let id: HoldId = "h42-7-us-east-1".parse().unwrap();
        let region = Region::parse("us-east-1").unwrap();
        let owner = Owner { region, generation: Generation(7) };
        assert_eq!(id, HoldId::new(Sequence(42), owner));
        assert_eq!(id.to_string(), "h42-7-us-east-1");
    }

    #[test]
    fn an_id_has_one_spelling() {
        for odd in [
            "",
            "h",
            "h42",
            "h42-0",
            "h42-0-",
            "h0-0-us",
            "h042-0-us",
            "h42-00-us",
            "h42--us",
            "H42-0-us",
            "h42-0-US",
            "h+42-0-us",
            "h 42-0-us",
            "h42-0-us ",
            "c42-0-us",
            "42-0-us",
            "h18446744073709551616-0-us",
            "h42-0-aaaaaaaaaaaaaaaaa",
            "h42-0-us/x",
        ] {
            assert!(odd.parse::<HoldId>().is_err(), "{odd:?}");
        }
        assert!("c18446744073709551615-18446744073709551615-a".parse::<ChargeId>().is_ok());
    }
}
