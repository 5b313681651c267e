//! One group's ledger, as a node hosts it: commands go in, a history grows.

use std::sync::Arc;

use purser_ledger::audit::{Audit, Finding};
use purser_ledger::{
    Account, AccountName, Answer, Command, Context, Digest32, Item, Ledger, MoveRefusal, MoveStep,
    Operation, Outcome, PassedOn, codec, invariants,
};
use purser_types::{
    Generation, History, HistoryError, HistoryReader, IdempotencyKey, LogTime, Machine, Position,
    Span, Stamped,
};

/// A ledger, its history, and its clock.
#[derive(Debug, Clone, Default)]
pub struct Site {
    ledger: Ledger,
    history: SharedHistory,
    index: u64,
    /// What is synced, if that is not all.
    synced: Option<Box<Synced>>,
}

/// What a crash leaves of a group: what it had when it last synced.
#[derive(Debug, Clone)]
struct Synced {
    ledger: Ledger,
    /// How many records its history had.
    records: usize,
    index: u64,
}

/// Which book is asked.
#[derive(Debug, Clone, Copy)]
pub struct Of<'a> {
    /// Whose.
    pub account: &'a AccountName,
    /// Home's, or that of one of the region's allocations.
    pub generation: Generation,
}

/// An operation under a key, or one of the service's own.
pub fn item(operation: Operation, key: Option<IdempotencyKey>) -> Item {
    Item::new(Context { key, ..Context::default() }, operation)
}

/// A history that is cheap to copy: worlds are copied at every step of a search.
#[derive(Debug, Clone, Default)]
pub struct SharedHistory(Vec<Arc<[u8]>>);

impl HistoryReader for SharedHistory {
    fn read(&self, position: Position) -> Result<Vec<u8>, HistoryError> {
        let place = usize::try_from(position.0).ok();
        let record = place.and_then(|place| self.0.get(place));
        record.map(|record| record.to_vec()).ok_or(HistoryError::NoRecord(position))
    }
}

impl SharedHistory {
    /// All records, in the order in which they were appended; each stands where its place in here is.
    pub fn records(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|record| &**record)
    }
}

impl History for SharedHistory {
    fn append(&mut self, record: &[u8]) -> Position {
        let position = Position(u64::try_from(self.0.len()).unwrap_or(u64::MAX));
        self.0.push(record.into());
        position
    }
}

impl Site {
    /// Asks one thing of one book at `now`, and checks the ledger afterwards.
    ///
    /// # Panics
    ///
    /// If the ledger cannot go on, or is not as it should be.
    pub fn ask(&mut self, of: Of<'_>, item: Item, now: LogTime) -> Outcome {
        let Of { account, generation } = of;
        let account = account.clone();
        let command = Command::Account { account, items: vec![item], generation };
        let Answer::Account(outcomes) = self.apply(&command, now) else {
            unreachable!("a command for an account is answered as one")
        };
        outcomes.into_iter().next().expect("one item has one outcome")
    }

    /// Notes that a call is passed on to home, or tells which book has decided it.
    ///
    /// # Panics
    ///
    /// As [`Site::ask`].
    pub fn pass_on(
        &mut self,
        account: &AccountName,
        item: Item,
        retention: Span,
        now: LogTime,
    ) -> PassedOn {
        let (account, item) = (account.clone(), Box::new(item));
        let Answer::PassedOn(by) = self.apply(&Command::PassOn { account, item, retention }, now)
        else {
            unreachable!("whether a call is passed on is answered as that")
        };
        by
    }

    /// Begins another life.
    ///
    /// # Panics
    ///
    /// As [`Site::ask`], and if it is in another one afterwards than was asked for.
    pub fn begin_life(&mut self, command: &Command, now: LogTime) {
        let Command::BeginLife { life, .. } = command else {
            unreachable!("nothing else begins a life")
        };
        assert_eq!(self.apply(command, now), Answer::Life(Some(*life)));
    }

    /// Takes a step of a move.
    ///
    /// # Panics
    ///
    /// As [`Site::ask`].
    pub fn step(&mut self, command: &Command, now: LogTime) -> Result<MoveStep, MoveRefusal> {
        let Answer::Move(step) = self.apply(command, now) else {
            unreachable!("a step of a move is answered as one")
        };
        step
    }

    /// Proves the whole history, and that the ledger is what it leads to.
    pub fn audit(&self) -> Result<(), Finding> {
        let mut audit = Audit::default();
        for (record, place) in self.history.0.iter().zip(0..) {
            audit.fold(Position(place), record)?;
        }
        audit.compare(&self.ledger).into_iter().next().map_or(Ok(()), Err)
    }

    /// Writes down what has become due.
    ///
    /// # Panics
    ///
    /// As [`Site::ask`].
    pub fn sweep(&mut self, now: LogTime) {
        self.apply(&Command::Sweep { accounts_max: u32::MAX }, now);
    }

    fn apply(&mut self, command: &Command, at: LogTime) -> Answer {
        self.index = self.index.saturating_add(1);
        let bytes = codec::encode(command);
        let stamped = Stamped { index: self.index, ordinal: 0, at, command: &bytes };
        let answer = self.ledger.apply(stamped, &mut self.history);
        let answer = answer.expect("a ledger can apply whatever it is asked");
        if let Err(violation) = invariants::check_ledger(&self.ledger) {
            unreachable!("after {command:?}: {violation}")
        }
        answer
    }

    /// What is decided from now on is not synced before somebody says so: nobody may hear of it.
    pub fn hold_back(&mut self) {
        let (ledger, records, index) = (self.ledger.clone(), self.history.0.len(), self.index);
        self.synced = Some(Box::new(Synced { ledger, records, index }));
    }

    /// Goes on from a snapshot, as a node does that was started again. What was decided and not synced
    /// is lost.
    ///
    /// # Panics
    ///
    /// If the ledger cannot be restored from its own snapshot.
    pub fn restart(&mut self) {
        if let Some(synced) = self.synced.take() {
            (self.ledger, self.index) = (synced.ledger, synced.index);
            self.history.0.truncate(synced.records);
        }
        let restored = Ledger::restore(&mut self.ledger.snapshot());
        self.ledger = restored.expect("a ledger is restored from its own snapshot");
    }

    /// One of the books.
    pub fn book(&self, account: &AccountName, generation: Generation) -> Option<&Account> {
        self.ledger.book(account, generation).map(|account| &**account)
    }

    /// The ledger.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The history.
    pub fn history(&self) -> &SharedHistory {
        &self.history
    }

    /// A digest of the ledger's whole state.
    pub fn digest(&self) -> Digest32 {
        self.ledger.digest()
    }
}
