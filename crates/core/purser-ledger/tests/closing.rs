//! What is asked about a region's holds once their allocation is closed: home decides it, and what the
//! region had decided stays decided.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use purser_ledger::scenario::MemoryHistory;
use purser_ledger::{
    Allocate, Authorize, Capture, Charge, Command, Context, Extend, HoldNumber, IfExpired, Item,
    Ledger, Mode, OnExpiry, Open, Operation, Outcome, Policy, Rejection, Release, SetAllocation,
    TakeBack, WriteOff, invariants,
};
use purser_types::{
    Credits, Generation, IdempotencyKey, LogTime, OperationId, Owner, Region, Span,
};

use self::support::{account, credits, paid};

/// A group that plays one part.
#[derive(Default)]
struct Group {
    ledger: Ledger,
    history: MemoryHistory,
    now: LogTime,
}

impl Group {
    fn ask(&mut self, generation: Generation, key: &str, operation: Operation) -> Outcome {
        let key = Some(key).filter(|key| !key.is_empty());
        let key = key.map(|key| IdempotencyKey::parse(key).unwrap());
        let items = vec![Item::new(Context { key, ..Context::default() }, operation)];
        let command = Command::Account { account: account(), items, generation };
        let id = OperationId::default();
        let answer = self.ledger.apply_command(&command, self.now, id, &mut self.history).unwrap();
        invariants::check_ledger(&self.ledger).unwrap();
        answer.into_outcomes().unwrap().pop().unwrap()
    }

    fn at_home(&mut self, key: &str, operation: Operation) -> Outcome {
        self.ask(Generation::HOME, key, operation)
    }
}

fn at(seconds: u64) -> LogTime {
    LogTime::ZERO.saturating_add(Span::from_secs(seconds))
}

fn eu() -> Owner {
    Owner { region: Region::parse("eu").unwrap(), generation: Generation(1) }
}

fn authorize(amount: u64) -> Operation {
    let ttl = Span::from_secs(60);
    Operation::Authorize(Authorize {
        amount: credits(amount),
        ttl,
        reference: None,
        budgets: Box::default(),
    })
}

fn capture(hold: HoldNumber, away: Option<Owner>) -> Operation {
    let (amount, if_expired) = (Some(credits(4)), IfExpired::Charge);
    Operation::Capture(Capture {
        hold,
        amount,
        is_final: true,
        allow_debt: false,
        if_expired,
        away,
    })
}

fn release(hold: HoldNumber, away: Option<Owner>) -> Operation {
    Operation::Release(Release { hold, away })
}

/// Home and a region that was given 40: both at the beginning.
fn home_and_region() -> (Group, Group) {
    let (mut home, mut region) = (Group::default(), Group::default());
    let policy =
        Policy { takeback_cap: credits(100), on_expiry: OnExpiry::TakeBack, ..Policy::default() };
    let open = Open { home: Region::parse("us").unwrap(), policy, epoch: None };
    let grant = paid(100);
    let allocate = Allocate::new(eu().region, credits(40));
    let begun = [Operation::Open(open), Operation::Grant(grant), Operation::Allocate(allocate)];
    for operation in begun {
        home.at_home("", operation).result.unwrap();
    }
    tell(&home, &mut region);
    (home, region)
}

fn tell(home: &Group, region: &mut Group) {
    let voucher = home.ledger.account(&account()).unwrap().voucher(eu()).unwrap();
    region.ask(eu().generation, "", Operation::Accept(Box::new(voucher))).result.unwrap();
}

fn report(region: &Group, home: &mut Group) {
    let book = region.ledger.book(&account(), eu().generation).unwrap();
    let allocation = home.ledger.account(&account()).unwrap().allocations().next().cloned();
    let booked = allocation.unwrap().booked.sequence;
    let report = book.report(booked, &region.history).unwrap().unwrap();
    home.at_home("", Operation::Settle(report)).result.unwrap();
}

/// Three holds: one that is captured, one that is released and one that runs out.
fn three_holds(region: &mut Group) -> ([HoldNumber; 3], [Outcome; 2]) {
    let holds = ["a", "b", "c"].map(|key| {
        let made = region.ask(eu().generation, key, authorize(5)).result.unwrap();
        made.entry.fact.hold().unwrap().number
    });
    let captured = region.ask(eu().generation, "capture", capture(holds[0], None));
    let released = region.ask(eu().generation, "release", release(holds[1], None));
    (holds, [captured, released])
}

#[test]
fn what_a_region_had_decided_stays_decided_when_its_allocation_was_taken_back_and_closed() {
    let (mut home, mut region) = home_and_region();
    let ([captured, released, expired], before) = three_holds(&mut region);
    let take_back = TakeBack { owner: eu(), forced: None };
    home.at_home("", Operation::TakeBack(take_back)).result.unwrap();
    (home.now, region.now) = (at(100), at(100));
    tell(&home, &mut region);
    let give = purser_ledger::Return::free(Credits::ZERO, 0);
    region.ask(eu().generation, "", Operation::Return(give)).result.unwrap();
    region.ask(eu().generation, "", Operation::Finish).result.unwrap();
    report(&region, &mut home);
    assert!(home.ledger.account(&account()).unwrap().has_closed(eu()));

    // Repeats find the region's answers, and its keys keep what was asked under them.
    for ((key, operation), before) in
        [("capture", capture(captured, Some(eu()))), ("release", release(released, Some(eu())))]
            .into_iter()
            .zip(before)
    {
        let again = home.at_home(key, operation);
        assert!(again.replayed);
        assert_eq!(again.result, before.result);
    }
    let other = home.at_home("capture", release(captured, Some(eu()))).result;
    assert_eq!(other.unwrap_err(), Rejection::KeyReused);

    // What is new home decides as the region would.
    let new = home.at_home("new", capture(captured, Some(eu()))).result.unwrap_err();
    assert!(matches!(new, Rejection::AlreadyCaptured { .. }), "{new}");
    let new = home.at_home("newer", capture(released, Some(eu()))).result.unwrap_err();
    assert!(matches!(new, Rejection::AlreadyReleased { .. }), "{new}");
    let extend = Extend { hold: expired, until: at(900), away: Some(eu()) };
    let new = home.at_home("extend", Operation::Extend(extend)).result.unwrap_err();
    assert_eq!(new, Rejection::HoldExpired { expired_at: at(60) });

    // Late work is charged to the hold, once, and can be refunded.
    let used = |home: &Group| home.ledger.account(&account()).unwrap().balance().used.get();
    let before = used(&home);
    let late = home.at_home("late", capture(expired, Some(eu()))).result.unwrap();
    assert_eq!((late.entry.fact.kind(), used(&home) - before), ("late_capture", 4));
    let twice = home.at_home("twice", capture(expired, Some(eu()))).result.unwrap_err();
    assert!(matches!(twice, Rejection::AlreadyCaptured { .. }), "{twice}");
    assert!(home.at_home("late", capture(expired, Some(eu()))).replayed);

    // Home's own hold of the same number is another one.
    let own = home.at_home("own", authorize(1)).result.unwrap().entry.sequence;
    let none = home.at_home("none", capture(HoldNumber(own), Some(eu()))).result.unwrap_err();
    assert_eq!(none, Rejection::HoldNotFound);
}

#[test]
fn a_hold_that_was_open_when_its_allocation_was_written_off_has_ended_with_it() {
    let (mut home, mut region) = home_and_region();
    let made = region.ask(eu().generation, "a", authorize(5)).result.unwrap();
    let hold = made.entry.fact.hold().unwrap().number;
    let charge =
        Charge { amount: credits(3), allow_debt: false, reference: None, budgets: Box::default() };
    region.ask(eu().generation, "b", Operation::Charge(charge)).result.unwrap();
    report(&region, &mut home);
    let ending = SetAllocation { mode: Some(Mode::Ending), ..SetAllocation::of(eu()) };
    home.at_home("", Operation::SetAllocation(ending)).result.unwrap();
    let confirm = |home: &Group| {
        purser_ledger::Confirm(home.ledger.account(&account()).unwrap().head().sequence)
    };
    let take_back = TakeBack { owner: eu(), forced: Some(confirm(&home)) };
    home.at_home("", Operation::TakeBack(take_back)).result.unwrap();
    let write_off = WriteOff { owner: eu(), confirm: confirm(&home) };
    home.at_home("", Operation::WriteOff(write_off)).result.unwrap();

    let none = home.at_home("release", release(hold, Some(eu()))).result.unwrap_err();
    assert_eq!(none, Rejection::HoldExpired { expired_at: LogTime::ZERO });
    let late = home.at_home("late", capture(hold, Some(eu()))).result.unwrap();
    let balance = home.ledger.account(&account()).unwrap().balance();
    assert_eq!((late.entry.fact.kind(), balance.used.get()), ("late_capture", 7));
}
