//! Budgets: what is asked of them, and what is shown.

use purser_api as api;
use purser_api::{Amount, Moment};
use purser_ledger::{
    Budget, BudgetFigures, BudgetPeriod, BudgetView, CalendarUnit, Cap, Fact, Operation, Receipt,
    SetBudget,
};
use purser_types::{BudgetName, LogTime};

use crate::http::calendar;
use crate::http::problem::Refusal;

/// The names of the budgets that a call names.
pub(crate) fn budget_names(budgets: &api::BudgetsNamed) -> Box<[BudgetName]> {
    budgets.names().iter().map(|label| label.0.clone()).collect()
}

/// Asks for a budget; its calendar is resolved as of `now`.
pub(crate) fn set_budget(
    name: BudgetName,
    request: &api::BudgetRequest,
    now: LogTime,
) -> Result<Operation, Refusal> {
    let calendar = request.period.as_ref().map(|period| calendar::resolve(period, now));
    let (parent, limit) = (request.parent.clone().map(Into::into), request.limit.0);
    let set = SetBudget { name, parent, limit, calendar: calendar.transpose()? };
    Ok(Operation::SetBudget(Box::new(set)))
}

/// The budget that an operation made, changed or removed.
pub(crate) fn budget_of(receipt: &Receipt) -> Result<api::Budget, Refusal> {
    if let Fact::BudgetSet(budget) | Fact::BudgetRemoved(budget) = &receipt.entry.fact {
        return Ok(shown(budget));
    }
    Err(Refusal::internal("a receipt about no budget"))
}

fn shown(budget: &Budget) -> api::Budget {
    let period = budget.calendar.as_ref().map(|calendar| api::BudgetPeriod {
        every: match calendar.unit {
            CalendarUnit::Day => api::PeriodUnit::Day,
            CalendarUnit::Week => api::PeriodUnit::Week,
            CalendarUnit::Month => api::PeriodUnit::Month,
        },
        time_zone: calendar.zone.to_string(),
        anchor: Some(calendar.anchor.to_string()),
    });
    api::Budget {
        budget: budget.name.clone().into(),
        parent: budget.parent.clone().map(Into::into),
        limit: Amount(budget.limit),
        period,
        created_at: Moment(budget.created_at),
        sequence: budget.changed_by.into(),
    }
}

/// A budget and what it comes to.
pub(crate) fn budget_detail(view: &BudgetView<'_>) -> api::BudgetDetail {
    api::BudgetDetail {
        budget: shown(view.budget),
        present: use_of(&view.present),
        remaining: Amount(view.present.remaining(view.budget.limit)),
        past: view.past.iter().map(use_of).collect(),
    }
}

/// The budgets in which a hold or charge counts.
pub(super) fn hold_budgets(caps: &[Cap]) -> Vec<api::HoldBudget> {
    let shown = |Cap { budget, period }: &Cap| api::HoldBudget {
        budget: budget.clone().into(),
        from: period.until.map(|_| Moment(period.from)),
        until: period.until.map(Moment),
    };
    caps.iter().map(shown).collect()
}

fn use_of(figures: &BudgetFigures) -> api::BudgetUse {
    let BudgetPeriod { from, until } = figures.period;
    api::BudgetUse {
        from: until.map(|_| Moment(from)),
        until: until.map(Moment),
        held: Amount(figures.held),
        used: Amount(figures.used),
    }
}
