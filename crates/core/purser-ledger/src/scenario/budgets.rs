//! Lines about budgets: what is asked of them, and how they are told of.

use purser_types::{BudgetName, Credits, LogTime};

use super::line_error::LineError;
use super::moment::{instant_text, parse_instant};
use super::requests::Read;
use super::telling::figures;
use super::words::Words;
use crate::budgets::{
    Budget, BudgetCalendar, BudgetFigures, BudgetPeriod, BudgetView, CalendarUnit, Cap, Periods,
    RemoveBudget, SetBudget,
};
use crate::command::Operation;
use crate::rejection::Rejection;

/// How a line with `verb` is read, if it is about budgets.
pub(super) fn reader(verb: &str) -> Option<Read> {
    Some(match verb {
        "budget" => |_, _, words| set(words),
        "remove_budget" => |_, _, words| {
            let name = BudgetName::parse(words.plain("budget")?)?;
            Ok(Operation::RemoveBudget(RemoveBudget { name }))
        },
        _ => return None,
    })
}

/// The budgets that a call names: `budgets=key:a,team:b`.
pub(super) fn named(words: &mut Words<'_>) -> Result<Box<[BudgetName]>, LineError> {
    let Some(named) = words.named("budgets") else { return Ok(Box::default()) };
    Ok(named.split(',').map(BudgetName::parse).collect::<Result<_, _>>()?)
}

fn set(words: &mut Words<'_>) -> Result<Operation, LineError> {
    let name = BudgetName::parse(words.plain("budget")?)?;
    let limit = Credits::parse(words.plain("limit")?)?;
    let parent = words.named("parent").map(BudgetName::parse).transpose()?;
    let calendar = words.named("periods").map(calendar).transpose()?;
    Ok(Operation::SetBudget(Box::new(SetBudget { name, parent, limit, calendar })))
}

/// Periods by the instants between them: `periods=0s,10s,20s`.
fn calendar(text: &str) -> Result<BudgetCalendar, LineError> {
    let boundaries = text.split(',').map(parse_instant).collect::<Result<Vec<LogTime>, _>>()?;
    let periods = Periods::between(&boundaries)
        .map_err(|_refused| LineError::Choice { what: "periods", allowed: "ascending instants" })?;
    let unit = CalendarUnit::Day;
    Ok(BudgetCalendar { unit, zone: "UTC".into(), anchor: "1970-01-01T00:00:00".into(), periods })
}

/// ` key:a parent=team limit=10`.
pub(super) fn budget_text(budget: &Budget) -> String {
    let parent = budget.parent.as_ref().map(|parent| format!(" parent={parent}"));
    format!(" {}{} limit={}", budget.name, parent.unwrap_or_default(), budget.limit)
}

/// `key:a limit=10 held=4 left=6 10s..20s`, and what is kept of earlier periods.
pub(super) fn view_text(view: &BudgetView<'_>) -> String {
    let BudgetView { budget, present, past } = view;
    let amounts = |it: &BudgetFigures| figures(&[("held", it.held), ("used", it.used)]);
    let left = present.remaining(budget.limit);
    let period = period_text(present.period);
    let mut text =
        format!("{}{} left={left}{period}", budget_text(budget).trim_start(), amounts(present));
    for figures in past {
        text.push_str(&format!(", before{}{}", amounts(figures), period_text(figures.period)));
    }
    text
}

fn period_text(period: BudgetPeriod) -> String {
    let until = period.until.map(instant_text);
    until.map_or_else(String::new, |until| format!(" {}..{until}", instant_text(period.from)))
}

/// ` under key:a team`: the budgets of a hold or charge.
pub(super) fn caps_text(caps: &[Cap]) -> String {
    if caps.is_empty() {
        return String::new();
    }
    let names: String = caps.iter().map(|cap| format!(" {}", cap.budget)).collect();
    format!(" under{names}")
}

/// ` budget=team limit=10 left=3`: why a budget is in the way.
pub(super) fn refusal_text(rejection: &Rejection) -> String {
    if let Rejection::BudgetNotFound { budget } = rejection {
        format!(" budget={budget}")
    } else if let Rejection::BudgetExceeded { budget, limit, remaining, until } = rejection {
        let until = until.map(|until| format!(" until={}", instant_text(until)));
        format!(" budget={budget} limit={limit} left={remaining}{}", until.unwrap_or_default())
    } else if let Rejection::BudgetParentFixed { parent } = rejection {
        let parent = parent.as_ref().map_or("none", BudgetName::as_str);
        format!(" parent={parent}")
    } else if let Rejection::BudgetHasChildren { children } = rejection {
        format!(" children={children}")
    } else {
        String::new()
    }
}
