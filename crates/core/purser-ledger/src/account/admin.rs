//! Opening, freezing and closing an account.

use super::{Account, AccountStatus, Draft};
use crate::command::{Close, Open};
use crate::entry::Fact;
use crate::rejection::Rejection;

impl Account {
    /// The first entry. Refuses: the account exists.
    pub(super) fn decide_open(&self, asked: &Open) -> Result<Draft, Rejection> {
        if self.head.position.is_some() {
            return Err(Rejection::TenantExists);
        }
        Ok(Draft::still(Fact::Opened {
            account: self.name.clone(),
            home: asked.home.clone(),
            policy: asked.policy.clone(),
        }))
    }

    /// Stops new authorizes and charges. Refuses: frozen already.
    pub(super) fn decide_freeze(&self) -> Result<Draft, Rejection> {
        match self.status {
            AccountStatus::Open => Ok(Draft::still(Fact::Frozen)),
            AccountStatus::Frozen => Err(Rejection::AlreadyFrozen),
            AccountStatus::Closed => Err(Rejection::AccountClosed),
        }
    }

    /// Ends a freeze. Refuses: not frozen.
    pub(super) fn decide_unfreeze(&self) -> Result<Draft, Rejection> {
        match self.status {
            AccountStatus::Frozen => Ok(Draft::still(Fact::Unfrozen)),
            AccountStatus::Open => Err(Rejection::NotFrozen),
            AccountStatus::Closed => Err(Rejection::AccountClosed),
        }
    }

    /// Closes the account for good. Refuses: holds or debt; the account has changed since the
    /// operator looked.
    pub(super) fn decide_close(&self, asked: &Close) -> Result<Draft, Rejection> {
        if !self.holds.is_empty() || !self.balance.debt.is_zero() {
            let holds = u64::try_from(self.holds.len()).unwrap_or(u64::MAX);
            return Err(Rejection::CloseBlocked { holds, debt: self.balance.debt });
        }
        self.refuse_stale(asked.confirm)?;
        Ok(Draft::still(Fact::Closed))
    }
}
