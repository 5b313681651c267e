//! An account's balance, lifetime totals and lots, against sums of what was answered.

use std::collections::BTreeMap;

use purser_api::{Lot, LotCategory, LotStatus, TotalAmount};
use tokio::time::Instant;

use super::super::book::{Asked, Granting};
use super::super::difference::{Difference, same};
use super::super::journal::Journal;
use super::ShownAtHome;
use super::works::{Work, Works};

/// Compares all sums; of a tenant with calls that were given up, only the lots with the balance.
pub(super) fn check(
    journal: &Journal,
    works: &Works<'_>,
    shown: &ShownAtHome,
) -> Result<(), Difference> {
    let regranted = check_lots(journal, &shown.lots)?;
    check_lots_add_up(shown)?;
    let buckets = &shown.balance.buckets;
    let (available, debt) = (buckets.available.0.get(), buckets.debt.0.get());
    if available > 0 && debt > 0 {
        return Err(Difference(format!("{available} available beside a debt of {debt}")));
    }
    if works.is_unsure {
        return Ok(());
    }
    let now = Instant::now();
    let sum = |of: &dyn Fn(&Work<'_>) -> u64| -> u64 { works.by_id.values().map(of).sum() };
    let held_if =
        |home: bool| sum(&|work| if work.is_of_home() == home { work.held(now) } else { 0 });
    same("used", buckets.used.0.get(), sum(&|work| work.used()))?;
    same("held", buckets.held.0.get(), held_if(true))?;
    let (held_away, out) = (held_if(false), out_of(shown));
    if out < held_away {
        let text = format!("{out} are out in regions, whose holds hold {held_away}");
        return Err(Difference(text));
    }
    same("granted", buckets.granted.0.get(), granted(journal, shown) + regranted)?;
    let totals = &shown.balance.totals;
    let check = |name: &str, shown: TotalAmount, expected: u64| {
        same(&format!("lifetime total {name}"), shown.0, u128::from(expected))
    };
    check("authorized", totals.authorized, sum(&|work| work.amount))?;
    check("captured", totals.captured, sum(&|work| work.captured))?;
    check("released", totals.released, sum(&|work| work.released(now)))?;
    check("refunded", totals.refunded, sum(&|work| work.refunded))?;
    check("reclaimed", totals.reclaimed, sum(&|work| work.reclaimed.unwrap_or_default()))
}

/// What is owed was made by regions, as it was booked, or allowed: by the account's policy, or because a
/// reclaim is always booked.
pub(super) fn check_debt(
    journal: &Journal,
    works: &Works<'_>,
    shown: &ShownAtHome,
    overspent: u64,
) -> Result<(), Difference> {
    let limits = journal.calls.values().filter_map(|call| match &call.asked {
        Asked::Open(opening) => Some(opening.debt_limit),
        _ => None,
    });
    let reclaimed = works.by_id.values().map(|work| work.reclaimed.unwrap_or_default());
    let allowed: u64 = limits.chain(reclaimed).sum();
    let debt = shown.balance.buckets.debt.0.get();
    if works.is_unsure || debt <= allowed.saturating_add(overspent) {
        return Ok(());
    }
    let text = format!("a debt of {debt}, of which {allowed} was allowed and {overspent} settled");
    Err(Difference(text))
}

fn out_of(shown: &ShownAtHome) -> u64 {
    shown.balance.buckets.allocated.values().map(|out| out.0.get()).sum()
}

/// What was granted in lots that are effective.
fn granted(journal: &Journal, shown: &ShownAtHome) -> u64 {
    let pending = shown.lots.iter().filter(|lot| lot.status == LotStatus::Pending);
    let pending: u64 = pending.map(|lot| lot.amount.0.get()).sum();
    let all: u64 = grants(journal).values().map(|granting| granting.amount).sum();
    all.saturating_sub(pending)
}

/// The grants that were accepted, by the lots they made.
fn grants(journal: &Journal) -> BTreeMap<&str, &Granting> {
    let granting = journal.calls.values().filter_map(|call| match &call.asked {
        Asked::Grant(granting) => Some((call.receipt()?.id.as_str(), granting)),
        _ => None,
    });
    granting.collect()
}

/// Each lot was granted as it is, or makes up for what lapsed in a refund. Returns what lots of the
/// second kind come to.
fn check_lots(journal: &Journal, lots: &[Lot]) -> Result<u64, Difference> {
    let mut grants = grants(journal);
    let regrants = journal
        .calls
        .values()
        .any(|call| matches!(&call.asked, Asked::Open(opening) if opening.regrant_days.is_some()));
    let mut regranted = 0;
    for lot in lots {
        let id = lot.lot_id.to_string();
        let amount = lot.amount.0.get();
        let is_promotional = lot.category == LotCategory::Promotional;
        let Some(granting) = grants.remove(id.as_str()) else {
            if !regrants || !is_promotional {
                return Err(Difference(format!("lot {id}: nothing made it")));
            }
            regranted += amount;
            continue;
        };
        let what = |field: &str| format!("lot {id}, {field}");
        same(&what("amount"), amount, granting.amount)?;
        same(&what("priority"), lot.priority, granting.priority)?;
        same(&what("promotional"), is_promotional, granting.promotional)?;
        same(&what("end"), lot.expires_at.as_ref().map(|at| at.0), granting.expires_at)?;
    }
    match grants.keys().next() {
        Some(missing) => Err(Difference(format!("lot {missing}: not shown"))),
        None => Ok(regranted),
    }
}

/// The parts of the lots add up to the buckets, and a lot that never ends has lost nothing but what is
/// out.
fn check_lots_add_up(shown: &ShownAtHome) -> Result<(), Difference> {
    let buckets = &shown.balance.buckets;
    let sum = |of: fn(&Lot) -> u64| -> u64 { shown.lots.iter().map(of).sum() };
    let free = buckets.available.0.get() + shown.balance.pending.0.get();
    same("free in all lots", sum(|lot| lot.free.0.get()), free)?;
    same("held in all lots", sum(|lot| lot.held.0.get()), buckets.held.0.get())?;
    let paid = buckets.used.0.get().saturating_sub(buckets.debt.0.get());
    same("used of all lots", sum(|lot| lot.used.0.get()), paid)?;
    let lasting = shown.lots.iter();
    let lasting = lasting.filter(|lot| lot.expires_at.is_none() && lot.status != LotStatus::Voided);
    let missing: u64 = lasting.map(missing_of).sum();
    let out = out_of(shown);
    if out < missing {
        let text = format!("{missing} are missing of lots that never end, and {out} are out");
        return Err(Difference(text));
    }
    Ok(())
}

/// What of a lot is neither free nor held nor used.
fn missing_of(lot: &Lot) -> u64 {
    let there = lot.free.0.get() + lot.held.0.get() + lot.used.0.get();
    lot.amount.0.get().saturating_sub(there)
}
