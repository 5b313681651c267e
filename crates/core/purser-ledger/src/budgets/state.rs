//! An account's budgets in memory, and how entries change them.

use std::ops::Bound;

use minicbor::{Decode, Encode};
use purser_types::{BudgetName, CowMap, Credits, LogTime, Sequence};

use super::{BUDGET_DEPTH_MAX, BUDGET_PERIODS_KEPT, Budget, BudgetPeriod, Cap};
use crate::account::Account;
use crate::command::HoldNumber;
use crate::entry::{Bucket, Entry, Move};
use crate::hold::{Hold, sum};

/// See the module's documentation.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Budgets {
    defined: CowMap<BudgetName, Budget>,
    /// Of each budget under which something was begun: the last periods in which that was, the latest at
    /// the end.
    figures: CowMap<BudgetName, Vec<BudgetFigures>>,
}

/// What a budget comes to in one period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct BudgetFigures {
    /// The period.
    #[n(0)]
    pub period: BudgetPeriod,
    /// The first entry that counts: what was made before it, under a budget of that name that was removed
    /// or in a period whose figures had been forgotten, does not.
    #[n(1)]
    pub since: Sequence,
    /// What holds have set aside.
    #[n(2)]
    pub held: Credits,
    /// What was taken and not given back. May exceed the limit: by what was delivered after a refund, by
    /// captures that are owed, and when the limit is lowered.
    #[n(3)]
    pub used: Credits,
}

/// A budget with its figures, as it is at an instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetView<'a> {
    /// The budget.
    pub budget: &'a Budget,
    /// Of the present period.
    pub present: BudgetFigures,
    /// Of earlier ones that are kept, the latest at first.
    pub past: Vec<BudgetFigures>,
}

/// What an entry adds to and takes from a bucket.
#[derive(Debug, Clone, Copy)]
struct Change {
    to: Credits,
    from: Credits,
}

impl BudgetFigures {
    /// Of a period in which nothing was begun.
    pub(super) const NONE: Self = Self {
        period: BudgetPeriod::ALWAYS,
        since: Sequence::ZERO,
        held: Credits::ZERO,
        used: Credits::ZERO,
    };

    /// What is left under a limit.
    pub fn remaining(&self, limit: Credits) -> Credits {
        limit.saturating_sub(self.held).saturating_sub(self.used)
    }
}

impl Budgets {
    fn none() -> &'static Self {
        static NONE: std::sync::LazyLock<Budgets> = std::sync::LazyLock::new(Budgets::default);
        &NONE
    }

    /// A budget.
    pub(super) fn defined(&self, name: &BudgetName) -> Option<&Budget> {
        self.defined.get(name)
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.defined.len()
    }

    /// A budget and those above it, from it upwards.
    pub(super) fn chain<'a>(&'a self, name: &BudgetName) -> impl Iterator<Item = &'a Budget> {
        let parent = move |budget: &&'a Budget| self.defined.get(budget.parent.as_ref()?);
        std::iter::successors(self.defined.get(name), parent).take(BUDGET_DEPTH_MAX)
    }

    /// How many budgets are right below one.
    pub(super) fn children(&self, name: &BudgetName) -> u64 {
        let below = self.defined.iter().filter(|(_, other)| other.parent.as_ref() == Some(name));
        u64::try_from(below.count()).unwrap_or(u64::MAX)
    }

    /// The figures of the period that begins at `from`.
    pub(super) fn in_period(&self, name: &BudgetName, from: LogTime) -> Option<&BudgetFigures> {
        self.figures.get(name)?.iter().find(|figures| figures.period.from == from)
    }

    /// The figures that a hold or charge counts in.
    pub(super) fn of(&self, cap: &Cap, number: HoldNumber) -> Option<&BudgetFigures> {
        self.in_period(&cap.budget, cap.period.from).filter(|figures| figures.since <= number.0)
    }

    /// The budget of a cap, if it has forgotten the figures that a hold counted in. One that is made again
    /// under the name of another knows nothing of what was made before it, and has forgotten nothing.
    ///
    /// A budget keeps when it was made and not by which entry. Of a hold that was made before it under the
    /// same log time, this says that it has forgotten, which refuses: the sequence of its last change
    /// would let a hold that was made between its making and that change take without a limit.
    pub(super) fn that_has_forgotten(&self, cap: &Cap, hold: &Hold) -> Option<&Budget> {
        let kept = self.figures.get(&cap.budget)?;
        let budget = self.defined(&cap.budget)?;
        let is_older = hold.created_at < budget.created_at;
        (kept.len() >= BUDGET_PERIODS_KEPT && !is_older).then_some(budget)
    }

    /// Every budget and the figures that are kept of it.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (Budget, Vec<BudgetFigures>)> {
        let figures = move |name| self.figures.get(name).cloned().unwrap_or_default();
        self.defined.iter().map(move |(name, budget)| (budget.clone(), figures(name)))
    }

    /// Adds a budget as it was kept.
    pub(crate) fn restore(&mut self, budget: Budget, figures: Vec<BudgetFigures>) {
        if !figures.is_empty() {
            self.figures.insert(budget.name.clone(), figures);
        }
        self.defined.insert(budget.name.clone(), budget);
    }

    /// Makes room for a period in which something is begun, as the latest.
    fn begin(&mut self, cap: &Cap, since: Sequence) {
        if self.figures.get(&cap.budget).is_none() {
            self.figures.insert(cap.budget.clone(), Vec::new());
        }
        let Some(kept) = self.figures.get_mut(&cap.budget) else { return };
        let place = kept.iter().position(|figures| figures.period.from == cap.period.from);
        let fresh = BudgetFigures { period: cap.period, since, ..BudgetFigures::NONE };
        let latest = place.map_or(fresh, |place| kept.remove(place));
        if kept.len() >= BUDGET_PERIODS_KEPT {
            kept.remove(0);
        }
        kept.push(latest);
    }

    /// As if more were held under a budget than is.
    #[cfg(test)]
    pub(crate) fn falsify(&mut self, name: &BudgetName, held: Credits) {
        if let Some(figures) = self.figures.get_mut(name).and_then(|kept| kept.last_mut()) {
            figures.held = held;
        }
    }
}

impl Account {
    /// The account's budgets.
    pub(crate) fn budgets(&self) -> &Budgets {
        self.budgets.as_deref().unwrap_or_else(|| Budgets::none())
    }

    /// The same, to change them. Most accounts have none, and it is made where it is needed.
    pub(crate) fn budgets_mut(&mut self) -> &mut Budgets {
        self.budgets.get_or_insert_default()
    }

    /// How many budgets there are.
    pub fn budgets_count(&self) -> usize {
        self.budgets().count()
    }

    /// A budget as it is at `now`.
    pub fn budget(&self, name: &BudgetName, now: LogTime) -> Option<BudgetView<'_>> {
        Some(self.view_of(self.budgets().defined(name)?, now))
    }

    /// The budgets from `from` on, by name, as they are at `now`.
    pub fn budgets_from(
        &self,
        from: Bound<&BudgetName>,
        now: LogTime,
    ) -> impl Iterator<Item = BudgetView<'_>> {
        let budgets = self.budgets().defined.range_from(from);
        budgets.map(move |(_, budget)| self.view_of(budget, now))
    }

    fn view_of<'a>(&'a self, budget: &'a Budget, now: LogTime) -> BudgetView<'a> {
        let period = budget.period_at(now);
        let kept = self.budgets().figures.get(&budget.name).map_or(&[][..], Vec::as_slice);
        let is_present = |figures: &&BudgetFigures| figures.period.from == period.from;
        let nothing = BudgetFigures { period, ..BudgetFigures::NONE };
        let present = kept.iter().find(is_present).copied().unwrap_or(nothing);
        let past = kept.iter().rev().filter(|figures| !is_present(figures)).copied().collect();
        BudgetView { budget, present: BudgetFigures { period, ..present }, past }
    }

    /// A budget stands as the entry says.
    pub(crate) fn evolve_budget(&mut self, budget: &Budget) {
        self.budgets_mut().defined.insert(budget.name.clone(), budget.clone());
    }

    /// A budget is no more, and nothing is known of what it came to.
    pub(crate) fn evolve_budget_removed(&mut self, budget: &Budget) {
        let budgets = self.budgets_mut();
        budgets.defined.remove(&budget.name);
        budgets.figures.remove(&budget.name);
    }

    /// What an entry moved for a hold or charge counts in the budgets that this was made under: all that
    /// it sets aside or uses is that one's.
    pub(crate) fn evolve_caps(&mut self, entry: &Entry) {
        let Some(hold) = entry.fact.hold().filter(|hold| !hold.caps.is_empty()) else { return };
        let held = Change::of(&entry.moves, Bucket::Held);
        let used = Change::of(&entry.moves, Bucket::Used);
        let budgets = self.budgets_mut();
        for cap in &hold.caps {
            if hold.number.0 == entry.sequence && budgets.defined(&cap.budget).is_some() {
                budgets.begin(cap, entry.sequence);
            }
            let Some(kept) = budgets.figures.get_mut(&cap.budget) else { continue };
            let figures = kept.iter_mut().find(|figures| figures.counts(cap, hold));
            let Some(figures) = figures else { continue };
            figures.held = held.applied(figures.held);
            figures.used = used.applied(figures.used);
        }
    }
}

impl BudgetFigures {
    /// Whether a hold counts in these, by one of its caps.
    pub(crate) fn counts(&self, cap: &Cap, hold: &Hold) -> bool {
        self.period.from == cap.period.from && self.since <= hold.number.0
    }
}

impl Change {
    fn of(moves: &[Move], bucket: Bucket) -> Self {
        let amounts = |is_one: fn(&Move, Bucket) -> bool| {
            sum(moves.iter().filter(|step| is_one(step, bucket)).map(|step| step.amount))
        };
        Self {
            to: amounts(|step, bucket| step.to == bucket),
            from: amounts(|step, bucket| step.from == bucket),
        }
    }

    /// The figure after it. INV-1 keeps an account's credits within range, and so a part of them.
    fn applied(self, figure: Credits) -> Credits {
        figure.checked_add(self.to).unwrap_or(Credits::MAX).saturating_sub(self.from)
    }
}
