//! The machine of a group, its type forgotten, and those who wait for its answers.
//!
//! Invariant: a machine that stopped in the middle of an entry is never shown.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use purser_types::{ApplyError, HistoryReader, LogTime, Machine, Stamped};
use tokio::sync::oneshot;

use crate::batch::Batch;
use crate::error::OpenError;
use crate::history::{GroupHistory, HistoryWriter};
use crate::ids::NodeId;
use crate::snapshot::SnapshotFile;
use crate::waiters::Waiters;

type Chunks = Box<dyn Iterator<Item = Vec<u8>> + Send>;

/// A machine as it was, to be written down later.
pub(crate) type Frozen = Box<dyn FnOnce() -> Chunks + Send>;

/// A machine whose type is forgotten.
pub(crate) trait Hosted: Send + Sync + 'static {
    /// Applies the commands of one entry and answers those who wait for it.
    fn apply(
        &self,
        index: u64,
        at: LogTime,
        batch: &Batch<'_>,
        history: &mut HistoryWriter,
    ) -> Result<(), ApplyError>;

    /// Tells everybody who still waits that the outcome is unknown.
    fn abandon_waiters(&self);

    /// The machine as it is now, to be written down later.
    fn freeze(&self) -> Frozen;

    /// Replaces the machine by what a snapshot holds.
    fn restore(&self, snapshot: &SnapshotFile) -> Result<(), OpenError>;
}

/// A machine, those who wait for its answers, and how to tell which answers are theirs.
pub(crate) struct HostedMachine<M: Machine> {
    machine: RwLock<Guarded<M>>,
    wanted: Mutex<Wants<M>>,
    pub(crate) waiters: Waiters<M::Answer>,
    pub(crate) node: NodeId,
    pub(crate) incarnation: u64,
}

/// Who wants the machine with all entries up to an index, and none behind it.
struct Wants<M> {
    by: Vec<(u64, oneshot::Sender<M>)>,
    /// The last entry of the snapshot that took the machine's place.
    restored: Option<u64>,
}

/// A machine, and whether an entry was left half applied.
struct Guarded<M> {
    machine: M,
    is_whole: bool,
}

impl<M> Guarded<M> {
    /// The machine, to be looked at.
    ///
    /// # Panics
    ///
    /// When an entry was left half applied: the group is stopping, and what is left of its machine
    /// is not an answer to anything.
    fn whole(&self) -> &M {
        assert!(self.is_whole, "the machine stopped in the middle of an entry and is not shown");
        &self.machine
    }
}

impl<M: Machine> HostedMachine<M> {
    /// `incarnation` tells the batches of this opening of the group from those of others.
    pub(crate) fn new(machine: M, node: NodeId, incarnation: u64) -> Self {
        let machine = RwLock::new(Guarded { machine, is_whole: true });
        let wanted = Wants { by: Vec::new(), restored: None };
        Self { machine, wanted: Mutex::new(wanted), waiters: Waiters::new(), node, incarnation }
    }

    /// The machine with all entries up to `index`, and none behind it: it comes when the next command behind
    /// `index` is about to be applied, and never if one was applied already. The sender is dropped when a
    /// snapshot takes the machine's place.
    pub(crate) fn want(&self, index: u64) -> oneshot::Receiver<M> {
        let (by, machine) = oneshot::channel();
        let mut wanted = self.wanted();
        wanted.by.retain(|(_, by)| !by.is_closed());
        if wanted.restored <= Some(index) {
            wanted.by.push((index, by));
        }
        machine
    }

    fn wanted(&self) -> MutexGuard<'_, Wants<M>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the machine, to which `next` is about to be applied, to those who want it so.
    fn hand_out(&self, machine: &M, next: u64) {
        for (_, by) in self.wanted().by.extract_if(.., |(index, _)| *index < next) {
            if by.send(machine.clone()).is_err() {
                // Whoever wanted it has gone.
            }
        }
    }

    pub(crate) fn machine(&self) -> M {
        self.read().whole().clone()
    }

    fn read(&self) -> RwLockReadGuard<'_, Guarded<M>> {
        // A panic while applying poisons the lock; `is_whole` says so too, and in the same words
        // to everybody.
        self.machine.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn view<T>(
        &self,
        history: &GroupHistory,
        look: impl FnOnce(&M, &dyn HistoryReader) -> T,
    ) -> T {
        look(self.read().whole(), history)
    }
}

impl<M: Machine> Hosted for HostedMachine<M> {
    fn apply(
        &self,
        index: u64,
        at: LogTime,
        batch: &Batch<'_>,
        history: &mut HistoryWriter,
    ) -> Result<(), ApplyError> {
        let mut answers = Vec::with_capacity(batch.commands.len());
        let mut guarded = self.machine.write().unwrap_or_else(PoisonError::into_inner);
        self.hand_out(&guarded.machine, index);
        guarded.is_whole = false;
        for (ordinal, command) in (0..).zip(&batch.commands) {
            let stamped = Stamped { index, ordinal, at, command };
            answers.push(guarded.machine.apply(stamped, history)?);
        }
        guarded.is_whole = true;
        drop(guarded);
        if batch.id.node == self.node && batch.id.incarnation == self.incarnation {
            self.waiters.answer(batch.id.counter, index, answers);
        }
        Ok(())
    }

    fn abandon_waiters(&self) {
        self.waiters.abandon();
    }

    fn freeze(&self) -> Frozen {
        let machine = self.machine();
        Box::new(move || machine.snapshot())
    }

    fn restore(&self, snapshot: &SnapshotFile) -> Result<(), OpenError> {
        let restored = snapshot.restore(|chunks| M::restore(chunks))?;
        let whole = Guarded { machine: restored, is_whole: true };
        // What it was before is not to be had any more.
        let last = snapshot.covered().last.map(|last| last.index);
        *self.wanted() = Wants { by: Vec::new(), restored: last };
        *self.machine.write().unwrap_or_else(PoisonError::into_inner) = whole;
        Ok(())
    }
}
