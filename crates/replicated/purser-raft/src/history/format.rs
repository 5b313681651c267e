//! The bytes of a history.
//!
//! ```text
//!  file   = header, frame, frame, …
//!  header = magic 8 │ cluster 16 │ group u32 │ zeros 4 │ start u64 │ previous u32 │ zeros 16 │ crc
//!  frame  = length u32 │ previous u32 │ crc u32 │ record
//! ```
//!
//! The frames of all files, one after the other, are the group's stream; a record's
//! [`Position`] is the offset of its frame in there, so it does not depend on how the stream is cut
//! into files. `previous` is the checksum of the frame before (0 for the first), and each checksum
//! counts the position and `previous`: the last frame's checksum stands for the whole stream.

use purser_types::Position;

use crate::codec::{Decoder, Encoder, Malformed};
use crate::ids::{ClusterId, GroupId};

pub(crate) const HEADER_BYTES: usize = 64;
pub(crate) const FRAME_HEADER_BYTES: usize = 12;
const MAGIC: &[u8; 8] = b"PURSHIS1";
const SUFFIX: &str = ".history";

/// Where a stream ends, and what it was: two streams with equal marks are equal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct HistoryMark {
    /// Bytes of the stream.
    pub(crate) length: u64,
    /// Checksum of the last frame; 0 if there is none.
    pub(crate) crc: u32,
    /// Where the last frame starts; 0 if there is none.
    pub(crate) last: u64,
}

impl HistoryMark {
    pub(crate) fn encode(&self, encoder: &mut Encoder) {
        encoder.u64(self.length).u32(self.crc).u64(self.last);
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Self { length: decoder.u64()?, crc: decoder.u32()?, last: decoder.u64()? })
    }

    /// The mark behind one more frame.
    pub(crate) fn after(self, frame: &Frame<'_>) -> Self {
        Self { length: frame.end(self.length), crc: frame.crc, last: self.length }
    }
}

/// A frame that matches its checksum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'a> {
    pub(crate) previous: u32,
    pub(crate) crc: u32,
    pub(crate) record: &'a [u8],
}

impl Frame<'_> {
    /// The position behind this frame, which starts at `start`.
    pub(crate) fn end(&self, start: u64) -> u64 {
        start + wide(FRAME_HEADER_BYTES + self.record.len())
    }
}

/// Appends the frame of `record` to a buffer. Gives its checksum.
pub(crate) fn encode_frame(
    buffer: &mut Vec<u8>,
    position: Position,
    previous: u32,
    record: &[u8],
) -> u32 {
    let length = u32::try_from(record.len()).expect("a record is bounded far below 4 GiB");
    let crc = checksum(position, length, previous, record);
    buffer.extend_from_slice(&length.to_le_bytes());
    buffer.extend_from_slice(&previous.to_le_bytes());
    buffer.extend_from_slice(&crc.to_le_bytes());
    buffer.extend_from_slice(record);
    crc
}

/// The length of the record whose frame starts with these bytes.
pub(crate) fn record_length(bytes: &[u8]) -> Option<usize> {
    let length = bytes.first_chunk::<4>()?;
    usize::try_from(u32::from_le_bytes(*length)).ok()
}

/// The frame that these bytes start with, if it is whole and matches its checksum.
pub(crate) fn decode_frame(bytes: &[u8], position: Position) -> Option<Frame<'_>> {
    let length = record_length(bytes)?;
    let mut decoder = Decoder::new(bytes.get(4..FRAME_HEADER_BYTES)?);
    let previous = decoder.u32().ok()?;
    let crc = decoder.u32().ok()?;
    let end = FRAME_HEADER_BYTES.checked_add(length)?;
    let record = bytes.get(FRAME_HEADER_BYTES..end)?;
    let length = u32::try_from(length).ok()?;
    (checksum(position, length, previous, record) == crc).then_some(Frame { previous, crc, record })
}

fn checksum(position: Position, length: u32, previous: u32, record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&position.0.to_le_bytes());
    hasher.update(&length.to_le_bytes());
    hasher.update(&previous.to_le_bytes());
    hasher.update(record);
    hasher.finalize()
}

/// The header of the file whose first frame is at `start`, behind a frame with checksum `previous`.
pub(crate) fn encode_header(
    cluster: ClusterId,
    group: GroupId,
    start: u64,
    previous: u32,
) -> Vec<u8> {
    let mut encoder = Encoder::with_capacity(HEADER_BYTES);
    encoder.raw(MAGIC).raw(cluster.as_bytes()).u32(group.0).u32(0).u64(start).u32(previous);
    encoder.raw(&[0; 16]);
    let mut header = encoder.finish();
    let crc = crc32fast::hash(&header);
    header.extend_from_slice(&crc.to_le_bytes());
    header
}

/// The checksum before the first frame, if these bytes are the header of the file for `start`.
pub(crate) fn decode_header(
    bytes: &[u8],
    cluster: ClusterId,
    group: GroupId,
    start: u64,
) -> Option<u32> {
    const PREVIOUS_OFFSET: usize = 40;
    let header = bytes.get(..HEADER_BYTES)?;
    let previous = Decoder::new(header.get(PREVIOUS_OFFSET..)?).u32().ok()?;
    (header == encode_header(cluster, group, start, previous)).then_some(previous)
}

/// The name of the file whose first frame is at `start`.
pub(crate) fn file_name(start: u64) -> String {
    format!("{start:016x}{SUFFIX}")
}

/// The position of the first frame in the file of this name.
pub(crate) fn file_start(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    let start = u64::from_str_radix(digits, 16).ok()?;
    (file_name(start) == name).then_some(start)
}

pub(crate) fn wide(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("memory is addressed with 64 bits at most")
}
