//! What an operation wants, and what it is about.

use purser_types::{BudgetName, JobId};

use super::{Authorize, Charge, Operation};

impl Operation {
    /// Whether this begins something: whatever does not names what it is about, and that has one owner.
    pub(crate) const fn begins(&self) -> bool {
        matches!(self, Self::Authorize(_) | Self::Charge(_))
    }

    /// Whether this wants the tenant's credits for work.
    pub(crate) const fn spends(&self) -> bool {
        matches!(
            self,
            Self::Authorize(_)
                | Self::Charge(_)
                | Self::Capture(_)
                | Self::CreateJob(_)
                | Self::RecordEvent(_)
        )
    }

    /// The budgets that this names, if it begins something under some.
    pub(crate) fn budgets(&self) -> &[BudgetName] {
        if let Self::Authorize(Authorize { budgets, .. }) | Self::Charge(Charge { budgets, .. }) =
            self
        {
            budgets
        } else if let Self::CreateJob(asked) = self {
            &asked.budgets
        } else {
            &[]
        }
    }

    /// The job that this is about, if it is about one.
    pub(crate) fn job(&self) -> Option<&JobId> {
        Some(if let Self::CreateJob(asked) = self {
            &asked.job
        } else if let Self::ReportOutcome(asked) = self {
            &asked.job
        } else if let Self::RenewJob(asked) = self {
            &asked.job
        } else if let Self::RedriveJob(asked) = self {
            &asked.job
        } else if let Self::DiscardJob(asked) = self {
            &asked.job
        } else {
            return None;
        })
    }
}
