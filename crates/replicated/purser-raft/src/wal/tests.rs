//! The log against a disk that fails: nothing acknowledged is lost, and damage is not taken for a
//! torn end.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc;

use purser_types::LogTime;

use crate::batch::{self, BatchId};
use crate::disk::{DiskFault, SimulatedDisk};
use crate::entry::{Content, EntryId, LogEntry, VoteRecord};
use crate::raft::group_log::GroupLog;

use super::*;

const DIR: &str = "/wal";
const SETTINGS: WalSettings = WalSettings { segment_bytes: 4096, prepare_ahead: false };
const CLUSTER: ClusterId = ClusterId::from_bytes([3; 16]);
const NODE: NodeId = NodeId(1);

fn open(disk: &SimulatedDisk) -> Result<(Arc<Wal>, Recovered), OpenError> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    disk.create_dir_all(Path::new(DIR)).unwrap();
    let place = WalPlace { disk, dir: DIR.into(), cluster: CLUSTER, node: NODE };
    Wal::open(&place, SETTINGS).map(|(wal, recovered)| (Arc::new(wal), recovered))
}

/// Everything a group's log says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Contents {
    vote: Option<u64>,
    purged: Option<u64>,
    entries: Vec<LogEntry>,
}

/// What a script does to a group. Each step ends with something that is waited for.
#[derive(Debug, Clone, Copy)]
enum Step {
    Vote,
    Append(usize),
    Replace(u64),
    Purge(u64),
}

fn entry(term: u64, index: u64, size: usize) -> LogEntry {
    let at = LogTime::from_unix_micros(index).unwrap();
    let id = BatchId { node: NODE, incarnation: term, counter: index };
    let command = Bytes::from(vec![b'x'; size]);
    let content = Content::Commands(batch::encode(at, id, &[command]));
    LogEntry { id: EntryId { term, leader: NODE, index }, content }
}

impl Contents {
    fn next_index(&self) -> u64 {
        let last = self.entries.last().map(|last| last.id.index);
        last.or(self.purged).map_or(0, |last| last + 1)
    }

    /// The contents in the middle of a step (where a truncation or a purge may stand alone) and at
    /// its end.
    fn after(&self, step: Step, number: u64) -> (Self, Self) {
        let mut middle = self.clone();
        let mut end = self.clone();
        match step {
            Step::Vote => end.vote = Some(number),
            Step::Append(size) => end.entries.push(entry(number, self.next_index(), size)),
            Step::Replace(count) => {
                let kept = middle.entries.len().saturating_sub(usize::try_from(count).unwrap());
                middle.entries.truncate(kept);
                end = middle.clone();
                end.entries.push(entry(number, end.next_index(), 100));
            }
            Step::Purge(count) => {
                let count = usize::try_from(count).unwrap().min(middle.entries.len());
                let gone = middle.entries.drain(..count).next_back();
                middle.purged = gone.map(|last| last.id.index).or(middle.purged);
                end = middle.clone();
                end.vote = Some(number);
            }
        }
        (middle, end)
    }
}

/// A group's log that is driven step by step.
struct Driven {
    log: Arc<GroupLog>,
    contents: Contents,
}

impl Driven {
    /// Takes a step; `false` if the log failed.
    fn take(&mut self, step: Step, number: u64) -> bool {
        let (middle, end) = self.contents.after(step, number);
        let (sender, outcome) = mpsc::channel();
        let last = middle.entries.last().map(|entry| entry.id);
        let purged = middle.purged.filter(|_| middle.purged != self.contents.purged);
        if let (Step::Purge(_), Some(index)) = (step, purged) {
            let old = self.contents.entries.iter().find(|entry| entry.id.index == index);
            self.log.purge(old.unwrap().id);
        }
        if let Step::Replace(_) = step {
            let purged = self.log.purged();
            self.log.truncate_after(last.or(purged), Box::new(|_outcome| ()));
        }
        match step {
            Step::Append(_) | Step::Replace(_) => {
                let new = end.entries.last().unwrap().clone();
                let appended = self.log.append(vec![new], move |result| {
                    sender.send(result.is_ok()).unwrap();
                });
                appended.unwrap();
            }
            Step::Vote | Step::Purge(_) => {
                let vote = VoteRecord { term: number, node: NODE, committed: false };
                let on_durable = move |result: io::Result<&[Location]>| {
                    sender.send(result.is_ok()).unwrap();
                };
                self.log.save_vote(vote, Box::new(on_durable));
            }
        }
        let durable = outcome.recv().unwrap();
        if durable {
            self.contents = end;
        }
        durable
    }
}

fn driven(wal: &Arc<Wal>, group: u32, recovered: &mut Recovered) -> Driven {
    let found = recovered.groups.remove(&GroupId(group)).unwrap_or_default();
    // A small cache, so that most entries are read back from their segments.
    let log = GroupLog::open(GroupId(group), Arc::clone(wal), 300, found, Some(u64::MAX));
    let log = Arc::new(log);
    let contents = contents(&log);
    Driven { log, contents }
}

fn contents(log: &GroupLog) -> Contents {
    Contents {
        vote: log.vote().map(|vote| vote.term),
        purged: log.purged().map(|purged| purged.index),
        entries: log.read(0..u64::from(u32::MAX), usize::MAX).unwrap(),
    }
}

/// Two groups that vote, append, replace and purge over several segments.
fn script() -> Vec<(u32, Step)> {
    let mut steps = Vec::new();
    for round in 0..12 {
        steps.push((1, Step::Append(700)));
        steps.push((2, Step::Append(10)));
        steps.push((1, Step::Append(300)));
        match round % 4 {
            0 => steps.push((2, Step::Vote)),
            1 => steps.push((1, Step::Replace(2))),
            2 => steps.push((1, Step::Purge(3))),
            _ => steps.push((2, Step::Purge(2))),
        }
    }
    steps
}

/// What was acknowledged, by group, and the step that was not.
type Run = (BTreeMap<u32, Contents>, Option<(u32, Step, u64)>);

/// Runs the script until the disk fails. Gives what was acknowledged, and the step that was not.
fn run_script(disk: &SimulatedDisk) -> Run {
    let mut groups = BTreeMap::from([(1, Contents::default()), (2, Contents::default())]);
    let Ok((wal, mut recovered)) = open(disk) else {
        return (groups, None);
    };
    let mut logs: BTreeMap<u32, Driven> =
        [1, 2].into_iter().map(|group| (group, driven(&wal, group, &mut recovered))).collect();
    for (number, (group, step)) in (1..).zip(script()) {
        let log = logs.get_mut(&group).unwrap();
        let durable = log.take(step, number);
        groups.insert(group, log.contents.clone());
        if !durable {
            return (groups, Some((group, step, number)));
        }
    }
    wal.close();
    (groups, None)
}

#[test]
fn nothing_acknowledged_is_lost_wherever_the_power_fails() {
    let disk = SimulatedDisk::from_seed(0);
    run_script(&disk);
    let write_points = disk.write_points();
    assert!(write_points > 100, "the script is too short to say anything");
    for at in 0..write_points {
        let disk = SimulatedDisk::from_seed(at);
        disk.fail_at(at, DiskFault::PowerLoss);
        let (acknowledged, unfinished) = run_script(&disk);
        disk.restart();

        let (wal, mut recovered) = open(&disk).unwrap_or_else(|error| panic!("at {at}: {error}"));
        for (group, expected) in acknowledged {
            let mut log = driven(&wal, group, &mut recovered);
            let mut allowed = vec![expected.clone()];
            if let Some((of, step, number)) = unfinished
                && of == group
            {
                let (middle, end) = expected.after(step, number);
                allowed.extend([middle, end]);
            }
            assert!(
                allowed.contains(&log.contents),
                "at {at}, group {group}: {:?} is none of {allowed:?}",
                log.contents
            );
            // And it goes on.
            assert!(log.take(Step::Append(10), 1_000), "at {at}");
        }
    }
}

#[test]
fn a_failed_write_ends_the_log_and_loses_nothing_acknowledged() {
    for fault in [DiskFault::InputOutput, DiskFault::NoSpace] {
        for at in (5..100).step_by(7) {
            let disk = SimulatedDisk::from_seed(at);
            disk.fail_at(at, fault);
            let (acknowledged, unfinished) = run_script(&disk);
            assert!(unfinished.is_some(), "at {at} the log did not notice {fault:?}");
            disk.restart();

            let (wal, mut recovered) = open(&disk).unwrap();
            for (group, expected) in acknowledged {
                let found = driven(&wal, group, &mut recovered).contents;
                assert!(found.entries.len() + 1 >= expected.entries.len(), "at {at}");
                assert!(found.vote >= expected.vote, "at {at}");
            }
        }
    }
}

#[test]
fn after_a_failure_everything_is_refused() {
    let disk = SimulatedDisk::from_seed(1);
    let (wal, mut recovered) = open(&disk).unwrap();
    let mut log = driven(&wal, 1, &mut recovered);
    assert!(log.take(Step::Append(10), 1));
    disk.fail_at(disk.write_points() + 1, DiskFault::InputOutput);
    assert!(!log.take(Step::Append(10), 2));
    let mut log = Driven { contents: contents(&log.log), log: log.log };
    assert!(!log.take(Step::Vote, 3));
    assert!(wal.failed().borrow().is_some());
}

/// A log of some batches in one segment; where the last batch starts and ends.
fn small_log() -> (SimulatedDisk, PathBuf, std::ops::Range<usize>) {
    let disk = SimulatedDisk::from_seed(2);
    let (wal, mut recovered) = open(&disk).unwrap();
    let mut log = driven(&wal, 1, &mut recovered);
    let path = Path::new(DIR).join(recovery::segment_file(1));
    let used = || {
        let bytes = disk.contents(&path).unwrap();
        bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1
    };
    for number in 1..=5 {
        assert!(log.take(Step::Append(40), number));
    }
    let start = used().next_multiple_of(8);
    assert!(log.take(Step::Append(40), 6));
    let end = used();
    wal.kill();
    (disk, path, start..end)
}

#[test]
fn a_torn_end_is_dropped_wherever_it_is_torn() {
    let (disk, path, last) = small_log();
    let whole = disk.contents(&path).unwrap();
    for cut in last.clone() {
        let mut torn = whole.clone();
        torn[cut..last.end].fill(0);
        disk.tamper(&path, torn);
        let (wal, mut recovered) = open(&disk).unwrap();
        let mut log = driven(&wal, 1, &mut recovered);
        assert_eq!(log.contents.entries.len(), 5, "cut at {cut}");
        assert!(log.take(Step::Append(7), 7));
        drop((log, wal));
        let (wal, mut recovered) = open(&disk).unwrap();
        assert_eq!(driven(&wal, 1, &mut recovered).contents.entries.len(), 6, "cut at {cut}");
    }
}

#[test]
fn a_flipped_byte_that_something_follows_is_refused_by_name() {
    let (disk, path, last) = small_log();
    let whole = disk.contents(&path).unwrap();
    for place in 0..last.start {
        let mut damaged = whole.clone();
        damaged[place] ^= 0x10;
        disk.tamper(&path, damaged);
        match open(&disk) {
            Err(OpenError::Damaged { file, offset, .. }) => {
                assert_eq!(file, path);
                let offset = usize::try_from(offset).unwrap();
                assert!(offset <= place && place < offset + 200, "{place} is not at {offset}");
            }
            Err(error) => panic!("{place}: {error}"),
            Ok(_) => panic!("{place}: damage was taken for a torn end"),
        }
    }
}

#[test]
fn everything_that_waits_becomes_durable_with_one_sync() {
    let disk = SimulatedDisk::from_seed(3);
    let (wal, _recovered) = open(&disk).unwrap();
    let (release, hold) = mpsc::channel::<()>();
    let (sender, told) = mpsc::channel();
    let submit = |number: u32, hold: Option<mpsc::Receiver<()>>| {
        let sender = sender.clone();
        let record = Record::new(GroupId(number), RecordKind::Truncate, vec![0]);
        wal.submit(Submission {
            records: vec![record],
            urgent: true,
            on_durable: Box::new(move |result| {
                assert_eq!(result.unwrap().len(), 1);
                sender.send(number).unwrap();
                if let Some(hold) = hold {
                    hold.recv().unwrap();
                }
            }),
        });
    };
    // While the first one is being told, fifty more come.
    submit(0, Some(hold));
    assert_eq!(told.recv(), Ok(0));
    (1..=50).for_each(|number| submit(number, None));
    release.send(()).unwrap();
    let order: Vec<u32> = told.iter().take(50).collect();
    assert_eq!(order, (1..=50).collect::<Vec<_>>(), "told in the order of submission");
    wal.close();
    let mut status = HostStatus::default();
    wal.fill_status(&mut status);
    assert_eq!((status.wal_syncs, status.wal_batch_records_max), (2, 50));
}

#[test]
fn segments_made_ahead_are_used_retired_and_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(crate::disk::RealDisk);
    let dir = folder.path().to_path_buf();
    let place = WalPlace { disk, dir, cluster: CLUSTER, node: NODE };
    let ahead = WalSettings { segment_bytes: 4096, prepare_ahead: true };
    for life in 1..=3 {
        let (wal, mut recovered) = Wal::open(&place, ahead).unwrap();
        let wal = Arc::new(wal);
        let mut log = driven(&wal, 1, &mut recovered);
        assert_eq!(log.contents.entries.len(), if life == 1 { 0 } else { 2 });
        for number in 1..=40 {
            assert!(log.take(Step::Append(900), life));
            if number % 4 == 0 {
                assert!(log.take(Step::Purge(4), number));
            }
        }
        assert!(log.take(Step::Append(900), life));
        assert!(log.take(Step::Append(900), life));
        let kept = log.contents.entries.len() - 2;
        assert!(log.take(Step::Purge(u64::try_from(kept).unwrap()), life));
        let mut status = HostStatus::default();
        wal.fill_status(&mut status);
        assert!(status.wal_segments <= 4, "old segments are given back: {status:?}");
        wal.close();
    }
}
