//! Reads a stream from its files, frame by frame, and stops where it breaks off. For checking and
//! auditing; a running group reads by position.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use purser_types::Position;

use crate::disk::{DiskFile, OpenMode};

use super::HistoryPlace;
use super::format::{
    FRAME_HEADER_BYTES, HEADER_BYTES, HistoryMark, decode_frame, decode_header, file_name,
    file_start, record_length, wide,
};

/// Read from a file at once.
const CHUNK_BYTES: u64 = 1 << 20;

/// Where the stream breaks off, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Break {
    pub(crate) file: PathBuf,
    pub(crate) offset: u64,
    pub(crate) detail: &'static str,
}

/// Gives the frames of a stream.
pub(crate) struct HistoryScan {
    place: HistoryPlace,
    files: BTreeMap<u64, Arc<dyn DiskFile>>,
    /// The start and the end, in the stream, of the file that is being read.
    current: Option<(u64, u64)>,
    mark: HistoryMark,
    /// Read ahead, from `mark.length` on.
    ahead: Vec<u8>,
    taken: usize,
    broken: Option<Break>,
}

impl HistoryScan {
    /// Starts behind `from`, which must be the end of a frame.
    pub(crate) fn open(place: HistoryPlace, from: HistoryMark) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        for listed in place.disk.list(&place.dir)? {
            if let Some(start) = file_start(&listed.name) {
                let path = place.dir.join(&listed.name);
                files.insert(start, place.disk.open(&path, OpenMode::Read)?);
            }
        }
        Ok(Self {
            place,
            files,
            current: None,
            mark: from,
            ahead: Vec::new(),
            taken: 0,
            broken: None,
        })
    }

    /// Behind the last good frame.
    pub(crate) fn mark(&self) -> HistoryMark {
        self.mark
    }

    /// Why the stream ends where it does, if that is not its end.
    pub(crate) fn broken(&self) -> Option<&Break> {
        self.broken.as_ref()
    }

    /// The files, by the position of their first frame.
    pub(crate) fn files(&self) -> &BTreeMap<u64, Arc<dyn DiskFile>> {
        &self.files
    }

    /// The next record; `None` at the end, or where the stream breaks off.
    pub(crate) fn next_record(&mut self) -> io::Result<Option<(Position, Vec<u8>)>> {
        if self.broken.is_some() || !self.enter_file()? {
            return Ok(None);
        }
        let Some((start, end)) = self.current else {
            return Ok(None);
        };
        let left = end - self.mark.length;
        self.read_ahead(wide(FRAME_HEADER_BYTES).min(left), start)?;
        let needed = record_length(self.unread()).map(|length| FRAME_HEADER_BYTES + length);
        let needed = needed.map(wide).filter(|needed| *needed <= left);
        let Some(needed) = needed else {
            return Ok(self.break_off("a frame is cut off, or its length is damaged"));
        };
        self.read_ahead(needed, start)?;
        let position = Position(self.mark.length);
        let Some(frame) = decode_frame(self.unread(), position) else {
            return Ok(self.break_off("a record does not match its checksum"));
        };
        if frame.previous != self.mark.crc {
            return Ok(self.break_off("a record does not follow the one before it"));
        }
        let record = frame.record.to_vec();
        self.mark = self.mark.after(&frame);
        self.taken += FRAME_HEADER_BYTES + record.len();
        Ok(Some((position, record)))
    }

    /// Makes the file with the next frame the current one. `false` at the end.
    fn enter_file(&mut self) -> io::Result<bool> {
        let next = self.mark.length;
        if self.current.is_some_and(|(_, end)| next < end) {
            return Ok(true);
        }
        self.ahead.clear();
        self.taken = 0;
        let Some((&start, file)) = self.files.range(..=next).next_back() else {
            if let Some(&start) = self.files.keys().next() {
                self.broken = Some(self.break_in(start, 0, "the history before this is missing"));
            }
            return Ok(false);
        };
        let length = file.length()?;
        let mut header = vec![0; HEADER_BYTES.min(usize::try_from(length).unwrap_or(HEADER_BYTES))];
        file.read_at(&mut header, 0)?;
        let previous = decode_header(&header, self.place.cluster, self.place.group, start);
        let follows = start != next || previous == Some(self.mark.crc);
        if previous.is_none() || !follows {
            self.broken = Some(self.break_in(start, 0, "not the header of this file"));
            return Ok(false);
        }
        let end = start + length - wide(HEADER_BYTES);
        self.current = Some((start, end));
        if next < end {
            return Ok(true);
        }
        if let Some((&later, _)) = self.files.range(next.saturating_add(1)..).next() {
            self.broken = Some(self.break_in(later, 0, "the history before this is missing"));
        }
        Ok(false)
    }

    fn unread(&self) -> &[u8] {
        self.ahead.get(self.taken..).unwrap_or_default()
    }

    /// Has at least `needed` bytes of the current file ready.
    fn read_ahead(&mut self, needed: u64, start: u64) -> io::Result<()> {
        if wide(self.unread().len()) >= needed {
            return Ok(());
        }
        let Some((_, end)) = self.current else {
            return Ok(());
        };
        let length = needed.max(CHUNK_BYTES).min(end - self.mark.length);
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        if let Some(file) = self.files.get(&start) {
            file.read_at(&mut bytes, self.mark.length - start + wide(HEADER_BYTES))?;
        }
        self.ahead = bytes;
        self.taken = 0;
        Ok(())
    }

    fn break_off<T>(&mut self, detail: &'static str) -> Option<T> {
        if let Some((start, _)) = self.current {
            let offset = self.mark.length - start + wide(HEADER_BYTES);
            self.broken = Some(self.break_in(start, offset, detail));
        }
        None
    }

    fn break_in(&self, start: u64, offset: u64, detail: &'static str) -> Break {
        Break { file: self.place.dir.join(file_name(start)), offset, detail }
    }
}
