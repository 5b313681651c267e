//! Leases that run out: a region stops before home takes back, or goes on with its right, as was agreed.

use serde_json::json;

use crate::abroad::{
    ALLOCATIONS, EU, OVERSPEND, US, add_up, amount, charge, decided_by, make_local, of, open_in,
    settled, spend_alone, until_cut_off,
};
use crate::support::Cluster;
use crate::waiting::{read_until, wait_for};

/// What acme is granted.
const CREDITS: u64 = 10_000;

/// How much may be taken back unseen.
const CAP: u64 = 9_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_that_is_cut_off_stops_at_its_deadline_and_home_takes_back_within_the_cap() {
    let cluster = Cluster::of_regions().await;
    let [us, eu] = [US, EU].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", CREDITS).await;
    let policy = json!({ "takeback_cap": CAP.to_string() });
    us.post("/admin/v1/tenants/acme/policy", "policy", &policy).await.expect(200);
    let reported = make_local(&eu, "acme", "eu").await;
    settled(&us, "acme", "eu", reported).await;
    // A lease that began as a longer one is no longer for that.
    let order = json!({ "on_expiry": "take_back", "reason": "a short lease" });
    us.post(&format!("{ALLOCATIONS}/eu"), "order", &order).await.expect(200);
    let has_heard = |body: &serde_json::Value| of(body, "eu")["is_current"] == true;
    read_until(&us, ALLOCATIONS, has_heard).await;
    cluster.cut(EU);
    until_cut_off(&eu).await;
    let listed = us.get(ALLOCATIONS).await.expect(200);
    let out = of(&listed.body, "eu")["outstanding"].clone();
    // Its lease still runs.
    let holds = "/v1/tenants/acme/holds";
    let hold = eu.post(holds, "in time", &json!({ "amount": 1 })).await.expect(201);
    let brief = json!({ "amount": 1, "ttl_seconds": 10 });
    let brief = eu.post(holds, "brief", &brief).await.expect(201);
    charge(&eu, "acme", "unseen", 1).await.expect(201);

    cluster.pass(EU, 60);
    charge(&eu, "acme", "late", 1).await.expect_problem(503, "home_unreachable");
    // What was held in time may be captured, and no more than that.
    let path = format!("{holds}/{}/capture", hold.text("/hold_id"));
    let more = eu.post(&path, "more", &json!({ "amount": 2 })).await;
    more.expect_problem(503, "home_unreachable");
    // A hold that has ended since does not give its work the right to be charged.
    cluster.clock.advance(10);
    let over = format!("{holds}/{}/capture", brief.text("/hold_id"));
    let late = eu.post(&over, "over", &json!({ "if_expired": "charge" })).await;
    late.expect_problem(503, "home_unreachable");
    let captured = eu.post(&path, "capture", &json!({})).await.expect(200);
    assert_eq!(decided_by(&captured), "region=eu, role=allocation");

    cluster.pass(US, 61);
    let is_back = |body: &serde_json::Value| of(body, "eu")["status"] == "taken_back";
    let taken = read_until(&us, ALLOCATIONS, is_back).await;
    assert_eq!(of(&taken.body, "eu")["unresolved"], out);
    let overspend = us.get(&format!("{OVERSPEND}?region=us")).await.expect(200);
    assert_eq!((&overspend.body["bound"], &overspend.body["by_cause"]["taken_back"]), (&out, &out));
    assert!(amount(&out) <= CAP, "{out}");
    assert_eq!(overspend.text("/ceiling"), CAP.to_string());
    let balance = us.get("/v1/tenants/acme/balance").await.expect(200);
    assert_eq!(balance.text("/available"), (CREDITS - reported).to_string());

    cluster.heal(EU);
    read_until(&us, ALLOCATIONS, |body| of(body, "eu")["generation"] != "1").await;
    let mut used = reported + 2;
    add_up(&us, (used, 0), CREDITS).await;
    let overspend = us.get(&format!("{OVERSPEND}?region=us")).await.expect(200);
    assert_eq!((overspend.text("/bound"), overspend.text("/realised")), ("0", "0"));
    // And it goes on, under another allocation.
    let local = wait_for("eu decides again", async || {
        let answer = charge(&eu, "acme", &format!("again-{used}"), 1).await.expect(201);
        used += 1;
        if decided_by(&answer) == "region=eu, role=allocation" { Ok(answer) } else { Err(answer) }
    });
    let local = local.await;
    assert!(!local.text("/charge_id").ends_with("-1-eu"), "{local}");
    add_up(&us, (used, 0), CREDITS).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_that_keeps_its_right_spends_it_past_every_deadline_and_nothing_is_lost() {
    let cluster = Cluster::of_regions().await;
    let [us, eu] = [US, EU].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", CREDITS).await;
    let reported = make_local(&eu, "acme", "eu").await;
    settled(&us, "acme", "eu", reported).await;
    cluster.cut(EU);
    until_cut_off(&eu).await;
    let listed = us.get(ALLOCATIONS).await.expect(200);
    let right = of(&listed.body, "eu")["right"].clone();
    for place in [EU, US] {
        cluster.pass(place, 3_600);
    }
    assert_eq!(spend_alone(&eu, "acme").await, amount(&right));
    cluster.heal(EU);
    add_up(&us, (reported + amount(&right), 0), CREDITS).await;
    // Home has taken nothing back meanwhile: the allocation is the same, and open.
    let listed = us.get(ALLOCATIONS).await.expect(200);
    let kept = of(&listed.body, "eu");
    assert_eq!((&kept["generation"], &kept["status"]), (&json!("1"), &json!("open")));
    let overspend = us.get(&format!("{OVERSPEND}?region=us")).await.expect(200);
    assert_eq!((overspend.text("/bound"), overspend.text("/realised")), ("0", "0"));
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_that_restarts_under_take_back_spends_nothing_before_home_has_answered() {
    let mut cluster = Cluster::of_regions().await;
    let [us, eu] = [US, EU].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", CREDITS).await;
    let policy = json!({ "on_expiry": "take_back", "takeback_cap": CAP.to_string() });
    us.post("/admin/v1/tenants/acme/policy", "policy", &policy).await.expect(200);
    let mut used = make_local(&eu, "acme", "eu").await;
    settled(&us, "acme", "eu", used).await;
    cluster.cut(EU);
    cluster.crash(EU).await;
    let eu = cluster.caller(EU, "root");
    let refused = charge(&eu, "acme", "without a lease", 1).await;
    assert_eq!((refused.status, refused.text("/outcome")), (503, "nothing_happened"), "{refused}");
    cluster.heal(EU);
    wait_for("eu decides again", async || {
        let answer = charge(&eu, "acme", &format!("again-{used}"), 1).await;
        used += u64::from(answer.status == 201);
        if decided_by(&answer) == "region=eu, role=allocation" { Ok(()) } else { Err(answer) }
    })
    .await;
    add_up(&us, (used, 0), CREDITS).await;
    cluster.end().await;
}
