//! One group's log: what it holds, where each entry stands in the write-ahead log, and the tail in
//! memory.
//!
//! Not here: openraft's traits (`log_store` has them) and the writing (`wal` does it).
//!
//! Invariants:
//!
//! - Entries have no holes: they follow the purged one, index by index.
//! - An entry is in memory until it is durable; after that it may be read back from its segment.
//! - A purge is durable only after a snapshot that covers it: until then it is known in memory
//!   alone, and a restart undoes it. (A node that loses power between the two must find one or the
//!   other.)

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use purser_types::LogTime;

use crate::batch;
use crate::codec::Encoder;
use crate::disk::DiskFile;
use crate::entry::{Content, EntryId, LogEntry, VoteRecord};
use crate::ids::GroupId;
use crate::raft::slots::{Slot, Slots, wide};
use crate::wal::format::{Record, RecordKind};
use crate::wal::{Location, OnDurable, RecoveredGroup, Submission, Wal, read_record};

pub(crate) struct GroupLog {
    group: GroupId,
    wal: Arc<Wal>,
    cache_bytes: usize,
    state: Mutex<Slots>,
    /// The highest stamp that was ever in the log, in microseconds.
    stamp: AtomicU64,
}

/// Numbers for the status.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LogSize {
    pub(crate) bytes: u64,
    pub(crate) bytes_since_snapshot: u64,
}

impl GroupLog {
    /// Takes over what the write-ahead log has of the group. A snapshot covers `covered`.
    pub(crate) fn open(
        group: GroupId,
        wal: Arc<Wal>,
        cache_bytes: usize,
        recovered: RecoveredGroup,
        covered: Option<u64>,
    ) -> Self {
        let mut state = Slots {
            vote: recovered.marks.vote,
            committed: recovered.marks.committed,
            purged: recovered.marks.purged,
            covered,
            ..Slots::default()
        };
        for entry in recovered.entries {
            let size = usize::try_from(entry.location.length).unwrap_or(usize::MAX);
            state.bytes += wide(size);
            if Some(entry.id.index) > covered {
                state.bytes_since_snapshot += wide(size);
            }
            let location = Some(entry.location);
            state.slots.push_back(Slot { id: entry.id, size, location, cached: None });
        }
        state.cached_from = state.end();
        let stamp = AtomicU64::new(recovered.stamp.as_unix_micros());
        Self { group, wal, cache_bytes, state: Mutex::new(state), stamp }
    }

    pub(crate) fn vote(&self) -> Option<VoteRecord> {
        self.lock().vote
    }

    pub(crate) fn committed(&self) -> Option<EntryId> {
        self.lock().committed
    }

    pub(crate) fn purged(&self) -> Option<EntryId> {
        self.lock().purged
    }

    pub(crate) fn last(&self) -> Option<EntryId> {
        self.lock().last()
    }

    pub(crate) fn size(&self) -> LogSize {
        let state = self.lock();
        LogSize { bytes: state.bytes, bytes_since_snapshot: state.bytes_since_snapshot }
    }

    /// The segment with the oldest entry that is still needed.
    pub(crate) fn oldest_segment(&self) -> Option<u64> {
        let state = self.lock();
        state.slots.front().and_then(|slot| slot.location).map(|location| location.segment)
    }

    /// The highest stamp that was ever in the log.
    pub(crate) fn stamp(&self) -> LogTime {
        LogTime::from_unix_micros(self.stamp.load(Ordering::Acquire)).unwrap_or(LogTime::MAX)
    }

    /// Remembers a stamp that came with a snapshot.
    pub(crate) fn raise_stamp(&self, stamp: LogTime) {
        self.stamp.fetch_max(stamp.as_unix_micros(), Ordering::AcqRel);
    }

    /// Queues a vote; `on_durable` tells when it may be acted upon.
    pub(crate) fn save_vote(&self, vote: VoteRecord, on_durable: OnDurable) {
        self.lock().vote = Some(vote);
        let mut body = Encoder::new();
        vote.encode(&mut body);
        self.submit(vec![self.record(RecordKind::Vote, body)], true, on_durable);
    }

    /// Queues the last committed entry. Nobody waits for it: it spares a restarted node a wait for
    /// its leader, and tells an auditor what was committed.
    pub(crate) fn save_committed(&self, committed: EntryId) {
        self.lock().committed = Some(committed);
        let mut body = Encoder::new();
        committed.encode(&mut body);
        self.submit(vec![self.record(RecordKind::Committed, body)], false, ignore_outcome());
    }

    /// Appends entries, which can be read at once; `on_durable` tells when they are durable.
    pub(crate) fn append(
        self: &Arc<Self>,
        entries: Vec<LogEntry>,
        on_durable: impl FnOnce(io::Result<()>) + Send + 'static,
    ) -> io::Result<()> {
        let mut records = Vec::with_capacity(entries.len());
        let mut ids = Vec::with_capacity(entries.len());
        let mut state = self.lock();
        for entry in entries {
            // An empty log takes any first entry; a start refuses a log that does not begin at 0.
            let follows = state.last().is_none() || entry.id.index == state.end();
            if !follows || state.leaves_a_hole() {
                return Err(io::Error::other("the entry does not follow the log"));
            }
            if let Content::Commands(commands) = &entry.content {
                self.raise_stamp(batch::stamp_of(commands)?);
            }
            let (head, body) = entry.encode_parts();
            records.push(Record { group: self.group, kind: RecordKind::Entry, head, body });
            ids.push(entry.id);
            state.push(entry);
        }
        drop(state);
        let this = Arc::clone(self);
        let on_durable: OnDurable = Box::new(move |result| match result {
            Ok(locations) => {
                this.locate(&ids, locations);
                on_durable(Ok(()));
            }
            Err(error) => on_durable(Err(error)),
        });
        self.submit(records, true, on_durable);
        Ok(())
    }

    /// Remembers where entries are, now that they are durable, and frees memory.
    fn locate(&self, ids: &[EntryId], locations: &[Location]) {
        let mut state = self.lock();
        for (id, location) in ids.iter().zip(locations) {
            // It may have been truncated since, and another one put in its place.
            if let Some(slot) = state.slot_mut(id.index).filter(|slot| slot.id == *id) {
                slot.location = Some(*location);
            }
        }
        state.shrink_cache(self.cache_bytes);
        self.tell_needed(&state);
    }

    /// Drops the entries behind `last`; `on_durable` tells when they are gone for good.
    pub(crate) fn truncate_after(self: &Arc<Self>, last: Option<EntryId>, on_durable: OnDurable) {
        let mut state = self.lock();
        state.truncate_after(last.map_or(0, |last| last.index.saturating_add(1)));
        state.removals_pending += 1;
        drop(state);
        let mut body = Encoder::new();
        body.option(last, |encoder, last| last.encode(encoder));
        let removed = self.when_removed(on_durable);
        self.submit(vec![self.record(RecordKind::Truncate, body)], true, removed);
    }

    /// Drops the entries up to and with `upto`: in memory at once, on disk when a snapshot covers
    /// them.
    pub(crate) fn purge(self: &Arc<Self>, upto: EntryId) {
        let mut state = self.lock();
        if state.purged >= Some(upto) {
            return;
        }
        state.purge(upto);
        if state.covered >= Some(upto.index) {
            state.removals_pending += 1;
            drop(state);
            self.submit_purge(upto);
        } else {
            state.uncovered_purge = Some(upto);
        }
    }

    /// Says that a snapshot up to and with `index` is durable.
    pub(crate) fn snapshot_is_durable(self: &Arc<Self>, index: u64) {
        let mut state = self.lock();
        state.covered = state.covered.max(Some(index));
        let later = state.slots.iter().filter(|slot| slot.id.index > index);
        state.bytes_since_snapshot = later.map(|slot| wide(slot.size)).sum();
        let Some(upto) = state.uncovered_purge.take_if(|upto| upto.index <= index) else {
            return;
        };
        state.removals_pending += 1;
        drop(state);
        self.submit_purge(upto);
    }

    fn submit_purge(self: &Arc<Self>, upto: EntryId) {
        let mut body = Encoder::new();
        upto.encode(&mut body);
        let removed = self.when_removed(ignore_outcome());
        self.submit(vec![self.record(RecordKind::Purge, body)], false, removed);
    }

    /// Counts a purge or truncation as durable, before `then`.
    fn when_removed(self: &Arc<Self>, then: OnDurable) -> OnDurable {
        let this = Arc::clone(self);
        Box::new(move |result| {
            if result.is_ok() {
                let mut state = this.lock();
                state.removals_pending -= 1;
                this.tell_needed(&state);
            }
            then(result);
        })
    }

    /// Tells the write-ahead log which segments this group still needs. Order matters: not before
    /// every removal is durable, or a crash would find entries missing that nobody removed.
    fn tell_needed(&self, state: &Slots) {
        if state.removals_pending == 0 && state.uncovered_purge.is_none() {
            let oldest = state.slots.front().and_then(|slot| slot.location);
            self.wal.set_needed(self.group, oldest.map(|location| location.segment));
        }
    }

    /// The index up to which entries may be purged so that about `keep_bytes` of those that the
    /// last snapshot covers stay.
    pub(crate) fn purge_target(&self, keep_bytes: u64) -> Option<u64> {
        let state = self.lock();
        let covered = state.covered?;
        let mut kept = 0_u64;
        for slot in state.slots.iter().rev().filter(|slot| slot.id.index <= covered) {
            kept = kept.saturating_add(wide(slot.size));
            if kept > keep_bytes {
                return Some(slot.id.index);
            }
        }
        None
    }

    /// The entries of a range, as far as the log has them, until about `bytes_max` bytes are
    /// together; at least one if there is one.
    pub(crate) fn read(&self, range: Range<u64>, bytes_max: usize) -> io::Result<Vec<LogEntry>> {
        let mut found = Vec::new();
        let mut bytes = 0_usize;
        let state = self.lock();
        for index in range.start.max(state.start())..range.end.min(state.end()) {
            let Some(slot) = state.slot(index) else {
                break;
            };
            bytes = bytes.saturating_add(slot.size);
            if bytes > bytes_max && !found.is_empty() {
                break;
            }
            // Order matters: the segment is opened while the entry is known to be needed. A purge
            // that comes now does not take it away from us.
            let place = match (&slot.cached, slot.location) {
                (Some(entry), _) => Place::Memory(entry.clone()),
                (None, Some(location)) => Place::Segment(location, self.wal.segment(&location)),
                (None, None) => return Err(io::Error::other("an entry is nowhere")),
            };
            found.push((slot.id, place));
        }
        drop(state);
        found.into_iter().map(|(id, place)| read_back(id, place)).collect()
    }

    /// As [`GroupLog::read`], but nothing unless the log has the first entry of the range.
    pub(crate) fn read_from(
        &self,
        range: Range<u64>,
        bytes_max: usize,
    ) -> io::Result<Vec<LogEntry>> {
        let mut entries = self.read(range.clone(), bytes_max)?;
        if entries.first().is_some_and(|first| first.id.index != range.start) {
            entries.clear();
        }
        Ok(entries)
    }

    fn record(&self, kind: RecordKind, body: Encoder) -> Record {
        Record::new(self.group, kind, body.finish())
    }

    /// Not to be called with the state locked: a log that has ended answers at once.
    fn submit(&self, records: Vec<Record>, urgent: bool, on_durable: OnDurable) {
        self.wal.submit(Submission { records, urgent, on_durable });
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where an entry is read from.
enum Place {
    Memory(LogEntry),
    Segment(Location, Option<Arc<dyn DiskFile>>),
}

fn read_back(id: EntryId, place: Place) -> io::Result<LogEntry> {
    let (location, file) = match place {
        Place::Memory(entry) => return Ok(entry),
        Place::Segment(location, file) => (location, file),
    };
    let file = file.ok_or_else(|| io::Error::other("the segment of an entry is gone"))?;
    let entry = LogEntry::decode(&read_record(&*file, &location)?)?;
    if entry.id == id {
        Ok(entry)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidData, "another entry stands in its place"))
    }
}

/// For records that nobody waits for. If the log fails, the node stops anyway.
fn ignore_outcome() -> OnDurable {
    Box::new(|_outcome| ())
}
