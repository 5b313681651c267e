//! The caller's own notes on an operation.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

/// At most 16 keys and 2 KiB of keys and values together, kept with the entry and never looked at.
///
/// Values are text. A whole number or a truth value is kept as its text; nested values, fractions
/// and `null` are refused. Neither keys nor values may contain NUL, which PostgreSQL cannot keep.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Metadata(BTreeMap<String, String>);

/// Why metadata is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMetadata {
    /// Too many keys.
    #[error("metadata has at most {} keys", Metadata::KEYS_MAX)]
    TooManyKeys,
    /// Too many bytes.
    #[error("metadata has at most {} bytes of keys and values", Metadata::BYTES_MAX)]
    TooLarge,
    /// A key without a name.
    #[error("a key of metadata may not be empty")]
    EmptyKey,
    /// A key that stands there twice.
    #[error("metadata names the key {0:?} twice")]
    RepeatedKey(String),
    /// A NUL character.
    #[error("metadata may not contain NUL")]
    Nul,
}

impl Metadata {
    /// The most keys.
    pub const KEYS_MAX: usize = 16;
    /// The most bytes of all keys and values together.
    pub const BYTES_MAX: usize = 2_048;

    /// Checks keys and values.
    pub fn from_pairs<I>(pairs: I) -> Result<Self, InvalidMetadata>
    where
        I: IntoIterator<Item = (String, String)>,
    {
        let mut reading = Reading::default();
        for (key, value) in pairs {
            reading.add(key, value)?;
        }
        Ok(Self(reading.pairs))
    }

    /// Keys and values, in the order of the keys.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Metadata so far. Limits are checked pair by pair, so that what is refused is never kept.
#[derive(Default)]
struct Reading {
    pairs: BTreeMap<String, String>,
    bytes: usize,
}

impl Reading {
    fn add(&mut self, key: String, value: String) -> Result<(), InvalidMetadata> {
        if key.is_empty() {
            return Err(InvalidMetadata::EmptyKey);
        }
        if key.contains('\0') || value.contains('\0') {
            return Err(InvalidMetadata::Nul);
        }
        if self.pairs.contains_key(&key) {
            return Err(InvalidMetadata::RepeatedKey(key));
        }
        if self.pairs.len() == Metadata::KEYS_MAX {
            return Err(InvalidMetadata::TooManyKeys);
        }
        self.bytes = self.bytes.saturating_add(key.len()).saturating_add(value.len());
        if self.bytes > Metadata::BYTES_MAX {
            return Err(InvalidMetadata::TooLarge);
        }
        self.pairs.insert(key, value);
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MetadataVisitor)
    }
}

struct MetadataVisitor;

impl<'de> Visitor<'de> for MetadataVisitor {
    type Value = Metadata;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("metadata: an object whose values are strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metadata, A::Error> {
        let mut reading = Reading::default();
        while let Some((key, Scalar(value))) = map.next_entry::<String, Scalar>()? {
            reading.add(key, value).map_err(de::Error::custom)?;
        }
        Ok(Metadata(reading.pairs))
    }
}

/// A value of metadata, as text.
struct Scalar(String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl Visitor<'_> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string, a whole number or a truth value in metadata")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar(text.to_owned()))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Scalar, E> {
        Ok(Scalar(text))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Scalar, E> {
        Ok(Scalar(number.to_string()))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Scalar, E> {
        Ok(Scalar(number.to_string()))
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Scalar, E> {
        Ok(Scalar(flag.to_string()))
    }
}

impl PartialSchema for Metadata {
    fn schema() -> RefOr<Schema> {
        let value = ObjectBuilder::new().schema_type(SchemaType::new(Type::String)).build();
        ObjectBuilder::new()
            .schema_type(SchemaType::new(Type::Object))
            .description(Some("The caller's notes: at most 16 keys and 2 KiB in all."))
            .max_properties(Some(Self::KEYS_MAX))
            .additional_properties(Some(AdditionalProperties::RefOr(value.into())))
            .into()
    }
}

impl ToSchema for Metadata {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_kept_as_text() {
        let json = r#"{"attempt":2,"model":"large","paid":true,"shift":-1}"#;
        let metadata: Metadata = serde_json::from_str(json).unwrap();
        let written = serde_json::to_string(&metadata).unwrap();
        assert_eq!(written, r#"{"attempt":"2","model":"large","paid":"true","shift":"-1"}"#);
    }

    #[test]
    fn metadata_is_small_and_flat() {
        let many = |count: usize| {
            Metadata::from_pairs((0..count).map(|index| (index.to_string(), String::new())))
        };
        assert!(many(16).is_ok());
        assert_eq!(many(17), Err(InvalidMetadata::TooManyKeys));
        let large = |bytes: usize| Metadata::from_pairs([("k".to_owned(), "v".repeat(bytes))]);
        assert!(large(2_047).is_ok());
        assert_eq!(large(2_048), Err(InvalidMetadata::TooLarge));
        for odd in [
            r#"{"a":{}}"#,
            r#"{"a":[1]}"#,
            r#"{"a":null}"#,
            r#"{"a":1.5}"#,
            r#"{"":"a"}"#,
            r#"{"a":"\u0000"}"#,
            r#"{"a":"1","a":"2"}"#,
            r#"{"a":"\ud800"}"#,
            "[]",
            "null",
        ] {
            assert!(serde_json::from_str::<Metadata>(odd).is_err(), "{odd}");
        }
    }
}
