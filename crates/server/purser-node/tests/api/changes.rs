//! Changes: every entry is told, in order, once it cannot be undone; from any cursor, by any node.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::abroad::{AP, EU, US, charge, strictly};
use crate::failovers::{open_followed, take_over, until_decided, until_placed};
use crate::support::{Caller, Cluster, open_with};
use crate::waiting::wait_for;

/// Reads on until there is nothing more so far; gives what was told, and the cursor behind it.
async fn read_on(caller: &Caller, from: Option<&str>, limit: usize) -> (Vec<Value>, String) {
    let mut told = Vec::new();
    let mut path = format!("/v1/changes?limit={limit}");
    if let Some(from) = from {
        path = format!("{path}&from={from}");
    }
    loop {
        let page = caller.get(&path).await.expect(200);
        told.extend(page.body["items"].as_array().unwrap().iter().cloned());
        let next = page.text("/next").to_owned();
        if page.body["has_more"] == false {
            return (told, next);
        }
        path = format!("/v1/changes?limit={limit}&from={next}");
    }
}

/// The entries that were told of each tenant, by their hashes.
fn by_tenant(told: &[Value]) -> BTreeMap<String, Vec<String>> {
    let mut tenants: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for change in told {
        let hash = change["entry"]["hash"].as_str().unwrap().to_owned();
        tenants.entry(change["tenant"].as_str().unwrap().to_owned()).or_default().push(hash);
    }
    tenants
}

/// The hashes of all entries of a tenant, oldest first.
async fn entries_of(caller: &Caller, tenant: &str) -> Vec<String> {
    let path = format!("/v1/tenants/{tenant}/entries?limit=1000");
    let listed = caller.get(&path).await.expect(200);
    let items = listed.body["items"].as_array().unwrap().iter().rev();
    items.map(|entry| entry["hash"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_entry_is_told_once_and_in_order_by_any_node_in_pages_of_any_size() {
    let cluster = Cluster::start(3).await;
    let tenants: Vec<String> = (0..6).map(|number| format!("t{number}")).collect();
    for tenant in &tenants {
        open_with(&cluster.caller(0, "root"), tenant, 100).await;
        for key in ["a", "b", "c"] {
            charge(&cluster.caller(1, "root"), tenant, key, 1).await.expect(201);
        }
    }
    let mut cursor = String::new();
    for (place, limit) in [(0, 1), (1, 7), (2, 1000)] {
        let caller = cluster.caller(place, "root");
        let (told, next) = read_on(&caller, None, limit).await;
        let told = by_tenant(&told);
        assert_eq!(told.len(), tenants.len());
        for tenant in &tenants {
            assert_eq!(told[tenant], entries_of(&caller, tenant).await, "{tenant}, {limit} a page");
        }
        cursor = next;
    }
    // One cursor goes on at any node, and a call waits for what has not happened yet.
    let waiting = cluster.caller(2, "root");
    let path = format!("/v1/changes?wait_seconds=8&from={cursor}");
    let caller = cluster.caller(0, "root");
    let (told, charged) = tokio::join!(waiting.get(&path), charge(&caller, "t3", "awaited", 7));
    let (told, charged) = (told.expect(200), charged.expect(201));
    assert_eq!(told.text("/items/0/tenant"), "t3");
    assert_eq!(told.text("/items/0/entry/charge_id"), charged.text("/charge_id"));
    assert_eq!(told.text("/items/0/id"), "t3/credits/1/6/0");
    assert_eq!(read_on(&caller, Some(told.text("/next")), 10).await.0, Vec::<Value>::new());
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_is_none_of_another_list_and_an_altered_one_is_refused() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let (_, cursor) = read_on(&caller, None, 10).await;
    let holds = format!("/v1/tenants/acme/holds?cursor={cursor}");
    caller.get(&holds).await.expect_problem(400, "invalid_cursor");
    for path in [
        format!("/v1/changes?shard=0&from={cursor}"),
        format!("/v1/changes?from=A{cursor}"),
        "/v1/changes?from=AAAA".to_owned(),
    ] {
        caller.get(&path).await.expect_problem(400, "invalid_cursor");
    }
    caller.get("/v1/changes?shard=9999").await.expect_problem(404, "not_found");
    caller.get("/v1/changes?wait_seconds=9").await.expect_problem(400, "invalid_request");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_lost_home_could_take_with_it_is_not_told() {
    let cluster = Cluster::of_regions_with_standbys().await;
    let [us, eu, ap] = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    open_followed(&us).await;
    let body = json!({ "unacknowledged_max": "500" });
    us.post("/admin/v1/tenants/acme/policy", "x", &body).await.expect(200);
    charge(&us, "acme", "before", 10).await.expect(201);
    let all = |told: &[Value]| by_tenant(told).remove("acme").unwrap_or_default();
    let known = wait_for("all that happened is told", async || {
        let (told, _) = read_on(&us, None, 100).await;
        let (told, known) = (all(&told), entries_of(&us, "acme").await);
        if told == known { Ok(told) } else { Err(format!("{} of {}", told.len(), known.len())) }
    })
    .await;
    cluster.cut(US);
    // Answered within X, and nobody else has it.
    charge(&us, "acme", "within x", 100).await.expect(201);
    take_over(&ap, "us").await;
    until_decided(&eu, "after", 5).await.expect(201);
    assert_eq!(all(&read_on(&us, None, 100).await.0), known);

    cluster.heal(US);
    until_placed(&eu, |placed| placed["home"] == "eu" && placed["state"] == "settled").await;
    strictly(&eu, "at last", 1).await.expect(201);
    // The new home tells all of it, what it brought along first; the old one nothing any more.
    let told = wait_for("the new home has told everything", async || {
        let (told, _) = read_on(&eu, None, 3).await;
        let same = all(&told) == entries_of(&eu, "acme").await;
        if same { Ok(told) } else { Err(format!("{} entries", told.len())) }
    })
    .await;
    let ids: Vec<&str> = told.iter().map(|change| change["id"].as_str().unwrap()).collect();
    let before = known.len();
    assert_eq!(ids[before - 1], format!("acme/credits/1/{before}/0"));
    assert_eq!(ids[before], format!("acme/credits/2/{}/0", before + 1));
    assert_eq!(all(&read_on(&us, None, 100).await.0), Vec::<String>::new());
    cluster.end().await;
}
