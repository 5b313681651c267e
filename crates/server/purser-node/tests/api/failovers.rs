//! A home that is lost: a standby takes over with everything that was answered, and what the lost home had
//! decided besides is booked once, when it is back.

use serde_json::{Value, json};

use crate::abroad::{AP, EU, US, add_up, charge, decided_by, make_local, open_in, strictly};
use crate::support::{Answer, Caller, Cluster};
use crate::waiting::{read_until, until_answered, until_status};

/// What acme is granted.
pub(crate) const CREDITS: u64 = 100_000;

pub(crate) async fn fail_over(caller: &Caller, lost: &str, body: Value) -> Answer {
    let headers = [("content-type", "application/json")];
    let path = format!("/admin/v1/regions/{lost}/failover");
    caller.raw("POST", &path, &headers, body.to_string().into()).await
}

/// What a fail-over would do. Placement may have lost its leader with that region, and then it takes some
/// seconds until it has another.
pub(crate) async fn dry_run(caller: &Caller, lost: &str) -> Answer {
    let looking = async || fail_over(caller, lost, json!({ "dry_run": true })).await;
    until_status(200, "a dry run", looking).await
}

/// Has the standby of a lost region take over, as an operator would: a dry run first.
pub(crate) async fn take_over(caller: &Caller, lost: &str) -> Answer {
    let seen = dry_run(caller, lost).await;
    let confirm = json!({ "confirm": seen.text("/confirm") });
    let done = fail_over(caller, lost, confirm).await.expect(200);
    assert_eq!(done.body["taken_over"], seen.body["taken_over"], "{:#}", done.body);
    done
}

/// Waits until Placement shows acme as wished.
pub(crate) async fn until_placed(caller: &Caller, is_it: impl Fn(&Value) -> bool) -> Value {
    read_until(caller, "/admin/v1/tenants/acme/move", is_it).await.body
}

pub(crate) fn is_promotable(placed: &Value) -> bool {
    placed["standbys"][0]["promotable"] == true
}

/// Opens acme in `us` and waits until `eu` could take over.
pub(crate) async fn open_followed(caller: &Caller) {
    open_in(caller, "acme", "us", CREDITS).await;
    let placed = until_placed(caller, is_promotable).await;
    assert_eq!(placed["standbys"][0]["region"], "eu");
}

/// Asks until home has decided.
pub(crate) async fn until_decided(caller: &Caller, key: &str, amount: u64) -> Answer {
    until_answered("home decides", async || strictly(caller, key, amount).await).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_home_is_taken_over_with_everything_that_was_answered() {
    let mut cluster = Cluster::of_regions_with_standbys().await;
    let [us, eu, ap] = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    open_followed(&us).await;
    let mut used = make_local(&ap, "acme", "ap").await;
    for number in 0..20 {
        charge(&us, "acme", &format!("us-{number}"), 10).await.expect(201);
        used += 10;
    }
    cluster.lose(US).await;
    // Other regions go on with what they have.
    let answer = charge(&ap, "acme", "meanwhile", 1).await.expect(201);
    assert_eq!(decided_by(&answer), "region=ap, role=allocation");
    used += 1;

    let done = take_over(&ap, "us").await;
    assert_eq!((&done.body["region"], &done.body["to"]), (&json!("us"), &json!("eu")));
    assert_eq!((&done.body["taken_over"], &done.body["left"]), (&json!(1), &json!(0)));
    let answer = until_decided(&ap, "after", 5).await.expect(201);
    assert_eq!(decided_by(&answer), "region=eu, role=home");
    used += 5;
    // What was answered before is answered again, and alike.
    let again = charge(&eu, "acme", "us-7", 10).await.expect(201);
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(decided_by(&again), "region=us, role=home");
    add_up(&eu, (used, 0), CREDITS).await;
    let placed = until_placed(&eu, |_| true).await;
    assert_eq!((&placed["home"], &placed["state"]), (&json!("eu"), &json!("failed_over")));
    assert_eq!(placed["lost"], json!(["us"]));

    cluster.bring_back(US).await;
    let placed = until_placed(&eu, |placed| placed["state"] == "settled").await;
    assert_eq!((&placed["home"], &placed["lost"]), (&json!("eu"), &json!([])));
    charge(&us, "acme", "at last", 1).await.expect(201);
    add_up(&us, (used + 1, 0), CREDITS).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_that_was_cut_off_is_told_of_nothing_and_steps_down_when_it_is_back() {
    let cluster = Cluster::of_regions_with_standbys().await;
    let [us, eu, ap] = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    open_followed(&us).await;
    charge(&us, "acme", "before", 10).await.expect(201);
    cluster.cut(US);
    take_over(&ap, "us").await;
    let answer = until_decided(&eu, "there", 100).await.expect(201);
    assert_eq!(decided_by(&answer), "region=eu, role=home");
    // The old home decides what it is asked, but nobody can be told: no standby has it.
    let lost = charge(&us, "acme", "lost", 1_000).await;
    lost.expect_problem(504, "outcome_unknown");

    cluster.heal(US);
    let settled = |placed: &Value| placed["home"] == "eu" && placed["state"] == "settled";
    until_placed(&eu, settled).await;
    // What nobody was told has not happened, so asking again is asking for the first time.
    let answer = until_decided(&us, "again", 1).await.expect(201);
    assert_eq!(decided_by(&answer), "region=eu, role=home");
    add_up(&us, (111, 0), CREDITS).await;
    let tails = eu.get("/admin/v1/tenants/acme/tails").await.expect(200);
    assert_eq!(tails.body, json!({ "tails": [] }));
    // From now on the new home is followed in turn.
    let placed = until_placed(&eu, is_promotable).await;
    assert_eq!(placed["standbys"], json!([{ "region": "ap", "promotable": true }]));
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_within_x_is_booked_once_when_the_lost_home_is_back() {
    let cluster = Cluster::of_regions_with_standbys().await;
    let [us, eu, ap] = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    open_followed(&us).await;
    let body = json!({ "unacknowledged_max": "500" });
    us.post("/admin/v1/tenants/acme/policy", "x", &body).await.expect(200);
    // It finds out what the standby has; what comes later counts under X.
    charge(&us, "acme", "before", 10).await.expect(201);
    cluster.cut(US);
    let mut answered = 10;
    for number in 0..4 {
        let answer = charge(&us, "acme", &format!("within-{number}"), 100).await.expect(201);
        assert_eq!(decided_by(&answer), "region=us, role=home");
        answered += 100;
    }
    let beyond = charge(&us, "acme", "beyond", 101).await;
    beyond.expect_problem(504, "outcome_unknown");

    take_over(&ap, "us").await;
    until_decided(&eu, "there", 1).await.expect(201);
    let overspend = eu.get("/admin/v1/overspend").await.expect(200);
    assert_eq!(overspend.text("/bound"), "500");
    assert_eq!(overspend.text("/by_cause/failover"), "500");
    // One of the lost calls is made again before the old home is back.
    charge(&eu, "acme", "within-3", 100).await.expect(201);

    cluster.heal(US);
    let settled = |placed: &Value| placed["home"] == "eu" && placed["state"] == "settled";
    until_placed(&eu, settled).await;
    add_up(&eu, (answered + 1, 0), CREDITS).await;
    let overspend = eu.get("/admin/v1/overspend").await.expect(200);
    assert_eq!(overspend.text("/bound"), "0");
    // Those that were booked are known under their keys.
    let again = charge(&ap, "acme", "within-1", 100).await.expect(201);
    assert_eq!(again.header("idempotent-replayed"), "true");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_standby_is_waited_for_no_longer_than_its_silence() {
    let cluster = Cluster::of_regions_with_standbys().await;
    let [us, ap] = [US, AP].map(|place| cluster.caller(place, "root"));
    // A drop waits for Placement: it is led elsewhere from here on, so that it is there.
    cluster.cut(EU);
    let body = json!({ "tenant": "first", "home": "us" });
    let opening = async || us.post("/admin/v1/tenants", "first", &body).await;
    until_answered("Placement is led by others", opening).await.expect(201);
    cluster.heal(EU);
    open_followed(&us).await;
    cluster.cut(EU);
    // Waits until the standby is dropped, and not longer.
    charge(&us, "acme", "waits", 10).await.expect(201);
    until_placed(&us, |placed| !is_promotable(placed)).await;
    let refused = dry_run(&ap, "us").await;
    assert_eq!((&refused.body["taken_over"], &refused.body["left"]), (&json!(0), &json!(2)));
    charge(&us, "acme", "no wait", 10).await.expect(201);
    cluster.heal(EU);
    until_placed(&us, is_promotable).await;
    add_up(&us, (20, 0), CREDITS).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tail_of_which_nothing_is_heard_is_written_off() {
    let cluster = Cluster::of_regions_with_standbys().await;
    let [us, eu, ap] = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    open_followed(&us).await;
    let body = json!({ "unacknowledged_max": "500" });
    us.post("/admin/v1/tenants/acme/policy", "x", &body).await.expect(200);
    cluster.lose(US).await;
    take_over(&ap, "us").await;
    until_decided(&eu, "there", 1).await.expect(201);
    let tails = eu.get("/admin/v1/tenants/acme/tails").await.expect(200);
    assert_eq!((tails.text("/tails/0/region"), tails.text("/tails/0/set_aside")), ("us", "500"));
    let path = format!("/admin/v1/tenants/acme/tails/{}/write-off", tails.text("/tails/0/epoch"));
    let body = json!({ "reason": "its disks are gone", "dry_run": true });
    let seen = eu.post(&path, "look", &body).await.expect(200);
    let body = json!({ "reason": "its disks are gone", "confirm": seen.text("/confirm") });
    let first = eu.post(&path, "give up", &body).await.expect(200);
    let again = eu.post(&path, "give up", &body).await.expect(200);
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(again.body, first.body);
    let placed = until_placed(&eu, |placed| placed["state"] == "settled").await;
    assert_eq!(placed["lost"], json!([]));
    let overspend = eu.get("/admin/v1/overspend").await.expect(200);
    assert_eq!(overspend.text("/bound"), "0");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_that_is_alive_is_taken_over_with_every_account() {
    let cluster = Cluster::of_regions_with_standbys().await;
    let [us, eu] = [US, EU].map(|place| cluster.caller(place, "root"));
    open_followed(&us).await;
    let unit = |unit: &str| json!({ "tenant": "acme", "unit": unit });
    us.post("/admin/v1/tenants", "gpu", &unit("gpu")).await.expect(201);
    charge(&us, "acme", "before", 10).await.expect(201);
    let seen = dry_run(&us, "us").await;
    assert_eq!(seen.body["is_reachable"], true);
    take_over(&us, "us").await;
    // What is opened meanwhile is not taken for all that there is.
    eu.post("/admin/v1/tenants", "seconds", &unit("seconds")).await.expect(201);
    let settled = |placed: &Value| placed["home"] == "eu" && placed["state"] == "settled";
    until_placed(&us, settled).await;
    for caller in [&us, &eu] {
        let answer = until_decided(caller, "after", 5).await.expect(201);
        assert_eq!(decided_by(&answer), "region=eu, role=home");
        caller.get("/admin/v1/tenants/acme?unit=gpu").await.expect(200);
        caller.get("/admin/v1/tenants/acme?unit=seconds").await.expect(200);
    }
    add_up(&us, (15, 0), CREDITS).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_that_is_restarted_while_it_takes_over_goes_on_with_it() {
    let mut cluster = Cluster::of_regions_with_standbys().await;
    let [us, ap] = [US, AP].map(|place| cluster.caller(place, "root"));
    open_followed(&us).await;
    charge(&us, "acme", "before", 10).await.expect(201);
    cluster.cut(US);
    take_over(&ap, "us").await;
    cluster.crash(EU).await;
    let eu = cluster.caller(EU, "root");
    let answer = until_decided(&eu, "there", 100).await.expect(201);
    assert_eq!(decided_by(&answer), "region=eu, role=home");
    charge(&us, "acme", "lost", 1_000).await.expect_problem(504, "outcome_unknown");
    cluster.heal(US);
    let settled = |placed: &Value| placed["home"] == "eu" && placed["state"] == "settled";
    until_placed(&eu, settled).await;
    until_decided(&us, "again", 1).await.expect(201);
    add_up(&us, (111, 0), CREDITS).await;
    cluster.end().await;
}
