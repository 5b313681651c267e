//! The queues of a group: which account has a job that is due next, and which have dead ones.
//!
//! An account keeps its jobs; here stands each of its queues once, with the instant at which something is
//! next due in it. So a lease finds the job that is due first of all accounts without looking at the
//! others, and an account that is frozen or has stopped leaves the queues in a few steps.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use purser_types::{CowMap, HistoryError, LogTime, QueueName};

use super::Ledger;
use super::overview::Part;
use crate::account::{Account, AccountNumber, Scribe};
use crate::answer::LeasedJob;
use crate::jobs::LeaseJobs;

/// See the module's documentation.
#[derive(Debug, Clone, Default)]
pub(super) struct Queues {
    heads: CowMap<Head, ()>,
    /// The accounts that have dead jobs.
    dead: CowMap<AccountNumber, ()>,
}

/// When something is next due in a queue of an account.
pub(crate) type Head = (QueueName, LogTime, AccountNumber);

impl Queues {
    /// An account has something else in queues than before.
    pub(super) fn replace(&mut self, number: AccountNumber, before: &Part, after: &Part) {
        match (before.has_dead_jobs, after.has_dead_jobs) {
            (false, true) => drop(self.dead.insert(number, ())),
            (true, false) => drop(self.dead.remove(&number)),
            (true, true) | (false, false) => (),
        }
        if before.heads == after.heads {
            return;
        }
        for (queue, at) in before.heads.iter().flat_map(|heads| heads.iter()) {
            self.heads.remove(&(queue.clone(), *at, number));
        }
        for (queue, at) in after.heads.iter().flat_map(|heads| heads.iter()) {
            self.heads.insert((queue.clone(), *at, number), ());
        }
    }

    /// The account with the job of a queue that is due first, and when.
    fn first(&self, queue: &QueueName) -> Option<(LogTime, AccountNumber)> {
        let from = (queue.clone(), LogTime::ZERO, AccountNumber::default());
        let ((first, at, number), ()) = self.heads.range_from(Bound::Included(&from)).next()?;
        (first == queue).then_some((*at, *number))
    }
}

impl Ledger {
    /// When the first job of a queue is due, of all accounts: it saves a node from asking its log.
    pub fn first_job_due(&self, queue: &QueueName) -> Option<LogTime> {
        self.queues.first(queue).map(|(at, _)| at)
    }

    /// The accounts that have dead jobs.
    pub fn accounts_with_dead_jobs(&self) -> impl Iterator<Item = &Arc<Account>> {
        self.queues.dead.iter().filter_map(|(number, ())| self.accounts.get(number))
    }

    /// Gives jobs that are due to a worker, those that are due first at first.
    pub(super) fn lease_jobs(
        &mut self,
        asked: &LeaseJobs,
        scribe: &mut Scribe<'_>,
    ) -> Result<Vec<LeasedJob>, HistoryError> {
        let max = asked.max.min(LeaseJobs::COUNT_MAX);
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let mut leased: Vec<LeasedJob> = Vec::new();
        let mut steps = 0..LeaseJobs::STEPS_MAX;
        // Each step leases a job, or finds one whose last lease has run out. Those are none that the worker
        // asked for, so however many there are, it gets what is behind them.
        while leased.len() < max && steps.next().is_some() {
            let first = self.queues.first(&asked.queue).filter(|(at, _)| *at <= self.log_time);
            let Some((_, number)) = first else { break };
            let job = self.change(number, |account, now| account.lease_next(asked, now, scribe))?;
            let account = self.accounts.get(&number).map(|account| account.name().clone());
            leased.extend(account.zip(job).map(|(account, job)| LeasedJob { account, job }));
        }
        Ok(leased)
    }

    /// What the queues say.
    pub(crate) fn heads(&self) -> BTreeSet<Head> {
        self.queues.heads.iter().map(|(head, ())| head.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use purser_types::{Machine, OperationId, Region, TenantId, Unit};

    use super::*;
    use crate::command::{AccountName, Adjust, Command, Context, Item, Open, Operation};
    use crate::invariants::check_ledger;
    use crate::jobs::{CreateJob, FirstAttempt, JobFunding, JobRetry};
    use crate::policy::Policy;
    use crate::scenario::MemoryHistory;

    /// A ledger with two tenants that have a job each.
    fn ledger() -> Ledger {
        let (mut ledger, mut history) = (Ledger::default(), MemoryHistory::default());
        for tenant in ["acme", "beta"] {
            let name =
                AccountName { tenant: TenantId::parse(tenant).unwrap(), unit: Unit::credits() };
            let home = Region::parse("here").unwrap();
            let one = purser_types::Credits::from_u64(1).unwrap();
            let job = CreateJob {
                job: purser_types::JobId::parse("j").unwrap(),
                amount: one,
                funding: JobFunding::Charge { allow_debt: false },
                queue: QueueName::default_queue(),
                retry: JobRetry::DEFAULT,
                start: FirstAttempt::Queue,
                reference: None,
                budgets: Box::default(),
            };
            let operations = [
                Operation::Open(Open { home, policy: Policy::default(), epoch: None }),
                Operation::Adjust(Adjust::Add { amount: one }),
                Operation::CreateJob(Box::new(job)),
            ];
            for operation in operations {
                let items = vec![Item::new(Context::default(), operation)];
                let (command, id) = (Command::at_home(name.clone(), items), OperationId::default());
                ledger.apply_command(&command, LogTime::ZERO, id, &mut history).unwrap();
            }
        }
        ledger
    }

    #[test]
    fn the_queues_are_those_of_all_accounts_also_after_a_restart() {
        let ledger = ledger();
        check_ledger(&ledger).unwrap();
        let queue = QueueName::default_queue();
        assert_eq!(ledger.first_job_due(&queue), Some(LogTime::ZERO));
        assert_eq!(ledger.first_job_due(&QueueName::parse("other").unwrap()), None);
        let restored = Ledger::restore(&mut ledger.snapshot()).unwrap();
        assert_eq!((restored.heads(), restored.heads().len()), (ledger.heads(), 2));
        check_ledger(&restored).unwrap();
    }

    #[test]
    fn a_queue_that_is_not_that_of_an_account_is_noticed() {
        let mut lost = ledger();
        lost.queues.heads = CowMap::default();
        let mut listed = ledger();
        listed.queues.dead.insert(AccountNumber(1), ());
        for ledger in [lost, listed] {
            assert_eq!(check_ledger(&ledger).map_err(|violation| violation.number), Err(18));
        }
    }
}
