//! Cursors: where a page ended, bound to the list it came from.
//!
//! A cursor is opaque text. It carries a position and a checksum over the position, the path, the
//! tenant, the unit and every filter; so one that was altered, or that belongs to another list, is
//! refused and never shows foreign or repeated rows. The checksum has no secret: a forged cursor
//! shows nothing that its forger could not list anyhow.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use purser_types::{TenantId, Unit};
use sha2::{Digest, Sha256};
use utoipa::openapi::schema::Schema;

use crate::spelled::{Spelled, spelled, text_schema};

/// The text of a cursor. Whether it belongs to a list, [`CursorScope::open`] tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(String);

/// The cursor was altered, or belongs to another list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the cursor does not belong to this list with these filters")]
pub struct InvalidCursor;

/// The list that a cursor belongs to.
#[derive(Debug, Clone)]
pub struct CursorScope {
    hash: Sha256,
}

/// Enough that two lists do not meet by chance; short enough for an address.
const CHECKSUM_BYTES: usize = 8;

impl CursorScope {
    /// A list at `path`, which is the path's template from [`crate::paths`].
    pub fn new(path: &str) -> Self {
        Self { hash: Sha256::new() }.with("path", path)
    }

    /// The list of one tenant's account.
    #[must_use]
    pub fn of_account(self, tenant: &TenantId, unit: &Unit) -> Self {
        self.with("tenant", tenant.as_str()).with("unit", unit.as_str())
    }

    /// The list with a filter.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        // Lengths stand before the texts, so that no two lists hash the same bytes.
        for text in [name, value] {
            self.hash.update(text.len().to_be_bytes());
            self.hash.update(text);
        }
        self
    }

    /// The list with a filter, if there is one.
    #[must_use]
    pub fn with_filter(self, name: &str, value: Option<&impl fmt::Display>) -> Self {
        match value {
            Some(value) => self.with(name, &value.to_string()),
            None => self,
        }
    }

    /// Makes a cursor that continues behind `position`, which is the list's own affair.
    pub fn seal(&self, position: &str) -> Cursor {
        let mut bytes = self.checksum(position).to_vec();
        bytes.extend_from_slice(position.as_bytes());
        Cursor(URL_SAFE_NO_PAD.encode(bytes))
    }

    /// The position of a cursor that this list made.
    pub fn open(&self, cursor: &Cursor) -> Result<String, InvalidCursor> {
        let bytes = URL_SAFE_NO_PAD.decode(&cursor.0).map_or(Err(InvalidCursor), Ok)?;
        let (checksum, position) = bytes.split_at_checked(CHECKSUM_BYTES).ok_or(InvalidCursor)?;
        let position = str::from_utf8(position).map_or(Err(InvalidCursor), Ok)?;
        if self.checksum(position) == checksum {
            Ok(position.to_owned())
        } else {
            Err(InvalidCursor)
        }
    }

    fn checksum(&self, position: &str) -> [u8; CHECKSUM_BYTES] {
        let digest = self.clone().with("position", position).hash.finalize();
        *digest.first_chunk().expect("a SHA-256 digest has 32 bytes")
    }
}

impl Cursor {
    /// The most bytes that any list's cursor has.
    const BYTES_MAX: usize = 16_384;
}

impl Spelled for Cursor {
    const EXPECTED: &'static str = "a cursor as a string";

    fn read(text: &str) -> Result<Self, String> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let plain = !text.is_empty() && text.len() <= Self::BYTES_MAX && text.bytes().all(allowed);
        if plain { Ok(Self(text.to_owned())) } else { Err(InvalidCursor.to_string()) }
    }

    fn write(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }

    fn describe() -> Schema {
        text_schema("Where the next page starts; opaque.", "^[A-Za-z0-9_-]{1,16384}$")
    }
}

spelled!(Cursor);

#[cfg(test)]
mod tests {
    use super::*;

    fn holds_of(tenant: &str) -> CursorScope {
        let tenant = TenantId::parse(tenant).unwrap();
        CursorScope::new("/v1/tenants/{tenant}/holds").of_account(&tenant, &Unit::credits())
    }

    #[test]
    fn a_cursor_opens_only_in_the_list_that_made_it() {
        let cursor = holds_of("acme").with("state", "active").seal("42");
        assert_eq!(holds_of("acme").with("state", "active").open(&cursor), Ok("42".to_owned()));
        assert_eq!(holds_of("acme").open(&cursor), Err(InvalidCursor));
        assert_eq!(holds_of("acme").with("state", "expired").open(&cursor), Err(InvalidCursor));
        assert_eq!(holds_of("emca").with("state", "active").open(&cursor), Err(InvalidCursor));
    }

    #[test]
    fn an_altered_cursor_is_refused() {
        let scope = holds_of("acme");
        let text = scope.seal("42").to_string();
        for place in 0..text.len() {
            for replacement in ["A", "B", "_"] {
                let mut altered = text.clone();
                altered.replace_range(place..=place, replacement);
                let opened = altered.parse().map(|cursor: Cursor| scope.open(&cursor));
                let same = altered == text;
                assert_eq!(opened == Ok(Ok("42".to_owned())), same, "{altered}");
            }
        }
        for odd in ["", "a b", "AA==", "é", &"A".repeat(Cursor::BYTES_MAX + 1)] {
            assert!(odd.parse::<Cursor>().is_err(), "{odd:?}");
        }
    }
}
