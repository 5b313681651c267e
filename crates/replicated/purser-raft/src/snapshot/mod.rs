//! A group's snapshots: one file that counts, replaced as a whole.
//!
//! Invariants:
//!
//! - A snapshot counts when its bytes, its name, and the history it relies on are durable.
//! - A newer snapshot is never replaced by an older one, whoever finishes last.
//!
//! A damaged snapshot is refused by name and nothing is changed, also if an older one is still
//! there. The older one is not used instead: the log is purged for the newer one, so what lies
//! between the two may be gone, and a replica that forgets what it acknowledged is worse than one
//! that is down. Such a node is given an empty folder and gets everything from its peers.

mod file;
pub(crate) mod format;
pub(crate) mod incoming;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::{Disk, TEMPORARY_SUFFIX};
use crate::entry::EntryId;
use crate::error::OpenError;
use crate::ids::{ClusterId, GroupId};

pub(crate) use file::SnapshotFile;
use format::{Covered, file_entry, file_name};

/// Where snapshots lie and whose they are.
#[derive(Clone)]
pub(crate) struct SnapshotPlace {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) cluster: ClusterId,
    pub(crate) group: GroupId,
}

/// The snapshots of a group.
pub(crate) struct SnapshotStore {
    place: SnapshotPlace,
    state: Mutex<State>,
}

struct State {
    current: Option<SnapshotFile>,
    /// Counts the files written, so that two writers never share one.
    written: u64,
}

impl SnapshotStore {
    /// Opens the newest snapshot in a folder that exists, and removes what a crash left behind.
    pub(crate) fn open(place: SnapshotPlace) -> Result<Self, OpenError> {
        let current = newest(&*place.disk, &place.dir, (place.cluster, place.group))?;
        let in_dir = |source| OpenError::Disk { path: place.dir.clone(), source };
        let listed = place.disk.list(&place.dir).map_err(in_dir)?;
        let snapshots = listed.iter().filter(|listed| file_entry(&listed.name).is_some());
        if let Some(current) = &current {
            // Order matters: an older one is removed when this one is known to be good.
            if snapshots.count() > 1 {
                current.check_chunks()?;
            }
            // A process that was killed may have named it without making that durable, and from
            // here on the log is purged for it.
            place.disk.sync_dir(&place.dir).map_err(in_dir)?;
        }
        let kept = current.as_ref().map(SnapshotFile::path);
        for listed in &listed {
            let path = place.dir.join(&listed.name);
            let is_ours =
                listed.name.ends_with(TEMPORARY_SUFFIX) || file_entry(&listed.name).is_some();
            if is_ours && Some(&*path) != kept {
                place.disk.remove(&path).map_err(in_dir)?;
            }
        }
        Ok(Self { place, state: Mutex::new(State { current, written: 0 }) })
    }

    pub(crate) fn current(&self) -> Option<SnapshotFile> {
        self.lock().current.clone()
    }

    /// Writes a snapshot and makes it the current one, unless a newer one came first. Gives the
    /// current one. Blocks. The history it relies on must be durable.
    pub(crate) fn write(
        &self,
        covered: Covered,
        chunks: impl Iterator<Item = Vec<u8>>,
    ) -> io::Result<SnapshotFile> {
        let path = self.temporary_path();
        let whose = (self.place.cluster, self.place.group);
        let file = SnapshotFile::write(&*self.place.disk, &path, whose, covered, chunks)?;
        // A snapshot from before the first entry is no better than none; it is gone with the next
        // start.
        if file.covered().last.is_none() { Ok(file) } else { self.adopt(file) }
    }

    /// Makes a finished file in this folder the current snapshot, unless a newer one came first.
    /// Gives the current one. Blocks.
    pub(crate) fn adopt(&self, file: SnapshotFile) -> io::Result<SnapshotFile> {
        let disk = &*self.place.disk;
        // Held throughout: two writers must not overtake each other between the look and the
        // rename.
        let mut state = self.lock();
        let last = file.covered().last;
        if let Some(current) = state.current.as_ref().filter(|now| now.covered().last >= last) {
            disk.remove(file.path())?;
            return Ok(current.clone());
        }
        let last = last.ok_or_else(|| io::Error::other("a snapshot of nothing"))?;
        let path = self.place.dir.join(file_name(last));
        disk.sync_dir(&self.place.dir)?;
        disk.rename(file.path(), &path)?;
        disk.sync_dir(&self.place.dir)?;
        let file = file.renamed(path);
        if let Some(old) = state.current.replace(file.clone()) {
            // Readers that have it open go on reading it.
            disk.remove(old.path())?;
        }
        Ok(file)
    }

    /// Makes `file` the current snapshot, as [`SnapshotStore::adopt`] does; one that lies elsewhere
    /// (another store of this process) is copied first. Blocks.
    pub(crate) fn import(&self, file: SnapshotFile) -> io::Result<SnapshotFile> {
        if file.path().parent() == Some(&*self.place.dir) {
            return self.adopt(file);
        }
        let whose = (self.place.cluster, self.place.group);
        let path = self.temporary_path();
        self.adopt(file.copy(&*self.place.disk, &path, whose).map_err(io::Error::other)?)
    }

    /// A name for a file in the making.
    pub(crate) fn temporary_path(&self) -> PathBuf {
        let mut state = self.lock();
        state.written += 1;
        self.place.dir.join(format!("{}{TEMPORARY_SUFFIX}", state.written))
    }

    pub(crate) fn place(&self) -> &SnapshotPlace {
        &self.place
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The newest snapshot in a folder, with all but its chunks checked.
pub(crate) fn newest(
    disk: &dyn Disk,
    dir: &Path,
    whose: (ClusterId, GroupId),
) -> Result<Option<SnapshotFile>, OpenError> {
    let listed =
        disk.list(dir).map_err(|source| OpenError::Disk { path: dir.to_path_buf(), source })?;
    let last: Option<EntryId> =
        listed.iter().filter_map(|listed| file_entry(&listed.name)).max_by_key(|id| id.index);
    let Some(last) = last else {
        return Ok(None);
    };
    let path = dir.join(file_name(last));
    let snapshot = SnapshotFile::open(disk, &path, whose)?;
    if snapshot.covered().last == Some(last) {
        Ok(Some(snapshot))
    } else {
        let detail = "the name is not that of the snapshot in it".to_owned();
        Err(OpenError::Damaged { file: path, offset: 0, detail })
    }
}
