//! What an outcome does to a job's credits. It follows from the hold or charge as it stands, and from
//! nothing else: whoever reports what how often, INV-19 holds.

use purser_types::{Credits, LogTime};

use super::JobEffect;
use crate::account::{Account, captured_with, refuse_if_scattered, take_last};
use crate::entry::Move;
use crate::hold::{Hold, HoldState};
use crate::lot::LotTerms;
use crate::rejection::Rejection;

/// A hold or charge after an outcome.
pub(super) struct Settled {
    pub(super) hold: Hold,
    pub(super) moves: Vec<Move>,
    pub(super) effect: JobEffect,
    pub(super) regrant: Option<LotTerms>,
    /// What of the hold went back before it was captured, and is taken if the job is delivered.
    pub(super) freed: Credits,
}

impl Account {
    /// Takes what a delivered job costs, if it is not taken yet. What is missing becomes debt, because
    /// the work was delivered. Refuses: more would be captured, or by more lots, than one hold can.
    pub(super) fn take_for_job(
        &self,
        mut hold: Hold,
        freed: Credits,
    ) -> Result<Settled, Rejection> {
        let missing = missing(&hold, freed);
        let mut moves = Vec::new();
        let mut effect = JobEffect::Nothing;
        let refunded = hold.net_refunded();
        let reclaimed = Some(refunded).filter(|it| hold.reclaimed.is_none() && !it.is_zero());
        let again = reclaimed.unwrap_or_default();
        let more = again.checked_add(missing).ok_or(Rejection::AmountOverflow)?;
        // One plan for both: they come from the same lots.
        if !more.is_zero() {
            self.spend(&self.plan(more), &mut hold, &mut moves);
        }
        if reclaimed.is_some() {
            hold.reclaimed = reclaimed;
            effect = JobEffect::Reclaimed;
        }
        if hold.state == HoldState::Active {
            let held = hold.held;
            Self::spend_pinned(&mut hold, held, &mut moves);
            hold.captured = captured_with(&hold, held)?;
            self.end(&mut hold, HoldState::Captured);
            effect = JobEffect::Captured;
        } else if !missing.is_zero() {
            hold.captured = captured_with(&hold, missing)?;
            self.end(&mut hold, HoldState::Captured);
            effect = JobEffect::CapturedLate;
        }
        refuse_if_scattered(hold.spent.len())?;
        self.touch(&mut hold);
        Ok(Settled { hold, moves, effect, regrant: None, freed: Credits::ZERO })
    }

    /// Gives back what a job holds or has taken that was not delivered. What was reclaimed stays: that
    /// goes once. `freed` is what an attempt before has freed.
    pub(super) fn give_back_for_job(
        &self,
        mut hold: Hold,
        mut freed: Credits,
        now: LogTime,
    ) -> Result<Settled, Rejection> {
        let mut moves = Vec::new();
        let mut effect = JobEffect::Nothing;
        if hold.state == HoldState::Active {
            freed = hold.held;
            moves = self.unpin(&mut hold);
            self.end(&mut hold, HoldState::Released);
            effect = JobEffect::Released;
        }
        let mut regrant = None;
        let taken = hold.net();
        if hold.reclaimed.is_none() && !taken.is_zero() {
            let spent = take_last(&mut hold.spent, taken);
            let back: Vec<Move> =
                spent.into_iter().filter_map(|spend| self.give_back(spend)).collect();
            hold.refunded = hold.refunded.checked_add(taken).ok_or(Rejection::AmountOverflow)?;
            let (terms, granted) = self.regrant_with_move(&back, now);
            moves.extend(back.into_iter().chain(granted));
            (regrant, effect) = (terms, JobEffect::Refunded);
        }
        self.touch(&mut hold);
        Ok(Settled { hold, moves, effect, regrant, freed })
    }
}

/// What was never captured of a hold that has ended, though the job is delivered. Who has captured for the
/// last time, or released the rest, by hand has said what the job costs.
fn missing(hold: &Hold, freed: Credits) -> Credits {
    match hold.state {
        HoldState::Active | HoldState::Captured => Credits::ZERO,
        HoldState::Released if !hold.captured.is_zero() => freed,
        HoldState::Released | HoldState::Expired => hold.amount.saturating_sub(hold.captured),
    }
}
