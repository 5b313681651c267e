//! Deciding about budgets, and about calls under them.

use purser_types::{BudgetName, Credits, LogTime};

use super::{
    BUDGET_DEPTH_MAX, BUDGETS_MAX, Budget, BudgetFigures, BudgetPeriod, Cap, RemoveBudget,
    SetBudget,
};
use crate::account::{Account, Draft};
use crate::entry::Fact;
use crate::hold::Hold;
use crate::rejection::Rejection;

impl Account {
    /// Makes a budget, or changes its limit and its periods. Refuses: no such parent; another parent
    /// than it has; too many; too deep.
    pub(crate) fn decide_set_budget(
        &self,
        asked: &SetBudget,
        now: LogTime,
    ) -> Result<Draft, Rejection> {
        let budgets = self.budgets();
        let above = match &asked.parent {
            None => 0,
            Some(parent) => budgets.chain(parent).count(),
        };
        if above == 0
            && let Some(parent) = &asked.parent
        {
            return Err(Rejection::BudgetNotFound { budget: parent.clone() });
        }
        let known = budgets.defined(&asked.name);
        match known {
            Some(known) if known.parent != asked.parent => {
                return Err(Rejection::BudgetParentFixed { parent: known.parent.clone() });
            }
            Some(_) => (),
            None if budgets.count() >= BUDGETS_MAX => return Err(Rejection::TooManyBudgets),
            None if above >= BUDGET_DEPTH_MAX => return Err(Rejection::BudgetTooDeep),
            None => (),
        }
        let budget = Budget {
            name: asked.name.clone(),
            parent: asked.parent.clone(),
            limit: asked.limit,
            calendar: asked.calendar.clone(),
            created_at: known.map_or(now, |known| known.created_at),
            changed_by: self.head.sequence.next(),
        };
        Ok(Draft::still(Fact::BudgetSet(Box::new(budget))))
    }

    /// Removes a budget and its figures: it caps nothing any more, nor what was begun under it. Refuses:
    /// no such budget; others are below it.
    pub(crate) fn decide_remove_budget(&self, asked: &RemoveBudget) -> Result<Draft, Rejection> {
        let budgets = self.budgets();
        let Some(budget) = budgets.defined(&asked.name) else {
            return Err(Rejection::BudgetNotFound { budget: asked.name.clone() });
        };
        let children = budgets.children(&asked.name);
        if children > 0 {
            return Err(Rejection::BudgetHasChildren { children });
        }
        let removed = Budget { changed_by: self.head.sequence.next(), ..budget.clone() };
        Ok(Draft::still(Fact::BudgetRemoved(Box::new(removed))))
    }

    /// The caps of a call that takes `amount` and names budgets: each with those above it, in the order in
    /// which they are named, each once. Refuses with the first that does not exist, or has not so much
    /// left.
    pub(crate) fn caps_for(
        &self,
        named: &[BudgetName],
        amount: Credits,
        now: LogTime,
    ) -> Result<Box<[Cap]>, Rejection> {
        let budgets = self.budgets();
        let mut caps: Vec<Cap> = Vec::new();
        for name in named {
            if budgets.defined(name).is_none() {
                return Err(Rejection::BudgetNotFound { budget: name.clone() });
            }
            for budget in budgets.chain(name) {
                if caps.iter().all(|cap| cap.budget != budget.name) {
                    caps.push(Cap { budget: budget.name.clone(), period: budget.period_at(now) });
                }
            }
        }
        let none = BudgetFigures::NONE;
        for cap in &caps {
            let figures = budgets.in_period(&cap.budget, cap.period.from);
            self.refuse_beyond(cap, figures.copied().unwrap_or(none), amount)?;
        }
        Ok(caps.into())
    }

    /// Refuses a capture that takes `beyond` more than its hold has set aside, with the first of its
    /// budgets that has not so much left. Budgets cap what the account pays of it; what it owes, if debt
    /// is allowed, its debt limit caps. A period whose figures are no longer kept has nothing left.
    pub(crate) fn refuse_beyond_caps(
        &self,
        hold: &Hold,
        beyond: Credits,
        allow_debt: bool,
    ) -> Result<(), Rejection> {
        let paid = if allow_debt { beyond.min(self.balance.available) } else { beyond };
        if paid.is_zero() {
            return Ok(());
        }
        let budgets = self.budgets();
        for cap in &hold.caps {
            match budgets.of(cap, hold.number) {
                Some(figures) => self.refuse_beyond(cap, *figures, paid)?,
                None => self.refuse_if_forgotten(cap, hold)?,
            }
        }
        Ok(())
    }

    fn refuse_if_forgotten(&self, cap: &Cap, hold: &Hold) -> Result<(), Rejection> {
        let Some(budget) = self.budgets().that_has_forgotten(cap, hold) else { return Ok(()) };
        let (limit, remaining, until) = (budget.limit, Credits::ZERO, cap.period.until);
        Err(Rejection::BudgetExceeded { budget: cap.budget.clone(), limit, remaining, until })
    }

    fn refuse_beyond(
        &self,
        cap: &Cap,
        figures: BudgetFigures,
        amount: Credits,
    ) -> Result<(), Rejection> {
        let Some(budget) = self.budgets().defined(&cap.budget) else { return Ok(()) };
        let BudgetFigures { held, used, .. } = figures;
        let after = held.checked_add(used).and_then(|taken| taken.checked_add(amount));
        if after.is_some_and(|after| after <= budget.limit) {
            return Ok(());
        }
        let limit = budget.limit;
        let remaining = figures.remaining(limit);
        let until = cap.period.until;
        Err(Rejection::BudgetExceeded { budget: cap.budget.clone(), limit, remaining, until })
    }
}

impl Budget {
    /// The period that an instant lies in.
    pub fn period_at(&self, instant: LogTime) -> BudgetPeriod {
        self.calendar.as_ref().map_or(BudgetPeriod::ALWAYS, |it| it.periods.at(instant))
    }
}
