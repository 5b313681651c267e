//! Refund and reclaim: undoing a capture, and undoing the undoing.

use purser_types::{Credits, LogTime, Span};

use super::holds::refuse_if_scattered;
use super::{Account, Draft, Side};
use crate::command::{Category, Grant, Reclaim, Refund, Target};
use crate::entry::{Bucket, Fact, Move};
use crate::hold::{Hold, Portion, Source, Spend};
use crate::lot::LotTerms;
use crate::policy::RefundExpired;
use crate::rejection::Rejection;

impl Account {
    /// Gives captured credits back to what paid for them, last taken first. Refuses: not there;
    /// nothing captured; more than can be refunded.
    pub(super) fn decide_refund(
        &self,
        asked: &Refund,
        hold: Option<Hold>,
        now: LogTime,
    ) -> Result<Draft, Rejection> {
        let mut hold = hold.ok_or_else(|| not_found(asked.target))?;
        if hold.captured.is_zero() {
            return Err(Rejection::NothingCaptured);
        }
        let refundable = hold.net();
        let amount = asked.amount.unwrap_or(refundable);
        if amount.is_zero() || refundable < amount {
            return Err(Rejection::RefundExceedsCaptured { refundable });
        }
        if let Side::Region(_) = self.side {
            return self.promise_refund(hold, amount);
        }
        let mut moves: Vec<Move> = take_last(&mut hold.spent, amount)
            .into_iter()
            .filter_map(|spend| self.give_back(spend))
            .collect();
        hold.refunded = hold.refunded.checked_add(amount).ok_or(Rejection::AmountOverflow)?;
        let (regrant, granted) = self.regrant_with_move(&moves, now);
        moves.extend(granted);
        self.touch(&mut hold);
        Ok(Draft { fact: Fact::Refunded { hold, regrant }, moves })
    }

    /// A region's refund gives nothing back itself: it guards against a second one, and home gives
    /// back to what it knows to have paid.
    fn promise_refund(&self, mut hold: Hold, amount: Credits) -> Result<Draft, Rejection> {
        take_last(&mut hold.spent, amount);
        hold.refunded = hold.refunded.checked_add(amount).ok_or(Rejection::AmountOverflow)?;
        self.touch(&mut hold);
        Ok(Draft { fact: Fact::RefundPromised { hold, amount }, moves: Vec::new() })
    }

    /// A cancelled debt, or credits on their way home.
    pub(crate) fn give_back(&self, spend: Spend) -> Option<Move> {
        match spend.source {
            Source::Debt(_) => Move::some(None, Bucket::Used, Bucket::Debt, spend.amount),
            Source::Lot(lot) => {
                let home = self.homecoming_of(lot);
                Move::some(Some(lot), Bucket::Used, home, spend.amount)
            }
        }
    }

    /// The lot of [`Account::regrant`], and the move that makes it available.
    pub(crate) fn regrant_with_move(
        &self,
        moves: &[Move],
        now: LogTime,
    ) -> (Option<LotTerms>, Option<Move>) {
        let regrant = self.regrant(moves, now);
        let lot = Some(self.next_lot());
        let step = regrant
            .as_ref()
            .and_then(|terms| Move::some(lot, Bucket::Granted, Bucket::Available, terms.amount));
        (regrant, step)
    }

    /// The lot that makes up for what lapses in a refund, where the policy says so and the account's
    /// ceiling has room: what is to be given back is given back, whatever becomes of it.
    pub(crate) fn regrant(&self, moves: &[Move], now: LogTime) -> Option<LotTerms> {
        let RefundExpired::Regrant { days } = self.standing.policy.refund_expired else {
            return None;
        };
        let lapsed = moves.iter().filter(|step| step.to == Bucket::Expired);
        let lapsed = crate::hold::sum(lapsed.map(|step| step.amount));
        if lapsed.is_zero() || self.refuse_above_ceiling(lapsed).is_err() {
            return None;
        }
        Some(LotTerms {
            amount: lapsed,
            category: Category::Promotional,
            priority: Grant::PRIORITY_DEFAULT,
            effective_at: now,
            expires_at: Some(now.saturating_add(Span::from_days(u64::from(days)))),
            source_ref: None,
        })
    }

    /// Charges again what was refunded; what is missing becomes debt, because the work was
    /// delivered. Refuses: not there; reclaimed before; nothing refunded.
    pub(super) fn decide_reclaim(
        &self,
        asked: &Reclaim,
        hold: Option<Hold>,
        cover: Option<Portion>,
    ) -> Result<Draft, Rejection> {
        let mut hold = hold.ok_or_else(|| not_found(asked.target))?;
        if hold.reclaimed.is_some() {
            return Err(Rejection::AlreadyReclaimed);
        }
        let amount = hold.net_refunded();
        if amount.is_zero() {
            return Err(Rejection::NotRefunded);
        }
        let plan = match self.side {
            Side::Home(_) => self.plan(amount),
            Side::Region(_) => self.plan_covered(amount, false, cover)?,
        };
        let mut moves = Vec::new();
        self.spend(&plan, &mut hold, &mut moves);
        refuse_if_scattered(hold.spent.len())?;
        hold.reclaimed = Some(amount);
        Ok(self.about(hold, Fact::Reclaimed, moves))
    }
}

fn not_found(target: Target) -> Rejection {
    match target {
        Target::Hold(_) => Rejection::HoldNotFound,
        Target::Charge(_) => Rejection::ChargeNotFound,
    }
}

/// Takes `amount` off the end of what was spent, last taken first.
pub(crate) fn take_last(spent: &mut Vec<Spend>, amount: Credits) -> Vec<Spend> {
    let mut rest = amount;
    let mut taken = Vec::new();
    while !rest.is_zero() {
        let mut last = spent.pop().expect("INV-4: what was spent covers what can be refunded");
        let part = last.amount.min(rest);
        rest = rest.saturating_sub(part);
        taken.push(Spend { source: last.source, amount: part });
        last.amount = last.amount.saturating_sub(part);
        if !last.amount.is_zero() {
            spent.push(last);
        }
    }
    taken
}
