//! What becomes of a node: killed, failed, left alone.

use std::sync::Arc;
use std::time::Duration;

use purser_node::LimitSettings;
use purser_raft::disk::{DiskFault, SimulatedDisk};
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::support::{Caller, Cluster, Unusual, open_with};
use crate::waiting::wait_for;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_node_knows_what_it_acknowledged() {
    let (mut cluster, caller) = Cluster::with_credits(100).await;
    let path = "/v1/tenants/acme/charges";
    for number in 0..10 {
        let key = format!("k{number}");
        caller.post(path, &key, &json!({ "amount": 1 })).await.expect(201);
    }
    cluster.crash(0).await;
    let caller = cluster.caller(0, "root");
    let balance = caller.get("/v1/tenants/acme/balance").await.expect(200);
    assert_eq!(balance.text("/available"), "90");
    let again = caller.post(path, "k9", &json!({ "amount": 1 })).await.expect(201);
    assert_eq!(again.header("idempotent-replayed"), "true");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_disk_fails_says_so_and_acknowledges_nothing() {
    let disk = SimulatedDisk::from_seed(1);
    let unusual = Unusual { disk: Some(Arc::new(disk.clone())), ..Unusual::default() };
    let cluster = Cluster::start_unusual(1, unusual).await;
    let caller = cluster.caller(0, "root");
    open_with(&caller, "acme", 100).await;

    disk.fail_at(disk.write_points(), DiskFault::InputOutput);
    let headers = [
        ("idempotency-key", "k1"),
        ("content-type", "application/json"),
        ("purser-deadline-ms", "500"),
    ];
    let body = json!({ "amount": 1 }).to_string();
    let charge = caller.raw("POST", "/v1/tenants/acme/charges", &headers, body.into()).await;
    assert!([503, 504].contains(&charge.status), "{:#}", charge.body);
    let failure = cluster.nodes[0].failed().await;
    assert_eq!(failure.task, "consensus", "{failure}");
    cluster.lose(0).await;
}

async fn sequence(caller: &Caller) -> String {
    let stale = caller.get("/v1/tenants/acme/balance?consistency=stale").await.expect(200);
    stale.text("/as_of/sequence").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_due_is_written_down_though_nobody_asks() {
    let sweep_every = Some(Duration::from_millis(5));
    let cluster = Cluster::start_unusual(1, Unusual { sweep_every, ..Unusual::default() }).await;
    let caller = cluster.caller(0, "root");
    open_with(&caller, "acme", 100).await;
    let body = json!({ "amount": 1, "ttl_seconds": 60 });
    caller.post("/v1/tenants/acme/holds", "k1", &body).await.expect(201);
    assert_eq!(sequence(&caller).await, "3");

    cluster.clock.advance(60);
    wait_for("the end of the hold is written down", async || {
        let last = sequence(&caller).await;
        if last == "4" { Ok(()) } else { Err(last) }
    })
    .await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_admin_api_may_have_a_port_of_its_own() {
    let unusual = Unusual { admin_apart: true, ..Unusual::default() };
    let cluster = Cluster::start_unusual(3, unusual).await;
    for (place, node) in cluster.nodes.iter().enumerate() {
        let addresses = node.addresses();
        let api = cluster.caller(place, "root");
        api.get("/admin/v1/cluster").await.expect_problem(404, "not_found");
        let admin = Caller::new(addresses.admin.unwrap(), "root");
        // Two of the three nodes ask another one, on its own admin port.
        open_with(&admin, &format!("t{place}"), 100).await;
        let path = format!("/v1/tenants/t{place}/balance");
        admin.get(&path).await.expect_problem(404, "not_found");
        let balance = api.get(&path).await.expect(200);
        assert_eq!(balance.text("/available"), "100");
    }
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_sends_nothing_is_closed() {
    let limits = LimitSettings {
        connections_max: 1,
        header_read: Duration::from_millis(100),
        ..LimitSettings::STANDARD
    };
    let unusual = Unusual { limits: Some(limits), ..Unusual::default() };
    let cluster = Cluster::start_unusual(1, unusual).await;
    let address = cluster.nodes[0].addresses().api;
    let mut silent = TcpStream::connect(address).await.unwrap();
    // There is room for one connection, so this one waits until the other is closed.
    cluster.caller(0, "").get("/livez").await.expect(200);
    let mut rest = Vec::new();
    silent.read_to_end(&mut rest).await.unwrap();
    assert!(rest.is_empty(), "{:?}", String::from_utf8_lossy(&rest));
    cluster.end().await;
}
