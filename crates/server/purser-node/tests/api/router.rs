//! A router: it takes every kind of call, and what a node answers is the answer.

use purser_node::{BaseUrl, PeerSettings};
use purser_raft::NodeId;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use crate::abroad::{AP, EU, US, add_up, charge, decided_by, make_local, open_in, strictly};
use crate::support::{Answer, Caller, Cluster, RouterOf, region};
use crate::waiting::{read_until, until_status, wait_for};

/// What acme is granted.
const CREDITS: u64 = 10_000;

/// Checks that an answer is the one that a node gives to the same question.
#[track_caller]
fn check_same(routed: &Answer, asked: &Answer) {
    assert_eq!((routed.status, &routed.bytes), (asked.status, &asked.bytes));
    for name in ["content-type", "purser-decided-by", "purser-bound", "idempotent-replayed"] {
        assert_eq!(routed.header(name), asked.header(name), "{name}");
    }
}

/// Sends a change to the router and again to a node, which must find it done and answer the same.
async fn check_change(
    routed: &Caller,
    node: &Caller,
    path: &str,
    body: &Value,
    by: &str,
) -> Answer {
    let first = routed.post(path, path, body).await;
    assert!(first.status < 300, "{path}: {:#}", first.body);
    assert_eq!(decided_by(&first), by, "{path}");
    let again = node.post(path, path, body).await;
    assert_eq!(again.bytes, first.bytes, "{path}");
    assert_eq!(again.header("idempotent-replayed"), "true", "{path}");
    check_same(&routed.post(path, path, body).await, &again);
    first
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_has_every_call_answered_by_whoever_decides() {
    let cluster = Cluster::of_regions().await;
    let router = RouterOf::start(&cluster, "eu").await;
    let (routed, eu, ap) =
        (router.caller("root"), cluster.caller(EU, "root"), cluster.caller(AP, "root"));
    open_in(&routed, "acme", "us", CREDITS).await;
    let at_home = "region=us, role=home";
    assert_eq!(decided_by(&strictly(&routed, "strict", 5).await.expect(201)), at_home);
    let mut spent = 5 + make_local(&routed, "acme", "eu").await;
    let in_region = "region=eu, role=allocation";
    let holds = "/v1/tenants/acme/holds";
    let local = check_change(&routed, &eu, holds, &json!({ "amount": 3 }), in_region).await;
    let path = format!("{holds}/{}/capture", local.text("/hold_id"));
    check_change(&routed, &ap, &path, &json!({}), in_region).await;
    let path = format!("{holds}/{}/refund", local.text("/hold_id"));
    let body = json!({ "amount": 1, "reason": "half" });
    check_change(&routed, &ap, &path, &body, in_region).await;
    spent += 2;
    let body = json!({ "amount": 4, "consistency": "strict" });
    let strict = eu.post(holds, "at home", &body).await.expect(201);
    let path = format!("{holds}/{}/release", strict.text("/hold_id"));
    check_change(&routed, &ap, &path, &json!({}), at_home).await;
    let path = format!("{holds}/{}", strict.text("/hold_id"));
    check_same(&routed.get(&path).await, &eu.get(&path).await);
    let too_much = json!({ "amount": 2 * CREDITS, "consistency": "strict" });
    let poor = routed.post("/v1/tenants/acme/charges", "poor", &too_much).await;
    assert_eq!(decided_by(&poor.expect_problem(402, "insufficient_credits")), at_home);
    let item = |key: &str, more: Value| {
        let mut item = json!({ "op": "charge", "tenant": "acme", "idempotency_key": key });
        item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        item
    };
    let items = [
        item("b1", json!({ "amount": 1 })),
        item("b2", json!({ "amount": 2, "consistency": "strict" })),
    ];
    let body = json!({ "items": items }).to_string();
    let headers = [("content-type", "application/json")];
    let batch = routed.raw("POST", "/v1/batch", &headers, body.into()).await.expect(200);
    assert_eq!(
        (&batch.body["results"][0]["status"], &batch.body["results"][1]["status"]),
        (&json!(201), &json!(201))
    );
    spent += 3;
    add_up(&routed, (spent, 0), CREDITS).await;
    let regions = routed.get("/admin/v1/regions").await.expect(200);
    assert_eq!(regions.body["node"], 2);
    assert_eq!(routed.get("/readyz").await.expect(200).body, "ok\n");
    // What nobody would be asked is refused here.
    routed.get("/v1/tenants/a%20b/balance").await.expect_problem(400, "invalid_id");
    router.caller("nobody").get(&path).await.expect_problem(401, "unauthenticated");
    router
        .caller("acme-spender")
        .get("/v1/tenants/beta/lots")
        .await
        .expect_problem(403, "forbidden");
    router.end().await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_follows_a_home_that_moves_and_nobody_is_refused() {
    let cluster = Cluster::of_regions().await;
    let router = RouterOf::start(&cluster, "ap").await;
    let (routed, us) = (router.caller("root"), cluster.caller(US, "root"));
    open_in(&routed, "acme", "us", CREDITS).await;
    let headers = [("content-type", "application/json")];
    let path = "/admin/v1/tenants/acme/move";
    let moving = routed.raw("POST", path, &headers, json!({ "to": "eu" }).to_string().into());
    let spending = async {
        let mut spent = 0_u64;
        // Until the first answer of the new home, and one more.
        wait_for("the new home decides", async || {
            let done = strictly(&routed, &format!("s{spent}"), 1).await.expect(201);
            spent += 1;
            let lots = routed.get("/v1/tenants/acme/lots").await.expect(200);
            assert_eq!(lots.body["items"][0]["amount"], CREDITS.to_string());
            if decided_by(&done) == "region=eu, role=home" { Ok(()) } else { Err(done) }
        })
        .await;
        spent
    };
    let (moved, spent) = tokio::join!(moving, spending);
    assert_eq!(moved.expect(200).text("/home"), "eu");
    assert_eq!(routed.get(path).await.expect(200).text("/home"), "eu");
    add_up(&us, (spent, 0), CREDITS).await;
    router.end().await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_sends_nothing_to_a_region_that_is_out_of_reach() {
    let cluster = Cluster::of_regions().await;
    let router = RouterOf::start(&cluster, "eu").await;
    let (routed, eu) = (router.caller("root"), cluster.caller(EU, "root"));
    open_in(&routed, "acme", "us", CREDITS).await;
    make_local(&routed, "acme", "eu").await;
    router.cut(US, &cluster);
    // It may be heard for three seconds yet.
    let lots = async || routed.get("/v1/tenants/acme/lots").await;
    let lots = until_status(503, "lots of a home that is out of reach", lots).await;
    assert_eq!(decided_by(&lots.expect_problem(503, "home_unreachable")), "");
    let grants = "/admin/v1/tenants/acme/grants";
    let refused = routed.post(grants, "more", &json!({ "amount": 1 })).await;
    refused.expect_problem(503, "home_unreachable");
    // Where home is, every region knows; and what begins goes around by the router's region.
    let path = "/admin/v1/tenants/acme/move";
    assert_eq!(routed.get(path).await.expect(200).text("/home"), "us");
    let around = strictly(&routed, "around", 1).await.expect(201);
    assert_eq!(decided_by(&around), "region=us, role=home");
    // Its own region is there, and goes on; so does home, which was never asked for more.
    let local = charge(&routed, "acme", "local", 1).await.expect(201);
    assert_eq!(decided_by(&local), "region=eu, role=allocation");
    let granted = eu.post(grants, "more", &json!({ "amount": 1 })).await.expect(201);
    assert_eq!(granted.header("idempotent-replayed"), "");
    router.cut(EU, &cluster);
    let alone = async || charge(&routed, "acme", "alone", 1).await;
    until_status(503, "a region that is out of reach", alone).await;
    routed.get("/readyz").await.expect(503);
    assert_eq!(routed.get(path).await.expect(200).text("/home"), "us");
    router.end().await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_strict_a_router_sends_home_though_its_own_region_is_gone() {
    let cluster = Cluster::of_regions().await;
    let router = RouterOf::start(&cluster, "eu").await;
    let (routed, eu) = (router.caller("root"), cluster.caller(EU, "root"));
    open_in(&routed, "acme", "us", CREDITS).await;
    let mut spent = make_local(&routed, "acme", "eu").await;
    router.cut(EU, &cluster);
    let alone = async || charge(&routed, "acme", "alone", 1).await;
    until_status(503, "a region that is out of reach", alone).await;
    let holds = "/v1/tenants/acme/holds";
    let body = json!({ "amount": 4, "consistency": "strict" });
    let held = check_change(&routed, &eu, holds, &body, "region=us, role=home").await;
    let path = format!("{holds}/{}/release", held.text("/hold_id"));
    check_change(&routed, &eu, &path, &json!({}), "region=us, role=home").await;
    routed.get("/v1/tenants/acme/balance?consistency=strict").await.expect(200);
    let path = "/admin/v1/tenants/acme/move";
    assert_eq!(routed.get(path).await.expect(200).text("/home"), "us");
    // Nobody in eu has noted that home was asked. Who repeats the call there and no longer strictly
    // has asked twice, and one is undone.
    let (strict, local) =
        (strictly(&routed, "both", 1).await.expect(201), charge(&eu, "acme", "both", 1).await);
    assert_eq!(decided_by(&strict), "region=us, role=home");
    assert_eq!(decided_by(&local.expect(201)), "region=eu, role=allocation");
    spent += 1;
    let is_undone = |body: &Value| body["totals"]["refunded"] == "1";
    read_until(&routed, "/v1/tenants/acme/balance", is_undone).await;
    // It may have been done before the cut was noticed; now it has.
    charge(&eu, "acme", "alone", 1).await.expect(201);
    spent += 1;
    add_up(&routed, (spent, 0), CREDITS).await;
    router.end().await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_hangs_keeps_no_call_of_a_router() {
    // The system takes connections, and nobody ever answers: what a process does that is stopped.
    let hanging = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = hanging.local_addr().unwrap();
    let cluster = Cluster::of_regions().await;
    let router = RouterOf::start_with(&cluster, "eu", |settings| {
        // The first node of its region, of which there is another one.
        let peer = PeerSettings {
            region: region("eu"),
            address: address.to_string(),
            api: BaseUrl::of(address),
            admin: BaseUrl::of(address),
        };
        settings.peers.insert(NodeId(0), peer);
    });
    let router = router.await;
    let routed = router.caller("root");
    open_in(&routed, "acme", "us", CREDITS).await;
    let item = json!({ "op": "charge", "tenant": "acme", "idempotency_key": "k", "amount": 1 });
    let body = json!({ "items": [item] }).to_string();
    // As often as the nodes of the region take turns, and once more.
    for _ in 0..3 {
        let headers = [("content-type", "application/json")];
        let batch = routed.raw("POST", "/v1/batch", &headers, body.clone().into()).await;
        assert_eq!(batch.expect(200).body["results"][0]["status"], 201);
        charge(&routed, "acme", "k", 1).await.expect(201);
        routed.get("/admin/v1/tenants").await.expect(200);
        routed.get("/admin/v1/cluster").await.expect(200);
    }
    add_up(&routed, (1, 0), CREDITS).await;
    router.end().await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_have_arrived_a_router_sends_to_nobody_else() {
    // Takes requests and hangs up, as a node does that dies at the wrong moment.
    let dying = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = dying.local_addr().unwrap();
    let taken = tokio::task::JoinSet::from_iter([async move {
        let mut requests = Vec::new();
        while requests.len() < 2 {
            let (mut stream, _) = dying.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let read = stream.read(&mut request).await.unwrap();
            requests.push(String::from_utf8_lossy(&request[..read]).into_owned());
        }
        requests
    }]);
    let cluster = Cluster::of_regions().await;
    open_in(&cluster.caller(US, "root"), "acme", "us", CREDITS).await;
    let router = RouterOf::start_with(&cluster, "us", |settings| {
        for peer in settings.peers.values_mut() {
            peer.api = BaseUrl::of(address);
        }
    });
    let router = router.await;
    for key in ["k1", "k2"] {
        let unknown = charge(&router.caller("root"), "acme", key, 1).await;
        unknown.expect_problem(504, "outcome_unknown");
    }
    // One request for each call, and each goes on counted.
    let requests = taken.join_all().await.concat();
    for (request, key) in requests.iter().zip(["k1", "k2"]) {
        assert!(request.contains(&format!("idempotency-key: {key}\r\n")), "{request}");
        assert!(request.contains("purser-hops: 1\r\n"), "{request}");
        // The router gives up after ten seconds, and the node before that.
        let line = request.lines().find_map(|line| line.strip_prefix("purser-deadline-ms: "));
        assert!(line.unwrap().parse::<u64>().unwrap() <= 9_900, "{request}");
    }
    router.end().await;
    cluster.end().await;
}
