//! What the ledger refuses, in the contract's words.
//!
//! The matches are exhaustive: a new rejection does not compile until someone has said what it means
//! outside, and which of its figures matter.

use purser_api::{Amount, Figures, HoldStatus, LotId, Moment, ProblemCode};
use purser_ledger::{LotNumber, Rejection};
use purser_types::{Credits, Owner};

use crate::http::convert::job_status;

/// The code of a rejection.
pub(crate) const fn code_of(rejection: &Rejection) -> ProblemCode {
    match rejection {
        Rejection::TenantNotFound => ProblemCode::TenantNotFound,
        Rejection::TenantExists => ProblemCode::TenantExists,
        Rejection::HoldNotFound => ProblemCode::HoldNotFound,
        Rejection::ChargeNotFound => ProblemCode::ChargeNotFound,
        Rejection::LotNotFound => ProblemCode::LotNotFound,
        Rejection::InsufficientCredits { .. } => ProblemCode::InsufficientCredits,
        Rejection::HoldExpired { .. } => ProblemCode::HoldExpired,
        Rejection::AlreadyCaptured { .. } => ProblemCode::AlreadyCaptured,
        Rejection::AlreadyReleased { .. } => ProblemCode::AlreadyReleased,
        Rejection::NothingCaptured => ProblemCode::NothingCaptured,
        Rejection::RefundExceedsCaptured { .. } => ProblemCode::RefundExceedsCaptured,
        Rejection::NotRefunded => ProblemCode::NotRefunded,
        Rejection::AlreadyReclaimed => ProblemCode::AlreadyReclaimed,
        Rejection::AccountFrozen => ProblemCode::AccountFrozen,
        Rejection::AccountClosed => ProblemCode::AccountClosed,
        Rejection::AlreadyFrozen => ProblemCode::AlreadyFrozen,
        Rejection::NotFrozen => ProblemCode::NotFrozen,
        Rejection::CloseBlocked { .. } => ProblemCode::CloseBlocked,
        Rejection::SourceRefConflict { .. } => ProblemCode::SourceRefConflict,
        Rejection::GrantExceedsCeiling { .. } => ProblemCode::GrantExceedsCeiling,
        Rejection::GrantExpired => ProblemCode::GrantAlreadyExpired,
        Rejection::LotAlreadyVoided => ProblemCode::LotAlreadyVoided,
        Rejection::ExtendNotLater { .. } => ProblemCode::ExtendNotLater,
        Rejection::ExtendTooLong { .. } => ProblemCode::ExtendTooLong,
        Rejection::StaleConfirmation { .. } => ProblemCode::StaleConfirmation,
        Rejection::KeyReused => ProblemCode::KeyReused,
        Rejection::BatchAborted { .. } => ProblemCode::BatchAborted,
        // Both say that the account's books cannot hold it; the detail says which limit it is.
        Rejection::AmountOverflow => ProblemCode::AmountOverflow,
        Rejection::TooManyParts => ProblemCode::TooManyParts,
        // Whoever decides it, it was not decided here, and nothing happened.
        Rejection::DecidedElsewhere
        | Rejection::DecidedInRegion { .. }
        | Rejection::DecidedInGeneration { .. }
        | Rejection::RightExhausted { .. } => ProblemCode::HomeUnreachable,
        Rejection::JobNotFound => ProblemCode::JobNotFound,
        Rejection::JobIdConflict { .. } => ProblemCode::JobIdConflict,
        Rejection::JobNotDead { .. } => ProblemCode::JobNotDead,
        Rejection::JobEnded { .. } => ProblemCode::JobEnded,
        Rejection::LeaseLost { .. } => ProblemCode::LeaseLost,
        Rejection::TooManyQueues => ProblemCode::TooManyQueues,
        Rejection::EventNotParked => ProblemCode::EventNotParked,
        Rejection::EventConflict => ProblemCode::EventConflict,
        Rejection::TooManyEventsParked => ProblemCode::TooManyEventsParked,
        Rejection::BudgetNotFound { .. } => ProblemCode::BudgetNotFound,
        Rejection::BudgetExceeded { .. } => ProblemCode::BudgetExceeded,
        Rejection::BudgetParentFixed { .. } => ProblemCode::BudgetParentFixed,
        Rejection::BudgetHasChildren { .. } => ProblemCode::BudgetHasChildren,
        Rejection::TooManyBudgets => ProblemCode::TooManyBudgets,
        Rejection::BudgetTooDeep => ProblemCode::BudgetTooDeep,
        Rejection::Stranded { .. } => ProblemCode::Stranded,
        Rejection::HomeMoved { .. } => ProblemCode::Moved,
        Rejection::AllocationUnknown => ProblemCode::AllocationNotFound,
        Rejection::TailUnknown => ProblemCode::TailNotFound,
        Rejection::AllocationEnded => ProblemCode::AllocationEnded,
        Rejection::AllocationOpen => ProblemCode::AllocationOpen,
        Rejection::TransferToItself => ProblemCode::TransferToItself,
        Rejection::TransferBeyondRight { .. } => ProblemCode::TransferBeyondRight,
        Rejection::TransferUnderWay => ProblemCode::TransferUnderWay,
        // No call of this API asks what these refuse: regions and home ask it of each other, and what is
        // taken back without an operator's word home takes back by itself.
        Rejection::ReportGap { .. }
        | Rejection::ReportForked { .. }
        | Rejection::NothingNew
        | Rejection::EpochFenced { .. }
        | Rejection::VoucherContradicts
        | Rejection::TakebackBeyondCap { .. }
        | Rejection::TakebackNotAgreed
        | Rejection::HomeStopped { .. }
        | Rejection::FinishBlocked { .. }
        | Rejection::NoRoomForCover
        // Credits were asked back and did not come in time.
        | Rejection::CreditsOut { .. } => ProblemCode::NotReady,
    }
}

/// What is in the way of closing an account.
fn figures_of_close(rejection: &Rejection) -> Figures {
    let mut figures = Figures::default();
    if let Rejection::CloseBlocked { holds, debt, jobs, .. } = *rejection {
        figures.open_holds = Some(holds);
        figures.open_jobs = Some(jobs).filter(|jobs| *jobs > 0);
        figures.debt = Some(Amount(debt));
    }
    figures
}

/// The figures of a rejection.
#[expect(clippy::too_many_lines, reason = "it has a line for each rejection")]
pub(super) fn figures_of(rejection: &Rejection, owner: &Owner) -> Figures {
    let amount = |credits: Credits| Some(Amount(credits));
    let mut figures = Figures::default();
    match *rejection {
        Rejection::TransferBeyondRight { .. }
        | Rejection::Stranded { .. }
        | Rejection::CreditsOut { .. }
        | Rejection::InsufficientCredits { .. } => return figures_of_credits(rejection),
        Rejection::HoldExpired { .. }
        | Rejection::AlreadyCaptured { .. }
        | Rejection::AlreadyReleased { .. }
        | Rejection::ExtendNotLater { .. }
        | Rejection::ExtendTooLong { .. } => return figures_of_hold(rejection),
        Rejection::RefundExceedsCaptured { refundable } => figures.refundable = amount(refundable),
        Rejection::GrantExceedsCeiling { grantable } => figures.grantable = amount(grantable),
        Rejection::JobNotDead { state }
        | Rejection::LeaseLost { state }
        | Rejection::JobEnded { state } => figures.job_status = Some(job_status(state)),
        Rejection::CloseBlocked { .. } => return figures_of_close(rejection),
        Rejection::SourceRefConflict { lot, amount } => return figures_of_lot(lot, amount, owner),
        Rejection::StaleConfirmation { sequence: now } => {
            figures.current_sequence = Some(now.into())
        }
        Rejection::BatchAborted { item } => figures.failed_item = Some(item),
        Rejection::BudgetNotFound { ref budget } => figures.budget = Some(budget.clone().into()),
        Rejection::BudgetExceeded { ref budget, limit, remaining, until } => {
            figures.budget = Some(budget.clone().into());
            figures.budget_limit = amount(limit);
            figures.budget_remaining = amount(remaining);
            figures.budget_until = until.map(Moment);
        }
        Rejection::BudgetParentFixed { .. }
        | Rejection::BudgetHasChildren { .. }
        | Rejection::TooManyBudgets
        | Rejection::BudgetTooDeep
        | Rejection::JobNotFound
        | Rejection::JobIdConflict { .. }
        | Rejection::TooManyQueues
        | Rejection::EventNotParked
        | Rejection::EventConflict
        | Rejection::TooManyEventsParked
        | Rejection::TenantNotFound
        | Rejection::TenantExists
        | Rejection::HoldNotFound
        | Rejection::ChargeNotFound
        | Rejection::LotNotFound
        | Rejection::NothingCaptured
        | Rejection::NotRefunded
        | Rejection::AlreadyReclaimed
        | Rejection::AccountFrozen
        | Rejection::AccountClosed
        | Rejection::AlreadyFrozen
        | Rejection::NotFrozen
        | Rejection::GrantExpired
        | Rejection::LotAlreadyVoided
        | Rejection::KeyReused
        | Rejection::AmountOverflow
        | Rejection::TooManyParts
        | Rejection::DecidedElsewhere
        | Rejection::DecidedInRegion { .. }
        | Rejection::DecidedInGeneration { .. }
        | Rejection::TakebackNotAgreed
        | Rejection::TransferToItself
        | Rejection::TransferUnderWay
        | Rejection::HomeStopped { .. }
        | Rejection::HomeMoved { .. }
        | Rejection::RightExhausted { .. }
        | Rejection::AllocationEnded
        | Rejection::AllocationUnknown
        | Rejection::TailUnknown
        | Rejection::AllocationOpen
        | Rejection::ReportGap { .. }
        | Rejection::ReportForked { .. }
        | Rejection::NothingNew
        | Rejection::EpochFenced { .. }
        | Rejection::VoucherContradicts
        | Rejection::TakebackBeyondCap { .. }
        | Rejection::NoRoomForCover
        | Rejection::FinishBlocked { .. } => (),
    }
    figures
}

/// The figures of a rejection for lack of credits.
fn figures_of_credits(rejection: &Rejection) -> Figures {
    let amount = |credits: Credits| Some(Amount(credits));
    let mut figures = Figures::default();
    match *rejection {
        Rejection::TransferBeyondRight { right } => figures.right = amount(right),
        Rejection::Stranded { available, short_by, amount: stranded, ref regions } => {
            figures.available = amount(available);
            figures.short_by = amount(short_by);
            figures.stranded = amount(stranded);
            figures.regions = Some(regions.iter().copied().map(Into::into).collect());
        }
        Rejection::CreditsOut { available, short_by, .. } => {
            figures.available = amount(available);
            figures.short_by = amount(short_by);
        }
        Rejection::InsufficientCredits { available, short_by, debt, debt_limit } => {
            figures.available = amount(available);
            figures.short_by = amount(short_by);
            // What is owed matters where there is any, or where there could have been more.
            figures.debt = amount(debt).filter(|_| !debt.is_zero() || debt_limit.is_some());
            figures.debt_limit = debt_limit.map(Amount);
        }
        _ => (),
    }
    figures
}

/// The figures of a rejection because a lot was granted before.
fn figures_of_lot(lot: LotNumber, granted: Credits, owner: &Owner) -> Figures {
    let lot_id = Some(LotId::new(lot.0, *owner));
    Figures { lot_id, lot_amount: Some(Amount(granted)), ..Figures::default() }
}

/// The figures of a rejection because of how a hold stands.
fn figures_of_hold(rejection: &Rejection) -> Figures {
    let mut figures = Figures::default();
    match *rejection {
        Rejection::HoldExpired { expired_at } => {
            figures.hold_status = Some(HoldStatus::Expired);
            figures.first_at = Some(Moment(expired_at));
        }
        Rejection::AlreadyCaptured { captured, sequence } => {
            figures.hold_status = Some(HoldStatus::Captured);
            figures.captured_total = Some(Amount(captured));
            figures.first_sequence = Some(sequence.into());
        }
        Rejection::AlreadyReleased { sequence } => {
            figures.hold_status = Some(HoldStatus::Released);
            figures.first_sequence = Some(sequence.into());
        }
        Rejection::ExtendNotLater { expires_at } => figures.expires_at = Some(Moment(expires_at)),
        Rejection::ExtendTooLong { latest } => figures.latest_expires_at = Some(Moment(latest)),
        _ => (),
    }
    figures
}
