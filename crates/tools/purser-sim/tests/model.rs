//! Every history of worlds that are small enough: two regions, and messages that are lost, repeated
//! and overtaken.
//!
//! `cargo run --release -p purser-sim -- --model` searches larger ones and tells how many states
//! there are.

#![expect(clippy::panic, reason = "a test fails by panicking")]

use purser_sim::model::{OVERSPENT, Small};
use stateright::{Checker, Model};

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
fn a_home_that_is_lost_takes_no_more_with_it_than_it_may_answer_for() {
    let losing =
        Small { credits: 1, orders: 1, repeats: 0, regions: &["eu"], ..Small::TWO_REGIONS };
    check(Small { lost_home: Some(1), calls: 2, ..losing });
}
