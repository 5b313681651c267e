//! A node that follows Placement through whatever happens to its pages.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use proptest::prelude::*;
use purser_placement::{
    Cache, Change, ChangeNumber, Changes, Command, Operation, Placement, PlacementState,
};
use purser_types::{Epoch, TenantId};

use self::common::{change, open, placement, region, set_region, tenant};

const TENANTS: usize = 6;

#[derive(Debug, Clone)]
enum Step {
    /// A tenant changes, or is opened.
    Change { tenant: usize, moves: bool },
    /// A region changes.
    ChangeRegion,
    /// A replica that is some changes late makes a page, from where the node is or from elsewhere.
    Ask { late: usize, from: Option<usize>, limit: usize },
    /// A page arrives; it may do so again.
    Deliver(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..TENANTS, any::<bool>()).prop_map(|(tenant, moves)| Step::Change { tenant, moves }),
        1 => Just(Step::ChangeRegion),
        3 => (0..8_usize, prop::option::of(0..30_usize), 1..4_usize)
            .prop_map(|(late, from, limit)| Step::Ask { late, from, limit }),
        4 => (0..6_usize).prop_map(Step::Deliver),
    ];
    prop::collection::vec(step, 0..150)
}

/// What the tenant can do next: it is opened, moves, or has its standby dropped or taken back.
fn next_operation(placement: &Placement, name: &TenantId, moves: bool) -> Operation {
    let Some(now) = placement.tenant(name) else { return open("eu", &["ap"]) };
    let epoch = now.epoch;
    if let PlacementState::Moving { .. } = now.state {
        return if moves {
            Operation::FinishMove { epoch }
        } else {
            Operation::AbortMove { epoch }
        };
    }
    if moves {
        let to = region(if now.home == region("eu") { "us" } else { "eu" });
        return Operation::BeginMove { epoch, to };
    }
    let standby = now.standbys.iter().next().unwrap();
    let (region, promotable) = (standby.region, !standby.promotable);
    Operation::SetStandby { epoch, seen: now.change, region, promotable }
}

/// Everything that is older than the cache says it is, or than it was before.
fn check(cache: &Cache, before: &Cache, states: &[Placement]) -> Result<(), TestCaseError> {
    prop_assert!(cache.as_of() >= before.as_of() && cache.cursor() >= before.cursor());
    let promised = states.iter().rev().find(|state| state.latest_change() <= cache.as_of());
    for name in (0..TENANTS).map(name) {
        let answer = cache.home_of(&name);
        prop_assert!(answer.as_of >= cache.as_of());
        let epoch = |cache: &Cache| cache.home_of(&name).known.map_or(Epoch(0), |now| now.epoch);
        prop_assert!(epoch(cache) >= epoch(before));
        let change = answer.known.map_or(ChangeNumber::NONE, |now| now.change);
        if let Some(then) = promised.and_then(|state| state.tenant(&name)) {
            prop_assert!(change >= then.change, "{} is {:?}", name, answer);
        }
        if let Some(known) = answer.known {
            let true_once = states.iter().any(|state| state.tenant(&name) == Some(known));
            prop_assert!(true_once, "{} never was {:?}", name, known);
        }
    }
    let promised = promised.and_then(|state| state.region(region("eu")));
    let known = cache.region(region("eu")).known;
    prop_assert!(known.map(|region| region.change) >= promised.map(|region| region.change));
    Ok(())
}

fn name(number: usize) -> TenantId {
    tenant(&format!("t{number}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(384))]

    #[test]
    fn a_cache_is_never_older_than_it_says_and_never_goes_back(steps in steps()) {
        let mut states = vec![placement(&["eu", "us", "ap"])];
        let mut pages: Vec<Changes> = Vec::new();
        let mut cache = Cache::default();
        for step in steps {
            let mut latest = states.last().unwrap().clone();
            match step {
                Step::Change { tenant, moves } => {
                    let operation = next_operation(&latest, &name(tenant), moves);
                    change(&mut latest, name(tenant).as_str(), operation);
                    states.push(latest);
                }
                Step::ChangeRegion => {
                    let seen = latest.region(region("eu")).unwrap().change.0;
                    let peer = format!("eu-{seen}.example");
                    latest.apply_command(&Command::SetRegion(set_region("eu", seen, &peer)));
                    states.push(latest);
                }
                Step::Ask { late, from, limit } => {
                    let replica = &states[states.len().saturating_sub(late + 1)];
                    let from = from.and_then(|from| from.try_into().ok()).map(ChangeNumber);
                    let from = from.unwrap_or_else(|| cache.cursor());
                    pages.push(replica.changes_after(from, limit));
                }
                Step::Deliver(ago) => {
                    let Some(place) = pages.len().checked_sub(ago + 1) else { continue };
                    let before = cache.clone();
                    cache.apply(pages[place].clone());
                    check(&cache, &before, &states)?;
                }
            }
        }

        // Undisturbed, it comes to the end of what any replica knows, and in the end to know all of it, and to
        // know that.
        let latest = states.last().unwrap();
        for replica in &states {
            let pages = (0..=TENANTS).find(|_| {
                let page = replica.changes_after(cache.cursor(), 2);
                let is_last = page.is_last();
                cache.apply(page);
                is_last
            });
            prop_assert!(pages.is_some());
        }
        prop_assert_eq!(cache.as_of(), latest.latest_change());
        check(&cache, &cache, &states)?;
        let all: Vec<_> = cache.tenants().collect();
        let opened = (0..TENANTS).filter(|number| latest.tenant(&name(*number)).is_some());
        prop_assert_eq!(all.len(), opened.count());
        for (name, known) in all {
            prop_assert_eq!(Some(known), latest.tenant(name));
        }
        prop_assert!(cache.regions().eq(latest.regions()));
    }
}

/// Change numbers can be wrong if a Placement is restored from a backup; a fenced home must not come
/// back by that.
#[test]
fn a_lower_epoch_is_not_taken_up_whatever_its_number_says() {
    let mut placement = placement(&["eu", "us"]);
    change(&mut placement, "acme", open("eu", &[]));
    let mut old = placement.changes_after(ChangeNumber::NONE, 10);
    change(&mut placement, "acme", Operation::BeginMove { epoch: Epoch(1), to: region("us") });
    change(&mut placement, "acme", Operation::FinishMove { epoch: Epoch(1) });
    let mut cache = Cache::default();
    cache.apply(placement.changes_after(ChangeNumber::NONE, 10));

    for change in &mut old.changes {
        if let Change::Tenant { placement, .. } = change {
            placement.change = ChangeNumber(1_000);
        }
    }
    cache.apply(old);
    let home = cache.home_of(&tenant("acme")).known.unwrap();
    assert_eq!((home.home, home.epoch), (region("us"), Epoch(2)));
}
