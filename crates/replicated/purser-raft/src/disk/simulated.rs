//! A disk in memory that behaves as badly as a real one may.
//!
//! Un-synced writes are lost, kept or torn when the machine loses power; names that were not synced
//! are lost from some point on. Every call that changes something is a numbered *write point*, at
//! which the power can fail or the disk can refuse. All randomness comes from the seed.
//!
//! A process that ends leaves everything visible, durable or not. A file that it had open is dead
//! afterwards: what an old incarnation still tries to write is an error.

mod world;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Disk, DiskFile, DiskLock, Listed, OpenMode};

use world::{Change, Renaming, World};

/// What happens at a write point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFault {
    /// The power fails: this call may have happened, in part; every later one is an error until
    /// [`SimulatedDisk::restart`].
    PowerLoss,
    /// The call fails with an I/O error, and so does everything after it that changes the disk.
    InputOutput,
    /// The call fails for lack of space, and so does everything after it that changes the disk.
    NoSpace,
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone)]
pub struct SimulatedDisk {
    world: Arc<Mutex<World>>,
}

impl SimulatedDisk {
    /// An empty disk whose misfortunes follow from `seed`.
    pub fn from_seed(seed: u64) -> Self {
        Self::of(World::from_seed(seed))
    }

    fn of(world: World) -> Self {
        Self { world: Arc::new(Mutex::new(world)) }
    }

    /// Another disk that is as this one is now, durable or not, and whose misfortunes follow from
    /// `seed`.
    pub fn fork(&self, seed: u64) -> Self {
        Self::of(self.world().fork(seed))
    }

    /// How many calls have changed, or tried to change, this disk.
    pub fn write_points(&self) -> u64 {
        self.world().write_points
    }

    /// Lets `fault` happen at the given write point, counted as [`SimulatedDisk::write_points`]
    /// counts: the next one is `write_points()`.
    pub fn fail_at(&self, write_point: u64, fault: DiskFault) {
        self.world().fault_at = Some((write_point, fault));
    }

    /// Calls `observer` in the middle of every call that changes this disk, with a
    /// [`SimulatedDisk::fork`] of it: to be restarted or killed, and looked at. So one run shows
    /// every crash. `observer` must not touch this disk.
    pub fn observe(&self, observer: impl FnMut(Self) + Send + 'static) {
        self.world().observer = Some(Box::new(observer));
    }

    /// Whether the fault has happened.
    pub fn has_failed(&self) -> bool {
        self.world().broken.is_some()
    }

    /// Loses power, if that has not happened yet, and turns it on again: what was not synced is
    /// lost, kept or torn; locks are free; there is no fault to come.
    pub fn restart(&self) {
        self.world().restart();
    }

    /// Ends the process while the machine goes on: everything written stays visible, and what was
    /// not synced is still not durable; locks are free; there is no fault to come.
    pub fn kill(&self) {
        self.world().end_process();
    }

    /// Every file, in the order of the names.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.world().names.keys().cloned().collect()
    }

    /// A file's bytes as a program sees them.
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        self.world().named_mut(path).map(|file| file.seen.clone())
    }

    /// Replaces a file's bytes, durably: damage, done on purpose.
    pub fn tamper(&self, path: &Path, bytes: Vec<u8>) {
        if let Some(file) = self.world().named_mut(path) {
            file.durable.clone_from(&bytes);
            file.seen = bytes;
            file.unsynced.clear();
        }
    }

    fn world(&self) -> MutexGuard<'_, World> {
        // A panic elsewhere leaves the maps whole: every change is a single step.
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for SimulatedDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        // Folders are durable at once: they are made once in a node's life, before anything in
        // them matters.
        let mut world = self.world();
        world.readable()?;
        for folder in dir.ancestors() {
            world.dirs.insert(folder.to_path_buf());
        }
        Ok(())
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut world = self.world();
        world.readable()?;
        let file = match mode {
            OpenMode::Read | OpenMode::Write => world.existing(path)?,
            OpenMode::Create => world.add(path)?,
        };
        let life = world.life;
        Ok(Arc::new(SimulatedFile { world: Arc::clone(&self.world), file, life }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Listed>> {
        let world = self.world();
        world.readable()?;
        if !world.dirs.contains(dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let name_in = |path: &Path| {
            let inside = path.parent() == Some(dir);
            path.file_name().filter(|_| inside).map(|name| name.to_string_lossy().into_owned())
        };
        let files = world.names.keys().filter_map(|path| name_in(path)).map(|name| (name, false));
        let dirs = world.dirs.iter().filter_map(|path| name_in(path)).map(|name| (name, true));
        let mut all: Vec<Listed> =
            files.chain(dirs).map(|(name, is_dir)| Listed { name, is_dir }).collect();
        all.sort_unstable();
        Ok(all)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.existing(from)?;
        world.rename(Renaming::Moved { from: from.to_path_buf(), to: to.to_path_buf() })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.existing(path)?;
        world.rename(Renaming::Removed { path: path.to_path_buf() })
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.world().sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        let mut world = self.world();
        world.readable()?;
        if !world.names.contains_key(path) {
            world.add(path)?;
        }
        if !world.locked.insert(path.to_path_buf()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let life = world.life;
        let path = path.to_path_buf();
        Ok(Box::new(SimulatedLock { world: Arc::clone(&self.world), path, life }))
    }
}

struct SimulatedFile {
    world: Arc<Mutex<World>>,
    file: usize,
    life: u64,
}

impl SimulatedFile {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn to_usize(number: u64) -> io::Result<usize> {
    usize::try_from(number).map_err(io::Error::other)
}

impl DiskFile for SimulatedFile {
    fn length(&self) -> io::Result<u64> {
        let mut world = self.world();
        world.readable()?;
        let length = world.file_mut(self.file, self.life)?.seen.len();
        u64::try_from(length).map_err(io::Error::other)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut world = self.world();
        world.readable()?;
        let start = to_usize(offset)?;
        let end = start.saturating_add(buffer.len());
        let seen = &world.file_mut(self.file, self.life)?.seen;
        let part = seen.get(start..end).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(part);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let change = Change::Write { offset: to_usize(offset)?, bytes: bytes.to_vec() };
        self.world().change(self.file, self.life, change)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.world().change(self.file, self.life, Change::Length(to_usize(length)?))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.world().sync_data(self.file, self.life)
    }
}

struct SimulatedLock {
    world: Arc<Mutex<World>>,
    path: PathBuf,
    life: u64,
}

impl DiskLock for SimulatedLock {}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        if world.life == self.life {
            world.locked.remove(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn only_synced_bytes_and_names_are_sure_to_survive() {
        let path = Path::new("/dir/file");
        let mut survived = BTreeSet::new();
        for seed in 0..50 {
            let disk = SimulatedDisk::from_seed(seed);
            disk.create_dir_all(Path::new("/dir")).unwrap();
            let file = disk.open(path, OpenMode::Create).unwrap();
            file.write_at(b"sure", 0).unwrap();
            file.sync_data().unwrap();
            disk.sync_dir(Path::new("/dir")).unwrap();
            file.write_at(b"thing", 4).unwrap();

            disk.restart();
            let contents = disk.contents(path).unwrap();
            assert!(contents.starts_with(b"sure"));
            survived.insert(contents);
            assert!(file.write_at(b"late", 0).is_err(), "a dead process must not write");
        }
        // Kept, lost and torn all happen.
        assert!(survived.len() > 2);
    }

    #[test]
    fn what_a_failed_sync_could_not_write_is_seen_and_never_durable() {
        let path = Path::new("/dir/file");
        let disk = SimulatedDisk::from_seed(1);
        disk.create_dir_all(Path::new("/dir")).unwrap();
        let file = disk.open(path, OpenMode::Create).unwrap();
        disk.sync_dir(Path::new("/dir")).unwrap();
        file.write_at(b"lost", 0).unwrap();
        disk.fail_at(disk.write_points(), DiskFault::InputOutput);
        assert!(file.sync_data().is_err());

        disk.kill();
        let file = disk.open(path, OpenMode::Write).unwrap();
        file.sync_data().unwrap();
        assert_eq!(disk.contents(path).unwrap(), b"lost");
        disk.restart();
        assert_eq!(disk.contents(path).unwrap(), b"");
    }
}
