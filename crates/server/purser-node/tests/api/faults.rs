//! What whole nodes show of the failure table of regions: leaders that die, Placement without a quorum,
//! storage that is lost. The rest of the table is in `regions`, `allocations` and `failovers`.

use serde_json::json;

use crate::abroad::{AP, EU, US, add_up, charge, decided_by, make_local, open_in, strictly};
use crate::support::{Answer, Caller, Cluster};

/// What acme is granted.
const CREDITS: u64 = 10_000;

/// Places of nodes in [`Cluster::of_large_regions`].
const FIRST_IN_US: usize = 0;
const SECOND_IN_US: usize = 1;
const FIRST_IN_EU: usize = 3;
const SECOND_IN_EU: usize = 4;

/// Has a node lead everything in its region.
async fn have_lead(caller: &Caller, place: usize) {
    let shown = caller.get("/admin/v1/cluster").await.expect(200);
    let headers = [("content-type", "application/json")];
    for group in shown.body["groups"].as_array().unwrap() {
        let path = format!("/admin/v1/cluster/groups/{}/leader", group["group"]);
        let body = json!({ "node": place + 1 }).to_string();
        caller.raw("PUT", &path, &headers, body.into()).await.expect(200);
    }
}

/// Charges under one key until it is known what became of it. Fails with the test's time limit if it never
/// is.
async fn until_charged(caller: &Caller, key: &str) -> Answer {
    loop {
        let answer = charge(caller, "acme", key, 1).await;
        match answer.status {
            503 | 504 => (),
            _ => return answer.expect(201),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_whose_leader_dies_goes_on_with_its_right_after_an_election() {
    let cluster = Cluster::of_large_regions().await;
    let us = cluster.caller(FIRST_IN_US, "root");
    let eu = cluster.caller(SECOND_IN_EU, "root");
    open_in(&us, "acme", "us", CREDITS).await;
    have_lead(&cluster.caller(FIRST_IN_EU, "root"), FIRST_IN_EU).await;
    let mut used = make_local(&eu, "acme", "eu").await;
    cluster.lose(FIRST_IN_EU).await;
    for number in 0.. {
        let answer = until_charged(&eu, &format!("after-{number}")).await;
        used += 1;
        if decided_by(&answer) == "region=eu, role=allocation" {
            break;
        }
    }
    // Its successor knows what it has decided.
    let again = charge(&eu, "acme", "after-0", 1).await.expect(201);
    assert_eq!(again.header("idempotent-replayed"), "true");
    add_up(&us, (used, 0), CREDITS).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_whose_leader_dies_is_missed_by_nobody_who_spends_in_a_region() {
    let cluster = Cluster::of_large_regions().await;
    let us = cluster.caller(SECOND_IN_US, "root");
    let eu = cluster.caller(FIRST_IN_EU, "root");
    open_in(&us, "acme", "us", CREDITS).await;
    have_lead(&cluster.caller(FIRST_IN_US, "root"), FIRST_IN_US).await;
    let mut used = make_local(&eu, "acme", "eu").await;
    cluster.lose(FIRST_IN_US).await;
    let answer = charge(&eu, "acme", "meanwhile", 1).await.expect(201);
    assert_eq!(decided_by(&answer), "region=eu, role=allocation");
    let answer = until_charged(&us, "after").await;
    assert_eq!(decided_by(&answer), "region=us, role=home");
    used += 2;
    add_up(&us, (used, 0), CREDITS).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_quorum_of_placement_homes_and_regions_go_on() {
    let mut cluster = Cluster::of_regions().await;
    let [us, eu] = [US, EU].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", CREDITS).await;
    let mut used = make_local(&eu, "acme", "eu").await;
    cluster.lose(AP).await;
    cluster.cut(US);
    let answer = charge(&eu, "acme", "abroad", 1).await.expect(201);
    assert_eq!(decided_by(&answer), "region=eu, role=allocation");
    let answer = strictly(&us, "home", 1).await.expect(201);
    assert_eq!(decided_by(&answer), "region=us, role=home");
    used += 2;
    let open = json!({ "tenant": "other", "home": "us" });
    let refused = us.post("/admin/v1/tenants", "open", &open).await;
    assert!(matches!(refused.status, 503 | 504), "{:#}", refused.body);

    cluster.heal(US);
    cluster.bring_back(AP).await;
    loop {
        let opened = us.post("/admin/v1/tenants", "open", &open).await;
        if !matches!(opened.status, 503 | 504) {
            opened.expect(201);
            break;
        }
    }
    add_up(&us, (used, 0), CREDITS).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_that_has_lost_its_storage_spends_nothing_of_what_it_had() {
    let mut cluster = Cluster::of_regions().await;
    let us = cluster.caller(US, "root");
    let eu = cluster.caller(EU, "root");
    open_in(&us, "acme", "us", CREDITS).await;
    let mut used = make_local(&eu, "acme", "eu").await;
    add_up(&us, (used, 0), CREDITS).await;
    let allocations = "/admin/v1/tenants/acme/allocations";
    let first = |body: &serde_json::Value| {
        let items = body["items"].as_array().unwrap();
        let of_eu = |item: &&serde_json::Value| item["region"] == "eu" && item["generation"] == "1";
        items.iter().find(of_eu).map(|item| item["outstanding"].clone())
    };
    cluster.lose_storage(EU).await;
    cluster.nodes[EU].connected().await;
    // What the old book had stays out, and nobody spends it.
    let out = first(&us.get(allocations).await.expect(200).body);
    assert!(out.is_some());
    let eu = cluster.caller(EU, "root");
    for number in 0..10 {
        let answer = until_charged(&eu, &format!("after-{number}")).await;
        assert!(!answer.text("/charge_id").ends_with("-1-eu"), "{:#}", answer.body);
        used += 1;
    }
    add_up(&us, (used, 0), CREDITS).await;
    assert_eq!(first(&us.get(allocations).await.expect(200).body), out);
    let overspend = us.get("/admin/v1/overspend?region=us").await.expect(200);
    assert_eq!(overspend.text("/bound"), "0");
    cluster.end().await;
}
