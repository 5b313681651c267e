//! Reads the whole log at a start: what every group had, and where writing goes on.
//!
//! Nothing is changed here; [`super::writer::Writer::open`] repairs the torn tail. The offline
//! reader uses the same code, so it refuses what a node refuses.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use purser_types::LogTime;

use crate::batch;
use crate::codec::{Decoder, Malformed};
use crate::disk::{Disk, OpenMode, read_all};
use crate::entry::{EntryId, VoteRecord};
use crate::error::OpenError;
use crate::ids::{ClusterId, GroupId, NodeId};

use super::format::{
    Flaw, GroupMarks, RECORD_HEADER_BYTES, RecordKind, Scan, ScannedRecord, SegmentName, scan,
};

/// Where an entry stands in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Location {
    /// The segment's sequence.
    pub(crate) segment: u64,
    /// Of the record, in the segment.
    pub(crate) offset: u64,
    /// Of the record's body, in bytes.
    pub(crate) length: u32,
}

/// An entry found in the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecoveredEntry {
    pub(crate) id: EntryId,
    pub(crate) location: Location,
}

/// What the log says about a group.
#[derive(Debug, Default)]
pub(crate) struct RecoveredGroup {
    pub(crate) marks: GroupMarks,
    /// Without holes, from behind `marks.purged` on.
    pub(crate) entries: VecDeque<RecoveredEntry>,
    /// The highest stamp in the log.
    pub(crate) stamp: LogTime,
}

/// What the log says.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub(crate) groups: BTreeMap<GroupId, RecoveredGroup>,
    pub(crate) end: LogEnd,
}

/// Where writing goes on.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogEnd {
    /// All segments, oldest first.
    pub(crate) segments: Vec<u64>,
    /// Where the last whole batch of the last segment was written from.
    pub(crate) last: u64,
    /// Behind that batch.
    pub(crate) offset: u64,
    /// Behind the last byte of the last segment that is not zero.
    pub(crate) used: u64,
    /// The number of the next batch.
    pub(crate) batch: u64,
}

/// The name of a segment file.
pub(crate) fn segment_file(sequence: u64) -> String {
    format!("{sequence:016x}.wal")
}

/// The sequence that a segment file's name gives.
pub(crate) fn segment_sequence(file: &str) -> Option<u64> {
    let digits = file.strip_suffix(".wal").filter(|digits| digits.len() == 16)?;
    let sequence = u64::from_str_radix(digits, 16).ok()?;
    (segment_file(sequence) == file).then_some(sequence)
}

/// Reads the log in `dir`.
pub(crate) fn recover(
    disk: &dyn Disk,
    dir: &Path,
    cluster: ClusterId,
    node: NodeId,
) -> Result<Recovered, OpenError> {
    let listed = disk.list(dir).map_err(|source| disk_error(dir, source))?;
    let sequences: Vec<u64> =
        listed.iter().filter_map(|listed| segment_sequence(&listed.name)).collect();
    let mut recovered = Recovered::default();
    let mut doubt: Option<(PathBuf, Flaw)> = None;
    for (place, &sequence) in sequences.iter().enumerate() {
        let path = dir.join(segment_file(sequence));
        if let Some(before) = recovered.end.segments.last()
            && before.checked_add(1) != Some(sequence)
        {
            return Err(damaged(path, 0, "the segment before this one is missing"));
        }
        let file = disk.open(&path, OpenMode::Read).map_err(|error| disk_error(&path, error))?;
        let bytes = read_all(&*file).map_err(|source| disk_error(&path, source))?;
        let found = scan(&bytes, &SegmentName { cluster, node, sequence });
        // What is wrong behind the last whole batch of the segment before was unused space, if no
        // batch is missing between there and here.
        if let Some((path, flaw)) = doubt.take()
            && found.batches.first().map(|batch| batch.number) != Some(recovered.end.batch)
        {
            return Err(damaged(path, flaw.offset, flaw.detail));
        }
        let is_last = place + 1 == sequences.len();
        match &found.flaw {
            Some(flaw) if found.later.is_some() => {
                return Err(damaged(path, flaw.offset, flaw.detail));
            }
            Some(flaw) if !is_last => doubt = Some((path.clone(), flaw.clone())),
            // A torn end: what was written last was never acknowledged.
            Some(_) | None => (),
        }
        recovered.take_segment(&path, sequence, &found)?;
    }
    for (group, found) in &mut recovered.groups {
        found.settle(*group, dir)?;
    }
    Ok(recovered)
}

fn damaged(file: PathBuf, offset: u64, detail: &str) -> OpenError {
    OpenError::Damaged { file, offset, detail: detail.to_owned() }
}

fn disk_error(path: &Path, source: std::io::Error) -> OpenError {
    OpenError::Disk { path: path.to_path_buf(), source }
}

impl Recovered {
    fn take_segment(
        &mut self,
        path: &Path,
        sequence: u64,
        found: &Scan<'_>,
    ) -> Result<(), OpenError> {
        for batch in &found.batches {
            if self.end.batch != 0 && batch.number != self.end.batch {
                let offset = batch.records.first().map_or(0, |record| record.offset);
                return Err(damaged(path.to_path_buf(), offset, "a batch is missing before this"));
            }
            self.end.batch = batch.number.saturating_add(1);
            let of_groups = |record: &&ScannedRecord<'_>| record.kind != RecordKind::Closed;
            for record in batch.records.iter().filter(of_groups) {
                let group = self.groups.entry(record.group).or_default();
                group
                    .take(sequence, record)
                    .map_err(|malformed| damaged(path.to_path_buf(), record.offset, malformed.0))?;
            }
        }
        self.end.segments.push(sequence);
        self.end.last = found.last;
        self.end.offset = found.end;
        self.end.used = found.used;
        Ok(())
    }
}

impl RecoveredGroup {
    fn take(&mut self, segment: u64, record: &ScannedRecord<'_>) -> Result<(), Malformed> {
        let mut decoder = Decoder::new(record.body);
        match record.kind {
            RecordKind::Vote => self.marks.vote = Some(VoteRecord::decode(&mut decoder)?),
            RecordKind::Committed => self.marks.committed = Some(EntryId::decode(&mut decoder)?),
            RecordKind::Purge => self.purge(EntryId::decode(&mut decoder)?),
            RecordKind::Truncate => {
                let last = decoder.option(EntryId::decode)?;
                while self.entries.back().is_some_and(|entry| Some(entry.id) > last) {
                    self.entries.pop_back();
                }
            }
            RecordKind::Entry => return self.append(segment, record),
            RecordKind::State => {
                // The segments that gave these marks may be gone; what is still here was read
                // already and says the same.
                self.marks = GroupMarks::decode(record.body)?;
                return Ok(());
            }
            RecordKind::Closed => (),
        }
        decoder.finish()
    }

    fn purge(&mut self, upto: EntryId) {
        self.marks.purged = self.marks.purged.max(Some(upto));
        while self.entries.front().is_some_and(|entry| entry.id.index <= upto.index) {
            self.entries.pop_front();
        }
    }

    fn append(&mut self, segment: u64, record: &ScannedRecord<'_>) -> Result<(), Malformed> {
        let mut decoder = Decoder::new(record.body);
        let id = EntryId::decode(&mut decoder)?;
        if let Some(last) = self.entries.back()
            && last.id.index.checked_add(1) != Some(id.index)
        {
            return Err(Malformed("the entry does not follow the one before it"));
        }
        let length = u32::try_from(record.body.len())
            .map_err(|_too_large| Malformed("the entry is too large"))?;
        // The commands follow the name and one byte for the kind.
        if decoder.u8()? == 1 {
            self.stamp = self.stamp.max(batch::stamp_of(decoder.rest())?);
        }
        let location = Location { segment, offset: record.offset, length };
        self.entries.push_back(RecoveredEntry { id, location });
        Ok(())
    }

    /// Drops what was purged and insists that there is no hole.
    fn settle(&mut self, group: GroupId, dir: &Path) -> Result<(), OpenError> {
        if let Some(purged) = self.marks.purged {
            self.purge(purged);
        }
        let expected = self.marks.purged.map_or(0, |purged| purged.index.saturating_add(1));
        match self.entries.front() {
            Some(first) if first.id.index != expected => {
                let file = dir.join(segment_file(first.location.segment));
                let detail = format!(
                    "group {group} lacks the entries from {expected} to {}",
                    first.id.index.saturating_sub(1)
                );
                Err(OpenError::Damaged { file, offset: first.location.offset, detail })
            }
            _ => Ok(()),
        }
    }
}

impl Location {
    /// Bytes of the whole record.
    pub(super) fn record_bytes(&self) -> Option<usize> {
        usize::try_from(self.length).ok()?.checked_add(RECORD_HEADER_BYTES)
    }
}
