//! How operators name an allocation: by its region, and what that means is found in the log.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use purser_ledger::scenario::MemoryHistory;
use purser_ledger::{
    AccountName, Allocate, Answer, Category, Command, Confirm, Context, Fact, Grant, Item, Ledger,
    Open, Operation, Outcome, Policy, Rejection, SetAllocation, TakeBack, WriteOff,
};
use purser_types::{
    Credits, Generation, IdempotencyKey, LogTime, OperationId, Owner, Region, TenantId, Unit,
};

#[derive(Default)]
struct Home {
    ledger: Ledger,
    history: MemoryHistory,
}

impl Home {
    fn ask(&mut self, key: &str, operation: Operation) -> Outcome {
        let key = Some(IdempotencyKey::parse(key).unwrap());
        let item = Item::new(Context { key, ..Context::default() }, operation);
        let command = Command::at_home(account(), vec![item]);
        let id = OperationId::default();
        let answer =
            self.ledger.apply_command(&command, LogTime::ZERO, id, &mut self.history).unwrap();
        let Answer::Account(mut outcomes) = answer else { unreachable!("a command of an account") };
        outcomes.pop().unwrap()
    }

    fn confirm(&self) -> Confirm {
        Confirm(self.ledger.account(&account()).unwrap().head().sequence)
    }
}

fn account() -> AccountName {
    AccountName { tenant: TenantId::parse("acme").unwrap(), unit: Unit::credits() }
}

fn region(name: &str) -> Region {
    Region::parse(name).unwrap()
}

/// The generation of the allocation that an outcome is about.
fn meant(outcome: &Outcome) -> u64 {
    match &outcome.result.as_ref().unwrap().entry.fact {
        Fact::Allocated(allocation)
        | Fact::AllocationSet(allocation)
        | Fact::TakenBack(allocation)
        | Fact::WrittenOff(allocation) => allocation.owner.generation.0,
        other => unreachable!("{other:?} is about no allocation"),
    }
}

#[test]
fn a_repeat_names_the_same_allocation_when_another_has_become_the_newest() {
    let mut home = Home::default();
    let grant = Grant {
        amount: Credits::from_u64(100).unwrap(),
        category: Category::Paid,
        priority: Grant::PRIORITY_DEFAULT,
        effective_at: None,
        expires_at: None,
        source_ref: None,
    };
    let open = Open { home: region("us"), policy: Policy::default(), epoch: None };
    home.ask("open", Operation::Open(open));
    home.ask("grant", Operation::Grant(grant));
    let forty = Credits::from_u64(40).unwrap();
    let allocate = Operation::Allocate(Allocate::new(region("eu"), forty));
    let newest = Owner { region: region("eu"), generation: Generation::HOME };
    let recall = |keep| {
        let keep = Some(Credits::from_u64(keep).unwrap());
        Operation::SetAllocation(SetAllocation { keep, ..SetAllocation::of(newest) })
    };
    let refused = home.ask("early", recall(0)).result;
    assert_eq!(refused.unwrap_err(), Rejection::AllocationUnknown);

    assert_eq!(meant(&home.ask("first", allocate.clone())), 1);
    assert_eq!(meant(&home.ask("recall", recall(7))), 1);
    let take_back = TakeBack { owner: newest, forced: Some(home.confirm()) };
    home.ask("take", Operation::TakeBack(take_back)).result.unwrap();
    // What was taken back is not closed, and can still be written off when a newer one is there, by
    // its own generation.
    assert_eq!(meant(&home.ask("second", allocate)), 2);
    let first = Owner { region: region("eu"), generation: Generation(1) };
    let write_off = |owner, confirm| Operation::WriteOff(WriteOff { owner, confirm });
    let open = home.ask("wrong", write_off(newest, home.confirm())).result;
    assert_eq!(open.unwrap_err(), Rejection::AllocationOpen);
    assert_eq!(meant(&home.ask("right", write_off(first, home.confirm()))), 1);

    let again = home.ask("recall", recall(7));
    assert_eq!((meant(&again), again.replayed), (1, true));
    assert_eq!(home.ask("recall", recall(8)).result.unwrap_err(), Rejection::KeyReused);
    assert_eq!(meant(&home.ask("new", recall(7))), 2);
}
