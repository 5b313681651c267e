//! A lost home whose leader had changed at the very end: its log parts from what came over before the last
//! entry that did.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use purser_ledger::audit::Audit;
use purser_ledger::scenario::MemoryHistory;
use purser_ledger::{
    Account, Answer, Authorize, Booked, Capture, Charge, Command, Context, Digest32, Entry, Fact,
    Fate, HoldNumber, IfExpired, Import, ImportPart, Item, Ledger, MoveStep, Open, Operation,
    Outcome, Policy, Record, Rejection, StepDown, Tail, TailPage, TakeHome, Way, codec,
};
use purser_types::{Epoch, IdempotencyKey, LogTime, OperationId, Position, Region, Sequence, Span};

use self::support::{account, credits, paid};

/// A group in memory. A copy is another replica, which may go on in another way.
#[derive(Default, Clone)]
struct Group {
    ledger: Ledger,
    history: MemoryHistory,
    /// The Raft index, by which entries differ that say the same.
    index: u64,
}

impl Group {
    fn apply(&mut self, command: &Command) -> Answer {
        self.index += 1;
        let operation = OperationId { index: self.index, ordinal: 0 };
        let answer =
            self.ledger.apply_command(command, LogTime::ZERO, operation, &mut self.history);
        purser_ledger::invariants::check_ledger(&self.ledger).unwrap();
        answer.unwrap()
    }

    fn put(&mut self, key: Option<&str>, operation: Operation) -> Outcome {
        let key = key.map(|key| IdempotencyKey::parse(key).unwrap());
        let item = Item::new(Context { key, ..Context::default() }, operation);
        let answer = self.apply(&Command::at_home(account(), vec![item]));
        answer.into_outcomes().unwrap().pop().unwrap()
    }

    /// Asks under a key; what is asked is accepted.
    fn ask(&mut self, key: &str, operation: Operation) -> Sequence {
        self.put(Some(key), operation).result.unwrap().entry.sequence
    }

    fn step(&mut self, command: &Command) {
        let Answer::Move(step) = self.apply(command) else { panic!("a step is answered as one") };
        assert!(matches!(
            step,
            Ok(MoveStep::Imported(_) | MoveStep::AtHome { .. } | MoveStep::Away { .. })
        ));
    }

    fn account(&self) -> &Account {
        self.ledger.account(&account()).unwrap()
    }

    fn tail(&self) -> Option<&Tail> {
        self.account().tails().next()
    }

    fn marks(&self) -> Vec<Booked> {
        self.account().tail_marks(self.tail().unwrap(), &self.history).unwrap()
    }

    fn fates(&self) -> Vec<Fate> {
        let head = self.account().head().sequence;
        let entries = self.account().entries_back_from(head, &self.history).unwrap();
        let mut fates = Vec::new();
        for entry in entries {
            let Fact::TailBooked(run) = entry.unwrap().entry.fact else { continue };
            fates.extend(run.lost.iter().rev().map(|lost| lost.fate));
        }
        fates.reverse();
        fates
    }
}

fn region(name: &str) -> Region {
    Region::parse(name).unwrap()
}

fn grant() -> Operation {
    Operation::Grant(paid(100))
}

fn charge(amount: u64) -> Operation {
    Operation::Charge(Charge {
        amount: credits(amount),
        allow_debt: false,
        reference: None,
        budgets: Box::default(),
    })
}

fn authorize(amount: u64) -> Operation {
    Operation::Authorize(Authorize {
        amount: credits(amount),
        ttl: Span::from_days(1),
        reference: None,
        budgets: Box::default(),
    })
}

fn capture(hold: Sequence) -> Operation {
    Operation::Capture(Capture {
        hold: HoldNumber(hold),
        amount: None,
        is_final: true,
        allow_debt: false,
        if_expired: IfExpired::Refuse,
        away: None,
    })
}

/// The home as every replica has it: 100 credits, X = 40, and a hold of 10. Gives the hold as well.
fn common() -> (Group, Sequence) {
    let mut home = Group::default();
    let policy = Policy { unacknowledged_max: credits(40), ..Policy::default() };
    home.ask("open", Operation::Open(Open { home: region("us"), policy, epoch: None }));
    home.ask("grant", grant());
    let hold = home.ask("hold", authorize(10));
    (home, hold)
}

/// `eu` takes over from a replica, and the lost home `us` hears of it.
fn fail_over(replica: &Group, lost: &mut Group) -> Group {
    let mut home = Group { index: 100, ..Group::default() };
    let head = replica.account().head();
    let entries = replica.account().entries_after(Sequence::ZERO, &replica.history).unwrap();
    let parts = [
        ImportPart::Entries(entries),
        ImportPart::Memory { pairs: Vec::new(), complete_at: Some(head.sequence) },
    ];
    for part in parts {
        home.step(&Command::Import(Import { account: account(), part }));
    }
    let (way, epoch) = (Way::FailedOver { from: region("us") }, Epoch(2));
    let head = Booked { sequence: head.sequence, hash: Some(head.hash) };
    let take = TakeHome { account: account(), home: region("eu"), epoch, way, head };
    home.step(&Command::TakeHome(take));
    lost.step(&Command::StepDown(StepDown { account: account(), home: region("eu"), epoch }));
    home
}

fn page(lost: &Group, home: &Group, marks: &[Booked]) -> Option<TailPage> {
    let epoch = home.tail().unwrap().epoch;
    lost.ledger.tail_after(&account(), epoch, marks, &lost.history).unwrap()
}

/// Books the tail in parts of so many entries.
fn book(lost: &Group, home: &mut Group, entries_max: usize) {
    let mut asked_on = None;
    while let Some(tail) = home.tail() {
        let came_over = tail.booked.sequence;
        let marks = asked_on.map_or_else(|| home.marks(), |after| vec![after]);
        let mut page = page(lost, home, &marks).unwrap();
        page.is_last &= page.entries.len() <= entries_max;
        page.entries.truncate(entries_max);
        asked_on = match home.put(None, Operation::BookTail(page.clone())).result {
            Ok(_) => None,
            Err(rejection) => {
                assert_eq!(rejection, Rejection::NothingNew);
                Some(page.asks_on(came_over).unwrap())
            }
        };
    }
}

fn check_audit(group: &Group) {
    let mut audit = Audit::default();
    for (position, record) in group.history.records_from(Position(0)) {
        audit.fold(position, record).unwrap();
    }
    assert_eq!(audit.compare(&group.ledger).into_iter().next(), None);
}

#[test]
fn a_tail_is_booked_from_the_last_entry_that_both_homes_have() {
    let (common, hold) = common();
    // The last leader but one: two entries that only the replica got, the second under a number that
    // the next leader gives to something else.
    let mut replica = common.clone();
    replica.ask("retried", charge(5));
    replica.ask("other", authorize(20));
    // The last leader: the caller repeats the first, and others come.
    let mut lost = Group { index: 50, ..common };
    lost.ask("retried", charge(5));
    lost.ask("new", charge(7));
    lost.ask("used", capture(hold));
    let mut home = fail_over(&replica, &mut lost);
    // By what came over alone nothing is found.
    assert_eq!(page(&lost, &home, &home.marks()[..1]), None);

    for entries_max in [1, 2, 512] {
        let mut home = home.clone();
        book(&lost, &mut home, entries_max);
        assert_eq!(home.fates(), [Fate::Matched, Fate::Booked, Fate::Booked]);
        let balance = home.account().balance();
        let (used, held) = (balance.used.get(), balance.held.get());
        // 5 once, 7, the hold's 10; and the hold of 20 that came over stands.
        assert_eq!((used, held, balance.available.get()), (22, 20, 58));
        check_audit(&home);
    }
    // What came over and is not in the lost home's log is found by whoever repeats it.
    assert!(home.put(Some("other"), authorize(20)).replayed);
}

#[test]
fn a_lost_home_whose_log_ends_before_what_came_over_has_no_tail() {
    let (common, _) = common();
    let mut replica = common.clone();
    for number in 0..9 {
        replica.ask(&format!("{number}"), charge(1));
    }
    let mut lost = Group { index: 50, ..common };
    let mut home = fail_over(&replica, &mut lost);
    book(&lost, &mut home, 512);
    assert_eq!((home.fates().len(), home.account().balance().used.get()), (0, 9));
    check_audit(&home);
}

#[test]
fn a_tail_that_parts_beyond_its_first_pages_is_booked_whole() {
    let (common, hold) = common();
    for depth in [3, 7, 20] {
        let mut replica = common.clone();
        for number in 0..depth {
            replica.ask(&format!("{number}"), charge(1));
        }
        let mut lost = Group { index: 50, ..common.clone() };
        lost.ask("new", charge(7));
        lost.ask("used", capture(hold));
        let home = fail_over(&replica, &mut lost);
        for entries_max in [1, 2, 512] {
            let mut home = home.clone();
            book(&lost, &mut home, entries_max);
            assert_eq!(home.fates(), [Fate::Booked, Fate::Booked], "{depth}, {entries_max}");
            assert_eq!(home.account().balance().used.get(), depth + 17);
            check_audit(&home);
        }
    }
}

#[test]
fn the_audit_finds_a_tail_that_does_not_begin_with_what_both_homes_have() {
    let (common, _) = common();
    let mut replica = common.clone();
    replica.ask("other", charge(1));
    let mut lost = Group { index: 50, ..common };
    lost.ask("new", charge(7));
    let mut home = fail_over(&replica, &mut lost);
    book(&lost, &mut home, 512);
    check_audit(&home);

    let mut audit = Audit::default();
    let mut found = Vec::new();
    for (position, bytes) in home.history.records_from(Position(0)) {
        let mut record: Record = codec::decode(bytes).unwrap();
        let mut entry: Entry = codec::decode(&record.entry).unwrap();
        if let Fact::TailBooked(run) = &mut entry.fact {
            run.lost[0].entry.prev_hash = Digest32::default();
            record.entry = codec::encode(&entry);
        }
        found.extend(audit.fold(position, &codec::encode(&record)).err());
    }
    let details: Vec<&str> = found.iter().map(|finding| finding.detail.as_str()).collect();
    assert!(matches!(details[..], [detail] if detail.contains("the tail's hash")), "{details:?}");
}

#[test]
fn a_last_page_of_old_entries_that_never_were_this_log_does_not_end_the_tail() {
    let (common, _) = common();
    let mut lost = Group { index: 50, ..Group::default() };
    let policy = Policy::default();
    lost.ask("open", Operation::Open(Open { home: region("us"), policy, epoch: None }));
    lost.ask("grant", grant());
    let mut home = fail_over(&common, &mut lost);
    let whole = page(&lost, &home, &home.marks()).unwrap();
    let old = TailPage { entries: whole.entries[1..].to_vec(), ..whole };
    let refused = home.put(None, Operation::BookTail(old)).result.unwrap_err();
    assert_eq!(refused, Rejection::ReportForked { sequence: Sequence(2) });
    assert!(home.tail().is_some());
}

#[test]
fn nothing_is_booked_of_a_log_that_never_was_this_one() {
    let (common, _) = common();
    let mut lost = Group { index: 50, ..Group::default() };
    let policy = Policy::default();
    lost.ask("open", Operation::Open(Open { home: region("us"), policy, epoch: None }));
    let mut home = fail_over(&common, &mut lost);
    // It was opened otherwise there: what both have is the beginning, where nothing was decided.
    let marks = home.marks();
    assert_eq!(marks.last().map(|mark| mark.sequence), Some(Sequence::ZERO));
    let page = page(&lost, &home, &marks).unwrap();
    let forged = TailPage {
        entries: page.entries.iter().map(|bytes| bytes[1..].to_vec().into()).collect(),
        ..page.clone()
    };
    let before = home.ledger.digest();
    assert!(home.put(None, Operation::BookTail(forged)).result.is_err());
    assert_eq!(home.ledger.digest(), before);
    home.put(None, Operation::BookTail(page)).result.unwrap();
    assert_eq!(home.fates(), [Fate::Dropped]);
    assert_eq!(home.tail(), None);
}
