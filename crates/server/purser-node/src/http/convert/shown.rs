//! What the ledger has, as bodies.

use std::num::NonZeroU16;

use purser_api as api;
use purser_api::{Amount, Moment, TotalAmount};
use purser_ledger::{
    AccountName, AccountStatus, Balance, Bucket, Category, Hold, HoldKind, HoldState, HomeSpan,
    Last, Lot, LotNumber, LotStatus, LotTerms, Move, Policy, Portion, Receipt, RefundExpired,
    Standing, Total,
};
use purser_types::{Credits, Epoch, Generation, LogTime, Owner, Sequence};

use super::allocations::on_expiry;
use super::budgets::hold_budgets;
use crate::http::problem::Refusal;

/// A home that never moved is the first.
const FIRST_HOME: Epoch = Epoch(1);

/// Shows what belongs to one account.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub(super) account: &'a AccountName,
    owner: &'a Owner,
    homes: &'a [HomeSpan],
}

/// Who has named what an entry made, where `owner` decides now: home's names stay what they are when
/// the home moves.
pub(crate) fn named_by(owner: &Owner, homes: &[HomeSpan], sequence: Sequence) -> Owner {
    let span = span_at(homes, sequence).filter(|_| owner.generation == Generation::HOME);
    span.map_or(*owner, |span| Owner::home(span.home))
}

fn span_at(homes: &[HomeSpan], sequence: Sequence) -> Option<&HomeSpan> {
    homes.iter().rev().find(|span| span.from <= sequence).or_else(|| homes.first())
}

impl<'a> Shown<'a> {
    /// For `account`, about which `owner` decides, and which never had another home.
    pub(crate) const fn new(account: &'a AccountName, owner: &'a Owner) -> Self {
        Self { account, owner, homes: &[] }
    }

    /// For the same account, which has had these homes.
    pub(crate) const fn with_homes(self, homes: &'a [HomeSpan]) -> Self {
        Self { homes, ..self }
    }

    /// Whose it is.
    pub(super) const fn account(&self) -> &AccountName {
        self.account
    }

    /// Who has named what the entry with `sequence` made.
    pub(super) fn named_by(&self, sequence: Sequence) -> Owner {
        named_by(self.owner, self.homes, sequence)
    }

    /// A hold.
    pub(crate) fn hold(&self, hold: &Hold) -> Result<api::Hold, Refusal> {
        Ok(api::Hold {
            hold_id: api::HoldId::new(hold.number.0, self.named_by(hold.number.0)),
            tenant: self.account.tenant.clone().into(),
            unit: self.account.unit.clone().into(),
            status: hold_status(hold.state),
            amount: Amount(hold.amount),
            captured_total: Amount(hold.captured),
            held_remaining: Amount(hold.held),
            refunded_total: Amount(hold.net_refunded()),
            created_at: Moment(hold.created_at),
            expires_at: Moment(hold.expires_at),
            lots: self.shares(hold.lots.iter().copied()),
            overdrawn: overdrawn(hold),
            budgets: hold_budgets(&hold.caps),
            reference: kept(hold.reference.as_deref(), "reference")?,
            sequence: hold.changed_by.into(),
            decided_by: self.decided_by(hold.changed_by),
        })
    }

    /// A charge.
    pub(crate) fn charge(&self, charge: &Hold) -> Result<api::Charge, Refusal> {
        Ok(api::Charge {
            charge_id: api::ChargeId::new(charge.number.0, self.named_by(charge.number.0)),
            tenant: self.account.tenant.clone().into(),
            unit: self.account.unit.clone().into(),
            status: hold_status(charge.state),
            amount: Amount(charge.amount),
            captured_total: Amount(charge.captured),
            held_remaining: Amount(charge.held),
            refunded_total: Amount(charge.net_refunded()),
            created_at: Moment(charge.created_at),
            lots: self.shares(charge.lots.iter().copied()),
            overdrawn: overdrawn(charge),
            budgets: hold_budgets(&charge.caps),
            reference: kept(charge.reference.as_deref(), "reference")?,
            sequence: charge.changed_by.into(),
            decided_by: self.decided_by(charge.changed_by),
        })
    }

    /// A hold or a charge.
    pub(crate) fn subject(&self, hold: &Hold) -> Result<api::Subject, Refusal> {
        Ok(match hold.kind {
            HoldKind::Hold => api::Subject::Hold(self.hold(hold)?),
            HoldKind::Charge => api::Subject::Charge(self.charge(hold)?),
        })
    }

    /// Who has written the entry with `sequence`.
    fn decided_by(&self, sequence: Sequence) -> api::DecidedBy {
        let role = match self.owner.generation {
            Generation::HOME => api::DeciderRole::Home,
            _ => api::DeciderRole::Allocation,
        };
        api::DecidedBy { region: self.named_by(sequence).region.into(), role }
    }

    /// Portions of lots, in their order. What is drawn in one operation names each lot once; an overdraft is
    /// none.
    pub(crate) fn shares(&self, portions: impl Iterator<Item = Portion>) -> Vec<api::LotShare> {
        let portions = portions.filter(|portion| portion.lot != LotNumber::OVERDRAFT);
        let share = |Portion { lot, amount }| api::LotShare {
            lot_id: self.lot_id(lot),
            amount: Amount(amount),
        };
        portions.map(share).collect()
    }

    /// The id of a lot.
    pub(crate) fn lot_id(&self, lot: LotNumber) -> api::LotId {
        api::LotId::new(lot.0, self.named_by(lot.0))
    }

    /// The balance after an operation.
    pub(crate) fn balance_after(&self, receipt: &Receipt) -> api::Balance {
        let Last { log_time, sequence } = receipt.last;
        self.balance(&receipt.balance, log_time, sequence, 0)
    }

    /// A balance.
    pub(crate) fn balance(
        &self,
        balance: &Balance,
        log_time: LogTime,
        sequence: Sequence,
        age_ms: u64,
    ) -> api::Balance {
        api::Balance {
            tenant: self.account.tenant.clone().into(),
            unit: self.account.unit.clone().into(),
            buckets: buckets(balance),
            pending: Amount(balance.pending),
            totals: totals(balance),
            as_of: api::AsOf { log_time: Moment(log_time), sequence: sequence.into() },
            age_ms,
        }
    }

    /// A lot as it stands.
    pub(crate) fn lot(&self, number: LotNumber, lot: &Lot) -> Result<api::Lot, Refusal> {
        // Before it is effective nothing of it is free; it will be.
        let free = lot.free.checked_add(lot.waiting).unwrap_or(Credits::MAX);
        Ok(api::Lot {
            free: Amount(free),
            held: Amount(lot.held),
            used: Amount(lot.used),
            status: lot_status(lot.status()),
            ..self.new_lot(number, &lot.terms, Credits::ZERO, LogTime::ZERO)?
        })
    }

    /// A lot as it was when it was made at `now` and had paid `debt_repaid` of debt.
    pub(crate) fn new_lot(
        &self,
        number: LotNumber,
        terms: &LotTerms,
        debt_repaid: Credits,
        now: LogTime,
    ) -> Result<api::Lot, Refusal> {
        let free = terms.amount.saturating_sub(debt_repaid);
        let status = match (terms.effective_at <= now, free.is_zero()) {
            (false, _) => api::LotStatus::Pending,
            (true, false) => api::LotStatus::Active,
            (true, true) => api::LotStatus::Spent,
        };
        let category = match terms.category {
            Category::Paid => api::LotCategory::Paid,
            Category::Promotional => api::LotCategory::Promotional,
        };
        Ok(api::Lot {
            lot_id: self.lot_id(number),
            category,
            priority: terms.priority,
            amount: Amount(terms.amount),
            free: Amount(free),
            held: Amount(Credits::ZERO),
            used: Amount(debt_repaid),
            effective_at: Moment(terms.effective_at),
            expires_at: terms.expires_at.map(Moment),
            status,
            source_ref: kept(terms.source_ref.as_deref(), "source_ref")?,
        })
    }

    /// An account that stands like this after the entry with `sequence`.
    pub(crate) fn tenant(&self, standing: &Standing, sequence: Sequence) -> api::Tenant {
        api::Tenant {
            tenant: self.account.tenant.clone().into(),
            unit: self.account.unit.clone().into(),
            status: tenant_status(standing.status),
            home: standing.home.into(),
            epoch: span_at(self.homes, sequence).map_or(FIRST_HOME, |span| span.epoch).into(),
            policy: policy(&standing.policy),
            opened_at: Moment(standing.opened_at),
            sequence: sequence.into(),
        }
    }
}

/// The sum of the moves from one bucket to another.
pub(super) fn moved(moves: &[Move], is_meant: impl Fn(Bucket, Bucket) -> bool) -> Credits {
    let meant = moves.iter().filter(|step| is_meant(step.from, step.to));
    meant.fold(Credits::ZERO, |sum, step| sum.checked_add(step.amount).unwrap_or(Credits::MAX))
}

/// A policy.
pub(crate) fn policy(policy: &Policy) -> api::Policy {
    let refund_expired = match policy.refund_expired {
        RefundExpired::Lapse => api::RefundExpired::Lapse,
        RefundExpired::Regrant { days } => match NonZeroU16::new(days) {
            Some(days) => api::RefundExpired::RegrantDays(api::RegrantDays(days)),
            // A lot that lives no day at all has lapsed.
            None => api::RefundExpired::Lapse,
        },
    };
    api::Policy {
        debt_limit: Amount(policy.debt_limit),
        refund_expired,
        takeback_cap: Amount(policy.takeback_cap),
        on_expiry: on_expiry(policy.on_expiry),
        unacknowledged_max: Amount(policy.unacknowledged_max),
        event_age_seconds: policy.events_accepted_for().as_secs(),
    }
}

/// The buckets of a balance.
pub(crate) fn buckets(balance: &Balance) -> api::Buckets {
    api::Buckets {
        granted: Amount(balance.granted),
        available: Amount(balance.available),
        held: Amount(balance.held),
        used: Amount(balance.used),
        expired: Amount(balance.expired),
        voided: Amount(balance.voided),
        debt: Amount(balance.debt),
        allocated: balance
            .allocated
            .iter()
            .map(|(region, out)| (region.to_string(), Amount(*out)))
            .collect(),
    }
}

/// What of a hold or charge no lot was pinned for.
fn overdrawn(hold: &Hold) -> Option<Amount> {
    let portions = hold.lots.iter().filter(|portion| portion.lot == LotNumber::OVERDRAFT);
    portions.map(|portion| Amount(portion.amount)).next()
}

fn totals(balance: &Balance) -> api::Totals {
    let all = |amount: Credits| TotalAmount(u128::from(amount.get()));
    let total = |total: Total| TotalAmount(total.get());
    api::Totals {
        granted: all(balance.granted),
        authorized: total(balance.authorized),
        captured: total(balance.captured),
        released: total(balance.released),
        refunded: total(balance.refunded),
        reclaimed: total(balance.reclaimed),
        expired: all(balance.expired),
    }
}

/// What went through between two balances of one account.
pub(crate) fn totals_between(opening: &Balance, closing: &Balance) -> api::Totals {
    let (from, to) = (totals(opening), totals(closing));
    // Lifetime totals only grow.
    let grown = |from: TotalAmount, to: TotalAmount| TotalAmount(to.0.saturating_sub(from.0));
    api::Totals {
        granted: grown(from.granted, to.granted),
        authorized: grown(from.authorized, to.authorized),
        captured: grown(from.captured, to.captured),
        released: grown(from.released, to.released),
        refunded: grown(from.refunded, to.refunded),
        reclaimed: grown(from.reclaimed, to.reclaimed),
        expired: grown(from.expired, to.expired),
    }
}

pub(crate) const fn tenant_status(status: AccountStatus) -> api::TenantStatus {
    match status {
        AccountStatus::Open => api::TenantStatus::Open,
        AccountStatus::Frozen => api::TenantStatus::Frozen,
        AccountStatus::Closed => api::TenantStatus::Closed,
    }
}

pub(crate) const fn hold_status(state: HoldState) -> api::HoldStatus {
    match state {
        HoldState::Active => api::HoldStatus::Active,
        HoldState::Captured => api::HoldStatus::Captured,
        HoldState::Released => api::HoldStatus::Released,
        HoldState::Expired => api::HoldStatus::Expired,
    }
}

pub(crate) const fn lot_status(status: LotStatus) -> api::LotStatus {
    match status {
        LotStatus::Pending => api::LotStatus::Pending,
        LotStatus::Active => api::LotStatus::Active,
        LotStatus::Expired => api::LotStatus::Expired,
        LotStatus::Voided => api::LotStatus::Voided,
        LotStatus::Spent => api::LotStatus::Spent,
    }
}

/// A text that came in through the contract and goes out through it again.
pub(super) fn kept<T>(text: Option<&str>, what: &str) -> Result<Option<T>, Refusal>
where
    T: std::str::FromStr<Err = api::InvalidText>,
{
    let read = text.map(str::parse).transpose();
    read.map_err(|error| Refusal::internal(format!("a kept {what} cannot be shown: {error}")))
}

#[cfg(test)]
mod tests {
    use purser_types::{Region, TenantId, Unit};

    use super::*;

    #[test]
    fn a_lot_that_paid_debt_at_once_shows_what_is_left() {
        let account =
            AccountName { tenant: TenantId::parse("acme").unwrap(), unit: Unit::credits() };
        let owner = Owner::home(Region::parse("us").unwrap());
        let credits = |amount| Credits::from_u64(amount).unwrap();
        let at = |micros| LogTime::from_unix_micros(micros).unwrap();
        let terms = LotTerms {
            amount: credits(50),
            category: Category::Paid,
            priority: 100,
            effective_at: at(10),
            expires_at: None,
            source_ref: None,
        };
        let shown = Shown::new(&account, &owner);
        let lot = |repaid, now| {
            let lot = shown.new_lot(LotNumber(Sequence(7)), &terms, credits(repaid), at(now));
            let lot = lot.unwrap();
            (lot.free.0.get(), lot.used.0.get(), lot.status)
        };
        assert_eq!(lot(30, 10), (20, 30, api::LotStatus::Active));
        assert_eq!(lot(50, 10), (0, 50, api::LotStatus::Spent));
        assert_eq!(lot(0, 9), (50, 0, api::LotStatus::Pending));
    }
}
