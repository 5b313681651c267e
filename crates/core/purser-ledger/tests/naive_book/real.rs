//! The ledger under test, asked and told in the naive book's terms.

use std::collections::BTreeMap;
use std::ops::Bound;

use purser_ledger::scenario::MemoryHistory;
use purser_ledger::{
    Account, AccountName, AccountStatus, Adjust, Answer, AsOf, Authorize, Capture, Category,
    Charge, Close, Command, Confirm, Context, Entry, Extend, Fact, Grant, HoldKind, HoldNumber,
    HoldState, IfExpired, Item, Ledger, Lot, LotNumber, LotStatus, OnExpiry, Open, Operation,
    Outcome, PolicyChange, Portion, Receipt, Reclaim, Refund, RefundExpired, Rejection, Release,
    Source, Target, Void, codec, invariants,
};
use purser_types::{
    Credits, IdempotencyKey, LogTime, Machine, OperationId, Region, Sequence, Span, Stamped,
    TenantId, Unit,
};

use crate::asking::{Policy, Request};
use crate::book::{Balance, Hold, LotParts, Payer, Spent, Standing, State};
use crate::telling::{About, Accepted, Bucket, Figures, Told};

/// A ledger of one account, its history, and the log that led to it.
#[derive(Default)]
pub(crate) struct Real {
    pub(crate) ledger: Ledger,
    pub(crate) history: MemoryHistory,
    pub(crate) log: Vec<Logged>,
    /// The naive book's holds and charges, by their numbers in the ledger.
    holds: Vec<HoldNumber>,
}

/// A command as the log carries it, and what it was answered with.
pub(crate) struct Logged {
    pub(crate) at: LogTime,
    pub(crate) command: Vec<u8>,
    pub(crate) answer: Answer,
}

impl Real {
    pub(crate) fn open(policy: Policy) -> Self {
        let mut real = Self::default();
        let open =
            Open { home: Region::parse("here").unwrap(), policy: policy_of(policy), epoch: None };
        let item = Item::new(Context::default(), Operation::Open(open));
        let items = vec![item];
        real.apply(&Command::at_home(name(), items), LogTime::ZERO);
        real
    }

    /// Asks, and tells the answers as the naive book would.
    pub(crate) fn ask(&mut self, asked: &[(u32, Request)], now: LogTime) -> Vec<Told> {
        let items = asked.iter().map(|(key, request)| self.item(*key, request)).collect();
        let index = self.next_index();
        let answer = self.apply(&Command::at_home(name(), items), now);
        let lots = self.lots();
        let outcomes = match &answer {
            Answer::Account(outcomes) => outcomes.as_slice(),
            Answer::Swept { .. }
            | Answer::PassedOn(_)
            | Answer::Move(_)
            | Answer::Life(_)
            | Answer::Leased(_)
            | Answer::Sink(_) => &[],
        };
        outcomes.iter().map(|outcome| self.told(outcome, index, &lots)).collect()
    }

    fn apply(&mut self, command: &Command, at: LogTime) -> Answer {
        let index = self.next_index();
        let command = codec::encode(command);
        let stamped = Stamped { index, ordinal: 0, at, command: &command };
        let answer = self.ledger.apply(stamped, &mut self.history).unwrap();
        invariants::check_ledger(&self.ledger).unwrap();
        self.log.push(Logged { at, command, answer: answer.clone() });
        answer
    }

    fn next_index(&self) -> u64 {
        self.log.len() as u64 + 1
    }

    fn account(&self) -> &Account {
        self.ledger.account(&name()).unwrap()
    }

    pub(crate) fn view(&self, now: LogTime) -> AsOf<'_> {
        self.account().at(now, &self.history).unwrap()
    }

    /// The numbers of the lots, in the order in which they were made.
    pub(crate) fn lots(&self) -> Vec<LotNumber> {
        self.account().lots_from(Bound::Unbounded).map(|(number, _)| *number).collect()
    }

    fn item(&self, key: u32, request: &Request) -> Item {
        let key = Some(IdempotencyKey::parse(&format!("key {key}")).unwrap());
        let operation = self.operation(request);
        Item::new(Context { key, ..Context::default() }, operation)
    }

    fn operation(&self, request: &Request) -> Operation {
        match *request {
            Request::Grant(terms) => Operation::Grant(Grant {
                amount: credits(terms.amount),
                category: if terms.promotional { Category::Promotional } else { Category::Paid },
                priority: terms.priority,
                effective_at: terms.start.map(at),
                expires_at: terms.exp.map(at),
                source_ref: terms.source.map(|source| format!("source {source}").into()),
            }),
            Request::Authorize { amount, ttl } => Operation::Authorize(Authorize {
                amount: credits(amount),
                ttl: Span::from_secs(ttl),
                reference: None,
                budgets: Box::default(),
            }),
            Request::Capture(asked) => Operation::Capture(Capture {
                hold: self.number(asked.hold),
                amount: asked.amount.map(credits),
                is_final: asked.is_final,
                allow_debt: asked.allow_debt,
                if_expired: if asked.late { IfExpired::Charge } else { IfExpired::Refuse },
                away: None,
            }),
            Request::Release { hold } => {
                Operation::Release(Release { hold: self.number(hold), away: None })
            }
            Request::Extend { hold, until } => {
                Operation::Extend(Extend { hold: self.number(hold), until: at(until), away: None })
            }
            Request::Charge { amount, allow_debt } => {
                let amount = credits(amount);
                let (reference, budgets) = (None, Box::default());
                Operation::Charge(Charge { amount, allow_debt, reference, budgets })
            }
            Request::Refund { target, is_charge, amount } => {
                let target = self.target(target, is_charge);
                Operation::Refund(Refund { target, amount: amount.map(credits), away: None })
            }
            Request::Reclaim { target, is_charge } => {
                Operation::Reclaim(Reclaim { target: self.target(target, is_charge), away: None })
            }
            Request::Void { lot, confirm } => {
                let nothing = LotNumber(Sequence::ZERO);
                let lot = lot.and_then(|place| self.lots().get(place).copied()).unwrap_or(nothing);
                Operation::Void(Void { lot, confirm: Confirm(Sequence(confirm)) })
            }
            Request::AdjustUp { amount } => {
                Operation::Adjust(Adjust::Add { amount: credits(amount) })
            }
            Request::AdjustDown { amount } => {
                Operation::Adjust(Adjust::Remove { amount: credits(amount) })
            }
            Request::SetPolicy(change) => Operation::SetPolicy(PolicyChange {
                debt_limit: change.debt_limit.map(credits),
                refund_expired: change.regrant_days.map(refund_expired),
                key_retention: None,
                record_retention: None,
                takeback_cap: None,
                unacknowledged_max: None,
                on_expiry: None,
                event_age: None,
            }),
            Request::Freeze => Operation::Freeze,
            Request::Unfreeze => Operation::Unfreeze,
            Request::Close { confirm } => {
                Operation::Close(Close { confirm: Confirm(Sequence(confirm)) })
            }
        }
    }

    fn number(&self, hold: Option<usize>) -> HoldNumber {
        let number = hold.and_then(|place| self.holds.get(place).copied());
        number.unwrap_or(HoldNumber(Sequence::ZERO))
    }

    fn target(&self, hold: Option<usize>, is_charge: bool) -> Target {
        let number = self.number(hold);
        if is_charge { Target::Charge(number) } else { Target::Hold(number) }
    }

    /// An outcome in the naive book's terms. Notes the number of a new hold or charge.
    fn told(&mut self, outcome: &Outcome, index: u64, lots: &[LotNumber]) -> Told {
        let result = match &outcome.result {
            Err(rejection) => Err(figures(rejection)),
            Ok(receipt) => {
                let is_new = receipt.entry.operation == OperationId { index, ordinal: 0 };
                if let Fact::Authorized(hold) | Fact::Charged(hold) = &receipt.entry.fact
                    && is_new
                    && !outcome.replayed
                {
                    self.holds.push(hold.number);
                }
                Ok(Accepted {
                    flows: flows(&receipt.entry, lots),
                    about: about(receipt, lots),
                    repaid: receipt.debt_repaid.get(),
                    balance: balance(&receipt.balance),
                })
            }
        };
        Told { result, replayed: outcome.replayed }
    }

    /// Every hold and charge, in the naive book's terms.
    pub(crate) fn holds(&self, view: &AsOf<'_>) -> Vec<Hold> {
        let lots = self.lots();
        let numbers = self.holds.iter();
        let found = numbers.map(|number| {
            let as_hold = view.hold(Target::Hold(*number)).unwrap();
            let as_charge = view.hold(Target::Charge(*number)).unwrap();
            naive_hold(&as_hold.or(as_charge).unwrap(), &lots)
        });
        found.collect()
    }
}

pub(crate) fn name() -> AccountName {
    AccountName { tenant: TenantId::parse("acme").unwrap(), unit: Unit::credits() }
}

/// Seconds as an instant.
pub(crate) fn at(seconds: u64) -> LogTime {
    LogTime::ZERO.saturating_add(Span::from_secs(seconds))
}

fn seconds(instant: LogTime) -> u64 {
    instant.since(LogTime::ZERO).as_secs()
}

fn credits(amount: u64) -> Credits {
    Credits::from_u64(amount).unwrap()
}

fn policy_of(policy: Policy) -> purser_ledger::Policy {
    purser_ledger::Policy {
        debt_limit: credits(policy.debt_limit),
        refund_expired: refund_expired(policy.regrant_days),
        key_retention: Span::from_secs(policy.key_retention),
        record_retention: Span::from_secs(policy.record_retention),
        takeback_cap: Credits::ZERO,
        on_expiry: OnExpiry::Keep,
        unacknowledged_max: Credits::ZERO,
        event_age: None,
    }
}

fn refund_expired(regrant_days: Option<u16>) -> RefundExpired {
    regrant_days.map_or(RefundExpired::Lapse, |days| RefundExpired::Regrant { days })
}

fn place_of(lot: LotNumber, lots: &[LotNumber]) -> usize {
    lots.iter().position(|other| *other == lot).unwrap()
}

fn flows(entry: &Entry, lots: &[LotNumber]) -> BTreeMap<(Option<usize>, Bucket, Bucket), u64> {
    let mut sums = BTreeMap::new();
    if matches!(entry.fact, Fact::Granted(_) | Fact::AdjustedUp(_)) {
        return sums;
    }
    for step in &entry.moves {
        let lot = step.lot.map(|lot| place_of(lot, lots));
        *sums.entry((lot, bucket(step.from), bucket(step.to))).or_default() += step.amount.get();
    }
    sums
}

fn bucket(bucket: purser_ledger::Bucket) -> Bucket {
    match bucket {
        purser_ledger::Bucket::Granted => Bucket::Granted,
        purser_ledger::Bucket::Available => Bucket::Available,
        purser_ledger::Bucket::Held => Bucket::Held,
        purser_ledger::Bucket::Used => Bucket::Used,
        purser_ledger::Bucket::Expired => Bucket::Expired,
        purser_ledger::Bucket::Voided => Bucket::Voided,
        purser_ledger::Bucket::Debt => Bucket::Debt,
        purser_ledger::Bucket::Returned | purser_ledger::Bucket::Allocated(_) => {
            panic!("nothing here leaves home")
        }
    }
}

fn about(receipt: &Receipt, lots: &[LotNumber]) -> About {
    let entry = &receipt.entry;
    if let Some(hold) = entry.fact.hold() {
        return About::Hold(naive_hold(hold, lots));
    }
    if let Some(standing) = entry.fact.standing() {
        return about_account(standing);
    }
    let known_lot = |number, lot| {
        let (parts, status) = naive_lot(lot);
        About::KnownLot(place_of(number, lots), parts, status)
    };
    let made = LotNumber(entry.sequence);
    match (&entry.fact, &receipt.existing) {
        (_, Some(lot)) => known_lot(made, lot),
        (Fact::Granted(_) | Fact::AdjustedUp(_), None) => About::Lot(place_of(made, lots)),
        (Fact::Voided { number, lot }, None) => known_lot(*number, lot),
        _ => About::Credits,
    }
}

fn about_account(standing: &purser_ledger::Standing) -> About {
    assert_eq!(standing.opened_at, LogTime::ZERO);
    let status = match standing.status {
        AccountStatus::Open => Standing::Open,
        AccountStatus::Frozen => Standing::Frozen,
        AccountStatus::Closed => Standing::Closed,
    };
    let policy = Policy {
        debt_limit: standing.policy.debt_limit.get(),
        regrant_days: match standing.policy.refund_expired {
            RefundExpired::Lapse => None,
            RefundExpired::Regrant { days } => Some(days),
        },
        key_retention: standing.policy.key_retention.as_secs(),
        record_retention: standing.policy.record_retention.as_secs(),
    };
    About::Account(status, policy)
}

pub(crate) fn balance(balance: &purser_ledger::Balance) -> Balance {
    Balance {
        granted: balance.granted.get(),
        available: balance.available.get(),
        held: balance.held.get(),
        used: balance.used.get(),
        expired: balance.expired.get(),
        voided: balance.voided.get(),
        debt: balance.debt.get(),
        pending: balance.pending.get(),
    }
}

/// A lot's parts, and what it shows.
pub(crate) fn naive_lot(lot: &Lot) -> (LotParts, &'static str) {
    let parts = LotParts {
        waiting: lot.waiting.get(),
        free: lot.free.get(),
        held: lot.held.get(),
        used: lot.used.get(),
        expired: lot.expired.get(),
        voided: lot.voided.get(),
    };
    let status = match lot.status() {
        LotStatus::Pending => "pending",
        LotStatus::Active => "active",
        LotStatus::Expired => "expired",
        LotStatus::Voided => "voided",
        LotStatus::Spent => "spent",
    };
    (parts, status)
}

fn naive_hold(hold: &purser_ledger::Hold, lots: &[LotNumber]) -> Hold {
    let spent = hold.spent.iter().map(|spend| Spent {
        payer: match spend.source {
            Source::Lot(lot) => Payer::Lot(place_of(lot, lots)),
            Source::Debt(origin) => Payer::Owed { since: origin.0 },
        },
        amount: spend.amount.get(),
    });
    let part = |portion: Portion| (place_of(portion.lot, lots), portion.amount.get());
    Hold {
        is_charge: hold.kind == HoldKind::Charge,
        state: match hold.state {
            HoldState::Active => State::Active,
            HoldState::Captured => State::Captured,
            HoldState::Released => State::Released,
            HoldState::Expired => State::Expired,
        },
        amount: hold.amount.get(),
        captured: hold.captured.get(),
        refunded: hold.refunded.get(),
        reclaimed: hold.reclaimed.map(Credits::get),
        created_at: seconds(hold.created_at),
        expires_at: seconds(hold.expires_at),
        made_with: hold.lots.iter().copied().map(part).collect(),
        pins: hold.pins().map(part).collect(),
        spent: spent.collect(),
    }
    .tidy()
}

fn figures(rejection: &Rejection) -> Figures {
    match rejection {
        Rejection::HoldNotFound => Figures::code("hold_not_found"),
        Rejection::ChargeNotFound => Figures::code("charge_not_found"),
        Rejection::LotNotFound => Figures::code("lot_not_found"),
        Rejection::InsufficientCredits { available, short_by, debt, debt_limit } => {
            let figures =
                Figures::code("insufficient_credits").with(available.get()).with(short_by.get());
            let figures = figures.with(debt.get());
            match debt_limit {
                Some(limit) => figures.with(limit.get()),
                None => figures,
            }
        }
        Rejection::HoldExpired { expired_at } => {
            Figures::code("hold_expired").with(seconds(*expired_at))
        }
        Rejection::AlreadyCaptured { captured, .. } => {
            Figures::code("already_captured").with(captured.get())
        }
        Rejection::AlreadyReleased { .. } => Figures::code("already_released"),
        Rejection::NothingCaptured => Figures::code("nothing_captured"),
        Rejection::RefundExceedsCaptured { refundable } => {
            Figures::code("refund_exceeds_captured").with(refundable.get())
        }
        Rejection::NotRefunded => Figures::code("not_refunded"),
        Rejection::AlreadyReclaimed => Figures::code("already_reclaimed"),
        Rejection::AccountFrozen => Figures::code("account_frozen"),
        Rejection::AlreadyFrozen => Figures::code("already_frozen"),
        Rejection::TooManyParts => Figures::code("too_many_parts"),
        Rejection::AccountClosed => Figures::code("account_closed"),
        Rejection::NotFrozen => Figures::code("not_frozen"),
        Rejection::CloseBlocked { holds, debt, allocations: 0, tails: 0, jobs: 0 } => {
            Figures::code("close_blocked").with(*holds).with(debt.get())
        }
        Rejection::SourceRefConflict { amount, .. } => {
            Figures::code("source_ref_conflict").with(amount.get())
        }
        Rejection::GrantExpired => Figures::code("grant_already_expired"),
        Rejection::LotAlreadyVoided => Figures::code("lot_already_voided"),
        Rejection::ExtendNotLater { expires_at } => {
            Figures::code("extend_not_later").with(seconds(*expires_at))
        }
        Rejection::ExtendTooLong { latest } => {
            Figures::code("extend_too_long").with(seconds(*latest))
        }
        Rejection::StaleConfirmation { .. } => Figures::code("stale_confirmation"),
        Rejection::KeyReused => Figures::code("key_reused"),
        Rejection::BatchAborted { item } => Figures::code("batch_aborted").with(u64::from(*item)),
        other => panic!("nothing here should lead to {other:?}"),
    }
}
