//! openraft's log storage, over [`GroupLog`].

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::Arc;

use futures_util::{Stream, StreamExt, stream};
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::{LogState, OptionalSend, RaftLogReader};
use tokio::sync::oneshot;

use crate::entry::LogEntry;
use crate::raft::group_log::GroupLog;
use crate::raft::types::{Entry, LogId, TypeConfig, Vote, openraft_entry};
use crate::wal::OnDurable;

/// What a follower is sent at once, and what is applied at once, at most.
const READ_BYTES: usize = 2 << 20;

/// Handed to openraft, which has one for writing and clones for reading.
#[derive(Clone)]
pub(crate) struct LogStore {
    log: Arc<GroupLog>,
}

impl LogStore {
    pub(crate) fn new(log: Arc<GroupLog>) -> Self {
        Self { log }
    }
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<RB>(&mut self, range: RB) -> io::Result<Vec<Entry>>
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        convert(self.log.read(half_open(&range, self.end()), usize::MAX)?)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<Entry>> {
        // Entries that were purged meanwhile are answered with nothing, never with a hole.
        convert(self.log.read_from(start..end, READ_BYTES)?)
    }

    async fn entries_stream<RB>(
        &mut self,
        range: RB,
    ) -> impl Stream<Item = io::Result<Entry>> + OptionalSend
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let log = Arc::clone(&self.log);
        let range = half_open(&range, self.end());
        // In parts, so that a long range is never in memory as a whole.
        stream::unfold(range, move |range| {
            let part = read_part(&log, range);
            async move { part }
        })
        .flat_map(stream::iter)
        .boxed()
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.log.vote().map(Vote::from))
    }
}

type Part = Vec<io::Result<Entry>>;

fn read_part(log: &GroupLog, range: Range<u64>) -> Option<(Part, Range<u64>)> {
    if range.is_empty() {
        return None;
    }
    match log.read_from(range.clone(), READ_BYTES).and_then(convert) {
        Ok(entries) if entries.is_empty() => {
            let missing = format!("entry {} is not in the log", range.start);
            Some((vec![Err(io::Error::other(missing))], range.end..range.end))
        }
        Ok(entries) => {
            let next = entries.last().map_or(range.end, |entry| entry.log_id.index + 1);
            Some((entries.into_iter().map(Ok).collect(), next..range.end))
        }
        Err(error) => Some((vec![Err(error)], range.end..range.end)),
    }
}

fn convert(entries: Vec<LogEntry>) -> io::Result<Vec<Entry>> {
    entries.into_iter().map(|entry| Ok(openraft_entry(entry)?)).collect()
}

fn half_open(range: &impl RangeBounds<u64>, end: u64) -> Range<u64> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(last) => last.saturating_add(1).min(end),
        Bound::Excluded(behind) => (*behind).min(end),
        Bound::Unbounded => end,
    };
    start..end
}

impl LogStore {
    fn end(&self) -> u64 {
        self.log.last().map_or(0, |last| last.index.saturating_add(1))
    }
}

/// Submits something and waits until it is durable.
async fn until_durable(submit: impl FnOnce(OnDurable)) -> io::Result<()> {
    let (sender, durable) = oneshot::channel();
    submit(Box::new(move |outcome| {
        // Nobody waits any more if openraft was shut down meanwhile.
        drop(sender.send(outcome.map(|_locations| ())));
    }));
    durable.await.map_err(io::Error::other)?
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<TypeConfig>> {
        Ok(LogState {
            last_purged_log_id: self.log.purged().map(LogId::from),
            last_log_id: self.log.last().map(LogId::from),
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        until_durable(|on_durable| self.log.save_vote((*vote).into(), on_durable)).await
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        if let Some(committed) = committed {
            self.log.save_committed(committed.into());
        }
        Ok(())
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        Ok(self.log.committed().map(LogId::from))
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries = entries.into_iter().map(LogEntry::from).collect();
        self.log.append(entries, move |outcome| callback.io_completed(outcome))
    }

    async fn truncate_after(&mut self, last_log_id: Option<LogId>) -> io::Result<()> {
        // Order matters: a snapshot that is installed next may be durable before anything else in
        // this log is, and must not find entries that contradict it.
        let last = last_log_id.map(Into::into);
        until_durable(|on_durable| self.log.truncate_after(last, on_durable)).await
    }

    async fn purge(&mut self, log_id: LogId) -> io::Result<()> {
        self.log.purge(log_id.into());
        Ok(())
    }
}
