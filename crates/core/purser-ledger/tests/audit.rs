//! The audit finds what it is for: each way of altering a history, and each difference from it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use purser_ledger::audit::Audit;
use purser_ledger::scenario::MemoryHistory;
use purser_ledger::{
    Authorize, Bucket, Capture, Command, Context, Entry, HoldNumber, HoldState, IfExpired, Item,
    Ledger, Lot, LotNumber, LotPhase, Open, Operation, Policy, Record, Release, codec,
};
use purser_types::{Credits, LogTime, OperationId, Position, Region, Sequence, Span};

use self::support::{account, credits, paid};

fn at(seconds: u64) -> LogTime {
    LogTime::ZERO.saturating_add(Span::from_secs(seconds))
}

/// Opened, granted 100, two holds of 40 and 30, the first captured, the second released.
fn operations() -> Vec<Operation> {
    let authorize = |amount| {
        Operation::Authorize(Authorize {
            amount: credits(amount),
            ttl: Span::from_secs(600),
            reference: None,
            budgets: Box::default(),
        })
    };
    let hold = |sequence| HoldNumber(Sequence(sequence));
    vec![
        Operation::Open(Open {
            home: Region::parse("us").unwrap(),
            policy: Policy::default(),
            epoch: None,
        }),
        Operation::Grant(paid(100)),
        authorize(40),
        authorize(30),
        Operation::Capture(Capture {
            hold: hold(3),
            amount: Some(credits(40)),
            is_final: true,
            allow_debt: false,
            if_expired: IfExpired::Refuse,
            away: None,
        }),
        Operation::Release(Release { hold: hold(4), away: None }),
        authorize(10),
    ]
}

fn lived() -> (Ledger, Vec<(Position, Record)>) {
    let (mut ledger, mut history) = (Ledger::default(), MemoryHistory::default());
    for (operation, second) in operations().into_iter().zip(1..) {
        let items = vec![Item::new(Context::default(), operation)];
        let command = Command::at_home(account(), items);
        let id = OperationId { index: second, ordinal: 0 };
        ledger.apply_command(&command, at(second), id, &mut history).unwrap();
    }
    let records = history.records_from(Position(0));
    let records = records.map(|(at, bytes)| (at, codec::decode(bytes).unwrap())).collect();
    (ledger, records)
}

/// Folds records until the first finding.
fn fold(records: &[(Position, Record)]) -> (Audit, Option<String>) {
    let mut audit = Audit::default();
    for (position, record) in records {
        if let Err(finding) = audit.fold(*position, &codec::encode(record)) {
            return (audit, Some(finding.detail));
        }
    }
    (audit, None)
}

#[track_caller]
fn check_finds(alter: impl FnOnce(&mut Vec<(Position, Record)>), expected: &str) {
    let (_, mut records) = lived();
    assert_eq!(fold(&records).1, None);
    alter(&mut records);
    let found = fold(&records).1.unwrap_or_default();
    assert!(found.contains(expected), "found {found:?}, expected {expected:?}");
}

/// Alters the entry with `sequence`, and makes the chain behind it whole again.
#[track_caller]
fn check_finds_forged(sequence: usize, alter: impl FnOnce(&mut Entry), expected: &str) {
    let forge = |records: &mut Vec<(Position, Record)>| {
        let mut entry: Entry = codec::decode(&records[sequence - 1].1.entry).unwrap();
        alter(&mut entry);
        records[sequence - 1].1.entry = codec::encode(&entry);
        for place in sequence..records.len() {
            let before = purser_ledger::hash_of(&records[place - 1].1.entry);
            let mut entry: Entry = codec::decode(&records[place].1.entry).unwrap();
            entry.prev_hash = before;
            records[place].1.entry = codec::encode(&entry);
        }
    };
    check_finds(forge, expected);
}

#[test]
fn a_broken_chain_is_found() {
    check_finds(|records| drop(records.remove(4)), "sequence");
    check_finds(|records| records.swap(2, 3), "sequence");
    check_finds(|records| records[3].1.previous = None, "place of the entry before");
    check_finds(|records| drop(records.remove(0)), "sequence");
    let alter = |records: &mut Vec<(Position, Record)>| {
        let mut entry: Entry = codec::decode(&records[2].1.entry).unwrap();
        entry.reason = Some("another".into());
        records[2].1.entry = codec::encode(&entry);
    };
    check_finds(alter, "hash of the entry before");
}

#[test]
fn a_forged_entry_is_found_even_if_the_chain_is_whole_again() {
    check_finds_forged(1, |entry| entry.prev_hash = [7; 32], "first hash");
    check_finds_forged(4, |entry| entry.log_time = at(1), "log time");
    check_finds_forged(2, |entry| entry.moves[0].amount = credits(101), "overdrawn");
    check_finds_forged(5, |entry| entry.balance.used = credits(39), "used is");
    check_finds_forged(3, |entry| entry.moves[0].amount = credits(140), "overdrawn");
    check_finds_forged(3, |entry| entry.moves[0].lot = None, "without a lot");
    check_finds_forged(3, |entry| entry.moves[0].to = Bucket::Used, "held is");
}

#[test]
fn an_entry_that_shows_what_its_moves_do_not_make_is_found() {
    use purser_ledger::Fact;
    let opened_later = |entry: &mut Entry| {
        let Fact::Opened { standing, .. } = &mut entry.fact else { return };
        standing.opened_at = at(9);
    };
    check_finds_forged(1, opened_later, "time of opening");
    let (ledger, _) = lived();
    let number = LotNumber(Sequence(2));
    let lot = ledger.account(&account()).unwrap().lot(number).unwrap().clone();
    // The seventh entry pins 10 of what is free and says that it voids all of it.
    let voided = |phase, free| {
        let lot = Lot { phase, free: credits(free), ..lot.clone() };
        move |entry: &mut Entry| entry.fact = Fact::Voided { number, lot }
    };
    check_finds_forged(7, voided(LotPhase::Active, 50), "phase of a voided lot");
    check_finds_forged(7, voided(LotPhase::Voided, 51), "lot 2 free");
}

#[test]
fn a_standing_that_changes_beside_what_its_entry_is_about_is_found() {
    use purser_ledger::{AccountStatus, Fact, Standing};
    let (ledger, _) = lived();
    let standing = ledger.account(&account()).unwrap().standing().clone();
    let frozen = Standing { status: AccountStatus::Frozen, ..standing.clone() };
    let becomes = |fact: Fact| move |entry: &mut Entry| entry.fact = fact;
    check_finds_forged(7, becomes(Fact::Frozen(standing.clone())), "the status is Open");
    check_finds_forged(7, becomes(Fact::Unfrozen(frozen.clone())), "the status is Frozen");
    check_finds_forged(7, becomes(Fact::PolicySet(frozen.clone())), "the status is Frozen");
    check_finds_forged(7, becomes(Fact::Closed(frozen.clone())), "the status is Frozen");
    let policy = Policy { debt_limit: credits(5), ..Policy::default() };
    let lenient = Standing { policy, ..frozen };
    check_finds_forged(7, becomes(Fact::Frozen(lenient)), "the policy");
    let moved = Standing { home: Region::parse("eu").unwrap(), ..frozen.clone() };
    check_finds_forged(7, becomes(Fact::Frozen(moved)), "the home");
    let younger = Standing { opened_at: at(7), ..frozen };
    check_finds_forged(7, becomes(Fact::Frozen(younger)), "the time of opening");
    let again = Fact::Opened { account: account(), standing, epoch: None };
    check_finds_forged(7, becomes(again), "opened again");
}

#[test]
fn a_hold_that_does_not_show_what_was_made_and_moved_is_found() {
    use purser_ledger::{Fact, Hold};
    let show = |change: fn(&mut Hold)| {
        move |entry: &mut Entry| match &mut entry.fact {
            Fact::Authorized(hold) | Fact::Captured(hold) | Fact::Released(hold) => change(hold),
            other => panic!("{other:?}"),
        }
    };
    check_finds_forged(3, show(|hold| hold.held = credits(39)), "credits held by hold 3");
    check_finds_forged(3, show(|hold| hold.lots[0].amount = credits(41)), "the lots of hold 3");
    check_finds_forged(3, show(|hold| hold.number = HoldNumber(Sequence(9))), "number of a new");
    check_finds_forged(3, show(|hold| hold.state = HoldState::Captured), "state of a new hold");
    check_finds_forged(5, show(|hold| hold.held = credits(1)), "credits held by hold 3");
    check_finds_forged(6, show(|hold| hold.lots = Box::default()), "the lots of hold 4");
    check_finds_forged(6, show(|hold| hold.number = HoldNumber(Sequence(9))), "was never made");
    check_finds_forged(7, |entry| entry.fact = Fact::AdjustedDown, "held by no hold");
}

#[test]
fn a_hold_that_comes_back_or_ends_twice_is_found() {
    use purser_ledger::Fact;
    let revive = |entry: &mut Entry| {
        let Fact::Authorized(hold) = &entry.fact else { return };
        let mut hold = hold.clone();
        hold.number = HoldNumber(Sequence(4));
        entry.fact = Fact::Extended(hold);
    };
    check_finds_forged(7, revive, "came back to life");
    let end_again = |entry: &mut Entry| {
        let Fact::Authorized(hold) = &entry.fact else { return };
        let mut hold = hold.clone();
        hold.number = HoldNumber(Sequence(4));
        hold.state = HoldState::Captured;
        hold.held = Credits::ZERO;
        entry.fact = Fact::Captured(hold);
    };
    check_finds_forged(7, end_again, "the end of a hold that had ended");
}

#[test]
fn a_live_ledger_that_is_not_what_the_entries_make_is_found() {
    let (ledger, records) = lived();
    let (audit, _) = fold(&records);
    assert_eq!(audit.compare(&ledger), []);

    let shorter = fold(&records[..6]).0.compare(&ledger);
    let details: Vec<&str> = shorter.iter().map(|finding| finding.detail.as_str()).collect();
    for part in ["live sequence", "live holds", "lot 2 free", "agenda"] {
        assert!(details.iter().any(|detail| detail.contains(part)), "{part}: {details:?}");
    }
    let none = Audit::default().compare(&ledger);
    assert!(none[0].detail.contains("0 accounts have entries, 1 are live"), "{none:?}");
}
