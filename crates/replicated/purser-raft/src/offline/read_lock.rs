//! Keeps nodes from a folder while it is read.
//!
//! It shares the lock that a node has for itself alone: several readers at once, or one node. It
//! changes nothing, so it makes no lock file where there is none: such a folder is read unlocked.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

use crate::error::OpenError;
use crate::identity::LOCK_FILE;

use super::OfflineError;

/// As long as it lives, no node starts on the folder, if it [holds](ReadLock::holds).
#[derive(Debug)]
pub struct ReadLock(
    /// Open means locked.
    Option<File>,
);

impl ReadLock {
    /// Whether nodes are kept from the folder. Not if it has no lock file: a node makes one before
    /// anything else, so none has ever run on such a folder, or it is a copy without that file.
    pub const fn holds(&self) -> bool {
        self.0.is_some()
    }
}

/// Keeps nodes from the folder `dir` until the lock is dropped; not from one without a lock file,
/// on which a node may start at any time.
///
/// [`OpenError::InUse`] if a node runs on it.
pub fn read_lock(dir: &Path) -> Result<ReadLock, OfflineError> {
    let path = dir.join(LOCK_FILE);
    let failed = |source| OpenError::Disk { path: path.clone(), source };
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ReadLock(None)),
        Err(error) => return Err(failed(error).into()),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(ReadLock(Some(file))),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse(dir.to_path_buf()).into()),
        Err(TryLockError::Error(error)) => Err(failed(error).into()),
    }
}
