//! Freezing, unfreezing and closing an account.

use hyper::StatusCode;
use purser_api::{
    CloseAnswer, CloseRequest, FreezeRequest, ProblemCode as Code, TenantAnswer, UnitQuery, paths,
};
use purser_ledger::{AccountName, Close, Confirm, Operation as Asked};

use super::rehearsal::{Rehearsed, rehearse};
use crate::http::call::{Call, Remarks};
use crate::http::describe::{Description, Tag};
use crate::http::operation::Operation;
use crate::http::problem::Refusal;
use crate::http::reply::Reply;
use crate::http::routes::{Access, Handled, Routes, Verb};

/// Declares the calls.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    let act = |summary| Description::new(Access::ADMIN, Tag::Tenants, summary).query::<UnitQuery>();
    routes
        .call(
            (Verb::Post, paths::ADMIN_FREEZE),
            Operation::Freeze,
            act("Stops new authorizes and charges; holds may end.")
                .body::<FreezeRequest>()
                .answers::<TenantAnswer>(200)
                .refuses(&[Code::AlreadyFrozen, Code::AccountClosed]),
            freeze,
        )
        .call(
            (Verb::Post, paths::ADMIN_UNFREEZE),
            Operation::Unfreeze,
            act("Allows authorizes and charges again.")
                .body::<FreezeRequest>()
                .answers::<TenantAnswer>(200)
                .refuses(&[Code::NotFrozen, Code::AccountClosed]),
            unfreeze,
        )
        .call(
            (Verb::Post, paths::ADMIN_CLOSE),
            Operation::Close,
            act("Closes an account for good. A dry run shows the effect and what to confirm.")
                .body::<CloseRequest>()
                .answers::<CloseAnswer>(200)
                .refuses(&[Code::ConfirmationRequired, Code::StaleConfirmation])
                .refuses(&[Code::CloseBlocked, Code::AccountClosed]),
            close,
        )
}

async fn freeze(call: Call) -> Handled {
    let request: FreezeRequest = call.json()?;
    let account = call.account(call.unit()?)?;
    let item = call.item(Asked::Freeze)?.because(&request.reason);
    let done = call.decide(&account, item).await?;
    let answer = done.shown(&account).tenant_answer(&done.receipt)?;
    Ok(Reply::decided(StatusCode::OK, &answer, done.decided)?)
}

async fn unfreeze(call: Call) -> Handled {
    let request: FreezeRequest = call.json()?;
    let account = call.account(call.unit()?)?;
    let item = call.item(Asked::Unfreeze)?.because(&request.reason);
    let done = call.decide(&account, item).await?;
    let answer = done.shown(&account).tenant_answer(&done.receipt)?;
    Ok(Reply::decided(StatusCode::OK, &answer, done.decided)?)
}

async fn close(call: Call) -> Handled {
    let request: CloseRequest = call.json()?;
    let account = call.account(call.unit()?)?;
    if request.dry_run {
        return close_dry(&call, &account).await;
    }
    let confirm = confirmed(request.confirm)?;
    let item = call.item(Asked::Close(Close { confirm }))?.because(&request.reason);
    let done = call.decide(&account, item).await?;
    let answer = done.shown(&account).close_answer(&done.receipt, None)?;
    Ok(Reply::decided(StatusCode::OK, &answer, done.decided)?)
}

async fn close_dry(call: &Call, account: &AccountName) -> Handled {
    let act = |confirm| Asked::Close(Close { confirm });
    let Rehearsed { confirm, done } = rehearse(call, account, act).await?;
    let answer = done.shown(account).close_answer(&done.receipt, Some(confirm))?;
    Ok(Reply::read(&answer)?)
}

/// The confirmation that a destructive act needs.
pub(super) fn confirmed(confirm: Option<purser_api::SequenceNumber>) -> Result<Confirm, Refusal> {
    let detail = "a dry run (`dry_run: true`) shows the effect and gives the `confirm` to send";
    let confirm = confirm.ok_or_else(|| Refusal::new(Code::ConfirmationRequired, detail))?;
    Ok(Confirm(confirm.0))
}
