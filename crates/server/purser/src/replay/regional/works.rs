//! Holds and charges as the answers about them tell, each for itself.
//!
//! The calls about one hold follow each other, so their order is the order in which they were sent.
//! Whether there were credits is not known here; all else is: what was captured may be refunded, what
//! has ended is not captured, what was reclaimed is not reclaimed again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use purser_api::{Amount, Charge, DeciderRole, Entry, Hold, HoldStatus, LotShare, ProblemCode};
use purser_types::Span;
use tokio::time::Instant;

use super::super::book::{Asked, Capturing, WorkState};
use super::super::caller::Decider;
use super::super::difference::{Difference, same};
use super::super::journal::{Entered, Journal};
use super::super::wire::{Refusal, Verdict};
use super::{ShownWork, ShownWorks};

/// All holds and charges of a tenant.
pub(super) struct Works<'a> {
    /// By their ids.
    pub(super) by_id: BTreeMap<&'a str, Work<'a>>,
    /// Whether some call was given up, so that sums are not known.
    pub(super) is_unsure: bool,
}

/// One hold or charge.
pub(super) struct Work<'a> {
    /// The call that made it.
    pub(super) made: &'a Entered,
    is_charge: bool,
    pub(super) amount: u64,
    ttl: Option<Span>,
    /// How it ended by a call, if one ended it.
    state: WorkState,
    pub(super) captured: u64,
    /// What of that was held before.
    from_hold: u64,
    pub(super) refunded: u64,
    pub(super) reclaimed: Option<u64>,
    /// When a call ended it.
    pub(super) ended_at: Option<Instant>,
    /// The keys of the calls that changed it.
    keys: BTreeSet<&'a str>,
    /// Whether a call about it was given up.
    is_unsure: bool,
}

/// What the API shows of a hold or charge, of what is known here.
#[derive(Debug, PartialEq, Eq)]
struct Figures {
    status: HoldStatus,
    amount: u64,
    captured: u64,
    held: u64,
    refunded: u64,
    /// What its lots and the region's overdraft add up to.
    from_lots: u64,
    lives: Option<Span>,
    decided_by: Option<String>,
}

impl<'a> Works<'a> {
    /// Puts together what was answered. Fails at the first answer that cannot be right.
    pub(super) fn of(journal: &'a Journal) -> Result<Self, Difference> {
        let mut calls: Vec<(&String, &Entered)> = journal.calls.iter().collect();
        calls.sort_by_key(|(_, call)| call.number);
        let mut works = Self { by_id: BTreeMap::new(), is_unsure: false };
        for (key, call) in calls {
            works.is_unsure |= call.verdict.is_none();
            let told = works.enter(key, call);
            told.map_err(|why| Difference(format!("key {key}: {why} ({:?})", call.asked)))?;
        }
        Ok(works)
    }

    fn enter(&mut self, key: &'a str, call: &'a Entered) -> Result<(), String> {
        if let Some(id) = &call.about {
            let work = self.by_id.get_mut(id.as_str());
            let work = work.ok_or_else(|| format!("it is about {id}, which nothing made"))?;
            return work.enter(key, call);
        }
        let (amount, ttl) = match &call.asked {
            Asked::Authorize { amount, ttl } => (*amount, Some(*ttl)),
            Asked::Charge { amount, .. } => (*amount, None),
            _ => return Ok(()),
        };
        match (&call.verdict, call.refusal()) {
            (Some(Verdict::Done(receipt)), _) => {
                let work = Work::new(call, key, (amount, ttl));
                let twice = self.by_id.insert(&receipt.id, work).is_some();
                if twice { Err(format!("{} was made twice", receipt.id)) } else { Ok(()) }
            }
            (_, Some(refusal)) if !is_short(refusal) => Err(format!("refused with {refusal}")),
            (_, _) => Ok(()),
        }
    }

    /// Compares each with what its owner shows.
    pub(super) fn compare(&self, shown: &ShownWorks, now: Instant) -> Result<(), Difference> {
        for (id, work) in &self.by_id {
            let Some(found) = shown.works.get(*id) else {
                let may_be_closed = shown.may_be_closed && !work.is_of_home();
                if may_be_closed {
                    continue;
                }
                return Err(Difference(format!("{id}: not shown")));
            };
            if work.is_unsure {
                continue;
            }
            let (figures, history) = match found {
                ShownWork::Hold(hold, history) => (figures_of_hold(hold), history),
                ShownWork::Charge(charge, history) => (figures_of_charge(charge), history),
            };
            same(id, &figures, &work.figures(now))?;
            work.compare_history(id, history)?;
        }
        Ok(())
    }
}

impl<'a> Work<'a> {
    fn new(made: &'a Entered, key: &'a str, (amount, ttl): (u64, Option<Span>)) -> Self {
        let is_charge = ttl.is_none();
        Self {
            made,
            is_charge,
            amount,
            ttl,
            state: if is_charge { WorkState::Captured } else { WorkState::Active },
            captured: if is_charge { amount } else { 0 },
            from_hold: 0,
            refunded: 0,
            reclaimed: None,
            ended_at: None,
            keys: BTreeSet::from([key]),
            is_unsure: false,
        }
    }

    /// Whether home decides about it, as far as is known.
    pub(super) fn is_of_home(&self) -> bool {
        self.decider().is_none_or(|by| by.role == DeciderRole::Home)
    }

    /// Who decides about it.
    pub(super) fn decider(&self) -> Option<Decider> {
        self.made.by
    }

    /// When it ends by itself at the latest, if it has not ended.
    pub(super) fn lapses_at(&self) -> Option<Instant> {
        let ttl = self.ttl.filter(|_| self.state == WorkState::Active)?;
        Some(self.made.decided_at? + Duration::from_micros(ttl.as_micros()))
    }

    /// What it has set aside at a time.
    pub(super) fn held(&self, now: Instant) -> u64 {
        let is_active = self.state == WorkState::Active;
        let lives = self.lapses_at().is_some_and(|end| now < end);
        if is_active && lives { self.amount.saturating_sub(self.from_hold) } else { 0 }
    }

    /// What it gave back unused.
    pub(super) fn released(&self, now: Instant) -> u64 {
        let unused = self.amount.saturating_sub(self.from_hold);
        if self.is_charge { 0 } else { unused.saturating_sub(self.held(now)) }
    }

    /// What it has taken and not given back.
    pub(super) fn used(&self) -> u64 {
        self.captured.saturating_sub(self.given_back())
    }

    fn given_back(&self) -> u64 {
        self.refunded.saturating_sub(self.reclaimed.unwrap_or_default())
    }

    /// A call about it that was decided, or given up.
    fn enter(&mut self, key: &'a str, call: &'a Entered) -> Result<(), String> {
        match &call.verdict {
            Some(Verdict::Done(_)) => {
                self.keys.insert(key);
                self.expect_refusal(call).map_or(Ok(()), |code| Err(format!("not {code}")))?;
                self.apply(call);
                Ok(())
            }
            Some(Verdict::Refused(refusal)) => match self.expect_refusal(call) {
                Some(code) if code.name() == refusal.code => Ok(()),
                Some(code) => Err(format!("refused with {refusal} and not with {code}")),
                None if is_short(refusal) && self.takes_more(call) => Ok(()),
                None => Err(format!("refused with {refusal}")),
            },
            None => {
                self.is_unsure = true;
                Ok(())
            }
        }
    }

    /// Why a call must be refused, however many credits there are.
    fn expect_refusal(&self, call: &Entered) -> Option<ProblemCode> {
        match &call.asked {
            Asked::Capture(capturing) => {
                let is_late = self.is_over(call) && capturing.even_if_expired;
                self.ended(call).filter(|_| !is_late)
            }
            Asked::Release { .. } => self.ended(call),
            Asked::Refund { amount, .. } => {
                let refundable = self.used();
                let asked = amount.unwrap_or(refundable);
                if self.captured == 0 {
                    Some(ProblemCode::NothingCaptured)
                } else {
                    let odd = asked == 0 || refundable < asked;
                    odd.then_some(ProblemCode::RefundExceedsCaptured)
                }
            }
            Asked::Reclaim { .. } if self.reclaimed.is_some() => {
                Some(ProblemCode::AlreadyReclaimed)
            }
            Asked::Reclaim { .. } => (self.refunded == 0).then_some(ProblemCode::NotRefunded),
            Asked::Open(_)
            | Asked::Grant(_)
            | Asked::Authorize { .. }
            | Asked::Charge { .. }
            | Asked::Void { .. } => None,
        }
    }

    fn ended(&self, call: &Entered) -> Option<ProblemCode> {
        match self.state {
            WorkState::Captured => Some(ProblemCode::AlreadyCaptured),
            WorkState::Released => Some(ProblemCode::AlreadyReleased),
            WorkState::Expired => Some(ProblemCode::HoldExpired),
            WorkState::Active => self.is_over(call).then_some(ProblemCode::HoldExpired),
        }
    }

    /// Whether its time was over when a call was sent.
    fn is_over(&self, call: &Entered) -> bool {
        self.lapses_at().is_some_and(|end| end <= call.sent_at)
    }

    /// Whether a call takes more than is set aside, so that credits may be short.
    fn takes_more(&self, call: &Entered) -> bool {
        let asked = |capturing: &Capturing| capturing.amount.unwrap_or_default();
        match &call.asked {
            Asked::Capture(capturing) => {
                let held = self.amount.saturating_sub(self.from_hold);
                self.is_over(call) || asked(capturing) > held
            }
            _ => false,
        }
    }

    /// What an accepted call does.
    fn apply(&mut self, call: &Entered) {
        match &call.asked {
            Asked::Capture(capturing) => self.capture(capturing, call),
            Asked::Release { .. } => self.end(WorkState::Released, call),
            Asked::Refund { amount, .. } => {
                self.refunded += amount.unwrap_or_else(|| self.used());
            }
            Asked::Reclaim { .. } => self.reclaimed = Some(self.given_back()),
            Asked::Open(_)
            | Asked::Grant(_)
            | Asked::Authorize { .. }
            | Asked::Charge { .. }
            | Asked::Void { .. } => (),
        }
    }

    fn capture(&mut self, capturing: &Capturing, call: &Entered) {
        let held = self.amount.saturating_sub(self.from_hold);
        let amount = capturing.amount.unwrap_or(held);
        if self.is_over(call) {
            self.captured += amount;
            self.end(WorkState::Captured, call);
        } else if amount == 0 {
            self.end(WorkState::Released, call);
        } else {
            self.from_hold += amount.min(held);
            self.captured += amount;
            if capturing.last {
                self.end(WorkState::Captured, call);
            }
        }
    }

    fn end(&mut self, state: WorkState, call: &Entered) {
        self.state = state;
        self.ended_at = call.decided_at;
    }

    fn figures(&self, now: Instant) -> Figures {
        let status = match self.state {
            WorkState::Active if self.held(now) > 0 => HoldStatus::Active,
            WorkState::Active | WorkState::Expired => HoldStatus::Expired,
            WorkState::Captured => HoldStatus::Captured,
            WorkState::Released => HoldStatus::Released,
        };
        Figures {
            status,
            amount: self.amount,
            captured: self.captured,
            held: self.held(now),
            refunded: self.given_back(),
            from_lots: self.amount,
            lives: self.ttl,
            decided_by: self.decider().map(|by| by.to_string()),
        }
    }

    /// Its entries have each call that changed it once, and no other.
    fn compare_history(&self, id: &str, history: &[Entry]) -> Result<(), Difference> {
        let keys = history.iter().filter_map(|entry| entry.idempotency_key.as_ref());
        let mut keys: Vec<&str> = keys.map(|key| key.0.as_str()).collect();
        keys.sort_unstable();
        let expected: Vec<&str> = self.keys.iter().copied().collect();
        same(&format!("{id}, keys of its history"), keys, expected)
    }
}

/// Whether a call was refused because there were too few credits.
pub(super) fn is_short(refusal: &Refusal) -> bool {
    let codes = [ProblemCode::InsufficientCredits, ProblemCode::Stranded];
    codes.iter().any(|code| code.name() == refusal.code)
}

fn figures_of_hold(hold: &Hold) -> Figures {
    let by = &hold.decided_by;
    Figures {
        status: hold.status,
        amount: hold.amount.0.get(),
        captured: hold.captured_total.0.get(),
        held: hold.held_remaining.0.get(),
        refunded: hold.refunded_total.0.get(),
        from_lots: sum_of(&hold.lots, hold.overdrawn.as_ref()),
        lives: Some(hold.expires_at.0.since(hold.created_at.0)),
        decided_by: Some(Decider { region: by.region.0, role: by.role }.to_string()),
    }
}

fn figures_of_charge(charge: &Charge) -> Figures {
    let by = &charge.decided_by;
    Figures {
        status: charge.status,
        amount: charge.amount.0.get(),
        captured: charge.captured_total.0.get(),
        held: charge.held_remaining.0.get(),
        refunded: charge.refunded_total.0.get(),
        from_lots: sum_of(&charge.lots, charge.overdrawn.as_ref()),
        lives: None,
        decided_by: Some(Decider { region: by.region.0, role: by.role }.to_string()),
    }
}

fn sum_of(lots: &[LotShare], overdrawn: Option<&Amount>) -> u64 {
    let amounts = lots.iter().map(|share| &share.amount).chain(overdrawn);
    amounts.map(|amount| amount.0.get()).sum()
}
