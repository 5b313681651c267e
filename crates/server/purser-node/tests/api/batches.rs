//! Batches: independent and all-or-nothing.

use serde_json::{Value, json};

use crate::abroad::{EU, US, open_in};
use crate::support::{Answer, Caller, Cluster, open_with};

async fn batch(caller: &Caller, body: &Value) -> Answer {
    let headers = [("content-type", "application/json")];
    caller.raw("POST", "/v1/batch", &headers, body.to_string().into()).await
}

fn statuses(answer: &Answer) -> Vec<u64> {
    let results = answer.body["results"].as_array().unwrap().iter();
    results.map(|result| result["status"].as_u64().unwrap()).collect()
}

fn authorize(tenant: &str, key: &str, amount: u64) -> Value {
    json!({ "op": "authorize", "tenant": tenant, "idempotency_key": key, "amount": amount })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_item_has_its_own_result_in_its_own_place() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    open_with(&caller, "beta", 10).await;
    let items = json!([
        authorize("acme", "k1", 30),
        authorize("beta", "k1", 30),
        { "op": "burn" },
        { "op": "charge", "tenant": "beta", "idempotency_key": "k2", "amount": "10" },
        authorize("nobody", "k1", 30),
        { "op": "capture", "tenant": "acme", "idempotency_key": "k3", "hold_id": "h3-0-eu" },
        authorize("acme", "k1", 30),
        authorize("acme", "k1", 31),
    ]);
    let answer = batch(&caller, &json!({ "items": items })).await.expect(200);
    assert_eq!(statuses(&answer), [201, 402, 400, 201, 404, 404, 201, 422]);
    assert_eq!(answer.text("/results/0/body/hold_id"), "h3-0-us");
    assert_eq!(answer.text("/results/1/body/code"), "insufficient_credits");
    assert_eq!(answer.text("/results/3/body/charge_id"), "c3-0-us");
    let replayed = |place: usize| answer.body["results"][place]["replayed"].as_bool().unwrap();
    assert_eq!([0, 6, 7].map(replayed), [false, true, false]);
    assert_eq!(answer.body["results"][6]["body"], answer.body["results"][0]["body"]);
    assert_eq!(answer.header("purser-decided-by"), "region=us, role=home");

    // Nobody decides about what cannot be read.
    let answer = batch(&caller, &json!({ "items": [{ "op": "burn" }] })).await.expect(200);
    assert_eq!(answer.header("purser-decided-by"), "");
    assert_eq!(answer.header("purser-bound"), "");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_region_has_named_is_not_found_by_the_log() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let capture = |key: &str, hold: &str| json!({ "op": "capture", "tenant": "acme", "idempotency_key": key, "hold_id": hold });
    let items = json!([authorize("acme", "k1", 1), capture("k2", "h3-0-eu")]);
    let answer = batch(&caller, &json!({ "items": items, "atomic": true })).await.expect(200);
    assert_eq!(statuses(&answer), [409, 404]);
    assert_eq!(answer.text("/results/0/body/code"), "batch_aborted");
    assert_eq!(answer.text("/results/1/body/code"), "hold_not_found");

    // It is remembered under its key, and another id is another request.
    let path = |hold: &str| format!("/v1/tenants/acme/holds/{hold}/capture");
    let again = caller.post(&path("h3-0-eu"), "k2", &json!({})).await;
    let again = again.expect_problem(404, "hold_not_found");
    assert_eq!(again.header("idempotent-replayed"), "true");
    for other in ["h4-0-eu", "h3-7-eu", "h3-0-us"] {
        caller.post(&path(other), "k2", &json!({})).await.expect_problem(422, "key_reused");
    }
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_atomic_batch_happens_wholly_or_not_at_all() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let items = json!([authorize("acme", "k1", 60), authorize("acme", "k2", 60)]);
    let answer = batch(&caller, &json!({ "items": items, "atomic": true })).await.expect(200);
    assert_eq!(statuses(&answer), [409, 402]);
    assert_eq!(answer.text("/results/0/body/code"), "batch_aborted");
    assert_eq!(answer.body["results"][0]["body"]["failed_item"], 1);
    let balance = caller.get("/v1/tenants/acme/balance").await.expect(200);
    assert_eq!(balance.text("/held"), "0");

    let items = json!([authorize("acme", "k3", 60), authorize("acme", "k4", 40)]);
    let answer = batch(&caller, &json!({ "items": items, "atomic": true })).await.expect(200);
    assert_eq!(statuses(&answer), [201, 201]);
    let balance = caller.get("/v1/tenants/acme/balance").await.expect(200);
    assert_eq!(balance.text("/held"), "100");

    let items = json!([authorize("acme", "k5", 1), authorize("beta", "k5", 1)]);
    let mixed = batch(&caller, &json!({ "items": items, "atomic": true })).await;
    let mixed = mixed.expect_problem(400, "invalid_request");
    assert_eq!(mixed.body["failed_item"], 1);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_operation_of_the_data_plane_can_stand_in_a_batch() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let items = json!([authorize("acme", "a1", 10), authorize("acme", "a2", 10)]);
    batch(&caller, &json!({ "items": items })).await.expect(200);
    let of = |op: &str, key: &str, more: Value| {
        let mut item = json!({ "op": op, "tenant": "acme", "idempotency_key": key });
        item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        item
    };
    let items = [
        of("extend", "b1", json!({ "hold_id": "h3-0-us", "until": "2026-08-01T01:00:00Z" })),
        of("capture", "b2", json!({ "hold_id": "h3-0-us", "amount": 4 })),
        of("release", "b3", json!({ "hold_id": "h4-0-us", "reason": "not needed" })),
        of("refund", "b4", json!({ "hold_id": "h3-0-us", "reason": "failed" })),
        of("reclaim", "b5", json!({ "hold_id": "h3-0-us", "reason": "done" })),
    ];
    let answer = batch(&caller, &json!({ "items": items })).await.expect(200);
    assert_eq!(statuses(&answer), [200; 5], "{:#}", answer.body);
    assert_eq!(answer.text("/results/1/body/captured"), "4");
    assert_eq!(answer.text("/results/3/body/refunded"), "4");
    assert_eq!(answer.text("/results/4/body/reclaimed"), "4");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_created_renewed_and_reported_in_batches_from_any_region() {
    let cluster = Cluster::of_regions().await;
    let [us, eu] = [US, EU].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", 100).await;
    let item = |op: &str, key: &str, fields: Value| {
        let mut item = json!({ "op": op, "tenant": "acme", "idempotency_key": key });
        item.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        item
    };
    let create = |key: &str, job: &str, amount: u64| {
        item("create_job", key, json!({ "job_id": job, "amount": amount }))
    };
    let outcome = |key: &str, job: &str, outcome: &str| {
        item("report_outcome", key, json!({ "job_id": job, "outcome": outcome }))
    };
    let items = json!([
        create("k1", "j1", 30),
        create("k2", "j2", 40),
        create("k3", "j1", 30),
        create("k4", "j1", 31),
        create("k5", "j3", 31),
        outcome("k6", "j1", "succeeded"),
        outcome("k7", "j2", "failed"),
        outcome("k8", "j9", "succeeded"),
        item("create_job", "k9", json!({ "job_id": "j4", "amount": 1, "allow_debt": true })),
    ]);
    for caller in [&eu, &us] {
        let answer = batch(caller, &json!({ "items": items })).await.expect(200);
        assert_eq!(statuses(&answer), [201, 201, 200, 409, 402, 200, 200, 404, 400]);
        assert_eq!(answer.text("/results/5/body/effect"), "captured");
        assert_eq!(answer.text("/results/6/body/status"), "queued");
    }
    let balance = us.get("/v1/tenants/acme/balance").await.expect(200);
    assert_eq!((balance.text("/used"), balance.text("/held")), ("30", "0"));
    let items = json!([create("a1", "j5", 1), create("a2", "j6", 1_000)]);
    let answer = batch(&us, &json!({ "items": items, "atomic": true })).await.expect(200);
    assert_eq!(statuses(&answer), [409, 402]);
    let items = json!([create("b1", "j7", 1)]);
    let answer = batch(&us, &json!({ "items": items })).await.expect(200);
    let renew = |key: &str, lease: &str| {
        item("renew_job", key, json!({ "job_id": "j7", "lease": lease, "lease_seconds": 1_000 }))
    };
    let items =
        json!([renew("b2", answer.text("/results/0/body/lease")), renew("b3", &"0".repeat(32))]);
    let answer = batch(&us, &json!({ "items": items })).await.expect(200);
    assert_eq!(statuses(&answer), [200, 409]);
    cluster.end().await;
}
