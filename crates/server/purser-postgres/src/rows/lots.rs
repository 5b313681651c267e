//! Lots: written whole, and read back to be folded on.

use std::collections::{BTreeMap, BTreeSet};

use deadpool_postgres::Transaction;
use purser_ledger::{AccountName, Category, Lot, LotNumber, LotPhase, LotTerms};
use purser_types::{Credits, Sequence};
use tokio_postgres::Row;

use super::Columns;
use crate::error::DatabaseError;
use crate::values::{Instant, amount, number, text};

/// A lot as it stands.
#[derive(Debug)]
pub(crate) struct LotRow<'a> {
    pub(crate) account: &'a AccountName,
    pub(crate) number: LotNumber,
    pub(crate) lot: &'a Lot,
    pub(crate) sequence: Sequence,
}

const fn category(category: Category) -> &'static str {
    match category {
        Category::Promotional => "promotional",
        Category::Paid => "paid",
    }
}

const fn phase(phase: LotPhase) -> &'static str {
    match phase {
        LotPhase::Pending => "pending",
        LotPhase::Active => "active",
        LotPhase::Expired => "expired",
        LotPhase::Voided => "voided",
    }
}

/// Writes lots.
pub(crate) async fn write_lots(
    transaction: &Transaction<'_>,
    rows: &[LotRow<'_>],
) -> Result<(), DatabaseError> {
    Columns::of(rows)
        .with(|row| row.account.tenant.as_str())
        .with(|row| row.account.unit.as_str())
        .with(|row| number(row.number.0.0))
        .with(|row| amount(row.lot.terms.amount))
        .with(|row| category(row.lot.terms.category))
        .with(|row| i16::from(row.lot.terms.priority))
        .with(|row| Instant(row.lot.terms.effective_at))
        .with(|row| row.lot.terms.expires_at.map(Instant))
        .with(|row| row.lot.terms.source_ref.as_deref().map(text))
        .with(|row| phase(row.lot.phase))
        .with(|row| amount(row.lot.waiting))
        .with(|row| amount(row.lot.free))
        .with(|row| amount(row.lot.held))
        .with(|row| amount(row.lot.used))
        .with(|row| amount(row.lot.expired))
        .with(|row| amount(row.lot.voided))
        .with(|row| amount(row.lot.allocated))
        .with(|row| number(row.sequence.0))
        .write(
            transaction,
            "INSERT INTO lots (
                 tenant, unit, number, amount, category, priority, effective_at, expires_at,
                 source_ref, phase, waiting, free, held, used, expired, voided, allocated,
                 entry_sequence)
             SELECT * FROM unnest(
                 $1::TEXT[], $2::TEXT[], $3::BIGINT[], $4::BIGINT[], $5::TEXT[], $6::SMALLINT[],
                 $7::TIMESTAMPTZ[], $8::TIMESTAMPTZ[], $9::TEXT[], $10::TEXT[], $11::BIGINT[],
                 $12::BIGINT[], $13::BIGINT[], $14::BIGINT[], $15::BIGINT[], $16::BIGINT[],
                 $17::BIGINT[], $18::BIGINT[])
             ON CONFLICT (tenant, unit, number) DO UPDATE SET (
                 phase, waiting, free, held, used, expired, voided, allocated, entry_sequence
             ) = (
                 excluded.phase, excluded.waiting, excluded.free, excluded.held, excluded.used,
                 excluded.expired, excluded.voided, excluded.allocated, excluded.entry_sequence)",
        )
        .await
}

/// The lots among `wanted` that are in the table.
pub(crate) async fn read_lots(
    transaction: &Transaction<'_>,
    wanted: &BTreeSet<(AccountName, LotNumber)>,
) -> Result<BTreeMap<AccountName, BTreeMap<LotNumber, Lot>>, DatabaseError> {
    let mut lots: BTreeMap<AccountName, BTreeMap<LotNumber, Lot>> = BTreeMap::new();
    if wanted.is_empty() {
        return Ok(lots);
    }
    let statement = transaction
        .prepare_cached(
            "SELECT
                 place, lots.number, amount, category, priority, effective_at, expires_at,
                 source_ref, phase, waiting, free, held, used, expired, voided, allocated
             FROM unnest($1::TEXT[], $2::TEXT[], $3::BIGINT[])
                 WITH ORDINALITY AS wanted (tenant, unit, number, place)
             JOIN lots USING (tenant, unit, number)",
        )
        .await?;
    let tenants: Vec<&str> = wanted.iter().map(|(account, _)| account.tenant.as_str()).collect();
    let units: Vec<&str> = wanted.iter().map(|(account, _)| account.unit.as_str()).collect();
    let numbers: Vec<i64> = wanted.iter().map(|(_, lot)| number(lot.0.0)).collect();
    let accounts: Vec<&AccountName> = wanted.iter().map(|(account, _)| account).collect();
    for row in transaction.query(&statement, &[&tenants, &units, &numbers]).await? {
        let place = usize::try_from(row.try_get::<_, i64>(0)?).unwrap_or(usize::MAX);
        let account = accounts.get(place.saturating_sub(1));
        let account = account.ok_or_else(|| unreadable("a lot that was not asked for".into()))?;
        let number = LotNumber(Sequence(count(&row, 1)?));
        lots.entry((*account).clone()).or_default().insert(number, lot(&row)?);
    }
    Ok(lots)
}

fn lot(row: &Row) -> Result<Lot, DatabaseError> {
    let terms = LotTerms {
        amount: credits(row, 2)?,
        category: match row.try_get(3)? {
            "promotional" => Category::Promotional,
            "paid" => Category::Paid,
            other => return Err(unreadable(format!("category {other:?}"))),
        },
        priority: u8::try_from(row.try_get::<_, i16>(4)?)
            .map_err(|error| unreadable(format!("priority: {error}")))?,
        effective_at: row.try_get::<_, Instant>(5)?.0,
        expires_at: row.try_get::<_, Option<Instant>>(6)?.map(|instant| instant.0),
        source_ref: row.try_get::<_, Option<&str>>(7)?.map(Into::into),
    };
    Ok(Lot {
        terms,
        phase: match row.try_get(8)? {
            "pending" => LotPhase::Pending,
            "active" => LotPhase::Active,
            "expired" => LotPhase::Expired,
            "voided" => LotPhase::Voided,
            other => return Err(unreadable(format!("phase {other:?}"))),
        },
        waiting: credits(row, 9)?,
        free: credits(row, 10)?,
        held: credits(row, 11)?,
        used: credits(row, 12)?,
        expired: credits(row, 13)?,
        voided: credits(row, 14)?,
        // Nothing is given back to home at home, and covers are lots of regions.
        returned: Credits::ZERO,
        allocated: credits(row, 15)?,
        only_for: None,
    })
}

fn count(row: &Row, column: usize) -> Result<u64, DatabaseError> {
    let value: i64 = row.try_get(column)?;
    u64::try_from(value).map_err(|error| unreadable(format!("column {column}: {error}")))
}

fn credits(row: &Row, column: usize) -> Result<Credits, DatabaseError> {
    let credits = Credits::from_u64(count(row, column)?);
    credits.map_err(|error| unreadable(format!("column {column} {error}")))
}

const fn unreadable(detail: String) -> DatabaseError {
    DatabaseError::Unreadable { table: "lots", detail }
}
