//! Names of things: tenants, units, regions, keys, and the numbers that order them.

use std::sync::Arc;

use minicbor::encode::Write;
use minicbor::{Decode, Decoder, Encode, Encoder};

/// Why a text is not a name of the kind asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// No characters, or more bytes than the kind allows.
    #[error("must have 1 to {max} bytes")]
    Length {
        /// The most bytes this kind may have.
        max: usize,
    },
    /// A character that the kind does not allow.
    #[error("may only contain {allowed}")]
    Character {
        /// What the kind allows, in words.
        allowed: &'static str,
    },
    /// `.` or `..`: a path with such a segment means another path.
    #[error("may not be . or ..")]
    Dots,
}

/// Whose credits they are: the caller's name for a tenant.
///
/// 1 to 128 bytes of `A-Z a-z 0-9 . _ : -`, compared as bytes; not `.` or `..`, which no path of a
/// URL can name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(Arc<str>);

/// What an account counts, for example `credits`. A tenant has one account in each unit.
///
/// 1 to 32 bytes of `a-z 0-9 _ -`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unit(Arc<str>);

/// A region, for example `eu` or `us-east-1`.
///
/// 1 to 16 bytes of `a-z 0-9 -`. Kept in place, not on the heap: each movement of credits to and
/// from a region names one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Region {
    /// The name's bytes, then NULs, so that regions sort as their names do.
    bytes: [u8; Region::BYTES_MAX],
}

/// A webhook, for example `billing`: the operator's name for it.
///
/// 1 to 64 bytes of `a-z 0-9 _ -`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SinkName(Arc<str>);

/// The caller's name for one change, so that repeating the call does not repeat the change.
///
/// 1 to 255 bytes of UTF-8 without control characters, compared as bytes, neither normalised nor
/// cut.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey(Arc<str>);

/// The caller's name for one business operation, chosen before anything outside is called.
///
/// Spelled as a tenant's name is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(Arc<str>);

/// A caller's name for a budget: a cap inside an account.
///
/// Spelled as a tenant's name is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BudgetName(Arc<str>);

/// A queue that workers take jobs from.
///
/// Spelled as a tenant's name is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueName(Arc<str>);

impl TenantId {
    const BYTES_MAX: usize = 128;

    /// Checks a tenant's name.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        plain(text).map(Self)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Unit {
    const BYTES_MAX: usize = 32;

    /// Checks a unit's name.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
        check(text, Self::BYTES_MAX, allowed, "a-z 0-9 _ -")?;
        Ok(Self(Arc::from(text)))
    }

    /// The unit of an account for which none is named: `credits`.
    pub fn credits() -> Self {
        Self(Arc::from("credits"))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl SinkName {
    const BYTES_MAX: usize = 64;

    /// Checks a webhook's name.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
        check(text, Self::BYTES_MAX, allowed, "a-z 0-9 _ -")?;
        Ok(Self(Arc::from(text)))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Region {
    const BYTES_MAX: usize = 16;

    /// Checks a region's name.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        check(text, Self::BYTES_MAX, allowed, "a-z 0-9 -")?;
        let mut bytes = [0; Self::BYTES_MAX];
        bytes.iter_mut().zip(text.bytes()).for_each(|(place, byte)| *place = byte);
        Ok(Self { bytes })
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        let name = self.bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        std::str::from_utf8(name).expect("a region's name is checked to be ASCII")
    }
}

impl IdempotencyKey {
    const BYTES_MAX: usize = 255;

    /// Checks a key.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        if text.is_empty() || text.len() > Self::BYTES_MAX {
            return Err(IdError::Length { max: Self::BYTES_MAX });
        }
        if text.chars().any(char::is_control) {
            return Err(IdError::Character { allowed: "text without control characters" });
        }
        Ok(Self(Arc::from(text)))
    }

    /// The key.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl JobId {
    /// Checks a job's name.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        plain(text).map(Self)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl BudgetName {
    /// Checks a budget's name.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        plain(text).map(Self)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl QueueName {
    /// Checks a queue's name.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        plain(text).map(Self)
    }

    /// The queue of a job for which none is named: `default`.
    pub fn default_queue() -> Self {
        Self(Arc::from("default"))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Checks a name of plain characters that may stand in the path of a URL.
fn plain(text: &str) -> Result<Arc<str>, IdError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    check(text, TenantId::BYTES_MAX, allowed, "A-Z a-z 0-9 . _ : -")?;
    if matches!(text, "." | "..") { Err(IdError::Dots) } else { Ok(Arc::from(text)) }
}

fn check(
    text: &str,
    max: usize,
    allowed: impl Fn(u8) -> bool,
    in_words: &'static str,
) -> Result<(), IdError> {
    if text.is_empty() || text.len() > max {
        return Err(IdError::Length { max });
    }
    if !text.bytes().all(allowed) {
        return Err(IdError::Character { allowed: in_words });
    }
    Ok(())
}

/// Counts a tenant's homes: the higher one wins, a lower one is fenced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Epoch(#[n(0)] pub u64);

/// Counts the allocations of an account to a region; generation 0 means *home*.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Generation(#[n(0)] pub u64);

impl Generation {
    /// Home itself, wherever it is.
    pub const HOME: Self = Self(0);

    /// The generation after this one. Saturates, as a sequence does.
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// Names what a region's group has lived through without a gap.
///
/// A group that is restored from a backup begins another life, and names it by chance: whoever has heard
/// the name has heard it since. A group that never was has none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Life(
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    [u8; 16],
);

impl Life {
    /// The life of that name. The bytes have to be random: they must never name another one.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

/// The place of an entry in its account: 1, 2, 3 without holes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Sequence(#[n(0)] pub u64);

impl Sequence {
    /// Before the first entry.
    pub const ZERO: Self = Self(0);

    /// The place after this one.
    ///
    /// Saturates: at a million entries a second the numbers last for 580,000 years.
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// Who decides about a hold, a charge or a lot: a region and the generation of its allocation, or
/// home (generation 0) and the region where home was then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct Owner {
    /// The region.
    #[n(0)]
    pub region: Region,
    /// The allocation's generation there; 0 is home.
    #[n(1)]
    pub generation: Generation,
}

impl Owner {
    /// Home, in `region`.
    pub const fn home(region: Region) -> Self {
        Self { region, generation: Generation::HOME }
    }
}

/// One operation as the log knows it: the index of its Raft entry and its place in there.
///
/// All ledger entries that one command makes carry the same operation id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct OperationId {
    /// Index of the Raft entry.
    #[n(0)]
    pub index: u64,
    /// Place of the command in that entry, from 0.
    #[n(1)]
    pub ordinal: u32,
}

impl std::fmt::Display for OperationId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{}", self.index, self.ordinal)
    }
}

impl std::fmt::Display for Life {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl std::fmt::Debug for Life {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Life({self})")
    }
}

impl std::fmt::Debug for Region {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Region({:?})", self.as_str())
    }
}

/// Text ids share their behaviour on the wire and in messages; the checks differ and stand above.
macro_rules! text_id {
    ($($id:ident),+) => {$(
        impl std::fmt::Display for $id {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }

        impl<C> Encode<C> for $id {
            fn encode<W: Write>(
                &self,
                encoder: &mut Encoder<W>,
                _: &mut C,
            ) -> Result<(), minicbor::encode::Error<W::Error>> {
                encoder.str(self.as_str())?.ok()
            }
        }

        impl<'b, C> Decode<'b, C> for $id {
            fn decode(
                decoder: &mut Decoder<'b>,
                _: &mut C,
            ) -> Result<Self, minicbor::decode::Error> {
                Self::parse(decoder.str()?).map_err(minicbor::decode::Error::custom)
            }
        }
    )+};
}

text_id!(TenantId, Unit, Region, IdempotencyKey, JobId, BudgetName, QueueName, SinkName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_is_named_in_plain_characters() {
        assert!(TenantId::parse("team:search_2.eu-1").is_ok());
        assert!(TenantId::parse(&"t".repeat(128)).is_ok());
        assert_eq!(TenantId::parse(&"t".repeat(129)), Err(IdError::Length { max: 128 }));
        assert_eq!(TenantId::parse(""), Err(IdError::Length { max: 128 }));
        assert_eq!(TenantId::parse(".."), Err(IdError::Dots));
        for odd in ["a b", "a/b", "ä", "a\0", "a%20"] {
            assert!(matches!(TenantId::parse(odd), Err(IdError::Character { .. })), "{odd:?}");
        }
    }

    #[test]
    fn a_key_is_any_printable_text_of_at_most_255_bytes() {
        assert!(IdempotencyKey::parse("Zahlung Nr. 7 / größer").is_ok());
        assert!(IdempotencyKey::parse(&"ü".repeat(127)).is_ok());
        assert!(IdempotencyKey::parse(&"ü".repeat(128)).is_err());
        for odd in ["", "a\nb", "a\0b", "\u{7f}", "\u{85}"] {
            assert!(IdempotencyKey::parse(odd).is_err(), "{odd:?}");
        }
        // Two spellings of one letter stay two keys.
        assert_ne!(IdempotencyKey::parse("é"), IdempotencyKey::parse("e\u{301}"));
    }

    #[test]
    fn a_decoded_id_is_checked_again() {
        let bytes = minicbor::to_vec("not a tenant").unwrap();
        assert!(minicbor::decode::<TenantId>(&bytes).is_err());
    }
}
