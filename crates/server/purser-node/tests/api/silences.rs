//! Regions of which nothing is heard: failed over without being asked, where that is configured, and only by
//! whoever leads Placement and is not cut off himself.

use serde_json::{Value, json};

use crate::abroad::{
    AP, EU, REGIONS, US, add_up, charge, decided_by, have_lead_placement, make_local, open_in,
    placement_leader,
};
use crate::failovers::{
    CREDITS, dry_run, fail_over, is_promotable, open_followed, take_over, until_decided,
    until_placed,
};
use crate::support::{Caller, Cluster};
use crate::waiting::{read_until, wait_for};

/// After how many seconds of silence: less than a file may say, because tests wait for it.
const PATIENCE: u64 = 3;

/// A silence that would be long enough for all that it takes to notice one, several times over.
const LONG_MS: u64 = 12_000;

/// What a node says of a region.
fn of<'a>(regions: &'a Value, name: &str) -> &'a Value {
    let all = regions["regions"].as_array().unwrap().iter();
    all.clone().find(|region| region["region"] == name).unwrap_or(&Value::Null)
}

/// Waits until a node has not heard a region for long.
async fn until_long_unheard(caller: &Caller, region: &str) {
    let is_long = |body: &Value| of(body, region)["heard_age_ms"].as_u64() >= Some(LONG_MS);
    read_until(caller, REGIONS, is_long).await;
}

/// Who is home of a tenant under which epoch, as a node knows it.
async fn home_of(caller: &Caller, tenant: &str) -> (String, String) {
    let placed = caller.get(&format!("/admin/v1/tenants/{tenant}/move")).await.expect(200);
    (placed.text("/home").to_owned(), placed.text("/epoch").to_owned())
}

fn in_first(home: &str) -> (String, String) {
    (home.to_owned(), "1".to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_region_is_failed_over_without_being_asked_and_the_figures_explain_every_credit() {
    let cluster = Cluster::that_fails_over_after(PATIENCE).await;
    let [us, eu, ap] = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    open_followed(&us).await;
    let body = json!({ "unacknowledged_max": "500" });
    us.post("/admin/v1/tenants/acme/policy", "x", &body).await.expect(200);
    let mut used = make_local(&ap, "acme", "ap").await;
    // It finds out what the standby has; what comes later counts under X.
    charge(&us, "acme", "before", 10).await.expect(201);
    // The standby keeps the policy, and shows what it means once it has applied it.
    wait_for("the dry run tells X", async || {
        let seen = dry_run(&ap, "us").await;
        let is_told = (seen.text("/at_stake"), &seen.body["taken_over"]) == ("500", &json!(1));
        if is_told { Ok(()) } else { Err(seen) }
    })
    .await;
    cluster.cut(US);
    for number in 0..4 {
        charge(&us, "acme", &format!("within-{number}"), 100).await.expect(201);
    }
    used += 10 + 400;
    // Other regions go on with what they have.
    let answer = charge(&ap, "acme", "meanwhile", 1).await.expect(201);
    assert_eq!(decided_by(&answer), "region=ap, role=allocation");
    used += 1;

    until_placed(&ap, |placed| placed["home"] == "eu").await;
    let answer = until_decided(&ap, "after", 5).await.expect(201);
    assert_eq!(decided_by(&answer), "region=eu, role=home");
    used += 5;
    let overspend = eu.get("/admin/v1/overspend").await.expect(200);
    assert_eq!(overspend.text("/by_cause/failover"), "500");
    let leader = cluster.caller(placement_leader(&eu).await, "root");
    let told = read_until(&leader, REGIONS, |body| of(body, "us")["failed_over"].is_object()).await;
    let done = &of(&told.body, "us")["failed_over"];
    assert_eq!((&done["to"], &done["taken_over"]), (&json!(["eu"]), &json!(1)));
    assert_eq!((&done["left"], &done["at_stake"]), (&json!(0), &json!("500")));
    assert!(done["after_ms"].as_u64() >= Some(PATIENCE * 1_000), "{done}");

    // What the old home had answered is booked when it is back, and nothing is failed over again.
    cluster.heal(US);
    let settled = |placed: &Value| placed["home"] == "eu" && placed["state"] == "settled";
    until_placed(&us, settled).await;
    add_up(&us, (used, 0), CREDITS).await;
    let overspend = us.get("/admin/v1/overspend").await.expect(200);
    assert_eq!((overspend.text("/bound"), overspend.text("/realised")), ("0", "0"));
    assert_eq!(home_of(&us, "acme").await, ("eu".to_owned(), "2".to_owned()));
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_that_anybody_hears_is_not_silent() {
    let cluster = Cluster::that_fails_over_after(PATIENCE).await;
    let [us, eu, ap] = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    have_lead_placement(&cluster, AP).await;
    open_followed(&us).await;
    // Whoever counts hears nothing, but a third region does.
    cluster.part(US, AP);
    until_long_unheard(&ap, "us").await;
    assert_eq!(placement_leader(&ap).await, AP);
    let told = ap.get(REGIONS).await.expect(200);
    let us_there = of(&told.body, "us");
    assert_eq!((&us_there["silent_ms"], &us_there["failed_over"]), (&Value::Null, &Value::Null));
    assert_eq!(home_of(&eu, "acme").await, in_first("us"));
    // Once nobody does, it is.
    cluster.part(US, EU);
    until_placed(&ap, |placed| placed["home"] == "eu").await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_that_only_its_standby_does_not_hear_is_not_failed_over_nor_whom_nobody_can_take_over()
 {
    let cluster = Cluster::that_fails_over_after(PATIENCE).await;
    let [us, eu, ap] = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    have_lead_placement(&cluster, AP).await;
    open_followed(&us).await;
    cluster.part(US, EU);
    charge(&us, "acme", "waits until it is dropped", 10).await.expect(201);
    until_placed(&us, |placed| !is_promotable(placed)).await;
    until_long_unheard(&eu, "us").await;
    for caller in [&eu, &ap] {
        let told = caller.get(REGIONS).await.expect(200);
        assert_eq!(of(&told.body, "us")["failed_over"], Value::Null);
    }
    assert_eq!(home_of(&ap, "acme").await, in_first("us"));
    // When it is lost then, its standby lacks something: acme stays, and is named.
    cluster.cut(US);
    let told = read_until(&ap, REGIONS, |body| of(body, "us")["failed_over"].is_object()).await;
    let done = &of(&told.body, "us")["failed_over"];
    assert_eq!((&done["taken_over"], &done["left"]), (&json!(0), &json!(1)));
    assert_eq!(done["left_tenants"], json!(["acme"]));
    let asked = fail_over(&ap, "us", json!({ "dry_run": true })).await.expect(200);
    assert_eq!((&asked.body["left"], &asked.body["left_tenants"]), (&json!(1), &json!(["acme"])));
    assert_eq!(home_of(&ap, "acme").await, in_first("us"));
    cluster.heal(US);
    until_placed(&us, is_promotable).await;
    add_up(&us, (10, 0), CREDITS).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_fails_nobody_over_and_is_failed_over_itself() {
    let names = ["us", "eu", "ap"];
    let cluster = Cluster::that_fails_over_after(PATIENCE).await;
    let callers = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    for name in names {
        let tenant = format!("of-{name}");
        open_in(&callers[US], &tenant, name, CREDITS).await;
        let path = format!("/admin/v1/tenants/{tenant}/move");
        read_until(&callers[US], &path, is_promotable).await;
    }
    let leader = placement_leader(&callers[US]).await;
    let standby = (leader + 1) % names.len();
    let own = format!("/admin/v1/tenants/of-{}/move", names[leader]);
    cluster.cut(leader);
    read_until(&callers[standby], &own, |placed| placed["home"] == names[standby]).await;
    until_long_unheard(&callers[leader], names[standby]).await;
    let told = callers[leader].get(REGIONS).await.expect(200);
    cluster.heal(leader);
    read_until(&callers[leader], &own, |placed| placed["home"] == names[standby]).await;
    let after = callers[leader].get(REGIONS).await.expect(200);
    for other in (0..names.len()).filter(|other| *other != leader) {
        let (told, after) = (of(&told.body, names[other]), of(&after.body, names[other]));
        assert_eq!((&told["silent_ms"], &after["failed_over"]), (&Value::Null, &Value::Null));
        let home = home_of(&callers[leader], &format!("of-{}", names[other])).await;
        assert_eq!(home, in_first(names[other]));
    }
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_leads_placement_next_counts_a_silence_anew() {
    const COUNTED_MS: u64 = 8_000;
    let mut cluster = Cluster::that_fails_over_after(600).await;
    have_lead_placement(&cluster, EU).await;
    let [eu, ap] = [EU, AP].map(|place| cluster.caller(place, "root"));
    cluster.cut(US);
    let has_counted = |body: &Value| of(body, "us")["silent_ms"].as_u64() >= Some(COUNTED_MS);
    read_until(&eu, REGIONS, has_counted).await;
    cluster.crash(EU).await;
    let eu = cluster.caller(EU, "root");
    let first = wait_for("the next leader counts", async || {
        for caller in [&eu, &ap] {
            let told = caller.get(REGIONS).await.expect(200);
            if let Some(silent) = of(&told.body, "us")["silent_ms"].as_u64() {
                return Ok(silent);
            }
        }
        Err("nobody counts")
    });
    assert!(first.await < COUNTED_MS);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_failed_over_unasked_where_that_is_not_configured() {
    let cluster = Cluster::of_regions_with_standbys().await;
    let [us, eu, ap] = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    open_followed(&us).await;
    charge(&us, "acme", "before", 10).await.expect(201);
    cluster.cut(US);
    for caller in [&eu, &ap] {
        until_long_unheard(caller, "us").await;
        let told = caller.get(REGIONS).await.expect(200);
        assert_eq!(
            (&told.body["failover_after_ms"], &of(&told.body, "us")["silent_ms"]),
            (&Value::Null, &Value::Null)
        );
    }
    let done = take_over(&ap, "us").await;
    assert_eq!((&done.body["taken_over"], &done.body["at_stake"]), (&json!(1), &json!("0")));
    cluster.end().await;
}
