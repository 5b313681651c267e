//! Reads a node's data folder without a server, and without changing anything in it.
//!
//! What is read while a node writes makes no sense: whoever reads a folder of this machine takes its
//! [`read_lock`] first.
//!
//! Not here: what the bytes mean. Whoever audits a ledger gives its machine to
//! [`OfflineNode::rebuild`] and its decoder to the records of [`OfflineNode::history`].

mod check;
mod read_lock;
mod rebuild;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use purser_types::{CorruptSnapshot, HistoryReader, LogTime, Machine, Position};

use crate::batch;
use crate::disk::{Disk, OpenMode, RealDisk};
use crate::entry::{Content, LogEntry};
use crate::error::OpenError;
use crate::history::HistoryPlace;
use crate::history::scan::HistoryScan;
use crate::identity::{GROUPS_DIR, HISTORY_DIR, IDENTITY_FILE, Identity, SNAPSHOTS_DIR, WAL_DIR};
use crate::ids::{ClusterId, GroupId, NodeId};
use crate::snapshot::{SnapshotFile, newest};
use crate::wal::recovery::{RecoveredEntry, segment_file};
use crate::wal::{Recovered, RecoveredGroup, read_record, recover};

pub use read_lock::{ReadLock, read_lock};

/// The folder of a node that is not running.
pub struct OfflineNode {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    identity: Identity,
    recovered: Recovered,
}

/// Everything that [`check`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Files read.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// What is not as it was written, in the order of the files' names.
    pub findings: Vec<Finding>,
}

/// One place that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file.
    pub file: PathBuf,
    /// Where in the file; the start of the smallest part that can be named.
    pub offset: u64,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong there.
    pub detail: String,
}

/// How bad a [`Finding`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The bytes mean nothing: unused space altered, nothing affected.
    Unused,
    /// What a crash leaves behind: the node repairs it when it starts.
    Repaired,
    /// A file that no node writes.
    Unknown,
    /// The node would refuse to start, or a reader would refuse the record.
    Damaged,
}

/// An entry of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedEntry {
    /// Its index.
    pub index: u64,
    /// The term of the leader that put it there.
    pub term: u64,
    /// That leader.
    pub leader: NodeId,
    /// Whether this node knew that it was committed.
    pub known_committed: bool,
    /// What it carries.
    pub content: LoggedContent,
}

/// What an entry of the log carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoggedContent {
    /// Nothing: a new leader's first entry.
    Blank,
    /// Who belongs to the group.
    Membership,
    /// Commands, under one stamp.
    Commands {
        /// The stamp.
        at: LogTime,
        /// The commands, in order.
        commands: Vec<Vec<u8>>,
    },
}

/// A snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfflineSnapshot {
    /// Last entry it covers.
    pub index: u64,
    /// That entry's term.
    pub term: u64,
    /// Highest stamp it covers.
    pub at: LogTime,
    /// Bytes of history it covers.
    pub history_bytes: u64,
}

/// Why a folder, or a part of it, could not be read.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// As a server would say it.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is no such group in the folder.
    #[error("there is no group {0} in the folder")]
    NoGroup(GroupId),
    /// The log does not reach the entry asked for, or not from the snapshot on.
    #[error("entry {wanted} is not in the log, which has {have}")]
    NotInLog {
        /// The entry asked for.
        wanted: u64,
        /// What the log has, in words.
        have: String,
    },
    /// A record of the history differs from what the log makes of it.
    #[error("the history differs from the log at position {}: {detail}", position.0)]
    HistoryDiffers {
        /// Where.
        position: Position,
        /// How.
        detail: String,
    },
    /// A command could not be applied.
    #[error("entry {index} could not be applied")]
    Apply {
        /// The entry.
        index: u64,
        /// Why.
        #[source]
        source: purser_types::ApplyError,
    },
    /// A record of the history could not be read.
    #[error("the history could not be read")]
    History(#[from] purser_types::HistoryError),
}

impl From<CorruptSnapshot> for OfflineError {
    fn from(corrupt: CorruptSnapshot) -> Self {
        Self::Open(corrupt.into())
    }
}

/// Checks every byte of every file below `dir`.
///
/// Errors only if the disk can not be read at all; everything else is a [`Finding`].
pub fn check(dir: &Path) -> Result<Report, OfflineError> {
    check_on(Arc::new(RealDisk), dir)
}

/// [`check`], for a folder on another disk.
pub fn check_on(disk: Arc<dyn Disk>, dir: &Path) -> Result<Report, OfflineError> {
    check::check(disk, dir)
}

/// A machine as it was after some entry, rebuilt from a folder.
pub struct Rebuilt<M> {
    /// The machine.
    pub machine: M,
    /// Last entry applied; `None` before the first.
    pub applied: Option<u64>,
    /// The history up to there: the folder's, and in memory what the replay appended behind it.
    pub history: Box<dyn HistoryReader + Send>,
    /// Bytes of that history.
    pub history_bytes: u64,
}

impl OfflineNode {
    /// Opens the folder of a node that is not running. Nothing in it is changed.
    ///
    /// Refuses a log that a server would refuse.
    pub fn open(dir: &Path) -> Result<Self, OfflineError> {
        Self::open_on(Arc::new(RealDisk), dir)
    }

    /// [`OfflineNode::open`], for a folder on another disk.
    pub fn open_on(disk: Arc<dyn Disk>, dir: &Path) -> Result<Self, OfflineError> {
        let identity = Identity::read(&*disk, dir)?.ok_or_else(|| OpenError::Disk {
            path: dir.join(IDENTITY_FILE),
            source: io::ErrorKind::NotFound.into(),
        })?;
        let recovered = recover(&*disk, &dir.join(WAL_DIR), identity.cluster, identity.node)?;
        Ok(Self { disk, dir: dir.to_path_buf(), identity, recovered })
    }

    /// Whose folder it is.
    pub fn node(&self) -> NodeId {
        self.identity.node
    }

    /// Of which cluster.
    pub fn cluster(&self) -> ClusterId {
        self.identity.cluster
    }

    /// The groups in it.
    pub fn groups(&self) -> Result<BTreeSet<GroupId>, OfflineError> {
        let mut groups = check::group_folders(&*self.disk, &self.dir.join(GROUPS_DIR))?;
        groups.extend(self.recovered.groups.keys());
        Ok(groups)
    }

    /// The newest snapshot of a group, if there is one.
    pub fn snapshot(&self, group: GroupId) -> Result<Option<OfflineSnapshot>, OfflineError> {
        let snapshot = self.snapshot_file(group)?;
        Ok(snapshot.and_then(|snapshot| {
            let covered = snapshot.covered();
            covered.last.map(|last| OfflineSnapshot {
                index: last.index,
                term: last.term,
                at: covered.stamp,
                history_bytes: covered.history.length,
            })
        }))
    }

    /// The entries in a group's log, oldest first. They overlap the snapshot.
    pub fn log(&self, group: GroupId) -> Result<Vec<LoggedEntry>, OfflineError> {
        let committed = self.committed(group)?;
        let entries = self.recovered_group(group)?.map_or_else(Vec::new, |found| {
            found.entries.iter().copied().collect::<Vec<RecoveredEntry>>()
        });
        entries.iter().map(|entry| logged(&self.read(entry)?, committed)).collect()
    }

    /// Last entry that this node knew to be committed.
    pub fn committed(&self, group: GroupId) -> Result<Option<u64>, OfflineError> {
        let marked = self.recovered_group(group)?.and_then(|found| found.marks.committed);
        let covered = self.snapshot(group)?.map(|snapshot| snapshot.index);
        Ok(marked.map(|id| id.index).max(covered))
    }

    /// The records of a group's history, in order. What follows the first damage is not read.
    ///
    /// Records behind [`OfflineSnapshot::history_bytes`] may be of entries that this node applied
    /// and that the log holds too; what a crash tore there is the end.
    pub fn history(
        &self,
        group: GroupId,
    ) -> Result<impl Iterator<Item = Result<(Position, Vec<u8>), OfflineError>>, OfflineError> {
        let known_bytes = self.snapshot(group)?.map_or(0, |snapshot| snapshot.history_bytes);
        let scan = HistoryScan::open(self.history_place(group), Default::default());
        let mut scan = scan.map_err(|source| self.disk_error(source))?;
        let dir = self.dir.clone();
        let mut ended = false;
        Ok(std::iter::from_fn(move || {
            if ended {
                return None;
            }
            match scan.next_record() {
                Ok(Some(record)) => Some(Ok(record)),
                Ok(None) => {
                    ended = true;
                    if scan.mark().length >= known_bytes {
                        return None;
                    }
                    Some(Err(broken_history(&scan, &dir)))
                }
                Err(source) => {
                    ended = true;
                    Some(Err(OpenError::Disk { path: dir.clone(), source }.into()))
                }
            }
        }))
    }

    /// The machine after entry `up_to` (or after the last one known to be committed): the snapshot
    /// and a replay of the log behind it. `initial` is the machine before the first command.
    ///
    /// Every record that the replay appends is compared with the history in the folder.
    /// Errors if `up_to` is older than the snapshot or beyond the log. An entry is committed if any
    /// node of the group knew so; a caller with several folders takes the largest
    /// [`OfflineNode::committed`].
    pub fn rebuild<M: Machine>(
        &self,
        group: GroupId,
        initial: M,
        up_to: Option<u64>,
    ) -> Result<Rebuilt<M>, OfflineError> {
        self.replay(group, initial, up_to)
    }

    /// What the log has of a group; an error if there is no such group at all.
    fn recovered_group(&self, group: GroupId) -> Result<Option<&RecoveredGroup>, OfflineError> {
        let found = self.recovered.groups.get(&group);
        if found.is_none() && !self.groups()?.contains(&group) {
            return Err(OfflineError::NoGroup(group));
        }
        Ok(found)
    }

    fn snapshot_file(&self, group: GroupId) -> Result<Option<SnapshotFile>, OfflineError> {
        let dir = self.group_dir(group).join(SNAPSHOTS_DIR);
        Ok(newest(&*self.disk, &dir, (self.identity.cluster, group))?)
    }

    fn entry(&self, group: GroupId, index: u64) -> Result<LogEntry, OfflineError> {
        let found = self.recovered_group(group)?;
        let entries = found.map(|found| &found.entries);
        let first = entries.and_then(|entries| entries.front()).map(|entry| entry.id.index);
        let place = first.and_then(|first| usize::try_from(index.checked_sub(first)?).ok());
        let entry = entries.and_then(|entries| entries.get(place?));
        let Some(entry) = entry else {
            let last = entries.and_then(|entries| entries.back()).map(|entry| entry.id.index);
            let have = match (first, last) {
                (Some(first), Some(last)) => format!("the entries from {first} to {last}"),
                _ => "no entries".to_owned(),
            };
            return Err(OfflineError::NotInLog { wanted: index, have });
        };
        self.read(entry)
    }

    fn read(&self, entry: &RecoveredEntry) -> Result<LogEntry, OfflineError> {
        let path = self.dir.join(WAL_DIR).join(segment_file(entry.location.segment));
        let disk_error = |source| OpenError::Disk { path: path.clone(), source };
        let file = self.disk.open(&path, OpenMode::Read).map_err(disk_error)?;
        let body = read_record(&*file, &entry.location).map_err(disk_error)?;
        let entry_read = LogEntry::decode(&body).map_err(|malformed| OpenError::Damaged {
            file: path.clone(),
            offset: entry.location.offset,
            detail: malformed.0.to_owned(),
        })?;
        Ok(entry_read)
    }

    fn group_dir(&self, group: GroupId) -> PathBuf {
        self.dir.join(GROUPS_DIR).join(group.to_string())
    }

    fn history_place(&self, group: GroupId) -> HistoryPlace {
        HistoryPlace {
            disk: Arc::clone(&self.disk),
            dir: self.group_dir(group).join(HISTORY_DIR),
            cluster: self.identity.cluster,
            group,
        }
    }

    fn disk_error(&self, source: io::Error) -> OpenError {
        OpenError::Disk { path: self.dir.clone(), source }
    }
}

fn broken_history(scan: &HistoryScan, dir: &Path) -> OfflineError {
    let damaged = match scan.broken() {
        Some(broken) => OpenError::Damaged {
            file: broken.file.clone(),
            offset: broken.offset,
            detail: broken.detail.to_owned(),
        },
        None => OpenError::Damaged {
            file: dir.to_path_buf(),
            offset: scan.mark().length,
            detail: "the history ends before what the snapshot relies on".to_owned(),
        },
    };
    damaged.into()
}

fn logged(entry: &LogEntry, committed: Option<u64>) -> Result<LoggedEntry, OfflineError> {
    let index = entry.id.index;
    let content = match &entry.content {
        Content::Blank => LoggedContent::Blank,
        Content::Members(_) => LoggedContent::Membership,
        Content::Commands(commands) => {
            let batch = batch::decode(commands).map_err(|error| OfflineError::Apply {
                index,
                source: purser_types::ApplyError::UnreadableCommand(error.to_string()),
            })?;
            let commands = batch.commands.iter().map(|command| command.to_vec()).collect();
            LoggedContent::Commands { at: batch.at, commands }
        }
    };
    Ok(LoggedEntry {
        index,
        term: entry.id.term,
        leader: entry.id.leader,
        known_committed: Some(index) <= committed,
        content,
    })
}
