//! Three nodes: any of them answers, one may go, and what all of them tell.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Cluster, Unusual, open_with};
use crate::waiting::{read_until, wait_for};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_node_answers_for_any_tenant() {
    let cluster = Cluster::start(3).await;
    let tenants = ["acme", "beta", "charlie", "delta"];
    for (place, tenant) in tenants.iter().enumerate() {
        open_with(&cluster.caller(place % 3, "root"), tenant, 100).await;
    }
    for place in 0..3 {
        let caller = cluster.caller(place, "root");
        for tenant in tenants {
            let key = format!("k{place}");
            let path = format!("/v1/tenants/{tenant}/charges");
            let charge = caller.post(&path, &key, &json!({ "amount": 1 })).await.expect(201);
            assert_eq!(charge.header("purser-decided-by"), "region=us, role=home");
            assert_eq!(charge.header("content-type"), "application/json");
            let balance = caller.get(&format!("/v1/tenants/{tenant}/balance")).await.expect(200);
            assert_eq!(balance.text("/available"), (99 - place).to_string());
        }
    }
    // The key is known wherever it is sent again.
    let path = "/v1/tenants/acme/charges";
    let again = cluster.caller(2, "root").post(path, "k0", &json!({ "amount": 1 })).await;
    assert_eq!(again.expect(201).header("idempotent-replayed"), "true");
    // A refusal comes through as it was given, with the id of the request.
    let headers = [
        ("idempotency-key", "k9"),
        ("content-type", "application/json"),
        ("request-id", "find-me"),
    ];
    for place in 0..3 {
        let caller = cluster.caller(place, "root");
        let poor = caller.raw("POST", path, &headers, r#"{"amount":1000}"#.into()).await;
        let poor = poor.expect_problem(402, "insufficient_credits");
        assert_eq!(poor.text("/request_id"), "find-me");
        assert_eq!(poor.header("request-id"), "find-me");
    }
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_goes_to_all_leaders_and_comes_back_in_order() {
    let cluster = Cluster::start(3).await;
    let tenants: Vec<String> = (0..8).map(|number| format!("t{number}")).collect();
    for tenant in &tenants {
        open_with(&cluster.caller(0, "root"), tenant, 100).await;
    }
    let item = |tenant: &String| json!({ "op": "charge", "tenant": tenant, "idempotency_key": "k", "amount": 1 });
    let items: Vec<Value> = tenants.iter().map(item).collect();
    let body = json!({ "items": items }).to_string();
    for place in 0..3 {
        let headers = [("content-type", "application/json")];
        let caller = cluster.caller(place, "root");
        let answer =
            caller.raw("POST", "/v1/batch", &headers, body.clone().into()).await.expect(200);
        let results = answer.body["results"].as_array().unwrap();
        for (result, tenant) in results.iter().zip(&tenants) {
            assert_eq!(result["status"], 201);
            assert_eq!(result["body"]["tenant"].as_str(), Some(tenant.as_str()));
            assert_eq!(result["replayed"], place > 0);
        }
    }
    cluster.end().await;
}

/// Reads until `end` has come.
async fn receive(stream: &mut TcpStream, end: &str) -> String {
    let mut text = Vec::new();
    while !String::from_utf8_lossy(&text).contains(end) {
        let read = stream.read_buf(&mut text).await.unwrap();
        assert_ne!(read, 0, "closed after {:?}", String::from_utf8_lossy(&text));
    }
    String::from_utf8(text).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_shuts_down_finishes_what_it_has_and_hands_over() {
    let mut cluster = Cluster::start(3).await;
    open_with(&cluster.caller(0, "root"), "acme", 100).await;
    let shown = cluster.caller(0, "root").get("/admin/v1/cluster").await.expect(200);
    let leader = shown.body["groups"][0]["leader"].as_u64().unwrap();
    let leaving = cluster.nodes.remove(usize::try_from(leader - 1).unwrap());
    let address = leaving.addresses().api;

    // A request is in flight: the node has asked for its body.
    let body = r#"{"amount":1}"#;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /v1/tenants/acme/charges HTTP/1.1\r\nhost: purser\r\nauthorization: Bearer root\r\n\
         idempotency-key: k1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         expect: 100-continue\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    receive(&mut stream, "100 Continue\r\n\r\n").await;

    let finishing = async {
        // The node no longer accepts, so it is shutting down.
        wait_for("the node does not accept", async || {
            if TcpStream::connect(address).await.is_ok() { Err("it does") } else { Ok(()) }
        })
        .await;
        stream.write_all(body.as_bytes()).await.unwrap();
        let answer = receive(&mut stream, "\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    };
    tokio::join!(finishing, leaving.shutdown(Duration::from_secs(20)));

    let balance = cluster.caller(0, "root").get("/v1/tenants/acme/balance").await.expect(200);
    assert_eq!(balance.text("/available"), "99");
    cluster.end().await;
}

/// Which node leads group 0, and which of the others to ask about it.
async fn leader_and_other(cluster: &Cluster) -> (usize, usize) {
    let shown = cluster.caller(0, "root").get("/admin/v1/cluster").await.expect(200);
    let leader = usize::try_from(shown.body["groups"][0]["leader"].as_u64().unwrap()).unwrap() - 1;
    (leader, (leader + 1) % 3)
}

/// A tenant of group 0, which was opened by that group's leader.
const OF_GROUP_0: &str = "tenant-0";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_majority_nothing_happens_and_the_caller_is_told() {
    let cluster = Cluster::start(3).await;
    let (leader, other) = leader_and_other(&cluster).await;
    open_with(&cluster.caller(leader, "root"), OF_GROUP_0, 100).await;
    let caller = cluster.caller(other, "root");
    let balance = format!("/v1/tenants/{OF_GROUP_0}/balance");
    let stale = format!("{balance}?consistency=stale");
    read_until(&caller, &stale, |body| body["available"] == "100").await;
    cluster.nodes[leader].kill().await;
    cluster.nodes[3 - leader - other].kill().await;

    let path = format!("/v1/tenants/{OF_GROUP_0}/charges");
    let charge = caller.post(&path, "k1", &json!({ "amount": 1 })).await;
    let charge = charge.expect_problem(503, "not_ready");
    assert_eq!(charge.text("/outcome"), "nothing_happened");
    assert_eq!(charge.header("retry-after"), "1");
    caller.get(&balance).await.expect_problem(503, "not_ready");

    // A stale read tells how old it is, though nobody is left to compare clocks with and its own is
    // set back, and does not say of what it does not know that it is not there.
    cluster.clock.advance(60);
    for set_back in [0, 40] {
        cluster.clock.set_back(set_back);
        for path in [stale.clone(), format!("{stale}&at_sequence=2")] {
            let seen = caller.get(&path).await.expect(200);
            assert_eq!(seen.text("/available"), "100");
            assert_eq!(seen.body["age_ms"], 60_000);
            assert_eq!(seen.header("purser-age-ms"), "60000");
        }
    }
    let nobody = "/v1/tenants/nobody/balance?consistency=stale".to_owned();
    for path in [format!("{stale}&at_sequence=3"), nobody] {
        let headers = [("purser-deadline-ms", "200")];
        let unknown = caller.raw("GET", &path, &headers, "".into()).await;
        unknown.expect_problem(503, "not_ready");
    }
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_have_arrived_elsewhere_is_unknown_and_not_sent_again() {
    // Takes requests and hangs up, as a leader does that dies at the wrong moment.
    let dying = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let others_api = Some(dying.local_addr().unwrap());
    let taken = tokio::task::JoinSet::from_iter([async move {
        let mut requests = Vec::new();
        while requests.len() < 2 {
            let (mut stream, _) = dying.accept().await.unwrap();
            requests.push(receive(&mut stream, "\r\n\r\n").await);
        }
        requests
    }]);
    let cluster = Cluster::start_unusual(3, Unusual { others_api, ..Unusual::default() }).await;
    let (leader, other) = leader_and_other(&cluster).await;
    open_with(&cluster.caller(leader, "root"), OF_GROUP_0, 100).await;

    let caller = cluster.caller(other, "root");
    let path = format!("/v1/tenants/{OF_GROUP_0}/charges");
    for key in ["k1", "k2"] {
        let charge = caller.post(&path, key, &json!({ "amount": 1 })).await;
        let charge = charge.expect_problem(504, "outcome_unknown");
        assert_eq!(charge.text("/retry"), "same_key");
    }
    let requests = taken.join_all().await.concat();
    for (request, key) in requests.iter().zip(["k1", "k2"]) {
        assert!(request.contains(&format!("idempotency-key: {key}\r\n")), "{request}");
        assert!(request.contains("purser-hops: 1\r\n"), "{request}");
        assert!(request.contains("purser-deadline-ms: "), "{request}");
    }
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_without_effect_is_tried_again_and_never_unknown() {
    let dying = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let others_api = Some(dying.local_addr().unwrap());
    let _dying = tokio::task::JoinSet::from_iter([async move {
        // Hangs up each time, but answers who asks for the same a second time and can wait.
        let mut asked = BTreeSet::new();
        while let Ok((mut stream, _)) = dying.accept().await {
            let request = receive(&mut stream, "\r\n\r\n").await;
            let first_line = request.lines().next().unwrap().to_owned();
            if !request.contains("request-id: patient\r\n") || asked.insert(first_line) {
                continue;
            }
            if request.starts_with("POST") && !request.ends_with('}') {
                receive(&mut stream, "}").await;
            }
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\nsecond";
            stream.write_all(answer).await.unwrap();
        }
    }]);
    let cluster = Cluster::start_unusual(3, Unusual { others_api, ..Unusual::default() }).await;
    let (leader, other) = leader_and_other(&cluster).await;
    open_with(&cluster.caller(leader, "root"), OF_GROUP_0, 100).await;

    let caller = cluster.caller(other, "root");
    let calls = [
        ("GET", format!("/v1/tenants/{OF_GROUP_0}/balance"), ""),
        ("GET", format!("/v1/tenants/{OF_GROUP_0}/entries"), ""),
        ("POST", format!("/v1/tenants/{OF_GROUP_0}/check"), r#"{"amount":1}"#),
        (
            "POST",
            format!("/admin/v1/tenants/{OF_GROUP_0}/close"),
            r#"{"reason":"r","dry_run":true}"#,
        ),
    ];
    for (method, path, body) in calls {
        let headers = |request_id, deadline_ms| {
            [
                ("content-type", "application/json"),
                ("idempotency-key", "k1"),
                ("request-id", request_id),
                ("purser-deadline-ms", deadline_ms),
            ]
        };
        let patient = headers("patient", "60000");
        let answer = caller.raw(method, &path, &patient, body.into()).await;
        assert_eq!(answer.expect(200).body, "second");
        let hurried = headers("hurried", "200");
        let answer = caller.raw(method, &path, &hurried, body.into()).await;
        let refused = answer.expect_problem(503, "not_ready");
        assert!(refused.text("/detail").contains("did not answer"), "{:#}", refused.body);
    }
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_the_group_refuses_says_why() {
    let cluster = Cluster::start(1).await;
    let headers = [("content-type", "application/json")];
    let path = "/admin/v1/cluster/groups/0/voters";
    let body = json!({ "voters": [1, 2] }).to_string();
    let refused = cluster.caller(0, "root").raw("PUT", path, &headers, body.into()).await;
    let refused = refused.expect_problem(409, "change_refused");
    assert!(refused.text("/detail").ends_with("node 2 is not a learner of the group"));
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_does_not_travel_in_circles() {
    let cluster = Cluster::start(3).await;
    let (leader, other) = leader_and_other(&cluster).await;
    open_with(&cluster.caller(leader, "root"), OF_GROUP_0, 100).await;
    let path = format!("/v1/tenants/{OF_GROUP_0}/balance");
    for (hops, status) in [("4", 200), ("5", 503)] {
        let caller = cluster.caller(other, "root");
        let headers = [("purser-hops", hops), ("purser-deadline-ms", "1000")];
        caller.raw("GET", &path, &headers, "".into()).await.expect(status);
    }
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_is_handed_to_the_node_that_is_named() {
    let cluster = Cluster::start(3).await;
    let caller = cluster.caller(0, "root");
    for node in [2, 3, 1] {
        let headers = [("content-type", "application/json")];
        let body = json!({ "node": node }).to_string();
        let path = "/admin/v1/cluster/groups/0/leader";
        let moved = caller.raw("PUT", path, &headers, body.into()).await.expect(200);
        assert_eq!(moved.body["leader"], node, "{:#}", moved.body);
    }
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_tells_how_it_is_to_everybody() {
    let cluster = Cluster::start(1).await;
    let nobody = cluster.caller(0, "");
    assert_eq!(nobody.get("/livez").await.expect(200).body, "ok\n");
    assert_eq!(nobody.get("/readyz").await.expect(200).body, "ok\n");
    let verbose = nobody.get("/readyz?verbose").await.expect(200);
    let lines = verbose.body.as_str().unwrap();
    assert_eq!(lines.lines().count(), 3, "{lines}");
    assert!(lines.contains("group 1: ok, leader 1"), "{lines}");

    let shown = cluster.caller(0, "root").get("/admin/v1/cluster").await.expect(200);
    assert_eq!(shown.text("/cluster"), "test");
    assert_eq!(shown.body["node"], 1);
    assert_eq!(shown.body["groups"][1]["voters"], json!([1]));
    assert_eq!(shown.text("/groups/1/role"), "leader");
    cluster.end().await;
}
