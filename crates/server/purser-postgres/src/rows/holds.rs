//! Holds and charges, home's own and those that regions decided.

use deadpool_postgres::Transaction;
use purser_ledger::{AccountName, Hold, HoldAfter, HoldKind, HoldState, Source};
use purser_types::{LogTime, Sequence};
use tokio_postgres::types::Json;

use super::Columns;
use crate::error::DatabaseError;
use crate::values::{Instant, Part, amount, number, text};

/// A hold or charge as it stands.
#[derive(Debug)]
pub(crate) struct HoldRow<'a> {
    pub(crate) account: &'a AccountName,
    pub(crate) after: HoldAfter,
    pub(crate) sequence: Sequence,
}

/// An allocation that was closed, by the entry that opened it.
#[derive(Debug)]
pub(crate) struct ClosedRow<'a> {
    pub(crate) account: &'a AccountName,
    pub(crate) opened_by: Sequence,
    pub(crate) log_time: LogTime,
    pub(crate) sequence: Sequence,
}

const fn kind(kind: HoldKind) -> &'static str {
    match kind {
        HoldKind::Hold => "hold",
        HoldKind::Charge => "charge",
    }
}

const fn state(state: HoldState) -> &'static str {
    match state {
        HoldState::Active => "active",
        HoldState::Captured => "captured",
        HoldState::Released => "released",
        HoldState::Expired => "expired",
    }
}

fn made_with(hold: &Hold) -> Vec<Part> {
    let parts = hold.lots.iter();
    parts.map(|part| Part::Lot { lot: part.lot.0.0, amount: part.amount.to_string() }).collect()
}

fn spent(hold: &Hold) -> Vec<Part> {
    let parts = hold.spent.iter().map(|spend| match spend.source {
        Source::Lot(lot) => Part::Lot { lot: lot.0.0, amount: spend.amount.to_string() },
        Source::Debt(origin) => Part::Debt { debt: origin.0, amount: spend.amount.to_string() },
    });
    parts.collect()
}

fn debt(hold: &Hold) -> u128 {
    let owed = hold.spent.iter().filter(|spend| matches!(spend.source, Source::Debt(_)));
    owed.map(|spend| u128::from(spend.amount.get())).sum()
}

/// Writes holds and charges.
pub(crate) async fn write_holds(
    transaction: &Transaction<'_>,
    rows: &[&HoldRow<'_>],
) -> Result<(), DatabaseError> {
    Columns::of(rows)
        .with(|row| row.account.tenant.as_str())
        .with(|row| row.account.unit.as_str())
        .with(|row| number(row.after.hold.allocation.0))
        .with(|row| number(row.after.hold.number.0.0))
        .with(|row| row.after.owner.as_ref().map(|owner| owner.region.as_str()))
        .with(|row| row.after.owner.map(|owner| number(owner.generation.0)))
        .with(|row| kind(row.after.hold.kind))
        .with(|row| state(row.after.hold.state))
        .with(|row| amount(row.after.hold.amount))
        .with(|row| amount(row.after.hold.captured))
        .with(|row| amount(row.after.hold.refunded))
        .with(|row| row.after.hold.reclaimed.map(amount))
        .with(|row| amount(row.after.hold.held))
        .with(|row| debt(&row.after.hold).to_string())
        .with(|row| Instant(row.after.hold.created_at))
        .with(|row| Instant(row.after.hold.expires_at))
        .with(|row| row.after.hold.reference.as_deref().map(text))
        .with(|row| Json(made_with(&row.after.hold)))
        .with(|row| Json(spent(&row.after.hold)))
        .with(|row| number(row.sequence.0))
        .write(
            transaction,
            // Home's later entries about a region's hold do not say again which region's it is.
            "INSERT INTO holds (
                 tenant, unit, allocation, number, region, generation, kind, state, amount,
                 captured, refunded, reclaimed, held, debt, created_at, expires_at, reference, lots,
                 spent, entry_sequence)
             SELECT
                 tenant, unit, allocation, number, region, generation, kind, state, amount,
                 captured, refunded, reclaimed, held, debt::NUMERIC, created_at, expires_at,
                 reference, lots, spent, entry_sequence
             FROM unnest(
                 $1::TEXT[], $2::TEXT[], $3::BIGINT[], $4::BIGINT[], $5::TEXT[], $6::BIGINT[],
                 $7::TEXT[], $8::TEXT[], $9::BIGINT[], $10::BIGINT[], $11::BIGINT[],
                 $12::BIGINT[], $13::BIGINT[], $14::TEXT[], $15::TIMESTAMPTZ[],
                 $16::TIMESTAMPTZ[], $17::TEXT[], $18::JSONB[], $19::JSONB[], $20::BIGINT[]
             ) AS new (
                 tenant, unit, allocation, number, region, generation, kind, state, amount,
                 captured, refunded, reclaimed, held, debt, created_at, expires_at, reference, lots,
                 spent, entry_sequence)
             ON CONFLICT (tenant, unit, allocation, number) DO UPDATE SET (
                 region, generation, state, captured, refunded, reclaimed, held, debt, expires_at,
                 spent, entry_sequence
             ) = (
                 coalesce(excluded.region, holds.region),
                 coalesce(excluded.generation, holds.generation), excluded.state,
                 excluded.captured, excluded.refunded, excluded.reclaimed, excluded.held,
                 excluded.debt, excluded.expires_at, excluded.spent, excluded.entry_sequence)",
        )
        .await
}

/// Ends the holds of allocations that were closed: what they held has come home.
pub(crate) async fn end_holds_of_closed(
    transaction: &Transaction<'_>,
    rows: &[ClosedRow<'_>],
) -> Result<(), DatabaseError> {
    Columns::of(rows)
        .with(|row| row.account.tenant.as_str())
        .with(|row| row.account.unit.as_str())
        .with(|row| number(row.opened_by.0))
        .with(|row| Instant(row.log_time))
        .with(|row| number(row.sequence.0))
        .write(
            transaction,
            "UPDATE holds SET
                 state = 'expired', held = 0, expires_at = least(expires_at, closed.log_time),
                 entry_sequence = closed.sequence
             FROM unnest(
                 $1::TEXT[], $2::TEXT[], $3::BIGINT[], $4::TIMESTAMPTZ[], $5::BIGINT[]
             ) AS closed (tenant, unit, allocation, log_time, sequence)
             WHERE holds.tenant = closed.tenant AND holds.unit = closed.unit
                 AND holds.allocation = closed.allocation AND holds.state = 'active'",
        )
        .await
}
