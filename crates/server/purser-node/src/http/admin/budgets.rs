//! Budgets: setting, showing and removing caps inside an account.

use std::ops::Bound;

use hyper::StatusCode;
use purser_api::{
    Budget, BudgetDetail, BudgetLabel, BudgetRequest, BudgetsQuery, List, ProblemCode as Code,
    RemoveBudgetRequest, UnitQuery, paths,
};
use purser_ledger::{Operation as Asked, RemoveBudget};
use purser_types::BudgetName;

use crate::http::call::{Call, Remarks};
use crate::http::convert;
use crate::http::describe::{Description, Tag};
use crate::http::operation::Operation;
use crate::http::paging::{invalid_cursor, open_cursor};
use crate::http::problem::Refusal;
use crate::http::reply::Reply;
use crate::http::routes::{Access, Handled, Routes, Verb};

/// Declares the calls.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    let read = |summary| Description::new(Access::ADMIN_READ, Tag::Tenants, summary);
    let act = |summary| Description::new(Access::ADMIN, Tag::Tenants, summary).query::<UnitQuery>();
    routes
        .call(
            (Verb::Get, paths::ADMIN_BUDGETS),
            Operation::ListBudgets,
            read("Lists an account's budgets and what they come to, by name.")
                .query::<BudgetsQuery>()
                .answers_list::<BudgetDetail>()
                .refuses(&[Code::InvalidCursor]),
            list,
        )
        .call(
            (Verb::Get, paths::ADMIN_BUDGET),
            Operation::GetBudget,
            read("Shows a budget and what it comes to, in this period and in earlier ones.")
                .query::<UnitQuery>()
                .answers::<BudgetDetail>(200)
                .refuses(&[Code::BudgetNotFound]),
            get,
        )
        .call(
            (Verb::Put, paths::ADMIN_BUDGET),
            Operation::SetBudget,
            act("Makes a budget, or changes its limit and its periods. It holds at once.")
                .body::<BudgetRequest>()
                .answers::<Budget>(200)
                .refuses(&[Code::BudgetNotFound, Code::BudgetParentFixed, Code::TooManyBudgets])
                .refuses(&[Code::BudgetTooDeep, Code::AccountClosed]),
            set,
        )
        .call(
            (Verb::Post, paths::ADMIN_BUDGET_REMOVE),
            Operation::RemoveBudget,
            act("Removes a budget that none is below, and what it came to.")
                .body::<RemoveBudgetRequest>()
                .answers::<Budget>(200)
                .refuses(&[Code::BudgetNotFound, Code::BudgetHasChildren, Code::AccountClosed]),
            remove,
        )
}

impl Call {
    /// The budget in the path.
    fn budget(&self) -> Result<BudgetName, Refusal> {
        Ok(self.id::<BudgetLabel>("budget")?.0)
    }
}

async fn set(call: Call) -> Handled {
    let request: BudgetRequest = call.json()?;
    let account = call.account(call.unit()?)?;
    let now = call.api.groups().of(&account).now();
    let item =
        call.item(convert::set_budget(call.budget()?, &request, now)?)?.because(&request.reason);
    let done = call.decide(&account, item).await?;
    Ok(Reply::decided(StatusCode::OK, &convert::budget_of(&done.receipt)?, done.decided)?)
}

async fn remove(call: Call) -> Handled {
    let request: RemoveBudgetRequest = call.json()?;
    let account = call.account(call.unit()?)?;
    let item = call.item(Asked::RemoveBudget(RemoveBudget { name: call.budget()? }))?;
    let item = item.because(&request.reason);
    let done = call.decide(&account, item).await?;
    Ok(Reply::decided(StatusCode::OK, &convert::budget_of(&done.receipt)?, done.decided)?)
}

async fn get(call: Call) -> Handled {
    let account = call.account(call.unit()?)?;
    let name = call.budget()?;
    let look = call.look(&account, |seen, now, _| {
        let budget = seen.account().budget(&name, now);
        let budget = budget.ok_or_else(|| Refusal::not_found(Code::BudgetNotFound))?;
        Ok(convert::budget_detail(&budget))
    });
    Ok(Reply::read(&look.await?)?)
}

async fn list(call: Call) -> Handled {
    let query: BudgetsQuery = call.query()?;
    let account = call.account(query.unit.0.clone())?;
    let scope = query.scope(&account.tenant);
    let after = match &query.cursor {
        Some(cursor) => {
            let place = open_cursor(&scope, cursor)?;
            Some(BudgetName::parse(&place).map_err(|_not_ours| invalid_cursor())?)
        }
        None => None,
    };
    let limit = query.limit.get();
    let look = call.look(&account, |seen, now, _| {
        let from = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut budgets = seen.account().budgets_from(from, now);
        let items: Vec<BudgetDetail> =
            budgets.by_ref().take(limit).map(|budget| convert::budget_detail(&budget)).collect();
        let has_more = budgets.next().is_some();
        let last = items.last().filter(|_| has_more);
        let next_cursor = last.map(|last| scope.seal(last.budget.budget.0.as_str()));
        Ok(List { items, has_more, next_cursor })
    });
    Ok(Reply::read(&look.await?)?)
}
