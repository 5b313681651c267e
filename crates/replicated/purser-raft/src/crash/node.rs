//! A node's storage, opened as a node opens it and driven as openraft drives it: no sockets, no
//! elections.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt};
use openraft::storage::{RaftLogStorage, RaftLogStorageExt, RaftStateMachine};
use openraft::{RaftLogReader, RaftSnapshotBuilder, StorageHelper};
use tokio::sync::Semaphore;

use crate::clock::SystemClock;
use crate::disk::{DiskLock, SimulatedDisk};
use crate::entry::{EntryId, LogEntry, VoteRecord};
use crate::error::OpenError;
use crate::history::GroupHistory;
use crate::host::folder::{GroupPlace, open_folder, open_stored};
use crate::ids::{ClusterId, GroupId, NodeId};
use crate::network::PeerSwitch;
use crate::raft::group_log::GroupLog;
use crate::raft::log_store::LogStore;
use crate::raft::state_machine::{Applied, Hosted, HostedMachine, Parts, StateMachine};
use crate::raft::types::{TypeConfig, openraft_entry};
use crate::settings::{HostSettings, RaftTimings, WalSettings};
use crate::snapshot::incoming::{Incoming, SnapshotData};
use crate::snapshot::{SnapshotFile, SnapshotStore};
use crate::tasks::Stop;
use crate::wal::Wal;

use super::journal::Journal;

pub(super) const DIR: &str = "/node";
const GROUP: GroupId = GroupId(1);
pub(super) const NODE: NodeId = NodeId(1);
/// Small, so that a few hundred entries go through many files.
const HISTORY_SEGMENT_BYTES: u64 = 900;
/// Small, so that most entries are read back from their segments.
const CACHE_BYTES: usize = 300;
/// A snapshot arrives in parts of this size.
const PART_BYTES: u64 = 1_500;

pub(super) struct Node {
    pub(super) log: Arc<GroupLog>,
    pub(super) wal: Arc<Wal>,
    pub(super) hosted: Arc<HostedMachine<Journal>>,
    pub(super) history: GroupHistory,
    pub(super) snapshots: Arc<SnapshotStore>,
    store: LogStore,
    machine: StateMachine,
    _lock: Box<dyn DiskLock>,
}

fn settings(disk: &SimulatedDisk, prepare_ahead: bool) -> HostSettings {
    HostSettings {
        dir: PathBuf::from(DIR),
        node: NODE,
        cluster: Some(ClusterId::from_bytes([9; 16])),
        peers: Default::default(),
        timings: RaftTimings::LAN,
        wal: WalSettings { segment_bytes: 2048, prepare_ahead },
        disk: Arc::new(disk.clone()),
        clock: Arc::new(SystemClock),
        switch: PeerSwitch::default(),
    }
}

impl Node {
    /// Opens everything, and applies what is known to be committed.
    pub(super) async fn open(disk: &SimulatedDisk, prepare_ahead: bool) -> Result<Self, OpenError> {
        let mut opened = open_folder(&settings(disk, prepare_ahead))?;
        let hosted = Arc::new(HostedMachine::new(Journal::default(), NODE, 1));
        let erased: Arc<dyn Hosted> = Arc::<HostedMachine<Journal>>::clone(&hosted);
        let place = GroupPlace {
            disk: Arc::new(disk.clone()),
            dir: PathBuf::from(DIR),
            cluster: opened.identity.cluster,
            group: GROUP,
        };
        let stored = open_stored(&place, &*erased, HISTORY_SEGMENT_BYTES)?;
        let covered = stored.snapshots.current().and_then(|now| now.covered().last);
        let recovered = opened.recovered.remove(&GROUP).unwrap_or_default();
        let wal = Arc::new(opened.wal);
        let covered = covered.map(|last| last.index);
        let log = GroupLog::open(GROUP, Arc::clone(&wal), CACHE_BYTES, recovered, covered);
        let log = Arc::new(log);
        let history = stored.history.reader();
        let mut machine = StateMachine::new(Parts {
            hosted: erased,
            history: stored.history,
            snapshots: Arc::clone(&stored.snapshots),
            log: Arc::clone(&log),
            applied: Arc::new(Applied::new(Arc::new(SystemClock))),
            writing: Arc::new(Semaphore::new(1)),
            stop: Stop::new(),
        });
        let mut store = LogStore::new(Arc::clone(&log));
        let mut helper = StorageHelper::<TypeConfig, _, _>::new(&mut store, &mut machine);
        helper = helper.with_id(NODE);
        let initial = helper.get_initial_state().await;
        initial.map_err(|error| OpenError::Start(error.to_string()))?;
        let snapshots = stored.snapshots;
        let _lock = opened.lock;
        Ok(Self { log, wal, hosted, history, snapshots, store, machine, _lock })
    }

    /// Last entry applied.
    pub(super) async fn applied(&mut self) -> Option<u64> {
        self.machine.applied_state().await.unwrap().0.map(|id| id.index)
    }

    pub(super) fn snapshot_index(&self) -> Option<u64> {
        self.snapshots.current().and_then(|now| now.covered().last).map(|last| last.index)
    }

    pub(super) async fn save_vote(&mut self, vote: VoteRecord) -> io::Result<()> {
        self.store.save_vote(&vote.into()).await
    }

    pub(super) async fn append(&mut self, entries: &[LogEntry]) -> io::Result<()> {
        let entries: Vec<_> =
            entries.iter().map(|entry| openraft_entry(entry.clone()).unwrap()).collect();
        self.store.blocking_append(entries).await.map_err(io::Error::other)
    }

    pub(super) async fn truncate_after(&mut self, last: Option<EntryId>) -> io::Result<()> {
        self.store.truncate_after(last.map(Into::into)).await
    }

    pub(super) async fn purge(&mut self, upto: EntryId) -> io::Result<()> {
        self.store.purge(upto.into()).await
    }

    /// Applies the log up to `upto`.
    pub(super) async fn commit(&mut self, upto: EntryId) -> io::Result<()> {
        self.store.save_committed(Some(upto.into())).await?;
        let next = self.applied().await.map_or(0, |applied| applied + 1);
        let entries = self.store.entries_stream(next..=upto.index).await;
        let entries = entries.map_ok(|entry| (entry, None)).boxed();
        self.machine.apply(entries).await
    }

    pub(super) async fn take_snapshot(&mut self) -> io::Result<()> {
        let mut builder = self.machine.get_snapshot_builder().await;
        builder.build_snapshot().await.map(|_snapshot| ())
    }

    /// Takes a snapshot, and the history that it relies on, from another node.
    pub(super) async fn install(&mut self, from: &Self) -> io::Result<()> {
        let file = from.snapshots.current().expect("the other node has one");
        let incoming = Incoming::new(Arc::clone(&self.snapshots));
        let data = receive(&incoming, self.history.length(), &file, &from.history)?;
        self.machine.install_snapshot(&Default::default(), data).await
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // A process that ends takes its threads along. Without this, the thread of the log may hold
        // the last handle to itself, and go on removing segments for a moment.
        self.wal.kill();
    }
}

fn receive(
    incoming: &Incoming,
    length: u64,
    file: &SnapshotFile,
    history: &GroupHistory,
) -> io::Result<SnapshotData> {
    let mut spool = incoming.take_spool(length)?;
    let end = file.covered().history.length;
    while spool.end() < end {
        spool.append(&history.raw(spool.end(), end, PART_BYTES)?)?;
    }
    let mut arriving = incoming.new_file()?;
    let bytes = file.raw(0, usize::try_from(file.length()?).unwrap())?;
    for part in bytes.chunks(usize::try_from(PART_BYTES).unwrap()) {
        arriving.append(part)?;
    }
    Ok(SnapshotData { file: incoming.finish(arriving)?, history: Some(spool) })
}

/// The snapshots in the group's folder, oldest first.
pub(super) fn snapshot_files(disk: &SimulatedDisk) -> Vec<PathBuf> {
    let is_snapshot = |path: &PathBuf| path.extension() == Some("snapshot".as_ref());
    disk.paths()
        .into_iter()
        .filter(|path| path.starts_with(Path::new(DIR)) && is_snapshot(path))
        .collect()
}
