//! What is on the disk of a node, and the order in which it is opened.
//!
//! The node's part first: lock, identity, log. Then each group's: snapshot, history cut to what the
//! snapshot knew, and the group's part of the log. Everything here blocks.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, DiskLock};
use crate::error::OpenError;
use crate::history::format::HistoryMark;
use crate::history::{HistoryPlace, HistoryWriter};
use crate::identity::{GROUPS_DIR, HISTORY_DIR, Identity, LOCK_FILE, SNAPSHOTS_DIR, WAL_DIR};
use crate::ids::{ClusterId, GroupId};
use crate::raft::state_machine::Hosted;
use crate::settings::HostSettings;
use crate::snapshot::{SnapshotPlace, SnapshotStore};
use crate::wal::{RecoveredGroup, Wal, WalPlace};

/// What opening the data folder gives.
pub(crate) struct OpenedFolder {
    pub(crate) lock: Box<dyn DiskLock>,
    pub(crate) identity: Identity,
    pub(crate) wal: Wal,
    pub(crate) recovered: BTreeMap<GroupId, RecoveredGroup>,
}

/// Opens a data folder, or makes one.
pub(crate) fn open_folder(settings: &HostSettings) -> Result<OpenedFolder, OpenError> {
    let (disk, dir) = (&settings.disk, &settings.dir);
    let wal_dir = dir.join(WAL_DIR);
    for made in [dir, &wal_dir, &dir.join(GROUPS_DIR)] {
        disk.create_dir_all(made).map_err(|source| disk_error(made, source))?;
    }
    let lock = disk.lock(&dir.join(LOCK_FILE)).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => OpenError::InUse(dir.clone()),
        _ => disk_error(dir, error),
    })?;
    let identity = Identity::claim(&**disk, dir, settings.node, settings.cluster)?;
    let place = WalPlace {
        disk: Arc::clone(disk),
        dir: wal_dir,
        cluster: identity.cluster,
        node: identity.node,
    };
    let (wal, recovered) = Wal::open(&place, settings.wal)?;
    Ok(OpenedFolder { lock, identity, wal, recovered: recovered.groups })
}

/// Where a group lies and whose it is.
pub(crate) struct GroupPlace {
    pub(crate) disk: Arc<dyn Disk>,
    /// The node's data folder.
    pub(crate) dir: PathBuf,
    pub(crate) cluster: ClusterId,
    pub(crate) group: GroupId,
}

/// What is on the disk of a group, beside its log.
pub(crate) struct StoredGroup {
    pub(crate) snapshots: Arc<SnapshotStore>,
    pub(crate) history: HistoryWriter,
}

/// Opens a group's snapshot and history, and makes `hosted` what the snapshot holds. Reads for as
/// long as the snapshot is large.
pub(crate) fn open_stored(
    place: &GroupPlace,
    hosted: &dyn Hosted,
    history_segment_bytes: u64,
) -> Result<StoredGroup, OpenError> {
    let (disk, cluster, group) = (&place.disk, place.cluster, place.group);
    let dir = place.dir.join(GROUPS_DIR).join(group.to_string());
    let (snapshots_dir, history_dir) = (dir.join(SNAPSHOTS_DIR), dir.join(HISTORY_DIR));
    for made in [&snapshots_dir, &history_dir] {
        disk.create_dir_all(made).map_err(|source| disk_error(made, source))?;
    }
    let disk = Arc::clone(disk);
    let snapshot_place =
        SnapshotPlace { disk: Arc::clone(&disk), dir: snapshots_dir, cluster, group };
    let snapshots = SnapshotStore::open(snapshot_place)?;
    let mut mark = HistoryMark::default();
    if let Some(snapshot) = snapshots.current() {
        mark = snapshot.covered().history;
        hosted.restore(&snapshot)?;
    }
    let history_place = HistoryPlace { disk, dir: history_dir, cluster, group };
    let history = HistoryWriter::open(history_place, history_segment_bytes, mark)?;
    Ok(StoredGroup { snapshots: Arc::new(snapshots), history })
}

pub(super) fn disk_error(path: &Path, source: io::Error) -> OpenError {
    OpenError::Disk { path: path.to_path_buf(), source }
}
