//! Appends records, and makes them durable when a snapshot asks.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use purser_types::{History, HistoryError, HistoryReader, Position};

use crate::disk::OpenMode;
use crate::error::OpenError;

use super::HistoryPlace;
use super::format::{
    HEADER_BYTES, HistoryMark, decode_frame, decode_header, encode_frame, encode_header, file_name,
    file_start, wide,
};
use super::reader::{GroupHistory, HistoryFile, Shared};

/// A long apply writes its frames away when this many bytes are together.
const TAIL_BYTES_MAX: usize = 4 << 20;

/// The one writer of a group's history.
pub(crate) struct HistoryWriter {
    place: HistoryPlace,
    file_bytes: u64,
    reader: GroupHistory,
    unsynced: Arc<Unsynced>,
    /// Why a write failed within [`History::append`], which can not say so.
    failure: Option<io::Error>,
}

/// Files with bytes that are not durable, and whether a name is not.
#[derive(Default)]
struct Unsynced {
    files: Mutex<BTreeSet<u64>>,
    /// Held during a sync; says whether one has failed. After that nobody knows what is durable.
    failed: Mutex<bool>,
}

/// Makes what was written so far durable; for another thread than the writer's.
pub(crate) struct HistorySync {
    place: HistoryPlace,
    reader: GroupHistory,
    unsynced: Arc<Unsynced>,
}

impl HistoryWriter {
    /// Opens the stream in a folder that exists and cuts it to `mark`, which a snapshot knew.
    ///
    /// Reads headers and the last frame before the cut, whatever the length of the stream.
    pub(crate) fn open(
        place: HistoryPlace,
        file_bytes: u64,
        mark: HistoryMark,
    ) -> Result<Self, OpenError> {
        let in_dir = |source| OpenError::Disk { path: place.dir.clone(), source };
        let listed = place.disk.list(&place.dir).map_err(in_dir)?;
        let starts = listed.iter().filter_map(|listed| file_start(&listed.name));
        let (kept, cut): (Vec<u64>, Vec<u64>) = starts.partition(|start| *start < mark.length);
        for start in cut {
            place.disk.remove(&place.dir.join(file_name(start))).map_err(in_dir)?;
        }
        let mut files = BTreeMap::new();
        for (number, &start) in kept.iter().enumerate() {
            let end = kept.get(number + 1).copied().unwrap_or(mark.length);
            let expected = if number == 0 { 0 } else { start };
            if start != expected {
                let file = place.dir.join(file_name(start));
                return Err(damaged(file, 0, "the history before this file is missing"));
            }
            files.insert(start, Arc::new(open_file(&place, start, end)?));
        }
        if mark.length > 0 && files.is_empty() {
            let file = place.dir.join(file_name(0));
            return Err(damaged(file, 0, "the history that the snapshot needs is missing"));
        }
        let unsynced =
            Unsynced { files: Mutex::new(files.keys().copied().collect()), ..Unsynced::default() };
        let shared = Shared { files, tail: Vec::new(), tail_start: mark.length, mark };
        let reader = GroupHistory::new(Arc::new(RwLock::new(shared)));
        if mark.length > 0 {
            check_mark(&place, &reader, mark)?;
        }
        Ok(Self { place, file_bytes, reader, unsynced: Arc::new(unsynced), failure: None })
    }

    pub(crate) fn reader(&self) -> GroupHistory {
        self.reader.clone()
    }

    /// What [`HistorySync::sync`] is called on.
    pub(crate) fn syncer(&self) -> HistorySync {
        let reader = self.reader.clone();
        HistorySync { place: self.place.clone(), reader, unsynced: Arc::clone(&self.unsynced) }
    }

    /// Writes the frames in memory to the files. Not durable before a sync.
    ///
    /// Also tells of a write that failed within [`History::append`].
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let shared = self.reader.lock_mut();
        if shared.tail.is_empty() {
            return Ok(());
        }
        let start = shared.tail_start;
        drop(shared);
        let file = self.file_for(start)?;
        // Readers see the frames in memory until they are in the file.
        let mut shared = self.reader.lock_mut();
        file.file.write_at(&shared.tail, start - file.start + wide(HEADER_BYTES))?;
        shared.tail_start = shared.mark.length;
        shared.tail.clear();
        drop(shared);
        self.unsynced.files.lock().unwrap_or_else(PoisonError::into_inner).insert(file.start);
        Ok(())
    }

    /// Appends frames that come from another replica's stream, right behind the end. They are
    /// checked; what does not continue the stream is an error and appended in part.
    ///
    /// Gives how many bytes were whole frames.
    pub(crate) fn append_frames(&mut self, mut bytes: &[u8]) -> io::Result<usize> {
        let mut taken = 0;
        while let Some(length) = super::format::record_length(bytes) {
            let frame_bytes = super::format::FRAME_HEADER_BYTES.saturating_add(length);
            let Some((frame, rest)) = bytes.split_at_checked(frame_bytes) else {
                break;
            };
            let mark = self.reader.mark();
            match decode_frame(frame, Position(mark.length)) {
                Some(decoded) if decoded.previous == mark.crc => {
                    self.append(decoded.record);
                }
                _ => {
                    let text = format!("the received history breaks off at {}", mark.length);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
            }
            taken += frame_bytes;
            bytes = rest;
        }
        self.flush()?;
        Ok(taken)
    }

    /// The file that the frame at `start` goes to: the last one, or a new one if that is full.
    fn file_for(&self, start: u64) -> io::Result<Arc<HistoryFile>> {
        let shared = self.reader.lock_mut();
        let last = shared.files.last_key_value().map(|(_, file)| Arc::clone(file));
        let previous = match shared.tail.get(4..8).and_then(<[u8]>::first_chunk::<4>) {
            Some(previous) => u32::from_le_bytes(*previous),
            None => shared.mark.crc,
        };
        drop(shared);
        if let Some(last) = last
            && start - last.start < self.file_bytes
        {
            return Ok(last);
        }
        let path = self.place.dir.join(file_name(start));
        let file = self.place.disk.open(&path, OpenMode::Create)?;
        let header = encode_header(self.place.cluster, self.place.group, start, previous);
        file.write_at(&header, 0)?;
        let file = Arc::new(HistoryFile { start, file });
        self.reader.lock_mut().files.insert(start, Arc::clone(&file));
        Ok(file)
    }
}

fn open_file(place: &HistoryPlace, start: u64, end: u64) -> Result<HistoryFile, OpenError> {
    let path = place.dir.join(file_name(start));
    let disk_error = |source| OpenError::Disk { path: path.clone(), source };
    let file = place.disk.open(&path, OpenMode::Write).map_err(disk_error)?;
    let expected = end - start + wide(HEADER_BYTES);
    let length = file.length().map_err(disk_error)?;
    if length < expected {
        return Err(damaged(path, length, "the file ends too early"));
    }
    let mut header = [0; HEADER_BYTES];
    file.read_at(&mut header, 0).map_err(disk_error)?;
    if decode_header(&header, place.cluster, place.group, start).is_none() {
        return Err(damaged(path, 0, "not the header of this file"));
    }
    if length > expected {
        file.set_len(expected).map_err(disk_error)?;
    }
    Ok(HistoryFile { start, file })
}

fn check_mark(
    place: &HistoryPlace,
    reader: &GroupHistory,
    mark: HistoryMark,
) -> Result<(), OpenError> {
    match reader.checksum_at(mark.last, mark.length) {
        Ok(crc) if crc == mark.crc => Ok(()),
        Ok(_) => {
            let detail = format!("the record at {} is not the one the snapshot knew", mark.last);
            Err(OpenError::Damaged { file: place.dir.clone(), offset: mark.last, detail })
        }
        Err(HistoryError::Disk(source)) => Err(OpenError::Disk { path: place.dir.clone(), source }),
        Err(error) => {
            let detail = error.to_string();
            Err(OpenError::Damaged { file: place.dir.clone(), offset: mark.last, detail })
        }
    }
}

fn damaged(file: PathBuf, offset: u64, detail: &str) -> OpenError {
    OpenError::Damaged { file, offset, detail: detail.to_owned() }
}

impl HistoryReader for HistoryWriter {
    fn read(&self, position: Position) -> Result<Vec<u8>, HistoryError> {
        self.reader.read(position)
    }
}

impl History for HistoryWriter {
    fn append(&mut self, record: &[u8]) -> Position {
        let mut shared = self.reader.lock_mut();
        let mark = shared.mark;
        let position = Position(mark.length);
        let crc = encode_frame(&mut shared.tail, position, mark.crc, record);
        let length = shared.tail_start + wide(shared.tail.len());
        shared.mark = HistoryMark { length, crc, last: mark.length };
        let is_long = shared.tail.len() >= TAIL_BYTES_MAX;
        drop(shared);
        if is_long && self.failure.is_none() {
            self.failure = self.flush().err();
        }
        position
    }
}

impl HistorySync {
    /// Makes durable what was flushed before the call, or fails for good. Blocks.
    pub(crate) fn sync(&self) -> io::Result<()> {
        // Order matters: what another thread is syncing is not durable before it is done.
        let mut failed = self.unsynced.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if *failed {
            return Err(io::Error::other("an earlier sync of the history has failed"));
        }
        let synced = self.sync_files();
        *failed = synced.is_err();
        synced
    }

    fn sync_files(&self) -> io::Result<()> {
        let unsynced = {
            let mut files = self.unsynced.files.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *files)
        };
        if unsynced.is_empty() {
            return Ok(());
        }
        for start in unsynced {
            let file = self.reader.lock_mut().files.get(&start).map(|file| Arc::clone(&file.file));
            if let Some(file) = file {
                file.sync_data()?;
            }
        }
        self.place.disk.sync_dir(&self.place.dir)
    }
}
