//! Charges: authorize and capture in one step.

use hyper::StatusCode;
use purser_api::{
    ChargeAnswer, ChargeDetail, ChargeRequest, ProblemCode as Code, UnitQuery, paths,
};
use purser_ledger::Target;

use crate::http::call::{Call, Remarks};
use crate::http::convert::{self, Shown, debt_added};
use crate::http::describe::{Description, Tag};
use crate::http::holds::{Told, with_history};
use crate::http::operation::Operation;
use crate::http::reply::Reply;
use crate::http::routes::{Access, Handled, Routes, Verb};

/// Declares the calls of the resource.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    routes
        .call(
            (Verb::Post, paths::CHARGES),
            Operation::Charge,
            Description::new(Access::SPEND, Tag::Spend, "Takes credits in one step.")
                .query::<UnitQuery>()
                .body::<ChargeRequest>()
                .answers::<ChargeAnswer>(201)
                .refuses(&[Code::InsufficientCredits, Code::AccountFrozen, Code::AccountClosed])
                .refuses(&[Code::BudgetExceeded, Code::BudgetNotFound])
                .refuses(&[Code::AmountOverflow]),
            charge,
        )
        .call(
            (Verb::Get, paths::CHARGE),
            Operation::GetCharge,
            Description::new(Access::READ, Tag::Read, "Shows a charge with its history.")
                .query::<UnitQuery>()
                .answers::<ChargeDetail>(200)
                .refuses(&[Code::ChargeNotFound]),
            get,
        )
}

async fn charge(call: Call) -> Handled {
    let request: ChargeRequest = call.json()?;
    let account = call.account(call.unit()?)?;
    let item = call.item(convert::charge(&request))?.noting(&request.metadata)?;
    let done = call.spend(&account, item, request.decider()).await?;
    let answer = done.shown(&account).charge_answer(&done.receipt)?;
    if !done.decided.replayed {
        call.api.metrics().record_debt_added(debt_added(&done.receipt));
    }
    Ok(Reply::decided(StatusCode::CREATED, &answer, done.decided)?)
}

async fn get(call: Call) -> Handled {
    let account = call.account(call.unit()?)?;
    let target = Target::Charge(call.charge()?);
    let owner = call.owner();
    let name = account.clone();
    let detail = call.study_written(&account, move |account, history, now| {
        let shown = Shown::new(&name, &owner).with_homes(account.homes());
        let Told { subject, history, has_older } =
            with_history(account, target, (history, now), &shown)?;
        Ok(ChargeDetail { charge: shown.charge(&subject)?, history, has_older })
    });
    Ok(Reply::read(&detail.await?)?)
}
