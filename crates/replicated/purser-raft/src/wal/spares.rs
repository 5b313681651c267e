//! Zero-filled segments made ahead of time, by a thread of their own.
//!
//! A write into blocks that exist and were written before is one disk operation; into a growing
//! file it is two or three. Filling 64 MiB takes longer than a commit may, so it happens before the
//! segment is needed. Old segments are filled again rather than given back to the file system.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::disk::{Disk, DiskFile, OpenMode};

use super::WalPlace;

/// Ends the name of a file without records. It means nothing after a restart.
pub(crate) const SPARE_SUFFIX: &str = ".spare";

/// One in the making while one is ready is enough: filling is faster than any log.
const READY_MAX: usize = 1;

const CHUNK_BYTES: usize = 1 << 20;

/// The spare segments of a log.
pub(super) struct Spares {
    shared: Arc<Shared>,
    filler: Option<JoinHandle<()>>,
}

struct Shared {
    place: WalPlace,
    segment_bytes: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    ready: VecDeque<PathBuf>,
    to_fill: VecDeque<PathBuf>,
    made: u64,
    closing: bool,
    /// Set when nothing is filled any more.
    has_ended: bool,
}

impl Spares {
    pub(super) fn start(place: WalPlace, segment_bytes: u64) -> io::Result<Self> {
        let state = Mutex::new(State::default());
        let shared = Arc::new(Shared { place, segment_bytes, state, changed: Condvar::new() });
        let filling = Arc::clone(&shared);
        let filler =
            std::thread::Builder::new().name("wal-spares".into()).spawn(move || filling.fill())?;
        Ok(Self { shared, filler: Some(filler) })
    }

    /// A zero-filled, durable file of at least `length`, if one is ready.
    pub(super) fn take(&self, length: u64) -> Option<PathBuf> {
        if length > self.shared.segment_bytes {
            return None;
        }
        let spare = self.shared.lock().ready.pop_front();
        self.shared.changed.notify_all();
        spare
    }

    /// Takes an old segment to be filled again, or removes it.
    pub(super) fn recycle(&self, path: &Path) -> io::Result<()> {
        let place = &self.shared.place;
        if self.shared.lock().has_ended {
            place.disk.remove(path)?;
            return place.disk.sync_dir(&place.dir);
        }
        let spare = self.shared.spare_path();
        // Order matters: the old name must be gone for good before the first zero is written, or
        // a crash would leave a segment that looks damaged.
        place.disk.rename(path, &spare)?;
        place.disk.sync_dir(&place.dir)?;
        let mut state = self.shared.lock();
        if state.has_ended {
            drop(state);
            return place.disk.remove(&spare);
        }
        state.to_fill.push_back(spare);
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.changed.notify_all();
        if let Some(filler) = self.filler.take()
            && filler.join().is_err()
        {
            tracing::error!("the thread that fills log segments panicked");
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spare_path(&self) -> PathBuf {
        let mut state = self.lock();
        state.made += 1;
        self.place.dir.join(format!("{}{SPARE_SUFFIX}", state.made))
    }

    fn fill(&self) {
        loop {
            let mut state = self.lock();
            while !state.closing && state.ready.len() >= READY_MAX && state.to_fill.is_empty() {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.closing {
                return;
            }
            let old = state.to_fill.pop_front();
            let enough = state.ready.len() >= READY_MAX;
            drop(state);
            let result = match old {
                Some(path) if enough => self.place.disk.remove(&path),
                Some(path) => self.make(path, OpenMode::Write),
                None => self.make(self.spare_path(), OpenMode::Create),
            };
            if let Err(error) = result {
                // Not fatal: the log makes its segments itself when it finds none, and fails
                // loudly if it can not.
                tracing::warn!(error = %error, "a spare log segment could not be made");
                self.lock().has_ended = true;
                self.changed.notify_all();
                return;
            }
        }
    }

    fn make(&self, path: PathBuf, mode: OpenMode) -> io::Result<()> {
        let file = self.place.disk.open(&path, mode)?;
        file.set_len(self.segment_bytes)?;
        zero_fill(&*file, self.segment_bytes)?;
        self.lock().ready.push_back(path);
        Ok(())
    }
}

/// Writes zeros over the first `length` bytes, durably.
pub(super) fn zero_fill(file: &dyn DiskFile, length: u64) -> io::Result<()> {
    let zeros = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    while offset < length {
        let rest = usize::try_from(length - offset).unwrap_or(CHUNK_BYTES);
        let chunk = zeros.get(..rest).unwrap_or(&zeros);
        file.write_at(chunk, offset)?;
        offset += super::format::wide(chunk.len());
    }
    file.sync_data()
}

/// Removes the spare files that an earlier process left: nobody knows whether they are all zeros.
pub(super) fn remove_left_over(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    for listed in disk.list(dir)? {
        if listed.name.ends_with(SPARE_SUFFIX) {
            disk.remove(&dir.join(&listed.name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::disk::RealDisk;
    use crate::ids::{ClusterId, NodeId};

    use super::*;

    #[test]
    fn old_segments_do_not_pile_up_when_nobody_fills_them_any_more() {
        let dir = tempfile::tempdir().unwrap();
        // A folder in its way is as good as a full disk.
        std::fs::create_dir(dir.path().join(format!("1{SPARE_SUFFIX}"))).unwrap();
        let place = WalPlace {
            disk: Arc::new(RealDisk),
            dir: dir.path().to_path_buf(),
            cluster: ClusterId::from_bytes([1; 16]),
            node: NodeId(1),
        };
        let spares = Spares::start(place, 4096).unwrap();
        let state = spares.shared.lock();
        let ended = spares.shared.changed.wait_while(state, |state| !state.has_ended);
        drop(ended.unwrap());

        let old = dir.path().join("old");
        std::fs::write(&old, b"records").unwrap();
        spares.recycle(&old).unwrap();
        assert!(!old.exists());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "only what was in the way");
    }
}
