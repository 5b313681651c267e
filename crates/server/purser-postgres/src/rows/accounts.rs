//! Accounts: how they stand, their balances, and who decides for them.

use std::collections::BTreeMap;

use deadpool_postgres::Transaction;
use purser_ledger::{AccountName, AccountStatus, Balance, Standing};
use purser_types::{Credits, Epoch, LogTime, Region, Sequence};

use super::Columns;
use crate::before::BookTerms;
use crate::error::DatabaseError;
use crate::values::{Instant, amount, number};

/// How an account stands.
#[derive(Debug)]
pub(crate) struct StandingRow<'a> {
    pub(crate) account: &'a AccountName,
    pub(crate) standing: &'a Standing,
    pub(crate) epoch: Epoch,
    pub(crate) sequence: Sequence,
}

/// An account's balance after its last entry.
#[derive(Debug)]
pub(crate) struct BalanceRow<'a> {
    pub(crate) account: &'a AccountName,
    pub(crate) balance: &'a Balance,
    pub(crate) sequence: Sequence,
    pub(crate) log_time: LogTime,
    pub(crate) hash: &'a [u8],
}

/// Credits that are out in a region.
#[derive(Debug)]
pub(crate) struct AllocatedRow<'a> {
    pub(crate) account: &'a AccountName,
    pub(crate) region: &'a Region,
    pub(crate) amount: Credits,
}

/// How long a book remembers what it decides from now on.
#[derive(Debug)]
pub(crate) struct BookRow<'a> {
    pub(crate) account: &'a AccountName,
    pub(crate) owner: &'a str,
    pub(crate) terms: BookTerms,
}

const fn status(status: AccountStatus) -> &'static str {
    match status {
        AccountStatus::Open => "open",
        AccountStatus::Frozen => "frozen",
        AccountStatus::Closed => "closed",
    }
}

fn allocated(by_region: &BTreeMap<Region, Credits>) -> u128 {
    by_region.values().map(|credits| u128::from(credits.get())).sum()
}

/// Writes how accounts stand.
pub(crate) async fn write_standings(
    transaction: &Transaction<'_>,
    rows: &[StandingRow<'_>],
) -> Result<(), DatabaseError> {
    Columns::of(rows)
        .with(|row| row.account.tenant.as_str())
        .with(|row| row.account.unit.as_str())
        .with(|row| status(row.standing.status))
        .with(|row| row.standing.home.as_str())
        .with(|row| number(row.epoch.0))
        .with(|row| Instant(row.standing.opened_at))
        .with(|row| amount(row.standing.policy.debt_limit))
        .with(|row| amount(row.standing.policy.takeback_cap))
        .with(|row| amount(row.standing.policy.unacknowledged_max))
        .with(|row| row.standing.policy.key_retention.as_micros().to_string())
        .with(|row| row.standing.policy.record_retention.as_micros().to_string())
        .with(|row| number(row.sequence.0))
        .write(
            transaction,
            "INSERT INTO accounts (
                 tenant, unit, status, home, epoch, opened_at, debt_limit, takeback_cap,
                 unacknowledged_max, key_retention_micros, record_retention_micros, entry_sequence)
             SELECT
                 tenant, unit, status, home, epoch, opened_at, debt_limit, takeback_cap,
                 unacknowledged_max, key_retention::NUMERIC, record_retention::NUMERIC,
                 entry_sequence
             FROM unnest(
                 $1::TEXT[], $2::TEXT[], $3::TEXT[], $4::TEXT[], $5::BIGINT[], $6::TIMESTAMPTZ[],
                 $7::BIGINT[], $8::BIGINT[], $9::BIGINT[], $10::TEXT[], $11::TEXT[], $12::BIGINT[]
             ) AS new (
                 tenant, unit, status, home, epoch, opened_at, debt_limit, takeback_cap,
                 unacknowledged_max, key_retention, record_retention, entry_sequence)
             ON CONFLICT (tenant, unit) DO UPDATE SET (
                 status, home, epoch, opened_at, debt_limit, takeback_cap, unacknowledged_max,
                 key_retention_micros, record_retention_micros, entry_sequence
             ) = (
                 excluded.status, excluded.home, excluded.epoch, excluded.opened_at,
                 excluded.debt_limit, excluded.takeback_cap, excluded.unacknowledged_max,
                 excluded.key_retention_micros, excluded.record_retention_micros,
                 excluded.entry_sequence)",
        )
        .await
}

/// Writes balances.
pub(crate) async fn write_balances(
    transaction: &Transaction<'_>,
    rows: &[BalanceRow<'_>],
) -> Result<(), DatabaseError> {
    Columns::of(rows)
        .with(|row| row.account.tenant.as_str())
        .with(|row| row.account.unit.as_str())
        .with(|row| number(row.sequence.0))
        .with(|row| Instant(row.log_time))
        .with(|row| row.hash)
        .with(|row| amount(row.balance.granted))
        .with(|row| amount(row.balance.available))
        .with(|row| amount(row.balance.held))
        .with(|row| amount(row.balance.used))
        .with(|row| amount(row.balance.expired))
        .with(|row| amount(row.balance.voided))
        .with(|row| amount(row.balance.debt))
        .with(|row| amount(row.balance.pending))
        .with(|row| allocated(&row.balance.allocated).to_string())
        .with(|row| row.balance.authorized.to_string())
        .with(|row| row.balance.captured.to_string())
        .with(|row| row.balance.released.to_string())
        .with(|row| row.balance.refunded.to_string())
        .with(|row| row.balance.reclaimed.to_string())
        .write(
            transaction,
            "INSERT INTO balances (
                 tenant, unit, sequence, log_time, hash, granted, available, held, used, expired,
                 voided, debt, pending, allocated, authorized, captured, released, refunded,
                 reclaimed)
             SELECT
                 tenant, unit, sequence, log_time, hash, granted, available, held, used, expired,
                 voided, debt, pending, allocated::NUMERIC, authorized::NUMERIC, captured::NUMERIC,
                 released::NUMERIC, refunded::NUMERIC, reclaimed::NUMERIC
             FROM unnest(
                 $1::TEXT[], $2::TEXT[], $3::BIGINT[], $4::TIMESTAMPTZ[], $5::BYTEA[],
                 $6::BIGINT[], $7::BIGINT[], $8::BIGINT[], $9::BIGINT[], $10::BIGINT[],
                 $11::BIGINT[], $12::BIGINT[], $13::BIGINT[], $14::TEXT[], $15::TEXT[],
                 $16::TEXT[], $17::TEXT[], $18::TEXT[], $19::TEXT[]
             ) AS new (
                 tenant, unit, sequence, log_time, hash, granted, available, held, used, expired,
                 voided, debt, pending, allocated, authorized, captured, released, refunded,
                 reclaimed)
             ON CONFLICT (tenant, unit) DO UPDATE SET (
                 sequence, log_time, hash, granted, available, held, used, expired, voided, debt,
                 pending, allocated, authorized, captured, released, refunded, reclaimed
             ) = (
                 excluded.sequence, excluded.log_time, excluded.hash, excluded.granted,
                 excluded.available, excluded.held, excluded.used, excluded.expired,
                 excluded.voided, excluded.debt, excluded.pending, excluded.allocated,
                 excluded.authorized, excluded.captured, excluded.released, excluded.refunded,
                 excluded.reclaimed)",
        )
        .await
}

/// Writes what of accounts is out in regions: `rows` is all of it, for each of `accounts`.
pub(crate) async fn write_allocated(
    transaction: &Transaction<'_>,
    accounts: &[BalanceRow<'_>],
    rows: &[AllocatedRow<'_>],
) -> Result<(), DatabaseError> {
    Columns::of(accounts)
        .with(|row| row.account.tenant.as_str())
        .with(|row| row.account.unit.as_str())
        .write(
            transaction,
            "DELETE FROM allocated USING unnest($1::TEXT[], $2::TEXT[]) AS new (tenant, unit)
             WHERE allocated.tenant = new.tenant AND allocated.unit = new.unit",
        )
        .await?;
    Columns::of(rows)
        .with(|row| row.account.tenant.as_str())
        .with(|row| row.account.unit.as_str())
        .with(|row| row.region.as_str())
        .with(|row| amount(row.amount))
        .write(
            transaction,
            "INSERT INTO allocated (tenant, unit, region, amount)
             SELECT * FROM unnest($1::TEXT[], $2::TEXT[], $3::TEXT[], $4::BIGINT[])",
        )
        .await
}

/// Writes how long books remember what they decide.
pub(crate) async fn write_books(
    transaction: &Transaction<'_>,
    rows: &[BookRow<'_>],
) -> Result<(), DatabaseError> {
    Columns::of(rows)
        .with(|row| row.account.tenant.as_str())
        .with(|row| row.account.unit.as_str())
        .with(|row| row.owner)
        .with(|row| row.terms.key_retention.as_micros().to_string())
        .with(|row| row.terms.event_age.map(|age| age.as_micros().to_string()))
        .write(
            transaction,
            "INSERT INTO books (tenant, unit, owner, key_retention_micros, event_age_micros)
             SELECT tenant, unit, owner, key_retention::NUMERIC, event_age::NUMERIC
             FROM unnest($1::TEXT[], $2::TEXT[], $3::TEXT[], $4::TEXT[], $5::TEXT[])
                 AS new (tenant, unit, owner, key_retention, event_age)
             ON CONFLICT (tenant, unit, owner)
             DO UPDATE SET (key_retention_micros, event_age_micros)
                 = (excluded.key_retention_micros, excluded.event_age_micros)",
        )
        .await
}
