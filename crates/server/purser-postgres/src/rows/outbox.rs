//! The outbox: an event per entry, in the order of the shard's history.

use deadpool_postgres::Transaction;
use purser_ledger::AccountName;
use purser_types::{Epoch, LogTime, Sequence};

use super::Columns;
use crate::error::{DatabaseError, Violation};
use crate::source::{Cursor, Shard};
use crate::values::{Instant, number};

/// The place of an event among those of its entry. An entry makes one.
pub(crate) const ORDINAL: i32 = 0;

/// An event.
#[derive(Debug)]
pub(crate) struct OutboxRow<'a> {
    pub(crate) account: &'a AccountName,
    pub(crate) epoch: Epoch,
    pub(crate) sequence: Sequence,
    pub(crate) position: Cursor,
    pub(crate) kind: &'static str,
    pub(crate) log_time: LogTime,
}

/// Adds events, but for those that are there: an account that comes back after its rows went with a rebuild is
/// told from its first entry on, and what the outbox still has of its earlier stay is not published again.
pub(crate) async fn write_outbox(
    transaction: &Transaction<'_>,
    shard: &Shard,
    rows: &[OutboxRow<'_>],
) -> Result<(), DatabaseError> {
    let added = Columns::of(rows)
        .with(|_| shard.as_str())
        .with(|row| number(row.position.0))
        .with(|row| row.account.tenant.as_str())
        .with(|row| row.account.unit.as_str())
        .with(|row| number(row.epoch.0))
        .with(|row| number(row.sequence.0))
        .with(|_| ORDINAL)
        .with(|row| row.kind)
        .with(|row| Instant(row.log_time))
        .count(
            transaction,
            "INSERT INTO outbox (
                 shard, position, tenant, unit, epoch, sequence, ordinal, kind, log_time)
             SELECT * FROM unnest(
                 $1::TEXT[], $2::BIGINT[], $3::TEXT[], $4::TEXT[], $5::BIGINT[], $6::BIGINT[],
                 $7::INTEGER[], $8::TEXT[], $9::TIMESTAMPTZ[])
             ON CONFLICT DO NOTHING",
        )
        .await?;
    if is_all(added, rows) { Ok(()) } else { check_published(transaction, shard, rows).await }
}

/// Whoever was passed over must be there as it is: another event at its place, or another content under its
/// name, is no repetition.
async fn check_published(
    transaction: &Transaction<'_>,
    shard: &Shard,
    rows: &[OutboxRow<'_>],
) -> Result<(), DatabaseError> {
    let found = Columns::of(rows)
        .with(|row| row.account.tenant.as_str())
        .with(|row| row.account.unit.as_str())
        .with(|row| number(row.epoch.0))
        .with(|row| number(row.sequence.0))
        .with(|_| ORDINAL)
        .with(|row| row.kind)
        .with(|row| Instant(row.log_time))
        .count(
            transaction,
            "SELECT FROM outbox JOIN unnest(
                 $1::TEXT[], $2::TEXT[], $3::BIGINT[], $4::BIGINT[], $5::INTEGER[], $6::TEXT[],
                 $7::TIMESTAMPTZ[])
                 AS told (tenant, unit, epoch, sequence, ordinal, kind, log_time)
                 USING (tenant, unit, epoch, sequence, ordinal, kind, log_time)",
        )
        .await?;
    if is_all(found, rows) {
        return Ok(());
    }
    let [first, last] = [rows.first(), rows.last()].map(|row| row.map_or(0, |row| row.position.0));
    Err(DatabaseError::Violation(Violation {
        table: "outbox".to_owned(),
        constraint: "outbox_pkey".to_owned(),
        row: format!("another event is at one of the positions {first} to {last} of {shard}"),
    }))
}

fn is_all(count: u64, rows: &[OutboxRow<'_>]) -> bool {
    usize::try_from(count) == Ok(rows.len())
}
