//! Reading the outbox: what was published, in the order of a shard's history.
//!
//! One projector writes a shard's events, each page in the transaction that moves the cursor. So they
//! become visible in their order: whoever has read up to some position has missed nothing before it, and
//! waits for nothing that will never come.

use crate::database::Database;
use crate::error::DatabaseError;
use crate::query::{Found, read_found};
use crate::source::{Cursor, Shard};
use crate::values::number;

/// An event of the outbox. Its id is (account, epoch, sequence, ordinal), however often it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Where the entry stands in the shard's history.
    pub position: Cursor,
    /// The event's place among those of its entry.
    pub ordinal: u32,
    /// The entry, with its account and the epoch under which it was written.
    pub entry: Found,
}

impl Event {
    /// Where to read on after it.
    pub const fn next(&self) -> Cursor {
        Cursor(self.position.0.saturating_add(1))
    }
}

impl Database {
    /// A shard's events from `from` on: at most `max`.
    pub async fn published(
        &self,
        shard: &Shard,
        from: Cursor,
        max: u32,
    ) -> Result<Vec<Event>, DatabaseError> {
        let client = self.client().await?;
        let statement = client
            .prepare_cached(
                "SELECT position, ordinal, tenant, unit, outbox.epoch, entry, hash
                 FROM outbox JOIN entries USING (tenant, unit, sequence)
                 WHERE shard = $1 AND position >= $2 ORDER BY position, ordinal LIMIT $3",
            )
            .await?;
        let (shard, from, max) = (shard.as_str(), number(from.0), i64::from(max));
        let rows = client.query(&statement, &[&shard, &from, &max]).await?;
        let read = |row: &tokio_postgres::Row| {
            let unreadable = |error: std::num::TryFromIntError| {
                let detail = error.to_string();
                DatabaseError::Unreadable { table: "outbox", detail }
            };
            let position = u64::try_from(row.try_get::<_, i64>("position")?).map_err(unreadable)?;
            let ordinal = u32::try_from(row.try_get::<_, i32>("ordinal")?).map_err(unreadable)?;
            Ok(Event { position: Cursor(position), ordinal, entry: read_found(row)? })
        };
        rows.iter().map(read).collect()
    }

    /// Deletes a shard's events before `before`, which every reader has. Tells how many there were.
    pub async fn forget_published(
        &self,
        shard: &Shard,
        before: Cursor,
    ) -> Result<u64, DatabaseError> {
        let client = self.client().await?;
        let statement = "DELETE FROM outbox WHERE shard = $1 AND position < $2";
        Ok(client.execute(statement, &[&shard.as_str(), &number(before.0)]).await?)
    }
}
