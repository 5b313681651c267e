//! How a type with one spelling as text stands in JSON.
//!
//! Such a type says how it is read, written and described; serde, `Display`, `FromStr` and the
//! schema follow from that, so that bodies, queries, paths and error messages cannot disagree.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Visitor};
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};

/// A type with one spelling as text.
pub(crate) trait Spelled: Sized {
    /// What a reader of an error message should have sent, after "expected".
    const EXPECTED: &'static str;

    /// Reads the one spelling.
    fn read(text: &str) -> Result<Self, String>;

    /// Reads a JSON integer; `None` where only text will do.
    fn read_integer(_: u64) -> Option<Result<Self, String>> {
        None
    }

    /// Writes the one spelling.
    fn write(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// The schema of the text.
    fn describe() -> Schema;
}

/// Reads any [`Spelled`] type.
pub(crate) struct SpelledVisitor<T>(PhantomData<T>);

impl<T> SpelledVisitor<T> {
    pub(crate) const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T: Spelled> Visitor<'_> for SpelledVisitor<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(T::EXPECTED)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        T::read(text).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        match T::read_integer(number) {
            Some(value) => value.map_err(E::custom),
            None => Err(E::invalid_type(de::Unexpected::Unsigned(number), &self)),
        }
    }
}

/// Serde, `Display`, `FromStr` and schema of a [`Spelled`] type, all by its one spelling.
macro_rules! spelled {
    ($($name:ident),+ $(,)?) => {$(
        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::spelled::Spelled::write(self, formatter)
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::spelled::InvalidText;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                <Self as $crate::spelled::Spelled>::read(text).map_err($crate::spelled::InvalidText)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Self, D::Error> {
                deserializer.deserialize_any($crate::spelled::SpelledVisitor::<Self>::new())
            }
        }

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                <Self as $crate::spelled::Spelled>::describe().into()
            }
        }

        impl utoipa::ToSchema for $name {}
    )+};
}
pub(crate) use spelled;

/// Why a text is not a value of the type asked for, in words for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidText(pub(crate) String);

/// An enum with one name for each variant.
macro_rules! spelled_enum {
    (
        $(#[$meta:meta])* $name:ident, $noun:literal {
            $($(#[$variant_meta:meta])* $variant:ident $text:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)+
        }

        impl $name {
            /// All of them, in their order.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The name on the wire.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }

        impl $crate::spelled::Spelled for $name {
            const EXPECTED: &'static str = concat!($noun, ", one of:" $(, " ", $text)+);

            fn read(text: &str) -> Result<Self, String> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    _ => Err(format!("expected {}", Self::EXPECTED)),
                }
            }

            fn write(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.name())
            }

            fn describe() -> utoipa::openapi::schema::Schema {
                utoipa::openapi::schema::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .description(Some(concat!("Names ", $noun, ".")))
                    .enum_values(Some([$($text),+]))
                    .into()
            }
        }

        $crate::spelled::spelled!($name);
    };
}
pub(crate) use spelled_enum;

/// Digits without a leading zero, as a number of 64 bits.
pub(crate) fn read_digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let canonical = plain && (text.len() == 1 || !text.starts_with('0'));
    if canonical { text.parse().ok() } else { None }
}

/// The schema of a text with a fixed form.
pub(crate) fn text_schema(description: &str, pattern: &str) -> Schema {
    ObjectBuilder::new()
        .schema_type(SchemaType::new(Type::String))
        .description(Some(description))
        .pattern(Some(pattern))
        .into()
}
