//! What was overspent at least when each bound was shown, by the answers that had come until then.
//!
//! A region's spending counts from the moment its answer is here, whether home has booked it or not: what
//! all books together would show as debt cannot be less than what was used beyond everything granted.

use std::collections::BTreeMap;

use serde::Serialize;
use tokio::time::Instant;

use super::book::Asked;
use super::desk::Desk;
use super::journal::{Entered, Journal};
use super::overspend::Sample;

/// The samples, and what was overspent at them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Sampled {
    /// How many there were.
    pub(crate) count: usize,
    /// The most that was overspent at any of them, at least.
    pub(crate) overspent_max: u64,
    /// The most by which that was beyond the bound that was shown; nothing if it never was.
    pub(crate) beyond_max: Option<u64>,
}

impl Sampled {
    /// Looks at every sample.
    pub(crate) fn of(desk: &Desk, samples: &[Sample]) -> Self {
        let mut overspent = vec![0_u64; samples.len()];
        for tenant in 0..desk.tenants_count() {
            let journal = desk.journal(tenant);
            let home = desk.home(tenant);
            let home = home.and_then(|place| desk.spread()?.regions().get(place).copied());
            let home = home.map(|region| region.to_string());
            for (sample, sum) in samples.iter().zip(&mut overspent) {
                let is_known = home.as_ref().is_none_or(|it| !sample.unknown_regions.contains(it));
                if is_known {
                    *sum = sum.saturating_add(overspent_at_least(&journal, sample));
                }
            }
        }
        let beyond = samples.iter().zip(&overspent);
        let beyond = beyond.filter_map(|(sample, sum)| sum.checked_sub(sample.bound));
        Self {
            count: samples.len(),
            overspent_max: overspent.iter().copied().max().unwrap_or_default(),
            beyond_max: beyond.max().filter(|beyond| *beyond > 0),
        }
    }
}

/// What a tenant had used beyond all that it was granted and allowed to owe. In doubt less: what was used
/// counts when its answer had come before the bound was asked for, and what was granted or refunded when it
/// was sent before the bound had come.
fn overspent_at_least(journal: &Journal, sample: &Sample) -> u64 {
    let mut works: BTreeMap<&str, u64> = BTreeMap::new();
    let mut covered = 0_u64;
    let mut calls: Vec<&Entered> = journal.calls.values().collect();
    calls.sort_by_key(|call| call.number);
    for call in calls {
        let is_decided = call.receipt().is_some() && is_before(call.decided_at, sample.asked_at);
        let may_count = call.refusal().is_none() && call.sent_at <= sample.answered_at;
        match &call.asked {
            Asked::Open(opening) => covered = covered.saturating_add(opening.debt_limit),
            Asked::Grant(granting) if may_count => {
                covered = covered.saturating_add(granting.amount)
            }
            Asked::Charge { amount, .. } if is_decided => {
                if let Some(receipt) = call.receipt() {
                    works.insert(&receipt.id, *amount);
                }
            }
            Asked::Capture(capturing) if is_decided => {
                let used = works.entry(call.about.as_deref().unwrap_or_default()).or_default();
                *used = used.saturating_add(capturing.amount.unwrap_or_default());
            }
            Asked::Refund { amount, .. } if may_count => {
                let used = works.entry(call.about.as_deref().unwrap_or_default()).or_default();
                *used = used.saturating_sub(amount.unwrap_or(u64::MAX));
            }
            _ => (),
        }
    }
    works.into_values().fold(0_u64, u64::saturating_add).saturating_sub(covered)
}

fn is_before(decided_at: Option<Instant>, moment: Instant) -> bool {
    decided_at.is_some_and(|decided_at| decided_at <= moment)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::book::{Figures, Granting, Opening};
    use super::super::wire::{Receipt, Verdict};
    use super::*;

    fn done(journal: &mut Journal, key: &str, asked: Asked) {
        journal.open(key, asked, None);
        let (id, balance) = (key.to_owned(), Figures::default());
        let receipt = Receipt { sequence: 1, as_of: 1, balance, id };
        journal.close(key, &Verdict::Done(receipt), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_used_beyond_all_grants_counts_from_its_answer() {
        let mut journal = Journal::default();
        let mut at = Vec::new();
        let charge = Asked::Charge { amount: 60, allow_debt: false };
        let granting = Granting {
            amount: 100,
            promotional: false,
            priority: 100,
            effective_at: None,
            expires_at: None,
        };
        let steps = [
            Asked::Open(Opening { debt_limit: 5, ..Opening::default() }),
            Asked::Grant(granting),
            charge.clone(),
            charge,
        ];
        for (place, asked) in steps.into_iter().enumerate() {
            done(&mut journal, &format!("k{place}"), asked);
            at.push(Instant::now());
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let overspent = at.iter().map(|moment| {
            let (asked_at, answered_at) = (*moment, *moment);
            let sample = Sample { asked_at, answered_at, bound: 0, unknown_regions: Vec::new() };
            overspent_at_least(&journal, &sample)
        });
        assert_eq!(overspent.collect::<Vec<_>>(), [0, 0, 0, 15]);
    }
}
