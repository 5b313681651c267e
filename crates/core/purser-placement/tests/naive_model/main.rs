//! Placement against a model that keeps the whole past of each tenant and looks everything up in it.
//!
//! Random requests, among them late copies of earlier ones and such that name an epoch or a change
//! that is not the present one. After every step both have decided alike, and what must hold
//! whatever is decided does.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod drafts;
mod model;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use purser_placement::{
    Answer, Change, ChangeNumber, Command, Decided, Outcome, PAGE_MAX, Placement, Request,
    TenantPlacement,
};
use purser_types::{Epoch, Machine, Region, TenantId};

use self::drafts::{Draft, REGIONS, drafts};
use self::model::{Model, is_drop};

/// Both, and what was seen of them.
struct Pair {
    placement: Placement,
    model: Model,
    /// Every request so far.
    sent: Vec<Request>,
    /// Those that changed something.
    accepted: Vec<Request>,
    /// Who was home under each epoch.
    homes: BTreeMap<(TenantId, Epoch), Region>,
}

impl Pair {
    fn new() -> Self {
        let mut pair = Self {
            placement: Placement::default(),
            model: Model::default(),
            sent: Vec::new(),
            accepted: Vec::new(),
            homes: BTreeMap::new(),
        };
        for region in REGIONS {
            pair.placement.apply_command(&Command::SetRegion(drafts::set_region(region)));
            pair.model.know(region);
        }
        pair
    }

    fn step(&mut self, draft: &Draft) -> Result<(), TestCaseError> {
        let Some(request) = draft.request(&self.placement, &self.sent) else { return Ok(()) };
        let before = self.placement.clone();
        let outcome = ask(&mut self.placement, &request);
        prop_assert_eq!(&outcome.result, &self.model.ask(&request), "{:?}", request);
        prop_assert_eq!(&outcome.placement, &self.model.placement(&request.tenant));
        if outcome.result == Ok(Decided::Changed) {
            // A drop is accepted as often as it is asked, which changes nothing but its number.
            if !is_drop(&request.operation) {
                self.accepted.push(request.clone());
            }
        } else {
            prop_assert_eq!(&self.placement, &before, "{:?} changed something", request);
        }
        self.check_epochs(&before, &request.tenant)?;

        let again = ask(&mut self.placement.clone(), &request);
        let is_repeated_drop = is_drop(&request.operation) && outcome.result.is_ok();
        let change = again.placement.as_ref().map(|placement| placement.change);
        let as_before = outcome.placement.clone().map(|placement| match change {
            Some(change) if is_repeated_drop => TenantPlacement { change, ..placement },
            _ => placement,
        });
        prop_assert_eq!(&again.placement, &as_before, "{:?} was asked twice", request);
        match outcome.result {
            Ok(_) if is_repeated_drop => prop_assert_eq!(again.result, Ok(Decided::Changed)),
            Ok(_) => prop_assert_eq!(again.result, Ok(Decided::Repeated)),
            Err(refusal) => prop_assert_eq!(again.result, Err(refusal)),
        }
        self.sent.push(request);
        Ok(())
    }

    /// An epoch never goes back, rises by one at a time, and has one home.
    fn check_epochs(&mut self, before: &Placement, tenant: &TenantId) -> Result<(), TestCaseError> {
        let Some(now) = self.placement.tenant(tenant) else { return Ok(()) };
        let was = before.tenant(tenant).map_or(Epoch(0), |placement| placement.epoch);
        prop_assert!(now.epoch == was || now.epoch == Epoch(was.0 + 1), "{was:?} to {now:?}");
        let home = self.homes.entry((tenant.clone(), now.epoch)).or_insert(now.home);
        prop_assert_eq!(*home, now.home, "two homes under {:?}", now.epoch);
        Ok(())
    }

    /// What was accepted once is never accepted again, however late a copy of it arrives.
    fn check_late_copies(&self) -> Result<(), TestCaseError> {
        for request in &self.accepted {
            let late = ask(&mut self.placement.clone(), request).result;
            prop_assert_ne!(late, Ok(Decided::Changed), "{:?}", request);
        }
        Ok(())
    }

    /// What can be read is what the model has.
    fn check_reads(&self, page: usize) -> Result<(), TestCaseError> {
        for region in REGIONS.map(|name| Region::parse(name).unwrap()) {
            let mut listed: Vec<TenantId> = Vec::new();
            loop {
                let found = self.placement.tenants_of(region, listed.last(), page);
                prop_assert!(found.len() <= page);
                let Some(_) = found.last() else { break };
                listed.extend(found.into_iter().map(|(tenant, _)| tenant));
            }
            prop_assert_eq!(listed, self.model.tenants_of(region));
        }
        for after in 0..=self.placement.latest_change().0 + 1 {
            prop_assert_eq!(self.followed(after, page), self.model.changed_after(after));
        }
        Ok(())
    }

    /// Names and numbers of what has changed, read in pages.
    fn followed(&self, after: u64, page: usize) -> Vec<(u64, String)> {
        let mut after = ChangeNumber(after);
        let mut changes = Vec::new();
        loop {
            let found = self.placement.changes_after(after, page);
            assert!(found.changes.len() <= page);
            changes.extend(found.changes.iter().map(|change| match change {
                Change::Tenant { tenant, placement } => (placement.change.0, tenant.to_string()),
                Change::Region(region) => (region.change.0, region.region.to_string()),
            }));
            if found.through >= found.latest {
                return changes;
            }
            after = found.through;
        }
    }

    fn check_restore(&self) -> Result<(), TestCaseError> {
        let chunks: Vec<Vec<u8>> = self.placement.snapshot().collect();
        let restored = Placement::restore(&mut chunks.clone().into_iter()).unwrap();
        prop_assert_eq!(&restored, &self.placement);
        prop_assert_eq!(restored.snapshot().collect::<Vec<_>>(), chunks);
        Ok(())
    }
}

fn ask(placement: &mut Placement, request: &Request) -> Outcome {
    let answer = placement.apply_command(&Command::Tenants(vec![request.clone()]));
    let Answer::Tenants(mut outcomes) = answer else { unreachable!("of requests") };
    outcomes.pop().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn placement_decides_as_a_model_with_the_whole_past_does(
        drafts in drafts(),
        page in 1..4_usize,
    ) {
        let mut pair = Pair::new();
        for draft in drafts {
            pair.step(&draft)?;
        }
        pair.check_late_copies()?;
        pair.check_reads(page)?;
        pair.check_reads(PAGE_MAX)?;
        pair.check_restore()?;
    }

    /// Replicas may pack requests into commands as they like; restored ones and those that lived
    /// through it go on alike.
    #[test]
    fn a_batch_is_its_requests_one_by_one(drafts in drafts(), cut in 1..40_usize) {
        let mut pair = Pair::new();
        let mut batched = pair.placement.clone();
        for draft in &drafts {
            pair.step(draft)?;
        }
        for requests in pair.sent.chunks(cut) {
            let answer = batched.apply_command(&Command::Tenants(requests.to_vec()));
            let Answer::Tenants(outcomes) = answer else { unreachable!("of requests") };
            prop_assert_eq!(outcomes.len(), requests.len());
            batched = Placement::restore(&mut batched.snapshot()).unwrap();
        }
        prop_assert_eq!(batched, pair.placement);
    }
}

/// The drafts reach what they are meant to reach; without this the tests above could be idle.
#[test]
fn random_requests_reach_every_answer() {
    use proptest::strategy::ValueTree as _;

    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen = BTreeSet::new();
    for _ in 0..192 {
        let mut pair = Pair::new();
        for draft in drafts().new_tree(&mut runner).unwrap().current() {
            let Some(request) = draft.request(&pair.placement, &pair.sent) else { continue };
            let outcome = ask(&mut pair.placement, &request);
            seen.insert((drafts::kind(&request), drafts::answer(&outcome.result)));
            pair.sent.push(request);
        }
    }
    let missing: Vec<_> =
        drafts::WORTH_REACHING.iter().filter(|one| !seen.contains(*one)).collect();
    assert_eq!(missing, Vec::<&(&str, &str)>::new());
}
