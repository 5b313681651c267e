//! Reading an account: always as of an instant, with everything applied that was due by then.

use std::borrow::Cow;
use std::ops::Bound;

use purser_types::{
    BudgetName, Credits, HistoryError, HistoryReader, LogTime, OperationId, Sequence,
};

use super::{Account, AccountNumber, Head, Scratch, Scribe};
use crate::balance::Balance;
use crate::budgets::BudgetView;
use crate::chain::Hashed;
use crate::command::{AccountName, HoldNumber, LotNumber, Target};
use crate::hold::{Hold, Portion};
use crate::lot::Lot;
use crate::rejection::Rejection;
use crate::standing::{AccountStatus, Standing};

/// Whether an amount could be authorized now, and from what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckVerdict {
    /// The lots that would be drawn from, in order; those there are, if they do not suffice.
    pub lots: Vec<Portion>,
    /// Why not, if not.
    pub refusal: Option<Rejection>,
}

/// An account as it is at an instant, with everything applied that was due by then.
///
/// What was due and is not written down yet shows as entries that only this view has; the next
/// command on the account writes the same ones.
pub struct AsOf<'a> {
    now: LogTime,
    account: Cow<'a, Account>,
    history: Scratch<'a>,
}

impl AsOf<'_> {
    /// The account.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// A hold or charge, ended or not, if its record is kept.
    pub fn hold(&self, target: Target) -> Result<Option<Hold>, HistoryError> {
        self.account.hold(target, self.now, &self.history)
    }

    /// The history that goes with it.
    pub fn history(&self) -> &dyn HistoryReader {
        &self.history
    }

    /// The account's budgets, by name.
    pub fn budgets(&self) -> impl Iterator<Item = BudgetView<'_>> {
        self.account.budgets_from(Bound::Unbounded, self.now)
    }

    /// What an authorize of `amount` would do that names budgets.
    pub fn check(&self, amount: Credits, budgets: &[BudgetName]) -> CheckVerdict {
        let account = self.account();
        let plan = account.plan(amount);
        let refusal = match account.standing.status {
            AccountStatus::Closed => Some(Rejection::AccountClosed),
            AccountStatus::Frozen => Some(Rejection::AccountFrozen),
            AccountStatus::Open => {
                let decides = || {
                    account.refuse_if_frozen()?;
                    account.caps_for(budgets, amount, self.now)?;
                    account.plan_all(amount)
                };
                let refusal = decides().err();
                refusal.map(|refusal| account.short_while_out(refusal, None))
            }
        };
        CheckVerdict { lots: plan.portions, refusal }
    }
}

impl Account {
    /// The account as it is at `now`. Writes nothing down.
    pub fn at<'a>(
        &'a self,
        now: LogTime,
        history: &'a dyn HistoryReader,
    ) -> Result<AsOf<'a>, HistoryError> {
        let mut history = Scratch::over(history);
        if self.next_event(now).is_none() {
            return Ok(AsOf { now, account: Cow::Borrowed(self), history });
        }
        let mut account = self.clone();
        let operation = OperationId::default();
        account.settle_due(now, &mut Scribe { history: &mut history, operation })?;
        Ok(AsOf { now, account: Cow::Owned(account), history })
    }

    /// The account's number in its group.
    pub fn number(&self) -> AccountNumber {
        self.number
    }

    /// The account's name.
    pub fn name(&self) -> &AccountName {
        &self.name
    }

    /// How it stands.
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Its buckets and totals.
    pub fn balance(&self) -> &Balance {
        &self.balance
    }

    /// The end of its chain of entries.
    pub fn head(&self) -> Head {
        self.head
    }

    /// Its lots from `from` on, in the order in which they were made.
    pub fn lots_from(&self, from: Bound<&LotNumber>) -> impl Iterator<Item = (&LotNumber, &Lot)> {
        self.lots.range_from(from)
    }

    /// One lot.
    pub fn lot(&self, number: LotNumber) -> Option<&Lot> {
        self.lots.get(&number)
    }

    /// Its live holds from `from` on, in the order in which they were made.
    pub fn holds_from(&self, from: Bound<&HoldNumber>) -> impl Iterator<Item = &Hold> {
        self.holds.range_from(from).map(|(_, hold)| hold)
    }

    /// How many holds are live.
    pub fn holds_count(&self) -> usize {
        self.holds.len()
    }

    /// How many ended holds and charges are remembered, and how many keys.
    pub fn remembered_counts(&self) -> (usize, usize) {
        (self.ended.len(), self.keys.len())
    }

    /// A hold or charge, ended or not, if its record is kept at `now`.
    pub fn hold(
        &self,
        target: Target,
        now: LogTime,
        history: &dyn HistoryReader,
    ) -> Result<Option<Hold>, HistoryError> {
        self.find_hold(target, now, history)
    }

    /// One entry.
    pub fn entry(
        &self,
        sequence: Sequence,
        history: &dyn HistoryReader,
    ) -> Result<Option<Hashed>, HistoryError> {
        let position = self.locate(sequence, history)?;
        position.map(|at| super::Record::read(history, at)?.entry(at)).transpose()
    }

    /// The entries about a hold or charge, newest first, from the one that last changed it.
    pub fn hold_entries(
        &self,
        hold: &Hold,
        history: &dyn HistoryReader,
    ) -> Result<Vec<Hashed>, HistoryError> {
        let mut entries = Vec::new();
        let mut next = Some(hold.changed_by);
        while let Some(sequence) = next {
            let Some(hashed) = self.entry(sequence, history)? else { break };
            next = hashed.entry.fact.hold().and_then(|hold| hold.changed_before);
            entries.push(hashed);
        }
        Ok(entries)
    }
}
