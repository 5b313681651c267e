//! How bodies are read: strictly, and an absent one where the operation allows it.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The most bytes of a body: 1 MiB.
pub const BODY_BYTES_MAX: usize = 1 << 20;

/// Reads a body. The error is the detail of an `invalid_request` problem.
pub fn read_body<T: DeserializeOwned>(body: &[u8]) -> Result<T, InvalidBody> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let read = object(&mut deserializer)?;
    deserializer.end()?;
    Ok(read)
}

/// Reads a body that may be absent: then every field has its default.
pub fn read_optional_body<T: DeserializeOwned + Default>(body: &[u8]) -> Result<T, InvalidBody> {
    if body.is_empty() { Ok(T::default()) } else { read_body(body) }
}

/// Why a body cannot be read, in words for the caller.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct InvalidBody(#[from] serde_json::Error);

/// Reads an object by the names of its fields.
///
/// Left to itself, serde reads a list too, as the fields in their order. Nobody means that, and it
/// would make the order of the fields a part of the contract.
pub(crate) fn object<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    deserializer.deserialize_map(ObjectVisitor(PhantomData))
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// Reads a field that may be left out but not be `null`.
///
/// `null` is a value only where an operation gives it a meaning; elsewhere it is more often a bug
/// of the caller than a wish for the default.
pub(crate) fn not_null<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// The default of a flag that is set unless the request says otherwise.
pub(crate) const fn yes() -> bool {
    true
}

/// For leaving a flag out of a request where it has its default.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
pub(crate) const fn is_no(flag: &bool) -> bool {
    !*flag
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hold::AuthorizeRequest;
    use crate::tenant::OpenTenantRequest;

    #[test]
    fn a_body_is_an_object_and_nothing_else() {
        assert!(read_body::<AuthorizeRequest>(br#" {"amount":30} "#).is_ok());
        for odd in ["[30]", "30", "null", "\"x\"", "", "{\"amount\":30}{}", "{\"amount\":30}]"] {
            assert!(read_body::<AuthorizeRequest>(odd.as_bytes()).is_err(), "{odd}");
        }
        let error = read_body::<AuthorizeRequest>(b"[30]").unwrap_err().to_string();
        assert!(error.starts_with("invalid type: sequence, expected an object"), "{error}");
    }

    #[test]
    fn an_object_inside_a_body_is_one_too() {
        let policy = r#"{"tenant":"acme","policy":{"debt_limit":"5"}}"#;
        assert!(read_body::<OpenTenantRequest>(policy.as_bytes()).is_ok());
        let list = r#"{"tenant":"acme","policy":["5"]}"#;
        assert!(read_body::<OpenTenantRequest>(list.as_bytes()).is_err());
    }
}
