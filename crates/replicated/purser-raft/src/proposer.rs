//! Turns commands into entries.
//!
//! Commands wait in a bounded queue. One task takes what is there, up to 256 commands or 64 KiB,
//! stamps it and hands it to consensus as one entry; while two entries are in flight, the queue
//! fills. Nobody waits for company: under load batches grow by themselves, and a lone command goes
//! out at once.
//!
//! Invariant: entries are launched with stamps that never go down, also those that are in flight at
//! the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use openraft::error::ClientWriteError;
use openraft::impls::OneshotResponder;
use openraft::raft::ClientWriteResult;
use purser_types::{LogTime, Machine};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::batch::{self, BatchId, COMMAND_OVERHEAD_BYTES};
use crate::clock::ClockVerdict;
use crate::error::ProposeError;
use crate::group::core::GroupCore;
use crate::raft::state_machine::HostedMachine;
use crate::raft::types::{Commands, TypeConfig};
use crate::waiters::{Indexed, Waiter};

/// Commands in one entry, at most. More would make single commands wait for the whole entry.
const BATCH_COMMANDS_MAX: usize = 256;

/// Bytes of commands in one entry, unless one alone is larger.
const BATCH_BYTES_MAX: usize = 64 << 10;

/// Entries that may be in flight: one is being written while the next is being replicated.
const IN_FLIGHT_MAX: usize = 2;

/// The largest command: an entry with it must fit a frame between nodes.
pub(crate) const COMMAND_BYTES_MAX: usize = 4 << 20;

/// A command on its way into an entry.
struct Proposal<A> {
    command: Bytes,
    waiter: Waiter<A>,
    /// Its share of the bytes that may wait.
    _room: OwnedSemaphorePermit,
}

/// The queue in front of a group's proposer.
pub(crate) struct Queue<A> {
    proposals: mpsc::Sender<Proposal<A>>,
    room: Arc<Semaphore>,
}

/// The other end of the queue.
pub(crate) struct Queued<A> {
    proposals: mpsc::Receiver<Proposal<A>>,
}

/// What the proposer has done.
#[derive(Debug, Default)]
pub(crate) struct ProposerCounters {
    pub(crate) commands: AtomicU64,
    pub(crate) entries: AtomicU64,
}

pub(crate) fn queue<A>(commands_max: usize, bytes_max: usize) -> (Queue<A>, Queued<A>) {
    let (sender, receiver) = mpsc::channel(commands_max.max(1));
    let room = Arc::new(Semaphore::new(bytes_max.max(COMMAND_BYTES_MAX)));
    (Queue { proposals: sender, room }, Queued { proposals: receiver })
}

impl<A> Queue<A> {
    /// Queues a command, or refuses at once, and waits for its answer until `deadline`.
    pub(crate) async fn propose(
        &self,
        command: Bytes,
        deadline: Instant,
    ) -> Result<Indexed<A>, ProposeError> {
        if command.len() > COMMAND_BYTES_MAX {
            return Err(ProposeError::TooLarge { max: COMMAND_BYTES_MAX });
        }
        let bytes = u32::try_from(command.len()).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).try_acquire_many_owned(bytes);
        let room = room.map_err(|_full| ProposeError::Overloaded)?;
        let (waiter, answer) = oneshot::channel();
        let proposal = Proposal { command, waiter, _room: room };
        self.proposals.try_send(proposal).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => ProposeError::Overloaded,
            mpsc::error::TrySendError::Closed(_) => ProposeError::Stopped,
        })?;
        match tokio::time::timeout_at(deadline.into(), answer).await {
            Ok(Ok(outcome)) => outcome,
            // Dropped in the queue: a command that was in an entry is answered in words.
            Ok(Err(_dropped)) => Err(ProposeError::Stopped),
            Err(_elapsed) => Err(ProposeError::OutcomeUnknown),
        }
    }

    pub(crate) fn length(&self) -> usize {
        self.proposals.max_capacity() - self.proposals.capacity()
    }
}

type Done = (u64, Option<ClientWriteResult<TypeConfig>>);

/// The task behind the queue.
pub(crate) struct Proposer<M: Machine> {
    pub(crate) core: Arc<GroupCore>,
    pub(crate) hosted: Arc<HostedMachine<M>>,
    pub(crate) queued: Queued<M::Answer>,
    /// Taken from the queue, but too large for the entry before.
    held: Option<Proposal<M::Answer>>,
    batches: u64,
}

impl<M: Machine> Proposer<M> {
    pub(crate) fn new(
        core: Arc<GroupCore>,
        hosted: Arc<HostedMachine<M>>,
        queued: Queued<M::Answer>,
    ) -> Self {
        Self { core, hosted, queued, held: None, batches: 0 }
    }

    /// Runs until the queue is closed.
    pub(crate) async fn run(mut self) {
        let mut in_flight: FuturesUnordered<BoxFuture<'static, Done>> = FuturesUnordered::new();
        // Entries of an earlier leadership. They may be committed by somebody else, or never, and
        // must not hold up what comes.
        let mut earlier: FuturesUnordered<BoxFuture<'static, Done>> = FuturesUnordered::new();
        let mut leadership = self.core.leadership();
        let mut paused = self.core.paused.subscribe();
        loop {
            let is_paused = *paused.borrow_and_update();
            let is_quiet = is_paused && in_flight.is_empty();
            self.core
                .is_quiet
                .send_if_modified(|said| std::mem::replace(said, is_quiet) != is_quiet);
            let may_launch = in_flight.len() < IN_FLIGHT_MAX && !is_paused;
            tokio::select! {
                biased;
                Some(done) = in_flight.next() => self.finish(done),
                Some(done) = earlier.next() => self.finish(done),
                changed = leadership.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    if !*leadership.borrow_and_update() {
                        earlier.extend(std::mem::take(&mut in_flight));
                    }
                }
                // Looked at again above.
                changed = paused.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                first = self.next_proposal(), if may_launch => {
                    let Some(first) = first else {
                        return;
                    };
                    let batch = self.collect(first);
                    if let Some(done) = self.launch(batch).await {
                        in_flight.push(done);
                    }
                }
            }
        }
    }

    async fn next_proposal(&mut self) -> Option<Proposal<M::Answer>> {
        match self.held.take() {
            Some(held) => Some(held),
            None => self.queued.proposals.recv().await,
        }
    }

    fn collect(&mut self, first: Proposal<M::Answer>) -> Vec<Proposal<M::Answer>> {
        let mut bytes = first.command.len() + COMMAND_OVERHEAD_BYTES;
        let mut batch = vec![first];
        while batch.len() < BATCH_COMMANDS_MAX
            && let Ok(next) = self.queued.proposals.try_recv()
        {
            // Nobody waits for it any more, and it is sure that nothing happened.
            if next.waiter.is_closed() {
                continue;
            }
            bytes += next.command.len() + COMMAND_OVERHEAD_BYTES;
            if bytes > BATCH_BYTES_MAX {
                self.held = Some(next);
                break;
            }
            batch.push(next);
        }
        batch
    }

    /// Stamps a batch and hands it to consensus, or refuses it.
    async fn launch(
        &mut self,
        batch: Vec<Proposal<M::Answer>>,
    ) -> Option<BoxFuture<'static, Done>> {
        // Read once: what is judged is what becomes the stamp.
        let now = self.core.clocks.now();
        if let Some(refusal) = self.refusal(now) {
            for proposal in batch {
                drop(proposal.waiter.send(Err(refusal.clone())));
            }
            return None;
        }
        let (commands, waiters): (Vec<Bytes>, Vec<_>) =
            batch.into_iter().map(|proposal| (proposal.command, proposal.waiter)).unzip();
        let counters = &self.core.proposer;
        let count = u64::try_from(commands.len()).unwrap_or(u64::MAX);
        counters.commands.fetch_add(count, Ordering::Relaxed);
        counters.entries.fetch_add(1, Ordering::Relaxed);
        self.batches += 1;
        let number = self.batches;
        let id = BatchId {
            node: self.hosted.node,
            incarnation: self.hosted.incarnation,
            counter: number,
        };
        // Invariant: not below any stamp in the log, whoever put it there, nor below one that is on
        // its way into it.
        let at = now.max(self.core.log.stamp());
        self.core.log.raise_stamp(at);
        let entry = Commands(batch::encode(at, id, &commands));
        self.hosted.waiters.insert(number, waiters);
        let (responder, outcome) = OneshotResponder::new_pair();
        if self.core.raft.client_write_ff(entry, Some(responder)).await.is_err() {
            // Consensus has ended and did not take it.
            self.hosted.waiters.refuse(number, &ProposeError::Stopped);
            return None;
        }
        Some(Box::pin(async move { (number, outcome.await.ok()) }))
    }

    /// Why this node does not stamp an entry with `now`, if it does not.
    fn refusal(&self, now: LogTime) -> Option<ProposeError> {
        if let Some(refusal) = self.core.not_leader() {
            return Some(ProposeError::NotLeader { leader: refusal.leader });
        }
        match self.core.judge_clock(now).sure() {
            Some(ClockVerdict::Good | ClockVerdict::Behind) => None,
            Some(ClockVerdict::Ahead) => Some(ProposeError::ClockAhead),
            // It leads, but not yet for good: it is waiting for the clocks of a majority.
            None => Some(ProposeError::NotLeader { leader: None }),
        }
    }

    fn finish(&self, (number, outcome): Done) {
        match outcome {
            // The answers were given when the entry was applied.
            Some(Ok(_)) => (),
            // Refused before it was appended.
            Some(Err(ClientWriteError::ForwardToLeader(forward))) => {
                let refusal = ProposeError::NotLeader { leader: forward.leader_id };
                self.hosted.waiters.refuse(number, &refusal);
            }
            // Appended, and then lost its leader. Another one may still commit it: the callers
            // wait for that, or for their deadlines.
            Some(Err(error)) => tracing::debug!(batch = number, error = %error, "left behind"),
            None => (),
        }
    }
}
