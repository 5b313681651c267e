//! Sums of overspend bounds.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use purser_api::{
    Moment, OverspendAnswer, OverspendAsOf, OverspendCauses, OverspendFigures, OverspendTenant,
    PageLimit, TotalAmount,
};
use purser_ledger::{Account, Ledger, Overspend};
use purser_types::{LogTime, Region};

/// What a group's sums are made for.
pub(super) struct Scope {
    /// Where the accounts' home is.
    pub(super) home: Region,
    /// Where credits would be stranded.
    pub(super) out_of_reach: BTreeSet<Region>,
    /// How many tenants are named at most.
    pub(super) limit: PageLimit,
}

/// The sums of a group.
pub(super) fn of_ledger(ledger: &Ledger, scope: &Scope, now: LogTime) -> OverspendAnswer {
    let figures = figures(&ledger.overspend(), scope, now);
    let tenants = ledger.accounts_with_allocations();
    let tenants = tenants.map(|account| tenant(account, scope.home)).collect();
    let by_region = BTreeMap::from([(scope.home.to_string(), figures.clone())]);
    let top_tenants = top(tenants, scope.limit);
    OverspendAnswer { figures, by_region, unknown_regions: Vec::new(), top_tenants }
}

fn figures(overspend: &Overspend, scope: &Scope, now: LogTime) -> OverspendFigures {
    let total = |amounts: &mut dyn Iterator<Item = u128>| {
        TotalAmount(amounts.fold(0, u128::saturating_add))
    };
    let stranded = overspend.stranded.iter();
    let mut stranded =
        stranded.filter(|(region, _)| scope.out_of_reach.contains(region)).map(|(_, out)| *out);
    let allocated = overspend.stranded.iter();
    let allocated = allocated.map(|(region, out)| (region.to_string(), TotalAmount(*out)));
    OverspendFigures {
        bound: TotalAmount(overspend.total()),
        realised: TotalAmount(overspend.realised),
        ceiling: TotalAmount(overspend.ceiling),
        by_cause: OverspendCauses {
            realised: TotalAmount(overspend.realised),
            taken_back: TotalAmount(overspend.taken_back),
            overdraft: TotalAmount(overspend.overdraft),
            failover: TotalAmount(overspend.failover),
        },
        outstanding: total(&mut overspend.stranded.values().copied()),
        stranded: total(&mut stranded),
        allocated: allocated.collect(),
        allowed_debt: TotalAmount(overspend.allowed_debt),
        as_of: Some(OverspendAsOf { log_time: Moment(now) }),
    }
}

fn tenant(account: &Account, home: Region) -> OverspendTenant {
    let (name, bound) = (account.name(), account.bound());
    OverspendTenant {
        tenant: name.tenant.clone().into(),
        unit: name.unit.clone().into(),
        home: home.into(),
        bound: TotalAmount(bound.total()),
        realised: TotalAmount(bound.realised.get().into()),
        ceiling: TotalAmount(account.ceiling().get().into()),
        outstanding: TotalAmount(account.outstanding().get().into()),
    }
}

/// The tenants with the largest bounds, then those with most out.
fn top(mut tenants: Vec<OverspendTenant>, limit: PageLimit) -> Vec<OverspendTenant> {
    tenants.sort_unstable_by(|one, other| {
        let key = |it: &OverspendTenant| Reverse((it.bound, it.outstanding));
        let names = || (&one.tenant, &one.unit).cmp(&(&other.tenant, &other.unit));
        key(one).cmp(&key(other)).then_with(names)
    });
    tenants.truncate(limit.get());
    tenants
}

/// Adds one part's sums to those of others.
pub(super) fn merge(all: &mut OverspendAnswer, part: OverspendAnswer, limit: PageLimit) {
    add(&mut all.figures, &part.figures);
    for (region, figures) in part.by_region {
        add(all.by_region.entry(region).or_default(), &figures);
    }
    all.unknown_regions.extend(part.unknown_regions);
    all.top_tenants.extend(part.top_tenants);
    all.top_tenants = top(std::mem::take(&mut all.top_tenants), limit);
}

fn add(sum: &mut OverspendFigures, part: &OverspendFigures) {
    let causes = (&mut sum.by_cause, &part.by_cause);
    let figures = [
        (&mut sum.bound, part.bound),
        (&mut sum.realised, part.realised),
        (&mut sum.ceiling, part.ceiling),
        (&mut causes.0.realised, causes.1.realised),
        (&mut causes.0.taken_back, causes.1.taken_back),
        (&mut causes.0.overdraft, causes.1.overdraft),
        (&mut causes.0.failover, causes.1.failover),
        (&mut sum.outstanding, part.outstanding),
        (&mut sum.stranded, part.stranded),
        (&mut sum.allowed_debt, part.allowed_debt),
    ];
    for (sum, part) in figures {
        sum.0 = sum.0.saturating_add(part.0);
    }
    for (region, out) in &part.allocated {
        let sum = sum.allocated.entry(region.clone()).or_default();
        sum.0 = sum.0.saturating_add(out.0);
    }
    let moments = sum.as_of.iter().chain(&part.as_of);
    sum.as_of = moments.min().cloned();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(region: &str, bound: u128, at: u64) -> OverspendAnswer {
        let figures = OverspendFigures {
            bound: TotalAmount(bound),
            allocated: BTreeMap::from([("ap".to_owned(), TotalAmount(1))]),
            as_of: Some(OverspendAsOf { log_time: Moment(LogTime::from_unix_micros(at).unwrap()) }),
            ..OverspendFigures::default()
        };
        let tenant = OverspendTenant {
            tenant: format!("of-{region}").parse().unwrap(),
            unit: "credits".parse().unwrap(),
            home: region.parse().unwrap(),
            bound: TotalAmount(bound),
            realised: TotalAmount(0),
            ceiling: TotalAmount(bound),
            outstanding: TotalAmount(0),
        };
        OverspendAnswer {
            by_region: BTreeMap::from([(region.to_owned(), figures.clone())]),
            figures,
            unknown_regions: Vec::new(),
            top_tenants: vec![tenant],
        }
    }

    #[test]
    fn parts_add_up_and_are_as_old_as_the_oldest() {
        let mut all = OverspendAnswer::default();
        let one: PageLimit = "1".parse().unwrap();
        for part in [part("us", 5, 20), part("us", 2, 10), part("eu", u128::MAX, 30)] {
            merge(&mut all, part, one);
        }
        assert_eq!(all.figures.bound, TotalAmount(u128::MAX), "a sum never wraps");
        assert_eq!(all.by_region["us"].bound, TotalAmount(7));
        assert_eq!(all.figures.allocated["ap"], TotalAmount(3));
        let oldest = LogTime::from_unix_micros(10).unwrap();
        assert_eq!(all.figures.as_of, Some(OverspendAsOf { log_time: Moment(oldest) }));
        let named: Vec<String> = all.top_tenants.iter().map(|it| it.tenant.to_string()).collect();
        assert_eq!(named, ["of-eu"]);
    }
}
