//! The answer to each operation, from its receipt and nothing else.
//!
//! A repeated request has its receipt again, and so its answer again, whatever has happened since.
//! Whoever looks at the account here breaks that.

use purser_api as api;
use purser_api::Amount;
use purser_ledger::{Bucket, Confirm, Entry, Fact, Hold, LotNumber, Portion, Receipt};
use purser_types::Credits;

use super::shown::{Shown, moved};
use crate::http::problem::Refusal;

impl Shown<'_> {
    /// Answers authorize, release and extend.
    pub(crate) fn hold_answer(&self, receipt: &Receipt) -> Result<api::HoldAnswer, Refusal> {
        let hold = self.hold(subject_of(receipt)?)?;
        Ok(api::HoldAnswer { hold, balance: self.balance_after(receipt) })
    }

    /// Answers capture.
    pub(crate) fn capture_answer(&self, receipt: &Receipt) -> Result<api::CaptureAnswer, Refusal> {
        let Entry { moves, fact, .. } = &receipt.entry;
        Ok(api::CaptureAnswer {
            hold: self.hold(subject_of(receipt)?)?,
            captured: Amount(moved(moves, |_, to| to == Bucket::Used)),
            debt_added: Amount(debt_added(receipt)),
            late: matches!(fact, Fact::LateCaptured(_)),
            balance: self.balance_after(receipt),
        })
    }

    /// Answers charge.
    pub(crate) fn charge_answer(&self, receipt: &Receipt) -> Result<api::ChargeAnswer, Refusal> {
        Ok(api::ChargeAnswer {
            charge: self.charge(subject_of(receipt)?)?,
            debt_added: Amount(debt_added(receipt)),
            balance: self.balance_after(receipt),
        })
    }

    /// Answers refund.
    pub(crate) fn refund_answer(&self, receipt: &Receipt) -> Result<api::RefundAnswer, Refusal> {
        let Entry { moves, fact, sequence, .. } = &receipt.entry;
        let subject = subject_of(receipt)?;
        let regranted = fact.new_lot().is_some().then(|| self.lot_id(LotNumber(*sequence)));
        let to_expired = moved(moves, |from, to| (from, to) == (Bucket::Used, Bucket::Expired));
        Ok(api::RefundAnswer {
            subject: self.subject(subject)?,
            refunded: Amount(moved(moves, |from, _| from == Bucket::Used)),
            // What another lot makes up for has not lapsed.
            lapsed: Amount(if regranted.is_some() { Credits::ZERO } else { to_expired }),
            regranted_lot: regranted,
            debt_cancelled: Amount(moved(moves, |_, to| to == Bucket::Debt)),
            refundable: Amount(subject.net()),
            balance: self.balance_after(receipt),
        })
    }

    /// Answers reclaim.
    pub(crate) fn reclaim_answer(&self, receipt: &Receipt) -> Result<api::ReclaimAnswer, Refusal> {
        let moves = &receipt.entry.moves;
        Ok(api::ReclaimAnswer {
            subject: self.subject(subject_of(receipt)?)?,
            reclaimed: Amount(moved(moves, |_, to| to == Bucket::Used)),
            debt_added: Amount(debt_added(receipt)),
            balance: self.balance_after(receipt),
        })
    }
}

impl Shown<'_> {
    /// Answers open, policy, freeze and unfreeze.
    pub(crate) fn tenant_answer(&self, receipt: &Receipt) -> Result<api::TenantAnswer, Refusal> {
        let standing = receipt.entry.fact.standing();
        let standing = standing.ok_or_else(|| Refusal::internal("a receipt about no account"))?;
        Ok(api::TenantAnswer {
            tenant: self.tenant(standing, receipt.last.sequence),
            balance: self.balance_after(receipt),
        })
    }

    /// Answers close. A dry run has something to confirm.
    pub(crate) fn close_answer(
        &self,
        receipt: &Receipt,
        to_confirm: Option<Confirm>,
    ) -> Result<api::CloseAnswer, Refusal> {
        let api::TenantAnswer { tenant, balance } = self.tenant_answer(receipt)?;
        let confirm = to_confirm.map(|confirm| confirm.0.into());
        Ok(api::CloseAnswer { dry_run: confirm.is_some(), confirm, tenant, balance })
    }

    /// Answers grant.
    pub(crate) fn grant_answer(&self, receipt: &Receipt) -> Result<api::GrantAnswer, Refusal> {
        let lot = match &receipt.existing {
            Some(lot) => self.lot(LotNumber(receipt.entry.sequence), lot)?,
            None => {
                let made = self.made_lot(receipt)?;
                made.ok_or_else(|| Refusal::internal("a grant that made no lot"))?
            }
        };
        Ok(api::GrantAnswer {
            lot,
            debt_repaid: Amount(receipt.debt_repaid),
            balance: self.balance_after(receipt),
        })
    }

    /// Answers void. A dry run has something to confirm.
    pub(crate) fn void_answer(
        &self,
        receipt: &Receipt,
        to_confirm: Option<Confirm>,
    ) -> Result<api::VoidAnswer, Refusal> {
        let Fact::Voided { number, lot } = &receipt.entry.fact else {
            return Err(Refusal::internal("a receipt about no voided lot"));
        };
        let confirm = to_confirm.map(|confirm| confirm.0.into());
        Ok(api::VoidAnswer {
            dry_run: confirm.is_some(),
            confirm,
            voided: Amount(moved(&receipt.entry.moves, |_, to| to == Bucket::Voided)),
            pinned: Amount(lot.held),
            lot: self.lot(*number, lot)?,
            balance: self.balance_after(receipt),
        })
    }

    /// Answers adjust.
    pub(crate) fn adjust_answer(&self, receipt: &Receipt) -> Result<api::AdjustAnswer, Refusal> {
        let taken = receipt.entry.moves.iter().filter_map(|step| match (step.to, step.lot) {
            (Bucket::Voided, Some(lot)) => Some(Portion { lot, amount: step.amount }),
            _ => None,
        });
        Ok(api::AdjustAnswer {
            lot: self.made_lot(receipt)?,
            removed: self.shares(taken),
            debt_repaid: Amount(receipt.debt_repaid),
            balance: self.balance_after(receipt),
        })
    }

    /// The lot that a receipt's entry made, as it was then.
    fn made_lot(&self, receipt: &Receipt) -> Result<Option<api::Lot>, Refusal> {
        let entry = &receipt.entry;
        let Some(terms) = entry.fact.new_lot() else { return Ok(None) };
        let number = LotNumber(entry.sequence);
        self.new_lot(number, terms, receipt.debt_repaid, entry.log_time).map(Some)
    }
}

/// What an operation made of debt.
pub(crate) fn debt_added(receipt: &Receipt) -> Credits {
    moved(&receipt.entry.moves, |from, to| (from, to) == (Bucket::Debt, Bucket::Used))
}

/// The hold or charge that a receipt is about.
fn subject_of(receipt: &Receipt) -> Result<&Hold, Refusal> {
    let hold = receipt.entry.fact.hold();
    hold.ok_or_else(|| Refusal::internal("a receipt about no hold or charge"))
}
