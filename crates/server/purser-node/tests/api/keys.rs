//! Idempotency as callers meet it: the same key, the same decision.

use serde_json::json;

use crate::support::{Cluster, open_with};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_is_recognized_however_it_is_spelled() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let path = "/v1/tenants/acme/holds";
    let body = json!({ "amount": 30, "metadata": { "attempt": 1 } });
    let first = caller.post(path, "k1", &body).await.expect(201);
    cluster.clock.advance(5);
    let text =
        r#"{"metadata":{"attempt":2}, "consistency":"strict", "ttl_seconds":900,"amount":"30"}"#;
    let headers = [
        ("idempotency-key", "k1"),
        ("content-type", "application/json; charset=utf-8"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ];
    let second = caller.raw("POST", path, &headers, text.into()).await.expect(201);
    assert_eq!(second.body, first.body);
    assert_eq!(second.header("idempotent-replayed"), "true");
    assert_eq!(second.header("purser-decided-by"), first.header("purser-decided-by"));
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_belongs_to_one_request() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let path = "/v1/tenants/acme/holds";
    caller.post(path, "k1", &json!({ "amount": 30 })).await.expect(201);
    let other = caller.post(path, "k1", &json!({ "amount": 31 })).await;
    other.expect_problem(422, "key_reused");
    let other = caller.post("/v1/tenants/acme/charges", "k1", &json!({ "amount": 30 })).await;
    other.expect_problem(422, "key_reused");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_remembered_like_a_success() {
    let (cluster, caller) = Cluster::with_credits(10).await;
    let path = "/v1/tenants/acme/holds";
    let body = json!({ "amount": 30 });
    let first = caller.post(path, "k1", &body).await.expect_problem(402, "insufficient_credits");
    assert_eq!((first.text("/available"), first.text("/short_by")), ("10", "20"));
    assert_eq!(first.text("/retry"), "new_key");
    assert!(first.text("/detail").contains("new key"), "{}", first.text("/detail"));
    assert_eq!(first.header("idempotent-replayed"), "");

    let grant = json!({ "amount": 100 });
    caller.post("/admin/v1/tenants/acme/grants", "g2", &grant).await.expect(201);
    let again = caller.post(path, "k1", &body).await.expect_problem(402, "insufficient_credits");
    assert_eq!(again.header("idempotent-replayed"), "true");
    caller.post(path, "k2", &body).await.expect(201);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_could_not_be_read_is_not_remembered() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let path = "/v1/tenants/acme/holds";
    caller.post(path, "k1", &json!({ "amount": -1 })).await.expect_problem(400, "invalid_request");
    caller.post(path, "k1", &json!({ "amount": 30 })).await.expect(201);
    let path = "/v1/tenants/beta/holds";
    let body = json!({ "amount": 30 });
    caller.post(path, "k1", &body).await.expect_problem(404, "tenant_not_found");
    open_with(&caller, "beta", 50).await;
    caller.post(path, "k1", &body).await.expect(201);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racers_with_one_key_make_one_hold() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let body = json!({ "amount": 30 });
    let racing = (0..8).map(|_| caller.post("/v1/tenants/acme/holds", "k1", &body));
    let answers = futures_util::future::join_all(racing).await;
    let replays = answers.iter().filter(|answer| answer.header("idempotent-replayed") == "true");
    assert_eq!(replays.count(), 7);
    assert!(answers.iter().all(|answer| answer.body == answers[0].body));
    let balance = caller.get("/v1/tenants/acme/balance").await.expect(200);
    assert_eq!(balance.text("/held"), "30");
    cluster.end().await;
}
