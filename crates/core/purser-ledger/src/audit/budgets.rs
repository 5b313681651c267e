//! Budgets, followed through the entries that are about them and the holds and charges made under them.

use std::collections::BTreeMap;

use purser_types::{BudgetName, LogTime};

use super::expect;
use crate::account::Account;
use crate::budgets::{Budget, Cap};
use crate::entry::{Entry, Fact};
use crate::hold::Hold;

/// What the entries say of each budget, and of the holds and charges that were made under it.
#[derive(Debug, Default)]
pub(super) struct AuditedBudgets {
    defined: BTreeMap<BudgetName, Budget>,
    /// What was held and used, by the budget and period that it belongs to.
    periods: BTreeMap<(BudgetName, LogTime), Period>,
    /// The entry from which on a budget of that name counts.
    since: BTreeMap<BudgetName, u64>,
}

/// What the holds and charges hold and have used that were made under a budget in one period.
#[derive(Debug, Default)]
struct Period {
    /// What each of them does, by its number.
    parts: BTreeMap<u64, Part>,
    /// The first that counts: those before it were made under a budget of that name that was removed.
    since: u64,
    /// What those that count come to. Kept up, since it is looked at for each that is made.
    sum: Part,
}

/// What is held and used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Part {
    held: u128,
    used: u128,
}

impl AuditedBudgets {
    /// Follows the budget, hold or charge that an entry is about.
    pub(super) fn follow(&mut self, entry: &Entry) -> Result<(), String> {
        if let Fact::BudgetSet(budget) = &entry.fact {
            return self.follow_set(budget, entry);
        }
        if let Fact::BudgetRemoved(budget) = &entry.fact {
            let below = self.defined.values().any(|it| it.parent.as_ref() == Some(&budget.name));
            expect("budgets below one that is removed", below, false)?;
            let known = self.defined.remove(&budget.name).is_some();
            return expect("a budget that is removed is known", known, true);
        }
        match entry.fact.hold().filter(|hold| !hold.caps.is_empty()) {
            Some(hold) => self.follow_hold(hold, entry),
            None => Ok(()),
        }
    }

    fn follow_set(&mut self, budget: &Budget, entry: &Entry) -> Result<(), String> {
        expect("the entry that changed the budget", budget.changed_by, entry.sequence)?;
        if let Some(parent) = &budget.parent {
            expect("a parent is known", self.defined.contains_key(parent), true)?;
        }
        match self.defined.insert(budget.name.clone(), budget.clone()) {
            Some(before) => expect("the parent of a budget", &budget.parent, &before.parent),
            None => {
                self.since.insert(budget.name.clone(), entry.sequence.0);
                Ok(())
            }
        }
    }

    /// INV-21: what is begun under a budget fits into it, and into all that are above it.
    fn follow_hold(&mut self, hold: &Hold, entry: &Entry) -> Result<(), String> {
        let is_new = hold.number.0 == entry.sequence;
        // What a lost home had decided is booked, whatever is left here.
        let is_decided = is_new && !matches!(entry.fact, Fact::TailBooked(_));
        let (held, used) = (u128::from(hold.held.get()), u128::from(hold.net().get()));
        for cap in &hold.caps {
            self.note(cap, hold.number.0.0, Part { held, used });
            if is_decided {
                self.check_cap(cap, hold, entry)?;
            }
        }
        Ok(())
    }

    fn check_cap(&self, cap: &Cap, hold: &Hold, entry: &Entry) -> Result<(), String> {
        let name = &cap.budget;
        let budget = self.defined.get(name).ok_or_else(|| format!("budget {name} is unknown"))?;
        expect("the period of a cap", cap.period, budget.period_at(entry.log_time))?;
        if let Some(parent) = &budget.parent {
            let is_above = hold.caps.iter().any(|other| other.budget == *parent);
            expect("the budget above is asked as well", is_above, true)?;
        }
        let Part { held, used } = self.kept(cap);
        let fits = held.saturating_add(used) <= u128::from(budget.limit.get());
        if fits { Ok(()) } else { Err(format!("budget {name} has {held} held and {used} used")) }
    }

    /// Notes what a hold or charge holds and has used from now on.
    fn note(&mut self, cap: &Cap, number: u64, part: Part) {
        let since = self.since.get(&cap.budget).copied().unwrap_or(0);
        let period = self.periods.entry((cap.budget.clone(), cap.period.from)).or_default();
        period.note(number, part, since);
    }

    /// What a budget comes to in a period, as it is kept up.
    fn kept(&self, cap: &Cap) -> Part {
        let period = self.periods.get(&(cap.budget.clone(), cap.period.from));
        period.map_or_else(Part::default, |period| period.sum)
    }

    /// The same, added up: of all that were made from a number on.
    fn sum(&self, name: &BudgetName, from: LogTime, since: u64) -> Part {
        let period = self.periods.get(&(name.clone(), from));
        period.map_or_else(Part::default, |period| period.sum_since(since))
    }

    /// INV-21: the live figures are the sums over holds and charges.
    pub(super) fn compare(&self, account: &Account) -> Result<(), String> {
        for (budget, kept) in account.budgets().pairs() {
            let name = &budget.name;
            expect("a live budget", Some(&budget), self.defined.get(name))?;
            for figures in kept {
                let part = self.sum(name, figures.period.from, figures.since.0);
                let (held, used) = (figures.held.get().into(), figures.used.get().into());
                expect(&format!("held under budget {name}"), held, part.held)?;
                expect(&format!("used under budget {name}"), used, part.used)?;
            }
        }
        expect("live budgets", account.budgets_count(), self.defined.len())
    }
}

impl Period {
    fn note(&mut self, number: u64, part: Part, since: u64) {
        let before = self.parts.insert(number, part).unwrap_or_default();
        if self.since < since {
            // What is noted already was made before.
            (self.since, self.sum) = (since, Part::default());
        }
        if number >= since {
            self.sum = self.sum.plus(part).less(before);
        }
    }

    fn sum_since(&self, since: u64) -> Part {
        let counted = self.parts.range(since..);
        counted.fold(Part::default(), |sum, (_, part)| sum.plus(*part))
    }
}

impl Part {
    fn plus(self, other: Self) -> Self {
        Self {
            held: self.held.saturating_add(other.held),
            used: self.used.saturating_add(other.used),
        }
    }

    fn less(self, other: Self) -> Self {
        Self {
            held: self.held.saturating_sub(other.held),
            used: self.used.saturating_sub(other.used),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is noted next: a budget of the name is made anew, a hold is made, or one comes to something
    /// else.
    #[derive(Debug, Clone, Copy)]
    enum Step {
        Anew,
        Made(Part),
        Changed(usize, Part),
    }

    fn part() -> impl Strategy<Value = Part> {
        (0..100_u128, 0..100_u128).prop_map(|(held, used)| Part { held, used })
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            1 => Just(Step::Anew),
            8 => part().prop_map(Step::Made),
            8 => (any::<usize>(), part()).prop_map(|(place, part)| Step::Changed(place, part)),
        ]
    }

    /// Plays steps and calls `look` after each with the period and the first number that counts.
    fn play(
        steps: impl IntoIterator<Item = Step>,
        mut look: impl FnMut(&Period, u64) -> Result<(), TestCaseError>,
    ) -> Result<(), TestCaseError> {
        let (mut period, mut since, mut made) = (Period::default(), 0, Vec::new());
        for (number, step) in (1_u64..).zip(steps) {
            match step {
                Step::Anew => since = number,
                Step::Made(part) => {
                    made.push(number);
                    period.note(number, part, since);
                }
                Step::Changed(place, part) => {
                    let place = place.checked_rem(made.len());
                    let Some(number) = place.and_then(|place| made.get(place)) else { continue };
                    period.note(*number, part, since);
                }
            }
            // A new budget's sum is looked at once something was noted under it.
            if period.since == since {
                look(&period, since)?;
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn the_kept_sum_is_that_of_all_parts(steps in prop::collection::vec(step(), 1..200)) {
            play(steps, |period, since| {
                prop_assert_eq!(period.sum, period.sum_since(since));
                Ok(())
            })?;
        }
    }

    /// Adding all up for each that is made would take minutes.
    #[test]
    fn a_long_history_is_added_up_once() {
        let one = Part { held: 1, used: 1 };
        let mut audited = AuditedBudgets::default();
        let budget = BudgetName::parse("team").unwrap();
        let cap = Cap { budget: budget.clone(), period: crate::budgets::BudgetPeriod::ALWAYS };
        for number in 1..=100_000 {
            audited.note(&cap, number, one);
            let all = u128::from(number);
            assert_eq!(audited.kept(&cap), Part { held: all, used: all });
        }
        assert_eq!(audited.kept(&cap), audited.sum(&budget, LogTime::ZERO, 0));
    }
}
