//! A region that is set back to a backup.

use std::fs;

use serde_json::{Value, json};

use crate::abroad::{ALLOCATIONS, EU, US, add_up, charge, make_local, open_in};
use crate::support::Cluster;
use crate::waiting::read_until;

const CREDITS: u64 = 1_000;

/// The first allocation of `eu`, in a list.
fn first(list: &Value) -> &Value {
    let mut items = list["items"].as_array().unwrap().iter();
    let is_first = |item: &&Value| item["region"] == "eu" && item["generation"] == "1";
    items.find(is_first).unwrap_or(&Value::Null)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_set_back_to_a_backup_spends_nothing_of_what_it_had() {
    let mut cluster = Cluster::of_regions().await;
    let us = cluster.caller(US, "root");
    open_in(&us, "acme", "us", CREDITS).await;
    let mut used = make_local(&cluster.caller(EU, "root"), "acme", "eu").await;
    add_up(&us, (used, 0), CREDITS).await;
    let folders = tempfile::tempdir().unwrap();
    let backup = folders.path().join("backup");
    cluster.meanwhile(EU, |dir| purser_node::back_up(dir, &backup).unwrap()).await;
    cluster.nodes[EU].connected().await;

    // Home hears nothing of what the region spends now, so nothing that it has booked shows what is lost.
    cluster.cut(EU);
    let eu = cluster.caller(EU, "root");
    let lost = charge(&eu, "acme", "lost", 7).await.expect(201);
    assert!(lost.text("/charge_id").ends_with("-1-eu"), "{:#}", lost.body);
    let out = first(&us.get(ALLOCATIONS).await.expect(200).body)["outstanding"].clone();
    cluster
        .meanwhile(EU, |dir| {
            fs::remove_dir_all(dir).unwrap();
            purser_node::restore(&backup, dir).unwrap();
        })
        .await;

    // Sealed before anything is served, also while home cannot be asked.
    let eu = cluster.caller(EU, "root");
    charge(&eu, "acme", "alone", 1).await.expect_problem(503, "home_unreachable");
    cluster.heal(EU);
    let sealed = |list: &Value| first(list)["status"] == "sealed";
    let listed = read_until(&us, ALLOCATIONS, sealed).await;
    assert_eq!(first(&listed.body)["outstanding"], out, "what it had is out and nobody's to spend");

    // The region goes on under a new one.
    cluster.nodes[EU].connected().await;
    for number in 0.. {
        let answer = charge(&eu, "acme", &format!("after-{number}"), 1).await;
        if answer.status == 503 {
            continue;
        }
        used += 1;
        if answer.expect(201).text("/charge_id").ends_with("-2-eu") {
            break;
        }
    }
    add_up(&us, (used, 0), CREDITS).await;
    // The lost charge was paid with what is out: nothing is overspent, whatever it was.
    let overspend = us.get("/admin/v1/overspend?region=us").await.expect(200);
    assert_eq!((overspend.text("/bound"), overspend.text("/ceiling")), ("0", "0"));

    // The backup was dealt with once: a restart seals nothing more.
    cluster.crash(EU).await;
    let listed = us.get(ALLOCATIONS).await.expect(200);
    let items = listed.body["items"].as_array().unwrap();
    let statuses: Vec<&Value> = items.iter().map(|item| &item["status"]).collect();
    assert_eq!(statuses, [&json!("sealed"), &json!("open")]);
    cluster.end().await;
}
