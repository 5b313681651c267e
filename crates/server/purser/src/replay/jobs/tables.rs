//! The tables in PostgreSQL against what the API shows: balances, lots, every entry by its hash, and an
//! outbox that has every entry once and in its order. And how far behind they are on the way.

use std::sync::Arc;
use std::time::Duration;

use purser_ledger::AccountName;
use purser_postgres::{BalanceRow, Database, DatabaseError, LotRow, Search, Standing};
use purser_types::{Sequence, Unit};
use serde::Serialize;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::check::ShownTenant;
use super::floor::Floor;
use crate::replay::difference::{Difference, same};
use crate::replay::tally::{Quantiles, Waits};

/// How many connections the comparison has.
pub(crate) const CONNECTIONS: usize = 4;
/// How long the tables may take to have everything once nothing more happens.
const CAUGHT_UP_MAX: Duration = Duration::from_secs(120);
/// How long to wait before they are looked at again.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// How often their delay is measured.
const MEASURE_EVERY: Duration = Duration::from_millis(200);
/// How exactly.
const MEASURE_STEP: Duration = Duration::from_millis(5);
/// How many entries are read at a time.
const PAGE: u32 = 1_000;

/// What is told of the tables.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct TablesReport {
    /// From an answer until its entry was in the tables, while the jobs ran; an outage of the database
    /// counts.
    pub(crate) lag: Quantiles,
    /// The longest that the comparison had to wait for the last entry of a tenant, in seconds.
    pub(crate) waited_seconds: f64,
    /// Events in the outbox of the run's tenants.
    pub(crate) published: u64,
}

/// Measures until `end` how much later than its answer an entry is in the tables. A database that is away
/// makes them late, and no measurement fails of it.
pub(crate) async fn measure_lag(
    floor: Arc<Floor>,
    database: Database,
    end: CancellationToken,
) -> Waits {
    let (mut waits, mut last) = (Waits::default(), None);
    while !end.is_cancelled() {
        sleep(MEASURE_EVERY).await;
        let newest = floor.noted().newest;
        let Some((tenant, sequence, answered_at)) = newest.filter(|_| newest != last) else {
            continue;
        };
        last = newest;
        while !end.is_cancelled() {
            let standing = database.standing(&account(&floor, tenant)).await;
            if standing.is_ok_and(|it| it.is_some_and(|it| it.sequence.0 >= sequence)) {
                waits.add(answered_at.elapsed());
                break;
            }
            sleep(MEASURE_STEP).await;
        }
    }
    waits
}

fn account(floor: &Floor, tenant: usize) -> AccountName {
    AccountName { tenant: floor.name(tenant).clone(), unit: Unit::credits() }
}

impl TablesReport {
    /// Counts what was found of another tenant.
    pub(crate) fn add(&mut self, other: &Self) {
        self.published += other.published;
        self.waited_seconds = self.waited_seconds.max(other.waited_seconds);
    }
}

/// Compares the tables with what the API has shown of a tenant, once they have its last entry.
pub(crate) async fn compare(
    floor: &Floor,
    database: &Database,
    (tenant, shown): (usize, &ShownTenant),
) -> Result<TablesReport, Difference> {
    let account = account(floor, tenant);
    let last = shown.entries.last().map_or(0, |entry| entry.sequence.0.0);
    let since = Instant::now();
    let standing = wait_for(database, &account, last).await?;
    let waited_seconds = since.elapsed().as_secs_f64();
    same("tables: the last entry", standing.sequence.0, last)?;
    let buckets = &shown.balance.buckets;
    let balance = BalanceRow {
        granted: buckets.granted.0.get(),
        available: buckets.available.0.get(),
        held: buckets.held.0.get(),
        used: buckets.used.0.get(),
        debt: buckets.debt.0.get(),
    };
    same("tables: the balance", standing.balance, balance)?;
    let lots: Vec<LotRow> = shown.lots.iter().map(lot).collect();
    same("tables: the lots", standing.lots, lots)?;
    compare_entries(database, &account, shown).await?;
    let published = compare_outbox(database, &account, shown).await?;
    Ok(TablesReport { published, waited_seconds, ..TablesReport::default() })
}

/// How an account stands once an entry is there.
async fn wait_for(
    database: &Database,
    account: &AccountName,
    last: u64,
) -> Result<Standing, Difference> {
    let since = Instant::now();
    loop {
        let problem = match database.standing(account).await {
            Ok(Some(standing)) if standing.sequence.0 >= last => return Ok(standing),
            Ok(Some(standing)) => format!("tables: they end at entry {}", standing.sequence.0),
            Ok(None) => "tables: they have nothing of it".to_owned(),
            Err(error) if error.is_transient() => format!("tables: {error}"),
            Err(error) => return Err(unread(&error)),
        };
        if since.elapsed() > CAUGHT_UP_MAX {
            return Err(Difference(format!("{problem}, expected {last}")));
        }
        sleep(LOOK_AGAIN_AFTER).await;
    }
}

fn unread(error: &DatabaseError) -> Difference {
    Difference(format!("tables: {error}"))
}

fn lot(lot: &purser_api::Lot) -> LotRow {
    LotRow {
        number: Sequence(lot.lot_id.sequence.0),
        amount: lot.amount.0.get(),
        free: lot.free.0.get(),
        held: lot.held.0.get(),
        used: lot.used.0.get(),
    }
}

async fn compare_entries(
    database: &Database,
    account: &AccountName,
    shown: &ShownTenant,
) -> Result<(), Difference> {
    let (mut after, mut hashes) = (Sequence::ZERO, Vec::new());
    loop {
        let page = database.search(account, &Search::default(), after, PAGE).await;
        let page = page.map_err(|error| unread(&error))?;
        let Some(last) = page.last() else { break };
        after = last.entry.entry.sequence;
        let hash = |found: &purser_postgres::Found| {
            found.entry.hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        hashes.extend(page.iter().map(hash));
    }
    same("tables: entries", hashes.len(), shown.entries.len())?;
    for (hash, entry) in hashes.iter().zip(&shown.entries) {
        same(&format!("tables: hash of entry {}", entry.sequence.0.0), hash, &entry.hash)?;
    }
    Ok(())
}

/// The outbox has each entry once, in one shard, in the order of the account.
async fn compare_outbox(
    database: &Database,
    account: &AccountName,
    shown: &ShownTenant,
) -> Result<u64, Difference> {
    let published = database.published_of(account).await.map_err(|error| unread(&error))?;
    let told = published.iter().map(|it| (it.sequence.0, it.ordinal)).collect::<Vec<_>>();
    let expected = shown.entries.iter().map(|entry| (entry.sequence.0.0, 0)).collect::<Vec<_>>();
    same("outbox: how many events", told.len(), expected.len())?;
    let first = told.iter().zip(&expected).find(|(told, expected)| told != expected);
    if let Some((told, expected)) = first {
        return same("outbox: the next event", *told, *expected).map(|()| 0);
    }
    let shards: std::collections::BTreeSet<&str> = published.iter().map(|it| &*it.shard).collect();
    same("outbox: shards that tell of it", shards.len(), 1)?;
    Ok(u64::try_from(told.len()).unwrap_or(u64::MAX))
}
