//! What people ask: balances as of then, statements, entries by what they are about.
//!
//! Everything is as of what is projected; how old that is, the projector's progress says. Entries come
//! back whole, from the bytes that their hashes are taken of.

use purser_ledger::{AccountName, Balance, Digest32, Entry, Hashed, codec};
use purser_types::{Epoch, IdempotencyKey, LogTime, Sequence, TenantId, Unit};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::database::Database;
use crate::error::DatabaseError;
use crate::values::{Instant, number};

/// A moment in an account's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// After this entry.
    Sequence(Sequence),
    /// At this instant: after every entry that took effect by then.
    Time(LogTime),
}

/// An account's balance at some moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BalanceThen {
    /// The last entry by then.
    pub sequence: Sequence,
    /// When that took effect.
    pub log_time: LogTime,
    /// The balance after it.
    pub balance: Balance,
}

/// A stretch of log time: from an instant on, and before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// Its first instant.
    pub from: LogTime,
    /// The first instant after it.
    pub to: LogTime,
}

/// An account's entries in a period, and what they began with and led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// The balance before; nothing if the account was not there yet.
    pub opening: Option<BalanceThen>,
    /// The entries, oldest first.
    pub entries: Vec<Found>,
    /// The balance after the last of them.
    pub closing: Option<BalanceThen>,
    /// Whether there are more than were asked for.
    pub has_more: bool,
}

/// An entry, with the account and epoch that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The account.
    pub account: AccountName,
    /// The epoch.
    pub epoch: Epoch,
    /// The entry.
    pub entry: Hashed,
}

/// Which entries of an account are looked for: those that meet every condition that is named.
#[derive(Debug, Clone, Default)]
pub struct Search {
    /// Of this kind, as the API names it.
    pub kind: Option<String>,
    /// Decided under this key.
    pub key: Option<IdempotencyKey>,
    /// About this hold or charge of home.
    pub hold: Option<Sequence>,
    /// About a hold or charge that its caller calls so.
    pub reference: Option<String>,
    /// Asked for by this actor.
    pub actor: Option<String>,
    /// Took effect at this instant or later.
    pub from: Option<LogTime>,
    /// Took effect before this instant.
    pub to: Option<LogTime>,
}

/// The columns that an entry is read from.
const FOUND: &str = "tenant, unit, epoch, entry, hash";

impl Database {
    /// An account's balance at some moment; nothing if the account was not there yet.
    pub async fn balance_at(
        &self,
        account: &AccountName,
        moment: Moment,
    ) -> Result<Option<BalanceThen>, DatabaseError> {
        let client = self.client().await?;
        let (condition, until): (_, Box<dyn ToSql + Sync + Send>) = match moment {
            Moment::Sequence(last) => {
                ("sequence <= $3 ORDER BY sequence DESC", Box::new(number(last.0)))
            }
            // Log time never goes back in an account, so this is the same order.
            Moment::Time(instant) => {
                ("log_time <= $3 ORDER BY log_time DESC, sequence DESC", Box::new(Instant(instant)))
            }
        };
        let query = format!(
            "SELECT {FOUND} FROM entries WHERE tenant = $1 AND unit = $2 AND {condition} LIMIT 1"
        );
        let statement = client.prepare_cached(&query).await?;
        let (tenant, unit) = (account.tenant.as_str(), account.unit.as_str());
        let row = client.query_opt(&statement, &[&tenant, &unit, &*until]).await?;
        row.as_ref().map(|row| read_found(row).map(BalanceThen::after)).transpose()
    }

    /// An account's entries in a period, at most `max` of those after `after`.
    pub async fn statement(
        &self,
        account: &AccountName,
        period: Period,
        after: Sequence,
        max: u32,
    ) -> Result<Statement, DatabaseError> {
        let Period { from, to } = period;
        let search = Search { from: Some(from), to: Some(to), ..Search::default() };
        let mut entries = self.search(account, &search, after, max.saturating_add(1)).await?;
        let most = usize::try_from(max).unwrap_or(usize::MAX);
        let has_more = entries.len() > most;
        entries.truncate(most);
        let opening = match entries.first() {
            Some(first) => {
                let before = Sequence(first.entry.entry.sequence.0.saturating_sub(1));
                self.balance_at(account, Moment::Sequence(before)).await?
            }
            None => self.balance_before(account, from).await?,
        };
        let closing = entries.last().cloned().map(BalanceThen::after).or_else(|| opening.clone());
        Ok(Statement { opening, entries, closing, has_more })
    }

    async fn balance_before(
        &self,
        account: &AccountName,
        instant: LogTime,
    ) -> Result<Option<BalanceThen>, DatabaseError> {
        let micros = instant.as_unix_micros().checked_sub(1);
        let before = micros.and_then(|micros| LogTime::from_unix_micros(micros).ok());
        match before {
            Some(before) => self.balance_at(account, Moment::Time(before)).await,
            None => Ok(None),
        }
    }

    /// The entries of an account that meet all conditions, oldest first: at most `max` of those after
    /// `after`.
    pub async fn search(
        &self,
        account: &AccountName,
        search: &Search,
        after: Sequence,
        max: u32,
    ) -> Result<Vec<Found>, DatabaseError> {
        let client = self.client().await?;
        let mut query = format!(
            "SELECT {FOUND} FROM entries WHERE tenant = $1 AND unit = $2 AND sequence > $3"
        );
        let (tenant, unit) = (account.tenant.as_str(), account.unit.as_str());
        let (after, max) = (number(after.0), i64::from(max));
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&tenant, &unit, &after];
        let key = search.key.as_ref().map(IdempotencyKey::as_str);
        let hold = search.hold.map(|hold| number(hold.0));
        let (from, to) = (search.from.map(Instant), search.to.map(Instant));
        let conditions = [
            ("kind =", named(&search.kind)),
            ("key =", named(&key)),
            ("allocation IS NULL AND hold =", named(&hold)),
            ("reference =", named(&search.reference)),
            ("actor =", named(&search.actor)),
            ("log_time >=", named(&from)),
            ("log_time <", named(&to)),
        ];
        for (condition, value) in conditions {
            if let Some(value) = value {
                values.push(value);
                query.push_str(&format!(" AND {condition} ${}", values.len()));
            }
        }
        values.push(&max);
        query.push_str(&format!(" ORDER BY sequence LIMIT ${}", values.len()));
        let statement = client.prepare_cached(&query).await?;
        client.query(&statement, &values).await?.iter().map(read_found).collect()
    }
}

impl BalanceThen {
    fn after(found: Found) -> Self {
        let Entry { sequence, log_time, balance, .. } = found.entry.entry;
        Self { sequence, log_time, balance }
    }
}

/// A value that is asked for, if it is.
fn named<T: ToSql + Sync>(value: &Option<T>) -> Option<&(dyn ToSql + Sync)> {
    value.as_ref().map(|value| value as &(dyn ToSql + Sync))
}

/// Reads an entry from the columns of [`FOUND`], by their names.
pub(crate) fn read_found(row: &Row) -> Result<Found, DatabaseError> {
    let unreadable = |detail: String| DatabaseError::Unreadable { table: "entries", detail };
    let tenant = TenantId::parse(row.try_get("tenant")?);
    let unit = Unit::parse(row.try_get("unit")?);
    let (Ok(tenant), Ok(unit)) = (tenant, unit) else {
        return Err(unreadable("the name of an account".to_owned()));
    };
    let epoch = u64::try_from(row.try_get::<_, i64>("epoch")?);
    let epoch = epoch.map(Epoch).map_err(|error| unreadable(error.to_string()))?;
    let entry = codec::decode(row.try_get("entry")?);
    let entry = entry.map_err(|error| unreadable(format!("an entry's bytes: {error}")))?;
    let hash = Digest32::try_from(row.try_get::<_, &[u8]>("hash")?);
    let hash = hash.map_err(|error| unreadable(format!("a hash: {error}")))?;
    let account = AccountName { tenant, unit };
    Ok(Found { account, epoch, entry: Hashed { entry, hash } })
}
