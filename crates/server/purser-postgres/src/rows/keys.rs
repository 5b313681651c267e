//! Idempotency keys that are still remembered: a second decision under one of them is refused by the table.

use deadpool_postgres::Transaction;
use purser_ledger::AccountName;
use purser_types::{IdempotencyKey, LogTime, Sequence};

use super::Columns;
use crate::error::DatabaseError;
use crate::source::Shard;
use crate::values::{Instant, number};

/// A decision under a key.
#[derive(Debug)]
pub(crate) struct KeyRow<'a> {
    pub(crate) account: &'a AccountName,
    pub(crate) owner: String,
    pub(crate) key: &'a IdempotencyKey,
    /// Home's entry that tells of it.
    pub(crate) sequence: Sequence,
    /// When it was decided, on the clock of whoever did.
    pub(crate) decided_at: LogTime,
    /// When it is forgotten, on the same clock.
    pub(crate) ends_at: LogTime,
}

/// Adds decisions. One that was forgotten when the new one was taken makes room for it; one that was not
/// stops the projector.
pub(crate) async fn write_keys(
    transaction: &Transaction<'_>,
    shard: &Shard,
    rows: &[KeyRow<'_>],
) -> Result<(), DatabaseError> {
    Columns::of(rows)
        .with(|row| row.account.tenant.as_str())
        .with(|row| row.account.unit.as_str())
        .with(|row| row.owner.as_str())
        .with(|row| row.key.as_str())
        .with(|row| Instant(row.decided_at))
        .write(
            transaction,
            "DELETE FROM keys USING unnest(
                 $1::TEXT[], $2::TEXT[], $3::TEXT[], $4::TEXT[], $5::TIMESTAMPTZ[]
             ) AS new (tenant, unit, owner, key, decided_at)
             WHERE keys.tenant = new.tenant AND keys.unit = new.unit AND keys.owner = new.owner
                 AND keys.key = new.key AND keys.ends_at <= new.decided_at",
        )
        .await?;
    Columns::of(rows)
        .with(|row| row.account.tenant.as_str())
        .with(|row| row.account.unit.as_str())
        .with(|row| row.owner.as_str())
        .with(|row| row.key.as_str())
        .with(|row| number(row.sequence.0))
        .with(|row| Instant(row.ends_at))
        .with(|_| shard.as_str())
        .write(
            transaction,
            "INSERT INTO keys (tenant, unit, owner, key, entry_sequence, ends_at, shard)
             SELECT * FROM unnest(
                 $1::TEXT[], $2::TEXT[], $3::TEXT[], $4::TEXT[], $5::BIGINT[], $6::TIMESTAMPTZ[],
                 $7::TEXT[])",
        )
        .await
}

/// Deletes what a shard has forgotten by `log_time`.
pub(crate) async fn forget_ended(
    transaction: &Transaction<'_>,
    shard: &Shard,
    log_time: LogTime,
) -> Result<(), DatabaseError> {
    for statement in [
        "DELETE FROM keys WHERE shard = $1 AND ends_at <= $2",
        "DELETE FROM events WHERE shard = $1 AND ends_at <= $2",
    ] {
        let statement = transaction.prepare_cached(statement).await?;
        transaction.execute(&statement, &[&shard.as_str(), &Instant(log_time)]).await?;
    }
    Ok(())
}
