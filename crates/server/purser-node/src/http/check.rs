//! Check: what an authorize would be answered, without effect.

use purser_api::{Amount, AuthorizeRequest, BudgetLabel, CheckAnswer, UnitQuery, paths};
use purser_ledger::Rejection;
use purser_types::Credits;

use crate::http::call::Call;
use crate::http::convert::{self, Shown};
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
    let budgets = convert::budget_names(&request.budgets);
    let answer = call.look(&account, |settled, now, written| {
        let shown = Shown::new(&account, owner).with_homes(settled.account().homes());
        let verdict = settled.check(request.amount.credits(), &budgets);
        let short_by = match &verdict.refusal {
            Some(Rejection::InsufficientCredits { short_by, .. }) => *short_by,
            _ => Credits::ZERO,
        };
        let reason = verdict
            .refusal
            .as_ref()
            .map(|rejection| Refusal::of_rejection(rejection, owner).code().name().to_owned());
        let budget = verdict.refusal.as_ref().and_then(failed_budget);
        Ok(CheckAnswer {
            allowed: verdict.refusal.is_none(),
            lots: shown.shares(verdict.lots.into_iter()),
            short_by: Amount(short_by),
            reason,
            budget,
            balance: shown.balance(settled.account().balance(), now, written, 0),
        })
    });
    Ok(Reply::read(&answer.await?)?)
}

/// The budget because of which a call would be refused.
fn failed_budget(rejection: &Rejection) -> Option<BudgetLabel> {
    if let Rejection::BudgetExceeded { budget, .. } | Rejection::BudgetNotFound { budget } =
        rejection
    {
        return Some(budget.clone().into());
    }
    None
}
