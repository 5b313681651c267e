//! A scripted life of a node, and what it promised at each moment.
//!
//! Every step says beforehand what will be promised when it is done. A disk on which the power
//! failed during the step must hold either the promise before it or the one after it.

use std::io;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use bytes::Bytes;
use purser_types::LogTime;
use tokio::sync::oneshot;

use crate::batch::{self, BatchId};
use crate::disk::SimulatedDisk;
use crate::entry::{Content, EntryId, LogEntry, Members, VoteRecord};
use crate::error::OpenError;
use crate::ids::NodeId;
use crate::wal::OnDurable;

use super::journal::check_journal;
use super::node::{NODE, Node};

/// The node that snapshots come from, and that leads after one.
const OTHER: NodeId = NodeId(2);

/// What a node may not forget.
#[derive(Debug, Clone, Default)]
pub(super) struct Promise {
    vote: Option<VoteRecord>,
    /// The log from entry 0 on, as if nothing was ever purged.
    pub(super) log: Vec<LogEntry>,
    /// How many entries of it are known to be committed.
    pub(super) committed: usize,
    /// Last entry covered by a snapshot.
    snapshot: Option<u64>,
}

/// A node at work.
pub(super) struct Run {
    pub(super) node: Node,
    pub(super) promise: Promise,
    /// Promised when the step that is being taken is done.
    pub(super) next: Promise,
    term: u64,
    leader: NodeId,
    /// One disk for every write point that was passed and not looked at yet.
    crashes: Arc<Mutex<Vec<SimulatedDisk>>>,
    /// How many crashes were looked at.
    pub(super) crashes_seen: usize,
}

impl Promise {
    fn last(&self) -> Option<EntryId> {
        self.log.last().map(|last| last.id)
    }

    fn last_committed(&self) -> Option<EntryId> {
        self.committed.checked_sub(1).map(|last| self.log[last].id)
    }
}

/// Different in length, and now and then something else than commands.
fn entry(term: u64, leader: NodeId, index: u64) -> LogEntry {
    let id = EntryId { term, leader, index };
    let nodes = || [NODE, OTHER].into();
    let content = match index {
        0 => Content::Members(Members { voter_sets: vec![nodes()], nodes: nodes() }),
        _ if index % 9 == 4 => Content::Blank,
        _ => {
            // A leader's clock may be behind the one before.
            let micros = 10_000 * (index + 10) - 25_000 * u64::from(index.is_multiple_of(5));
            let batch = BatchId { node: leader, incarnation: term, counter: index };
            let bytes = |number: u64| usize::try_from(index * 37 % 190 + number).unwrap();
            let commands: Vec<Bytes> =
                (0..=index % 3).map(|number| Bytes::from(vec![b'c'; bytes(number)])).collect();
            let at = LogTime::from_unix_micros(micros).unwrap();
            Content::Commands(batch::encode(at, batch, &commands))
        }
    };
    LogEntry { id, content }
}

impl Run {
    /// Opens the node on `disk`, which has promised nothing yet.
    pub(super) async fn open(disk: &SimulatedDisk, prepare_ahead: bool) -> Result<Self, OpenError> {
        Ok(Self::of(Node::open(disk, prepare_ahead).await?, Promise::default()))
    }

    pub(super) fn of(node: Node, promise: Promise) -> Self {
        let term = promise.vote.map_or(0, |vote| vote.term);
        let next = promise.clone();
        let crashes = Arc::default();
        Self { node, promise, next, term, leader: NODE, crashes, crashes_seen: 0 }
    }

    /// From here on, every crash is looked at.
    pub(super) fn observe(&mut self, disk: &SimulatedDisk) {
        let crashes = Arc::clone(&self.crashes);
        disk.observe(move |crashed| {
            crashes.lock().unwrap_or_else(PoisonError::into_inner).push(crashed);
        });
    }

    fn take_crashes(&self) -> Vec<SimulatedDisk> {
        std::mem::take(&mut *self.crashes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends a step: looks at every crash in it, and takes the promise for given.
    pub(super) async fn done(&mut self) {
        for crashed in self.take_crashes() {
            self.crashes_seen += 1;
            // Boxed, because a crashed node goes on with a run of its own.
            Box::pin(check_crash(&crashed, &[&self.promise, &self.next])).await;
        }
        self.promise = self.next.clone();
    }

    fn new_entries(&self, count: usize) -> Vec<LogEntry> {
        let next = self.next.log.len();
        (next..next + count)
            .map(|index| entry(self.term, self.leader, u64::try_from(index).unwrap()))
            .collect()
    }

    pub(super) async fn vote(&mut self, leader: NodeId) -> io::Result<()> {
        (self.term, self.leader) = (self.term + 1, leader);
        let vote = VoteRecord { term: self.term, node: leader, committed: leader != NODE };
        self.next.vote = Some(vote);
        self.node.save_vote(vote).await?;
        self.done().await;
        Ok(())
    }

    pub(super) async fn append(&mut self, count: usize) -> io::Result<()> {
        let new = self.new_entries(count);
        self.next.log.extend(new.iter().cloned());
        self.node.append(&new).await?;
        self.done().await;
        Ok(())
    }

    /// Commits and applies all but the last `behind` entries.
    pub(super) async fn commit(&mut self, behind: usize) -> io::Result<()> {
        self.next.committed = self.next.log.len() - behind;
        let upto = self.next.last_committed().unwrap();
        self.node.commit(upto).await?;
        self.done().await;
        Ok(())
    }

    pub(super) async fn take_snapshot(&mut self) -> io::Result<()> {
        self.next.snapshot = self.next.last_committed().map(|last| last.index);
        self.node.take_snapshot().await?;
        self.done().await;
        Ok(())
    }

    /// Purges, and goes on until the segments are given back. (They are after the append that the
    /// purge goes along with: the second one waits for that.)
    async fn purge(&mut self, upto: u64) -> io::Result<()> {
        self.node.purge(self.next.log[usize::try_from(upto).unwrap()].id).await?;
        self.append(1).await?;
        self.append(1).await
    }

    /// Drops what is not committed.
    pub(super) async fn truncate(&mut self) -> io::Result<()> {
        self.next.log.truncate(self.next.committed);
        self.node.truncate_after(self.next.last()).await?;
        self.done().await;
        Ok(())
    }

    /// Votes, and lets the thread of the log stand still once that is durable. Gives what releases
    /// it, and what tells that it stands still.
    pub(super) fn vote_and_hold(
        &mut self,
    ) -> (mpsc::Sender<()>, oneshot::Receiver<io::Result<()>>) {
        (self.term, self.leader) = (self.term + 1, NODE);
        let vote = VoteRecord { term: self.term, node: NODE, committed: false };
        self.next.vote = Some(vote);
        let (release, released) = mpsc::channel::<()>();
        let (sender, holding) = oneshot::channel();
        let on_durable: OnDurable = Box::new(move |outcome| {
            drop(sender.send(outcome.map(|_location| ())));
            // Released by a word, or by being forgotten.
            released.recv().unwrap_or_default();
        });
        self.node.log.save_vote(vote, on_durable);
        (release, holding)
    }

    /// A majority without this node commits an entry before this node has it on its disk, and a
    /// snapshot covers it.
    async fn overtake(&mut self) -> io::Result<()> {
        let (release, holding) = self.vote_and_hold();
        holding.await.map_err(io::Error::other)??;
        self.done().await;

        let new = self.new_entries(1);
        self.next.log.extend(new.iter().cloned());
        self.next.committed = self.next.log.len();
        let last = self.next.last_committed().unwrap();
        self.next.snapshot = Some(last.index);
        let (sender, durable) = oneshot::channel();
        self.node.log.append(new, move |outcome| drop(sender.send(outcome)))?;
        self.node.commit(last).await?;
        self.node.take_snapshot().await?;
        drop(release);
        durable.await.map_err(io::Error::other)??;
        self.done().await;
        Ok(())
    }

    /// Another node leads, is `ahead` entries ahead, and sends a snapshot. This one has `tail`
    /// entries that nobody committed.
    async fn install(&mut self, ahead: usize, tail: usize) -> io::Result<()> {
        self.commit(0).await?;
        if tail > 0 {
            self.append(tail).await?;
        }
        self.vote(OTHER).await?;
        let committed = self.next.committed;
        let mut theirs = self.next.clone();
        theirs.log.truncate(committed);
        let first = u64::try_from(committed).unwrap();
        theirs.log.extend((first..).take(ahead).map(|index| entry(self.term, OTHER, index)));
        theirs.committed = theirs.log.len();
        let last = theirs.last_committed().unwrap();
        theirs.snapshot = Some(last.index);
        let mut other = Node::open(&SimulatedDisk::from_seed(0), false).await.unwrap();
        other.append(&theirs.log).await.unwrap();
        other.commit(last).await.unwrap();
        other.take_snapshot().await.unwrap();
        if tail >= ahead {
            // An entry stands where the snapshot ends, and is not the one that it covers.
            self.truncate().await?;
        }
        self.next = theirs;
        self.node.install(&other).await?;
        self.done().await;
        self.purge(last.index).await?;
        self.commit(1).await
    }

    /// Everything a node does, `rounds` times.
    pub(super) async fn play(&mut self, rounds: u64) -> io::Result<()> {
        for round in 0..rounds {
            self.vote(NODE).await?;
            for count in [1, 3, 2] {
                self.append(count).await?;
                self.commit(0).await?;
            }
            match round % 6 {
                0 | 3 => {
                    self.take_snapshot().await?;
                    if let Some(upto) = self.node.log.purge_target(200 * (round % 4)) {
                        self.purge(upto).await?;
                    }
                }
                1 => {
                    self.append(9).await?;
                    self.vote(OTHER).await?;
                    self.truncate().await?;
                    self.append(2).await?;
                }
                2 => self.overtake().await?,
                4 => self.install(7, 2).await?,
                _ => self.install(4, 15).await?,
            }
        }
        self.vote(NODE).await
    }
}

/// Opens `disk` as a node does. It must hold one of `promises`, which is given back.
pub(super) async fn check_promise(
    disk: &SimulatedDisk,
    promises: &[&Promise],
    what: &str,
) -> (Node, Promise) {
    let opened = Node::open(disk, false).await;
    let mut node = opened.unwrap_or_else(|error| panic!("{what}: {error}: {error:?}"));
    let (first, last) = (promises[0], promises[promises.len() - 1]);
    let vote = node.log.vote();
    assert!(promises.iter().any(|promise| promise.vote == vote), "{what}: {vote:?} was not given");
    assert!(node.snapshot_index() >= first.snapshot, "{what}: the snapshot is older");

    // What was purged is the same in all of them: it was committed.
    let entries = node.log.read(0..u64::MAX, usize::MAX).unwrap();
    let purged = node.log.purged().map_or(0, |purged| usize::try_from(purged.index).unwrap() + 1);
    let mut log = last.log[..purged].to_vec();
    log.extend(entries);
    let kept = promises.iter().find(|promise| promise.log == log);
    let ends: Vec<_> = promises.iter().map(|promise| promise.last()).collect();
    let end = log.last().map(|last| last.id);
    let kept = kept.unwrap_or_else(|| panic!("{what}: {end:?} is none of {ends:?}"));

    // And it can go on to what was committed.
    let applied = node.applied().await.map_or(0, |applied| usize::try_from(applied).unwrap() + 1);
    assert!(applied <= last.committed, "{what}: {applied} entries were applied");
    check_journal(&node.hosted.machine(), &node.history, &log[..applied], what);
    if applied < first.committed {
        node.commit(first.last_committed().unwrap()).await.unwrap();
        check_journal(&node.hosted.machine(), &node.history, &log[..first.committed], what);
    }
    let committed = applied.max(first.committed);
    let snapshot = node.snapshot_index();
    let promise = Promise { vote, log: kept.log.clone(), committed, snapshot };
    (node, promise)
}

/// Looks at a crash: when the power fails, and when only the process ends, goes on for a while, and
/// then the power fails.
async fn check_crash(crashed: &SimulatedDisk, promises: &[&Promise]) {
    let point = crashed.write_points();
    for seed in 0..2 {
        let what = format!("power failed at write point {point}, seed {seed}");
        let disk = crashed.fork(seed);
        disk.restart();
        drop(check_promise(&disk, promises, &what).await);
    }
    let disk = crashed.fork(point);
    disk.kill();
    check_going_on(disk, promises, &format!("killed at write point {point}")).await;
}

/// Opens `disk`, goes on for a while, and loses power.
pub(super) async fn check_going_on(disk: SimulatedDisk, promises: &[&Promise], what: &str) {
    let (node, promise) = check_promise(&disk, promises, what).await;
    let mut run = Run::of(node, promise);
    let went_on = async {
        run.vote(NODE).await?;
        run.append(2).await?;
        match run.node.log.purge_target(0) {
            Some(upto) => run.purge(upto).await,
            None => Ok(()),
        }
    };
    went_on.await.unwrap_or_else(|error| panic!("{what}: it could not go on: {error}"));
    let promise = run.promise.clone();
    drop(run);
    disk.restart();
    drop(check_promise(&disk, &[&promise], &format!("{what}, and then power failed")).await);
}
