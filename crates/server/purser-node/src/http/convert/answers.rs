//! The answer to each operation, from its receipt.

use purser_api as api;
use purser_api::Amount;
use purser_ledger::{Bucket, Entry, Fact, Hold, LotNumber, Receipt};
use purser_types::Credits;

use super::shown::{Shown, moved};
use crate::http::problem::Refusal;

impl Shown<'_> {
    /// Answers authorize, release and extend.
    pub(crate) fn hold_answer(&self, receipt: &Receipt) -> Result<api::HoldAnswer, Refusal> {
        let hold = self.hold(subject_of(receipt)?, &receipt.entry.moves)?;
        Ok(api::HoldAnswer { hold, balance: self.balance_after(receipt) })
    }

    /// Answers capture.
    pub(crate) fn capture_answer(&self, receipt: &Receipt) -> Result<api::CaptureAnswer, Refusal> {
        let Entry { moves, fact, .. } = &receipt.entry;
        Ok(api::CaptureAnswer {
            hold: self.hold(subject_of(receipt)?, moves)?,
            captured: Amount(moved(moves, |_, to| to == Bucket::Used)),
            debt_added: Amount(debt_added(receipt)),
            late: matches!(fact, Fact::LateCaptured(_)),
            balance: self.balance_after(receipt),
        })
    }

    /// Answers charge.
    pub(crate) fn charge_answer(&self, receipt: &Receipt) -> Result<api::ChargeAnswer, Refusal> {
        Ok(api::ChargeAnswer {
            charge: self.charge(subject_of(receipt)?, &receipt.entry.moves)?,
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
            subject: self.subject(subject, moves)?,
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
            subject: self.subject(subject_of(receipt)?, moves)?,
            reclaimed: Amount(moved(moves, |_, to| to == Bucket::Used)),
            debt_added: Amount(debt_added(receipt)),
            balance: self.balance_after(receipt),
        })
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
