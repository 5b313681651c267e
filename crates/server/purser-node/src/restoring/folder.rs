//! Copying a stopped node's data folder to a backup, and back.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use purser_ledger::{Command, Ledger, codec};
use purser_raft::offline::{
    self, Finding, LoggedContent, OfflineError, OfflineNode, ReadLock, Severity,
};
use purser_raft::{GroupId, LOCK_FILE, RESTORED_FILE};
use purser_types::Life;

use super::Marker;
use crate::regions::PLACEMENT_GROUP;

/// Ends the name of a folder that is still being copied. Left behind by a crash, it means nothing.
const UNFINISHED: &str = ".unfinished";

/// Why a folder was not copied. Nothing is there under the name that was asked for.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The folder that is to be copied cannot be read, or a node uses it.
    #[error("{} cannot be read as the data folder of a node that is stopped", dir.display())]
    Source {
        /// The folder.
        dir: PathBuf,
        /// Why.
        #[source]
        source: Box<OfflineError>,
    },
    /// It is damaged.
    #[error("{} is damaged at byte {}: {}", .0.file.display(), .0.offset, .0.detail)]
    Damaged(Finding),
    /// There is something where the copy is to be.
    #[error("{} is there already", .0.display())]
    Exists(PathBuf),
    /// The disk refused.
    #[error("{} could not be written", dir.display())]
    Disk {
        /// Where the copy was to be.
        dir: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The system gave no randomness to name the new life by.
    #[error("the system gives no randomness")]
    NoRandomness(#[source] getrandom::Error),
}

/// Copies the data folder of a stopped node. Every byte is checked before, and the copy has its name only
/// once it is whole.
pub fn back_up(dir: &Path, backup: &Path) -> Result<(), RestoreError> {
    let _lock = check(dir)?;
    copy(dir, backup, None)
}

/// Makes a node's data folder of a backup, with the marker that has the node's groups begin another life.
pub fn restore(backup: &Path, dir: &Path) -> Result<(), RestoreError> {
    let _lock = check(backup)?;
    let known = lives_in(backup).map_err(|source| not_readable(backup, source))?;
    let mut name = [0; 16];
    getrandom::fill(&mut name).map_err(RestoreError::NoRandomness)?;
    let marker = Marker { life: Life::from_bytes(name), known: known.into_iter().collect() };
    copy(backup, dir, Some(&marker))
}

/// Keeps nodes from a folder and checks every byte in it.
fn check(dir: &Path) -> Result<ReadLock, RestoreError> {
    let locked = offline::read_lock(dir).map_err(|source| not_readable(dir, source))?;
    let report = offline::check(dir).map_err(|source| not_readable(dir, source))?;
    let mut findings = report.findings.into_iter();
    match findings.find(|finding| finding.severity == Severity::Damaged) {
        Some(damaged) => Err(RestoreError::Damaged(damaged)),
        None => Ok(locked),
    }
}

/// Every life that a folder's groups may be in when they go on from it: those that they have reached, and
/// those that their logs speak of.
fn lives_in(dir: &Path) -> Result<BTreeSet<Option<Life>>, OfflineError> {
    let node = OfflineNode::open(dir)?;
    let mut lives = BTreeSet::new();
    for group in node.groups()?.into_iter().filter(|group| *group != PLACEMENT_GROUP) {
        let reached = node.rebuild(group, Ledger::default(), None)?;
        lives.insert(reached.machine.life());
        lives.extend(lives_in_log(&node, group)?);
    }
    Ok(lives)
}

fn lives_in_log(
    node: &OfflineNode,
    group: GroupId,
) -> Result<impl Iterator<Item = Option<Life>>, OfflineError> {
    let commands = node.log(group)?.into_iter().flat_map(|entry| match entry.content {
        LoggedContent::Commands { commands, .. } => commands,
        LoggedContent::Blank | LoggedContent::Membership => Vec::new(),
    });
    Ok(commands.filter_map(|bytes| match codec::decode(&bytes) {
        Ok(Command::BeginLife { life, .. }) => Some(Some(life)),
        // What cannot be read cannot be applied either, and stops the node that tries.
        Ok(_) | Err(_) => None,
    }))
}

fn copy(from: &Path, to: &Path, marker: Option<&Marker>) -> Result<(), RestoreError> {
    if to.symlink_metadata().is_ok() {
        return Err(RestoreError::Exists(to.to_owned()));
    }
    copy_to_free(from, to, marker)
        .map_err(|source| RestoreError::Disk { dir: to.to_owned(), source })
}

/// Copies to a name that is free, under another one until everything is durable.
fn copy_to_free(from: &Path, to: &Path, marker: Option<&Marker>) -> io::Result<()> {
    let name = to.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let mut unfinished = name.to_owned();
    unfinished.push(UNFINISHED);
    let unfinished = to.with_file_name(unfinished);
    match fs::remove_dir_all(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => (),
    }
    let parent = match to.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    };
    fs::create_dir_all(parent)?;
    copy_dir(from, &unfinished)?;
    if let Some(marker) = marker {
        let mut file = File::create(unfinished.join(RESTORED_FILE))?;
        file.write_all(&codec::encode(marker))?;
        file.sync_all()?;
        sync_dir(&unfinished)?;
    }
    fs::rename(&unfinished, to)?;
    sync_dir(parent)
}

/// Copies a folder with all that is in it but lock files and markers: a backup is of nobody who runs, and
/// was not restored yet.
fn copy_dir(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (name, target) = (entry.file_name(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_dir(&entry.path(), &target)?;
        } else if name != LOCK_FILE && name != RESTORED_FILE {
            fs::copy(entry.path(), &target)?;
            File::open(&target)?.sync_all()?;
        }
    }
    sync_dir(to)
}

/// Makes the names in a folder durable.
fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

fn not_readable(dir: &Path, source: OfflineError) -> RestoreError {
    RestoreError::Source { dir: dir.to_owned(), source: Box::new(source) }
}
