//! A home that moves: nobody is refused for it, nothing is decided twice, and every step may fail.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::abroad::{AP, EU, US, add_up, decided_by, have_lead_placement, open_in};
use crate::failovers::{is_promotable, open_followed};
use crate::support::{Answer, Caller, Cluster};
use crate::waiting::{read_until, until_status, wait_for};

/// What acme is granted.
const CREDITS: u64 = 100_000;

async fn charge(caller: &Caller, key: &str, consistency: &str) -> Answer {
    let body = json!({ "amount": 1, "consistency": consistency });
    caller.post("/v1/tenants/acme/charges", key, &body).await
}

async fn move_to(caller: &Caller, region: &str) -> Answer {
    let headers = [("content-type", "application/json")];
    let body = json!({ "to": region }).to_string();
    caller.raw("POST", "/admin/v1/tenants/acme/move", &headers, body.into()).await
}

async fn placement(caller: &Caller) -> Value {
    caller.get("/admin/v1/tenants/acme/move").await.expect(200).body
}

/// Asks for the placement until it is as wished.
async fn until_placed(caller: &Caller, is_it: impl Fn(&Value) -> bool) -> Value {
    read_until(caller, "/admin/v1/tenants/acme/move", is_it).await.body
}

/// Spends until the region decides by itself; gives how much that took.
async fn make_local(caller: &Caller, region: &str) -> u64 {
    let by = format!("region={region}, role=allocation");
    let mut number = 0;
    wait_for(format!("{region} decides by itself"), async || {
        number += 1;
        let answer = charge(caller, &format!("{region}-{number}"), "local").await.expect(201);
        if decided_by(&answer) == by { Ok(()) } else { Err(answer) }
    })
    .await;
    number
}

/// What goes on while a home moves.
#[derive(Default)]
struct Load {
    has_ended: AtomicBool,
    spent: AtomicU64,
}

impl Load {
    /// Spends one credit after the other, strictly and locally in turn. None may be refused.
    async fn spend(&self, caller: &Caller, prefix: &str) {
        for number in 0_u64.. {
            if self.has_ended.load(Ordering::Relaxed) {
                return;
            }
            let consistency = if number % 2 == 0 { "strict" } else { "local" };
            charge(caller, &format!("{prefix}-{number}"), consistency).await.expect(201);
            self.spent.fetch_add(1, Ordering::Relaxed);
            let read = caller.get("/v1/tenants/acme/balance").await.expect(200);
            assert_eq!(read.text("/debt"), "0");
        }
    }

    /// Moves the home while three callers spend; gives what they have spent.
    async fn move_under(callers: &[Caller; 3], to: &str, prefix: &str) -> u64 {
        let load = Self::default();
        let [us, eu, ap] = callers;
        let names = ["us", "eu", "ap"].map(|region| format!("{prefix}-{region}"));
        let moving = async {
            let moved = move_to(ap, to).await.expect(200);
            assert_eq!((moved.text("/home"), moved.text("/state")), (to, "settled"));
            load.has_ended.store(true, Ordering::Relaxed);
        };
        tokio::join!(
            load.spend(us, &names[0]),
            load.spend(eu, &names[1]),
            load.spend(ap, &names[2]),
            moving
        );
        load.spent.load(Ordering::Relaxed)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_moves_under_load_and_back_and_nobody_is_refused() {
    let cluster = Cluster::of_regions().await;
    let callers = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    let [us, eu, ap] = &callers;
    open_in(us, "acme", "us", CREDITS).await;
    let once = charge(us, "once", "strict").await.expect(201);
    let body = json!({ "amount": 10, "consistency": "strict" });
    let hold = us.post("/v1/tenants/acme/holds", "hold", &body).await.expect(201);
    let path = "/v1/tenants/acme/charges";
    let too_much = json!({ "amount": 10 * CREDITS, "consistency": "strict" });
    us.post(path, "refused", &too_much).await.expect_problem(402, "insufficient_credits");
    let mut spent = 1 + make_local(eu, "eu").await;
    let body = json!({ "amount": 1 });
    let regional = eu.post("/v1/tenants/acme/holds", "regional", &body).await.expect(201);
    assert_eq!(decided_by(&regional), "region=eu, role=allocation");
    let local = charge(eu, "local", "local").await.expect(201);
    assert_eq!(decided_by(&local), "region=eu, role=allocation");
    spent += 1 + Load::move_under(&callers, "eu", "there").await;
    let placed = placement(us).await;
    assert_eq!((&placed["home"], &placed["epoch"]), (&json!("eu"), &json!("2")));
    // What was decided before is answered as it was, by whoever decides now.
    for caller in &callers {
        let again = charge(caller, "once", "strict").await.expect(201);
        assert_eq!(again.bytes, once.bytes);
        assert_eq!(again.header("idempotent-replayed"), "true");
        assert_eq!(decided_by(&again), "region=us, role=home");
    }
    let again = ap.post(path, "refused", &too_much).await;
    let again = again.expect_problem(402, "insufficient_credits");
    assert_eq!(again.header("idempotent-replayed"), "true");
    let again = charge(eu, "local", "local").await.expect(201);
    assert_eq!(decided_by(&again), decided_by(&local));
    assert_eq!(again.bytes, local.bytes);
    // Holds go by the names that they were given.
    let name = hold.text("/hold_id");
    assert!(name.ends_with("-0-us"), "{name}");
    let path = format!("/v1/tenants/acme/holds/{name}/capture");
    let captured = ap.post(&path, "capture", &json!({})).await.expect(200);
    assert_eq!(decided_by(&captured), "region=eu, role=home");
    assert_eq!(captured.text("/hold_id"), name);
    spent += 10;
    let forged = path.replace("-0-us", "-0-eu");
    ap.post(&forged, "forged", &json!({})).await.expect_problem(404, "hold_not_found");
    let path = format!("/v1/tenants/acme/holds/{}/capture", regional.text("/hold_id"));
    let captured = us.post(&path, "capture-regional", &json!({})).await.expect(200);
    assert_eq!(decided_by(&captured), "region=eu, role=allocation");
    spent += 1;
    add_up(us, (spent, 0), CREDITS).await;
    // The new home has no allocation of its own.
    until_given_back(ap).await;
    spent += Load::move_under(&callers, "us", "back").await;
    let again = charge(ap, "once", "strict").await.expect(201);
    assert_eq!((again.bytes, again.status), (once.bytes, 201));
    let balance = add_up(eu, (spent, 0), CREDITS).await;
    assert_eq!(balance.text("/granted"), CREDITS.to_string());
    let strict = charge(eu, "last", "strict").await.expect(201);
    assert_eq!((decided_by(&strict), strict.header("purser-bound")), ("region=us, role=home", "0"));
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_to_a_region_that_is_cut_off_is_given_up() {
    let cluster = Cluster::of_regions().await;
    let [us, eu, ap] = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", CREDITS).await;
    charge(&us, "before", "strict").await.expect(201);
    cluster.cut(EU);
    // Who leads Placement may be cut off as well, and then it takes a while until somebody does.
    until_status(409, "a move to eu", async || move_to(&ap, "eu").await).await;
    let after = charge(&ap, "after", "strict").await.expect(201);
    assert_eq!(decided_by(&after), "region=us, role=home");
    cluster.heal(EU);
    let placed = until_placed(&eu, |placed| placed["state"] == "settled").await;
    assert_eq!(placed["home"], "us");
    add_up(&us, (2, 0), CREDITS).await;
    // It can be asked for again.
    until_status(200, "a move to eu", async || move_to(&us, "eu").await).await;
    let repeated = charge(&eu, "after", "strict").await.expect(201);
    assert_eq!(repeated.bytes, after.bytes);
    add_up(&eu, (2, 0), CREDITS).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_destination_is_brought_nothing_that_a_standby_of_the_home_lacks() {
    let cluster = Cluster::of_regions_with_standbys().await;
    let us = cluster.caller(US, "root");
    // Dropped with acme, and no later, when the standby is.
    open_in(&us, "abel", "us", CREDITS).await;
    open_followed(&us).await;
    let abel = "/admin/v1/tenants/abel/move";
    read_until(&us, abel, is_promotable).await;
    // The home does not hear it, and asks through the destination.
    have_lead_placement(&cluster, EU).await;
    let body = json!({ "unacknowledged_max": "500" });
    us.post("/admin/v1/tenants/acme/policy", "x", &body).await.expect(200);
    cluster.part(US, EU);
    // Answered within X: the standby lacks it, and could become home without it.
    charge(&us, "within x", "strict").await.expect(201);
    until_status(200, "a move to ap", async || move_to(&us, "ap").await).await;
    let placed = us.get(abel).await.expect(200).body;
    assert!(!is_promotable(&placed), "the move waited for nobody: {placed:#}");
    cluster.end().await;
}

/// Kills a node in the middle of a move, and checks how that ends.
async fn check_crash(place: usize) {
    let mut cluster = Cluster::of_regions().await;
    let [us, ap] = [US, AP].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", CREDITS).await;
    let before = charge(&us, "before", "strict").await.expect(201);
    let moving = move_to(&ap, "eu");
    let crashing = async {
        until_placed(&ap, |placed| placed["epoch"] != "1" || placed["state"] == "moving").await;
        cluster.crash(place).await;
    };
    tokio::join!(moving, crashing);
    for node in &cluster.nodes {
        node.connected().await;
    }
    let is_over = |placed: &Value| placed["state"] == "settled" && placed["epoch"] != "1";
    let placed = until_placed(&ap, is_over).await;
    let by = format!("region={}, role=home", placed["home"].as_str().unwrap());
    for (number, place) in [US, EU, AP].into_iter().enumerate() {
        let caller = cluster.caller(place, "root");
        let strict = charge(&caller, &format!("after-{number}"), "strict").await.expect(201);
        assert_eq!(decided_by(&strict), by);
        let again = charge(&caller, "before", "strict").await.expect(201);
        assert_eq!(again.bytes, before.bytes);
        add_up(&caller, (2 + u64::try_from(number).unwrap(), 0), CREDITS).await;
    }
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_ends_one_way_or_the_other_though_the_home_dies_in_it() {
    check_crash(US).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_ends_one_way_or_the_other_though_the_destination_dies_in_it() {
    check_crash(EU).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_that_opens_after_the_move_is_where_the_others_are() {
    let cluster = Cluster::of_regions().await;
    let [us, eu] = [US, EU].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", CREDITS).await;
    move_to(&us, "eu").await.expect(200);
    let moved = move_to(&us, "eu").await.expect(200);
    assert_eq!(moved.text("/epoch"), "2");
    let body = json!({ "tenant": "acme", "unit": "minutes" });
    let opened = us.post("/admin/v1/tenants", "minutes", &body).await.expect(201);
    assert_eq!((opened.text("/home"), decided_by(&opened)), ("eu", "region=eu, role=home"));
    move_to(&eu, "us").await.expect(200);
    let path = "/admin/v1/tenants/acme?unit=minutes";
    let shown = eu.get(path).await.expect(200);
    assert_eq!((shown.text("/home"), shown.text("/epoch")), ("us", "3"));
    cluster.end().await;
}

async fn until_given_back(caller: &Caller) {
    let is_back = |body: &Value| body["allocated"].get("eu").is_none_or(|out| out == "0");
    read_until(caller, "/v1/tenants/acme/balance", is_back).await;
}
