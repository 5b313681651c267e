//! One hold or charge, followed through the entries that are about it.

use super::expect;
use crate::command::LotNumber;
use crate::entry::{Bucket, Entry, Fact, Move};
use crate::events::EventEffect;
use crate::hold::{Hold, HoldKind, HoldState, Portion};
use crate::jobs::JobEffect;

/// What the entries say of one hold or charge.
#[derive(Debug)]
pub(super) struct AuditedHold {
    pub(super) state: HoldState,
    /// What is still set aside.
    pub(super) held: i128,
    /// The lots it was made with.
    lots: Box<[Portion]>,
}

impl AuditedHold {
    /// The hold or charge that `entry` makes: with the lots that its moves took from, and in a region
    /// with the overdraft.
    pub(super) fn made(hold: &Hold, entry: &Entry, in_region: bool) -> Result<Self, String> {
        let number = hold.number.0.0;
        let of_job = matches!(entry.fact, Fact::JobCreated(_));
        let is_held = of_job && hold.kind == HoldKind::Hold;
        let state = if matches!(entry.fact, Fact::Authorized(_)) || is_held {
            HoldState::Active
        } else if matches!(entry.fact, Fact::Charged(_) | Fact::TailBooked(_))
            || of_job
            || entry.fact.event_charge().is_some()
        {
            HoldState::Captured
        } else {
            return Err(format!("hold {number} was never made"));
        };
        expect("the number of a new hold", number, entry.sequence.0)?;
        expect("the state of a new hold", hold.state, state)?;
        let taken = |step: &Move| {
            let overdrawn = in_region && step.from == Bucket::Debt;
            let lot = if overdrawn { Some(LotNumber::OVERDRAFT) } else { step.lot };
            let is_taken = overdrawn || step.from == Bucket::Available;
            lot.filter(|_| is_taken).map(|lot| Portion { lot, amount: step.amount })
        };
        let lots: Box<[Portion]> = entry.moves.iter().filter_map(taken).collect();
        let made = Self { state, held: moved_to_held(&entry.moves), lots };
        made.check(hold)?;
        Ok(made)
    }

    /// The hold or charge as `entry` leaves it.
    pub(super) fn changed(&self, hold: &Hold, entry: &Entry) -> Result<Self, String> {
        let number = hold.number.0.0;
        match (self.state, hold.state) {
            (HoldState::Active, _) => {}
            (_, HoldState::Active) => return Err(format!("hold {number} came back to life")),
            (HoldState::Expired, HoldState::Captured)
                if matches!(entry.fact, Fact::LateCaptured(_) | Fact::TailBooked(_)) => {}
            (HoldState::Expired, HoldState::Captured) if matches!(&entry.fact, Fact::EventApplied(it) if is_late(&it.effect)) =>
                {}
            // A delivered job is paid, also after a failed attempt.
            (HoldState::Expired | HoldState::Released, HoldState::Captured)
                if entry
                    .fact
                    .job_outcome()
                    .is_some_and(|it| it.effect == JobEffect::CapturedLate) => {}
            (before, ended) => expect("the end of a hold that had ended", ended, before)?,
        }
        let held = self.held.saturating_add(moved_to_held(&entry.moves));
        let changed = Self { state: hold.state, held, lots: self.lots.clone() };
        changed.check(hold)?;
        Ok(changed)
    }

    /// The entry shows it like this.
    fn check(&self, hold: &Hold) -> Result<(), String> {
        let number = hold.number.0.0;
        expect(&format!("credits held by hold {number}"), i128::from(hold.held.get()), self.held)?;
        expect(&format!("the lots of hold {number}"), &hold.lots, &self.lots)?;
        if hold.state != HoldState::Active {
            expect("credits pinned by an ended hold", self.held, 0)?;
        }
        Ok(())
    }
}

fn is_late(effect: &EventEffect) -> bool {
    matches!(effect, EventEffect::LateCaptured(_))
}

/// How many credits the moves set aside, all together; negative if they took from there.
pub(super) fn moved_to_held(moves: &[Move]) -> i128 {
    moves.iter().fold(0_i128, |sum, step| {
        let amount = i128::from(step.amount.get());
        let gained = if step.to == Bucket::Held { amount } else { 0 };
        let lost = if step.from == Bucket::Held { amount } else { 0 };
        sum.saturating_add(gained).saturating_sub(lost)
    })
}
