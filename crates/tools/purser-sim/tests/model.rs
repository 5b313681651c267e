//! Every history of worlds that are small enough: two regions, a home that is lost, and messages that
//! are lost, repeated and overtaken.
//!
//! `cargo run --release -p purser-sim -- --model` searches larger ones and tells how many states
//! there are.

#![expect(clippy::panic, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use purser_sim::broken::Rule;
use purser_sim::model::{Action, BOOKED_ONCE, OVERSPENT, Search, Small, State};
use stateright::{Checker, HasDiscoveries, Model, Property};

/// One region, one credit, one decision of each kind.
const ONE_REGION: Small = Small { regions: &["eu"], credits: 1, grants: 1, ..Small::TWO_REGIONS };

/// One region whose over-captures home covers.
const COVERING: Small = Small { orders: 2, covers: Some(1), ..ONE_REGION };

/// Searches all of it; no property may fail.
#[track_caller]
fn check(model: Small) -> bool {
    let checker = model.search().checker().threads(2).spawn_bfs().join();
    assert!(checker.is_done());
    let mut found = checker.discoveries();
    let has_overspent = found.remove(OVERSPENT).is_some();
    if let Some((property, path)) = found.into_iter().next() {
        let actions: Vec<String> =
            path.into_actions().iter().map(|action| format!("  {action:?}")).collect();
        panic!("it is not so that {property}:\n{}", actions.join("\n"));
    }
    has_overspent
}

#[test]
fn all_that_can_go_wrong_at_once_overspends_no_more_than_was_stated_and_comes_home() {
    // `purser-sim --model everything` lets both regions have credits.
    check(Small { grants: 1, ..Small::EVERYTHING });
    let has_overspent = check(Small { grants: 1, credits: 1, ..Small::EVERYTHING });
    assert!(has_overspent, "the search reaches what it is for");
}

#[test]
fn what_is_set_aside_is_never_overspent_and_comes_home() {
    assert!(!check(Small { comes_home: true, ..Small::TWO_REGIONS }));
}

#[test]
fn two_messages_that_overtake_each_other_do_no_harm() {
    assert!(!check(Small { credits: 2, calls: 1, wire: 2, ..Small::TWO_REGIONS }));
}

#[test]
fn a_take_back_within_the_cap_never_overspends_more_than_the_cap() {
    check(Small { credits: 2, takeback_cap: 2, ..Small::TWO_REGIONS });
}

#[test]
fn an_overdraft_and_a_forced_take_back_overspend_no_more_than_was_stated() {
    let forced = Small { credits: 1, grants: 1, orders: 2, ..Small::TWO_REGIONS };
    let has_overspent = check(Small { is_forced: true, overdraft: 1, ..forced });
    assert!(has_overspent, "the search reaches what it is for");
}

#[test]
fn what_home_covers_is_used_once_for_what_it_is_for_and_comes_home() {
    let has_overspent = check(Small { comes_home: true, ..COVERING });
    assert!(!has_overspent, "what is owed for a cover is no overspend");
    check(Small { is_forced: true, ..COVERING });
}

#[test]
fn what_is_undone_after_a_home_was_lost_is_undone_once() {
    check(Small { lost_home: &[1], ..ONE_REGION });
}

/// As many steps show any of the broken rules.
const DEPTH_MAX: usize = 10;

/// Some history shows that the rule was broken: what clients were told is not what home books, or more
/// is overspent than was stated.
#[track_caller]
fn check_is_found_out(rule: Rule, model: &Small) {
    check(model.clone());
    let model = Small { broken: Some(rule), ..model.clone() };
    // A shortest history that shows it; one that goes on for long breaks home's own invariants as well.
    let checker = model.search().checker().target_max_depth(DEPTH_MAX);
    let found = checker.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let path = found.discovery(BOOKED_ONCE);
    assert!(path.is_some(), "nobody misses {rule:?}");
}

#[test]
fn home_that_credits_what_a_region_has_not_given_up_is_found_out() {
    check_is_found_out(Rule::GivenUpBeforeCredit, &ONE_REGION);
}

#[test]
fn a_message_that_is_taken_for_a_difference_is_found_out() {
    check_is_found_out(Rule::VoucherSaysAll, &ONE_REGION);
    // Home can pay for what it books again, so its own invariants see nothing wrong.
    let paid = Small { credits: 9, calls: 1, ..ONE_REGION };
    check_is_found_out(Rule::ReportBookedOnce, &paid);
}

#[test]
fn home_that_ignores_a_late_report_is_found_out() {
    check_is_found_out(Rule::LateReportBooked, &Small { takeback_cap: 1, ..ONE_REGION });
}

#[test]
fn home_that_speaks_or_answers_before_its_standby_knows_is_found_out() {
    let losing = Small { orders: 0, has_all_kinds: false, lost_home: &[0, 1], ..ONE_REGION };
    check_is_found_out(Rule::EntryBeforeVoucher, &losing);
    check_is_found_out(Rule::AnswersWithinX, &losing);
}

#[test]
fn worlds_that_count_as_one_go_on_alike() {
    let losing = Small { calls: 1, grants: 1, orders: 1, lost_home: &[1], ..Small::EVERYTHING };
    check_goes_on_alike(losing);
    check_goes_on_alike(Small { calls: 1, orders: 1, credits: 2, ..Small::TWO_REGIONS });
    check_goes_on_alike(COVERING);
    check_goes_on_alike(Small { wire: 2, calls: 1, orders: 1, ..ONE_REGION });
}

/// Whatever leads to a world that counts as one with another: the same can come next, and the same is
/// true of it.
#[track_caller]
fn check_goes_on_alike(model: Small) {
    let search = model.search();
    let properties = search.properties();
    let begin = search.init_states().into_iter().map(|state| (state, Vec::new()));
    let (mut known, mut next) = (HashMap::new(), begin.collect::<VecDeque<_>>());
    while let Some((state, path)) = next.pop_front() {
        let goes_on = (successors(&search, &state), truths(&properties, &search, &state));
        let Some((before, other_path)) = known.get(&number(&state)) else {
            for action in actions(&search, &state) {
                let path = [path.clone(), vec![action]].concat();
                next.extend(search.next_state(&state, action).map(|state| (state, path)));
            }
            known.insert(number(&state), (goes_on, path));
            continue;
        };
        assert_eq!(*before, goes_on, "{other_path:#?} goes on unlike {path:#?}");
    }
}

/// Alike if they are the same worlds, by whatever action.
#[derive(Debug)]
struct Successors(BTreeMap<u64, Action>);

impl PartialEq for Successors {
    fn eq(&self, other: &Self) -> bool {
        self.0.keys().eq(other.0.keys())
    }
}

fn actions(search: &Search, state: &State) -> Vec<Action> {
    let mut actions = Vec::new();
    search.actions(state, &mut actions);
    actions
}

/// Each world that can come next, with an action that leads there.
fn successors(search: &Search, state: &State) -> Successors {
    let mut found = BTreeMap::new();
    for action in actions(search, state) {
        let next = search.next_state(state, action);
        found.extend(next.map(|next| (number(&next), action)));
    }
    Successors(found)
}

fn truths(properties: &[Property<Search>], search: &Search, state: &State) -> Vec<bool> {
    properties.iter().map(|property| (property.condition)(search, state)).collect()
}

fn number(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}
