//! openraft's own test suite for stores, over ours.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use purser_types::{ApplyError, CorruptSnapshot, History, LogTime, Machine, Stamped};
use tempfile::TempDir;
use tokio::sync::Semaphore;

use crate::clock::SystemClock;
use crate::disk::{Disk, RealDisk, SimulatedDisk};
use crate::history::{HistoryPlace, HistoryWriter};
use crate::ids::{ClusterId, GroupId, NodeId};
use crate::raft::group_log::GroupLog;
use crate::raft::log_store::LogStore;
use crate::raft::state_machine::{Applied, HostedMachine, Parts, StateMachine};
use crate::raft::types::TypeConfig;
use crate::settings::WalSettings;
use crate::snapshot::{SnapshotPlace, SnapshotStore};
use crate::tasks::Stop;
use crate::wal::{RecoveredGroup, Wal, WalPlace};

const GROUP: GroupId = GroupId(1);

/// A machine that only knows the time.
#[derive(Clone, Default)]
struct Idle(LogTime);

impl Machine for Idle {
    type Answer = ();

    fn apply(&mut self, stamped: Stamped<'_>, _: &mut dyn History) -> Result<(), ApplyError> {
        self.0 = self.0.max(stamped.at);
        Ok(())
    }

    fn log_time(&self) -> LogTime {
        self.0
    }

    fn snapshot(&self) -> Box<dyn Iterator<Item = Vec<u8>> + Send> {
        Box::new(std::iter::once(self.0.as_unix_micros().to_le_bytes().to_vec()))
    }

    fn restore(chunks: &mut dyn Iterator<Item = Vec<u8>>) -> Result<Self, CorruptSnapshot> {
        let chunk = chunks.next().unwrap_or_default();
        let micros = u64::from_le_bytes(chunk.try_into().unwrap_or_default());
        let at = LogTime::from_unix_micros(micros);
        at.map(Self).map_err(|error| CorruptSnapshot(error.to_string()))
    }
}

struct Builder {
    disk: fn() -> Arc<dyn Disk>,
}

impl StoreBuilder<TypeConfig, LogStore, StateMachine, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, LogStore, StateMachine), StorageError<TypeConfig>> {
        let dir = tempfile::tempdir().unwrap();
        let (store, machine) = build(&(self.disk)(), dir.path());
        Ok((dir, store, machine))
    }
}

fn build(disk: &Arc<dyn Disk>, dir: &Path) -> (LogStore, StateMachine) {
    let (cluster, node) = (ClusterId::from_bytes([7; 16]), NodeId(0));
    let made = |name: &str| -> (Arc<dyn Disk>, PathBuf) {
        let dir = dir.join(name);
        disk.create_dir_all(&dir).unwrap();
        (Arc::clone(disk), dir)
    };
    let (disk, dir) = made("wal");
    let place = WalPlace { disk, dir, cluster, node };
    let (wal, _recovered) = Wal::open(&place, WalSettings::SMALL).unwrap();
    // The suite purges without ever taking a snapshot.
    let covered = Some(u64::MAX);
    let log = GroupLog::open(GROUP, Arc::new(wal), 1 << 20, RecoveredGroup::default(), covered);
    let log = Arc::new(log);
    let (disk, dir) = made("snapshots");
    let place = SnapshotPlace { disk, dir, cluster, group: GROUP };
    let snapshots = SnapshotStore::open(place).unwrap();
    let (disk, dir) = made("history");
    let place = HistoryPlace { disk, dir, cluster, group: GROUP };
    let history = HistoryWriter::open(place, 1 << 20, Default::default()).unwrap();
    let machine = StateMachine::new(Parts {
        hosted: Arc::new(HostedMachine::new(Idle::default(), node, 1)),
        history,
        snapshots: Arc::new(snapshots),
        log: Arc::clone(&log),
        applied: Arc::new(Applied::new(Arc::new(SystemClock))),
        writing: Arc::new(Semaphore::new(1)),
        stop: Stop::new(),
    });
    (LogStore::new(log), machine)
}

#[tokio::test]
async fn the_store_passes_openrafts_suite_on_files() {
    Suite::test_all(Builder { disk: || Arc::new(RealDisk) }).await.unwrap();
}

#[tokio::test]
async fn the_store_passes_openrafts_suite_on_a_simulated_disk() {
    Suite::test_all(Builder { disk: || Arc::new(SimulatedDisk::from_seed(1)) }).await.unwrap();
}
