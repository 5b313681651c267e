//! Bytes of commands, changes and snapshots: CBOR with numbered fields.
//!
//! Every field and variant has an explicit number that is never used again; an unknown variant is
//! an error, never another variant.

use minicbor::{Decode, Encode};

/// The bytes of a value.
pub fn encode<T: Encode<()>>(value: &T) -> Vec<u8> {
    minicbor::to_vec(value).expect("writing to memory cannot fail, and our encodings never refuse")
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
