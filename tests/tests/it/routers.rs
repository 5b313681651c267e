//! `purser router` as a process of its own, in front of the three regions of `purser dev`.

use std::time::Duration;

use purser_tests::{Account, Api, Dev, Load, Reply, fresh_key, leaders, wait_for};
use serde_json::json;

const DEADLINE: Duration = Duration::from_secs(60);

/// Charges strictly through the router, under one key, until that is decided.
async fn charge_strictly(router: &Api, tenant: &str) -> Reply {
    let (path, key) = (format!("/v1/tenants/{tenant}/charges"), fresh_key());
    let body = json!({ "amount": 1, "consistency": "strict" });
    wait_for(format!("{tenant} is charged"), DEADLINE, async || {
        let reply = router.try_post(&path, &key, &body).await.expect("a router always answers");
        (reply.status < 500).then_some(reply)
    })
    .await
}

/// The node that leads the first shard of the region whose nodes' ports begin so far above the front
/// door: how `purser dev` names it.
async fn a_leader(dev: &Dev, region: &str, distance: u16) -> String {
    let leader = wait_for(format!("somebody leads in {region}"), DEADLINE, async || {
        leaders(&dev.node(distance)).await.into_values().next()
    })
    .await;
    // Its id is 21 for eu/1.
    format!("{region}/{}", leader - u64::from(distance))
}

#[tokio::test]
async fn a_router_alone_is_all_that_callers_need_whichever_node_is_killed() {
    let mut dev = Dev::start(&["--nodes", "3"]);
    dev.banner().await;
    dev.wait_until_ready().await;
    let router = dev.router("eu", 3, |_, _| None).await;
    let api = router.api();
    // At home in the router's region, so that all is decided there and stands in that ledger.
    let near = vec![Account::open(&api, "near", 1_000_000).await];
    let opened = json!({ "tenant": "far", "home": "us" });
    api.post("/admin/v1/tenants", &fresh_key(), &opened).await.check(201);
    let far = Account { api: api.clone(), tenant: "far".to_owned() };
    far.grant(1_000).await;

    let load = Load::start(4, std::slice::from_ref(&api), &near);
    for (region, distance) in [("eu", 20), ("us", 10)] {
        load.wait_for_calls(20).await;
        let name = a_leader(&dev, region, distance).await;
        dev.control(&["kill", &name]).await.check_code(0);
        let charged = charge_strictly(&api, "far").await;
        assert_eq!(charged.check(201).header("purser-decided-by"), Some("region=us, role=home"));
        load.wait_for_calls(50).await;
        dev.control(&["start", &name]).await.check_code(0);
    }
    let record = load.finish().await;
    println!("nodes killed behind a router: {record}");
    record.check_against(&near).await;
    assert_eq!(far.figures().await.used, 2);

    assert_eq!(router.stop().await.code(), Some(0));
    dev.stop().await;
}

#[tokio::test]
async fn a_router_that_gets_its_own_calls_back_gives_them_up() {
    let mut dev = Dev::start(&["--nodes", "1"]);
    dev.banner().await;
    dev.wait_until_ready().await;
    // Whoever wrote its configuration took the router's address for that of the nodes.
    let router = dev.router("eu", 1, |_, router| Some(router)).await;
    let item = json!({ "op": "charge", "tenant": "acme", "idempotency_key": "k", "amount": 1 });
    let refused = router.api().post("/v1/batch", &fresh_key(), &json!({ "items": [item] })).await;
    refused.check_problem(503, "not_ready");
    assert_eq!(refused.text("outcome"), "nothing_happened");
    // It came from outside once, and from itself as often as a call may be passed on.
    let metrics = router.api().get("/metrics").await;
    let lines = metrics.check(200).body.as_str().expect("text").lines();
    let of_batches = lines.filter(|line| {
        line.starts_with("purser_requests_total{") && line.contains("operation=\"batch\"")
    });
    let counts = of_batches.map(|line| line.rsplit(' ').next().expect("a count").to_owned());
    let counts: Vec<u64> = counts.map(|count| count.parse().expect("a number")).collect();
    assert_eq!(counts.iter().sum::<u64>(), 6, "{counts:?}");
    assert_eq!(router.stop().await.code(), Some(0));
    dev.stop().await;
}
