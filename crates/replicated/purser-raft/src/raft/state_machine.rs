//! openraft's state machine: the machine, its history, and its snapshots.
//!
//! The machine is erased ([`Hosted`]), so that openraft is compiled once. State is in memory;
//! what a restart needs is the snapshot and the log behind it.

mod hosted;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{Stream, StreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder, SnapshotMeta};
use purser_types::{ApplyError, LogTime};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::batch;
use crate::clock::Clock;
use crate::entry::{EntryId, Members};
use crate::error::StopReason;
use crate::history::HistoryWriter;
use crate::ids::NodeId;
use crate::raft::group_log::GroupLog;
use crate::raft::types::{Entry, LeaderId, LogId, StoredMembership, TypeConfig};
use crate::snapshot::format::Covered;
use crate::snapshot::incoming::SnapshotData;
use crate::snapshot::{SnapshotFile, SnapshotStore};
use crate::tasks::Stop;

use hosted::Frozen;
pub(crate) use hosted::{Hosted, HostedMachine};

type Snapshot = openraft::Snapshot<LeaderId, NodeId, openraft::EmptyNode, SnapshotData>;
type Meta = SnapshotMeta<LeaderId, NodeId, openraft::EmptyNode>;
type SyncHistory = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// How far this node has applied the log; shared with the group's handle.
pub(crate) struct Applied {
    clock: Arc<dyn Clock>,
    marks: Mutex<Marks>,
    stamp: AtomicU64,
    /// When a stamp was last applied, by the clock that nobody sets.
    stamped_at: Mutex<Instant>,
}

#[derive(Debug, Clone, Default)]
struct Marks {
    /// The last entry that was begun: whoever looks may see something of it.
    begun: Option<u64>,
    last: Option<EntryId>,
    members_at: Option<EntryId>,
    members: Members,
}

impl Applied {
    /// Nothing is applied yet. `clock` tells how long ago something was.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let stamped_at = Mutex::new(clock.steady());
        Self { clock, marks: Mutex::default(), stamp: AtomicU64::new(0), stamped_at }
    }

    /// For how long no stamp has been applied, or since the group was opened.
    pub(crate) fn since_stamped(&self) -> Duration {
        let stamped_at = *self.stamped_at.lock().unwrap_or_else(PoisonError::into_inner);
        self.clock.steady().saturating_duration_since(stamped_at)
    }

    /// The highest stamp applied.
    pub(crate) fn stamp(&self) -> LogTime {
        LogTime::from_unix_micros(self.stamp.load(Ordering::Acquire)).unwrap_or(LogTime::MAX)
    }

    /// The last entry of which a look at the machine before this call may have shown something.
    pub(crate) fn shown_index(&self) -> Option<u64> {
        self.lock().begun
    }

    /// The last entry applied.
    pub(crate) fn last_index(&self) -> Option<u64> {
        self.lock().last.map(|last| last.index)
    }

    fn raise_stamp(&self, stamp: LogTime) -> LogTime {
        *self.stamped_at.lock().unwrap_or_else(PoisonError::into_inner) = self.clock.steady();
        self.stamp.fetch_max(stamp.as_unix_micros(), Ordering::AcqRel);
        self.stamp()
    }

    fn set(&self, covered: &Covered) {
        *self.lock() = Marks {
            begun: covered.last.map(|last| last.index),
            last: covered.last,
            members_at: covered.members_at,
            members: covered.members.clone(),
        };
        self.raise_stamp(covered.stamp);
    }

    fn lock(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What openraft drives.
pub(crate) struct StateMachine {
    hosted: Arc<dyn Hosted>,
    history: Arc<Mutex<HistoryWriter>>,
    snapshots: Arc<SnapshotStore>,
    log: Arc<GroupLog>,
    applied: Arc<Applied>,
    /// Node-wide: one snapshot is written at a time.
    writing: Arc<Semaphore>,
    stop: Stop,
    writers: TaskTracker,
    _writer: TaskTrackerToken,
}

/// What a [`StateMachine`] is made of.
pub(crate) struct Parts {
    pub(crate) hosted: Arc<dyn Hosted>,
    pub(crate) history: HistoryWriter,
    pub(crate) snapshots: Arc<SnapshotStore>,
    pub(crate) log: Arc<GroupLog>,
    pub(crate) applied: Arc<Applied>,
    pub(crate) writing: Arc<Semaphore>,
    pub(crate) stop: Stop,
}

impl StateMachine {
    /// Puts the parts together. `hosted` is as the current snapshot has it, if there is one.
    pub(crate) fn new(parts: Parts) -> Self {
        if let Some(snapshot) = parts.snapshots.current() {
            parts.applied.set(snapshot.covered());
            parts.log.raise_stamp(snapshot.covered().stamp);
        }
        let writers = TaskTracker::new();
        Self {
            _writer: writers.token(),
            writers,
            hosted: parts.hosted,
            history: Arc::new(Mutex::new(parts.history)),
            snapshots: parts.snapshots,
            log: parts.log,
            applied: parts.applied,
            writing: parts.writing,
            stop: parts.stop,
        }
    }

    /// Counts everybody who may still write the group's files: this, its snapshot builders, and
    /// what they left to other threads. openraft's end does not wait for them.
    pub(crate) fn writers(&self) -> TaskTracker {
        self.writers.clone()
    }

    fn history(&self) -> MutexGuard<'_, HistoryWriter> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply_entry(&self, entry: Entry) -> io::Result<()> {
        let id = EntryId::from(entry.log_id);
        // Order matters: whoever sees what it does, and asks then how far that reaches, is told of it.
        self.applied.lock().begun = Some(id.index);
        match entry.payload {
            EntryPayload::Blank => (),
            EntryPayload::Normal(commands) => {
                let batch = batch::decode(&commands.0)?;
                // Invariant: stamps never go down, also if two leaders' clocks disagree.
                let at = self.applied.raise_stamp(batch.at);
                let guard = PanicGuard { stop: &self.stop, index: id.index };
                let applied = self.hosted.apply(id.index, at, &batch, &mut self.history());
                drop(guard);
                if let Err(error) = applied {
                    return Err(self.give_up(id.index, &error));
                }
            }
            EntryPayload::Membership(membership) => {
                let mut marks = self.applied.lock();
                marks.members = Members::from(&membership);
                marks.members_at = Some(id);
            }
        }
        self.applied.lock().last = Some(id);
        Ok(())
    }

    fn give_up(&self, index: u64, error: &ApplyError) -> io::Error {
        let mut text = format!("entry {index}: {error}");
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        tracing::error!(index, error = text, "a command could not be applied");
        self.stop.stop(StopReason::Apply(text.clone()));
        io::Error::other(text)
    }

    /// Says why the group stops here. Order matters: before openraft is told, which may notice
    /// that its worker is gone sooner than it hears why.
    fn refused(&self, what: &str, error: io::Error) -> io::Error {
        self.stop.stop(StopReason::Apply(format!("{what}: {error}")));
        error
    }

    fn covered(&self) -> Covered {
        let marks = self.applied.lock().clone();
        Covered {
            last: marks.last,
            members_at: marks.members_at,
            members: marks.members,
            stamp: self.applied.stamp(),
            history: self.history().reader().mark(),
        }
    }
}

/// A failed assertion in the machine must stop the node, not only the task it happened in.
struct PanicGuard<'a> {
    stop: &'a Stop,
    index: u64,
}

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.stop
                .stop(StopReason::Apply(format!("entry {}: the machine panicked", self.index)));
        }
    }
}

fn meta(covered: &Covered) -> io::Result<Meta> {
    let membership = (&covered.members).try_into()?;
    Ok(SnapshotMeta {
        last_log_id: covered.last.map(LogId::from),
        last_membership: StoredMembership::new(covered.members_at.map(LogId::from), membership),
    })
}

fn snapshot_of(file: SnapshotFile) -> io::Result<Snapshot> {
    let meta = meta(file.covered())?;
    Ok(Snapshot { meta, snapshot: SnapshotData { file: file.into(), history: None } })
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = SnapshotData;
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        let marks = self.applied.lock().clone();
        let membership = (&marks.members).try_into()?;
        let membership = StoredMembership::new(marks.members_at.map(LogId::from), membership);
        Ok((marks.last.map(LogId::from), membership))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<TypeConfig>>> + Unpin + OptionalSend,
    {
        while let Some(next) = entries.next().await {
            let (entry, responder) = next?;
            self.apply_entry(entry)?;
            if let Some(responder) = responder {
                responder.send(());
            }
        }
        let flushed = self.history().flush();
        flushed.map_err(|error| self.refused("the history could not be written", error))
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        let mut history = self.history();
        let flushed = history.flush();
        let syncer = history.syncer();
        drop(history);
        let sync: SyncHistory = Box::new(move || syncer.sync());
        SnapshotBuilder {
            frozen: Mutex::new(flushed.map(|()| (sync, self.hosted.freeze()))),
            covered: self.covered(),
            snapshots: Arc::clone(&self.snapshots),
            log: Arc::clone(&self.log),
            writing: Arc::clone(&self.writing),
            stop: self.stop.clone(),
            writers: self.writers.clone(),
            _writer: self.writers.token(),
        }
    }

    async fn install_snapshot(&mut self, _meta: &Meta, data: SnapshotData) -> io::Result<()> {
        let history = Arc::clone(&self.history);
        let snapshots = Arc::clone(&self.snapshots);
        let hosted = Arc::clone(&self.hosted);
        let writer = self.writers.token();
        let installing = tokio::task::spawn_blocking(move || {
            let _writer = writer;
            install(data, &history, &snapshots, &*hosted)
        });
        let installed = installing.await.map_err(io::Error::other)?;
        let installed =
            installed.map_err(|error| self.refused("a snapshot could not be installed", error))?;
        let covered = installed.covered();
        self.applied.set(covered);
        self.log.raise_stamp(covered.stamp);
        if let Some(last) = covered.last {
            self.log.snapshot_is_durable(last.index);
        }
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        self.snapshots.current().map(snapshot_of).transpose()
    }
}

/// Order matters: the history that the snapshot relies on is durable before the snapshot counts.
fn install(
    mut data: SnapshotData,
    history: &Mutex<HistoryWriter>,
    snapshots: &SnapshotStore,
    hosted: &dyn Hosted,
) -> io::Result<SnapshotFile> {
    let file = data.file.snapshot().clone();
    let covered = file.covered();
    let mut history = history.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(spool) = &data.history {
        spool.append_to(&mut history, covered.history)?;
    }
    history.flush()?;
    if history.reader().mark() != covered.history {
        return Err(io::Error::other("the snapshot relies on history that this node lacks"));
    }
    // Not synced under the lock: others take it on threads that must not wait for a disk.
    let syncer = history.syncer();
    drop(history);
    syncer.sync()?;
    hosted.restore(&file).map_err(io::Error::other)?;
    let current = snapshots.import(file)?;
    data.file.adopted();
    Ok(current)
}

/// A machine as it was, on its way to the disk.
pub(crate) struct SnapshotBuilder {
    /// Taken when the snapshot is built. (Locked only because openraft wants to share builders.)
    frozen: Mutex<io::Result<(SyncHistory, Frozen)>>,
    covered: Covered,
    snapshots: Arc<SnapshotStore>,
    log: Arc<GroupLog>,
    writing: Arc<Semaphore>,
    stop: Stop,
    writers: TaskTracker,
    _writer: TaskTrackerToken,
}

impl RaftSnapshotBuilder<TypeConfig> for SnapshotBuilder {
    type SnapshotData = SnapshotData;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let frozen = self.frozen.get_mut().unwrap_or_else(PoisonError::into_inner);
        let used = io::Error::other("a snapshot is built once");
        let (sync, chunks) = std::mem::replace(frozen, Err(used))?;
        let _permit = self.writing.acquire().await.map_err(io::Error::other)?;
        // Others may have been writing for long, and an end waits for this.
        if let Some(reason) = self.stop.reason() {
            return Err(io::Error::other(reason));
        }
        let covered = self.covered.clone();
        let snapshots = Arc::clone(&self.snapshots);
        let writer = self.writers.token();
        let writing = tokio::task::spawn_blocking(move || {
            let _writer = writer;
            sync()?;
            snapshots.write(covered, chunks())
        });
        let file = writing.await.map_err(io::Error::other)??;
        if let Some(last) = file.covered().last {
            self.log.snapshot_is_durable(last.index);
        }
        snapshot_of(file)
    }
}

#[cfg(test)]
mod tests;
