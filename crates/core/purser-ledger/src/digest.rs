//! Digests: of keys and requests (16 bytes), of entries (32 bytes).

use sha2::{Digest as _, Sha256};

/// The first half of a SHA-256, for looking things up.
pub type Digest16 = [u8; 16];

/// A whole SHA-256, for proving things.
pub type Digest32 = [u8; 32];

/// The SHA-256 of the parts, one after the other.
pub(crate) fn digest32<P: AsRef<[u8]>>(parts: impl IntoIterator<Item = P>) -> Digest32 {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.as_ref());
    }
    hasher.finalize().into()
}

/// The first half of a SHA-256: 128 bits, of which no two are equal by chance or by effort.
pub(crate) fn digest16(bytes: &[u8]) -> Digest16 {
    let mut half = [0; 16];
    for (to, from) in half.iter_mut().zip(hash_of(bytes)) {
        *to = from;
    }
    half
}

/// The hash of an entry, from the bytes it is kept as.
pub fn hash_of(entry: &[u8]) -> Digest32 {
    digest32([entry])
}
