//! What all accounts of a group come to: how much may be overspent, what is out, what is owed.
//!
//! Few accounts ever have allocations, so the group lists those that have, and the sums cost a step for
//! each of these and each of their regions. What calls and policies allowed to be owed is kept as a sum,
//! because any account may owe.

use std::collections::BTreeMap;
use std::sync::Arc;

use purser_types::{CowMap, Credits, LogTime, Region};

use super::Ledger;
use crate::account::{Account, AccountNumber};
use crate::jobs::Heads;

/// The overspend bound of a group, by cause, and what belongs beside it. Sums over accounts pass the
/// largest amount that one account can have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overspend {
    /// Debt of regions' spends that is not repaid.
    pub realised: u128,
    /// Taken back, and perhaps spent before.
    pub taken_back: u128,
    /// Allowed beyond what was granted, and not used as far as is known.
    pub overdraft: u128,
    /// Set aside for what lost homes may have decided.
    pub failover: u128,
    /// The most that the bound may come to.
    pub ceiling: u128,
    /// What is out, by region: none is left out that has an allocation.
    pub stranded: BTreeMap<Region, u128>,
    /// Not in the bound: debt that a call or a policy allowed at home.
    pub allowed_debt: u128,
}

impl Overspend {
    /// The bound: all causes together.
    pub fn total(&self) -> u128 {
        let parts = [self.realised, self.taken_back, self.overdraft, self.failover];
        parts.into_iter().fold(0, u128::saturating_add)
    }

    fn add(&mut self, account: &Account) {
        let bound = account.bound();
        let sums = [
            (&mut self.realised, bound.realised),
            (&mut self.taken_back, bound.taken_back),
            (&mut self.overdraft, bound.overdraft),
            (&mut self.failover, bound.failover),
            (&mut self.ceiling, account.ceiling()),
        ];
        for (sum, part) in sums {
            *sum = sum.saturating_add(part.get().into());
        }
        for allocation in account.allocations() {
            let stranded = self.stranded.entry(allocation.owner.region).or_default();
            *stranded = stranded.saturating_add(allocation.outstanding().get().into());
        }
    }
}

/// What a group keeps of its accounts, so that it need not look at all of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Overview {
    /// Those that have allocations, or debt that regions made; those whose home was lost, or may answer
    /// for itself until it is.
    away: CowMap<AccountNumber, ()>,
    /// What is owed and no region made.
    allowed_debt: u128,
}

/// What an account adds to its group's overview, agenda and queues.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) next_due: Option<LogTime>,
    /// When something is next due in each queue.
    pub(super) heads: Option<Heads>,
    /// Whether it has jobs that are dead.
    pub(super) has_dead_jobs: bool,
    is_away: bool,
    allowed_debt: Credits,
}

impl Part {
    pub(super) fn of(account: &Account) -> Self {
        let allowed_debt = account.allowed_debt();
        Self {
            next_due: account.next_due(),
            heads: account.heads(),
            has_dead_jobs: account.has_dead_jobs(),
            is_away: account.has_to_do_with_regions(),
            allowed_debt,
        }
    }
}

impl Overview {
    /// An account adds something else than before.
    pub(super) fn replace(&mut self, number: AccountNumber, before: &Part, after: &Part) {
        match (before.is_away, after.is_away) {
            (false, true) => drop(self.away.insert(number, ())),
            (true, false) => drop(self.away.remove(&number)),
            (true, true) | (false, false) => (),
        }
        let rest = self.allowed_debt.saturating_sub(before.allowed_debt.get().into());
        self.allowed_debt = rest.saturating_add(after.allowed_debt.get().into());
    }
}

impl Ledger {
    /// The accounts of which regions or lost homes have, or may owe, something: those with allocations
    /// that are not closed, those with debt that regions made, those of which a home was lost, and those
    /// that may answer before a standby has heard.
    pub fn accounts_with_allocations(&self) -> impl Iterator<Item = &Arc<Account>> {
        self.overview.away.iter().filter_map(|(number, ())| self.accounts.get(number))
    }

    /// How much may be overspent in all accounts whose home is here, and what is out.
    pub fn overspend(&self) -> Overspend {
        let allowed_debt = self.overview.allowed_debt;
        let mut overspend = Overspend { allowed_debt, ..Overspend::default() };
        self.accounts_with_allocations().for_each(|account| overspend.add(account));
        overspend
    }
}

#[cfg(test)]
mod tests {
    use purser_types::{Machine, OperationId, Region, TenantId, Unit};

    use super::*;
    use crate::command::{
        AccountName, Adjust, Allocate, Charge, Command, Confirm, Context, Item, Open, Operation,
        SetAllocation, TakeBack,
    };
    use crate::invariants::check_ledger;
    use crate::policy::Policy;
    use crate::scenario::MemoryHistory;

    fn credits(amount: u64) -> Credits {
        Credits::from_u64(amount).unwrap()
    }

    fn region(name: &str) -> Region {
        Region::parse(name).unwrap()
    }

    /// A ledger in which each tenant has lived through some operations.
    fn ledger(tenants: &[(&str, &[Operation])]) -> Ledger {
        let (mut ledger, mut history) = (Ledger::default(), MemoryHistory::default());
        for (tenant, operations) in tenants {
            let tenant = TenantId::parse(tenant).unwrap();
            let name = AccountName { tenant, unit: Unit::credits() };
            let policy = Policy { debt_limit: credits(100), ..Policy::default() };
            let open = Operation::Open(Open { home: region("here"), policy, epoch: None });
            let add = Operation::Adjust(Adjust::Add { amount: credits(50) });
            for operation in [open, add].iter().chain(*operations) {
                let mut operation = operation.clone();
                if let Operation::SetAllocation(SetAllocation { owner, .. })
                | Operation::TakeBack(TakeBack { owner, .. }) = &mut operation
                {
                    *owner = ledger.account(&name).unwrap().allocations().next().unwrap().owner;
                }
                if let Operation::TakeBack(TakeBack { forced, .. }) = &mut operation {
                    *forced = ledger.account(&name).map(|it| Confirm(it.head().sequence));
                }
                let items = vec![Item::new(Context::default(), operation)];
                let command = Command::at_home(name.clone(), items);
                let id = OperationId::default();
                let answer = ledger.apply_command(&command, LogTime::ZERO, id, &mut history);
                let crate::Answer::Account(outcomes) = answer.unwrap() else { panic!() };
                assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()), "{outcomes:?}");
                check_ledger(&ledger).unwrap();
            }
        }
        ledger
    }

    fn story() -> Ledger {
        let allocate =
            |name, amount| Operation::Allocate(Allocate::new(region(name), credits(amount)));
        let any = purser_types::Owner::home(region("here"));
        let overdraft = Some(credits(7));
        let overdraft =
            Operation::SetAllocation(SetAllocation { overdraft, ..SetAllocation::of(any) });
        let take_back = Operation::TakeBack(TakeBack { owner: any, forced: None });
        let charge = Operation::Charge(Charge {
            amount: credits(60),
            allow_debt: true,
            reference: None,
            budgets: Box::default(),
        });
        ledger(&[
            ("acme", &[allocate("eu", 20), overdraft]),
            ("beta", &[charge]),
            ("cake", &[allocate("eu", 5), take_back, allocate("eu", 3), allocate("us", 4)]),
        ])
    }

    #[test]
    fn the_sums_are_those_of_all_accounts_also_after_a_restart() {
        let ledger = story();
        let stranded = [(region("eu"), 23), (region("us"), 4)].into();
        let expected = Overspend {
            realised: 0,
            taken_back: 5,
            failover: 0,
            overdraft: 7,
            ceiling: 12,
            stranded,
            allowed_debt: 10,
        };
        assert_eq!((ledger.overspend(), expected.total()), (expected, 12));
        let names = |ledger: &Ledger| -> Vec<String> {
            let accounts = ledger.accounts_with_allocations();
            accounts.map(|it| it.name().tenant.to_string()).collect()
        };
        assert_eq!(names(&ledger), ["acme", "cake"]);
        let restored = Ledger::restore(&mut ledger.snapshot()).unwrap();
        assert_eq!(restored.overspend(), ledger.overspend());
        assert_eq!(names(&restored), names(&ledger));
    }

    #[test]
    fn an_overview_that_is_not_that_of_the_accounts_is_noticed() {
        for break_it in [
            (|overview: &mut Overview| overview.away = CowMap::default()) as fn(&mut Overview),
            |overview| overview.allowed_debt = 9,
        ] {
            let mut ledger = story();
            break_it(&mut ledger.overview);
            assert_eq!(check_ledger(&ledger).map_err(|violation| violation.number), Err(15));
        }
    }
}
