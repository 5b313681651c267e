//! Refund and reclaim, of holds and of charges.

use hyper::StatusCode;
use purser_api::{
    ProblemCode as Code, ReclaimAnswer, ReclaimRequest, RefundAnswer, RefundRequest, UnitQuery,
    paths,
};
use purser_ledger::Target;

use crate::http::call::{Call, Remarks};
use crate::http::convert::{self, debt_added};
use crate::http::describe::{Description, Tag};
use crate::http::operation::Operation;
use crate::http::reply::Reply;
use crate::http::routes::{Access, Handled, Routes, Verb};

/// Declares the calls of the resource.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    let spend = |summary| Description::new(Access::SPEND, Tag::Spend, summary).query::<UnitQuery>();
    let refund = |not_found| {
        spend("Gives captured credits back to what paid for them.")
            .body::<RefundRequest>()
            .answers::<RefundAnswer>(200)
            .refuses(&[not_found, Code::NothingCaptured, Code::RefundExceedsCaptured])
    };
    let reclaim = |not_found| {
        spend("Takes again what was refunded, because the work succeeded after all; once.")
            .body::<ReclaimRequest>()
            .answers::<ReclaimAnswer>(200)
            .refuses(&[not_found, Code::NotRefunded, Code::AlreadyReclaimed])
    };
    routes
        .call(
            (Verb::Post, paths::HOLD_REFUND),
            Operation::RefundHold,
            refund(Code::HoldNotFound),
            |call: Call| async move {
                let target = Target::Hold(call.hold()?);
                undo(call, target).await
            },
        )
        .call(
            (Verb::Post, paths::CHARGE_REFUND),
            Operation::RefundCharge,
            refund(Code::ChargeNotFound),
            |call: Call| async move {
                let target = Target::Charge(call.charge()?);
                undo(call, target).await
            },
        )
        .call(
            (Verb::Post, paths::HOLD_RECLAIM),
            Operation::ReclaimHold,
            reclaim(Code::HoldNotFound),
            |call: Call| async move {
                let target = Target::Hold(call.hold()?);
                redo(call, target).await
            },
        )
        .call(
            (Verb::Post, paths::CHARGE_RECLAIM),
            Operation::ReclaimCharge,
            reclaim(Code::ChargeNotFound),
            |call: Call| async move {
                let target = Target::Charge(call.charge()?);
                redo(call, target).await
            },
        )
}

async fn undo(call: Call, target: Target) -> Handled {
    let request: RefundRequest = call.json()?;
    let account = call.account(call.unit()?)?;
    let item =
        call.item(convert::refund(target, &request, call.seat.away()))?.because(&request.reason);
    let done = call.decide(&account, item).await?;
    let answer = done.shown(&account).refund_answer(&done.receipt)?;
    Ok(Reply::decided(StatusCode::OK, &answer, done.decided)?)
}

async fn redo(call: Call, target: Target) -> Handled {
    let request: ReclaimRequest = call.json()?;
    let account = call.account(call.unit()?)?;
    let item = call.item(convert::reclaim(target, call.seat.away()))?.because(&request.reason);
    let done = call.decide(&account, item).await?;
    let answer = done.shown(&account).reclaim_answer(&done.receipt)?;
    if !done.decided.replayed {
        call.api.metrics().record_debt_added(debt_added(&done.receipt));
    }
    Ok(Reply::decided(StatusCode::OK, &answer, done.decided)?)
}
