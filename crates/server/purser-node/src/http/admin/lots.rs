//! Grants, voids and adjustments.

use hyper::StatusCode;
use purser_api::{
    AdjustAnswer, AdjustRequest, Amount, GrantAnswer, GrantRequest, ProblemCode as Code, UnitQuery,
    VoidAnswer, VoidRequest, paths,
};
use purser_ledger::{AccountName, Bucket, LotNumber, Operation as Asked, Portion, Receipt, Void};

use super::lifecycle::confirmed;
use super::rehearsal::{Rehearsed, rehearse};
use crate::http::call::{Call, Remarks};
use crate::http::convert::{self, Shown, moved};
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
            (Verb::Post, paths::ADMIN_GRANTS),
            Operation::Grant,
            act("Gives a tenant credits. A `source_ref` that was granted before adds nothing.")
                .body::<GrantRequest>()
                .answers::<GrantAnswer>(201)
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
    // Another request gave this lot before, for the same business fact: it may have been spent.
    let given_before = done.receipt.entry.key != Some(call.key()?);
    let shown = Shown::new(&account, call.api.owner());
    let lot = if given_before {
        lot_now(&call, &account, LotNumber(done.receipt.entry.sequence))?
    } else {
        made_lot(&shown, &done.receipt)?
            .ok_or_else(|| Refusal::internal("a grant that made no lot"))?
    };
    let answer = GrantAnswer {
        lot,
        debt_repaid: Amount(done.receipt.debt_repaid),
        balance: shown.balance_after(&done.receipt),
    };
    let status = if given_before { StatusCode::OK } else { StatusCode::CREATED };
    Ok(Reply::decided(status, &answer, done.replayed)?)
}

/// The lot that a receipt's entry made, as it was then.
fn made_lot(shown: &Shown<'_>, receipt: &Receipt) -> Result<Option<purser_api::Lot>, Refusal> {
    let entry = &receipt.entry;
    let Some(terms) = entry.fact.new_lot() else { return Ok(None) };
    let number = LotNumber(entry.sequence);
    shown.new_lot(number, terms, receipt.debt_repaid, entry.log_time).map(Some)
}

/// A lot as it stands on this node, which has just decided about it.
fn lot_now(
    call: &Call,
    account: &AccountName,
    number: LotNumber,
) -> Result<purser_api::Lot, Refusal> {
    let group = call.api.groups().of(account);
    let lot = group.view(|ledger, _| ledger.account(account)?.lot(number).cloned());
    let lot = lot.ok_or_else(|| Refusal::not_found(Code::LotNotFound))?;
    Shown::new(account, call.api.owner()).lot(number, &lot)
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
    let shown = Shown::new(&account, call.api.owner());
    let lot = lot_now(&call, &account, lot)?;
    let answer = VoidAnswer {
        dry_run: false,
        confirm: None,
        voided: Amount(voided(&done.receipt)),
        pinned: lot.held.clone(),
        lot,
        balance: shown.balance_after(&done.receipt),
    };
    Ok(Reply::decided(StatusCode::OK, &answer, done.replayed)?)
}

async fn void_dry(call: &Call, account: &AccountName, lot: LotNumber) -> Handled {
    let (name, owner) = (account.clone(), call.api.owner().clone());
    let act = move |confirm| Asked::Void(Void { lot, confirm });
    let show = move |rehearsed: &Rehearsed<'_>| {
        let shown = Shown::new(&name, &owner);
        let after = rehearsed.account.lot(lot);
        let after = after.ok_or_else(|| Refusal::not_found(Code::LotNotFound))?;
        Ok(VoidAnswer {
            dry_run: true,
            confirm: Some(rehearsed.confirm.0.into()),
            voided: Amount(voided(&rehearsed.receipt)),
            pinned: Amount(after.held),
            lot: shown.lot(lot, after)?,
            balance: shown.balance_after(&rehearsed.receipt),
        })
    };
    Ok(Reply::read(&rehearse(call, account, act, show).await?)?)
}

fn voided(receipt: &Receipt) -> purser_types::Credits {
    moved(&receipt.entry.moves, |_, to| to == Bucket::Voided)
}

async fn adjust(call: Call) -> Handled {
    let request: AdjustRequest = call.json()?;
    let account = call.account(call.unit()?)?;
    let item = call.item(convert::adjust(&request))?.because(&request.reason);
    let item = item.noting(&request.metadata)?;
    let done = call.decide(&account, item).await?;
    let shown = Shown::new(&account, call.api.owner());
    let taken = done.receipt.entry.moves.iter().filter_map(|step| match (step.to, step.lot) {
        (Bucket::Voided, Some(lot)) => Some(Portion { lot, amount: step.amount }),
        _ => None,
    });
    let answer = AdjustAnswer {
        lot: made_lot(&shown, &done.receipt)?,
        removed: shown.shares(taken),
        debt_repaid: Amount(done.receipt.debt_repaid),
        balance: shown.balance_after(&done.receipt),
    };
    Ok(Reply::decided(StatusCode::OK, &answer, done.replayed)?)
}
