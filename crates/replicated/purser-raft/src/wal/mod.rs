//! The node's write-ahead log, shared by all its groups.
//!
//! One thread writes. It takes everything that waits, in the order in which it was submitted, makes
//! it one batch, syncs once, and tells the submitters in the same order. Votes, appends,
//! truncations, commits and purges go through this one queue, so what is durable is always a prefix
//! of what was submitted.
//!
//! A failed write or sync ends the log: everything that waits and everything submitted later is
//! answered with an error, and the node has to stop. Nothing is retried, because after a failed
//! sync the kernel may have forgotten what it could not write.
//!
//! Not here: what an entry means. Not bounded here: openraft submits no more than its own windows
//! allow (two entries in flight from the proposer, one append at a time from a leader).

pub(crate) mod format;
pub(crate) mod recovery;
pub(crate) mod spares;
mod writer;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::watch;

use crate::disk::{Disk, DiskFile};
use crate::error::OpenError;
use crate::ids::{ClusterId, GroupId, NodeId};
use crate::settings::WalSettings;
use crate::status::HostStatus;

use format::{Record, RecordKind, verify_record};
pub(crate) use recovery::{Location, Recovered, RecoveredGroup, recover};
use spares::{Spares, remove_left_over};
use writer::{Segments, Writer};

/// A batch grows to about this size: enough to make the sync cheap, little enough to hold nobody up
/// for long.
const BATCH_BYTES: usize = 4 << 20;

/// How long a record that nobody waits for may wait for company.
const LAZY_WAIT: Duration = Duration::from_millis(500);

/// Where a log lies and whose it is.
#[derive(Clone)]
pub(crate) struct WalPlace {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) cluster: ClusterId,
    pub(crate) node: NodeId,
}

/// Called when the records are durable, with the location of each, or with the error that ended
/// the log.
pub(crate) type OnDurable = Box<dyn FnOnce(io::Result<&[Location]>) + Send>;

/// Some records of one group, to be made durable together.
pub(crate) struct Submission {
    pub(crate) records: Vec<Record>,
    /// Whether this is worth a sync of its own. If not, it goes along with the next one that is.
    pub(crate) urgent: bool,
    pub(crate) on_durable: OnDurable,
}

/// The log. Ends its threads when the last handle is dropped.
pub(crate) struct Wal {
    shared: Arc<Shared>,
    segments: Segments,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    queue: Mutex<Queue>,
    submitted: Condvar,
    /// Per group, the oldest segment with an entry it still needs.
    needed: Mutex<BTreeMap<GroupId, u64>>,
    failed: watch::Sender<Option<String>>,
    counters: Counters,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Submission>,
    urgent: usize,
    closing: Option<Closing>,
    ended: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Closing {
    /// Write what waits, and a mark that the log was closed.
    Orderly,
    /// Write nothing any more, as if killed.
    AtOnce,
}

#[derive(Default)]
struct Counters {
    syncs: AtomicU64,
    records: AtomicU64,
    bytes: AtomicU64,
    records_max: AtomicU64,
    busy_micros: AtomicU64,
    segments: AtomicU64,
}

impl Wal {
    /// Opens the log in a folder that exists. Gives what every group had.
    pub(crate) fn open(
        place: &WalPlace,
        settings: WalSettings,
    ) -> Result<(Self, Recovered), OpenError> {
        let in_dir = |source| OpenError::Disk { path: place.dir.clone(), source };
        remove_left_over(&*place.disk, &place.dir).map_err(in_dir)?;
        let recovered = recover(&*place.disk, &place.dir, place.cluster, place.node)?;
        let bytes = settings.segment_bytes;
        let spares = settings
            .prepare_ahead
            .then(|| Spares::start(place.clone(), bytes))
            .transpose()
            .map_err(in_dir)?;
        let writer = Writer::open(place.clone(), bytes, spares, &recovered)?;
        let needed =
            recovered.groups.iter().map(|(id, group)| (*id, group.oldest_segment())).collect();
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            submitted: Condvar::new(),
            needed: Mutex::new(needed),
            failed: watch::Sender::new(None),
            counters: Counters::default(),
        });
        let segments = writer.segments();
        let writing = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("wal".into())
            .spawn(move || writing.run(writer))
            .map_err(in_dir)?;
        Ok((Self { shared, segments, thread: Mutex::new(Some(thread)) }, recovered))
    }

    /// Queues records. Their order is the order of the calls.
    pub(crate) fn submit(&self, submission: Submission) {
        let mut queue = self.shared.lock();
        if queue.ended {
            drop(queue);
            (submission.on_durable)(Err(ended()));
            return;
        }
        // A lazy record only has to start the thread's patience, once.
        let wake = submission.urgent || queue.waiting.is_empty();
        queue.urgent += usize::from(submission.urgent);
        queue.waiting.push_back(submission);
        drop(queue);
        if wake {
            self.shared.submitted.notify_one();
        }
    }

    /// The segment of an entry that its group still needs. It stays readable for as long as it is
    /// held, whatever is purged meanwhile.
    pub(crate) fn segment(&self, location: &Location) -> Option<Arc<dyn DiskFile>> {
        let segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        segments.get(&location.segment).cloned()
    }

    /// Says which segment is the oldest that `group` needs an entry from; `None` if it needs none.
    pub(crate) fn set_needed(&self, group: GroupId, segment: Option<u64>) {
        let mut needed = self.shared.needed.lock().unwrap_or_else(PoisonError::into_inner);
        needed.insert(group, segment.unwrap_or(u64::MAX));
    }

    /// The sequence of the segment that is being written; 0 before the first.
    pub(crate) fn newest_segment(&self) -> u64 {
        let segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        segments.last_key_value().map_or(0, |(sequence, _)| *sequence)
    }

    /// Becomes the reason when the log has failed.
    pub(crate) fn failed(&self) -> watch::Receiver<Option<String>> {
        self.shared.failed.subscribe()
    }

    pub(crate) fn fill_status(&self, status: &mut HostStatus) {
        let counters = &self.shared.counters;
        status.wal_syncs = counters.syncs.load(Ordering::Relaxed);
        status.wal_records = counters.records.load(Ordering::Relaxed);
        status.wal_bytes = counters.bytes.load(Ordering::Relaxed);
        status.wal_batch_records_max = counters.records_max.load(Ordering::Relaxed);
        status.wal_busy_micros = counters.busy_micros.load(Ordering::Relaxed);
        status.wal_segments = counters.segments.load(Ordering::Relaxed);
    }

    /// Writes what waits and a closing mark, and ends the threads. Blocks.
    pub(crate) fn close(&self) {
        self.end(Closing::Orderly);
    }

    /// Ends the threads without writing anything more. Blocks.
    pub(crate) fn kill(&self) {
        self.end(Closing::AtOnce);
    }

    fn end(&self, how: Closing) {
        self.shared.lock().closing.get_or_insert(how);
        self.shared.submitted.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The last handle may be one that a submission held: then this is the thread itself, which
        // ends by itself.
        let other = thread.filter(|thread| thread.thread().id() != std::thread::current().id());
        if let Some(thread) = other
            && thread.join().is_err()
        {
            tracing::error!("the thread of the write-ahead log panicked");
        }
    }
}

impl Drop for Wal {
    fn drop(&mut self) {
        self.end(Closing::AtOnce);
    }
}

fn ended() -> io::Error {
    io::Error::other("the write-ahead log has ended")
}

fn damaged(location: &Location, detail: &str) -> io::Error {
    let file = recovery::segment_file(location.segment);
    let text = format!("{file} is damaged at offset {}: {detail}", location.offset);
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// The body of the record at `location` of an open segment.
pub(crate) fn read_record(file: &dyn DiskFile, location: &Location) -> io::Result<Bytes> {
    let length = location.record_bytes().ok_or_else(|| damaged(location, "too large"))?;
    let mut bytes = vec![0; length];
    file.read_at(&mut bytes, location.offset)?;
    match verify_record(&bytes, location.segment, location.offset) {
        Some(_) => Ok(Bytes::from(bytes).slice(format::RECORD_HEADER_BYTES..)),
        None => Err(damaged(location, "the record does not match its checksum")),
    }
}

/// What to do next.
enum Work {
    Write(Vec<Submission>),
    Close,
    Stop,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut writer: Writer) {
        self.counters.segments.store(writer.segment_count(), Ordering::Relaxed);
        let result = loop {
            match self.next_work() {
                Work::Write(submissions) => {
                    if let Err(error) = self.write(&mut writer, submissions) {
                        break Err(error);
                    }
                }
                Work::Close => break self.write_closing_mark(&mut writer),
                Work::Stop => break Ok(()),
            }
        };
        if let Err(error) = result {
            tracing::error!(error = %error, "the write-ahead log failed");
            self.failed.send_replace(Some(error.to_string()));
        }
        let mut queue = self.lock();
        queue.ended = true;
        let left = std::mem::take(&mut queue.waiting);
        drop(queue);
        for submission in left {
            (submission.on_durable)(Err(ended()));
        }
    }

    /// Waits for something worth a sync, or until lazy records have waited long enough.
    fn next_work(&self) -> Work {
        let mut queue = self.lock();
        let mut lazy_since: Option<Instant> = None;
        loop {
            if queue.closing == Some(Closing::AtOnce) {
                return Work::Stop;
            }
            let lazy_is_due = lazy_since.is_some_and(|since| since.elapsed() >= LAZY_WAIT);
            let closing = queue.closing.is_some();
            if queue.urgent > 0 || (!queue.waiting.is_empty() && (closing || lazy_is_due)) {
                return Work::Write(queue.take_batch());
            }
            if closing {
                return Work::Close;
            }
            queue = if queue.waiting.is_empty() {
                self.submitted.wait(queue).unwrap_or_else(PoisonError::into_inner)
            } else {
                let since = *lazy_since.get_or_insert_with(Instant::now);
                let left = LAZY_WAIT.saturating_sub(since.elapsed());
                let waited = self.submitted.wait_timeout(queue, left);
                waited.unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }

    fn write(&self, writer: &mut Writer, submissions: Vec<Submission>) -> io::Result<()> {
        let started = Instant::now();
        let records: Vec<&Record> =
            submissions.iter().flat_map(|submission| &submission.records).collect();
        let result = writer.write(&records);
        self.count(&records, started.elapsed());
        let mut error = None;
        let mut locations = match &result {
            Ok(locations) => locations.as_slice(),
            Err(failure) => {
                error = Some(io::Error::new(failure.kind(), failure.to_string()));
                &[]
            }
        };
        for submission in submissions {
            let count = submission.records.len();
            match &error {
                Some(error) => {
                    (submission.on_durable)(Err(io::Error::new(error.kind(), error.to_string())));
                }
                None => {
                    let (own, rest) = locations.split_at_checked(count).unwrap_or_default();
                    locations = rest;
                    (submission.on_durable)(Ok(own));
                }
            }
        }
        if let Some(error) = error {
            return Err(error);
        }
        let needed = self.needed.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = needed.values().min().copied().unwrap_or(0);
        drop(needed);
        writer.retire(oldest)?;
        self.counters.segments.store(writer.segment_count(), Ordering::Relaxed);
        Ok(())
    }

    fn count(&self, records: &[&Record], busy: Duration) {
        let count = format::wide(records.len());
        let bytes: usize = records.iter().map(|record| record.size()).sum();
        let micros = u64::try_from(busy.as_micros()).unwrap_or(u64::MAX);
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        self.counters.records.fetch_add(count, Ordering::Relaxed);
        self.counters.bytes.fetch_add(format::wide(bytes), Ordering::Relaxed);
        self.counters.records_max.fetch_max(count, Ordering::Relaxed);
        self.counters.busy_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// The last batch of a log can not be told from a torn one if it is damaged. A mark behind it
    /// makes it one that something follows.
    fn write_closing_mark(&self, writer: &mut Writer) -> io::Result<()> {
        let mark = Record::new(GroupId(0), RecordKind::Closed, Vec::new());
        writer.write(&[&mark]).map(|_location| ())
    }
}

impl Queue {
    fn take_batch(&mut self) -> Vec<Submission> {
        let mut batch = Vec::new();
        let mut bytes = 0_usize;
        while bytes < BATCH_BYTES
            && let Some(submission) = self.waiting.pop_front()
        {
            bytes += submission.records.iter().map(Record::size).sum::<usize>();
            self.urgent -= usize::from(submission.urgent);
            batch.push(submission);
        }
        batch
    }
}

impl RecoveredGroup {
    fn oldest_segment(&self) -> u64 {
        self.entries.front().map_or(u64::MAX, |entry| entry.location.segment)
    }
}

#[cfg(test)]
mod tests;
