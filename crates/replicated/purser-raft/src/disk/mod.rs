//! The seam for everything that touches files.
//!
//! All of this crate's files are read and written through [`Disk`], so that a simulation can lose
//! un-synced writes, tear them, fail them, and stop the node at every single one. The calls block;
//! whoever must not block calls them from a thread that may.

mod real;
mod simulated;

use std::io;
use std::path::Path;
use std::sync::Arc;

pub use real::RealDisk;
pub use simulated::{DiskFault, SimulatedDisk};

/// A place for files.
pub trait Disk: Send + Sync + 'static {
    /// Makes a folder, and those above it that do not exist.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Opens a file.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>>;

    /// What is in a folder, in the order of the names.
    fn list(&self, dir: &Path) -> io::Result<Vec<Listed>>;

    /// Gives a file another name in the same folder, replacing what had it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a folder durable: files made, renamed and removed in it.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Keeps others from the folder of the (empty) file at `path`, until the lock is dropped.
    ///
    /// [`io::ErrorKind::WouldBlock`] if somebody else has it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>>;
}

/// An open file. Several threads may use it at once.
pub trait DiskFile: Send + Sync {
    /// Its length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Fills `buffer` from `offset` on; [`io::ErrorKind::UnexpectedEof`] if the file ends before.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of `bytes` at `offset`. Not durable before [`DiskFile::sync_data`].
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Cuts the file, or lengthens it with zeros.
    fn set_len(&self, length: u64) -> io::Result<()>;

    /// Makes everything written so far durable.
    fn sync_data(&self) -> io::Result<()>;
}

/// Held while a folder is in use.
pub trait DiskLock: Send + Sync {}

/// What is wanted from a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// To read a file that exists.
    Read,
    /// To read and write a file that exists.
    Write,
    /// To read and write a file that is made, empty, also if there was one before.
    Create,
}

/// One name in a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// The name. Names that are not text are given with replacement characters.
    pub name: String,
    /// Whether it is a folder itself.
    pub is_dir: bool,
}

/// All of a file's bytes.
pub(crate) fn read_all(file: &dyn DiskFile) -> io::Result<Vec<u8>> {
    let length = usize::try_from(file.length()?).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    file.read_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Writes a whole small file so that a crash leaves the old one or the new one.
pub(crate) fn replace_file(
    disk: &dyn Disk,
    dir: &Path,
    name: &str,
    bytes: &[u8],
) -> io::Result<()> {
    let temporary = dir.join(format!("{name}{TEMPORARY_SUFFIX}"));
    let file = disk.open(&temporary, OpenMode::Create)?;
    file.write_at(bytes, 0)?;
    file.sync_data()?;
    disk.rename(&temporary, &dir.join(name))?;
    disk.sync_dir(dir)
}

/// Ends the name of a file that is still being written. Left behind by a crash, it means nothing.
pub(crate) const TEMPORARY_SUFFIX: &str = ".writing";
