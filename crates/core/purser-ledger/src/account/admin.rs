//! Opening, freezing and closing an account, and changing its rules.

use purser_types::LogTime;

use super::{Account, Draft};
use crate::command::{Close, Open};
use crate::entry::Fact;
use crate::moving::FIRST_EPOCH;
use crate::policy::PolicyChange;
use crate::rejection::Rejection;
use crate::standing::{AccountStatus, Standing};

impl Account {
    /// The first entry. Refuses: the account exists.
    pub(super) fn decide_open(&self, asked: &Open, now: LogTime) -> Result<Draft, Rejection> {
        if self.head.position.is_some() {
            return Err(Rejection::TenantExists);
        }
        Ok(Draft::still(Fact::Opened {
            account: self.name.clone(),
            epoch: asked.epoch.filter(|epoch| *epoch > FIRST_EPOCH),
            standing: Standing {
                status: AccountStatus::Open,
                home: asked.home,
                policy: asked.policy.clone(),
                opened_at: now,
                shorter_age: None,
            },
        }))
    }

    /// Changes what the operator named of the policy. Never refused.
    pub(super) fn decide_set_policy(&self, asked: &PolicyChange, now: LogTime) -> Draft {
        let policy = self.standing.policy.changed(asked);
        Draft::still(Fact::PolicySet(self.standing.under(policy, now)))
    }

    /// Stops new authorizes and charges. Refuses: frozen already.
    pub(super) fn decide_freeze(&self) -> Result<Draft, Rejection> {
        let frozen = || self.standing.becoming(AccountStatus::Frozen);
        match self.standing.status {
            AccountStatus::Open => Ok(Draft::still(Fact::Frozen(frozen()))),
            AccountStatus::Frozen => Err(Rejection::AlreadyFrozen),
            AccountStatus::Closed => Err(Rejection::AccountClosed),
        }
    }

    /// Ends a freeze. Refuses: not frozen.
    pub(super) fn decide_unfreeze(&self) -> Result<Draft, Rejection> {
        let open = || self.standing.becoming(AccountStatus::Open);
        match self.standing.status {
            AccountStatus::Frozen => Ok(Draft::still(Fact::Unfrozen(open()))),
            AccountStatus::Open => Err(Rejection::NotFrozen),
            AccountStatus::Closed => Err(Rejection::AccountClosed),
        }
    }

    /// Closes the account for good. Refuses: holds, jobs or debt; the account has changed since the
    /// operator looked.
    pub(super) fn decide_close(&self, asked: &Close) -> Result<Draft, Rejection> {
        let home = self.home_side()?;
        let (allocations, tails) = (home.allocations.len(), home.tails.len());
        let jobs = self.jobs_count();
        let is_whole = allocations == 0 && tails == 0 && jobs == 0;
        if !self.holds.is_empty() || !self.balance.debt.is_zero() || !is_whole {
            let count = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
            let (holds, debt) = (count(self.holds.len()), self.balance.debt);
            let (allocations, tails) = (count(allocations), count(tails));
            let jobs = count(jobs);
            return Err(Rejection::CloseBlocked { holds, debt, allocations, tails, jobs });
        }
        self.refuse_stale(asked.confirm)?;
        Ok(Draft::still(Fact::Closed(self.standing.becoming(AccountStatus::Closed))))
    }
}
