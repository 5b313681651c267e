//! Usage events that are still remembered: a second effect of one of them is refused by the table.

use deadpool_postgres::Transaction;
use purser_ledger::{AccountName, EventName};
use purser_types::{LogTime, Sequence};

use super::Columns;
use crate::error::DatabaseError;
use crate::source::Shard;
use crate::values::{Instant, number};

/// An event that has done what it does.
#[derive(Debug)]
pub(crate) struct EventRow<'a> {
    pub(crate) account: &'a AccountName,
    pub(crate) name: &'a EventName,
    /// The entry that tells of it.
    pub(crate) sequence: Sequence,
    /// When it was taken.
    pub(crate) taken_at: LogTime,
    /// When it is forgotten.
    pub(crate) ends_at: LogTime,
    /// Whether it had been parked: people may have decided that a second event of one name counts as well.
    pub(crate) was_parked: bool,
}

/// Adds events. One that was forgotten when the new one was taken makes room for it; one that was not stops
/// the projector, unless the new one had been parked.
pub(crate) async fn write_events(
    transaction: &Transaction<'_>,
    shard: &Shard,
    rows: &[EventRow<'_>],
) -> Result<(), DatabaseError> {
    Columns::of(rows)
        .with(|row| row.account.tenant.as_str())
        .with(|row| row.account.unit.as_str())
        .with(|row| row.name.source())
        .with(|row| row.name.id())
        .with(|row| Instant(row.taken_at))
        .write(
            transaction,
            "DELETE FROM events USING unnest(
                 $1::TEXT[], $2::TEXT[], $3::TEXT[], $4::TEXT[], $5::TIMESTAMPTZ[]
             ) AS new (tenant, unit, source, id, taken_at)
             WHERE events.tenant = new.tenant AND events.unit = new.unit
                 AND events.source = new.source AND events.id = new.id
                 AND events.ends_at <= new.taken_at",
        )
        .await?;
    let (parked, taken): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.was_parked);
    let replacing = format!(
        "{INSERT} ON CONFLICT (tenant, unit, source, id) DO UPDATE SET (entry_sequence, ends_at)
             = (excluded.entry_sequence, greatest(events.ends_at, excluded.ends_at))"
    );
    insert(transaction, shard, (&taken, INSERT)).await?;
    insert(transaction, shard, (&parked, &replacing)).await
}

const INSERT: &str = "INSERT INTO events (tenant, unit, source, id, entry_sequence, ends_at, shard)
     SELECT * FROM unnest(
         $1::TEXT[], $2::TEXT[], $3::TEXT[], $4::TEXT[], $5::BIGINT[], $6::TIMESTAMPTZ[],
         $7::TEXT[])";

async fn insert(
    transaction: &Transaction<'_>,
    shard: &Shard,
    (rows, statement): (&[&EventRow<'_>], &str),
) -> Result<(), DatabaseError> {
    Columns::of(rows)
        .with(|row| row.account.tenant.as_str())
        .with(|row| row.account.unit.as_str())
        .with(|row| row.name.source())
        .with(|row| row.name.id())
        .with(|row| number(row.sequence.0))
        .with(|row| Instant(row.ends_at))
        .with(|_| shard.as_str())
        .write(transaction, statement)
        .await
}
