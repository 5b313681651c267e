//! Bytes of what machines put into logs, histories and snapshots: CBOR with numbered fields.
//!
//! Every field and variant has an explicit number that is never used again, so an older release's
//! bytes keep their meaning; an unknown variant is an error, never another variant.

use minicbor::{Decode, Encode};

/// Room for a command, an entry or a record of the usual size: growing a buffer byte by byte costs
/// more than encoding does.
const USUAL_BYTES: usize = 512;

/// About how large a snapshot's chunks are.
const CHUNK_BYTES: usize = 1 << 20;

/// The bytes of a value.
pub fn encode<T: Encode<()>>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    minicbor::encode(value, &mut bytes)
        .expect("writing to memory cannot fail, and our encodings never refuse");
    bytes
}

/// A value from exactly its bytes.
pub fn decode<'b, T: Decode<'b, ()>>(bytes: &'b [u8]) -> Result<T, minicbor::decode::Error> {
    let mut decoder = minicbor::Decoder::new(bytes);
    let value = decoder.decode()?;
    if decoder.position() != bytes.len() {
        return Err(minicbor::decode::Error::message("trailing bytes"));
    }
    Ok(value)
}

/// Whether a field says nothing and may be left out: it is what stands for a field that is not there.
pub fn is_none<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Packs encoded pieces into the chunks that [`Machine::snapshot`](crate::Machine::snapshot) gives.
/// Whoever restores reads piece after piece, whatever chunk it came in.
pub fn pack(
    mut pieces: impl Iterator<Item = Vec<u8>> + Send,
) -> impl Iterator<Item = Vec<u8>> + Send {
    std::iter::from_fn(move || {
        let mut chunk = pieces.next()?;
        while chunk.len() < CHUNK_BYTES
            && let Some(piece) = pieces.next()
        {
            chunk.extend_from_slice(&piece);
        }
        Some(chunk)
    })
}
