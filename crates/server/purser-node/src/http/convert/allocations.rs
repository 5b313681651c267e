//! Allocations as bodies, and what is asked about them.

use purser_api as api;
use purser_api::Amount;
use purser_ledger::{
    Allocation, AllocationStatus, Bucket, Confirm, Fact, Mode, OnExpiry, Operation, Receipt,
    SetAllocation, Transfer,
};
use purser_types::{Credits, Generation, Life, Owner, Span};

use super::shown::{Shown, moved};
use crate::http::problem::Refusal;
use crate::regions::{HeardOf, right_of, unsettled_of};

/// Changes what a region may do with its allocation.
pub(crate) fn set_allocation(owner: Owner, request: &api::AllocationRequest) -> Operation {
    Operation::SetAllocation(SetAllocation {
        overdraft: request.overdraft.as_ref().map(|overdraft| overdraft.0),
        mode: request.mode.map(|mode| match mode {
            api::ModeOrder::Local => Mode::Local,
            api::ModeOrder::Strict => Mode::Strict,
            api::ModeOrder::Ending => Mode::Ending,
        }),
        on_expiry: request.on_expiry.map(on_expiry_asked),
        ..SetAllocation::of(owner)
    })
}

/// Asks credits back.
pub(crate) fn recall(owner: Owner, request: &api::RecallRequest) -> Operation {
    let keep = Some(request.keep.0);
    Operation::SetAllocation(SetAllocation { keep, ..SetAllocation::of(owner) })
}

/// Asks credits back for another region.
pub(crate) const fn transfer(request: &api::TransferRequest, life: Option<Life>) -> Operation {
    let from = Owner { region: request.from.0, generation: Generation::HOME };
    let (to, amount) = (request.to.0, request.amount.credits());
    Operation::Transfer(Transfer { from, to, amount, life })
}

/// What is to become of an allocation whose lease has run out.
pub(crate) const fn on_expiry_asked(on_expiry: api::OnExpiry) -> OnExpiry {
    match on_expiry {
        api::OnExpiry::Keep => OnExpiry::Keep,
        api::OnExpiry::TakeBack => OnExpiry::TakeBack,
    }
}

/// What becomes of an allocation whose lease has run out.
pub(crate) const fn on_expiry(on_expiry: OnExpiry) -> api::OnExpiry {
    match on_expiry {
        OnExpiry::Keep => api::OnExpiry::Keep,
        OnExpiry::TakeBack => api::OnExpiry::TakeBack,
    }
}

impl Shown<'_> {
    /// An allocation, and what home's leader has heard of it, if that is to be told.
    pub(crate) fn allocation(
        &self,
        allocation: &Allocation,
        heard: Option<HeardOf>,
    ) -> api::Allocation {
        let Allocation { owner, recall, .. } = allocation;
        let recalled = recall.number > 0;
        api::Allocation {
            allocation_id: api::AllocationId::new(allocation.opened_by, *owner),
            region: owner.region.into(),
            generation: owner.generation.into(),
            status: status(allocation, heard),
            mode: mode(allocation.mode),
            on_expiry: on_expiry(allocation.on_expiry),
            granted: Amount(allocation.granted),
            spent: Amount(allocation.spent),
            returned: Amount(allocation.returned),
            refunded: Amount(allocation.refunded),
            taken_back: Amount(allocation.taken_back),
            unresolved: Amount(allocation.unresolved()),
            outstanding: Amount(allocation.outstanding()),
            held: Amount(allocation.held),
            right: amount(right_of(allocation)),
            unsettled: amount(unsettled_of(allocation)),
            overdraft: Amount(allocation.overdraft),
            overdraft_used: Amount(allocation.overdraft_used()),
            recall: recalled.then(|| api::AllocationRecall {
                keep: Amount(recall.keep),
                is_answered: heard.map(|heard| recall.number <= heard.answered),
            }),
            transfer: allocation.transfer.map(|pending| api::AllocationTransfer {
                to: pending.to.into(),
                amount: Amount(pending.amount),
            }),
            is_current: heard.map(|heard| allocation.voucher <= heard.voucher),
            report_age_ms: heard.map(|heard| millis(heard.age)),
            lease_remaining_ms: heard.map(|heard| millis(heard.lease_left)),
        }
    }

    /// Answers set, recall and transfer.
    pub(crate) fn allocation_answer(
        &self,
        receipt: &Receipt,
    ) -> Result<api::AllocationAnswer, Refusal> {
        Ok(api::AllocationAnswer {
            allocation: self.allocation(allocation_of(receipt)?, None),
            balance: self.balance_after(receipt),
        })
    }

    /// Answers take-back and write-off. A dry run has something to confirm.
    pub(crate) fn take_back_answer(
        &self,
        receipt: &Receipt,
        to_confirm: Option<Confirm>,
    ) -> Result<api::TakeBackAnswer, Refusal> {
        let moves = &receipt.entry.moves;
        let confirm = to_confirm.map(|confirm| confirm.0.into());
        Ok(api::TakeBackAnswer {
            dry_run: confirm.is_some(),
            confirm,
            brought_home: Amount(moved(moves, |from, _| matches!(from, Bucket::Allocated(_)))),
            debt_repaid: Amount(receipt.debt_repaid),
            allocation: self.allocation(allocation_of(receipt)?, None),
            balance: self.balance_after(receipt),
        })
    }
}

/// The allocation that a receipt is about, as it was then.
pub(crate) fn allocation_of(receipt: &Receipt) -> Result<&Allocation, Refusal> {
    match &receipt.entry.fact {
        Fact::AllocationSet(allocation)
        | Fact::TakenBack(allocation)
        | Fact::WrittenOff(allocation) => Ok(allocation),
        _ => Err(Refusal::internal("a receipt about no allocation")),
    }
}

fn status(allocation: &Allocation, heard: Option<HeardOf>) -> api::AllocationStatus {
    let has_expired = heard.is_some_and(|heard| heard.lease_left == Span::ZERO);
    match allocation.status {
        AllocationStatus::Open if has_expired && allocation.may_keep() => {
            api::AllocationStatus::ExpiredKept
        }
        AllocationStatus::Open => api::AllocationStatus::Open,
        AllocationStatus::TakenBack => api::AllocationStatus::TakenBack,
        AllocationStatus::Sealed => api::AllocationStatus::Sealed,
        AllocationStatus::Closed => api::AllocationStatus::Closed,
    }
}

const fn mode(mode: Mode) -> api::AllocationMode {
    match mode {
        Mode::Local => api::AllocationMode::Local,
        Mode::Strict => api::AllocationMode::Strict,
        Mode::Frozen => api::AllocationMode::Frozen,
        Mode::Ending => api::AllocationMode::Ending,
    }
}

/// A sum of one account's figures. None of them passes the largest amount; a sum of limits may.
fn amount(sum: u128) -> Amount {
    let sum = u64::try_from(sum).ok().and_then(|sum| Credits::from_u64(sum).ok());
    Amount(sum.unwrap_or(Credits::MAX))
}

const fn millis(span: Span) -> u64 {
    const MICROS_PER_MILLI: u64 = 1_000;
    span.as_micros() / MICROS_PER_MILLI
}
