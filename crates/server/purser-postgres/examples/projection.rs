//! How many entries a second one projector writes: a ledger in memory, holds and captures in many
//! accounts, and the server whose address is given.
//!
//! ```text
//! cargo run --release -p purser-postgres --example projection -- 'host=localhost user=postgres'
//! ```
//!
//! The tables are made in the schema `purser_throughput`, which has to be new.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a measurement, run by hand")]

use std::collections::BTreeMap;
use std::time::Instant;

use purser_ledger::scenario::MemoryHistory;
use purser_ledger::{
    AccountName, Authorize, Capture, Category, Command, Context, Fact, Grant, HoldNumber,
    IfExpired, Item as Asked, Ledger, Open, Operation, Policy, Record, Residence, codec,
};
use purser_postgres::{
    Cursor, Database, Item, Page, Projector, ProjectorSettings, Shard, Source, SourceError,
};
use purser_types::{
    Credits, Epoch, IdempotencyKey, LogTime, Machine, Position, Region, Sequence, Span, Stamped,
    TenantId, Unit,
};

const ACCOUNTS: u64 = 1_000;
const PAIRS: u64 = 50_000;

/// A ledger and its history.
#[derive(Default)]
struct Books {
    ledger: Ledger,
    history: MemoryHistory,
    index: u64,
}

/// The history, read from memory.
struct Told(Vec<Item>);

impl Source for Told {
    async fn page(&self, from: Cursor, max: usize) -> Result<Page, SourceError> {
        let first = self.0.partition_point(|item| item.cursor < from);
        let items: Vec<Item> = self.0[first..].iter().take(max).cloned().collect();
        let next = items.last().map_or(from, |last| Cursor(last.cursor.0 + 1));
        Ok(Page { items, next })
    }

    fn residences(&self, accounts: &[AccountName]) -> Vec<Residence> {
        vec![Residence::Unknown; accounts.len()]
    }
}

impl Books {
    fn ask(&mut self, tenant: u64, operation: Operation) -> Sequence {
        self.index += 1;
        let key = IdempotencyKey::parse(&format!("request-{:020}", self.index)).unwrap();
        let context = Context { key: Some(key), ..Context::default() };
        let items = vec![Asked::new(context, operation)];
        let command = codec::encode(&Command::at_home(account(tenant), items));
        let at = LogTime::ZERO.saturating_add(Span::from_micros(self.index * 100));
        let stamped = Stamped { index: self.index, ordinal: 0, at, command: &command };
        let answer = self.ledger.apply(stamped, &mut self.history).unwrap();
        let outcome = answer.into_outcomes().unwrap().pop().unwrap();
        outcome.result.unwrap().entry.sequence
    }

    fn told(&self) -> Told {
        let mut names = BTreeMap::new();
        let mut items = Vec::new();
        for (position, bytes) in self.history.records_from(Position(0)) {
            let record: Record = codec::decode(bytes).unwrap();
            let entry = record.entry(position).unwrap();
            if let Fact::Opened { account, .. } = &entry.entry.fact {
                names.insert(record.account, account.clone());
            }
            let account = names[&record.account].clone();
            let cursor = Cursor(position.0);
            items.push(Item { account, epoch: Epoch(1), cursor, entry });
        }
        Told(items)
    }
}

fn account(tenant: u64) -> AccountName {
    let tenant = TenantId::parse(&format!("tenant-{tenant:06}")).unwrap();
    AccountName { tenant, unit: Unit::credits() }
}

fn made_up() -> Told {
    let mut books = Books::default();
    let credits = |amount| Credits::from_u64(amount).unwrap();
    for tenant in 0..ACCOUNTS {
        let home = Region::parse("eu").unwrap();
        let open = Open { home, policy: Policy::default(), epoch: None };
        books.ask(tenant, Operation::Open(open));
        books.ask(
            tenant,
            Operation::Grant(Grant {
                amount: credits(1_000_000),
                category: Category::Paid,
                priority: Grant::PRIORITY_DEFAULT,
                effective_at: None,
                expires_at: None,
                source_ref: None,
            }),
        );
    }
    for pair in 0..PAIRS {
        let tenant = pair.wrapping_mul(2_654_435_761) % ACCOUNTS;
        let (amount, ttl) = (credits(30), Span::from_secs(900));
        let authorize = Authorize { amount, ttl, reference: None, budgets: Box::default() };
        let hold = books.ask(tenant, Operation::Authorize(authorize));
        let capture = Capture {
            hold: HoldNumber(hold),
            amount: Some(credits(20)),
            is_final: true,
            allow_debt: false,
            if_expired: IfExpired::Refuse,
            away: None,
        };
        books.ask(tenant, Operation::Capture(capture));
    }
    books.told()
}

#[tokio::main]
async fn main() {
    let address = std::env::args().nth(1).expect("the address of a server");
    let told = made_up();
    let entries = told.0.len();
    let database = Database::at(&address, "purser_throughput", 2).unwrap();
    database.migrate().await.unwrap();
    let shard = Shard::parse("eu/0").unwrap();
    let projector = Projector::new(database, shard, told, ProjectorSettings::default());
    let start = Instant::now();
    projector.catch_up().await.unwrap();
    let took = start.elapsed();
    let rate = entries as f64 / took.as_secs_f64();
    println!("{entries} entries in {:.1} s: {rate:.0} entries/s", took.as_secs_f64());
}
