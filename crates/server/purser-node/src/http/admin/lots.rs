//! Grants, voids and adjustments.

use hyper::StatusCode;
use purser_api::{
    AdjustAnswer, AdjustRequest, GrantAnswer, GrantRequest, ProblemCode as Code, UnitQuery,
    VoidAnswer, VoidRequest, paths,
};
use purser_ledger::{AccountName, LotNumber, Operation as Asked, Void};

use super::lifecycle::confirmed;
use super::rehearsal::{Rehearsed, rehearse};
use crate::http::call::{Call, Remarks};
use crate::http::convert;
use crate::http::describe::{Description, Tag};
use crate::http::operation::Operation;
use crate::http::reply::Reply;
use crate::http::routes::{Access, Handled, Routes, Verb};

/// Declares the calls.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    let act = |summary| Description::new(Access::ADMIN, Tag::Tenants, summary).query::<UnitQuery>();
    routes
        .call(
            (Verb::Post, paths::ADMIN_GRANTS),
            Operation::Grant,
            act("Gives a tenant credits. A `source_ref` that was granted before adds nothing.")
                .body::<GrantRequest>()
                .answers::<GrantAnswer>(201)
                .or_finds()
                .refuses(&[Code::GrantAlreadyExpired, Code::SourceRefConflict])
                .refuses(&[Code::GrantExceedsCeiling, Code::AccountClosed]),
            grant,
        )
        .call(
            (Verb::Post, paths::ADMIN_LOT_VOID),
            Operation::VoidLot,
            act(
                "Takes back what is free of a lot. A dry run shows the effect and what to confirm.",
            )
            .body::<VoidRequest>()
            .answers::<VoidAnswer>(200)
            .refuses(&[Code::ConfirmationRequired, Code::StaleConfirmation])
            .refuses(&[Code::LotNotFound, Code::LotAlreadyVoided, Code::AccountClosed]),
            void,
        )
        .call(
            (Verb::Post, paths::ADMIN_ADJUST),
            Operation::Adjust,
            act("Adds or removes available credits by an operator's decision.")
                .body::<AdjustRequest>()
                .answers::<AdjustAnswer>(200)
                .refuses(&[Code::InsufficientCredits, Code::GrantExceedsCeiling])
                .refuses(&[Code::AccountClosed]),
            adjust,
        )
}

async fn grant(call: Call) -> Handled {
    let request: GrantRequest = call.json()?;
    let account = call.account(call.unit()?)?;
    let mut item = call.item(convert::grant(&request))?.noting(&request.metadata)?;
    if let Some(reason) = &request.reason {
        item = item.because(reason);
    }
    let done = call.decide(&account, item).await?;
    let answer = done.shown(&account).grant_answer(&done.receipt)?;
    let made = done.receipt.existing.is_none();
    let status = if made { StatusCode::CREATED } else { StatusCode::OK };
    Ok(Reply::decided(status, &answer, done.decided)?)
}

async fn void(call: Call) -> Handled {
    let request: VoidRequest = call.json()?;
    let account = call.account(call.unit()?)?;
    let lot = call.lot()?;
    if request.dry_run {
        return void_dry(&call, &account, lot).await;
    }
    let confirm = confirmed(request.confirm)?;
    let item = call.item(Asked::Void(Void { lot, confirm }))?.because(&request.reason);
    let done = call.decide(&account, item).await?;
    let answer = done.shown(&account).void_answer(&done.receipt, None)?;
    Ok(Reply::decided(StatusCode::OK, &answer, done.decided)?)
}

async fn void_dry(call: &Call, account: &AccountName, lot: LotNumber) -> Handled {
    let act = move |confirm| Asked::Void(Void { lot, confirm });
    let Rehearsed { confirm, done } = rehearse(call, account, act).await?;
    let answer = done.shown(account).void_answer(&done.receipt, Some(confirm))?;
    Ok(Reply::read(&answer)?)
}

async fn adjust(call: Call) -> Handled {
    let request: AdjustRequest = call.json()?;
    let account = call.account(call.unit()?)?;
    let item = call.item(convert::adjust(&request))?.because(&request.reason);
    let item = item.noting(&request.metadata)?;
    let done = call.decide(&account, item).await?;
    let answer = done.shown(&account).adjust_answer(&done.receipt)?;
    Ok(Reply::decided(StatusCode::OK, &answer, done.decided)?)
}
