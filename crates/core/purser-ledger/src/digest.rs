//! Digests: of keys and requests (16 bytes), of entries (32 bytes).

use sha2::{Digest as _, Sha256};

/// The first half of a SHA-256, for looking things up.
pub type Digest16 = [u8; 16];

/// A whole SHA-256, for proving things.
pub type Digest32 = [u8; 32];

/// The SHA-256 of the parts, one after the other.
pub(crate) fn digest32(parts: &[&[u8]]) -> Digest32 {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// The first half of [`digest32`]: 128 bits, of which no two are equal by chance or by effort.
pub(crate) fn digest16(parts: &[&[u8]]) -> Digest16 {
    let [low, _]: [Digest16; 2] = halves(digest32(parts));
    low
}

fn halves(whole: Digest32) -> [Digest16; 2] {
    let mut halves = [[0; 16]; 2];
    for (half, bytes) in halves.iter_mut().zip(whole.chunks_exact(16)) {
        half.copy_from_slice(bytes);
    }
    halves
}

/// The hash of an entry, from the bytes it is kept as.
pub fn hash_of(entry: &[u8]) -> Digest32 {
    digest32(&[entry])
}
