//! Authorize, capture, release, extend, charge.

use purser_types::{Credits, LogTime, Sequence};

use super::{Account, Draft, Side};
use crate::command::{Authorize, Capture, Charge, Extend, HoldNumber, IfExpired};
use crate::entry::{Bucket, Fact, Move};
use crate::hold::{Hold, HoldKind, HoldState, Portion};
use crate::protocol::Mode;
use crate::region::payer;
use crate::rejection::Rejection;
use crate::standing::AccountStatus;

impl Account {
    /// A hold, if that much is available. Refuses: frozen; a budget with too little left; too few credits.
    pub(crate) fn decide_authorize(
        &self,
        asked: &Authorize,
        now: LogTime,
    ) -> Result<Draft, Rejection> {
        self.refuse_if_frozen()?;
        let caps = self.caps_for(&asked.budgets, asked.amount, now)?;
        let pins = self.plan_all(asked.amount)?;
        refuse_if_scattered(pins.len())?;
        let pin = |portion: &Portion| {
            let (lot, from) = payer(portion);
            Move::some(lot, from, Bucket::Held, portion.amount)
        };
        let moves = pins.iter().filter_map(pin).collect();
        let hold = Hold {
            lots: pins.into_boxed_slice(),
            held: asked.amount,
            state: HoldState::Active,
            expires_at: now.saturating_add(asked.ttl),
            caps,
            ..self.new_hold(HoldKind::Hold, asked.amount, now, asked.reference.clone())
        };
        Ok(Draft { fact: Fact::Authorized(hold), moves })
    }

    /// Takes part or all of a hold. Refuses: no such hold; ended before; for the part above the hold: a
    /// budget with too little left, and too few credits.
    pub(crate) fn decide_capture(
        &self,
        asked: &Capture,
        hold: Option<Hold>,
        cover: Option<Portion>,
    ) -> Result<Draft, Rejection> {
        let hold = hold.ok_or(Rejection::HoldNotFound)?;
        if hold.state == HoldState::Expired && asked.if_expired == IfExpired::Charge {
            return self.decide_late_capture(asked, hold, cover);
        }
        refuse_if_ended(&hold)?;
        self.decide_live_capture(asked, hold, cover)
    }

    fn decide_live_capture(
        &self,
        asked: &Capture,
        mut hold: Hold,
        cover: Option<Portion>,
    ) -> Result<Draft, Rejection> {
        let held = hold.held;
        let amount = asked.amount.unwrap_or(held);
        // An increment of nothing that is not the last one leaves the hold alive.
        if amount.is_zero() && asked.is_final {
            return self.decide_release(Some(hold));
        }
        let pinned = amount.min(held);
        let beyond = amount.saturating_sub(pinned);
        self.refuse_beyond_caps(&hold, beyond, asked.allow_debt)?;
        let plan = self.plan_covered(beyond, asked.allow_debt, cover)?;
        let mut moves = Vec::new();
        Self::spend_pinned(&mut hold, pinned, &mut moves);
        self.spend(&plan, &mut hold, &mut moves);
        hold.captured = captured_with(&hold, amount)?;
        refuse_if_scattered(hold.spent.len())?;
        if asked.is_final {
            moves.extend(self.unpin(&mut hold));
            self.end(&mut hold, HoldState::Captured);
        }
        Ok(self.about(hold, Fact::Captured, moves))
    }

    /// The work was done, though the hold had expired: a charge that is linked to it.
    fn decide_late_capture(
        &self,
        asked: &Capture,
        mut hold: Hold,
        cover: Option<Portion>,
    ) -> Result<Draft, Rejection> {
        let amount = asked.amount.unwrap_or_else(|| hold.amount.saturating_sub(hold.captured));
        if amount.is_zero() {
            return Err(Rejection::HoldExpired { expired_at: hold.expires_at });
        }
        self.refuse_beyond_caps(&hold, amount, asked.allow_debt)?;
        let plan = self.plan_covered(amount, asked.allow_debt, cover)?;
        let mut moves = Vec::new();
        self.spend(&plan, &mut hold, &mut moves);
        hold.captured = captured_with(&hold, amount)?;
        refuse_if_scattered(hold.spent.len())?;
        self.end(&mut hold, HoldState::Captured);
        Ok(self.about(hold, Fact::LateCaptured, moves))
    }

    /// Gives back what is left of a hold. Refuses: no such hold; ended before.
    pub(super) fn decide_release(&self, hold: Option<Hold>) -> Result<Draft, Rejection> {
        let mut hold = hold.ok_or(Rejection::HoldNotFound)?;
        refuse_if_ended(&hold)?;
        let moves = self.unpin(&mut hold);
        self.end(&mut hold, HoldState::Released);
        Ok(self.about(hold, Fact::Released, moves))
    }

    /// Moves a hold's deadline. Refuses: no such hold; ended before; not later; too long a life.
    pub(super) fn decide_extend(
        &self,
        asked: &Extend,
        hold: Option<Hold>,
    ) -> Result<Draft, Rejection> {
        let mut hold = hold.ok_or(Rejection::HoldNotFound)?;
        refuse_if_ended(&hold)?;
        if asked.until <= hold.expires_at {
            return Err(Rejection::ExtendNotLater { expires_at: hold.expires_at });
        }
        let latest = hold.created_at.saturating_add(Authorize::TTL_MAX);
        if latest < asked.until {
            return Err(Rejection::ExtendTooLong { latest });
        }
        hold.expires_at = asked.until;
        Ok(self.about(hold, Fact::Extended, Vec::new()))
    }

    /// Authorizes and captures in one entry. Refuses: frozen; a budget with too little left, whether debt is
    /// allowed or not; too few credits.
    pub(crate) fn decide_charge(&self, asked: &Charge, now: LogTime) -> Result<Draft, Rejection> {
        self.refuse_if_frozen()?;
        let caps = self.caps_for(&asked.budgets, asked.amount, now)?;
        let plan = self.plan_with_debt(asked.amount, asked.allow_debt)?;
        let reference = asked.reference.clone();
        let mut charge = self.new_hold(HoldKind::Charge, asked.amount, now, reference);
        charge.captured = asked.amount;
        charge.caps = caps;
        let mut moves = Vec::new();
        self.spend(&plan, &mut charge, &mut moves);
        refuse_if_scattered(charge.spent.len())?;
        charge.lots = plan.portions.into_boxed_slice();
        Ok(Draft { fact: Fact::Charged(charge), moves })
    }

    pub(crate) fn new_hold(
        &self,
        kind: HoldKind,
        amount: Credits,
        now: LogTime,
        reference: Option<Box<str>>,
    ) -> Hold {
        let sequence = self.head.sequence.next();
        Hold {
            number: HoldNumber(sequence),
            kind,
            state: HoldState::Captured,
            amount,
            captured: Credits::ZERO,
            refunded: Credits::ZERO,
            reclaimed: None,
            created_at: now,
            expires_at: now,
            lots: Box::default(),
            held: Credits::ZERO,
            spent: Vec::new(),
            reference,
            changed_by: sequence,
            changed_before: None,
            ended_by: (kind == HoldKind::Charge).then_some(sequence),
            allocation: Sequence::ZERO,
            caps: Box::default(),
        }
    }

    pub(crate) fn refuse_if_frozen(&self) -> Result<(), Rejection> {
        if let Side::Region(region) = &self.side {
            return match region.mode {
                Mode::Local => Ok(()),
                Mode::Frozen => Err(Rejection::AccountFrozen),
                Mode::Strict | Mode::Ending => Err(Rejection::DecidedElsewhere),
            };
        }
        match self.standing.status {
            AccountStatus::Open => Ok(()),
            AccountStatus::Frozen => Err(Rejection::AccountFrozen),
            AccountStatus::Closed => Err(Rejection::AccountClosed),
        }
    }
}

/// Refuses what would make a hold, and so each of its entries, too large.
pub(crate) fn refuse_if_scattered(parts: usize) -> Result<(), Rejection> {
    if parts <= Hold::PARTS_MAX { Ok(()) } else { Err(Rejection::TooManyParts) }
}

/// What the hold will have captured with `amount` more.
pub(crate) fn captured_with(hold: &Hold, amount: Credits) -> Result<Credits, Rejection> {
    let captured = hold.captured.checked_add(amount);
    captured.filter(|captured| *captured <= Hold::CAPTURED_MAX).ok_or(Rejection::AmountOverflow)
}

/// INV-3: an end is final.
fn refuse_if_ended(hold: &Hold) -> Result<(), Rejection> {
    match hold.state {
        HoldState::Active => Ok(()),
        HoldState::Captured => {
            let sequence = hold.ended_by.unwrap_or(hold.changed_by);
            Err(Rejection::AlreadyCaptured { captured: hold.captured, sequence })
        }
        HoldState::Released => {
            Err(Rejection::AlreadyReleased { sequence: hold.ended_by.unwrap_or(hold.changed_by) })
        }
        HoldState::Expired => Err(Rejection::HoldExpired { expired_at: hold.expires_at }),
    }
}
