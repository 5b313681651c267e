//! Every history of worlds that are small enough: two regions, and messages that are lost, repeated
//! and overtaken.
//!
//! `cargo run --release -p purser-sim -- --model` searches larger ones and tells how many states
//! there are.

#![expect(clippy::panic, reason = "a test fails by panicking")]

use purser_sim::broken::Rule;
use purser_sim::model::{BOOKED_ONCE, OVERSPENT, Small};
use stateright::{Checker, HasDiscoveries, Model};

/// Searches all of it; no property may fail.
#[track_caller]
fn check(model: Small) -> bool {
    let checker = model.checker().threads(2).spawn_bfs().join();
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
fn what_is_set_aside_is_never_overspent_and_comes_home() {
    assert!(!check(Small { comes_home: true, ..Small::TWO_REGIONS }));
}

#[test]
fn two_messages_that_overtake_each_other_do_no_harm() {
    assert!(!check(Small { credits: 2, wire: 2, ..Small::TWO_REGIONS }));
}

#[test]
fn a_take_back_within_the_cap_never_overspends_more_than_the_cap() {
    check(Small { credits: 2, takeback_cap: 2, ..Small::TWO_REGIONS });
}

#[test]
fn an_overdraft_and_a_forced_take_back_overspend_no_more_than_was_stated() {
    let has_overspent =
        check(Small { credits: 1, calls: 3, is_forced: true, overdraft: 1, ..Small::TWO_REGIONS });
    assert!(has_overspent, "the search reaches what it is for");
}

#[test]
fn what_home_covers_is_used_once_for_what_it_is_for_and_comes_home() {
    let covering = Small { regions: &["eu"], credits: 1, covers: Some(1), ..Small::TWO_REGIONS };
    let has_overspent = check(Small { comes_home: true, ..covering });
    assert!(!has_overspent, "what is owed for a cover is no overspend");
    check(Small { is_forced: true, orders: 3, repeats: 0, ..covering });
}

#[test]
fn a_home_that_is_lost_takes_no_more_with_it_than_it_may_answer_for() {
    let losing =
        Small { credits: 1, orders: 1, repeats: 0, regions: &["eu"], ..Small::TWO_REGIONS };
    check(Small { lost_home: Some(1), calls: 2, ..losing });
}

/// One region and few messages: the rule that is broken is all that can go wrong.
const BROKEN: Small = Small { regions: &["eu"], repeats: 0, credits: 1, ..Small::TWO_REGIONS };

/// As many steps show any of the broken rules.
const DEPTH_MAX: usize = 10;

/// Some history shows that the rule was broken: what clients were told is not what home books, or more
/// is overspent than was stated.
#[track_caller]
fn check_is_found_out(rule: Rule, model: &Small) {
    check(model.clone());
    let model = Small { broken: Some(rule), ..model.clone() };
    // A shortest history that shows it; one that goes on for long breaks home's own invariants as well.
    let checker = model.checker().target_max_depth(DEPTH_MAX);
    let found = checker.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let path = found.discovery(BOOKED_ONCE);
    assert!(path.is_some(), "nobody misses {rule:?}");
}

#[test]
fn home_that_credits_what_a_region_has_not_given_up_is_found_out() {
    check_is_found_out(Rule::GivenUpBeforeCredit, &BROKEN);
}

#[test]
fn a_message_that_is_taken_for_a_difference_is_found_out() {
    let repeated = Small { repeats: 1, ..BROKEN };
    check_is_found_out(Rule::VoucherSaysAll, &repeated);
    // Home can pay for what it books again, so its own invariants see nothing wrong.
    let paid = Small { credits: 9, calls: 1, orders: 1, ..repeated };
    check_is_found_out(Rule::ReportBookedOnce, &paid);
}

#[test]
fn home_that_ignores_a_late_report_is_found_out() {
    check_is_found_out(Rule::LateReportBooked, &Small { takeback_cap: 1, ..BROKEN });
}
