//! A ledger in memory with its history, and the history as a projector reads it.

use purser_ledger::scenario::MemoryHistory;
use purser_ledger::{
    Account, AccountName, Answer, Authorize, Booked, Capture, Category, Charge, Command, Context,
    Departure, Event, EventAbout, EventName, Grant, HoldNumber, IfExpired, Import, ImportPart,
    Item as Asked, Ledger, Open, Operation, Outcome, Policy, Record, Refund, Release, Residence,
    StepDown, TakeHome, Target, Way, codec,
};
use purser_postgres::{Cursor, Item, Page, Source, SourceError};
use purser_types::{
    Credits, Epoch, Generation, IdempotencyKey, LogTime, Machine, Position, Region, Sequence, Span,
    Stamped, TenantId, Unit,
};

/// See the module's documentation.
#[derive(Default, Clone)]
pub(crate) struct Books {
    pub(crate) ledger: Ledger,
    history: MemoryHistory,
    index: u64,
    pub(crate) now: LogTime,
}

/// The entries of a history, as far as they are told, and the ledger as it is by now.
#[derive(Debug, Clone)]
pub(crate) struct Told(pub(crate) Vec<Item>, pub(crate) Ledger);

pub(crate) fn credits(amount: u64) -> Credits {
    Credits::from_u64(amount).unwrap()
}

pub(crate) fn account(tenant: &str) -> AccountName {
    AccountName { tenant: TenantId::parse(tenant).unwrap(), unit: Unit::credits() }
}

/// Seconds as an instant.
pub(crate) fn at(seconds: u64) -> LogTime {
    LogTime::ZERO.saturating_add(Span::from_secs(seconds))
}

pub(crate) fn grant(amount: u64) -> Grant {
    Grant {
        amount: credits(amount),
        category: Category::Paid,
        priority: Grant::PRIORITY_DEFAULT,
        effective_at: None,
        expires_at: None,
        source_ref: None,
    }
}

pub(crate) fn authorize(amount: u64, ttl_seconds: u64) -> Operation {
    let (amount, ttl) = (credits(amount), Span::from_secs(ttl_seconds));
    Operation::Authorize(Authorize {
        amount,
        ttl,
        reference: Some(format!("work {amount}").into()),
        budgets: Box::default(),
    })
}

pub(crate) fn capture(hold: u64, amount: u64, is_final: bool) -> Operation {
    Operation::Capture(Capture {
        hold: HoldNumber(Sequence(hold)),
        amount: Some(credits(amount)),
        is_final,
        allow_debt: true,
        if_expired: IfExpired::Refuse,
        away: None,
    })
}

pub(crate) fn release(hold: u64) -> Operation {
    Operation::Release(Release { hold: HoldNumber(Sequence(hold)), away: None })
}

pub(crate) fn charge(amount: u64) -> Operation {
    Operation::Charge(Charge {
        amount: credits(amount),
        allow_debt: false,
        reference: None,
        budgets: Box::default(),
    })
}

/// A usage event of a meter, which happened at an instant.
pub(crate) fn usage(id: &str, amount: u64, at_seconds: u64) -> Operation {
    Operation::RecordEvent(Box::new(Event {
        name: EventName::parse("meter", id).unwrap(),
        kind: "usage".into(),
        time: Some(at(at_seconds)),
        about: EventAbout::Usage { amount: credits(amount) },
    }))
}

pub(crate) fn refund(target: Target) -> Operation {
    Operation::Refund(Refund { target, amount: None, away: None })
}

impl Books {
    /// Books in which one account is open and nothing else has happened.
    pub(crate) fn with(tenant: &str) -> Self {
        let mut books = Self::default();
        books.open(tenant, Policy::default());
        books
    }

    pub(crate) fn open(&mut self, tenant: &str, policy: Policy) {
        self.open_at("eu", tenant, policy);
    }

    pub(crate) fn open_at(&mut self, home: &str, tenant: &str, policy: Policy) {
        let home = Region::parse(home).unwrap();
        self.ask(tenant, Operation::Open(Open { home, policy, epoch: None }), None);
    }

    /// Asks under a key of its own; the answer must be yes.
    #[track_caller]
    pub(crate) fn accept(&mut self, tenant: &str, operation: Operation) -> u64 {
        let key = format!("key {}", self.index);
        let outcome = self.ask(tenant, operation, Some(&key));
        outcome.result.expect("it is to be accepted").entry.sequence.0
    }

    pub(crate) fn ask(&mut self, tenant: &str, operation: Operation, key: Option<&str>) -> Outcome {
        let key = key.map(|key| IdempotencyKey::parse(key).unwrap());
        let context = Context {
            key,
            actor: Some("ops".into()),
            reason: Some("as agreed".into()),
            ..Context::default()
        };
        let items = vec![Asked::new(context, operation)];
        let answer = self.apply(&Command::at_home(account(tenant), items));
        answer.into_outcomes().unwrap().pop().unwrap()
    }

    /// An account stops, to go to another region.
    pub(crate) fn stop(&mut self, tenant: &str, to: &str) {
        let (epoch, to) = (self.account(tenant).epoch(), Region::parse(to).unwrap());
        self.ask(tenant, Operation::Stop(Departure { epoch, to }), None).result.unwrap();
    }

    /// Takes over the next entries of an account that is in other books, at most so many.
    pub(crate) fn take_over(&mut self, tenant: &str, from: &Self, entries: usize) {
        let have = self.ledger.arrival(&account(tenant)).map(|arrival| arrival.head.sequence);
        let have = have.unwrap_or(Sequence::ZERO);
        let mut next = from.account(tenant).entries_after(have, &from.history).unwrap();
        next.truncate(entries);
        self.import(tenant, ImportPart::Entries(next));
    }

    /// Becomes the home of an account that has stopped in other books and is here whole; these step down.
    pub(crate) fn take_home(&mut self, tenant: &str, from: &mut Self, home: &str) {
        let name = account(tenant);
        let (home, epoch) = (Region::parse(home).unwrap(), from.account(tenant).epoch());
        let (head, epoch) = (from.account(tenant).head(), Epoch(epoch.0 + 1));
        let complete_at = Some(head.sequence);
        self.import(tenant, ImportPart::Memory { pairs: Vec::new(), complete_at });
        let head = Booked { sequence: head.sequence, hash: Some(head.hash) };
        let way = Way::Moved;
        let take = TakeHome { account: name.clone(), home, epoch, way, head };
        self.step(&Command::TakeHome(take));
        from.step(&Command::StepDown(StepDown { account: name, home, epoch }));
    }

    fn import(&mut self, tenant: &str, part: ImportPart) {
        self.step(&Command::Import(Import { account: account(tenant), part }));
    }

    fn step(&mut self, command: &Command) {
        let Answer::Move(step) = self.apply(command) else { panic!("a step is answered as one") };
        step.unwrap();
    }

    /// Writes down what has become due.
    pub(crate) fn sweep(&mut self) {
        self.apply(&Command::Sweep { accounts_max: u32::MAX });
    }

    fn apply(&mut self, command: &Command) -> Answer {
        self.index += 1;
        let bytes = codec::encode(command);
        let stamped = Stamped { index: self.index, ordinal: 0, at: self.now, command: &bytes };
        self.ledger.apply(stamped, &mut self.history).unwrap()
    }

    pub(crate) fn account(&self, tenant: &str) -> &Account {
        self.ledger.account(&account(tenant)).unwrap()
    }

    /// What a projector reads of it.
    pub(crate) fn told(&self) -> Told {
        Told::of(&self.ledger, self.history.records_from(Position(0)))
    }
}

impl Told {
    /// The entries of accounts whose home is here or comes here.
    pub(crate) fn of<'a>(
        ledger: &Ledger,
        records: impl Iterator<Item = (Position, &'a [u8])>,
    ) -> Self {
        let mut items = Vec::new();
        for (position, bytes) in records {
            let record: Record = codec::decode(bytes).unwrap();
            let entry = record.entry(position).unwrap();
            // Books of regions, and what came of a move that was given up, are nobody's business.
            let known = ledger.account_numbered(record.account);
            let at_home = known.filter(|it| it.owner().generation == Generation::HOME);
            let Some(at_home) = at_home else { continue };
            let (account, (_, epoch)) =
                (at_home.name().clone(), at_home.home_at(entry.entry.sequence));
            items.push(Item { account, epoch, cursor: Cursor(position.0), entry });
        }
        Self(items, ledger.clone())
    }

    /// Only the first entries.
    pub(crate) fn first(&self, entries: usize) -> Self {
        Self(self.0[..entries].to_vec(), self.1.clone())
    }
}

impl Source for Told {
    async fn page(&self, from: Cursor, max: usize) -> Result<Page, SourceError> {
        let rest = self.0.iter().filter(|item| item.cursor >= from);
        let items: Vec<Item> = rest.take(max).cloned().collect();
        let next = items.last().map_or(from, |last| Cursor(last.cursor.0 + 1));
        Ok(Page { items, next })
    }

    fn residences(&self, accounts: &[AccountName]) -> Vec<Residence> {
        accounts.iter().map(|account| self.1.residence(account)).collect()
    }
}
