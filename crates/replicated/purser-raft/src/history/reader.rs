//! Reads records by position, from memory or from the files.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use purser_types::{HistoryError, HistoryReader, Position};

use crate::disk::DiskFile;

use super::format::{
    FRAME_HEADER_BYTES, HEADER_BYTES, HistoryMark, decode_frame, file_name, record_length, wide,
};

/// Enough for most records, so that most reads are one call.
const FIRST_READ_BYTES: u64 = 1024;

/// A record, and where it stands.
pub type Placed = (Position, Vec<u8>);

/// Reads a group's history. Clones are cheap, and see what is appended later.
#[derive(Clone)]
pub struct GroupHistory {
    shared: Arc<RwLock<Shared>>,
}

/// What writer and readers share.
#[derive(Default)]
pub(super) struct Shared {
    /// By the position of the first frame.
    pub(super) files: BTreeMap<u64, Arc<HistoryFile>>,
    /// Frames that are not in the files yet.
    pub(super) tail: Vec<u8>,
    /// Where `tail` starts.
    pub(super) tail_start: u64,
    /// Behind the last frame.
    pub(super) mark: HistoryMark,
}

pub(super) struct HistoryFile {
    pub(super) start: u64,
    pub(super) file: Arc<dyn DiskFile>,
}

impl GroupHistory {
    pub(super) fn new(shared: Arc<RwLock<Shared>>) -> Self {
        Self { shared }
    }

    /// Reads files that nobody writes, up to `mark`.
    pub(crate) fn of_files(files: BTreeMap<u64, Arc<dyn DiskFile>>, mark: HistoryMark) -> Self {
        let files =
            files.into_iter().map(|(start, file)| (start, Arc::new(HistoryFile { start, file })));
        let tail_start = mark.length;
        let shared = Shared { files: files.collect(), tail: Vec::new(), tail_start, mark };
        Self::new(Arc::new(RwLock::new(shared)))
    }

    /// Bytes of the whole stream.
    pub(crate) fn length(&self) -> u64 {
        self.lock().mark.length
    }

    /// Behind the last record: where the next one will stand.
    pub fn end(&self) -> Position {
        Position(self.length())
    }

    /// The records from `from` on, where one has to start, up to `end`, and where the next one stands: as
    /// many as fit into about `bytes_max` bytes, and at least one if there is one.
    pub fn records(
        &self,
        from: Position,
        end: Position,
        bytes_max: u64,
    ) -> Result<(Vec<Placed>, Position), HistoryError> {
        let (mut records, mut next) = (Vec::new(), from);
        let end = Position(end.0.min(self.length()));
        while next < end && next.0.saturating_sub(from.0) < bytes_max {
            let bytes = self.frames(next, end, bytes_max)?;
            let mut taken = 0;
            while let Some(frame) = decode_frame(bytes.get(taken..).unwrap_or_default(), next) {
                records.push((next, frame.record.to_vec()));
                taken = taken.saturating_add(FRAME_HEADER_BYTES + frame.record.len());
                next = Position(frame.end(next.0));
            }
            if taken == 0 {
                return Err(self.damaged(next, "the record does not match its checksum"));
            }
        }
        Ok((records, next))
    }

    /// About `bytes_max` bytes of whole frames from `from` on, and at least the first one, unchecked.
    fn frames(
        &self,
        from: Position,
        end: Position,
        bytes_max: u64,
    ) -> Result<Vec<u8>, HistoryError> {
        let bytes = self.raw(from.0, end.0, bytes_max).map_err(HistoryError::Disk)?;
        let first = record_length(&bytes).map(|record| FRAME_HEADER_BYTES.saturating_add(record));
        if first.is_some_and(|first| first <= bytes.len()) {
            return Ok(bytes);
        }
        self.frame_bytes(from)
    }

    pub(crate) fn mark(&self) -> HistoryMark {
        self.lock().mark
    }

    /// The checksum of the frame at `last`, if a frame starts there and ends at `length`.
    pub(crate) fn checksum_at(&self, last: u64, length: u64) -> Result<u32, HistoryError> {
        let position = Position(last);
        let bytes = self.frame_bytes(position)?;
        match decode_frame(&bytes, position) {
            Some(frame) if frame.end(last) == length => Ok(frame.crc),
            Some(_) => Err(HistoryError::NoRecord(Position(length))),
            None => Err(self.damaged(position, "the record does not match its checksum")),
        }
    }

    /// About `bytes_max` bytes of the stream from `start` on, as they are in the files or in
    /// memory; fewer at a seam. `start` need not be the start of a frame.
    pub(crate) fn raw(&self, start: u64, end: u64, bytes_max: u64) -> io::Result<Vec<u8>> {
        let shared = self.lock();
        let end = end.min(shared.mark.length);
        if start >= shared.tail_start {
            let length = end.saturating_sub(start).min(bytes_max);
            return shared.read_tail(start, length);
        }
        let end = end.min(shared.tail_start);
        let (file, file_end) = shared.file_of(start).ok_or(io::ErrorKind::NotFound)?;
        drop(shared);
        let length = file_end.min(end).saturating_sub(start).min(bytes_max);
        read_file(&file, start, length)
    }

    fn lock(&self) -> RwLockReadGuard<'_, Shared> {
        self.shared.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock_mut(&self) -> RwLockWriteGuard<'_, Shared> {
        self.shared.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// At least the bytes of the frame at `position`, unchecked.
    fn frame_bytes(&self, position: Position) -> Result<Vec<u8>, HistoryError> {
        let length = self.length();
        let left = length.checked_sub(position.0).filter(|left| *left > 0);
        let left = left.ok_or(HistoryError::NoRecord(position))?;
        let first = left.min(FIRST_READ_BYTES);
        let mut bytes = self.raw(position.0, length, first).map_err(HistoryError::Disk)?;
        let Some(record) = record_length(&bytes) else {
            return Err(self.damaged(position, "the frame is cut off"));
        };
        let needed = wide(FRAME_HEADER_BYTES.saturating_add(record));
        if needed > left {
            return Err(self.damaged(position, "the record does not match its checksum"));
        }
        if needed > wide(bytes.len()) {
            bytes = self.raw(position.0, length, needed).map_err(HistoryError::Disk)?;
        }
        Ok(bytes)
    }

    fn damaged(&self, position: Position, detail: &str) -> HistoryError {
        let shared = self.lock();
        let place = shared.file_of(position.0).map_or_else(
            || "in memory".to_owned(),
            |(file, _)| {
                let offset = position.0 - file.start + wide(HEADER_BYTES);
                format!("{} at offset {offset}", file_name(file.start))
            },
        );
        HistoryError::Damaged { position, detail: format!("{place}: {detail}") }
    }
}

impl HistoryReader for GroupHistory {
    fn read(&self, position: Position) -> Result<Vec<u8>, HistoryError> {
        let mut bytes = self.frame_bytes(position)?;
        let Some(frame) = decode_frame(&bytes, position) else {
            return Err(self.damaged(position, "the record does not match its checksum"));
        };
        let end = FRAME_HEADER_BYTES + frame.record.len();
        bytes.truncate(end);
        bytes.drain(..FRAME_HEADER_BYTES);
        Ok(bytes)
    }
}

impl Shared {
    fn read_tail(&self, start: u64, length: u64) -> io::Result<Vec<u8>> {
        let from = usize::try_from(start - self.tail_start).map_err(io::Error::other)?;
        let length = usize::try_from(length).map_err(io::Error::other)?;
        let part = self.tail.get(from..from.saturating_add(length));
        part.map(<[u8]>::to_vec).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// The file with the byte at `position`, and where that file's part of the stream ends.
    fn file_of(&self, position: u64) -> Option<(Arc<HistoryFile>, u64)> {
        if position >= self.tail_start {
            return None;
        }
        let (_, file) = self.files.range(..=position).next_back()?;
        let next = self.files.range(position.saturating_add(1)..).next();
        Some((Arc::clone(file), next.map_or(self.tail_start, |(start, _)| *start)))
    }
}

fn read_file(file: &HistoryFile, start: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    file.file.read_at(&mut bytes, start - file.start + wide(HEADER_BYTES))?;
    Ok(bytes)
}
