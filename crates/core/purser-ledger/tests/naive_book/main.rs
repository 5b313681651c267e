//! The ledger against a second, naive book that shares no code with it, and against itself.
//!
//! A failing sequence is shrunk, printed, and kept in `tests/proptest-regressions/`; later runs try
//! it first.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod asking;
mod book;
mod real;
mod telling;

use std::collections::BTreeMap;
use std::ops::Bound;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use purser_ledger::audit::Audit;
use purser_ledger::scenario::MemoryHistory;
use purser_ledger::{
    self as ledger, Answer, Command, Entry, HoldNumber, HoldState, Ledger, Lot, LotNumber, Record,
    codec, fold_lots,
};
use purser_types::{LogTime, Machine, OperationId, Position, Stamped};

use asking::{Key, Policy, Request, Step};
use book::{Book, Hold, LotParts};
use real::{Logged, Real};
use telling::Told;

/// How long a sequence is, and how many are tried: a minute in a debug build on two cores.
const STEPS: usize = 80;
const CASES: u32 = 2_000;

fn config(cases: u32) -> ProptestConfig {
    let regressions =
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/proptest-regressions/naive_book.txt");
    let persistence = FileFailurePersistence::Direct(regressions);
    ProptestConfig {
        failure_persistence: Some(Box::new(persistence)),
        ..ProptestConfig::with_cases(cases)
    }
}

proptest! {
    #![proptest_config(config(CASES))]

    /// After every command: the same answer, balance, lots and holds.
    #[test]
    fn the_ledger_agrees_with_the_naive_book(policy in asking::policy(), steps in asking::steps(STEPS)) {
        let mut world = World::new(policy);
        for step in &steps {
            world.take_and_compare(step);
        }
        world.audit();
        world.fold();
    }
}

/// Both books, and the time.
struct World {
    book: Book,
    real: Real,
    now: u64,
    fresh_keys: u32,
    /// What was asked, in order.
    asked: Vec<Vec<(u32, Request)>>,
}

/// Fresh keys start beyond the shared ones.
const FRESH_KEYS: u32 = 1_000;

impl World {
    fn new(policy: Policy) -> Self {
        Self {
            book: Book::new(policy),
            real: Real::open(policy),
            now: 0,
            fresh_keys: FRESH_KEYS,
            asked: Vec::new(),
        }
    }

    /// Takes a step; tells what was asked and what both books answered.
    fn take(&mut self, step: &Step) -> Option<(Vec<Told>, Vec<Told>)> {
        let asked = match step {
            Step::Pass(seconds) => {
                self.now += seconds;
                self.book.pass_to(self.now);
                return None;
            }
            Step::Ask(drafts) => {
                let mut asked = Vec::new();
                for (key, draft) in drafts {
                    asked.push((self.key(*key), draft.resolve(&self.book, self.now)));
                }
                asked
            }
            Step::Again(back) => {
                let place = self.asked.len().checked_sub(1 + usize::from(*back))?;
                self.asked[place].clone()
            }
        };
        self.book.pass_to(self.now);
        let expected = self.book.ask(&asked);
        let actual = self.real.ask(&asked, real::at(self.now));
        self.asked.push(asked);
        Some((actual, expected))
    }

    fn take_and_compare(&mut self, step: &Step) {
        if let Some((actual, expected)) = self.take(step) {
            assert_eq!(actual, expected, "at {}: {:?}", self.now, self.asked.last());
        }
        self.compare();
    }

    fn key(&mut self, key: Key) -> u32 {
        match key {
            Key::Shared(key) => u32::from(key),
            Key::Fresh => {
                self.fresh_keys += 1;
                self.fresh_keys
            }
        }
    }

    /// Everything that both books show now.
    fn compare(&self) {
        let view = self.real.view(real::at(self.now));
        let account = view.account();
        assert_eq!(real::balance(account.balance()), self.book.balance());
        assert_eq!(account.head().sequence.0, self.book.entries);
        let lots = account.lots_from(Bound::Unbounded).map(|(_, lot)| real::naive_lot(lot));
        let expected = self.book.lots.iter().map(|lot| (lot.parts, lot.status()));
        assert_eq!(lots.collect::<Vec<_>>(), expected.collect::<Vec<(LotParts, _)>>());
        let holds: Vec<Hold> = self.book.holds.iter().map(|hold| hold.clone().tidy()).collect();
        assert_eq!(self.real.holds(&view), holds);
    }

    /// The entries alone explain the ledger.
    fn audit(&self) {
        let mut audit = Audit::default();
        for (position, record) in self.real.history.records_from(Position::default()) {
            audit.fold(position, record).unwrap();
        }
        assert_eq!(audit.compare(&self.real.ledger), []);
    }

    /// Entry by entry, with no more at hand than each touches: the same lots and live holds.
    fn fold(&self) {
        let mut lots: BTreeMap<LotNumber, Lot> = BTreeMap::new();
        let mut holds: BTreeMap<HoldNumber, ledger::Hold> = BTreeMap::new();
        for (position, record) in self.real.history.records_from(Position::default()) {
            let record: Record = codec::decode(record).unwrap();
            let entry = record.entry(position).unwrap().entry;
            let known = entry.lots().into_iter().filter_map(|lot| lots.get_key_value(&lot));
            let mut touched = known.map(|(number, lot)| (*number, lot.clone())).collect();
            fold_lots(&mut touched, &entry).unwrap();
            lots.extend(touched);
            holds.extend(entry.holds().into_iter().map(|after| (after.hold.number, after.hold)));
        }
        holds.retain(|_, hold| hold.state == HoldState::Active);
        let account = self.real.ledger.account(&real::name()).unwrap();
        assert!(account.lots_from(Bound::Unbounded).eq(&lots));
        assert!(account.holds_from(Bound::Unbounded).eq(holds.values()));
    }
}

proptest! {
    #![proptest_config(config(CASES / 4))]

    /// The same commands, with sweeps in between and without: the same answers, and in the end the
    /// same account.
    #[test]
    fn sweeps_change_no_answer(
        policy in asking::forgetful_policy(),
        steps in asking::steps(STEPS),
        sweeps in prop::collection::vec(0..4_u64, STEPS),
    ) {
        let world = World::after(policy, &steps);
        let mut swept = Replica::default();
        let mut before = LogTime::ZERO;
        for (logged, sweeps) in world.real.log.iter().zip(sweeps.iter().cycle()) {
            for sweep in 0..*sweeps {
                swept.sweep(between(before, logged.at, sweep, *sweeps));
            }
            before = logged.at;
            prop_assert_eq!(facts(&swept.apply(logged)), facts(&logged.answer));
        }
        let now = real::at(world.now);
        swept.sweep(now);
        let shown = world.real.view(now);
        let account = swept.ledger.account(&real::name()).unwrap();
        prop_assert_eq!(account.balance(), shown.account().balance());
        prop_assert!(account.lots_from(Bound::Unbounded).eq(shown.account().lots_from(Bound::Unbounded)));
        prop_assert!(account.holds_from(Bound::Unbounded).eq(shown.account().holds_from(Bound::Unbounded)));
    }

    /// A replica that is restored from its snapshot at any moments answers like one that is not,
    /// writes the same bytes, and ends in the same state.
    #[test]
    fn restarts_change_nothing(
        policy in asking::forgetful_policy(),
        steps in asking::steps(STEPS),
        restarts in prop::collection::vec(prop::bool::weighted(0.2), STEPS),
    ) {
        let world = World::after(policy, &steps);
        let mut replica = Replica::default();
        for (logged, restarts) in world.real.log.iter().zip(restarts.iter().cycle()) {
            if *restarts {
                replica.restart();
            }
            prop_assert_eq!(&replica.apply(logged), &logged.answer);
        }
        prop_assert_eq!(replica.ledger.digest(), world.real.ledger.digest());
        prop_assert_eq!(&replica.history, &world.real.history);
    }
}

impl World {
    /// The world after all steps.
    fn after(policy: Policy, steps: &[Step]) -> Self {
        let mut world = Self::new(policy);
        for step in steps {
            world.take(step);
        }
        world
    }
}

/// Another replica, which applies what the log carries.
#[derive(Default)]
struct Replica {
    ledger: Ledger,
    history: MemoryHistory,
    index: u64,
}

impl Replica {
    fn apply(&mut self, logged: &Logged) -> Answer {
        self.index += 1;
        let stamped =
            Stamped { index: self.index, ordinal: 0, at: logged.at, command: &logged.command };
        self.ledger.apply(stamped, &mut self.history).unwrap()
    }

    fn sweep(&mut self, at: LogTime) {
        self.index += 1;
        let command = codec::encode(&Command::Sweep { accounts_max: 10 });
        let stamped = Stamped { index: self.index, ordinal: 0, at, command: &command };
        self.ledger.apply(stamped, &mut self.history).unwrap();
    }

    fn restart(&mut self) {
        self.ledger = Ledger::restore(&mut self.ledger.snapshot()).unwrap();
    }
}

/// The `part`-th of `parts` instants between two, the last one included.
fn between(from: LogTime, to: LogTime, part: u64, parts: u64) -> LogTime {
    let (from, to) = (from.as_unix_micros(), to.as_unix_micros());
    LogTime::from_unix_micros(from + (to - from) * (part + 1) / parts).unwrap()
}

/// An answer without what says at which place in the log it was given.
fn facts(answer: &Answer) -> Answer {
    let mut answer = answer.clone();
    let Answer::Account(outcomes) = &mut answer else { return answer };
    for outcome in outcomes {
        if let Ok(receipt) = &mut outcome.result {
            let entry = receipt.entry.clone();
            receipt.entry =
                Entry { operation: OperationId::default(), prev_hash: [0; 32], ..entry };
        }
    }
    answer
}
