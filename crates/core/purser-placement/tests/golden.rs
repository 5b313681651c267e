//! The bytes of commands, changes and snapshots, pinned.
//!
//! What a release has written, every later one reads: a released form gets a case of its own
//! beside the new one. `UPDATE_EXPECT=1` rewrites the files; before the first release that is a
//! change like any other, afterwards it is not allowed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::path::PathBuf;

use purser_expect::{check_bytes, check_chunks, check_unreadable, variant, variant_bytes};
use purser_placement::{
    Change, ChangeNumber, Changes, Command, Operation, Placement, PlacementState, Request,
};
use purser_types::{
    Epoch, History, HistoryError, HistoryReader, LogTime, Machine, Position, Stamped, codec,
};

use self::common::{change, open, placement, region, request, set_region, tenant};

#[test]
fn the_bytes_of_commands_are_pinned() {
    let mut commands: Vec<(&str, Command)> = Vec::new();
    for (operation, number) in operations().into_iter().zip(0..) {
        let (name, expected) = operation_number(&operation);
        assert_eq!((expected, variant(&operation)), (number, number), "{name}");
        commands.push((name, Command::Tenants(vec![request("acme", operation)])));
    }
    let [one, two] = ["acme", "bolt"].map(|name| request(name, open("eu", &[])));
    commands.push(("batch", Command::Tenants(vec![one, two])));
    commands.push(("set_region", Command::SetRegion(set_region("eu", 3, "eu.example:7443"))));
    check_bytes(&file("commands.txt"), &commands);
}

#[test]
fn the_bytes_of_changes_are_pinned() {
    let page = lived().changes_after(ChangeNumber::NONE, 100);
    // Something in every field: each state, each beginning, standbys of both kinds, a region.
    let placements: Vec<_> = page
        .changes
        .iter()
        .filter_map(|change| match change {
            Change::Tenant { placement, .. } => Some(placement),
            Change::Region(_) => None,
        })
        .collect();
    let beginnings = placements.iter().map(|placement| placement.beginning as u8);
    assert_eq!(beginnings.collect::<BTreeSet<_>>(), [0, 1, 2, 3].into());
    let states = placements.iter().map(|placement| variant(&placement.state));
    assert_eq!(states.collect::<BTreeSet<_>>(), [0, 1, 2].into());

    let mut lines: Vec<(String, Changes)> = Vec::new();
    for number in 0..page.changes.len() {
        let after = ChangeNumber(number.try_into().unwrap());
        lines.push((format!("after_{number}"), lived().changes_after(after, 1)));
    }
    check_bytes(&file("changes.txt"), &lines);
}

#[test]
fn the_bytes_of_a_snapshot_are_pinned() {
    let lived = lived();
    let kept = check_chunks(&file("snapshot.txt"), lived.snapshot());
    let restored = Placement::restore(&mut kept.into_iter()).unwrap();
    assert_eq!(restored, lived);
    assert_eq!(restored.log_time(), at(7));
}

#[test]
fn an_unknown_variant_is_an_error_and_not_another_variant() {
    for number in [99_u32, 100, 70_000] {
        let bytes = variant_bytes(number);
        check_unreadable::<Command>(&bytes);
        check_unreadable::<Operation>(&bytes);
        check_unreadable::<Change>(&bytes);
        check_unreadable::<PlacementState>(&bytes);
    }
}

#[test]
fn damaged_bytes_are_an_error_and_never_another_state() {
    let command = codec::encode(&Command::Tenants(vec![request("acme", open("eu", &["us"]))]));
    for end in 0..command.len() {
        check_unreadable::<Command>(&command[..end]);
    }
    let longer: Vec<u8> = command.iter().copied().chain([0]).collect();
    check_unreadable::<Command>(&longer);

    let snapshot: Vec<u8> = lived().snapshot().flatten().collect();
    for end in 0..snapshot.len() {
        assert!(Placement::restore(&mut [snapshot[..end].to_vec()].into_iter()).is_err());
    }
    // Whatever a byte becomes, what is restored is a state of which equal bytes are made again: a
    // list out of order, a tenant twice, a number never given out are refused.
    for place in 0..snapshot.len() {
        let mut damaged = snapshot.clone();
        damaged[place] ^= 1;
        if let Ok(restored) = Placement::restore(&mut [damaged.clone()].into_iter()) {
            let again: Vec<u8> = restored.snapshot().flatten().collect();
            let once_more = Placement::restore(&mut [again].into_iter()).unwrap();
            assert_eq!(once_more, restored, "byte {place}");
        }
    }
}

fn operations() -> Vec<Operation> {
    let (epoch, seen, to) = (Epoch(2), ChangeNumber(300), region("us"));
    vec![
        open("eu", &["ap", "us"]),
        Operation::BeginMove { epoch, to },
        Operation::FinishMove { epoch },
        Operation::AbortMove { epoch },
        Operation::FailOver { epoch, to },
        Operation::ResolveTail { epoch, from: region("eu") },
        Operation::SetStandby { epoch, seen, region: to, promotable: true },
        Operation::SetStandbys { epoch, seen, standbys: [region("ap"), to].into() },
    ]
}

/// An operation's name and number; a new one does not compile until it has both.
fn operation_number(operation: &Operation) -> (&'static str, u32) {
    match operation {
        Operation::Open { .. } => ("open", 0),
        Operation::BeginMove { .. } => ("begin_move", 1),
        Operation::FinishMove { .. } => ("finish_move", 2),
        Operation::AbortMove { .. } => ("abort_move", 3),
        Operation::FailOver { .. } => ("fail_over", 4),
        Operation::ResolveTail { .. } => ("resolve_tail", 5),
        Operation::SetStandby { .. } => ("set_standby", 6),
        Operation::SetStandbys { .. } => ("set_standbys", 7),
    }
}

/// A Placement with one tenant in each situation there is.
fn lived() -> Placement {
    let mut lived = placement(&["ap", "eu", "us"]);
    for (name, standbys) in [
        ("opened", [].as_slice()),
        ("moving", &["us"]),
        ("moved", &["ap", "us"]),
        ("aborted", &["us"]),
        ("failed-over", &["us"]),
    ] {
        change(&mut lived, name, open("eu", standbys));
    }
    let (epoch, to) = (Epoch(1), region("us"));
    for name in ["aborted", "failed-over"] {
        let seen = lived.tenant(&tenant(name)).unwrap().change;
        let back = Operation::SetStandby { epoch, seen, region: to, promotable: true };
        change(&mut lived, name, back);
    }
    for name in ["moving", "moved", "aborted"] {
        change(&mut lived, name, Operation::BeginMove { epoch, to });
    }
    change(&mut lived, "moved", Operation::FinishMove { epoch });
    change(&mut lived, "aborted", Operation::AbortMove { epoch });
    change(&mut lived, "failed-over", Operation::FailOver { epoch, to });

    // The clock of the log is part of the state, and a stamp from before does not set it back.
    for seconds in [7, 3] {
        let nothing = codec::encode(&Command::Tenants(Vec::<Request>::new()));
        let stamped = Stamped { index: 1, ordinal: 0, at: at(seconds), command: &nothing };
        lived.apply(stamped, &mut NoHistory).unwrap();
    }
    lived
}

fn at(seconds: u64) -> LogTime {
    LogTime::from_unix_micros(seconds * 1_000_000).unwrap()
}

/// Placement writes no history.
struct NoHistory;

impl HistoryReader for NoHistory {
    fn read(&self, position: Position) -> Result<Vec<u8>, HistoryError> {
        Err(HistoryError::NoRecord(position))
    }
}

impl History for NoHistory {
    fn append(&mut self, record: &[u8]) -> Position {
        unreachable!("a history of Placement: {record:?}")
    }
}

/// A file of pinned bytes.
fn file(name: &str) -> PathBuf {
    purser_expect::path(env!("CARGO_MANIFEST_DIR"), &format!("golden/{name}"))
}
