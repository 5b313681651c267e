//! Rejections in words: the code, as the API names it, and the figures.

use purser_types::{Credits, Region};

use super::allocation_texts::{counted, owner_text};
use super::budgets::refusal_text;
use super::jobs::job_figures;
use super::moment::instant_text;
use super::telling::{Teller, figures};
use crate::rejection::Rejection;

impl Teller<'_> {
    /// `insufficient_credits available=60 short_by=1`.
    pub(super) fn rejection(&self, rejection: &Rejection) -> String {
        format!("{}{}", code(rejection), self.rejection_figures(rejection))
    }

    #[expect(clippy::too_many_lines, reason = "it has a line for each rejection")]
    fn rejection_figures(&self, rejection: &Rejection) -> String {
        match rejection {
            Rejection::InsufficientCredits { available, short_by, debt, debt_limit } => {
                missing_text(*available, *short_by) + &debt_text(*debt, *debt_limit)
            }
            Rejection::RightExhausted { right, short_by } => {
                format!(" right={right} short_by={short_by}")
            }
            Rejection::HoldExpired { expired_at } => format!(" at={}", instant_text(*expired_at)),
            Rejection::AlreadyCaptured { captured, sequence } => {
                format!(" total={captured} by=#{}", sequence.0)
            }
            Rejection::AlreadyReleased { sequence } => format!(" by=#{}", sequence.0),
            Rejection::RefundExceedsCaptured { refundable } => format!(" refundable={refundable}"),
            Rejection::CloseBlocked { .. } => blocked_text(rejection),
            Rejection::SourceRefConflict { lot, amount } => {
                format!(" lot={} amount={amount}", self.lot_name(*lot))
            }
            Rejection::GrantExceedsCeiling { grantable } => format!(" grantable={grantable}"),
            Rejection::HomeStopped { to, epoch } => format!(" to={to} epoch={}", epoch.0),
            Rejection::HomeMoved { home, epoch } => format!(" home={home} epoch={}", epoch.0),
            Rejection::ReportGap { booked } => format!(" booked={}", booked.0),
            Rejection::ReportForked { sequence } => format!(" at={}", sequence.0),
            Rejection::EpochFenced { epoch } => format!(" epoch={}", epoch.0),
            Rejection::DecidedInRegion { owner, hold } => {
                format!(" by={} hold=#{}", owner_text(*owner), hold.0.0)
            }
            Rejection::CreditsOut { available, short_by, outstanding } => {
                missing_text(*available, *short_by) + &format!(" out={outstanding}")
            }
            Rejection::Stranded { available, short_by, amount, regions } => {
                missing_text(*available, *short_by) + &stranded_text(*amount, regions)
            }
            Rejection::DecidedInGeneration { generation: by } => format!(" generation={}", by.0),
            Rejection::TransferBeyondRight { right } => format!(" right={right}"),
            Rejection::TakebackBeyondCap { amount, cap } => format!(" amount={amount} cap={cap}"),
            Rejection::FinishBlocked { holds, free } => format!(" holds={holds} free={free}"),
            Rejection::ExtendNotLater { expires_at: at } => format!(" until={}", instant_text(*at)),
            Rejection::ExtendTooLong { latest } => format!(" latest={}", instant_text(*latest)),
            Rejection::StaleConfirmation { sequence } => format!(" sequence={}", sequence.0),
            Rejection::BatchAborted { item } => format!(" item={item}"),
            Rejection::JobNotFound
            | Rejection::JobIdConflict { .. }
            | Rejection::JobNotDead { .. }
            | Rejection::LeaseLost { .. }
            | Rejection::JobEnded { .. }
            | Rejection::TooManyQueues => job_figures(rejection),
            Rejection::BudgetNotFound { .. }
            | Rejection::BudgetExceeded { .. }
            | Rejection::BudgetParentFixed { .. }
            | Rejection::BudgetHasChildren { .. }
            | Rejection::TooManyBudgets
            | Rejection::BudgetTooDeep => refusal_text(rejection),
            Rejection::EventNotParked
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
            | Rejection::NotFrozen
            | Rejection::GrantExpired
            | Rejection::LotAlreadyVoided
            | Rejection::DecidedElsewhere
            | Rejection::AllocationEnded
            | Rejection::AllocationUnknown
            | Rejection::TailUnknown
            | Rejection::AllocationOpen
            | Rejection::NothingNew
            | Rejection::VoucherContradicts
            | Rejection::TakebackNotAgreed
            | Rejection::TransferToItself
            | Rejection::TransferUnderWay
            | Rejection::KeyReused
            | Rejection::TooManyParts
            | Rejection::NoRoomForCover
            | Rejection::AlreadyFrozen
            | Rejection::AmountOverflow => String::new(),
        }
    }
}

fn missing_text(available: Credits, short_by: Credits) -> String {
    format!(" available={available} short_by={short_by}")
}

fn debt_text(debt: Credits, debt_limit: Option<Credits>) -> String {
    let limit = debt_limit.map(|limit| format!(" debt_limit={limit}"));
    figures(&[("debt", debt)]) + &limit.unwrap_or_default()
}

fn stranded_text(amount: Credits, regions: &[Region]) -> String {
    let regions: Vec<String> = regions.iter().map(ToString::to_string).collect();
    format!(" stranded={amount} in={}", regions.join(","))
}

const fn code(rejection: &Rejection) -> &'static str {
    match rejection {
        Rejection::TenantNotFound => "tenant_not_found",
        Rejection::TenantExists => "tenant_exists",
        Rejection::HoldNotFound => "hold_not_found",
        Rejection::ChargeNotFound => "charge_not_found",
        Rejection::LotNotFound => "lot_not_found",
        Rejection::InsufficientCredits { .. } => "insufficient_credits",
        Rejection::HoldExpired { .. } => "hold_expired",
        Rejection::AlreadyCaptured { .. } => "already_captured",
        Rejection::AlreadyReleased { .. } => "already_released",
        Rejection::NothingCaptured => "nothing_captured",
        Rejection::RefundExceedsCaptured { .. } => "refund_exceeds_captured",
        Rejection::NotRefunded => "not_refunded",
        Rejection::AlreadyReclaimed => "already_reclaimed",
        Rejection::AccountFrozen => "account_frozen",
        Rejection::AccountClosed => "account_closed",
        Rejection::NotFrozen => "not_frozen",
        Rejection::CloseBlocked { .. } => "close_blocked",
        Rejection::SourceRefConflict { .. } => "source_ref_conflict",
        Rejection::GrantExceedsCeiling { .. } => "grant_exceeds_ceiling",
        Rejection::GrantExpired => "grant_already_expired",
        Rejection::LotAlreadyVoided => "lot_already_voided",
        Rejection::DecidedElsewhere => "decided_elsewhere",
        Rejection::DecidedInRegion { .. } => "decided_in_region",
        Rejection::CreditsOut { .. } => "credits_out",
        Rejection::Stranded { .. } => "stranded",
        Rejection::DecidedInGeneration { .. } => "decided_in_generation",
        Rejection::RightExhausted { .. } => "right_exhausted",
        Rejection::AllocationEnded => "allocation_ended",
        Rejection::AllocationUnknown => "allocation_not_found",
        Rejection::TailUnknown => "tail_not_found",
        Rejection::HomeStopped { .. } => "home_stopped",
        Rejection::HomeMoved { .. } => "home_moved",
        Rejection::ReportGap { .. } => "report_gap",
        Rejection::ReportForked { .. } => "report_forked",
        Rejection::NothingNew => "nothing_new",
        Rejection::EpochFenced { .. } => "fenced",
        Rejection::VoucherContradicts => "voucher_contradicts",
        Rejection::TakebackBeyondCap { .. } => "takeback_beyond_cap",
        Rejection::TakebackNotAgreed => "takeback_not_agreed",
        Rejection::TransferToItself => "transfer_to_itself",
        Rejection::TransferBeyondRight { .. } => "transfer_beyond_right",
        Rejection::TransferUnderWay => "transfer_under_way",
        Rejection::AllocationOpen => "allocation_open",
        Rejection::FinishBlocked { .. } => "finish_blocked",
        Rejection::ExtendNotLater { .. } => "extend_not_later",
        Rejection::ExtendTooLong { .. } => "extend_too_long",
        Rejection::StaleConfirmation { .. } => "stale_confirmation",
        Rejection::KeyReused => "key_reused",
        Rejection::BatchAborted { .. } => "batch_aborted",
        Rejection::TooManyParts => "too_many_parts",
        Rejection::NoRoomForCover => "no_room_for_cover",
        Rejection::AlreadyFrozen => "already_frozen",
        Rejection::AmountOverflow => "amount_overflow",
        Rejection::JobNotFound => "job_not_found",
        Rejection::JobIdConflict { .. } => "job_id_conflict",
        Rejection::JobNotDead { .. } => "job_not_dead",
        Rejection::LeaseLost { .. } => "lease_lost",
        Rejection::JobEnded { .. } => "job_ended",
        Rejection::TooManyQueues => "too_many_queues",
        Rejection::EventNotParked => "event_not_parked",
        Rejection::EventConflict => "event_conflict",
        Rejection::TooManyEventsParked => "too_many_events_parked",
        Rejection::BudgetNotFound { .. } => "budget_not_found",
        Rejection::BudgetExceeded { .. } => "budget_exceeded",
        Rejection::BudgetParentFixed { .. } => "budget_parent_fixed",
        Rejection::BudgetHasChildren { .. } => "budget_has_children",
        Rejection::TooManyBudgets => "too_many_budgets",
        Rejection::BudgetTooDeep => "budget_too_deep",
    }
}

/// What is in the way of closing an account.
fn blocked_text(rejection: &Rejection) -> String {
    let Rejection::CloseBlocked { holds, debt, allocations, tails, jobs } = rejection else {
        return String::new();
    };
    let (allocations, tails) = (counted("allocations", *allocations), counted("tails", *tails));
    format!(" holds={holds} debt={debt}{allocations}{tails}{}", counted("jobs", *jobs))
}
