//! A short list that is replaced as a whole and shared by its copies.

use std::sync::Arc;

use minicbor::encode::Write;
use minicbor::{Decode, Decoder, Encode, Encoder};

/// A short list that is replaced as a whole, never changed in place.
///
/// A record is copied whenever a neighbor in its leaf changes; so its lists must copy without
/// touching the heap.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Shared<T>(Arc<[T]>);

impl<T> Shared<T> {
    /// The items.
    pub fn as_slice(&self) -> &[T] {
        &self.0
    }

    /// The items, one by one.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }
}

impl<T> FromIterator<T> for Shared<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self(items.into_iter().collect())
    }
}

impl<C, T: Encode<C>> Encode<C> for Shared<T> {
    fn encode<W: Write>(
        &self,
        encoder: &mut Encoder<W>,
        context: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        self.as_slice().encode(encoder, context)
    }
}

impl<'b, C, T: Decode<'b, C>> Decode<'b, C> for Shared<T> {
    fn decode(decoder: &mut Decoder<'b>, context: &mut C) -> Result<Self, minicbor::decode::Error> {
        Vec::decode(decoder, context).map(|items: Vec<T>| items.into_iter().collect())
    }
}
