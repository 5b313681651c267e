//! Home's entries of an account: their order, their sums, and whose calls they are.

use std::collections::BTreeMap;

use purser_api::{Bucket, DeciderRole, Entry, EntryKind};

use super::super::book::Asked;
use super::super::difference::{Difference, same};
use super::super::journal::Journal;
use super::ShownAtHome;

/// Checks that the entries follow each other, that no bucket ever is below zero, and that they add up
/// to the balance. Returns how much regions have spent beyond what was granted, as it was booked.
pub(super) fn check(journal: &Journal, shown: &ShownAtHome) -> Result<u64, Difference> {
    let mut sums: BTreeMap<Bucket, i128> = BTreeMap::new();
    let mut overspent: i128 = 0;
    for (place, entry) in shown.entries.iter().enumerate() {
        let what = |field: &str| format!("entry {}, {field}", place + 1);
        same(&what("sequence"), entry.sequence.0.0, super::count(place + 1))?;
        let before = place.checked_sub(1).and_then(|before| shown.entries.get(before));
        if let Some(before) = before {
            same(&what("hash of the entry before"), &entry.prev_hash, &before.hash)?;
            let goes_back = entry.log_time.0 < before.log_time.0;
            same(&what("log time goes back"), goes_back, false)?;
        }
        let postings = || entry.postings.iter().map(|posting| i128::from(posting.amount.get()));
        same(&what("sum of the postings"), postings().sum::<i128>(), 0)?;
        for posting in &entry.postings {
            let amount = i128::from(posting.amount.get());
            let sum = sums.entry(posting.bucket.clone()).or_default();
            // Credits come out of these two, so what leaves them makes them grow.
            let is_source = matches!(posting.bucket, Bucket::Granted | Bucket::Debt);
            *sum += if is_source { -amount } else { amount };
            if *sum < 0 {
                let text = format!("{} is {sum}", posting.bucket);
                return Err(Difference(format!("entry {}: {text}", place + 1)));
            }
            let is_settled = matches!(entry.kind, EntryKind::Settle | EntryKind::Return);
            if is_settled && posting.bucket == Bucket::Debt && amount < 0 {
                overspent -= amount;
            }
        }
    }
    check_balance(&sums, shown)?;
    check_keys(journal, &shown.entries)?;
    Ok(u64::try_from(overspent).unwrap_or(u64::MAX))
}

fn check_balance(sums: &BTreeMap<Bucket, i128>, shown: &ShownAtHome) -> Result<(), Difference> {
    let balance = &shown.balance;
    same("last entry", balance.as_of.sequence.0.0, super::count(shown.entries.len()))?;
    let buckets = &balance.buckets;
    let figures = [
        (Bucket::Granted, &buckets.granted),
        (Bucket::Available, &buckets.available),
        (Bucket::Held, &buckets.held),
        (Bucket::Used, &buckets.used),
        (Bucket::Expired, &buckets.expired),
        (Bucket::Voided, &buckets.voided),
        (Bucket::Debt, &buckets.debt),
    ];
    let sum = |bucket: &Bucket| sums.get(bucket).copied().unwrap_or_default();
    for (bucket, figure) in &figures {
        same(&format!("{bucket} by the entries"), i128::from(figure.0.get()), sum(bucket))?;
    }
    let out = sums.iter().filter_map(|(bucket, sum)| match bucket {
        Bucket::Allocated(region) if *sum != 0 => Some((region.to_string(), *sum)),
        _ => None,
    });
    let allocated = buckets.allocated.iter();
    let allocated = allocated.map(|(region, out)| (region.clone(), i128::from(out.0.get())));
    same("allocated by the entries", allocated.collect::<BTreeMap<_, _>>(), out.collect())
}

/// No key has two entries here, and none that nobody sent or that was refused.
fn check_keys(journal: &Journal, entries: &[Entry]) -> Result<(), Difference> {
    let mut seen = BTreeMap::new();
    for entry in entries {
        let Some(key) = &entry.idempotency_key else { continue };
        let (key, sequence) = (key.0.as_str(), entry.sequence.0.0);
        let wrong = |why: String| Difference(format!("entry {sequence}, key {key}: {why}"));
        if let Some(before) = seen.insert(key, sequence) {
            return Err(wrong(format!("entry {before} had it before")));
        }
        match journal.calls.get(key) {
            None if journal.operators.contains(key) => (),
            None => return Err(wrong("nobody sent it".to_owned())),
            Some(call) => {
                if let Some(refusal) = call.refusal() {
                    return Err(wrong(format!("its call was refused with {refusal}")));
                }
            }
        }
    }
    Ok(())
}

/// Each call that made something at home has the entry it was answered with. Returns how many accepted
/// calls there were, wherever they were decided.
pub(super) fn check_answers(journal: &Journal, entries: &[Entry]) -> Result<u64, Difference> {
    let by_key: BTreeMap<&str, u64> = entries
        .iter()
        .filter_map(|entry| Some((entry.idempotency_key.as_ref()?.0.as_str(), entry.sequence.0.0)))
        .collect();
    let mut answers = 0;
    for (key, call) in &journal.calls {
        let Some(receipt) = call.receipt() else { continue };
        answers += 1;
        let is_home = match &call.asked {
            Asked::Open(_) | Asked::Grant(_) | Asked::Void { .. } => true,
            Asked::Authorize { .. } | Asked::Charge { .. } => is_of_home(&receipt.id),
            Asked::Capture(_)
            | Asked::Release { .. }
            | Asked::Refund { .. }
            // Once an allocation is closed, home decides about what was made under it.
            | Asked::Reclaim { .. } => {
                let is_by_home = call.by.is_some_and(|by| by.role == DeciderRole::Home);
                is_by_home || call.about.as_deref().is_some_and(is_of_home)
            }
        };
        let entry = by_key.get(key.as_str()).copied();
        let expected = is_home.then_some(receipt.sequence);
        same(&format!("home's entry of key {key}"), entry, expected)?;
    }
    Ok(answers)
}

/// Whether an id such as `h42-0-us` was made by a home, which is generation 0.
fn is_of_home(id: &str) -> bool {
    id.split('-').nth(1) == Some("0")
}
