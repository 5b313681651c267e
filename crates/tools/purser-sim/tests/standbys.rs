//! Every history of a home, its standby and Placement: whoever can take over has what anybody was told.

use std::collections::BTreeSet;

use purser_sim::standbys::{NOTHING_LOST, Rule, Small, Start, WAITED_FOR, WITHIN_X};
use stateright::{Checker, Expectation, HasDiscoveries, Model};

/// Searches all of it; no property may fail, and what is to be reached is.
#[track_caller]
fn check(model: Small) {
    let checker = model.checker().threads(2).spawn_bfs().join();
    assert!(checker.is_done());
    let mut found = checker.discoveries();
    for property in checker.model().properties() {
        let path = found.remove(property.name);
        match property.expectation {
            Expectation::Sometimes => assert!(path.is_some(), "{} is not reached", property.name),
            Expectation::Always | Expectation::Eventually => {
                let actions = path.map(|path| path.into_actions());
                assert!(actions.is_none(), "it is not so that {}: {actions:#?}", property.name);
            }
        }
    }
}

/// Some history shows that the rule was broken: the property fails that it is there for, and that holds
/// in the same world unbroken. Each of the worlds below is searched as it is by a test that [`check`]s it.
#[track_caller]
fn check_is_missed(rule: Rule, model: &Small, property: &'static str) {
    let model = Small { broken: Some(rule), ..model.clone() };
    let until = HasDiscoveries::AnyOf(BTreeSet::from([property]));
    let checker = model.checker().threads(2).finish_when(until).spawn_bfs().join();
    let is_missed = checker.discovery(property).is_some();
    assert!(is_missed, "{rule:?} is broken, and it is still so that {property}");
}

/// A standby is dropped and taken in again, by one leader and one keeper.
const DROPPED: Small = Small { silences: 1, asks: 2, ..Small::FOLLOWED };

/// It is dropped a second time.
const DROPPED_TWICE: Small = Small { entries: 0, silences: 2, asks: 3, is_lost: false, ..DROPPED };

/// The shard's leader changes meanwhile. That the home is then lost is played without a drop.
const LED: Small = Small { elections: 1, is_lost: false, ..DROPPED };

/// The keeper changes meanwhile.
const KEPT: Small = Small { keepers: 1, ..DROPPED };

/// The same twice.
const KEPT_TWICE: Small = Small { keepers: 1, ..DROPPED_TWICE };

/// The home is lost, and the standby's node is restarted, and follows again.
const RESTARTED: Small = Small { elections: 1, restarts: 1, is_slow: true, ..Small::FOLLOWED };

/// A node leads the shard a second time.
const LED_TWICE: Small = Small { elections: 2, ..Small::FOLLOWED };

/// Home answers for one entry that the standby may lack.
const WITHIN: Small = Small { entries: 2, elections: 1, within: 1, ..Small::FOLLOWED };

/// The tenant's standbys change.
const MENDED: Small = Small { start: Start::Elsewhere, elections: 1, asks: 2, ..Small::FOLLOWED };

/// The keeper changes after that.
const MENDED_AND_KEPT: Small = Small { elections: 0, keepers: 1, silences: 1, ..MENDED };

/// The tenant comes here.
const COMING: Small = Small { start: Start::Arriving, entries: 2, asks: 1, ..Small::FOLLOWED };

/// A move is given up meanwhile.
const STAYING: Small = Small { moves: true, ..DROPPED };

#[test]
fn a_standby_is_dropped_and_taken_in_and_nothing_that_was_told_is_lost() {
    check(Small { repeats: 1, ..DROPPED });
}

#[test]
fn the_same_while_the_leader_of_the_shard_changes() {
    check(LED);
}

#[test]
fn the_same_while_the_keeper_changes() {
    check(KEPT);
}

#[test]
fn a_lost_home_is_told_of_nothing_that_its_successor_lacks() {
    check(RESTARTED);
}

#[test]
fn a_lost_home_has_told_no_more_than_x_that_its_successor_lacks() {
    check(WITHIN);
}

#[test]
fn a_tenant_that_gets_another_standby_is_waited_for() {
    check(MENDED);
}

#[test]
fn a_tenant_that_is_on_its_way_is_taken_in_when_it_is_there() {
    check(COMING);
}

#[test]
fn a_move_that_is_given_up_leaves_no_standby_behind_that_was_dropped() {
    check(STAYING);
}

#[test]
fn the_same_twice() {
    check(DROPPED_TWICE);
}

#[test]
fn the_same_twice_while_the_keeper_changes() {
    check(KEPT_TWICE);
}

#[test]
fn the_same_with_another_standby_while_the_keeper_changes() {
    check(MENDED_AND_KEPT);
}

#[test]
fn whoever_tells_too_early_is_found_out() {
    check_is_missed(Rule::WaitsForStandbys, &DROPPED, NOTHING_LOST);
    check_is_missed(Rule::DroppedByPlacement, &DROPPED, WAITED_FOR);
    check_is_missed(Rule::PlacedBeforeDropped, &DROPPED, NOTHING_LOST);
    check_is_missed(Rule::RefusesWhenFenced, &RESTARTED, NOTHING_LOST);
    check_is_missed(Rule::WaitsAtFirst, &WITHIN, WITHIN_X);
    check_is_missed(Rule::PlacedInItsTerm, &MENDED, NOTHING_LOST);
}

#[test]
fn whoever_promises_too_much_is_found_out() {
    check_is_missed(Rule::LeavesBeforeDropped, &DROPPED, WAITED_FOR);
    check_is_missed(Rule::ShardsPromise, &DROPPED, NOTHING_LOST);
    check_is_missed(Rule::PromisesWhatIsThere, &DROPPED, NOTHING_LOST);
    check_is_missed(Rule::PromisesIfLeading, &LED, WAITED_FOR);
    check_is_missed(Rule::PromisesAsPlaced, &MENDED, NOTHING_LOST);
}

/// What a leader believes changes when it has a standby dropped, and then whoever was promised something
/// comes too late; or when another leads, who waits for the standby. So this one is not needed: it spares
/// Placement a request.
#[test]
fn a_promise_that_holds_no_more_does_no_harm() {
    check(Small { broken: Some(Rule::PromiseHolds), is_lost: false, ..KEPT });
}

/// A replica takes nothing of a leader that has not asked it in his term, so there is no such acknowledgment
/// to be counted. These are the other half of that, at home.
#[test]
fn a_leader_that_has_not_asked_has_nothing_acknowledged() {
    check(Small { broken: Some(Rule::FollowsInItsTerm), ..LED_TWICE });
    check(Small { broken: Some(Rule::AcknowledgedInItsTerm), ..LED_TWICE });
}

#[test]
fn a_keeper_that_takes_in_too_early_is_found_out() {
    check_is_missed(Rule::TakesInWhatWasSeen, &DROPPED_TWICE, WAITED_FOR);
    check_is_missed(Rule::LeadsBeforeItTakesIn, &KEPT_TWICE, WAITED_FOR);
    check_is_missed(Rule::TakesInWhatIsHere, &COMING, NOTHING_LOST);
}

#[test]
fn a_keeper_that_drops_too_little_is_found_out() {
    check_is_missed(Rule::UnclearOnceItAsks, &DROPPED_TWICE, WAITED_FOR);
    check_is_missed(Rule::ClearOnlyIfLeading, &KEPT_TWICE, WAITED_FOR);
    check_is_missed(Rule::DropsWhatIsPlaced, &MENDED_AND_KEPT, WAITED_FOR);
    check_is_missed(Rule::DropsUntilNoneIsLeft, &STAYING, WAITED_FOR);
}

#[test]
fn a_standby_that_follows_the_wrong_one_is_found_out() {
    check_is_missed(Rule::KnowsOfFailOvers, &RESTARTED, NOTHING_LOST);
    check_is_missed(Rule::ConfirmedAtStart, &RESTARTED, NOTHING_LOST);
    check_is_missed(Rule::HearsWhoHasAsked, &RESTARTED, NOTHING_LOST);
    check_is_missed(Rule::StopsToFollow, &RESTARTED, NOTHING_LOST);
    check_is_missed(Rule::LearnsBeforeFrozen, &RESTARTED, NOTHING_LOST);
    check_is_missed(Rule::FrozenIsDeaf, &RESTARTED, NOTHING_LOST);
}
