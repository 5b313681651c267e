//! What home refuses of a report: entries that do not say what their moves come to.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use purser_ledger::scenario::MemoryHistory;
use purser_ledger::{
    Allocate, Answer, Charge, Command, Context, Entry, Item, Ledger, Mode, Open, Operation,
    Outcome, Policy, Rejection, Report, codec,
};
use purser_types::{Generation, LogTime, OperationId, Owner, Region};

use self::support::{account, credits, paid};

/// A group that plays one part.
#[derive(Default)]
struct Group {
    ledger: Ledger,
    history: MemoryHistory,
}

impl Group {
    fn ask(&mut self, generation: Generation, operation: Operation) -> Outcome {
        let items = vec![Item::new(Context::default(), operation)];
        let command = Command::Account { account: account(), items, generation };
        let id = OperationId::default();
        let answer =
            self.ledger.apply_command(&command, LogTime::ZERO, id, &mut self.history).unwrap();
        let Answer::Account(mut outcomes) = answer else { unreachable!("a command of an account") };
        outcomes.pop().unwrap()
    }
}

/// Home, and the report of a region that was given 40 and has charged 10.
fn reported() -> (Group, Report) {
    let (mut home, mut region) = (Group::default(), Group::default());
    let eu = Owner { region: Region::parse("eu").unwrap(), generation: Generation(1) };
    let open = Open { home: Region::parse("us").unwrap(), policy: Policy::default(), epoch: None };
    let grant = paid(100);
    let allocate = Allocate::new(eu.region, credits(40));
    for operation in [Operation::Open(open), Operation::Grant(grant), Operation::Allocate(allocate)]
    {
        assert!(home.ask(Generation::HOME, operation).result.is_ok());
    }
    let voucher = home.ledger.account(&account()).unwrap().voucher(eu).unwrap();
    assert_eq!(voucher.mode, Mode::Local);
    let charge =
        Charge { amount: credits(10), allow_debt: false, reference: None, budgets: Box::default() };
    for operation in [Operation::Accept(Box::new(voucher)), Operation::Charge(charge)] {
        assert!(region.ask(eu.generation, operation).result.is_ok());
    }
    let book = region.ledger.book(&account(), eu.generation).unwrap();
    let report = book.report(Default::default(), &region.history).unwrap().unwrap();
    (home, report)
}

#[track_caller]
fn check_refused(forge: impl FnOnce(&mut Entry)) {
    let (mut home, mut report) = reported();
    let last = report.entries.last_mut().unwrap();
    let mut entry: Entry = codec::decode(last).unwrap();
    forge(&mut entry);
    *last = codec::encode(&entry).into();
    let before = home.ledger.digest();
    let outcome = home.ask(Generation::HOME, Operation::Settle(report));
    let forked = Rejection::ReportForked { sequence: entry.sequence };
    assert_eq!(outcome.result.map(|_| ()), Err(forked));
    assert_eq!(home.ledger.digest(), before, "nothing of a refused report is booked");
}

#[test]
fn a_report_whose_figures_do_not_follow_from_its_moves_is_refused_whole() {
    let (mut home, report) = reported();
    assert!(home.ask(Generation::HOME, Operation::Settle(report)).result.is_ok());

    check_refused(|entry| entry.balance.used = credits(11));
    check_refused(|entry| entry.balance.returned = credits(1));
    check_refused(|entry| entry.moves.clear());
    check_refused(|entry| entry.prev_hash = [0; 32]);
}
