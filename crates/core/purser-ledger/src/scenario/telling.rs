//! Answers in words: entries, rejections, balances.

use purser_types::Credits;

use super::allocation_texts::{allocation_text, counted, expiry_text, owner_text, settlement_text};
use super::budgets::{budget_text, caps_text};
use super::jobs::job_text;
use super::moment::{instant_text, span_text};
use super::moving_texts::{home_text, tail_text};
use super::names::{Book, Names};
use crate::answer::{Outcome, Receipt};
use crate::balance::Balance;
use crate::command::{Category, Grant, HoldNumber, LotNumber};
use crate::entry::{Entry, Fact, Move};
use crate::hold::{Hold, HoldState, Portion, Source, Spend};
use crate::lot::{Lot, LotStatus, LotTerms};
use crate::policy::{Policy, RefundExpired};

/// Tells of one book, by the transcript's names.
pub(super) struct Teller<'a> {
    pub(super) names: &'a Names,
    pub(super) book: &'a Book,
}

impl Teller<'_> {
    /// What became of a request that wrote no entry of its own; nothing to tell if it wrote one.
    pub(super) fn outcome(
        &self,
        outcome: &Outcome,
        is_new: impl Fn(&Entry) -> bool,
    ) -> Option<String> {
        let remembered = if outcome.replayed { " (remembered)" } else { "" };
        match &outcome.result {
            Err(rejection) => Some(format!("rejected {}{remembered}", self.rejection(rejection))),
            Ok(receipt) if outcome.replayed => {
                let (entry, found) = (self.entry(&receipt.entry), self.existing(receipt));
                Some(format!("{entry}{remembered}{found}"))
            }
            Ok(receipt) if is_new(&receipt.entry) => None,
            Ok(receipt) => {
                let (entry, found) = (self.entry(&receipt.entry), self.existing(receipt));
                Some(format!("{entry} (made before){found}"))
            }
        }
    }

    /// `, L1 active free=20 used=30`: the lot that had been granted before, as it was found.
    fn existing(&self, receipt: &Receipt) -> String {
        let Some(lot) = &receipt.existing else { return String::new() };
        format!(", {}", self.lot(LotNumber(receipt.entry.sequence), lot))
    }

    /// The balance of an answer, with what it repaid.
    pub(super) fn balance_of(&self, receipt: &Receipt) -> String {
        let balance = self.balance(&receipt.balance);
        if receipt.debt_repaid.is_zero() {
            return balance;
        }
        format!("{balance}, repaid {}", receipt.debt_repaid)
    }

    /// `A=70 H=30`.
    pub(super) fn balance(&self, balance: &Balance) -> String {
        let figures = figures(&[
            ("A", balance.available),
            ("H", balance.held),
            ("U", balance.used),
            ("X", balance.expired),
            ("V", balance.voided),
            ("D", balance.debt),
            ("P", balance.pending),
            ("R", balance.returned),
        ]);
        let out = balance.allocated.iter().map(|(region, out)| format!(" {region}={out}"));
        let figures = figures + &out.collect::<String>();
        if figures.is_empty() { "A=0".to_owned() } else { figures.trim_start().to_owned() }
    }

    /// What an entry says, and the credits it moved.
    pub(super) fn entry(&self, entry: &Entry) -> String {
        let kind = entry.fact.kind();
        format!("{kind}{}{}", self.fact(entry), self.moves(&entry.moves))
    }

    fn fact(&self, entry: &Entry) -> String {
        let at = instant_text(entry.log_time);
        match &entry.fact {
            Fact::Opened { standing, .. } => format!(" home={}", standing.home),
            Fact::Granted(terms) | Fact::AdjustedUp(terms) => {
                let pending = if entry.log_time < terms.effective_at { " pending" } else { "" };
                let lot = self.lot_name(LotNumber(entry.sequence));
                format!(" {lot} {}{pending}{}", terms.amount, terms_text(terms))
            }
            Fact::LotEffective(lot) | Fact::LotExpired(lot) => {
                format!(" {} at={at}", self.lot_name(*lot))
            }
            Fact::Voided { number, .. } => format!(" {}", self.lot_name(*number)),
            Fact::Authorized(hold) | Fact::Extended(hold) => {
                let (name, until) = (self.hold_name(hold.number), instant_text(hold.expires_at));
                format!(" {name} {} until={until}{}", hold.amount, caps_text(&hold.caps))
            }
            Fact::Captured(hold) | Fact::LateCaptured(hold) => {
                let held = figures(&[("held", hold.held)]);
                format!(" {} total={}{held}", self.hold_name(hold.number), hold.captured)
            }
            Fact::Charged(hold) => {
                let name = self.hold_name(hold.number);
                format!(" {name} {}{}", hold.amount, caps_text(&hold.caps))
            }
            Fact::BudgetSet(budget) => budget_text(budget),
            Fact::BudgetRemoved(budget) => format!(" {}", budget.name),
            Fact::HoldExpired(hold) => format!(" {} at={at}", self.hold_name(hold.number)),
            Fact::Released(hold) => format!(" {}", self.hold_name(hold.number)),
            Fact::DebtRepaid(hold) => format!(" {}", self.hold_name_here_or_away(hold)),
            Fact::Refunded { hold, .. } => {
                format!(" {} refundable={}", self.hold_name_here_or_away(hold), hold.net())
            }
            Fact::Reclaimed(hold) => {
                format!(" {} net={}", self.hold_name_here_or_away(hold), hold.net())
            }
            Fact::PolicySet(standing) => policy_text(&standing.policy),
            Fact::Allocated(allocation)
            | Fact::AllocationSet(allocation)
            | Fact::TakenBack(allocation)
            | Fact::Covered(allocation)
            | Fact::CoverPaid(allocation)
            | Fact::WrittenOff(allocation) => allocation_text(allocation),
            Fact::Settled(settlement) => settlement_text(settlement),
            Fact::VoucherAccepted(voucher) => format!(" {}", self.voucher(voucher)),
            Fact::RefundPromised { hold, amount } => {
                let name = self.hold_name(hold.number);
                format!(" {name} {amount} refundable={}", hold.net())
            }
            Fact::ReturnedHome { recall } => counted("recall", *recall),
            Fact::HomeStopped(stop) => format!(" to={} epoch={}", stop.to, stop.epoch.0),
            Fact::HomeMoved(change) => home_text(change),
            Fact::TailBooked(run) => self.tail_run(run),
            Fact::TailWrittenOff(tail) => tail_text(tail),
            Fact::JobCreated(change) | Fact::JobOutcome(change) | Fact::JobDiscarded(change) => {
                self.job_change(change)
            }
            Fact::JobLeased(job) | Fact::JobRenewed(job) | Fact::JobRedriven(job) => {
                format!(" {}", job_text(job))
            }
            Fact::EventApplied(change) => self.event_change(change),
            Fact::EventParked(parked) | Fact::EventDiscarded(parked) => {
                format!(" {}", self.parked_event(parked))
            }
            Fact::AdjustedDown
            | Fact::Frozen(_)
            | Fact::Unfrozen(_)
            | Fact::Closed(_)
            | Fact::AllocationSealed
            | Fact::AllocationFinished => String::new(),
        }
    }

    /// `, held>used L1=20 L2=5, held>available L2=15`.
    fn moves(&self, moves: &[Move]) -> String {
        let mut text = String::new();
        let mut way = None;
        for step in moves {
            if way != Some((step.from, step.to)) {
                way = Some((step.from, step.to));
                text.push_str(&format!(", {}>{}", step.from, step.to));
            }
            let payer = step.lot.map_or_else(|| "nobody".to_owned(), |lot| self.lot_name(lot));
            text.push_str(&format!(" {payer}={}", step.amount));
        }
        text
    }

    /// A lot as it stands: its parts, and its terms where they are not the usual ones.
    pub(super) fn lot(&self, number: LotNumber, lot: &Lot) -> String {
        let status = match lot.status() {
            LotStatus::Pending => "pending",
            LotStatus::Active => "active",
            LotStatus::Expired => "expired",
            LotStatus::Voided => "voided",
            LotStatus::Spent => "spent",
        };
        let parts = figures(&[
            ("pending", lot.waiting),
            ("free", lot.free),
            ("held", lot.held),
            ("used", lot.used),
            ("expired", lot.expired),
            ("voided", lot.voided),
            ("returned", lot.returned),
            ("out", lot.allocated),
        ]);
        format!("{} {status}{parts}{}", self.lot_name(number), terms_text(&lot.terms))
    }

    /// A hold or charge as it stands.
    pub(super) fn hold(&self, hold: &Hold) -> String {
        let state = match hold.state {
            HoldState::Active => "active",
            HoldState::Captured => "captured",
            HoldState::Released => "released",
            HoldState::Expired => "expired",
        };
        let totals = figures(&[
            ("captured", hold.captured),
            ("refunded", hold.refunded),
            ("reclaimed", hold.reclaimed.unwrap_or(Credits::ZERO)),
        ]);
        let name = self.hold_name(hold.number);
        let until = instant_text(hold.expires_at);
        let mut text = format!("{name} {state} {}{totals} until={until}", hold.amount);
        if !hold.held.is_zero() {
            let pins: Vec<Portion> = hold.pins().collect();
            text.push_str(&format!(", pins{}", self.portions(&pins)));
        }
        if !hold.spent.is_empty() {
            text.push_str(&format!(", spent{}", self.spends(&hold.spent)));
        }
        text
    }

    /// ` L1=20 L2=10`.
    pub(super) fn portions(&self, portions: &[Portion]) -> String {
        let text =
            |portion: &Portion| format!(" {}={}", self.lot_name(portion.lot), portion.amount);
        portions.iter().map(text).collect()
    }

    fn spends(&self, spends: &[Spend]) -> String {
        let text = |spend: &Spend| match spend.source {
            Source::Lot(lot) => format!(" {}={}", self.lot_name(lot), spend.amount),
            Source::Debt(_) => format!(" debt={}", spend.amount),
        };
        spends.iter().map(text).collect()
    }

    /// Lots are home's, in every region.
    pub(super) fn lot_name(&self, lot: LotNumber) -> String {
        if lot == LotNumber::OVERDRAFT {
            return "overdraft".to_owned();
        }
        self.names.of(&Book::at_home(self.book.account.clone()), lot.0)
    }

    pub(super) fn hold_name(&self, hold: HoldNumber) -> String {
        self.names.of(self.book, hold.0)
    }

    /// A hold of this book, or at home one of a region: `eu/1:h1`.
    pub(super) fn hold_name_here_or_away(&self, hold: &Hold) -> String {
        let account = &self.book.account;
        let Some(owner) = self.names.allocation(account, hold.allocation) else {
            return self.hold_name(hold.number);
        };
        let away = Book { account: account.clone(), owner: Some(owner) };
        format!("{}:{}", owner_text(owner), self.names.of(&away, hold.number.0))
    }
}

/// ` name=amount` for each amount that is not zero.
pub(super) fn figures(figures: &[(&str, Credits)]) -> String {
    let shown = figures.iter().filter(|(_, amount)| !amount.is_zero());
    shown.map(|(name, amount)| format!(" {name}={amount}")).collect()
}

/// A lot's terms, without those that are the usual ones.
fn terms_text(terms: &LotTerms) -> String {
    let mut text = String::new();
    if terms.priority != Grant::PRIORITY_DEFAULT {
        text.push_str(&format!(" priority={}", terms.priority));
    }
    if terms.category == Category::Promotional {
        text.push_str(" promotional");
    }
    if let Some(expires_at) = terms.expires_at {
        text.push_str(&format!(" until={}", instant_text(expires_at)));
    }
    text
}

fn policy_text(policy: &Policy) -> String {
    let refund_expired = match policy.refund_expired {
        RefundExpired::Lapse => "lapse".to_owned(),
        RefundExpired::Regrant { days } => format!("regrant:{days}d"),
    };
    format!(
        " debt_limit={} refund_expired={refund_expired} key_retention={} record_retention={}{}{}{}",
        policy.debt_limit,
        span_text(policy.key_retention),
        span_text(policy.record_retention),
        figures(&[
            ("takeback_cap", policy.takeback_cap),
            ("unacknowledged_max", policy.unacknowledged_max),
        ]),
        expiry_text(policy.on_expiry),
        policy.event_age.map(|age| format!(" event_age={}", span_text(age))).unwrap_or_default(),
    )
}
