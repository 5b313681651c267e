//! Seeded histories of one account, its home and its regions.
//!
//! A failure names the seed: `cargo run -p purser-sim -- --seed N` tells that history aloud.

#![expect(clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::ops::Range;

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
    let calls = ["authorize", "capture", "charge", "extend", "late_capture", "reclaim", "refund"];
    let network = ["delivery", "loss", "repetition", "region restart", "home restart"];
    let doors = ["passed on", "retry at the door"];
    let retries = ["retry", "retry elsewhere", "reversal"];
    let orders =
        ["allocate", "grant", "recall", "transfer", "mode", "void", "freeze or unfreeze", "return"];
    check_happened(
        &tales,
        &[&calls[..], &network[..], &retries[..], &doors[..], &orders[..]].concat(),
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
