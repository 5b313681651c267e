//! A snapshot on its way in: the file as it arrives, and the part of the history that this node
//! lacks.
//!
//! Both are written beside what the group uses, and only [`Spool::append_to`] and
//! [`super::SnapshotStore::adopt`] make them part of it. A transfer that breaks off leaves the
//! spool, so the next one goes on where it ended; a restart of the node forgets it.
//!
//! Invariants:
//!
//! - Whatever is not adopted removes its file when it is dropped.
//! - [`Incoming::end`] returns when no file of a transfer is left, and none follows.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use purser_types::Position;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::disk::{Disk, DiskFile, OpenMode};
use crate::history::HistoryWriter;
use crate::history::format::{FRAME_HEADER_BYTES, HistoryMark, decode_frame, record_length};

use super::format::wide;
use super::{SnapshotFile, SnapshotStore};

/// Read back from the spool at once.
const CHUNK_BYTES: u64 = 1 << 20;

/// What openraft carries from one place to another.
pub(crate) struct SnapshotData {
    pub(crate) file: CarriedFile,
    /// Set on a snapshot that came from another node.
    pub(crate) history: Option<Spool>,
}

/// A snapshot file that openraft carries, and if it came from another node, the owner of its name.
pub(crate) struct CarriedFile {
    file: SnapshotFile,
    arrived: Option<IncomingFile>,
}

impl CarriedFile {
    pub(crate) fn snapshot(&self) -> &SnapshotFile {
        &self.file
    }

    /// Says that the group has taken the file over.
    pub(crate) fn adopted(&mut self) {
        if let Some(arrived) = &mut self.arrived {
            arrived.is_adopted = true;
        }
    }
}

impl From<SnapshotFile> for CarriedFile {
    fn from(file: SnapshotFile) -> Self {
        Self { file, arrived: None }
    }
}

/// A part of the stream, raw, not checked yet.
pub(crate) struct Spool {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    start: u64,
    bytes: u64,
    /// Dropped after the file was removed.
    _arriving: TaskTrackerToken,
}

/// Where a group's incoming snapshots are put together.
pub(crate) struct Incoming {
    snapshots: Arc<SnapshotStore>,
    kept: Mutex<Kept>,
    /// One token for each file.
    arriving: TaskTracker,
}

/// What is there for the next transfer.
enum Kept {
    Nothing,
    /// What a broken transfer left.
    Spool(Spool),
    /// There will be no next one.
    Ended,
}

impl Incoming {
    pub(crate) fn new(snapshots: Arc<SnapshotStore>) -> Self {
        Self { snapshots, kept: Mutex::new(Kept::Nothing), arriving: TaskTracker::new() }
    }

    /// Refuses further transfers and waits until the files of running ones are gone.
    pub(crate) async fn end(&self) {
        drop(std::mem::replace(&mut *self.lock(), Kept::Ended));
        self.arriving.close();
        self.arriving.wait().await;
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A token for a file, unless the group has ended.
    fn arrive(&self) -> io::Result<TaskTrackerToken> {
        // Under the lock: after an end no token is given that nobody waits for.
        match *self.lock() {
            Kept::Ended => Err(io::Error::other("the group has ended")),
            Kept::Nothing | Kept::Spool(_) => Ok(self.arriving.token()),
        }
    }

    /// The spool to go on with for a node whose history ends at `length`: what a broken transfer
    /// left, if it starts at or before that, or a new one.
    pub(crate) fn take_spool(&self, length: u64) -> io::Result<Spool> {
        let arriving = self.arrive()?;
        if let Some(spool) = self.take_kept()
            && spool.start <= length
            && spool.end() >= length
        {
            return Ok(spool);
        }
        let path = self.snapshots.temporary_path();
        let disk = Arc::clone(&self.snapshots.place().disk);
        let file = disk.open(&path, OpenMode::Create)?;
        Ok(Spool { disk, path, file, start: length, bytes: 0, _arriving: arriving })
    }

    fn take_kept(&self) -> Option<Spool> {
        let mut kept = self.lock();
        match std::mem::replace(&mut *kept, Kept::Nothing) {
            Kept::Nothing => None,
            Kept::Spool(spool) => Some(spool),
            Kept::Ended => {
                *kept = Kept::Ended;
                None
            }
        }
    }

    /// Keeps what a broken transfer brought.
    pub(crate) fn keep(&self, spool: Spool) {
        let mut kept = self.lock();
        if !matches!(*kept, Kept::Ended) {
            *kept = Kept::Spool(spool);
        }
    }

    /// A new file for the snapshot's bytes.
    pub(crate) fn new_file(&self) -> io::Result<IncomingFile> {
        let arriving = self.arrive()?;
        let path = self.snapshots.temporary_path();
        let disk = Arc::clone(&self.snapshots.place().disk);
        let file = disk.open(&path, OpenMode::Create)?;
        Ok(IncomingFile { disk, path, file, bytes: 0, is_adopted: false, _arriving: arriving })
    }

    /// Checks a file that has arrived as a whole. Blocks.
    pub(crate) fn finish(&self, incoming: IncomingFile) -> io::Result<CarriedFile> {
        incoming.file.sync_data()?;
        let place = self.snapshots.place();
        let whose = (place.cluster, place.group);
        let file = SnapshotFile::open(&*place.disk, &incoming.path, whose);
        let file = file.map_err(io::Error::other)?;
        file.check_chunks().map_err(io::Error::other)?;
        Ok(CarriedFile { file, arrived: Some(incoming) })
    }
}

/// The bytes of a snapshot file as they arrive. Removed again unless adopted.
pub(crate) struct IncomingFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    bytes: u64,
    is_adopted: bool,
    /// Dropped after the file was removed.
    _arriving: TaskTrackerToken,
}

impl IncomingFile {
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(bytes, self.bytes)?;
        self.bytes += wide(bytes.len());
        Ok(())
    }
}

impl Drop for IncomingFile {
    fn drop(&mut self) {
        if !self.is_adopted {
            remove(&*self.disk, &self.path);
        }
    }
}

impl Spool {
    /// Where in the stream it ends.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.bytes
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(bytes, self.bytes)?;
        self.bytes += wide(bytes.len());
        Ok(())
    }

    /// Checks that what has arrived leads from one mark to the other, frame by frame. Blocks.
    pub(crate) fn check(&self, from: HistoryMark, upto: HistoryMark) -> io::Result<()> {
        let mut mark = from;
        let mut read_to = from.length;
        let mut carried: Vec<u8> = Vec::new();
        while mark.length < upto.length {
            let chunk = self.read(read_to, upto.length)?;
            read_to += wide(chunk.len());
            carried.extend_from_slice(&chunk);
            let mut rest = carried.as_slice();
            while let Some(bytes) = whole_frame_bytes(rest, upto.length - mark.length)? {
                let (frame, behind) = rest.split_at(bytes);
                let frame = decode_frame(frame, Position(mark.length))
                    .filter(|frame| frame.previous == mark.crc)
                    .ok_or_else(|| breaks_off(mark))?;
                mark = mark.after(&frame);
                rest = behind;
            }
            carried = rest.to_vec();
        }
        if mark == upto { Ok(()) } else { Err(breaks_off(mark)) }
    }

    /// A chunk from `next` on, not beyond `end`; an error if there is nothing.
    fn read(&self, next: u64, end: u64) -> io::Result<Vec<u8>> {
        let Some(offset) = next.checked_sub(self.start) else {
            return Err(io::Error::other("the received history starts too late"));
        };
        let length = CHUNK_BYTES.min(end.min(self.end()).saturating_sub(next));
        if length == 0 {
            return Err(io::Error::other("the received history ends too early"));
        }
        let mut chunk = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        self.file.read_at(&mut chunk, offset)?;
        Ok(chunk)
    }

    /// Appends what `history` still lacks of the stream up to `upto`, each frame checked. Not
    /// durable before a sync. Blocks.
    pub(crate) fn append_to(
        &self,
        history: &mut HistoryWriter,
        upto: HistoryMark,
    ) -> io::Result<()> {
        let mut next = history.reader().length();
        let mut carried: Vec<u8> = Vec::new();
        while next < upto.length {
            let chunk = self.read(next, upto.length)?;
            next += wide(chunk.len());
            carried.extend_from_slice(&chunk);
            let taken = history.append_frames(&carried)?;
            carried.drain(..taken);
        }
        if history.reader().mark() == upto {
            Ok(())
        } else {
            Err(io::Error::other("the received history is not the one the snapshot relies on"))
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        remove(&*self.disk, &self.path);
    }
}

/// The length of the first frame, if it is whole; an error if it would be longer than the `left`
/// bytes that there may be, so that a damaged length is not waited for.
fn whole_frame_bytes(bytes: &[u8], left: u64) -> io::Result<Option<usize>> {
    let Some(length) = record_length(bytes) else {
        return Ok(None);
    };
    let frame_bytes = FRAME_HEADER_BYTES.saturating_add(length);
    if wide(frame_bytes) > left {
        let text = "a frame of the received history is longer than the rest of it";
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok((bytes.len() >= frame_bytes).then_some(frame_bytes))
}

fn breaks_off(mark: HistoryMark) -> io::Error {
    let text = format!("the received history breaks off at {}", mark.length);
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Removes a temporary file. One that stays is removed at the next start.
fn remove(disk: &dyn Disk, path: &std::path::Path) {
    if let Err(error) = disk.remove(path) {
        tracing::debug!(path = %path.display(), error = %error, "a temporary file stays behind");
    }
}
