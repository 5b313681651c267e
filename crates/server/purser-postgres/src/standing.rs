//! How the tables say that an account stands: for whoever compares them with what the service says.
//!
//! The comparison is of independent roads: the service answers from the replicated state, and these are
//! rows as they are. Not here: comparing every column of every row with the histories ([`crate::verify()`]).

use purser_ledger::{AccountName, Digest32};
use purser_types::{Epoch, LogTime, Sequence};
use tokio_postgres::Row;

use crate::database::Database;
use crate::error::DatabaseError;
use crate::source::Cursor;
use crate::values::Instant;

/// An account's balance and lots in the tables, as of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The account's last entry that is projected.
    pub sequence: Sequence,
    /// Its hash.
    pub hash: Digest32,
    /// Where the credits are.
    pub balance: BalanceRow,
    /// The lots, oldest first.
    pub lots: Vec<LotRow>,
}

/// A row of `balances`, in credits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BalanceRow {
    /// All that was granted.
    pub granted: u64,
    /// What can be spent.
    pub available: u64,
    /// What is set aside in holds.
    pub held: u64,
    /// What was captured and not refunded.
    pub used: u64,
    /// What is owed.
    pub debt: u64,
}

/// A row of `lots`, in credits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LotRow {
    /// The entry that made it.
    pub number: Sequence,
    /// What was granted.
    pub amount: u64,
    /// What can be spent of it, now or once it is effective.
    pub free: u64,
    /// What is set aside in holds.
    pub held: u64,
    /// What was captured and not refunded.
    pub used: u64,
}

/// A row of `outbox`: that an entry was published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// In whose order.
    pub shard: String,
    /// Where the entry stands in the shard's history.
    pub position: Cursor,
    /// The entry's epoch.
    pub epoch: Epoch,
    /// The entry.
    pub sequence: Sequence,
    /// The event's place among those of its entry.
    pub ordinal: u32,
}

/// How far a shard is projected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectedShard {
    /// The shard.
    pub shard: String,
    /// Everything before it is in the tables.
    pub cursor: Cursor,
    /// The latest log time among what is in the tables.
    pub log_time: LogTime,
}

impl Database {
    /// How an account stands; nothing if none of its entries is projected.
    pub async fn standing(&self, account: &AccountName) -> Result<Option<Standing>, DatabaseError> {
        let mut client = self.client().await?;
        let transaction = client.build_transaction().read_only(true);
        let isolation = tokio_postgres::IsolationLevel::RepeatableRead;
        let transaction = transaction.isolation_level(isolation).start().await?;
        let (tenant, unit) = (account.tenant.as_str(), account.unit.as_str());
        let balance = "SELECT sequence, hash, granted, available, held, used, debt FROM balances
             WHERE tenant = $1 AND unit = $2";
        let Some(row) = transaction.query_opt(balance, &[&tenant, &unit]).await? else {
            return Ok(None);
        };
        let lots = "SELECT number, amount, free + waiting AS free, held, used FROM lots
             WHERE tenant = $1 AND unit = $2 ORDER BY number";
        let lots = transaction.query(lots, &[&tenant, &unit]).await?;
        let hash = Digest32::try_from(row.try_get::<_, &[u8]>("hash")?);
        Ok(Some(Standing {
            sequence: Sequence(count(&row, "balances", "sequence")?),
            hash: hash.map_err(|error| unreadable("balances", &error))?,
            balance: read_balance(&row)?,
            lots: lots.iter().map(read_lot).collect::<Result<_, _>>()?,
        }))
    }

    /// What was published of an account, in the order of its shards' histories.
    pub async fn published_of(
        &self,
        account: &AccountName,
    ) -> Result<Vec<Published>, DatabaseError> {
        let client = self.client().await?;
        let query = "SELECT shard, position, epoch, sequence, ordinal FROM outbox
             WHERE tenant = $1 AND unit = $2 ORDER BY shard, position, ordinal";
        let (tenant, unit) = (account.tenant.as_str(), account.unit.as_str());
        let rows = client.query(query, &[&tenant, &unit]).await?;
        let read = |row: &Row| {
            let ordinal = u32::try_from(row.try_get::<_, i32>("ordinal")?);
            Ok(Published {
                shard: row.try_get("shard")?,
                position: Cursor(count(row, "outbox", "position")?),
                epoch: Epoch(count(row, "outbox", "epoch")?),
                sequence: Sequence(count(row, "outbox", "sequence")?),
                ordinal: ordinal.map_err(|error| unreadable("outbox", &error))?,
            })
        };
        rows.iter().map(read).collect()
    }

    /// How far each shard is projected.
    pub async fn projected(&self) -> Result<Vec<ProjectedShard>, DatabaseError> {
        let client = self.client().await?;
        let query = "SELECT shard, position, log_time FROM projectors ORDER BY shard";
        let read = |row: &Row| {
            let Instant(log_time) = row.try_get("log_time")?;
            let cursor = Cursor(count(row, "projectors", "position")?);
            Ok(ProjectedShard { shard: row.try_get("shard")?, cursor, log_time })
        };
        client.query(query, &[]).await?.iter().map(read).collect()
    }
}

fn read_balance(row: &Row) -> Result<BalanceRow, DatabaseError> {
    let credits = |column| count(row, "balances", column);
    Ok(BalanceRow {
        granted: credits("granted")?,
        available: credits("available")?,
        held: credits("held")?,
        used: credits("used")?,
        debt: credits("debt")?,
    })
}

fn read_lot(row: &Row) -> Result<LotRow, DatabaseError> {
    let credits = |column| count(row, "lots", column);
    Ok(LotRow {
        number: Sequence(credits("number")?),
        amount: credits("amount")?,
        free: credits("free")?,
        held: credits("held")?,
        used: credits("used")?,
    })
}

fn count(row: &Row, table: &'static str, column: &str) -> Result<u64, DatabaseError> {
    let value: i64 = row.try_get(column)?;
    u64::try_from(value).map_err(|error| unreadable(table, &error))
}

fn unreadable(table: &'static str, error: &dyn std::error::Error) -> DatabaseError {
    DatabaseError::Unreadable { table, detail: error.to_string() }
}
