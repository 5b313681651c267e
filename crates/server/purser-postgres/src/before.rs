//! What the tables say before a page: as much of it as the page's entries go on from.
//!
//! Read under the locks of the shard's cursor and of the accounts' balances, so it cannot change until the
//! page is written.

use std::collections::{BTreeMap, BTreeSet};

use deadpool_postgres::Transaction;
use purser_ledger::{AccountName, Digest32, Fact, Lot, LotNumber};
use purser_types::{Owner, Sequence, Span};
use tokio_postgres::Row;

use crate::error::DatabaseError;
use crate::rows::read_lots;
use crate::source::Item;
use crate::values::number;

/// The end of an account's entries in the tables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) sequence: Sequence,
    pub(crate) hash: Digest32,
}

/// Who decides for an account, by the name that the tables have for him.
pub(crate) type Book = (AccountName, String);

/// How long a book remembers what it decides from now on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BookTerms {
    /// Keys.
    pub(crate) key_retention: Span,
    /// Usage events, after their time; as long as the ledger does by itself if there is none.
    pub(crate) event_age: Option<Span>,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Before {
    pub(crate) heads: BTreeMap<AccountName, Head>,
    /// The hashes of those entries of the page that are in the tables already.
    pub(crate) known: BTreeMap<(AccountName, Sequence), Digest32>,
    pub(crate) lots: BTreeMap<AccountName, BTreeMap<LotNumber, Lot>>,
    /// How long books remember what they have decided.
    pub(crate) terms: BTreeMap<Book, BookTerms>,
}

/// The name of who decides: `home`, or a region and the generation of its allocation.
pub(crate) fn owner_name(owner: Option<Owner>) -> String {
    match owner {
        None => "home".to_owned(),
        Some(owner) => format!("{}/{}", owner.region, owner.generation.0),
    }
}

impl Before {
    /// Reads what `items` go on from, and locks their accounts.
    pub(crate) async fn read(
        transaction: &Transaction<'_>,
        items: &[Item],
    ) -> Result<Self, DatabaseError> {
        let accounts: BTreeSet<&AccountName> = items.iter().map(|item| &item.account).collect();
        let accounts: Vec<&AccountName> = accounts.into_iter().collect();
        let heads = lock_heads(transaction, &accounts).await?;
        let is_known = |item: &&Item| {
            heads.get(&item.account).is_some_and(|head| item.sequence() <= head.sequence)
        };
        let (known, new): (Vec<&Item>, Vec<&Item>) = items.iter().partition(is_known);
        let known = read_hashes(transaction, &known).await?;
        let touched = new.iter().flat_map(|item| {
            let lots = item.entry.entry.lots().into_iter();
            lots.map(move |lot| (item.account.clone(), lot))
        });
        let lots = read_lots(transaction, &touched.collect()).await?;
        let books = new.iter().flat_map(|item| {
            let owners = std::iter::once(None).chain(owner_of_shipped(item).map(Some));
            owners.map(move |owner| (item.account.clone(), owner_name(owner)))
        });
        let terms = read_terms(transaction, &books.collect()).await?;
        Ok(Self { heads, known, lots, terms })
    }
}

impl Item {
    /// The entry's place in its account.
    pub(crate) fn sequence(&self) -> Sequence {
        self.entry.entry.sequence
    }
}

/// The region's book of which an entry books entries.
fn owner_of_shipped(item: &Item) -> Option<Owner> {
    if let Fact::Settled(settlement) = &item.entry.entry.fact {
        Some(settlement.allocation.owner)
    } else {
        None
    }
}

/// Order matters: the rows are locked in the order of their keys, whoever locks them.
async fn lock_heads(
    transaction: &Transaction<'_>,
    accounts: &[&AccountName],
) -> Result<BTreeMap<AccountName, Head>, DatabaseError> {
    let statement = transaction
        .prepare_cached(
            "SELECT place, sequence, hash
             FROM unnest($1::TEXT[], $2::TEXT[]) WITH ORDINALITY AS wanted (tenant, unit, place)
             JOIN balances USING (tenant, unit)
             ORDER BY tenant, unit
             FOR UPDATE OF balances",
        )
        .await?;
    let tenants: Vec<&str> = accounts.iter().map(|account| account.tenant.as_str()).collect();
    let units: Vec<&str> = accounts.iter().map(|account| account.unit.as_str()).collect();
    let mut heads = BTreeMap::new();
    for row in transaction.query(&statement, &[&tenants, &units]).await? {
        if let Some(account) = at_place(accounts, &row)? {
            let head = Head { sequence: sequence(&row, 1)?, hash: hash(&row, 2)? };
            heads.insert((*account).clone(), head);
        }
    }
    Ok(heads)
}

async fn read_hashes(
    transaction: &Transaction<'_>,
    items: &[&Item],
) -> Result<BTreeMap<(AccountName, Sequence), Digest32>, DatabaseError> {
    let mut hashes = BTreeMap::new();
    if items.is_empty() {
        return Ok(hashes);
    }
    let statement = transaction
        .prepare_cached(
            "SELECT place, sequence, hash
             FROM unnest($1::TEXT[], $2::TEXT[], $3::BIGINT[])
                 WITH ORDINALITY AS wanted (tenant, unit, sequence, place)
             JOIN entries USING (tenant, unit, sequence)",
        )
        .await?;
    let tenants: Vec<&str> = items.iter().map(|item| item.account.tenant.as_str()).collect();
    let units: Vec<&str> = items.iter().map(|item| item.account.unit.as_str()).collect();
    let sequences: Vec<i64> = items.iter().map(|item| number(item.sequence().0)).collect();
    for row in transaction.query(&statement, &[&tenants, &units, &sequences]).await? {
        if let Some(item) = at_place(items, &row)? {
            hashes.insert((item.account.clone(), item.sequence()), hash(&row, 2)?);
        }
    }
    Ok(hashes)
}

async fn read_terms(
    transaction: &Transaction<'_>,
    books: &BTreeSet<Book>,
) -> Result<BTreeMap<Book, BookTerms>, DatabaseError> {
    let statement = transaction
        .prepare_cached(
            "SELECT place, key_retention_micros::TEXT, event_age_micros::TEXT
             FROM unnest($1::TEXT[], $2::TEXT[], $3::TEXT[])
                 WITH ORDINALITY AS wanted (tenant, unit, owner, place)
             JOIN books USING (tenant, unit, owner)",
        )
        .await?;
    let tenants: Vec<&str> = books.iter().map(|(account, _)| account.tenant.as_str()).collect();
    let units: Vec<&str> = books.iter().map(|(account, _)| account.unit.as_str()).collect();
    let owners: Vec<&str> = books.iter().map(|(_, owner)| owner.as_str()).collect();
    let places: Vec<&Book> = books.iter().collect();
    let mut terms = BTreeMap::new();
    for row in transaction.query(&statement, &[&tenants, &units, &owners]).await? {
        let key_retention = span(row.try_get(1)?)?;
        let event_age = row.try_get::<_, Option<&str>>(2)?.map(span).transpose()?;
        if let Some(book) = at_place(&places, &row)? {
            terms.insert((*book).clone(), BookTerms { key_retention, event_age });
        }
    }
    Ok(terms)
}

fn span(micros: &str) -> Result<Span, DatabaseError> {
    let micros = micros.parse::<u64>().map_err(|error| unreadable("books", &error))?;
    Ok(Span::from_micros(micros))
}

/// What was asked for in the place that a row names, counted from 1.
fn at_place<'a, T>(wanted: &'a [T], row: &Row) -> Result<Option<&'a T>, DatabaseError> {
    let place = usize::try_from(row.try_get::<_, i64>(0)?).unwrap_or(usize::MAX);
    Ok(place.checked_sub(1).and_then(|place| wanted.get(place)))
}

fn sequence(row: &Row, column: usize) -> Result<Sequence, DatabaseError> {
    let sequence = u64::try_from(row.try_get::<_, i64>(column)?);
    sequence.map(Sequence).map_err(|error| unreadable("balances", &error))
}

fn hash(row: &Row, column: usize) -> Result<Digest32, DatabaseError> {
    let bytes: &[u8] = row.try_get(column)?;
    Digest32::try_from(bytes).map_err(|error| unreadable("entries", &error))
}

fn unreadable(table: &'static str, error: &dyn std::error::Error) -> DatabaseError {
    DatabaseError::Unreadable { table, detail: error.to_string() }
}
