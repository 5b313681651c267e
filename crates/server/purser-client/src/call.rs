//! One call: what the caller may choose about it, and what comes back.

use std::time::Duration;

use purser_types::IdempotencyKey;

/// What a caller may choose about one call.
#[derive(Debug, Clone, Default)]
pub struct Call {
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) time: Option<Duration>,
}

impl Call {
    /// A call with a random key and the client's time.
    pub fn new() -> Self {
        Self::default()
    }

    /// A call under this key. Choose it before the first attempt and keep it where it survives a
    /// crash, if the change must not happen twice even then.
    pub fn with_key(key: IdempotencyKey) -> Self {
        Self { key: Some(key), time: None }
    }

    /// The same call with a time of its own, all attempts together.
    #[must_use]
    pub fn within(mut self, time: Duration) -> Self {
        self.time = Some(time);
        self
    }
}

/// What a successful call brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer<T> {
    /// The body.
    pub body: T,
    /// Whether it was decided before, under the same key.
    pub replayed: bool,
    /// The key the change was made under. Reads and batches have none of their own.
    pub key: Option<IdempotencyKey>,
}

/// A key that nobody else has: 128 random bits.
pub(crate) fn random_key() -> IdempotencyKey {
    let text = format!("{:032x}", rand::random::<u128>());
    IdempotencyKey::parse(&text).expect("hexadecimal digits are allowed in a key")
}
