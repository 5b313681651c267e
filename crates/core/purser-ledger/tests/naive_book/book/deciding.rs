//! What each request does, or why not.

use super::{Book, DAY, Hold, Lot, LotParts, Payer, Standing, State};
use crate::asking::{Capture, Request, Terms};
use crate::telling::{Bucket, Figures};

/// What a request was about, or why it is refused.
pub(super) type Decided = Result<Place, Figures>;

/// Which of the lots or holds.
pub(super) enum Place {
    Account,
    Credits,
    Lot(usize),
    VoidedLot(usize),
    /// A lot that another request had made: nothing new happened.
    LotBefore(usize),
    Hold(usize),
}

impl Book {
    /// Does what is asked, or says why not; tells which hold or charge it was about.
    pub(super) fn decide(&mut self, request: &Request) -> Decided {
        if self.standing == Standing::Closed {
            return refuse("account_closed");
        }
        match *request {
            Request::Grant(terms) => self.grant(terms),
            Request::Authorize { amount, ttl } => self.authorize(amount, ttl),
            Request::Capture(capture) => self.capture(capture),
            Request::Release { hold } => {
                let place = self.live_hold(hold)?;
                self.end(place, State::Released);
                Ok(Place::Hold(place))
            }
            Request::Extend { hold, until } => self.extend(hold, until),
            Request::Charge { amount, allow_debt } => self.charge(amount, allow_debt),
            Request::Refund { target, is_charge, amount } => self.refund(target, is_charge, amount),
            Request::Reclaim { target, is_charge } => self.reclaim(target, is_charge),
            Request::Void { lot, confirm } => self.void(lot, confirm),
            Request::AdjustUp { amount } => Ok(self.add_lot(usual_terms(amount))),
            Request::AdjustDown { amount } => {
                self.need(amount, false)?;
                for (lot, part) in self.draw(amount) {
                    self.lots[lot].parts.voided += part;
                    self.flow(Some(lot), Bucket::Available, Bucket::Voided, part);
                }
                Ok(Place::Credits)
            }
            Request::SetPolicy(change) => {
                let policy = &mut self.policy;
                policy.debt_limit = change.debt_limit.unwrap_or(policy.debt_limit);
                policy.regrant_days = change.regrant_days.unwrap_or(policy.regrant_days);
                Ok(Place::Account)
            }
            Request::Freeze if self.standing == Standing::Frozen => refuse("already_frozen"),
            Request::Unfreeze if self.standing == Standing::Open => refuse("not_frozen"),
            Request::Freeze => self.become_standing(Standing::Frozen),
            Request::Unfreeze => self.become_standing(Standing::Open),
            Request::Close { confirm } => self.close(confirm),
        }
    }

    fn become_standing(&mut self, standing: Standing) -> Decided {
        self.standing = standing;
        Ok(Place::Account)
    }

    fn close(&mut self, confirm: u64) -> Decided {
        let holds = self.holds.iter().filter(|hold| hold.state == State::Active).count() as u64;
        let debt = self.balance().debt;
        if holds > 0 || debt > 0 {
            return Err(Figures::code("close_blocked").with(holds).with(debt));
        }
        if confirm != self.entries {
            return refuse("stale_confirmation");
        }
        self.become_standing(Standing::Closed)
    }

    fn grant(&mut self, terms: Terms) -> Decided {
        let same_source = |lot: &Lot| terms.source.is_some() && lot.terms.source == terms.source;
        if let Some(place) = self.lots.iter().position(same_source) {
            let before = self.lots[place].terms.amount;
            if before != terms.amount {
                return Err(Figures::code("source_ref_conflict").with(before));
            }
            return Ok(Place::LotBefore(place));
        }
        let start = terms.start.unwrap_or(self.now);
        if terms.exp.is_some_and(|exp| exp <= self.now || exp <= start) {
            return refuse("grant_already_expired");
        }
        Ok(self.add_lot(terms))
    }

    fn add_lot(&mut self, terms: Terms) -> Place {
        let effective_at = terms.start.unwrap_or(self.now);
        let has_started = effective_at <= self.now;
        let parts = if has_started {
            LotParts { free: terms.amount, ..LotParts::default() }
        } else {
            LotParts { waiting: terms.amount, ..LotParts::default() }
        };
        self.lots.push(Lot {
            terms,
            effective_at,
            has_started,
            has_expired: false,
            is_voided: false,
            parts,
        });
        Place::Lot(self.lots.len() - 1)
    }

    fn authorize(&mut self, amount: u64, ttl: u64) -> Decided {
        self.not_frozen()?;
        self.need(amount, false)?;
        let pins = self.draw(amount);
        for (lot, part) in pins.clone() {
            self.lots[lot].parts.held += part;
            self.flow(Some(lot), Bucket::Available, Bucket::Held, part);
        }
        let expires_at = self.now + ttl;
        let made_with = pins.clone();
        let hold = Hold { made_with, pins, expires_at, ..self.new_hold(false, amount) };
        Ok(Place::Hold(self.add_hold(hold)))
    }

    fn charge(&mut self, amount: u64, allow_debt: bool) -> Decided {
        self.not_frozen()?;
        self.need(amount, allow_debt)?;
        let state = State::Captured;
        let charge = Hold { state, captured: amount, ..self.new_hold(true, amount) };
        let place = self.add_hold(charge);
        self.holds[place].made_with = self.spend_available(place, amount);
        Ok(Place::Hold(place))
    }

    fn new_hold(&self, is_charge: bool, amount: u64) -> Hold {
        Hold {
            is_charge,
            state: State::Active,
            amount,
            captured: 0,
            refunded: 0,
            reclaimed: None,
            created_at: self.now,
            expires_at: self.now,
            made_with: Vec::new(),
            pins: Vec::new(),
            spent: Vec::new(),
        }
    }

    fn add_hold(&mut self, hold: Hold) -> usize {
        self.holds.push(hold);
        self.holds.len() - 1
    }

    fn capture(&mut self, asked: Capture) -> Decided {
        let place = self.hold(asked.hold, false, "hold_not_found")?;
        if asked.late && self.holds[place].state == State::Expired {
            return self.late_capture(place, asked);
        }
        self.live_hold(asked.hold)?;
        let held: u64 = self.holds[place].pins.iter().map(|(_, part)| part).sum();
        let amount = asked.amount.unwrap_or(held);
        if amount == 0 && asked.is_final {
            self.end(place, State::Released);
            return Ok(Place::Hold(place));
        }
        let above = amount.saturating_sub(held);
        self.need(above, asked.allow_debt)?;
        self.spend_pinned(place, amount - above);
        self.spend_available(place, above);
        self.holds[place].captured += amount;
        if asked.is_final {
            self.end(place, State::Captured);
        }
        Ok(Place::Hold(place))
    }

    fn late_capture(&mut self, place: usize, asked: Capture) -> Decided {
        let hold = &self.holds[place];
        let rest = hold.amount.saturating_sub(hold.captured);
        let amount = asked.amount.unwrap_or(rest);
        if amount == 0 {
            return Err(Figures::code("hold_expired").with(hold.expires_at));
        }
        self.need(amount, asked.allow_debt)?;
        self.spend_available(place, amount);
        self.holds[place].captured += amount;
        self.holds[place].state = State::Captured;
        Ok(Place::Hold(place))
    }

    fn extend(&mut self, hold: Option<usize>, until: u64) -> Decided {
        let place = self.live_hold(hold)?;
        let hold = &mut self.holds[place];
        if until <= hold.expires_at {
            return Err(Figures::code("extend_not_later").with(hold.expires_at));
        }
        if hold.created_at + 7 * DAY < until {
            return Err(Figures::code("extend_too_long").with(hold.created_at + 7 * DAY));
        }
        hold.expires_at = until;
        Ok(Place::Hold(place))
    }

    fn refund(&mut self, target: Option<usize>, is_charge: bool, amount: Option<u64>) -> Decided {
        let missing = if is_charge { "charge_not_found" } else { "hold_not_found" };
        let place = self.hold(target, is_charge, missing)?;
        let hold = &self.holds[place];
        if hold.captured == 0 {
            return refuse("nothing_captured");
        }
        let refundable = hold.captured + hold.reclaimed.unwrap_or(0) - hold.refunded;
        let amount = amount.unwrap_or(refundable);
        if amount == 0 || amount > refundable {
            return Err(Figures::code("refund_exceeds_captured").with(refundable));
        }
        self.holds[place].refunded += amount;
        let mut left = amount;
        let mut lapsed = 0;
        while left > 0 {
            let last = self.holds[place].spent.last_mut().unwrap();
            let part = last.amount.min(left);
            last.amount -= part;
            let payer = last.payer;
            self.holds[place].spent.retain(|spent| spent.amount > 0);
            left -= part;
            match payer {
                Payer::Owed { .. } => self.flow(None, Bucket::Used, Bucket::Debt, part),
                Payer::Lot(lot) => {
                    self.lots[lot].parts.used -= part;
                    if self.come_back(lot, Bucket::Used, part) == Bucket::Expired {
                        lapsed += part;
                    }
                }
            }
        }
        if let (Some(days), 1..) = (self.policy.regrant_days, lapsed) {
            let expires_at = self.now + u64::from(days) * DAY;
            let terms = usual_terms(lapsed);
            self.add_lot(Terms { promotional: true, exp: Some(expires_at), ..terms });
            self.flow(Some(self.lots.len() - 1), Bucket::Granted, Bucket::Available, lapsed);
        }
        Ok(Place::Hold(place))
    }

    fn reclaim(&mut self, target: Option<usize>, is_charge: bool) -> Decided {
        let missing = if is_charge { "charge_not_found" } else { "hold_not_found" };
        let place = self.hold(target, is_charge, missing)?;
        let hold = &self.holds[place];
        if hold.reclaimed.is_some() {
            return refuse("already_reclaimed");
        }
        if hold.refunded == 0 {
            return refuse("not_refunded");
        }
        let amount = hold.refunded;
        self.holds[place].reclaimed = Some(amount);
        self.spend_available(place, amount);
        Ok(Place::Hold(place))
    }

    fn void(&mut self, lot: Option<usize>, confirm: u64) -> Decided {
        let Some(number) = lot else { return refuse("lot_not_found") };
        if self.lots[number].is_voided {
            return refuse("lot_already_voided");
        }
        if confirm != self.entries {
            return refuse("stale_confirmation");
        }
        let lot = &mut self.lots[number];
        lot.is_voided = true;
        let free = std::mem::take(&mut lot.parts.free);
        let waiting = std::mem::take(&mut lot.parts.waiting);
        lot.parts.voided += free + waiting;
        self.flow(Some(number), Bucket::Available, Bucket::Voided, free);
        self.flow(Some(number), Bucket::Granted, Bucket::Voided, waiting);
        Ok(Place::VoidedLot(number))
    }

    fn not_frozen(&self) -> Result<(), Figures> {
        if self.standing == Standing::Frozen {
            Err(Figures::code("account_frozen"))
        } else {
            Ok(())
        }
    }

    /// Refuses unless so much is available, or may be owed.
    fn need(&self, amount: u64, allow_debt: bool) -> Result<(), Figures> {
        let balance = self.balance();
        let short = amount.saturating_sub(balance.available);
        let owed = balance.debt + short;
        if short == 0 || (allow_debt && owed <= self.policy.debt_limit) {
            return Ok(());
        }
        // A grant would pay the debt first.
        let figures = Figures::code("insufficient_credits").with(balance.available).with(owed);
        let figures = figures.with(balance.debt);
        Err(if allow_debt { figures.with(self.policy.debt_limit) } else { figures })
    }

    fn hold(
        &self,
        place: Option<usize>,
        is_charge: bool,
        missing: &'static str,
    ) -> Result<usize, Figures> {
        let found = place.filter(|place| self.holds[*place].is_charge == is_charge);
        found.ok_or_else(|| Figures::code(missing))
    }

    fn live_hold(&self, place: Option<usize>) -> Result<usize, Figures> {
        let place = self.hold(place, false, "hold_not_found")?;
        let hold = &self.holds[place];
        match hold.state {
            State::Active => Ok(place),
            State::Captured => Err(Figures::code("already_captured").with(hold.captured)),
            State::Released => Err(Figures::code("already_released")),
            State::Expired => Err(Figures::code("hold_expired").with(hold.expires_at)),
        }
    }
}

fn refuse(code: &'static str) -> Decided {
    Err(Figures::code(code))
}

/// A lot that starts now, never ends, and is nothing special.
fn usual_terms(amount: u64) -> Terms {
    Terms { amount, promotional: false, priority: 100, start: None, exp: None, source: None }
}
