//! Bytes of commands, entries and snapshots: CBOR with numbered fields.
//!
//! Every field and variant has an explicit number that is never used again, so an older release's
//! bytes keep their meaning; an unknown variant is an error, never another variant.

use minicbor::{Decode, Encode};

/// Room for a command, an entry or a record of the usual size: growing a buffer byte by byte costs
/// more than encoding does.
const USUAL_BYTES: usize = 512;

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
pub(crate) fn is_none<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
