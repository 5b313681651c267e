//! Homes that are lost at a bad moment: in the middle of a move, one after the other, with their standby.

use serde_json::{Value, json};

use crate::abroad::{AP, EU, OVERSPEND, US, add_up, charge, decided_by, have_lead, strictly};
use crate::failovers::{
    CREDITS, dry_run, fail_over, is_promotable, open_followed, take_over, until_decided,
    until_placed,
};
use crate::support::{Caller, Cluster, Unusual};
use crate::waiting::{read_until, until_answered};

/// X of acme, in tests that need one.
const UNACKNOWLEDGED_MAX: u64 = 500;

/// Places of the nodes in [`followed_apart`]: the first two in `eu` follow the two shards of `us`, and the
/// third one leads the shards of `eu`, to which homes of `us` move.
const FIRST_IN_EU: usize = 1;
const SECOND_IN_EU: usize = 2;
const THIRD_IN_EU: usize = 3;
const LAST_IN_AP: usize = 4;

/// A cluster in which those who follow the homes of `us` are not those to whom these homes move.
async fn followed_apart() -> Cluster {
    let regions: &[&str] = &["us", "eu", "eu", "eu", "ap"];
    let standbys: &[(&str, &str)] = &[("us", "eu"), ("eu", "ap"), ("ap", "us")];
    let unusual = Unusual { regions: Some(regions), standbys, ..Unusual::default() };
    let cluster = Cluster::start_connected(unusual).await;
    have_lead(&cluster.caller(THIRD_IN_EU, "root"), THIRD_IN_EU).await;
    cluster
}

/// Allows acme's home to answer what its standby lacks, and has it find out what that has.
async fn allow_unacknowledged(us: &Caller) {
    let body = json!({ "unacknowledged_max": UNACKNOWLEDGED_MAX.to_string() });
    us.post("/admin/v1/tenants/acme/policy", "x", &body).await.expect(200);
    charge(us, "acme", "before", 10).await.expect(201);
}

/// Asks for acme to be moved from `us` to `eu`, and waits until that has begun as far as `us` knows. What
/// comes of it is not waited for.
async fn begin_move(us: &Caller) {
    let headers = [("content-type", "application/json"), ("purser-deadline-ms", "1000")];
    let body = json!({ "to": "eu" }).to_string();
    let unknown = us.raw("POST", "/admin/v1/tenants/acme/move", &headers, body.into()).await;
    unknown.expect_problem(504, "outcome_unknown");
    until_placed(us, |placed| placed["state"] == "moving").await;
}

/// Waits until a lost home's tail is booked.
async fn until_settled_in(caller: &Caller, home: &str) -> Value {
    until_placed(caller, |placed| placed["home"] == home && placed["state"] == "settled").await
}

async fn bound(caller: &Caller, home: &str) -> String {
    let overspend = caller.get(&format!("{OVERSPEND}?region={home}")).await.expect(200);
    overspend.text("/bound").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_lost_before_its_move_has_brought_anything_is_taken_over_from_its_standby() {
    let mut cluster = followed_apart().await;
    let [us, eu, ap] = [US, SECOND_IN_EU, LAST_IN_AP].map(|place| cluster.caller(place, "root"));
    open_followed(&us).await;
    let mut used = 0;
    for number in 0..20 {
        charge(&us, "acme", &format!("us-{number}"), 10).await.expect(201);
        used += 10;
    }
    // Whoever is brought the accounts is out of reach, and whoever follows is not.
    cluster.part(US, THIRD_IN_EU);
    begin_move(&us).await;
    cluster.lose(US).await;
    take_over(&ap, "us").await;
    let answer = until_decided(&eu, "after", 5).await.expect(201);
    assert_eq!(decided_by(&answer), "region=eu, role=home");
    used += 5;
    let again = charge(&eu, "acme", "us-7", 10).await.expect(201);
    assert_eq!(again.header("idempotent-replayed"), "true");
    add_up(&eu, (used, 0), CREDITS).await;

    cluster.join(US, THIRD_IN_EU);
    cluster.bring_back(US).await;
    until_settled_in(&eu, "eu").await;
    add_up(&cluster.caller(US, "root"), (used, 0), CREDITS).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_lost_in_its_move_has_brought_no_more_than_its_standby_has_and_leaves_a_tail() {
    let mut cluster = followed_apart().await;
    let [us, eu, ap] = [US, SECOND_IN_EU, LAST_IN_AP].map(|place| cluster.caller(place, "root"));
    open_followed(&us).await;
    allow_unacknowledged(&us).await;
    cluster.part(US, THIRD_IN_EU);
    begin_move(&us).await;
    // From here on the move can neither end nor be given up, and those who follow hear nothing more.
    for place in [FIRST_IN_EU, SECOND_IN_EU, LAST_IN_AP] {
        cluster.part(US, place);
    }
    for number in 0..3 {
        charge(&us, "acme", &format!("within-{number}"), 100).await.expect(201);
    }
    cluster.join(US, THIRD_IN_EU);
    // What the standby lacks the move does not bring either: it was answered, and stays within X.
    cluster.lose(US).await;
    take_over(&ap, "us").await;
    let answer = until_decided(&eu, "after", 5).await.expect(201);
    assert_eq!(decided_by(&answer), "region=eu, role=home");
    // What no standby had was answered within X, and counts as its tail.
    let read = eu.get("/v1/tenants/acme/balance").await.expect(200);
    assert_eq!(read.text("/used"), "15");
    assert_eq!(bound(&eu, "eu").await, UNACKNOWLEDGED_MAX.to_string());

    for place in [FIRST_IN_EU, SECOND_IN_EU, LAST_IN_AP] {
        cluster.join(US, place);
    }
    cluster.bring_back(US).await;
    until_settled_in(&eu, "eu").await;
    add_up(&eu, (315, 0), CREDITS).await;
    assert_eq!(bound(&eu, "eu").await, "0");
    let again = charge(&eu, "acme", "within-1", 100).await.expect(201);
    assert_eq!(again.header("idempotent-replayed"), "true");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_lost_right_after_it_took_over_is_taken_over_in_turn_and_both_tails_are_booked() {
    let cluster = Cluster::of_regions_with_standbys().await;
    let [us, eu, ap] = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    open_followed(&us).await;
    allow_unacknowledged(&us).await;
    cluster.cut(US);
    for number in 0..2 {
        charge(&us, "acme", &format!("within-{number}"), 100).await.expect(201);
    }
    take_over(&ap, "us").await;
    until_decided(&eu, "there", 5).await.expect(201);
    let followed = until_placed(&ap, is_promotable).await;
    assert_eq!((&followed["home"], &followed["lost"]), (&json!("eu"), &json!(["us"])));
    assert_eq!(followed["standbys"][0]["region"], "ap");

    cluster.cut(EU);
    // Two of three are gone: whoever is left can change nothing of who is home, and says so.
    let alone = fail_over(&ap, "eu", json!({ "dry_run": true })).await;
    assert!(matches!(alone.status, 503 | 504), "{alone}");
    cluster.heal(US);
    let seen = dry_run(&ap, "eu").await;
    assert_eq!((&seen.body["taken_over"], &seen.body["is_reachable"]), (&json!(1), &json!(false)));
    // The first home is back, and once it knows that it is home no more it decides nothing.
    until_placed(&us, |placed| placed["home"] == "eu").await;
    let refused = strictly(&us, "not here", 1).await;
    assert!(matches!(refused.status, 503 | 504), "{refused}");
    take_over(&ap, "eu").await;
    let answer = until_decided(&us, "in the end", 1).await.expect(201);
    assert_eq!(decided_by(&answer), "region=ap, role=home");
    // The first tail does not wait for the second.
    until_placed(&ap, |placed| placed["lost"] == json!(["eu"])).await;
    read_until(&ap, "/v1/tenants/acme/balance", |body| body["used"] == "216").await;

    cluster.heal(EU);
    until_settled_in(&ap, "ap").await;
    for caller in [&us, &eu, &ap] {
        add_up(caller, (216, 0), CREDITS).await;
        let again = charge(caller, "acme", "within-1", 100).await.expect(201);
        assert_eq!(again.header("idempotent-replayed"), "true");
    }
    assert_eq!(bound(&ap, "ap").await, "0");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_that_has_lost_its_storage_is_not_taken_for_all_that_there_was() {
    let mut cluster = Cluster::of_regions_with_standbys().await;
    let [us, ap] = [US, AP].map(|place| cluster.caller(place, "root"));
    open_followed(&us).await;
    charge(&us, "acme", "before", 10).await.expect(201);
    until_placed(&ap, is_promotable).await;
    cluster.lose(US).await;
    cluster.lose_storage(EU).await;
    let eu = cluster.caller(EU, "root");
    // Placement does not know of that loss.
    take_over(&ap, "us").await;
    let refused = strictly(&eu, "after", 1).await;
    assert!(matches!(refused.status, 503 | 504), "{refused}");
    let placed = until_placed(&eu, |placed| placed["home"] == "eu").await;
    assert_eq!((&placed["state"], &placed["lost"]), (&json!("failed_over"), &json!(["us"])));
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_that_has_lost_its_storage_gets_everything_again_while_home_is_there() {
    let mut cluster = Cluster::of_regions_with_standbys().await;
    let [us, ap] = [US, AP].map(|place| cluster.caller(place, "root"));
    open_followed(&us).await;
    charge(&us, "acme", "before", 10).await.expect(201);
    cluster.lose_storage(EU).await;
    // Home answers when its standby has this, and so all before it in the same shard; or when it has dropped
    // the standby, which is then promotable no sooner than it has all.
    let charging = async || charge(&us, "acme", "since", 10).await;
    until_answered("home answers with its standby", charging).await.expect(201);
    // And in the other shard, whichever acme's is.
    for tenant in ["beta", "charlie", "delta", "echo", "foxtrot"] {
        let body = json!({ "tenant": tenant, "home": "us" });
        let opening = async || us.post("/admin/v1/tenants", tenant, &body).await;
        until_answered("a tenant is opened", opening).await.expect(201);
    }
    until_placed(&ap, is_promotable).await;
    cluster.lose(US).await;
    take_over(&ap, "us").await;
    let eu = cluster.caller(EU, "root");
    let answer = until_decided(&eu, "after", 1).await.expect(201);
    assert_eq!(decided_by(&answer), "region=eu, role=home");
    for key in ["before", "since"] {
        let again = charge(&eu, "acme", key, 10).await.expect(201);
        assert_eq!(again.header("idempotent-replayed"), "true", "{key}");
    }
    add_up(&eu, (21, 0), CREDITS).await;
    cluster.end().await;
}
