//! The bytes of a segment file.
//!
//! ```text
//!  segment = header, batch, batch, …, zeros
//!  header  = magic 8 │ cluster 16 │ node u64 │ sequence u64 │ zeros 20 │ crc u32
//!  batch   = magic u32 │ length u32 │ number u64 │ count u32 │ crc u32 │ records │ zeros to 8
//!  record  = length u32 │ crc u32 │ group u32 │ kind u8 │ version u8 │ zeros 2 │ body
//! ```
//!
//! A batch is what one write and one sync made durable, so it is there as a whole or not at all,
//! and the next one is written only when it is. That is how a reader tells a torn tail (nothing
//! valid follows) from damage (something does). Every checksum counts the segment's sequence and
//! the offset, so that a part of a log that stands in the wrong place, or inside a command, is
//! never taken for the log.

use bytes::Bytes;

use crate::codec::{Decoder, Encoder, Malformed};
use crate::entry::{EntryId, VoteRecord};
use crate::ids::{ClusterId, GroupId, NodeId};

pub(crate) const HEADER_BYTES: usize = 64;
pub(super) const BATCH_HEADER_BYTES: usize = 24;
pub(crate) const RECORD_HEADER_BYTES: usize = 16;
const ALIGNMENT: usize = 8;
const SEGMENT_MAGIC: &[u8; 8] = b"PURSWAL1";
const BATCH_MAGIC: [u8; 4] = *b"PuB1";
/// The version of every record's body there is so far.
const RECORD_VERSION: u8 = 1;

/// What a record says. The numbers are in files: never reuse one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordKind {
    Vote,
    Entry,
    Truncate,
    Committed,
    Purge,
    State,
    Closed,
}

impl RecordKind {
    const fn number(self) -> u8 {
        match self {
            Self::Vote => 1,
            Self::Entry => 2,
            Self::Truncate => 3,
            Self::Committed => 4,
            Self::Purge => 5,
            Self::State => 6,
            Self::Closed => 7,
        }
    }

    const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Vote,
            2 => Self::Entry,
            3 => Self::Truncate,
            4 => Self::Committed,
            5 => Self::Purge,
            6 => Self::State,
            7 => Self::Closed,
            _ => return None,
        })
    }
}

/// One thing to write down. The body comes in two parts, so that long commands are not copied on
/// the way here.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) group: GroupId,
    pub(crate) kind: RecordKind,
    pub(crate) head: Vec<u8>,
    pub(crate) body: Bytes,
}

/// What a group's records amount to, apart from its entries. Each segment starts with it, so that
/// older segments can be dropped whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct GroupMarks {
    pub(crate) vote: Option<VoteRecord>,
    pub(crate) committed: Option<EntryId>,
    pub(crate) purged: Option<EntryId>,
}

impl GroupMarks {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder.option(self.vote, |encoder, vote| vote.encode(encoder));
        encoder.option(self.committed, |encoder, id| id.encode(encoder));
        encoder.option(self.purged, |encoder, id| id.encode(encoder));
        encoder.finish()
    }

    pub(crate) fn decode(body: &[u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(body);
        let marks = Self {
            vote: decoder.option(VoteRecord::decode)?,
            committed: decoder.option(EntryId::decode)?,
            purged: decoder.option(EntryId::decode)?,
        };
        decoder.finish()?;
        Ok(marks)
    }
}

impl Record {
    pub(crate) fn new(group: GroupId, kind: RecordKind, head: Vec<u8>) -> Self {
        Self { group, kind, head, body: Bytes::new() }
    }

    pub(crate) fn size(&self) -> usize {
        RECORD_HEADER_BYTES + self.head.len() + self.body.len()
    }
}

/// Whose log it is, and which part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentName {
    pub(crate) cluster: ClusterId,
    pub(crate) node: NodeId,
    pub(crate) sequence: u64,
}

impl SegmentName {
    pub(super) fn header(&self) -> [u8; HEADER_BYTES] {
        let mut encoder = Encoder::with_capacity(HEADER_BYTES);
        encoder.raw(SEGMENT_MAGIC).raw(self.cluster.as_bytes());
        encoder.u64(self.node.0).u64(self.sequence).raw(&[0; 20]);
        let front = encoder.finish();
        let mut header = [0; HEADER_BYTES];
        let (place, rest) = header.split_at_mut(front.len());
        place.copy_from_slice(&front);
        rest.copy_from_slice(&crc32fast::hash(&front).to_le_bytes());
        header
    }
}

/// A checksum that is only right in one place.
fn checksum(sequence: u64, offset: u64, parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&sequence.to_le_bytes());
    hasher.update(&offset.to_le_bytes());
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}

/// Bytes a batch of these records takes.
pub(super) fn batch_size<'a>(records: impl Iterator<Item = &'a Record>) -> usize {
    let bytes: usize = records.map(Record::size).sum();
    BATCH_HEADER_BYTES + bytes.next_multiple_of(ALIGNMENT)
}

/// Appends a batch to `buffer`, of which the first byte will stand at `buffer_offset` of the
/// segment. Calls `place` with each record's offset and body length.
pub(super) fn encode_batch<'a>(
    buffer: &mut Vec<u8>,
    (sequence, buffer_offset): (u64, u64),
    number: u64,
    records: impl Iterator<Item = &'a Record> + Clone,
    mut place: impl FnMut(u64, u32),
) {
    let start = buffer.len();
    let at = |length: usize| buffer_offset + wide(length);
    let bytes = batch_size(records.clone()) - BATCH_HEADER_BYTES;
    let mut count = 0_u32;
    buffer.resize(start + BATCH_HEADER_BYTES, 0);
    for record in records {
        count += 1;
        let offset = at(buffer.len());
        let length = narrow(record.head.len() + record.body.len()).to_le_bytes();
        let group = record.group.0.to_le_bytes();
        let tags = [record.kind.number(), RECORD_VERSION, 0, 0];
        let crc = checksum(sequence, offset, &[&length, &group, &tags, &record.head, &record.body]);
        for part in [&length[..], &crc.to_le_bytes(), &group, &tags, &record.head, &record.body] {
            buffer.extend_from_slice(part);
        }
        place(offset, u32::from_le_bytes(length));
    }
    let offset = at(start);
    buffer.resize(start + BATCH_HEADER_BYTES + bytes, 0);
    let mut header = Encoder::with_capacity(BATCH_HEADER_BYTES);
    header.raw(&BATCH_MAGIC).u32(narrow(bytes)).u64(number).u32(count);
    let front = header.finish();
    let crc = checksum(sequence, offset, &[&front]).to_le_bytes();
    for (place, byte) in buffer.iter_mut().skip(start).zip(front.iter().chain(&crc)) {
        *place = *byte;
    }
}

fn narrow(length: usize) -> u32 {
    u32::try_from(length).expect("batches are bounded far below 4 GiB")
}

pub(super) fn wide(length: usize) -> u64 {
    u64::try_from(length).expect("memory is addressed with 64 bits at most")
}

/// A batch that is whole.
#[derive(Debug)]
pub(crate) struct ScannedBatch<'a> {
    pub(crate) number: u64,
    pub(crate) records: Vec<ScannedRecord<'a>>,
}

/// A record of a batch that is whole.
#[derive(Debug)]
pub(crate) struct ScannedRecord<'a> {
    pub(crate) offset: u64,
    pub(crate) group: GroupId,
    pub(crate) kind: RecordKind,
    pub(crate) body: &'a [u8],
}

/// Something that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flaw {
    pub(crate) offset: u64,
    pub(crate) detail: &'static str,
}

/// All that a segment's bytes say.
#[derive(Debug)]
pub(crate) struct Scan<'a> {
    pub(crate) batches: Vec<ScannedBatch<'a>>,
    /// Where the last whole batch was written from: with the header, if it is the first.
    pub(crate) last: u64,
    /// Behind the last whole batch.
    pub(crate) end: u64,
    /// Why nothing was read from `end` on, if something other than zeros stands there.
    pub(crate) flaw: Option<Flaw>,
    /// A whole batch that stands behind the flaw.
    pub(crate) later: Option<u64>,
    /// Behind the last byte that is not zero.
    pub(crate) used: u64,
}

/// Reads a segment.
pub(crate) fn scan<'a>(bytes: &'a [u8], name: &SegmentName) -> Scan<'a> {
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let batches = Vec::new();
    let mut scan = Scan { batches, last: 0, end: 0, flaw: None, later: None, used: wide(used) };
    let header = name.header();
    if bytes.get(..HEADER_BYTES) != Some(&header[..]) {
        if used > 0 {
            let offset = bytes.iter().zip(&header).position(|(is, should)| is != should);
            let offset = wide(offset.unwrap_or(0));
            scan.flaw = Some(Flaw { offset, detail: "not the header of this segment" });
            scan.later = later_batch(bytes, name.sequence, HEADER_BYTES);
        }
        return scan;
    }
    let mut position = HEADER_BYTES;
    while position < used {
        match read_batch(bytes, name.sequence, position) {
            Ok((batch, end)) => {
                if !scan.batches.is_empty() {
                    scan.last = wide(position);
                }
                scan.batches.push(batch);
                position = end;
            }
            Err(flaw) => {
                scan.flaw = Some(flaw);
                scan.later = later_batch(bytes, name.sequence, position + ALIGNMENT);
                break;
            }
        }
    }
    scan.end = wide(position);
    scan
}

/// The first whole batch at or behind `from`.
fn later_batch(bytes: &[u8], sequence: u64, from: usize) -> Option<u64> {
    (from..bytes.len())
        .step_by(ALIGNMENT)
        .filter(|position| bytes.get(*position..*position + 4) == Some(&BATCH_MAGIC))
        .find(|position| read_batch(bytes, sequence, *position).is_ok())
        .map(wide)
}

fn read_batch(
    bytes: &[u8],
    sequence: u64,
    position: usize,
) -> Result<(ScannedBatch<'_>, usize), Flaw> {
    let flaw = |position: usize, detail| Flaw { offset: wide(position), detail };
    let header = bytes
        .get(position..position + BATCH_HEADER_BYTES)
        .ok_or_else(|| flaw(position, "the segment ends within a batch"))?;
    let mut decoder = Decoder::new(header);
    let malformed = |_: Malformed| flaw(position, "no batch");
    let magic: [u8; 4] = decoder.array().map_err(malformed)?;
    let length = decoder.u32().map_err(malformed)?;
    let number = decoder.u64().map_err(malformed)?;
    let count = decoder.u32().map_err(malformed)?;
    let crc = decoder.u32().map_err(malformed)?;
    let front = header.get(..BATCH_HEADER_BYTES - 4).unwrap_or_default();
    if magic != BATCH_MAGIC || checksum(sequence, wide(position), &[front]) != crc {
        return Err(flaw(position, "the head of a batch does not match its checksum"));
    }
    let start = position + BATCH_HEADER_BYTES;
    let end = usize::try_from(length).ok().and_then(|length| start.checked_add(length));
    let end = end.filter(|end| *end <= bytes.len());
    let end = end.ok_or_else(|| flaw(position, "the segment ends within a batch"))?;
    let mut records = Vec::new();
    let mut next = start;
    for _ in 0..count {
        let record = read_record(bytes.get(..end).unwrap_or_default(), sequence, next)
            .ok_or_else(|| flaw(next, "a record does not match its checksum"))?;
        next += RECORD_HEADER_BYTES + record.body.len();
        records.push(record);
    }
    let padding = bytes.get(next..end).unwrap_or_default();
    if padding.len() >= ALIGNMENT || padding.iter().any(|byte| *byte != 0) {
        return Err(flaw(next, "the end of a batch is not zero"));
    }
    Ok((ScannedBatch { number, records }, end))
}

fn read_record(bytes: &[u8], sequence: u64, position: usize) -> Option<ScannedRecord<'_>> {
    let start = position.checked_add(RECORD_HEADER_BYTES)?;
    let mut decoder = Decoder::new(bytes.get(position..start)?);
    let length: [u8; 4] = decoder.array().ok()?;
    let crc = decoder.u32().ok()?;
    let group: [u8; 4] = decoder.array().ok()?;
    let tags: [u8; 4] = decoder.array().ok()?;
    let end = start.checked_add(usize::try_from(u32::from_le_bytes(length)).ok()?)?;
    let body = bytes.get(start..end)?;
    let offset = wide(position);
    if checksum(sequence, offset, &[&length, &group, &tags, body]) != crc {
        return None;
    }
    let [kind, RECORD_VERSION, 0, 0] = tags else {
        return None;
    };
    let kind = RecordKind::from_number(kind)?;
    Some(ScannedRecord { offset, group: GroupId(u32::from_le_bytes(group)), kind, body })
}

/// The body of a record that was read on its own, from `offset` of the segment on.
pub(super) fn verify_record(bytes: &[u8], sequence: u64, offset: u64) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (crc, rest) = rest.split_first_chunk::<4>()?;
    let matches = checksum(sequence, offset, &[length, rest]) == u32::from_le_bytes(*crc);
    let body = rest.get(RECORD_HEADER_BYTES - 8..)?;
    matches.then_some(body)
}
