//! Taking an account over, part by part: whatever is repeated, late or cut short, the outcome is the
//! same account.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use purser_ledger::scenario::MemoryHistory;
use purser_ledger::{
    Account, Allocate, Answer, Booked, Charge, Command, Context, Departure, Grant, Import,
    ImportPart, Item, Ledger, MoveRefusal, MoveStep, Open, Operation, Outcome, Policy, Rejection,
    Residence, Stay, StepDown, TakeHome, Unacknowledged, Way,
};
use purser_types::{Epoch, IdempotencyKey, LogTime, Machine, OperationId, Region, Sequence};

use self::support::{account, credits, paid};

/// A group in memory.
#[derive(Default)]
struct Group {
    ledger: Ledger,
    history: MemoryHistory,
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

    fn ask(&mut self, key: &str, operation: Operation) -> Outcome {
        let key = Some(IdempotencyKey::parse(key).unwrap());
        let item = Item::new(Context { key, ..Context::default() }, operation);
        let Answer::Account(mut outcomes) = self.apply(&Command::at_home(account(), vec![item]))
        else {
            panic!("an account's command is answered as one")
        };
        outcomes.pop().unwrap()
    }

    fn step(&mut self, command: &Command) -> Result<MoveStep, MoveRefusal> {
        let Answer::Move(step) = self.apply(command) else { panic!("a step is answered as one") };
        step
    }

    fn import(&mut self, part: ImportPart) -> Result<MoveStep, MoveRefusal> {
        self.step(&Command::Import(Import { account: account(), part }))
    }

    fn account(&self) -> &Account {
        self.ledger.account(&account()).unwrap()
    }

    fn entries_after(&self, after: u64) -> Vec<minicbor::bytes::ByteVec> {
        self.account().entries_after(Sequence(after), &self.history).unwrap()
    }

    fn restart(&mut self) {
        self.ledger = Ledger::restore(&mut self.ledger.snapshot()).unwrap();
    }
}

fn region(name: &str) -> Region {
    Region::parse(name).unwrap()
}

fn charge(amount: u64) -> Operation {
    Operation::Charge(Charge {
        amount: credits(amount),
        allow_debt: true,
        reference: None,
        budgets: Box::default(),
    })
}

fn grant(amount: u64) -> Operation {
    Operation::Grant(Grant { source_ref: Some(format!("payment {amount}").into()), ..paid(amount) })
}

/// What the source has lived through: a grant that repays debt, one that had been made before, and a
/// refusal.
fn lived() -> [(&'static str, Operation); 6] {
    let policy = Policy { debt_limit: credits(50), ..Policy::default() };
    let open = Operation::Open(Open { home: region("eu"), policy, epoch: None });
    [
        ("open", open),
        ("a", charge(10)),
        ("b", charge(20)),
        ("c", grant(25)),
        ("d", grant(25)),
        ("e", charge(500)),
    ]
}

fn source() -> Group {
    let mut source = Group::default();
    lived().into_iter().for_each(|(key, operation)| drop(source.ask(key, operation)));
    source
}

#[test]
fn an_account_is_the_same_however_its_parts_come() {
    let mut source = source();
    let before: Vec<Outcome> =
        lived().into_iter().map(|(key, operation)| source.ask(key, operation)).collect();
    let early = source.account().clone();
    let stop = Departure { epoch: Epoch(1), to: region("us") };
    source.ask("stop", Operation::Stop(stop));
    let head = source.account().head();

    let mut there = Group::default();
    let bytes = source.entries_after(0);
    assert_eq!(there.import(ImportPart::Entries(bytes[1..].to_vec())), Err(MoveRefusal::NotHere));
    for end in 1..=bytes.len() {
        // One more each time, those before again, and a restart in between: also within an operation.
        there.import(ImportPart::Entries(bytes[..end].to_vec())).unwrap();
        there.restart();
    }
    let hole = MoveRefusal::Gap { head: head.sequence };
    let mut beyond = source.account().entries_after(Sequence(head.sequence.0 - 1), &source.history);
    let other: purser_ledger::Entry =
        purser_ledger::codec::decode(&beyond.as_mut().unwrap()[0]).unwrap();
    let other = purser_ledger::Entry { sequence: Sequence(head.sequence.0 + 2), ..other };
    let other = vec![purser_ledger::codec::encode(&other).into()];
    assert_eq!(there.import(ImportPart::Entries(other)), Err(hole));

    let end = Booked { sequence: head.sequence, hash: Some(head.hash) };
    let take_home = |head| {
        let (home, epoch, way) = (region("us"), Epoch(2), Way::Moved);
        Command::TakeHome(TakeHome { account: account(), home, epoch, way, head })
    };
    assert_eq!(there.step(&take_home(end)), Err(MoveRefusal::MemoryMissing));
    let memory = |since: Option<&Account>| -> Vec<_> {
        let account = source.account();
        account.entryless_decisions(since, &source.history).map(|it| it.unwrap()).collect()
    };
    assert_eq!((memory(None).len(), memory(Some(&early)).len()), (2, 0));
    let part = ImportPart::Memory { pairs: memory(None), complete_at: Some(head.sequence) };
    there.import(part.clone()).unwrap();
    there.import(part).unwrap();
    let elsewhere = Booked { hash: Some([1; 32]), ..end };
    let not_the_end = MoveRefusal::NotTheEnd { head: head.sequence };
    assert_eq!(there.step(&take_home(elsewhere)), Err(not_the_end));
    for _ in 0..2 {
        assert_eq!(there.step(&take_home(end)), Ok(MoveStep::AtHome { epoch: Epoch(2) }));
    }

    let again = lived().map(|(key, operation)| there.ask(key, operation));
    assert_eq!(again.to_vec(), before);
    assert_eq!(there.account().balance(), source.account().balance());
}

#[test]
fn a_group_knows_which_accounts_are_whole_with_it_and_since_when() {
    let (mut source, mut there) = (source(), Group::default());
    let ever = Residence::Here(Sequence::ZERO);
    let residences = |source: &Group, there: &Group| {
        [source, there].map(|group| group.ledger.residence(&account()))
    };
    assert_eq!(residences(&source, &there), [ever, Residence::Unknown]);
    there.import(ImportPart::Entries(source.entries_after(0))).unwrap();
    assert_eq!(residences(&source, &there), [ever, Residence::Elsewhere]);
    there.import(ImportPart::Abandon).unwrap();
    assert_eq!(residences(&source, &there), [ever, Residence::Elsewhere]);
    // A move that was given up is no break.
    let stop = Departure { epoch: Epoch(1), to: region("us") };
    source.ask("stop", Operation::Stop(stop));
    assert_eq!(residences(&source, &there)[0], Residence::Elsewhere);
    source.ask("stay", Operation::Stay(Stay { epoch: Epoch(2) })).result.unwrap();
    assert_eq!(residences(&source, &there)[0], ever);
    let stop = Departure { epoch: Epoch(2), to: region("us") };
    source.ask("stop again", Operation::Stop(stop)).result.unwrap();
    there.import(ImportPart::Entries(source.entries_after(0))).unwrap();
    let head = source.account().head();
    let pairs = source.account().entryless_decisions(None, &source.history);
    let pairs = pairs.map(|pair| pair.unwrap()).collect();
    there.import(ImportPart::Memory { pairs, complete_at: Some(head.sequence) }).unwrap();
    let (home, epoch) = (region("us"), Epoch(3));
    let head = Booked { sequence: head.sequence, hash: Some(head.hash) };
    let take = TakeHome { account: account(), home, epoch, way: Way::Moved, head };
    there.step(&Command::TakeHome(take)).unwrap();
    source.step(&Command::StepDown(StepDown { account: account(), home, epoch })).unwrap();
    let came = Residence::Here(head.sequence.next());
    assert_eq!(residences(&source, &there), [Residence::Elsewhere, came]);
    source.restart();
    assert_eq!(residences(&source, &there), [Residence::Elsewhere, came]);
}

#[test]
fn an_entry_that_does_not_follow_is_refused_and_changes_nothing() {
    let source = source();
    let bytes = source.entries_after(0);
    let mut there = Group::default();
    there.import(ImportPart::Entries(bytes[..2].to_vec())).unwrap();
    let digest = there.ledger.digest();
    let third: purser_ledger::Entry = purser_ledger::codec::decode(&bytes[2]).unwrap();
    let mut forged = third.clone();
    forged.balance.used = credits(1);
    let mut forked = third;
    forked.prev_hash = [7; 32];
    for (entry, expected) in [(forged, "its moves"), (forked, "continue")] {
        let entry = purser_ledger::codec::encode(&entry).into();
        let refusal = there.import(ImportPart::Entries(vec![entry])).unwrap_err();
        assert!(refusal.to_string().contains(expected), "{refusal}");
        assert_eq!(there.ledger.digest(), digest);
    }
}

#[test]
fn a_former_home_passes_on_what_it_had_decided_and_decides_what_is_new() {
    let mut former = source();
    let step_down = StepDown { account: account(), home: region("us"), epoch: Epoch(2) };
    former.step(&Command::StepDown(step_down)).unwrap();
    former.restart();
    let mut home = Group::default();
    home.ask(
        "open",
        Operation::Open(Open { home: region("us"), policy: Policy::default(), epoch: None }),
    );
    home.ask("grant", grant(100));
    home.ask("give", Operation::Allocate(Allocate::new(region("eu"), credits(40))));
    let owner = home.account().allocations().next().unwrap().owner;
    let voucher = home.account().voucher(owner).unwrap();
    let mut in_book = |key: &str, operation| {
        let key = Some(IdempotencyKey::parse(key).unwrap());
        let item = Item::new(Context { key, ..Context::default() }, operation);
        let command = Command::Account {
            account: account(),
            items: vec![item],
            generation: owner.generation,
        };
        former.apply(&command).into_outcomes().unwrap().pop().unwrap().result
    };
    in_book("accept", Operation::Accept(Box::new(voucher))).unwrap();
    // What was accepted, what was refused, and another call under a key of the time before.
    for (key, amount) in [("a", 10), ("e", 500), ("b", 1)] {
        assert_eq!(in_book(key, charge(amount)).unwrap_err(), Rejection::DecidedElsewhere);
    }
    in_book("new", charge(10)).unwrap();
    let again = Item::new(
        Context { key: Some(IdempotencyKey::parse("a").unwrap()), ..Context::default() },
        charge(10),
    );
    let kept = |at| former.ledger.is_passed_on(&account(), &again, at);
    let day = LogTime::ZERO.saturating_add(purser_types::Span::from_days(1));
    assert!(kept(LogTime::ZERO) && !kept(day), "for as long as keys are kept");
}

#[test]
fn what_is_answered_before_a_standby_has_heard_stays_within_the_limit() {
    let mut home = source();
    let mut known = Unacknowledged::none(home.account().head().sequence, credits(15));
    let mut charged = |amount, limit, known: &mut Unacknowledged| {
        let entry = home.ask(&format!("{amount} {limit}"), charge(amount)).result.unwrap().entry;
        known.note(&entry, credits(limit));
        entry
    };
    let first = charged(10, 15, &mut known);
    let second = charged(6, 15, &mut known);
    assert!(known.may_answer(&first) && !known.may_answer(&second));
    // A limit that is raised counts once the standby knows it, a lowered one at once.
    let third = charged(1, 40, &mut known);
    assert!(!known.may_answer(&third));
    known.acknowledge(second.sequence);
    assert!(known.has(first.sequence) && known.may_answer(&second) && known.may_answer(&third));
    known.acknowledge(third.sequence);
    let fourth = charged(7, 40, &mut known);
    assert!(known.may_answer(&fourth));
    charged(2, 5, &mut known);
    assert!(!known.may_answer(&fourth));
}
