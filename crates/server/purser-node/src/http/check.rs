//! Check: what an authorize would be answered, without effect.

use purser_api::{Amount, AuthorizeRequest, CheckAnswer, UnitQuery, paths};
use purser_ledger::Rejection;
use purser_types::Credits;

use crate::http::call::Call;
use crate::http::convert::Shown;
use crate::http::describe::{Description, Tag};
use crate::http::operation::Operation;
use crate::http::problem::Refusal;
use crate::http::reply::Reply;
use crate::http::routes::{Access, Handled, Routes, Verb};

/// Declares the call.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    routes.call(
        (Verb::Post, paths::CHECK),
        Operation::Check,
        Description::new(Access::ASK, Tag::Spend, "Tells what an authorize would be answered now.")
            .query::<UnitQuery>()
            .body::<AuthorizeRequest>()
            .answers::<CheckAnswer>(200),
        check,
    )
}

async fn check(call: Call) -> Handled {
    let request: AuthorizeRequest = call.json()?;
    let account = call.account(call.unit()?)?;
    let owner = call.api.owner();
    let answer = call.look(&account, |settled, now, written| {
        let shown = Shown::new(&account, owner).with_homes(settled.account().homes());
        let verdict = settled.account().check(request.amount.credits());
        let short_by = match &verdict.refusal {
            Some(Rejection::InsufficientCredits { short_by, .. }) => *short_by,
            _ => Credits::ZERO,
        };
        let reason = verdict
            .refusal
            .as_ref()
            .map(|rejection| Refusal::of_rejection(rejection, owner).code().name().to_owned());
        Ok(CheckAnswer {
            allowed: verdict.refusal.is_none(),
            lots: shown.shares(verdict.lots.into_iter()),
            short_by: Amount(short_by),
            reason,
            balance: shown.balance(settled.account().balance(), now, written, 0),
        })
    });
    Ok(Reply::read(&answer.await?)?)
}
