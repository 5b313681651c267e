//! What comes next of an account, for whoever takes it over.
//!
//! Entries come first. What was refused under keys has no entry, and an account may have much of it: so
//! a state of the account is kept aside and copied bit by bit, and after that only what is new since. A
//! last state is read once the account has stopped, when nothing new can come.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use purser_ledger::{Account, AccountName, ImportPart, KeyMemory, codec};
use purser_types::{HistoryError, HistoryReader, Sequence};

use super::messages::{MemoryPlace, Part, Place};

/// The most parts of either kind in one answer: a megabyte in all, so that it arrives in time over a slow
/// link too.
const PARTS_MAX: usize = 4;

/// The most bytes of decisions in one part, as for entries.
const PART_BYTES: usize = 256 << 10;

/// A state that nobody has asked for so long is let go; whoever asks later begins anew.
const KEPT_FOR: Duration = Duration::from_secs(600);

/// States of accounts that are being copied.
pub(super) struct States {
    kept: Mutex<Kept>,
}

struct Kept {
    /// The last number that was given out. Begins somewhere by chance, so that no number of another
    /// leader, or of an earlier life of this one, means anything here.
    last: u64,
    states: BTreeMap<(AccountName, u64), State>,
}

#[derive(Clone)]
struct State {
    account: Arc<Account>,
    used: Instant,
}

/// What to copy of an account's memory.
struct Copy {
    place: MemoryPlace,
    state: Arc<Account>,
    /// All that this one knew is there.
    since: Option<Arc<Account>>,
}

impl States {
    /// None yet. Fails without randomness from the system.
    pub(super) fn new() -> Result<Self, getrandom::Error> {
        let last = getrandom::u64()?;
        Ok(Self { kept: Mutex::new(Kept { last, states: BTreeMap::new() }) })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What comes after `place` of an account. Reads its history.
    pub(super) fn next_part(
        &self,
        account: &Arc<Account>,
        place: Place,
        history: &dyn HistoryReader,
    ) -> Result<Part, HistoryError> {
        let mut parts = Vec::new();
        let mut after = place.after;
        while parts.len() < PARTS_MAX {
            let entries = account.entries_after(after, history)?;
            if entries.is_empty() {
                break;
            }
            let count = u64::try_from(entries.len()).unwrap_or(u64::MAX);
            after = Sequence(after.0.saturating_add(count));
            parts.push(ImportPart::Entries(entries));
        }
        // What is remembered names entries, which must be there by then.
        if after < account.head().sequence || parts.len() == PARTS_MAX {
            return Ok(Part { parts, memory: place.memory, is_all: false });
        }
        let copy = self.copy_of(account, place.memory);
        let (memory, place, is_all) = copy.read(PARTS_MAX - parts.len(), history)?;
        parts.extend(memory);
        if is_all {
            self.let_go(account.name(), place.whole);
        }
        Ok(Part { parts, memory: place, is_all })
    }

    fn copy_of(&self, account: &Arc<Account>, place: MemoryPlace) -> Copy {
        let now = Instant::now();
        let mut kept = self.kept();
        kept.states.retain(|_, state| now.duration_since(state.used) < KEPT_FOR);
        let mut state = |number: u64| {
            let state = kept.states.get_mut(&(account.name().clone(), number))?;
            state.used = now;
            Some(Arc::clone(&state.account))
        };
        let since = state(place.whole);
        let is_known = place.whole == 0 || since.is_some();
        if is_known && let Some(state) = state(place.copying) {
            return Copy { place, state, since };
        }
        // Zero stands for none.
        kept.last = kept.last.wrapping_add(1).max(1);
        let number = kept.last;
        let state = State { account: Arc::clone(account), used: now };
        kept.states.insert((account.name().clone(), number), state);
        let whole = if since.is_some() { place.whole } else { 0 };
        let place = MemoryPlace { whole, copying: number, count: 0 };
        Copy { place, state: Arc::clone(account), since }
    }

    /// Lets all states of an account go but the one that is there as a whole.
    pub(super) fn let_go(&self, account: &AccountName, whole: u64) {
        self.kept().states.retain(|(name, number), _| name != account || *number == whole);
    }
}

impl Copy {
    /// The next parts, where that leads, and whether it is all of this state.
    fn read(
        self,
        parts_max: usize,
        history: &dyn HistoryReader,
    ) -> Result<(Vec<ImportPart>, MemoryPlace, bool), HistoryError> {
        let Self { place, state, since } = self;
        let skipped = usize::try_from(place.count).unwrap_or(usize::MAX);
        let mut decisions =
            state.entryless_decisions(since.as_deref(), history).skip(skipped).peekable();
        let mut parts = Vec::new();
        let mut count = place.count;
        loop {
            let mut pairs: Vec<KeyMemory> = Vec::new();
            let mut bytes = 0_usize;
            while pairs.len() < ImportPart::COUNT_MAX && bytes < PART_BYTES {
                let Some(decision) = decisions.next().transpose()? else { break };
                bytes += codec::encode(&decision).len();
                pairs.push(decision);
                count = count.saturating_add(1);
            }
            let is_last = decisions.peek().is_none();
            let complete_at = is_last.then(|| state.head().sequence);
            parts.push(ImportPart::Memory { pairs, complete_at });
            if is_last {
                let place = MemoryPlace { whole: place.copying, copying: 0, count: 0 };
                return Ok((parts, place, true));
            }
            if parts.len() >= parts_max {
                return Ok((parts, MemoryPlace { count, ..place }, false));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use purser_ledger::{
        Answer, Authorize, Booked, Command, Context, Departure, Import, Item, Ledger, MoveStep,
        Open, Operation, Policy, Rejection, TakeHome, Way,
    };
    use purser_types::{
        Credits, Epoch, Generation, History, IdempotencyKey, LogTime, OperationId, Position,
        Region, Span, TenantId, Unit,
    };

    use super::*;

    #[derive(Default)]
    struct Memory(Vec<Vec<u8>>);

    impl HistoryReader for Memory {
        fn read(&self, position: Position) -> Result<Vec<u8>, HistoryError> {
            let record = usize::try_from(position.0).ok().and_then(|place| self.0.get(place));
            record.cloned().ok_or(HistoryError::NoRecord(position))
        }
    }

    impl History for Memory {
        fn append(&mut self, record: &[u8]) -> Position {
            self.0.push(record.to_vec());
            Position(u64::try_from(self.0.len() - 1).unwrap())
        }
    }

    /// A group without consensus.
    #[derive(Default)]
    struct Site {
        ledger: Ledger,
        history: Memory,
    }

    impl Site {
        fn put(&mut self, command: &Command) -> Answer {
            let now = LogTime::from_unix_micros(1_000_000).unwrap();
            let operation = OperationId::default();
            self.ledger.apply_command(command, now, operation, &mut self.history).unwrap()
        }

        fn ask(&mut self, key: &str, operation: Operation) -> Result<(), Rejection> {
            let key = Some(IdempotencyKey::parse(key).unwrap());
            let item = Item::new(Context { key, ..Context::default() }, operation);
            let answer = self.put(&Command::at_home(name(), vec![item]));
            answer.into_outcomes().unwrap().pop().unwrap().result.map(drop)
        }

        /// Is refused: there are no credits.
        fn refuse(&mut self, key: &str) {
            let amount = Credits::from_u64(1).unwrap();
            let asked = Authorize {
                amount,
                ttl: Span::from_secs(60),
                reference: None,
                budgets: Box::default(),
            };
            let refused = self.ask(key, Operation::Authorize(asked));
            assert!(matches!(refused, Err(Rejection::InsufficientCredits { .. })), "{refused:?}");
        }

        fn knows(&self, key: &str) -> bool {
            let now = LogTime::from_unix_micros(1_000_000).unwrap();
            let account = self.ledger.account(&name()).unwrap();
            account.knows_key(&IdempotencyKey::parse(key).unwrap(), now)
        }
    }

    fn name() -> AccountName {
        AccountName { tenant: TenantId::parse("acme").unwrap(), unit: Unit::credits() }
    }

    fn region(name: &str) -> Region {
        Region::parse(name).unwrap()
    }

    /// Copies until all is there; gives how many steps that took.
    fn copy(states: &States, from: &Site, to: &mut Site, place: &mut Place) -> usize {
        for steps in 1.. {
            let account = from.ledger.account(&name()).unwrap();
            let part = states.next_part(account, *place, &from.history).unwrap();
            for part in part.parts {
                let answer = to.put(&Command::Import(Import { account: name(), part }));
                let Answer::Move(Ok(MoveStep::Imported(progress))) = answer else {
                    panic!("a part is refused: {answer:?}")
                };
                place.after = progress.head.sequence;
            }
            place.memory = part.memory;
            if part.is_all {
                return steps;
            }
        }
        unreachable!("the steps do not end")
    }

    #[test]
    fn refusals_are_copied_bit_by_bit_ahead_and_then_what_is_new() {
        let (mut us, mut eu) = (Site::default(), Site::default());
        let open = Open { home: region("us"), policy: Policy::default(), epoch: None };
        us.ask("open", Operation::Open(open)).unwrap();
        let first = PARTS_MAX * ImportPart::COUNT_MAX + 100;
        (0..first).for_each(|number| us.refuse(&format!("first-{number}")));
        let states = States::new().unwrap();
        let mut place = Place::default();
        assert_eq!(copy(&states, &us, &mut eu, &mut place), 2);
        us.refuse("second");
        let departure = Departure { epoch: Epoch(1), to: region("eu") };
        us.ask("stop", Operation::Stop(departure)).unwrap();
        assert_eq!(copy(&states, &us, &mut eu, &mut place), 1, "only what is new");
        let head = us.ledger.account(&name()).unwrap().head();
        let take = TakeHome {
            account: name(),
            home: region("eu"),
            epoch: Epoch(2),
            way: Way::Moved,
            head: Booked { sequence: head.sequence, hash: Some(head.hash) },
        };
        let answer = eu.put(&Command::TakeHome(take));
        assert_eq!(answer, Answer::Move(Ok(MoveStep::AtHome { epoch: Epoch(2) })));
        assert!(eu.ledger.book(&name(), Generation::HOME).is_some());
        let keys = (0..first).map(|number| format!("first-{number}"));
        assert!(keys.chain(["second".to_owned()]).all(|key| eu.knows(&key)));
        assert!(!eu.knows("third"));
    }

    #[test]
    fn another_leader_begins_the_memory_anew() {
        let (mut us, mut eu) = (Site::default(), Site::default());
        let open = Open { home: region("us"), policy: Policy::default(), epoch: None };
        us.ask("open", Operation::Open(open)).unwrap();
        us.refuse("first");
        let mut place = Place::default();
        copy(&States::new().unwrap(), &us, &mut eu, &mut place);
        us.refuse("second");
        let account = us.ledger.account(&name()).unwrap();
        let other = States::new().unwrap();
        let part = other.next_part(account, place, &us.history).unwrap();
        let Some(ImportPart::Memory { pairs, complete_at }) = part.parts.last() else {
            panic!("no memory")
        };
        assert_eq!((pairs.len(), *complete_at), (2, Some(account.head().sequence)));
    }
}
