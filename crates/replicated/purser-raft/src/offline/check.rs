//! Checks every byte of a data folder.
//!
//! A byte is either covered by a checksum, compared with what it must be (zeros, names), or in
//! space that nobody reads, which has to be zero.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::disk::{Disk, Listed, OpenMode, TEMPORARY_SUFFIX, read_all};
use crate::error::OpenError;
use crate::history::HistoryPlace;
use crate::history::format::file_start;
use crate::history::scan::HistoryScan;
use crate::identity::{
    GROUPS_DIR, HISTORY_DIR, IDENTITY_FILE, Identity, LOCK_FILE, RESTORED_FILE, SNAPSHOTS_DIR,
    WAL_DIR,
};
use crate::ids::GroupId;
use crate::snapshot::SnapshotFile;
use crate::snapshot::format::file_entry;
use crate::wal::format::{Scan, SegmentName, scan};
use crate::wal::recover;
use crate::wal::recovery::segment_sequence;
use crate::wal::spares::SPARE_SUFFIX;

use super::{Finding, OfflineError, Report, Severity};

pub(super) struct Check {
    disk: Arc<dyn Disk>,
    report: Report,
}

pub(super) fn check(disk: Arc<dyn Disk>, dir: &Path) -> Result<Report, OfflineError> {
    let mut check = Check { disk, report: Report::default() };
    check.folder(dir)?;
    check.report.findings.sort();
    Ok(check.report)
}

/// A batch's header: if it is all zero, what follows is not a batch that was torn.
const BATCH_HEADER_BYTES: usize = 24;

impl Check {
    fn folder(&mut self, dir: &Path) -> Result<(), OfflineError> {
        let identity = match Identity::read(&*self.disk, dir) {
            Ok(Some(identity)) => Some(identity),
            Ok(None) => {
                self.find(&dir.join(IDENTITY_FILE), 0, Severity::Damaged, "the file is missing");
                None
            }
            Err(error) => {
                self.find_error(error)?;
                None
            }
        };
        for listed in self.list(dir)? {
            let path = dir.join(&listed.name);
            match listed.name.as_str() {
                IDENTITY_FILE | RESTORED_FILE if !listed.is_dir => drop(self.read(&path)?),
                LOCK_FILE if !listed.is_dir => {
                    if !self.read(&path)?.is_empty() {
                        self.find(&path, 0, Severity::Unused, "the file should be empty");
                    }
                }
                WAL_DIR if listed.is_dir => {
                    if let Some(identity) = identity {
                        self.wal(&path, identity)?;
                    }
                }
                GROUPS_DIR if listed.is_dir => {
                    if let Some(identity) = identity {
                        self.groups(&path, identity)?;
                    }
                }
                _ => self.other(&path, &listed)?,
            }
        }
        Ok(())
    }

    fn wal(&mut self, dir: &Path, identity: Identity) -> Result<(), OfflineError> {
        let found_before = self.report.findings.len();
        let listed = self.list(dir)?;
        let segments: Vec<u64> =
            listed.iter().filter_map(|listed| segment_sequence(&listed.name)).collect();
        for listed in &listed {
            let path = dir.join(&listed.name);
            if let Some(sequence) = segment_sequence(&listed.name) {
                let (cluster, node) = (identity.cluster, identity.node);
                let bytes = self.read(&path)?;
                let scan = scan(&bytes, &SegmentName { cluster, node, sequence });
                let is_last = segments.last() == Some(&sequence);
                self.segment(&path, &bytes, &scan, is_last);
            } else if listed.name.ends_with(SPARE_SUFFIX) && !listed.is_dir {
                let bytes = self.read(&path)?;
                if let Some(offset) = bytes.iter().position(|byte| *byte != 0) {
                    self.find(&path, wide(offset), Severity::Unused, UNUSED);
                }
            } else {
                self.other(&path, listed)?;
            }
        }
        // What no single segment shows: missing segments, batches and entries.
        let none_is_worse = self
            .report
            .findings
            .get(found_before..)
            .is_some_and(|found| found.iter().all(|one| one.severity < Severity::Damaged));
        if none_is_worse
            && let Err(error) = recover(&*self.disk, dir, identity.cluster, identity.node)
        {
            self.find_error(error)?;
        }
        Ok(())
    }

    fn segment(&mut self, path: &Path, bytes: &[u8], scan: &Scan<'_>, is_last: bool) {
        let Some(flaw) = &scan.flaw else {
            return;
        };
        let end = usize::try_from(scan.end).unwrap_or(bytes.len());
        let behind = bytes.get(end..).unwrap_or_default();
        let no_batch = behind.iter().take(BATCH_HEADER_BYTES).all(|byte| *byte == 0);
        if let Some(later) = scan.later {
            let detail = format!("{}; a whole batch follows at {later}", flaw.detail);
            self.find(path, flaw.offset, Severity::Damaged, &detail);
        } else if no_batch || !is_last {
            let offset = behind.iter().position(|byte| *byte != 0).unwrap_or(0);
            self.find(path, scan.end + wide(offset), Severity::Unused, UNUSED);
        } else {
            let detail = format!("the torn end of the log: {}", flaw.detail);
            self.find(path, flaw.offset, Severity::Repaired, &detail);
        }
    }

    fn groups(&mut self, dir: &Path, identity: Identity) -> Result<(), OfflineError> {
        for listed in self.list(dir)? {
            let path = dir.join(&listed.name);
            let id = listed.name.parse::<u32>().ok();
            match id.filter(|id| listed.is_dir && id.to_string() == listed.name) {
                Some(id) => self.group(&path, GroupId(id), identity)?,
                None => self.other(&path, &listed)?,
            }
        }
        Ok(())
    }

    fn group(&mut self, dir: &Path, id: GroupId, identity: Identity) -> Result<(), OfflineError> {
        let mut known_bytes = 0;
        let mut history = false;
        for listed in self.list(dir)? {
            let path = dir.join(&listed.name);
            match listed.name.as_str() {
                SNAPSHOTS_DIR if listed.is_dir => {
                    known_bytes = self.snapshots(&path, id, identity)?;
                }
                HISTORY_DIR if listed.is_dir => history = true,
                _ => self.other(&path, &listed)?,
            }
        }
        if history {
            self.history(&dir.join(HISTORY_DIR), id, identity, known_bytes)?;
        }
        Ok(())
    }

    /// Gives the bytes of history that the newest snapshot relies on.
    fn snapshots(
        &mut self,
        dir: &Path,
        id: GroupId,
        identity: Identity,
    ) -> Result<u64, OfflineError> {
        let listed = self.list(dir)?;
        let newest =
            listed.iter().filter_map(|one| file_entry(&one.name)).max_by_key(|last| last.index);
        let mut known_bytes = 0;
        for one in listed {
            let path = dir.join(&one.name);
            let Some(last) = file_entry(&one.name) else {
                self.other(&path, &one)?;
                continue;
            };
            self.count(&path)?;
            let opened = SnapshotFile::open(&*self.disk, &path, (identity.cluster, id));
            match opened.and_then(|file| file.check_chunks().map(|()| file)) {
                Ok(file) if file.covered().last != Some(last) => {
                    self.find(&path, 0, Severity::Damaged, "the name is that of another snapshot");
                }
                Ok(file) if Some(last) == newest => known_bytes = file.covered().history.length,
                Ok(_) => self.find(&path, 0, Severity::Repaired, "an older snapshot, left behind"),
                Err(error) => self.find_error(error)?,
            }
        }
        Ok(known_bytes)
    }

    fn history(
        &mut self,
        dir: &Path,
        group: GroupId,
        identity: Identity,
        known_bytes: u64,
    ) -> Result<(), OfflineError> {
        for listed in self.list(dir)? {
            let path = dir.join(&listed.name);
            match file_start(&listed.name).filter(|_| !listed.is_dir) {
                Some(_) => self.count(&path)?,
                None => self.other(&path, &listed)?,
            }
        }
        let place = HistoryPlace {
            disk: Arc::clone(&self.disk),
            dir: dir.to_path_buf(),
            cluster: identity.cluster,
            group,
        };
        let mut scan = HistoryScan::open(place, Default::default()).map_err(at(dir))?;
        while scan.next_record().map_err(at(dir))?.is_some() {}
        let reached = scan.mark().length;
        match scan.broken() {
            Some(broken) if reached < known_bytes => {
                self.find(&broken.file, broken.offset, Severity::Damaged, broken.detail);
            }
            Some(broken) => {
                let detail =
                    format!("{}; behind the snapshot, so the log writes it again", broken.detail);
                self.find(&broken.file, broken.offset, Severity::Repaired, &detail);
            }
            None if reached < known_bytes => {
                let detail = "the history ends before what the snapshot relies on";
                self.find(dir, reached, Severity::Damaged, detail);
            }
            None => (),
        }
        Ok(())
    }

    /// A file or folder that has no place here.
    fn other(&mut self, path: &Path, listed: &Listed) -> Result<(), OfflineError> {
        if listed.is_dir {
            for inner in self.list(path)? {
                self.other(&path.join(&inner.name), &inner)?;
            }
        } else {
            self.count(path)?;
        }
        if listed.name.ends_with(TEMPORARY_SUFFIX) {
            self.find(path, 0, Severity::Repaired, "a file that was being written");
        } else {
            self.find(path, 0, Severity::Unknown, "no node writes this");
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> Result<Vec<Listed>, OfflineError> {
        Ok(self.disk.list(dir).map_err(at(dir))?)
    }

    fn count(&mut self, path: &Path) -> Result<(), OfflineError> {
        let file = self.disk.open(path, OpenMode::Read).map_err(at(path))?;
        self.report.files += 1;
        self.report.bytes += file.length().map_err(at(path))?;
        Ok(())
    }

    fn read(&mut self, path: &Path) -> Result<Vec<u8>, OfflineError> {
        self.count(path)?;
        let file = self.disk.open(path, OpenMode::Read).map_err(at(path))?;
        Ok(read_all(&*file).map_err(at(path))?)
    }

    fn find(&mut self, file: &Path, offset: u64, severity: Severity, detail: &str) {
        let finding =
            Finding { file: file.to_path_buf(), offset, severity, detail: detail.to_owned() };
        self.report.findings.push(finding);
    }

    /// An error about a place is a finding; one about the disk is an error here too.
    fn find_error(&mut self, error: OpenError) -> Result<(), OfflineError> {
        match error {
            OpenError::Damaged { file, offset, detail } => {
                self.find(&file, offset, Severity::Damaged, &detail);
                Ok(())
            }
            other => Err(other.into()),
        }
    }
}

const UNUSED: &str = "unused space altered, nothing affected";

fn at(path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_path_buf();
    move |source| OpenError::Disk { path, source }
}

fn wide(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Groups that have a folder.
pub(super) fn group_folders(disk: &dyn Disk, dir: &Path) -> Result<BTreeSet<GroupId>, OpenError> {
    let listed = disk.list(dir).map_err(at(dir))?;
    Ok(listed
        .iter()
        .filter(|listed| listed.is_dir)
        .filter_map(|listed| listed.name.parse().ok())
        .map(GroupId)
        .collect())
}
