//! Writes batches: one write, one sync, and a new segment when the old one is full.
//!
//! Invariant: a batch is written only when the one before it is durable, and a segment is begun
//! only when the one before it is complete. Errors are final: after a failed sync nobody knows what
//! is on the disk, so whoever owns the writer must stop using it.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::codec::Decoder;
use crate::disk::{DiskFile, OpenMode};
use crate::entry::{EntryId, VoteRecord};
use crate::error::OpenError;
use crate::ids::GroupId;

use super::WalPlace;
use super::format::{
    GroupMarks, HEADER_BYTES, Record, RecordKind, SegmentName, batch_size, encode_batch, wide,
};
use super::recovery::{Location, Recovered, segment_file};
use super::spares::{Spares, zero_fill};

/// The open segments, by sequence; shared with those who read entries back.
pub(super) type Segments = Arc<Mutex<BTreeMap<u64, Arc<dyn DiskFile>>>>;

pub(super) struct Writer {
    place: WalPlace,
    segment_bytes: u64,
    spares: Option<Spares>,
    segments: Segments,
    active: Option<Active>,
    next_batch: u64,
    marks: BTreeMap<GroupId, GroupMarks>,
    buffer: Vec<u8>,
}

/// The segment that is being written.
struct Active {
    sequence: u64,
    file: Arc<dyn DiskFile>,
    offset: u64,
    length: u64,
}

impl Writer {
    /// Takes over a recovered log: opens its segments, clears its torn tail and makes durable what
    /// is there, names and bytes, since a killed process may have written it without syncing.
    pub(super) fn open(
        place: WalPlace,
        segment_bytes: u64,
        spares: Option<Spares>,
        recovered: &Recovered,
    ) -> Result<Self, OpenError> {
        let mut segments: BTreeMap<u64, Arc<dyn DiskFile>> = BTreeMap::new();
        for &sequence in &recovered.end.segments {
            let path = place.dir.join(segment_file(sequence));
            let file = place
                .disk
                .open(&path, OpenMode::Write)
                .map_err(|source| OpenError::Disk { path, source })?;
            segments.insert(sequence, file);
        }
        let mut writer = Self {
            place,
            segment_bytes,
            spares,
            segments: Arc::default(),
            active: None,
            next_batch: recovered.end.batch.max(1),
            marks: recovered.groups.iter().map(|(id, group)| (*id, group.marks)).collect(),
            buffer: Vec::new(),
        };
        if let Some((&sequence, file)) = segments.last_key_value() {
            let active = repair(sequence, file, recovered);
            let path = writer.place.dir.join(segment_file(sequence));
            writer.active = Some(active.map_err(|source| OpenError::Disk { path, source })?);
            let dir = &writer.place.dir;
            let synced = writer.place.disk.sync_dir(dir);
            synced.map_err(|source| OpenError::Disk { path: dir.clone(), source })?;
        }
        writer.segments = Arc::new(Mutex::new(segments));
        Ok(writer)
    }

    pub(super) fn segments(&self) -> Segments {
        Arc::clone(&self.segments)
    }

    /// Makes `records` durable, together and in order. Gives the location of each.
    pub(super) fn write(&mut self, records: &[&Record]) -> io::Result<Vec<Location>> {
        for record in records {
            self.mark(record)?;
        }
        let size = wide(batch_size(records.iter().copied()));
        let fits = self.active.as_ref().is_some_and(|active| {
            active.length.saturating_sub(active.offset) >= size && active.offset > 0
        });
        let states = if fits { Vec::new() } else { self.begin_segment(size)? };
        let active = self.active.as_mut().expect("a segment was begun if there was none");
        self.buffer.clear();
        if active.offset == 0 {
            let name = SegmentName {
                cluster: self.place.cluster,
                node: self.place.node,
                sequence: active.sequence,
            };
            self.buffer.extend_from_slice(&name.header());
        }
        let mut locations = Vec::with_capacity(records.len() + states.len());
        let all = states.iter().chain(records.iter().copied());
        let place = (active.sequence, active.offset);
        encode_batch(&mut self.buffer, place, self.next_batch, all, |offset, length| {
            locations.push(Location { segment: active.sequence, offset, length });
        });
        active.file.write_at(&self.buffer, active.offset)?;
        active.file.sync_data()?;
        active.offset += wide(self.buffer.len());
        self.next_batch += 1;
        Ok(locations.split_off(states.len()))
    }

    /// Remembers what the next segment has to start with.
    fn mark(&mut self, record: &Record) -> io::Result<()> {
        if record.kind == RecordKind::Closed {
            return Ok(());
        }
        let marks = self.marks.entry(record.group).or_default();
        let mut decoder = Decoder::new(&record.head);
        match record.kind {
            RecordKind::Vote => marks.vote = Some(VoteRecord::decode(&mut decoder)?),
            RecordKind::Committed => marks.committed = Some(EntryId::decode(&mut decoder)?),
            RecordKind::Purge => {
                marks.purged = marks.purged.max(Some(EntryId::decode(&mut decoder)?));
            }
            RecordKind::Entry | RecordKind::Truncate | RecordKind::State | RecordKind::Closed => (),
        }
        Ok(())
    }

    /// Begins the next segment, with room for a batch of `size`. Gives the records it starts with.
    ///
    /// An active segment without a header is one whose first write never happened; it is used.
    fn begin_segment(&mut self, size: u64) -> io::Result<Vec<Record>> {
        let states: Vec<Record> = self
            .marks
            .iter()
            .map(|(group, marks)| Record::new(*group, RecordKind::State, marks.encode()))
            .collect();
        let needed = wide(HEADER_BYTES + batch_size(states.iter())).saturating_add(size);
        if self.active.as_ref().is_some_and(|active| active.offset == 0 && active.length >= needed)
        {
            return Ok(states);
        }
        let unbegun = self.active.take().filter(|active| active.offset == 0);
        let last = self.lock_segments().last_key_value().map_or(0, |(sequence, _)| *sequence);
        let sequence = if unbegun.is_some() { last } else { last + 1 };
        let length = self.segment_bytes.max(needed);
        let spare = self.spares.as_ref().and_then(|spares| spares.take(length));
        let from = match spare {
            Some(path) => path,
            None => {
                let path = self.place.dir.join(format!("new{}", super::spares::SPARE_SUFFIX));
                let file = self.place.disk.open(&path, OpenMode::Create)?;
                zero_fill(&*file, length)?;
                path
            }
        };
        let to = self.place.dir.join(segment_file(sequence));
        self.place.disk.rename(&from, &to)?;
        self.place.disk.sync_dir(&self.place.dir)?;
        let file = self.place.disk.open(&to, OpenMode::Write)?;
        let length = file.length()?;
        self.lock_segments().insert(sequence, Arc::clone(&file));
        self.active = Some(Active { sequence, file, offset: 0, length });
        Ok(states)
    }

    /// Gives back the segments before `needed`; never the one that is being written.
    pub(super) fn retire(&mut self, needed: u64) -> io::Result<()> {
        let Some(active) = &self.active else {
            return Ok(());
        };
        let keep = needed.min(active.sequence);
        let old: Vec<u64> = self.lock_segments().range(..keep).map(|(old, _)| *old).collect();
        for sequence in old {
            let file = self.lock_segments().remove(&sequence);
            // Nobody can get hold of it any more. Who still has it goes on reading, so it must not
            // be filled with zeros; a removed file stays until it is closed.
            let is_read = file.is_some_and(|file| Arc::strong_count(&file) > 1);
            let path: PathBuf = self.place.dir.join(segment_file(sequence));
            match &self.spares {
                Some(spares) if !is_read => spares.recycle(&path)?,
                _ => {
                    self.place.disk.remove(&path)?;
                    self.place.disk.sync_dir(&self.place.dir)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn segment_count(&self) -> u64 {
        wide(self.lock_segments().len())
    }

    fn lock_segments(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<dyn DiskFile>>> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Clears what stands behind the last whole batch, and makes that batch durable.
///
/// It is written again, not only synced: an earlier process may have ended because its sync failed,
/// and the kernel then goes on showing bytes that no later sync writes. The batches before it were
/// synced with success, or it would not be there.
fn repair(sequence: u64, file: &Arc<dyn DiskFile>, recovered: &Recovered) -> io::Result<Active> {
    let end = &recovered.end;
    if end.offset > end.last {
        let mut last = vec![0; usize::try_from(end.offset - end.last).map_err(io::Error::other)?];
        file.read_at(&mut last, end.last)?;
        file.write_at(&last, end.last)?;
    }
    if end.used > end.offset {
        tracing::info!(segment = sequence, offset = end.offset, "clearing the torn end of the log");
        let torn = usize::try_from(end.used - end.offset).map_err(io::Error::other)?;
        file.write_at(&vec![0; torn], end.offset)?;
    }
    file.sync_data()?;
    Ok(Active { sequence, file: Arc::clone(file), offset: end.offset, length: file.length()? })
}
