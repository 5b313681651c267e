//! The history: same bytes on every replica, cut and written again, damage named.

use std::path::Path;

use purser_types::{History, HistoryError, HistoryReader, Position};

use crate::disk::{DiskFault, SimulatedDisk};
use crate::error::OpenError;

use super::format::HistoryMark;
use super::*;

const DIR: &str = "/history";

fn open(disk: &SimulatedDisk, mark: HistoryMark) -> Result<HistoryWriter, OpenError> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    disk.create_dir_all(Path::new(DIR)).unwrap();
    let (cluster, group) = (ClusterId::from_bytes([5; 16]), GroupId(4));
    HistoryWriter::open(HistoryPlace { disk, dir: DIR.into(), cluster, group }, 500, mark)
}

fn record(number: usize) -> Vec<u8> {
    format!("record {number} {}", "y".repeat(number % 90)).into_bytes()
}

fn append(history: &mut HistoryWriter, numbers: std::ops::Range<usize>) -> Vec<Position> {
    let mut positions = Vec::new();
    for number in numbers {
        positions.push(history.append(&record(number)));
        history.flush().unwrap();
    }
    positions
}

#[track_caller]
fn check_records(reader: &GroupHistory, positions: &[Position]) {
    for (number, position) in positions.iter().enumerate() {
        assert_eq!(reader.read(*position).unwrap(), record(number));
    }
}

#[test]
fn a_record_can_be_read_before_and_after_it_is_written_to_a_file() {
    let disk = SimulatedDisk::from_seed(1);
    let mut history = open(&disk, HistoryMark::default()).unwrap();
    let position = history.append(b"");
    let later = history.append(&vec![b'z'; 3_000]);
    assert_eq!(history.read(later).unwrap().len(), 3_000);
    history.flush().unwrap();
    assert_eq!(history.read(position).unwrap(), b"");
    assert_eq!(history.read(later).unwrap().len(), 3_000);
    let end = Position(history.reader().length());
    assert!(matches!(history.read(end), Err(HistoryError::NoRecord(_))));
}

#[test]
fn records_are_read_in_a_row_over_files_and_memory_in_pages_of_any_size() {
    let disk = SimulatedDisk::from_seed(8);
    let mut history = open(&disk, HistoryMark::default()).unwrap();
    let mut positions = append(&mut history, 0..40);
    positions.push(history.append(&record(40)));
    let reader = history.reader();
    let expected: Vec<_> =
        positions.iter().enumerate().map(|(number, at)| (*at, record(number))).collect();
    for bytes_max in [1, 70, 400, 100_000] {
        let (mut all, mut next) = (Vec::new(), Position(0));
        while next < reader.end() {
            let (page, behind) = reader.records(next, reader.end(), bytes_max).unwrap();
            assert!(!page.is_empty() && next < behind);
            all.extend(page);
            next = behind;
        }
        assert_eq!(all, expected, "{bytes_max} bytes at a time");
    }
    // Not beyond what the reader asks for, and from nowhere but where a record starts.
    let (page, next) = reader.records(positions[2], positions[5], 100_000).unwrap();
    assert_eq!((page.len(), next), (3, positions[5]));
    let between = Position(positions[2].0 + 1);
    assert!(matches!(
        reader.records(between, reader.end(), 100),
        Err(HistoryError::Damaged { .. })
    ));
}

#[test]
fn a_restart_cuts_to_the_snapshot_and_the_log_writes_the_same_again() {
    let disk = SimulatedDisk::from_seed(2);
    let mut history = open(&disk, HistoryMark::default()).unwrap();
    append(&mut history, 0..30);
    let mark = history.reader().mark();
    history.syncer().sync().unwrap();
    let expected = append(&mut history, 30..60);
    let end = history.reader().mark();
    drop(history);
    disk.restart();

    let mut history = open(&disk, mark).unwrap();
    assert_eq!(history.reader().mark(), mark);
    assert_eq!(append(&mut history, 30..60), expected);
    assert_eq!(history.reader().mark(), end);
    assert!(disk.paths().len() > 3, "several files");
}

#[test]
fn a_failed_sync_is_final() {
    let disk = SimulatedDisk::from_seed(5);
    let mut history = open(&disk, HistoryMark::default()).unwrap();
    append(&mut history, 0..3);
    disk.fail_at(disk.write_points(), DiskFault::InputOutput);
    let syncer = history.syncer();
    assert!(syncer.sync().is_err());
    assert!(syncer.sync().is_err(), "nothing is left to sync, and it is not durable");
}

#[test]
fn another_history_than_the_snapshot_knew_is_refused() {
    let disk = SimulatedDisk::from_seed(3);
    let mut history = open(&disk, HistoryMark::default()).unwrap();
    append(&mut history, 0..30);
    let mark = history.reader().mark();
    drop(history);
    for wrong in [
        HistoryMark { crc: mark.crc ^ 1, ..mark },
        HistoryMark { length: mark.length + 1, ..mark },
        HistoryMark { last: 0, ..mark },
    ] {
        assert!(matches!(open(&disk, wrong), Err(OpenError::Damaged { .. })), "{wrong:?}");
    }
    assert!(open(&disk, mark).is_ok());
}

#[test]
fn a_flipped_byte_is_never_read() {
    let disk = SimulatedDisk::from_seed(4);
    let mut history = open(&disk, HistoryMark::default()).unwrap();
    let positions = append(&mut history, 0..8);
    let reader = history.reader();
    check_records(&reader, &positions);
    let path = Path::new(DIR).join(format::file_name(0));
    let whole = disk.contents(&path).unwrap();
    for place in format::HEADER_BYTES..whole.len() {
        let mut damaged = whole.clone();
        damaged[place] ^= 4;
        disk.tamper(&path, damaged);
        let touched = positions
            .iter()
            .rposition(|at| at.0 + format::wide(format::HEADER_BYTES) <= format::wide(place))
            .unwrap();
        let error = reader.read(positions[touched]).unwrap_err();
        assert!(matches!(error, HistoryError::Damaged { .. }), "{place}: {error}");
        assert!(error.to_string().contains(&format::file_name(0)), "{error}");
    }
}
