//! Whether credits that regions or home had could have paid what was refused for want of credits.
//!
//! Who had which credit when is not known here. But some credits were there for certain all the time
//! from when the call was sent until it was refused: those of lots that lasted throughout, less
//! everything that any call may have taken by then. If these would have paid, the refusal was false.
//! What may be stranded is judged by the cuts: nothing is, unless a region was cut off.

use std::time::Duration;

use purser_api::ProblemCode;
use tokio::time::Instant;

use super::super::book::Asked;
use super::super::difference::Difference;
use super::super::journal::{Entered, Journal};
use super::CutTimes;
use super::works::{Work, Works, is_short};

/// How long after its wire was mended a region may not have been heard again: connections are made
/// anew, and pulses come once a second.
const HEALING: Duration = Duration::from_secs(10);

/// Checks the refusals for want of credits. Returns how many refusals there were, of every kind.
pub(super) fn check(
    journal: &Journal,
    works: &Works<'_>,
    cuts: &CutTimes,
) -> Result<u64, Difference> {
    let mut refusals = 0;
    for (key, call) in &journal.calls {
        let Some(refusal) = call.refusal() else { continue };
        refusals += 1;
        let (Some(until), true) = (call.decided_at, is_short(refusal)) else { continue };
        let span = (call.sent_at, until);
        let wrong = |why: &str| {
            let asked = &call.asked;
            Difference(format!("key {key}: {asked:?} was refused with {refusal}, {why}"))
        };
        if refusal.code == ProblemCode::Stranded.name() {
            let was_cut = cuts.iter().any(|(from, to)| *from <= until && span.0 <= *to + HEALING);
            if !was_cut {
                return Err(wrong("while no region was cut off"));
            }
            continue;
        }
        let Some(cost) = cost_of(call) else { continue };
        if refusal.available.is_some_and(|available| cost <= available) {
            return Err(wrong("though that is enough"));
        }
        let sure = there_for_sure(journal, works, span);
        if cost <= sure {
            return Err(wrong(&format!("though {sure} were there all the time")));
        }
    }
    Ok(refusals)
}

/// What a call was to take beyond what was held for it; nothing if that is not known.
fn cost_of(call: &Entered) -> Option<u64> {
    match &call.asked {
        Asked::Authorize { amount, .. } | Asked::Charge { amount, .. } => Some(*amount),
        _ => None,
    }
}

/// Credits that were free all the time between two instants, whatever happened in which order.
fn there_for_sure(journal: &Journal, works: &Works<'_>, (from, until): (Instant, Instant)) -> u64 {
    // A call that was given up may have taken what it asked for, or more.
    if works.is_unsure {
        return 0;
    }
    let granted = journal.calls.values().filter_map(|call| match &call.asked {
        Asked::Grant(granting) if lasts(granting) => {
            call.receipt()?;
            (call.decided_at? <= from).then_some(granting.amount)
        }
        _ => None,
    });
    let voided = journal.calls.values().filter_map(|call| match &call.asked {
        Asked::Void { lot } => Some(*lot),
        _ => None,
    });
    let voided = voided.filter_map(|lot| amount_of(journal, lot));
    let taken = works.by_id.values().map(|work| may_have_taken(work, from, until));
    let taken: u64 = taken.chain(voided).fold(0, u64::saturating_add);
    granted.fold(0, u64::saturating_add).saturating_sub(taken)
}

fn lasts(granting: &super::super::book::Granting) -> bool {
    granting.effective_at.is_none() && granting.expires_at.is_none()
}

fn amount_of(journal: &Journal, lot: u64) -> Option<u64> {
    journal.calls.values().find_map(|call| match &call.asked {
        Asked::Grant(granting) => {
            (call.receipt()?.sequence == lot && lasts(granting)).then_some(granting.amount)
        }
        _ => None,
    })
}

/// The most that a hold or charge may have had of the credits between two instants. What was refunded
/// may have gone elsewhere, so it counts as taken.
fn may_have_taken(work: &Work<'_>, from: Instant, until: Instant) -> u64 {
    if until < work.made.sent_at {
        return 0;
    }
    let taken = work.captured.saturating_add(work.reclaimed.unwrap_or_default());
    let has_ended = work.ended_at.or_else(|| work.lapses_at()).is_some_and(|end| end <= from);
    if has_ended { taken } else { taken.max(work.amount) }
}
