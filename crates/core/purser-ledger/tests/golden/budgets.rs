//! What the golden tests pin about budgets.

use purser_ledger::{
    Authorize, Budget, BudgetCalendar, BudgetPeriod, CalendarUnit, Cap, Fact, Hold, Job, JobState,
    Operation, Periods, Rejection, RemoveBudget, SetBudget,
};
use purser_types::{BudgetName, Span};

use super::jobs::job;
use super::{at, credits, hold, sequence};

fn name(name: &str) -> BudgetName {
    BudgetName::parse(name).unwrap()
}

fn calendar() -> BudgetCalendar {
    let periods = Periods::between(&[at(0), at(100), at(200), at(290)]).unwrap();
    let (zone, anchor) = ("America/New_York".into(), "2026-01-01T00:00:00".into());
    BudgetCalendar { unit: CalendarUnit::Month, zone, anchor, periods }
}

/// With their numbers.
pub(super) fn operations() -> impl Iterator<Item = (Operation, u32)> {
    let (parent, limit) = (Some(name("team:search")), credits(40));
    let set = SetBudget { name: name("key:sk-12"), parent, limit, calendar: Some(calendar()) };
    let remove = RemoveBudget { name: name("key:sk-12") };
    [Operation::SetBudget(Box::new(set)), Operation::RemoveBudget(remove)].into_iter().zip(39..)
}

/// A budget that nothing is above.
pub(super) fn top() -> Operation {
    let (parent, calendar) = (None, Some(calendar()));
    let set = SetBudget { name: name("team:search"), parent, limit: credits(90), calendar };
    Operation::SetBudget(Box::new(set))
}

/// A hold under it.
pub(super) fn under_it() -> Operation {
    let (ttl, budgets) = (Span::from_secs(900), [name("team:search")].into());
    Operation::Authorize(Authorize { amount: credits(1), ttl, reference: None, budgets })
}

fn budget() -> Budget {
    Budget {
        name: name("key:sk-12"),
        parent: Some(name("team:search")),
        limit: credits(40),
        calendar: Some(calendar()),
        created_at: at(2),
        changed_by: sequence(8),
    }
}

/// With their numbers.
pub(super) fn facts() -> impl Iterator<Item = (Fact, u32)> {
    let removed = Budget { parent: None, calendar: None, ..budget() };
    let facts = [Fact::BudgetSet(Box::new(budget())), Fact::BudgetRemoved(Box::new(removed))];
    facts.into_iter().zip(47..)
}

/// A hold under budgets.
pub(super) fn capped() -> Fact {
    let day = BudgetPeriod { from: at(100), until: Some(at(200)) };
    let caps = [
        Cap { budget: name("key:sk-12"), period: day },
        Cap { budget: name("team:search"), period: BudgetPeriod::ALWAYS },
    ];
    Fact::Authorized(Hold { caps: caps.into(), ..hold() })
}

/// A job whose call named a budget.
pub(super) fn named_by_job() -> Fact {
    let budgets = [name("key:sk-12")].into();
    Fact::JobLeased(Box::new(Job { budgets, ..job(JobState::Queued { due_at: at(61) }) }))
}

/// With their numbers.
pub(super) fn rejections() -> impl Iterator<Item = (Rejection, u32)> {
    let budget = name("key:sk-12");
    let (limit, remaining, until) = (credits(40), credits(3), Some(at(200)));
    let rejections = [
        Rejection::BudgetNotFound { budget: budget.clone() },
        Rejection::BudgetExceeded { budget, limit, remaining, until },
        Rejection::BudgetParentFixed { parent: Some(name("team:search")) },
        Rejection::BudgetHasChildren { children: 2 },
        Rejection::TooManyBudgets,
        Rejection::BudgetTooDeep,
    ];
    rejections.into_iter().zip(73..)
}
