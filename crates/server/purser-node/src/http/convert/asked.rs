//! Bodies as what the ledger is asked. Defaults are filled in, so that two spellings of one request
//! are one request.

use purser_api as api;
use purser_ledger::{
    Adjust, Authorize, Capture, Category, Charge, Extend, Grant, HoldNumber, IfExpired, Open,
    Operation, Policy, PolicyChange, Reclaim, Refund, RefundExpired, Release, Target,
};
use purser_types::{Epoch, Owner, Region, Span};

use super::allocations::on_expiry_asked;
use super::budgets::budget_names;
use crate::http::problem::Refusal;

/// Asks for a hold. Who may decide (`consistency`) is not part of what is asked.
pub(crate) fn authorize(request: &api::AuthorizeRequest) -> Operation {
    Operation::Authorize(Authorize {
        amount: request.amount.credits(),
        ttl: request.ttl_seconds.map_or(Authorize::TTL_DEFAULT, api::TtlSeconds::span),
        reference: request.reference.as_ref().map(|reference| reference.as_str().into()),
        budgets: budget_names(&request.budgets),
    })
}

/// Asks for a charge.
pub(crate) fn charge(request: &api::ChargeRequest) -> Operation {
    Operation::Charge(Charge {
        amount: request.amount.credits(),
        allow_debt: request.allow_debt,
        reference: request.reference.as_ref().map(|reference| reference.as_str().into()),
        budgets: budget_names(&request.budgets),
    })
}

/// Asks for a capture; `away` is the closed allocation that the hold belongs to, if it does.
pub(crate) fn capture(
    hold: HoldNumber,
    request: &api::CaptureRequest,
    away: Option<Owner>,
) -> Operation {
    let if_expired = match request.if_expired {
        api::IfExpired::Refuse => IfExpired::Refuse,
        api::IfExpired::Charge => IfExpired::Charge,
    };
    Operation::Capture(Capture {
        hold,
        amount: request.amount.map(api::CaptureAmount::credits),
        is_final: request.r#final,
        allow_debt: request.allow_debt,
        if_expired,
        away,
    })
}

/// Asks for a release; `away` as for a capture.
pub(crate) const fn release(hold: HoldNumber, away: Option<Owner>) -> Operation {
    Operation::Release(Release { hold, away })
}

/// Asks for a later deadline; `away` as for a capture.
pub(crate) const fn extend(
    hold: HoldNumber,
    request: &api::ExtendRequest,
    away: Option<Owner>,
) -> Operation {
    Operation::Extend(Extend { hold, until: request.until.0, away })
}

/// Asks for a refund; `away` as for a capture.
pub(crate) fn refund(
    target: Target,
    request: &api::RefundRequest,
    away: Option<Owner>,
) -> Operation {
    let amount = request.amount.map(api::CallAmount::credits);
    Operation::Refund(Refund { target, amount, away })
}

/// Asks for a reclaim; `away` as for a capture.
pub(crate) const fn reclaim(target: Target, away: Option<Owner>) -> Operation {
    Operation::Reclaim(Reclaim { target, away })
}

/// Asks for a grant.
pub(crate) fn grant(request: &api::GrantRequest) -> Operation {
    let category = match request.category {
        api::LotCategory::Paid => Category::Paid,
        api::LotCategory::Promotional => Category::Promotional,
    };
    Operation::Grant(Grant {
        amount: request.amount.credits(),
        category,
        priority: request.priority,
        effective_at: request.effective_at.as_ref().map(|moment| moment.0),
        expires_at: request.expires_at.as_ref().map(|moment| moment.0),
        source_ref: request.source_ref.as_ref().map(|source| source.as_str().into()),
    })
}

/// Asks for an adjustment.
pub(crate) const fn adjust(request: &api::AdjustRequest) -> Operation {
    let amount = request.amount.credits();
    Operation::Adjust(match request.direction {
        api::AdjustDirection::Add => Adjust::Add { amount },
        api::AdjustDirection::Remove => Adjust::Remove { amount },
    })
}

/// Asks for a new account with its home in `region`, under `epoch`.
pub(crate) fn open(
    request: &api::OpenTenantRequest,
    (region, epoch): (&Region, Option<Epoch>),
    default: &Policy,
) -> Result<Operation, Refusal> {
    if let Some(home) = request.home.as_ref().filter(|home| home.0 != *region) {
        let detail = format!("this service knows no region {home}; it is in {region}");
        return Err(Refusal::invalid(detail));
    }
    let policy = default.changed(&policy_change(&request.policy));
    Ok(Operation::Open(Open { home: *region, policy, epoch }))
}

/// A change of policy.
pub(crate) fn policy_change(request: &api::PolicyRequest) -> PolicyChange {
    let refund_expired = request.refund_expired.map(|becomes| match becomes {
        api::RefundExpired::Lapse => RefundExpired::Lapse,
        api::RefundExpired::RegrantDays(days) => RefundExpired::Regrant { days: days.0.get() },
    });
    let debt_limit = request.debt_limit.as_ref().map(|limit| limit.0);
    PolicyChange {
        debt_limit,
        refund_expired,
        takeback_cap: request.takeback_cap.as_ref().map(|cap| cap.0),
        on_expiry: request.on_expiry.map(on_expiry_asked),
        unacknowledged_max: request.unacknowledged_max.as_ref().map(|max| max.0),
        event_age: request.event_age_seconds.map(|age| Span::from_secs(u64::from(age.get()))),
        ..PolicyChange::default()
    }
}
