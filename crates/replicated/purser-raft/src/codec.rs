//! The bytes of numbers and strings, as all formats of this crate write them: little endian, with
//! explicit lengths, nothing optional.

use bytes::Bytes;

/// The bytes end too early, or say something that can not be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed: {0}")]
pub(crate) struct Malformed(pub(crate) &'static str);

impl From<Malformed> for std::io::Error {
    fn from(malformed: Malformed) -> Self {
        Self::new(std::io::ErrorKind::InvalidData, malformed)
    }
}

/// Appends values.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes) }
    }

    pub(crate) fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes.push(value);
        self
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    pub(crate) fn bool(&mut self, value: bool) -> &mut Self {
        self.u8(u8::from(value))
    }

    /// Bytes of a length that the reader knows.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// A length, then so many bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.length(bytes.len()).raw(bytes)
    }

    /// How many items or bytes follow.
    pub(crate) fn length(&mut self, length: usize) -> &mut Self {
        self.u32(u32::try_from(length).expect("lengths are bounded far below 4 GiB"))
    }

    pub(crate) fn option<T>(
        &mut self,
        value: Option<T>,
        encode: impl FnOnce(&mut Self, T),
    ) -> &mut Self {
        self.bool(value.is_some());
        if let Some(value) = value {
            encode(self, value);
        }
        self
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Takes values off the front.
#[derive(Debug)]
pub(crate) struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn bool(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("neither true nor false")),
        }
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (front, rest) =
            self.rest.split_first_chunk::<N>().ok_or(Malformed("ends too early"))?;
        self.rest = rest;
        Ok(*front)
    }

    pub(crate) fn raw(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (front, rest) =
            self.rest.split_at_checked(length).ok_or(Malformed("ends too early"))?;
        self.rest = rest;
        Ok(front)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.length()?;
        self.raw(length)
    }

    /// A number of items or bytes. More than there are bytes left is malformed, so that nobody
    /// makes room for a length that a damaged message names.
    pub(crate) fn length(&mut self) -> Result<usize, Malformed> {
        let length =
            usize::try_from(self.u32()?).map_err(|_too_large| Malformed("length is too large"))?;
        if length > self.rest.len() {
            return Err(Malformed("length beyond the end"));
        }
        Ok(length)
    }

    pub(crate) fn option<T>(
        &mut self,
        decode: impl FnOnce(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        if self.bool()? { decode(self).map(Some) } else { Ok(None) }
    }

    /// What has not been taken yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Insists that everything has been taken.
    pub(crate) fn finish(self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed("bytes left over")) }
    }
}

/// The part of `whole` that `part`, a slice of it, stands for; shared, not copied.
pub(crate) fn share(whole: &Bytes, part: &[u8]) -> Bytes {
    whole.slice_ref(part)
}
