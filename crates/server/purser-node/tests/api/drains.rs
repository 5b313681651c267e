//! A region that is drained: all homes go elsewhere, whoever asks, and whatever stands in the way is told.

use serde_json::{Value, json};

use crate::abroad::{AP, EU, US, open_in, strictly};
use crate::support::{Answer, Caller, Cluster, Unusual};
use crate::waiting::{read_until, until_status, wait_for};

const TENANTS: [&str; 6] = ["acme", "beta", "charlie", "delta", "echo", "foxtrot"];

/// Asks for `us` to be drained to another region, or wherever its tenants may go.
async fn drain(caller: &Caller, body: Value) -> Answer {
    let headers = [("content-type", "application/json")];
    caller.raw("POST", "/admin/v1/regions/us/drain", &headers, body.to_string().into()).await
}

/// How far draining `us` has come, once that is as wished. Whoever drains may be down for a while.
async fn until(caller: &Caller, is_it: impl Fn(&Value) -> bool) -> Value {
    read_until(caller, "/admin/v1/regions/us/drain", is_it).await.body
}

fn has_ended(seen: &Value) -> bool {
    seen["state"] == "ended"
}

async fn homes(caller: &Caller) -> Vec<String> {
    let mut homes = Vec::new();
    for tenant in TENANTS {
        let placed = caller.get(&format!("/admin/v1/tenants/{tenant}/move")).await.expect(200);
        homes.push(placed.text("/home").to_owned());
    }
    homes
}

/// Three regions; all tenants are at home in `us`.
async fn all_in_us() -> (Cluster, [Caller; 3]) {
    let cluster = Cluster::of_regions().await;
    let callers = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    for tenant in TENANTS {
        open_in(&callers[0], tenant, "us", 1_000).await;
    }
    (cluster, callers)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_is_drained_by_one_word_though_nobody_waits() {
    let (cluster, [us, eu, ap]) = all_in_us().await;
    open_in(&us, "stays", "ap", 1_000).await;
    let idle = until(&eu, |seen| seen["left"] == 6).await;
    assert_eq!((&idle["state"], &idle["moved"]), (&json!("idle"), &json!(0)));
    // Said twice, in two places, at once: one drain.
    let body = json!({ "to": "eu" });
    let (one, other) = tokio::join!(drain(&ap, body.clone()), drain(&eu, body));
    assert_eq!(
        (&one.expect(200).body["to"], &other.expect(200).body["to"]),
        (&json!("eu"), &json!("eu"))
    );
    let ended = until(&ap, has_ended).await;
    let figures = ["total", "moved", "left", "failed_count"].map(|name| ended[name].as_u64());
    assert_eq!(figures, [Some(6), Some(6), Some(0), Some(0)], "{ended:#}");
    assert_eq!(homes(&us).await, ["eu"; 6]);
    let stays = us.get("/admin/v1/tenants/stays/move").await.expect(200);
    assert_eq!((stays.text("/home"), stays.text("/epoch")), ("ap", "1"));
    strictly(&us, "after", 1).await.expect(201);
    // What has ended is not to be stopped.
    let stopped = eu.raw("POST", "/admin/v1/regions/us/drain/stop", &[], "".into()).await;
    assert_eq!(stopped.expect(200).body["state"], "ended");
    drain(&us, json!({ "to": "us" })).await.expect_problem(409, "placement_refused");
    drain(&us, json!({ "to": "mars" })).await.expect_problem(404, "region_not_found");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_cannot_be_moved_is_named_and_can_be_later() {
    let (cluster, [us, _, ap]) = all_in_us().await;
    cluster.cut(EU);
    // Until the region is known to be out of reach a move to it is tried, and given up.
    let ended = wait_for("eu is known to be out of reach", async || {
        drain(&us, json!({ "to": "eu" })).await.expect(200);
        let ended = until(&us, has_ended).await;
        let is_known = ended["failed"][0]["reason"] == "region eu cannot be reached";
        if is_known { Ok(ended) } else { Err(ended) }
    })
    .await;
    assert_eq!((&ended["left"], &ended["failed_count"]), (&json!(6), &json!(6)));
    assert_eq!(ended["failed"].as_array().unwrap().len(), 6);
    // Where nobody says where to, whoever is within reach will do.
    let ended = wait_for("all tenants have moved", async || {
        drain(&us, json!({})).await.expect(200);
        let ended = until(&us, has_ended).await;
        // Placement may have lost its leader with that region: then it is asked for again.
        if ended["left"] == 0 { Ok(ended) } else { Err(ended) }
    })
    .await;
    assert_eq!(ended.get("to"), None, "{ended:#}");
    assert_eq!(homes(&ap).await, ["ap"; 6]);
    cluster.heal(EU);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_whose_node_dies_is_only_to_be_asked_for_again() {
    let (mut cluster, [_, eu, ap]) = all_in_us().await;
    drain(&ap, json!({ "to": "eu" })).await.expect(200);
    cluster.crash(US).await;
    let idle = until(&ap, |seen| seen["state"] == "idle").await;
    assert_eq!(idle["moved"], 0);
    until_status(200, "a drain", async || drain(&ap, json!({ "to": "eu" })).await).await;
    let ended = until(&ap, has_ended).await;
    assert_eq!(ended["left"], 0, "{ended:#}");
    assert_eq!(homes(&eu).await, ["eu"; 6]);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_that_is_refused_because_homes_are_not_known_yet_has_not_begun() {
    let regions: Option<&[&str]> = Some(&["us", "eu", "ap"]);
    let cluster =
        Cluster::start_unusual(3, Unusual { regions, apart: true, ..Unusual::default() }).await;
    let us = cluster.caller(US, "root");
    let refused = drain(&us, json!({})).await.expect_problem(503, "not_ready");
    assert_eq!(refused.text("/outcome"), "nothing_happened");
    us.get("/admin/v1/regions/us/drain").await.expect_problem(503, "not_ready");
    for place in [US, EU, AP] {
        cluster.heal(place);
    }
    assert_eq!(until(&us, |_| true).await["state"], "idle");
    cluster.end().await;
}
