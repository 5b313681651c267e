//! Drawing from lots in burn-down order, and giving back to them.

use purser_types::{Credits, LogTime};

use super::{Account, Draft, Side};
use crate::balance::Balance;
use crate::command::{Cover, Item, LotNumber, Operation, Shortage};
use crate::entry::{Bucket, Fact, Move};
use crate::hold::{Hold, HoldState, Portion, Source};
use crate::lot::DrawKey;
use crate::region::payer;
use crate::rejection::Rejection;

/// Which lots would pay for an amount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// In burn-down order.
    pub(crate) portions: Vec<Portion>,
    /// What no lot could pay.
    pub(crate) short_by: Credits,
}

impl Account {
    /// Plans to draw `amount` from what is available.
    pub(crate) fn plan(&self, amount: Credits) -> Plan {
        self.plan_from(amount, self.draw_order.iter().map(|(key, ())| *key))
    }

    /// Plans to draw `amount`, all of it. Lots that end by `until` pay only what others cannot.
    pub(crate) fn plan_lasting(
        &self,
        amount: Credits,
        until: Option<LogTime>,
    ) -> Result<Vec<Portion>, Rejection> {
        let Some(until) = until else { return self.plan_all(amount) };
        let order = || self.draw_order.iter().map(|(key, ())| *key);
        let lasting = order().filter(|key| !key.ends_by(until));
        let ending = order().filter(|key| key.ends_by(until));
        self.all_of(amount, self.plan_from(amount, lasting.chain(ending)))
    }

    fn plan_from(&self, amount: Credits, order: impl Iterator<Item = DrawKey>) -> Plan {
        let mut portions = Vec::new();
        let mut short_by = amount;
        for key in order {
            if short_by.is_zero() {
                break;
            }
            let lot = key.lot();
            let free = self.lots.get(&lot).expect("INV-9: burn-down order names known lots").free;
            let amount = free.min(short_by);
            short_by = short_by.saturating_sub(amount);
            portions.push(Portion { lot, amount });
        }
        let overdrawn = self.overdraft_room().min(short_by);
        if !overdrawn.is_zero() {
            short_by = short_by.saturating_sub(overdrawn);
            portions.push(Portion { lot: LotNumber::OVERDRAFT, amount: overdrawn });
        }
        Plan { portions, short_by }
    }

    /// Plans to draw `amount`, all of it.
    pub(crate) fn plan_all(&self, amount: Credits) -> Result<Vec<Portion>, Rejection> {
        self.all_of(amount, self.plan(amount))
    }

    fn all_of(&self, amount: Credits, plan: Plan) -> Result<Vec<Portion>, Rejection> {
        let short_by = self.short_by(amount, &plan);
        if short_by.is_zero() { Ok(plan.portions) } else { Err(self.too_few(short_by, None)) }
    }

    /// What is free of its lots, and ends by `until`.
    pub fn ending_by(&self, until: LogTime) -> Credits {
        let ending = self.draw_order.iter().filter(|(key, ())| key.ends_by(until));
        let free = ending.filter_map(|(key, ())| Some(self.lots.get(&key.lot())?.free));
        free.fold(Credits::ZERO, |sum, free| sum.checked_add(free).unwrap_or(Credits::MAX))
    }

    /// What a call is short by: what no lot could pay, and what would come out of the credits that are
    /// set aside for lost homes.
    fn short_by(&self, amount: Credits, plan: &Plan) -> Credits {
        let free = self.balance.available.saturating_sub(self.quarantine());
        let kept = if matches!(self.side, Side::Home(_)) {
            amount.saturating_sub(plan.short_by).saturating_sub(free)
        } else {
            Credits::ZERO
        };
        plan.short_by.checked_add(kept).unwrap_or(Credits::MAX)
    }

    /// Plans to draw `amount`; what is missing may become debt within the account's limit. Credits that
    /// are set aside count as missing, but are used before anything is owed: what is available pays
    /// debt first.
    pub(crate) fn plan_with_debt(
        &self,
        amount: Credits,
        allow_debt: bool,
    ) -> Result<Plan, Rejection> {
        let plan = self.plan(amount);
        let allow_debt = allow_debt && matches!(self.side, Side::Home(_));
        let short_by = self.short_by(amount, &plan);
        let owed = self.balance.debt.checked_add(short_by);
        let limit = allow_debt.then_some(self.standing.policy.debt_limit);
        let within = owed.zip(limit).is_some_and(|(owed, limit)| owed <= limit);
        if short_by.is_zero() || within { Ok(plan) } else { Err(self.too_few(short_by, limit)) }
    }

    /// `unpaid` is what no lot could pay; what is owed would have to be repaid before it.
    pub(crate) fn too_few(&self, unpaid: Credits, debt_limit: Option<Credits>) -> Rejection {
        if let Side::Region(_) = self.side {
            return Rejection::RightExhausted { right: self.right(), short_by: unpaid };
        }
        let Balance { available, debt, .. } = self.balance;
        let short_by = unpaid.checked_add(debt).unwrap_or(Credits::MAX);
        Rejection::InsufficientCredits { available, short_by, debt, debt_limit }
    }

    /// Plans to draw `amount`: from what is there for this operation alone, then like
    /// [`Account::plan_with_debt`]. A region that is short says what it lacks in all, the cover included.
    pub(crate) fn plan_covered(
        &self,
        amount: Credits,
        allow_debt: bool,
        cover: Option<Portion>,
    ) -> Result<Plan, Rejection> {
        let covered =
            cover.map(|Portion { lot, amount: free }| Portion { lot, amount: free.min(amount) });
        let covered = covered.filter(|portion| !portion.amount.is_zero());
        let Some(covered) = covered else { return self.plan_with_debt(amount, allow_debt) };
        match self.plan_with_debt(amount.saturating_sub(covered.amount), allow_debt) {
            Ok(mut plan) => {
                plan.portions.insert(0, covered);
                Ok(plan)
            }
            Err(Rejection::RightExhausted { right, short_by }) => {
                let short_by = short_by.checked_add(covered.amount).unwrap_or(Credits::MAX);
                Err(Rejection::RightExhausted { right, short_by })
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// How an item is refused for want of credits, with what its leader has found out: a region that home
    /// does not help refuses as home would. Any other refusal as it is.
    pub(crate) fn refusal_of(&self, item: &Item, refusal: Rejection) -> Rejection {
        match (&refusal, &item.shortage) {
            (Rejection::RightExhausted { .. }, Some(Shortage::NotCovered(by_home))) => {
                (**by_home).clone()
            }
            _ if self.has_out_for(&item.operation) => {
                self.short_while_out(refusal, item.shortage.as_ref())
            }
            _ => refusal,
        }
    }

    /// Whether credits are out that might serve an operation: for a cover not those of the allocation that
    /// it is for, whose region has no more to give.
    fn has_out_for(&self, operation: &Operation) -> bool {
        if let Operation::Cover(Cover { owner, .. }) = operation {
            let others = self.allocations().filter(|allocation| allocation.owner != *owner);
            return others.into_iter().any(|allocation| !allocation.outstanding().is_zero());
        }
        operation.spends()
    }

    /// The refusal of a call that is short at home while credits are out in regions: these are asked
    /// back first, unless the leader says that it has tried. Any other refusal as it is.
    pub(super) fn short_while_out(
        &self,
        refusal: Rejection,
        shortage: Option<&Shortage>,
    ) -> Rejection {
        let outstanding = self.outstanding();
        if outstanding.is_zero() {
            return refusal;
        }
        let Rejection::InsufficientCredits { available, short_by, .. } = refusal else {
            return refusal;
        };
        match shortage {
            None => Rejection::CreditsOut { available, short_by, outstanding },
            Some(Shortage::Exhausted | Shortage::NotCovered(_)) => refusal,
            Some(Shortage::Stranded { amount, regions }) => {
                let (amount, regions) = (*amount, regions.clone());
                Rejection::Stranded { available, short_by, amount, regions }
            }
        }
    }

    /// Spends a plan: available credits and, for what is missing, debt become used.
    pub(crate) fn spend(&self, plan: &Plan, hold: &mut Hold, moves: &mut Vec<Move>) {
        for portion in &plan.portions {
            let (lot, from) = payer(portion);
            moves.extend(Move::some(lot, from, Bucket::Used, portion.amount));
            hold.add_spend(Source::Lot(portion.lot), portion.amount);
        }
        moves.extend(Move::some(None, Bucket::Debt, Bucket::Used, plan.short_by));
        hold.add_spend(Source::Debt(self.head.sequence.next()), plan.short_by);
    }

    /// Spends `amount` of what the hold has pinned, in burn-down order.
    pub(crate) fn spend_pinned(hold: &mut Hold, amount: Credits, moves: &mut Vec<Move>) {
        let mut rest = amount;
        let pins: Vec<Portion> = hold.pins().collect();
        for pin in pins {
            let taken = pin.amount.min(rest);
            rest = rest.saturating_sub(taken);
            moves.extend(Move::some(payer(&pin).0, Bucket::Held, Bucket::Used, taken));
            hold.add_spend(Source::Lot(pin.lot), taken);
        }
        hold.held = hold.held.saturating_sub(amount);
    }

    /// Gives what the hold has pinned back to its lots; what comes back to an expired lot lapses,
    /// what comes back to a voided one is voided.
    pub(crate) fn unpin(&self, hold: &mut Hold) -> Vec<Move> {
        let back = |pin: Portion| {
            Move::some(payer(&pin).0, Bucket::Held, self.homecoming_of(pin.lot), pin.amount)
        };
        let moves = hold.pins().filter_map(back).collect();
        hold.held = Credits::ZERO;
        moves
    }

    /// Where credits go that come back to a lot. In a region, what ends goes home.
    pub(crate) fn homecoming_of(&self, lot: LotNumber) -> Bucket {
        if lot == LotNumber::OVERDRAFT {
            return Bucket::Debt;
        }
        let lot = self.lots.get(&lot).expect("INV-9: holds name known lots");
        match (&self.side, lot.homecoming()) {
            (Side::Region(_), Bucket::Expired | Bucket::Voided) => Bucket::Returned,
            (_, bucket) => bucket,
        }
    }

    /// A draft about a hold: the next entry is the last that changed it.
    pub(crate) fn about(&self, mut hold: Hold, fact: fn(Hold) -> Fact, moves: Vec<Move>) -> Draft {
        self.touch(&mut hold);
        Draft { fact: fact(hold), moves }
    }

    /// Notes in the hold that the next entry ends it.
    pub(crate) fn end(&self, hold: &mut Hold, how: HoldState) {
        hold.state = how;
        hold.ended_by = Some(self.head.sequence.next());
    }

    /// Notes in the hold that the next entry changes it.
    pub(crate) fn touch(&self, hold: &mut Hold) {
        hold.changed_before = Some(hold.changed_by);
        hold.changed_by = self.head.sequence.next();
    }
}
