//! A lost home whose leader had changed at the very end: its log parts from what its standby has.

use serde_json::{Value, json};

use crate::abroad::open_in;
use crate::failovers::{is_promotable, take_over};
use crate::support::{Answer, Caller, Cluster};
use crate::waiting::{read_until, wait_for};

const EU: usize = 3;
const AP: usize = 4;

/// A tenant of group 0.
const TENANT: &str = "tenant-0";

/// Who leads group 0 of `us`, as a node there knows.
async fn leader(caller: &Caller) -> usize {
    let shown = caller.get("/admin/v1/cluster").await.expect(200);
    let group = shown.body["groups"].as_array().unwrap().iter().find(|it| it["group"] == 0);
    let leader = group.and_then(|group| group["leader"].as_u64());
    usize::try_from(leader.unwrap_or(0)).unwrap().wrapping_sub(1)
}

/// Charges strictly, with little time.
async fn charge(caller: &Caller, key: &str, amount: u64) -> Answer {
    let headers = [
        ("idempotency-key", key),
        ("content-type", "application/json"),
        ("purser-deadline-ms", "2000"),
    ];
    let body = json!({ "amount": amount, "consistency": "strict" }).to_string();
    let path = format!("/v1/tenants/{TENANT}/charges");
    caller.raw("POST", &path, &headers, body.into()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tail_that_parts_from_what_came_over_is_booked_from_where_it_does() {
    let cluster = Cluster::of_a_large_home().await;
    let [eu, ap] = [EU, AP].map(|place| cluster.caller(place, "root"));
    open_in(&cluster.caller(0, "root"), TENANT, "us", 1_000).await;
    let policy = format!("/admin/v1/tenants/{TENANT}/policy");
    ap.post(&policy, "x", &json!({ "unacknowledged_max": "500" })).await.expect(200);
    let placed = format!("/admin/v1/tenants/{TENANT}/move");
    read_until(&ap, &placed, is_promotable).await;
    charge(&ap, "before", 10).await.expect(201);

    // The leader reaches its standby, and nobody else in its region; the others only each other.
    let first = leader(&cluster.caller(0, "root")).await;
    let others: Vec<usize> = (0..3).filter(|place| *place != first).collect();
    for other in &others {
        for elsewhere in [EU, AP, first] {
            cluster.part(*other, elsewhere);
        }
    }
    let forked = charge(&cluster.caller(first, "root"), "forked", 3).await;
    forked.expect_problem(504, "outcome_unknown");
    let next = cluster.caller(others[0], "root");
    wait_for("the others elect a leader of theirs", async || {
        let seen = leader(&next).await;
        if others.contains(&seen) { Ok(()) } else { Err(format!("node {seen} leads")) }
    })
    .await;
    take_over(&ap, "us").await;
    // The next leader puts another entry in the place of that one.
    let later = charge(&cluster.caller(leader(&next).await, "root"), "later", 5).await;
    later.expect_problem(504, "outcome_unknown");

    for place in 0..5 {
        cluster.heal(place);
    }
    let settled = |placed: &Value| placed["home"] == "eu" && placed["state"] == "settled";
    read_until(&eu, &placed, settled).await;
    let tails = eu.get(&format!("/admin/v1/tenants/{TENANT}/tails")).await.expect(200);
    assert_eq!(tails.body, json!({ "tails": [] }));
    // What came over stands, and what may have been answered is booked: each once, and known by its key.
    let balance = eu.get(&format!("/v1/tenants/{TENANT}/balance")).await.expect(200);
    assert_eq!((balance.text("/used"), balance.text("/available")), ("18", "982"));
    for (key, amount) in [("forked", 3), ("later", 5)] {
        let again = charge(&eu, key, amount).await.expect(201);
        assert_eq!(again.header("idempotent-replayed"), "true");
    }
    cluster.end().await;
}
