//! Writing a page of entries into the tables: one transaction, which begins and ends with the cursor.

use deadpool_postgres::Transaction;
use purser_types::LogTime;

use crate::before::Before;
use crate::changes::Changes;
use crate::database::Database;
use crate::error::DatabaseError;
use crate::projector::ProjectError;
use crate::rows::{
    AllocatedRow, BalanceRow, BookRow, LotRow, StandingRow, end_holds_of_closed, forget_ended,
    write_allocated, write_balances, write_books, write_entries, write_events, write_holds,
    write_keys, write_lots, write_outbox, write_standings,
};
use crate::source::{Cursor, Page, Shard};
use crate::values::{Instant, number};

/// The constraint by which an account has one entry in each place.
const ONE_ENTRY_A_SEQUENCE: &str = "entries_are_numbered_once";

/// Where a shard's row of `projectors` stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stand {
    pub(crate) cursor: Cursor,
    pub(crate) log_time: LogTime,
}

/// What became of a page.
pub(crate) enum Applied {
    /// It is in the tables, with so many entries that were new.
    Written(Stand, u64),
    /// Another projector was faster, or the attempt before had been committed after all.
    Overtaken(Stand),
}

/// Whether what is written is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Publishing {
    /// New entries go to the outbox.
    Outbox,
    /// Nothing is published: the tables are only built again.
    Nothing,
}

/// A shard's part of a database's tables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) database: &'a Database,
    pub(crate) shard: &'a Shard,
}

impl Target<'_> {
    /// Where the shard's cursor stands; at the start if it was never projected.
    pub(crate) async fn stand(self) -> Result<Stand, DatabaseError> {
        let client = self.database.client().await?;
        let statement = client
            .prepare_cached("SELECT position, log_time FROM projectors WHERE shard = $1")
            .await?;
        let row = client.query_opt(&statement, &[&self.shard.as_str()]).await?;
        let start = Stand { cursor: Cursor::START, log_time: LogTime::ZERO };
        row.as_ref().map_or(Ok(start), stand)
    }

    /// Writes a page that was read from `from` on, in one transaction.
    pub(crate) async fn apply(
        self,
        from: Stand,
        page: &Page,
        publishing: Publishing,
    ) -> Result<Applied, ProjectError> {
        match self.attempt(from, page, publishing).await {
            // A new account has no row yet that could be locked. Where its entries are in two histories, the
            // other's projector may have been writing them: then they are there now, and known.
            Err(ProjectError::Database(DatabaseError::Violation(violation)))
                if violation.constraint == ONE_ENTRY_A_SEQUENCE =>
            {
                self.attempt(from, page, publishing).await
            }
            outcome => outcome,
        }
    }

    async fn attempt(
        self,
        from: Stand,
        page: &Page,
        publishing: Publishing,
    ) -> Result<Applied, ProjectError> {
        let mut client = self.database.client().await?;
        let transaction = client.transaction().await.map_err(DatabaseError::from)?;
        let stands = self.lock(&transaction).await?;
        if stands.cursor != from.cursor {
            return Ok(Applied::Overtaken(stands));
        }
        let before = Before::read(&transaction, &page.items).await?;
        let changes = Changes::of(before, &page.items)?;
        let log_time = stands.log_time.max(changes.log_time);
        let stand = Stand { cursor: page.next, log_time };
        self.write(&transaction, &changes, publishing).await?;
        self.advance(&transaction, stand).await?;
        transaction.commit().await.map_err(DatabaseError::from)?;
        let entries = u64::try_from(changes.entries.len()).unwrap_or(u64::MAX);
        Ok(Applied::Written(stand, entries))
    }

    /// Locks the shard's row, and tells where it stands. Order matters: this comes before anything else,
    /// so that whoever holds the table `projectors` as a whole keeps all projectors out.
    async fn lock(self, transaction: &Transaction<'_>) -> Result<Stand, DatabaseError> {
        let shard = self.shard.as_str();
        let make = transaction
            .prepare_cached(
                "INSERT INTO projectors (shard, position, log_time) VALUES ($1, 0, $2)
                 ON CONFLICT (shard) DO NOTHING",
            )
            .await?;
        transaction.execute(&make, &[&shard, &Instant(LogTime::ZERO)]).await?;
        let lock = transaction
            .prepare_cached("SELECT position, log_time FROM projectors WHERE shard = $1 FOR UPDATE")
            .await?;
        stand(&transaction.query_one(&lock, &[&shard]).await?)
    }

    async fn write(
        self,
        transaction: &Transaction<'_>,
        changes: &Changes<'_>,
        publishing: Publishing,
    ) -> Result<(), DatabaseError> {
        write_entries(transaction, &changes.entries).await?;
        write_standings(transaction, &changes.standing_rows()).await?;
        let balances = changes.balance_rows();
        write_balances(transaction, &balances).await?;
        write_allocated(transaction, &balances, &changes.allocated_rows()).await?;
        write_lots(transaction, &changes.lot_rows()).await?;
        let holds: Vec<_> = changes.holds.values().collect();
        write_holds(transaction, &holds).await?;
        end_holds_of_closed(transaction, &changes.closed).await?;
        write_books(transaction, &changes.book_rows()).await?;
        write_keys(transaction, self.shard, &changes.keys).await?;
        write_events(transaction, self.shard, &changes.events).await?;
        if publishing == Publishing::Outbox {
            write_outbox(transaction, self.shard, &changes.outbox).await?;
        }
        Ok(())
    }

    /// Moves the cursor, and forgets what has ended by then.
    async fn advance(
        self,
        transaction: &Transaction<'_>,
        stand: Stand,
    ) -> Result<(), DatabaseError> {
        forget_ended(transaction, self.shard, stand.log_time).await?;
        let statement = transaction
            .prepare_cached("UPDATE projectors SET position = $2, log_time = $3 WHERE shard = $1")
            .await?;
        let position = number(stand.cursor.0);
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
            [&self.shard.as_str(), &position, &Instant(stand.log_time)];
        transaction.execute(&statement, &values).await?;
        Ok(())
    }
}

impl Changes<'_> {
    fn standing_rows(&self) -> Vec<StandingRow<'_>> {
        let rows = self.standings.iter().map(|(account, stands)| StandingRow {
            account,
            standing: stands.standing,
            epoch: stands.epoch,
            sequence: stands.sequence,
        });
        rows.collect()
    }

    fn balance_rows(&self) -> Vec<BalanceRow<'_>> {
        let rows = self.balances.iter().map(|(account, balanced)| BalanceRow {
            account,
            balance: balanced.balance,
            sequence: balanced.head.sequence,
            log_time: balanced.log_time,
            hash: &balanced.head.hash,
        });
        rows.collect()
    }

    fn allocated_rows(&self) -> Vec<AllocatedRow<'_>> {
        let rows = self.balances.iter().flat_map(|(account, balanced)| {
            let regions = balanced.balance.allocated.iter();
            regions.map(move |(region, amount)| AllocatedRow { account, region, amount: *amount })
        });
        rows.collect()
    }

    fn lot_rows(&self) -> Vec<LotRow<'_>> {
        let rows = self.lots_touched.iter().filter_map(|(&(account, number), &sequence)| {
            let lot = self.lots.get(account)?.get(&number)?;
            Some(LotRow { account, number, lot, sequence })
        });
        rows.collect()
    }

    fn book_rows(&self) -> Vec<BookRow<'_>> {
        let rows = self.books.iter().map(|((account, owner), terms)| BookRow {
            account,
            owner,
            terms: *terms,
        });
        rows.collect()
    }
}

pub(crate) fn stand(row: &tokio_postgres::Row) -> Result<Stand, DatabaseError> {
    let position = u64::try_from(row.try_get::<_, i64>(0)?).map_err(|error| {
        DatabaseError::Unreadable { table: "projectors", detail: error.to_string() }
    })?;
    let Instant(log_time) = row.try_get(1)?;
    Ok(Stand { cursor: Cursor(position), log_time })
}
