//! Seeded histories of one account, its home and its regions.
//!
//! A failure names the seed: `cargo run -p purser-sim -- --seed N` tells that history aloud.

#![expect(clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::ops::Range;

use purser_sim::broken::Rule;
use purser_sim::story::{Plan, Tale, Wrong, tell};

#[track_caller]
fn check(seeds: Range<u64>, plan: &Plan) -> Vec<Tale> {
    let told: Result<Vec<Tale>, Wrong> = seeds.map(|seed| tell(seed, plan)).collect();
    told.unwrap_or_else(|Wrong { seed, step, detail }| panic!("seed {seed}, step {step}: {detail}"))
}

/// Each thing that can happen did, and not only once or twice.
#[track_caller]
fn check_happened(tales: &[Tale], names: &[&str]) {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, count) in tales.iter().flat_map(|tale| &tale.counts) {
        *counts.entry(name).or_default() += count;
    }
    for name in names {
        let count = counts.get(name).copied().unwrap_or(0);
        assert!(count >= 100, "{name} happened {count} times: {counts:?}");
    }
}

#[test]
fn what_was_handed_out_comes_home_to_the_last_credit_and_nothing_is_overspent() {
    let tales = check(0..800, &Plan::CALM);
    let calls = [
        "cover",
        "covered",
        "authorize",
        "capture",
        "charge",
        "extend",
        "late_capture",
        "reclaim",
        "refund",
    ];
    let network = ["delivery", "loss", "repetition", "region restart", "home restart"];
    let doors = ["passed on", "retry at the door"];
    let retries = ["retry", "retry elsewhere", "retry after a close", "reversal"];
    let orders = [
        "call about a closed allocation",
        "allocate",
        "grant",
        "recall",
        "transfer",
        "mode",
        "void",
        "freeze or unfreeze",
        "return",
    ];
    let crashes = [
        "home lost a decision",
        "region lost a decision",
        "asked again after a crash",
        "note of a call lost",
        "order lost",
        "voucher lost",
        "report lost",
        "return lost",
    ];
    check_happened(
        &tales,
        &[&calls[..], &network[..], &retries[..], &doors[..], &orders[..], &crashes[..]].concat(),
    );
}

#[test]
fn the_bound_holds_whatever_is_taken_back_overdrawn_or_rolled_back() {
    let tales = check(0..600, &Plan::WILD);
    check_happened(&tales, &["take back", "overdraft", "rollback", "write off"]);
}

#[test]
fn the_bound_holds_in_as_many_other_histories() {
    check(600..1_200, &Plan::WILD);
}

#[test]
fn the_same_seed_is_the_same_history() {
    // In a sweep, and alone.
    let sweep = check(0..20, &Plan::WILD);
    for (seed, tale) in (0..20).zip(sweep) {
        assert_eq!(check(seed..seed + 1, &Plan::WILD), [tale], "seed {seed}");
    }
}

#[test]
fn a_home_that_moves_or_is_lost_keeps_what_it_answered_and_overspends_nothing() {
    let tales = check(0..400, &Plan::MOVING);
    let moves = ["move begun", "stop", "take over", "move finished", "home taken", "move aborted"];
    let losses = ["fail-over", "retry of a lost call", "hold of a lost home"];
    let standby = ["replication", "standby taken in", "standby dropped", "no answer yet"];
    check_happened(&tales, &[&moves[..], &losses[..], &standby[..]].concat());
}

#[test]
fn a_home_that_answers_for_itself_overspends_no_more_than_was_stated() {
    let tales = check(0..400, &Plan::LOSING);
    check_happened(&tales, &["fail-over", "step down", "tail booked", "call of a lost home"]);
}

#[test]
fn a_node_that_breaks_a_rule_is_found_out() {
    let losing = |rule| Plan { broken: Some(rule), ..Plan::LOSING };
    // R1: a region is told what only the lost home knew.
    check_is_found_out(0..300, &losing(Rule::EntryBeforeVoucher), "INV-13");
    // R2: home, or a region, has told of what it lost in a crash.
    let broken = Some(Rule::SyncedBeforeAnswer);
    let crashing = Plan { broken, ..Plan::CALM };
    check_is_found_out(0..300, &crashing, "what was answered is lost");
    check_is_found_out(0..300, &crashing, "was never booked at home");
    check_is_found_out(0..300, &crashing, "a repeat gets another answer");
    // R6: more was answered than is set aside.
    check_is_found_out(0..300, &losing(Rule::AnswersWithinX), "what was answered is lost");
    // R10: home decides a call again that a region had decided.
    let broken = Some(Rule::ClosedIsNamed);
    check_is_found_out(0..300, &Plan { broken, ..Plan::CALM }, "a repeat is decided anew");
    // R9: what a restored region had spent it spends again.
    let broken = Some(Rule::RestoredBeginsAnew);
    let restoring = Plan { broken, has_rollbacks: true, ..Plan::CALM };
    check_is_found_out(0..2_000, &restoring, "R9");
}

/// Some history shows that the rule was broken, by what it says.
#[track_caller]
fn check_is_found_out(mut seeds: Range<u64>, plan: &Plan, detail: &str) {
    let is_it = |seed| tell(seed, plan).is_err_and(|wrong| wrong.detail.contains(detail));
    assert!(seeds.any(is_it), "nobody misses {:?}", plan.broken);
}
