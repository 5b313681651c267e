//! Rows of the tables: what of the ledger is in them, and the statements that write them.
//!
//! A page of entries becomes a few statements, one or two a table, whose parameters are whole columns: at
//! ten thousand entries a second the time of a statement is in its round trip and its planning, not in its
//! rows. Rows are written in the order of their keys, so two projectors that share accounts lock them in
//! one order.

mod accounts;
mod entries;
mod events;
mod holds;
mod keys;
mod lots;
mod outbox;

use deadpool_postgres::Transaction;
use tokio_postgres::types::ToSql;

pub(crate) use self::accounts::{
    AllocatedRow, BalanceRow, BookRow, StandingRow, write_allocated, write_balances, write_books,
    write_standings,
};
pub(crate) use self::entries::{EntryRow, write_entries};
pub(crate) use self::events::{EventRow, write_events};
pub(crate) use self::holds::{ClosedRow, HoldRow, end_holds_of_closed, write_holds};
pub(crate) use self::keys::{KeyRow, forget_ended, write_keys};
pub(crate) use self::lots::{LotRow, read_lots, write_lots};
pub(crate) use self::outbox::{OutboxRow, write_outbox};
use crate::error::DatabaseError;

/// The columns of rows that one statement writes.
pub(crate) struct Columns<'a, R> {
    rows: &'a [R],
    columns: Vec<Box<dyn ToSql + Sync + Send + 'a>>,
}

impl<'a, R> Columns<'a, R> {
    /// Of these rows, no column yet.
    pub(crate) const fn of(rows: &'a [R]) -> Self {
        Self { rows, columns: Vec::new() }
    }

    /// The next column.
    pub(crate) fn with<T>(mut self, value: impl Fn(&'a R) -> T) -> Self
    where
        Vec<T>: ToSql + Sync + Send + 'a,
    {
        let column: Vec<T> = self.rows.iter().map(value).collect();
        self.columns.push(Box::new(column));
        self
    }

    /// Executes a statement whose parameters are the columns, in their order. Nothing to do without rows.
    pub(crate) async fn write(
        self,
        transaction: &Transaction<'_>,
        statement: &str,
    ) -> Result<(), DatabaseError> {
        self.count(transaction, statement).await.map(drop)
    }

    /// The same, and tells how many rows it was about.
    pub(crate) async fn count(
        self,
        transaction: &Transaction<'_>,
        statement: &str,
    ) -> Result<u64, DatabaseError> {
        if self.rows.is_empty() {
            return Ok(0);
        }
        let statement = transaction.prepare_cached(statement).await?;
        let columns: Vec<&(dyn ToSql + Sync)> =
            self.columns.iter().map(|column| &**column as &(dyn ToSql + Sync)).collect();
        Ok(transaction.execute(&statement, &columns).await?)
    }
}
