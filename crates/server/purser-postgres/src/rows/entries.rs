//! Entries, with what people search them by.

use deadpool_postgres::Transaction;
use purser_ledger::{AccountName, Entry, Fact, HoldNumber};
use purser_types::{Epoch, Sequence};
use serde::Serialize;
use tokio_postgres::types::Json;

use super::Columns;
use crate::error::DatabaseError;
use crate::values::{Instant, Posted, number, text};

/// An entry and its bytes.
#[derive(Debug)]
pub(crate) struct EntryRow<'a> {
    pub(crate) account: &'a AccountName,
    pub(crate) epoch: Epoch,
    pub(crate) entry: &'a Entry,
    pub(crate) hash: &'a [u8],
    pub(crate) bytes: Vec<u8>,
}

/// The caller's notes, as a JSON object.
#[derive(Debug)]
struct Notes<'a>(&'a Entry);

impl Serialize for Notes<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.metadata.iter().map(|(key, value)| (text(key), text(value))))
    }
}

impl EntryRow<'_> {
    fn postings(&self) -> Vec<Posted> {
        let postings = self.entry.postings().into_iter();
        postings
            .map(|posting| Posted {
                bucket: posting.bucket.to_string(),
                amount: posting.amount.to_string(),
            })
            .collect()
    }

    /// How many credits came into buckets.
    fn moved(&self) -> i128 {
        let postings = self.entry.postings().into_iter();
        postings.map(|posting| posting.amount).filter(|amount| *amount > 0).sum()
    }

    fn hold(&self) -> Option<HoldNumber> {
        self.entry.fact.hold().map(|hold| hold.number)
    }

    fn allocation(&self) -> Option<Sequence> {
        let hold = self.entry.fact.hold()?;
        Some(hold.allocation).filter(|allocation| *allocation != Sequence::ZERO)
    }

    /// The lot that the entry makes, or brings into another phase of its life.
    fn lot(&self) -> Option<i64> {
        let fact: &Fact = &self.entry.fact;
        let changed = fact.new_phase().map(|(lot, _)| lot.0);
        let new = fact.new_lot().map(|_| self.entry.sequence);
        changed.or(new).map(|lot| number(lot.0))
    }
}

/// Adds entries.
pub(crate) async fn write_entries(
    transaction: &Transaction<'_>,
    rows: &[EntryRow<'_>],
) -> Result<(), DatabaseError> {
    Columns::of(rows)
        .with(|row| row.account.tenant.as_str())
        .with(|row| row.account.unit.as_str())
        .with(|row| number(row.entry.sequence.0))
        .with(|row| number(row.epoch.0))
        .with(|row| Instant(row.entry.log_time))
        .with(|row| row.entry.fact.kind())
        .with(|row| Json(row.postings()))
        .with(|row| row.moved().to_string())
        .with(|row| row.entry.operation.to_string())
        .with(|row| row.entry.key.as_ref().map(|key| key.as_str()))
        .with(|row| row.hold().map(|hold| number(hold.0.0)))
        .with(|row| row.allocation().map(|opened_by| number(opened_by.0)))
        .with(EntryRow::lot)
        .with(|row| row.entry.fact.hold().and_then(|hold| hold.reference.as_deref()).map(text))
        .with(|row| row.entry.actor.as_deref().map(text))
        .with(|row| row.entry.reason.as_deref().map(text))
        .with(|row| row.entry.request_id.as_deref().map(text))
        .with(|row| Json(Notes(row.entry)))
        .with(|row| &row.entry.prev_hash[..])
        .with(|row| row.hash)
        .with(|row| row.bytes.as_slice())
        .write(
            transaction,
            "INSERT INTO entries (
                 tenant, unit, sequence, epoch, log_time, kind, postings, moved, operation_id, key,
                 hold, allocation, lot, reference, actor, reason, request_id, metadata, prev_hash,
                 hash, entry)
             SELECT
                 tenant, unit, sequence, epoch, log_time, kind, postings, moved::NUMERIC,
                 operation_id, key, hold, allocation, lot, reference, actor, reason, request_id,
                 metadata, prev_hash, hash, entry
             FROM unnest(
                 $1::TEXT[], $2::TEXT[], $3::BIGINT[], $4::BIGINT[], $5::TIMESTAMPTZ[], $6::TEXT[],
                 $7::JSONB[], $8::TEXT[], $9::TEXT[], $10::TEXT[], $11::BIGINT[], $12::BIGINT[],
                 $13::BIGINT[], $14::TEXT[], $15::TEXT[], $16::TEXT[], $17::TEXT[], $18::JSONB[],
                 $19::BYTEA[], $20::BYTEA[], $21::BYTEA[]
             ) AS new (
                 tenant, unit, sequence, epoch, log_time, kind, postings, moved, operation_id, key,
                 hold, allocation, lot, reference, actor, reason, request_id, metadata, prev_hash,
                 hash, entry)",
        )
        .await
}
