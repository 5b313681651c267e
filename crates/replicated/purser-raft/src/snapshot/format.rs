//! The bytes of a snapshot file.
//!
//! ```text
//!  file     = header, chunk, chunk, …, manifest, footer
//!  header   = magic 8 │ cluster 16 │ group u32 │ crc u32
//!  chunk    = length u32 │ crc u32 │ bytes of the machine
//!  manifest = last entry, members, stamp, history mark, checksums of the chunks
//!  footer   = magic 8 │ manifest length u32 │ manifest crc u32 │ file length u64 │ crc u32
//! ```
//!
//! A chunk's checksum counts its number, so chunks can not change places.

use purser_types::LogTime;

use crate::codec::{Decoder, Encoder, Malformed};
use crate::entry::{EntryId, Members};
use crate::history::format::HistoryMark;
use crate::ids::{ClusterId, GroupId};

pub(crate) const HEADER_BYTES: usize = 32;
pub(crate) const CHUNK_HEADER_BYTES: usize = 8;
pub(crate) const FOOTER_BYTES: usize = 28;
const HEADER_MAGIC: &[u8; 8] = b"PURSSNP1";
const FOOTER_MAGIC: &[u8; 8] = b"PURSSNPE";
const SUFFIX: &str = ".snapshot";

/// What a snapshot covers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Covered {
    /// The last entry applied.
    pub(crate) last: Option<EntryId>,
    /// The entry with the members, if there was one.
    pub(crate) members_at: Option<EntryId>,
    pub(crate) members: Members,
    /// The highest stamp applied.
    pub(crate) stamp: LogTime,
    /// The history that the machine's positions point into.
    pub(crate) history: HistoryMark,
}

/// What a snapshot covers, and what its file consists of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) covered: Covered,
    /// Length and checksum of each chunk.
    pub(crate) chunks: Vec<(u32, u32)>,
}

/// What the footer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) manifest_bytes: usize,
    manifest_crc: u32,
}

impl Covered {
    pub(crate) fn encode(&self, encoder: &mut Encoder) {
        encoder.option(self.last, |encoder, id| id.encode(encoder));
        encoder.option(self.members_at, |encoder, id| id.encode(encoder));
        self.members.encode(encoder);
        encoder.u64(self.stamp.as_unix_micros());
        self.history.encode(encoder);
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            last: decoder.option(EntryId::decode)?,
            members_at: decoder.option(EntryId::decode)?,
            members: Members::decode(decoder)?,
            stamp: LogTime::from_unix_micros(decoder.u64()?)
                .map_err(|_out_of_range| Malformed("stamp beyond the year 9999"))?,
            history: HistoryMark::decode(decoder)?,
        })
    }
}

impl Manifest {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder::new();
        self.covered.encode(&mut encoder);
        encoder.length(self.chunks.len());
        for (length, crc) in &self.chunks {
            encoder.u32(*length).u32(*crc);
        }
        encoder.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes);
        let covered = Covered::decode(&mut decoder)?;
        let count = decoder.length()?;
        let chunks = (0..count)
            .map(|_| Ok((decoder.u32()?, decoder.u32()?)))
            .collect::<Result<_, Malformed>>()?;
        decoder.finish()?;
        Ok(Self { covered, chunks })
    }

    /// Bytes of the file up to the manifest.
    pub(crate) fn body_bytes(&self) -> u64 {
        let chunks: u64 = self.chunks.iter().map(|(length, _)| u64::from(*length)).sum();
        let headers = HEADER_BYTES + self.chunks.len() * CHUNK_HEADER_BYTES;
        chunks + wide(headers)
    }
}

pub(crate) fn encode_header(cluster: ClusterId, group: GroupId) -> Vec<u8> {
    let mut encoder = Encoder::with_capacity(HEADER_BYTES);
    encoder.raw(HEADER_MAGIC).raw(cluster.as_bytes()).u32(group.0);
    with_checksum(encoder)
}

pub(crate) fn encode_footer(manifest: &[u8], body_bytes: u64) -> Vec<u8> {
    let file_bytes = body_bytes + wide(manifest.len() + FOOTER_BYTES);
    let mut encoder = Encoder::with_capacity(FOOTER_BYTES);
    encoder.raw(FOOTER_MAGIC).length(manifest.len()).u32(crc32fast::hash(manifest));
    encoder.u64(file_bytes);
    with_checksum(encoder)
}

pub(crate) fn decode_footer(bytes: &[u8], file_bytes: u64) -> Result<Footer, Malformed> {
    let front = bytes.get(..FOOTER_BYTES - 4).ok_or(Malformed("the footer is cut off"))?;
    let mut decoder = Decoder::new(bytes);
    let magic: [u8; 8] = decoder.array()?;
    let manifest_bytes = usize::try_from(decoder.u32()?)
        .map_err(|_too_large| Malformed("the manifest is too large"))?;
    let manifest_crc = decoder.u32()?;
    let stated = decoder.u64()?;
    let crc = decoder.u32()?;
    if magic != *FOOTER_MAGIC || crc32fast::hash(front) != crc || stated != file_bytes {
        return Err(Malformed("the footer does not match its checksum or the file"));
    }
    Ok(Footer { manifest_bytes, manifest_crc })
}

impl Footer {
    pub(crate) fn matches(&self, manifest: &[u8]) -> bool {
        crc32fast::hash(manifest) == self.manifest_crc
    }
}

pub(crate) fn chunk_checksum(number: usize, chunk: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&wide(number).to_le_bytes());
    hasher.update(chunk);
    hasher.finalize()
}

fn with_checksum(encoder: Encoder) -> Vec<u8> {
    let mut bytes = encoder.finish();
    let crc = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// The name of the snapshot up to `last`.
pub(crate) fn file_name(last: EntryId) -> String {
    format!("{:020}-{:020}-{:020}{SUFFIX}", last.index, last.term, last.leader.0)
}

/// The last entry covered by the snapshot of this name.
pub(crate) fn file_entry(name: &str) -> Option<EntryId> {
    let mut numbers = name.strip_suffix(SUFFIX)?.split('-').map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    let (index, term, leader) = (next()?, next()?, crate::ids::NodeId(next()?));
    let id = EntryId { term, leader, index };
    (file_name(id) == name).then_some(id)
}

pub(crate) fn wide(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("memory is addressed with 64 bits at most")
}
