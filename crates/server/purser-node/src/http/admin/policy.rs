//! An account's policy.

use hyper::StatusCode;
use purser_api::{Policy, PolicyRequest, ProblemCode as Code, TenantAnswer, UnitQuery, paths};
use purser_ledger::Operation as Asked;

use crate::http::call::Call;
use crate::http::convert;
use crate::http::describe::{Description, Tag};
use crate::http::operation::Operation;
use crate::http::reply::Reply;
use crate::http::routes::{Access, Handled, Routes, Verb};

/// Declares the calls.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    routes
        .call(
            (Verb::Get, paths::ADMIN_POLICY),
            Operation::GetPolicy,
            Description::new(Access::ADMIN_READ, Tag::Tenants, "Shows an account's policy.")
                .query::<UnitQuery>()
                .answers::<Policy>(200),
            get,
        )
        .call(
            (Verb::Post, paths::ADMIN_POLICY),
            Operation::SetPolicy,
            Description::new(
                Access::ADMIN,
                Tag::Tenants,
                "Changes an account's policy; what is left out stays as it is.",
            )
            .query::<UnitQuery>()
            .body::<PolicyRequest>()
            .answers::<TenantAnswer>(200)
            .refuses(&[Code::AccountClosed]),
            set,
        )
}

async fn get(call: Call) -> Handled {
    let account = call.account(call.unit()?)?;
    let policy = call
        .look(&account, |settled, _, _| Ok(convert::policy(&settled.account().standing().policy)));
    Ok(Reply::read(&policy.await?)?)
}

async fn set(call: Call) -> Handled {
    let request: PolicyRequest = call.json()?;
    let account = call.account(call.unit()?)?;
    let item = call.item(Asked::SetPolicy(convert::policy_change(&request)))?;
    let done = call.decide(&account, item).await?;
    let answer = done.shown(&account).tenant_answer(&done.receipt)?;
    Ok(Reply::decided(StatusCode::OK, &answer, done.decided)?)
}
