//! What operators do: opening, granting, voiding, adjusting, freezing, closing.

use serde_json::{Value, json};

use crate::support::{Cluster, START, open_with};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_is_opened_once_in_each_unit() {
    let cluster = Cluster::start(1).await;
    let caller = cluster.caller(0, "root");
    let body = json!({ "tenant": "acme", "policy": { "debt_limit": 5 } });
    let opened = caller.post("/admin/v1/tenants", "o1", &body).await.expect(201);
    assert_eq!(opened.text("/status"), "open");
    assert_eq!(opened.text("/home"), "us");
    assert_eq!(opened.text("/opened_at"), START);
    assert_eq!(opened.text("/policy/debt_limit"), "5");
    assert_eq!(opened.text("/balance/available"), "0");
    let twice = caller.post("/admin/v1/tenants", "o2", &body).await;
    twice.expect_problem(409, "tenant_exists");
    let tokens = json!({ "tenant": "acme", "unit": "tokens" });
    caller.post("/admin/v1/tenants", "o3", &tokens).await.expect(201);
    let elsewhere = json!({ "tenant": "other", "home": "eu" });
    let elsewhere = caller.post("/admin/v1/tenants", "o4", &elsewhere).await;
    elsewhere.expect_problem(400, "invalid_request");

    let shown = caller.get("/admin/v1/tenants/acme?unit=tokens").await.expect(200);
    assert_eq!(shown.text("/unit"), "tokens");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_business_fact_grants_once() {
    let cluster = Cluster::start(1).await;
    let caller = cluster.caller(0, "root");
    open_with(&caller, "acme", 0).await;
    let path = "/admin/v1/tenants/acme/grants";
    let body = json!({
        "amount": "500", "category": "promotional", "priority": 7,
        "expires_at": "2026-09-01T00:00:00Z", "source_ref": "pay_1", "reason": "welcome",
    });
    let first = caller.post(path, "g1", &body).await.expect(201);
    assert_eq!(first.text("/lot/status"), "active");
    assert_eq!(first.text("/lot/free"), "500");
    assert_eq!(first.text("/debt_repaid"), "0");
    caller.post("/v1/tenants/acme/charges", "c1", &json!({ "amount": 200 })).await.expect(201);

    let second = caller.post(path, "g2", &body).await.expect(200);
    assert_eq!(second.body["lot"]["lot_id"], first.body["lot"]["lot_id"]);
    assert_eq!((second.text("/lot/free"), second.text("/lot/used")), ("300", "200"));
    let replayed = caller.post(path, "g1", &body).await.expect(201);
    assert_eq!(replayed.body, first.body);
    assert_eq!(replayed.header("idempotent-replayed"), "true");

    // A day later the key is forgotten, and the fact is not.
    cluster.clock.advance(86_400);
    let found = caller.post(path, "g1", &body).await.expect(200);
    assert_eq!(found.header("idempotent-replayed"), "");
    assert_eq!(found.body["lot"], second.body["lot"]);
    assert_eq!(found.text("/balance/available"), "300");

    let other = json!({ "amount": 600, "source_ref": "pay_1" });
    let other = caller.post(path, "g3", &other).await.expect_problem(409, "source_ref_conflict");
    assert_eq!(other.body["lot_id"], first.body["lot"]["lot_id"]);
    assert_eq!(other.text("/lot_amount"), "500");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_has_expired_is_not_remembered() {
    let cluster = Cluster::start(1).await;
    let caller = cluster.caller(0, "root");
    open_with(&caller, "acme", 0).await;
    let path = "/admin/v1/tenants/acme/grants";
    let over = json!({ "amount": 5, "expires_at": START });
    let refused = caller.post(path, "g1", &over).await;
    refused.expect_problem(400, "grant_already_expired");
    let corrected = json!({ "amount": 5, "expires_at": null });
    caller.post(path, "g1", &corrected).await.expect(201);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lot_is_voided_in_the_state_that_the_dry_run_showed() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    caller.post("/v1/tenants/acme/holds", "k1", &json!({ "amount": 30 })).await.expect(201);
    let path = "/admin/v1/tenants/acme/lots/l2-0-us/void";
    let reason = "charged back";

    let unsure = caller.post(path, "v1", &json!({ "reason": reason })).await;
    unsure.expect_problem(400, "confirmation_required");
    let dry =
        caller.post(path, "v2", &json!({ "reason": reason, "dry_run": true })).await.expect(200);
    assert_eq!(dry.body["dry_run"], true);
    assert_eq!((dry.text("/voided"), dry.text("/pinned")), ("70", "30"));
    assert_eq!(dry.text("/lot/status"), "voided");
    let balance = caller.get("/v1/tenants/acme/balance").await.expect(200);
    assert_eq!(balance.text("/available"), "70", "a dry run has no effect");

    let confirm = dry.text("/confirm");
    caller.post("/v1/tenants/acme/holds", "k2", &json!({ "amount": 1 })).await.expect(201);
    let body = json!({ "reason": reason, "confirm": confirm });
    let stale = caller.post(path, "v3", &body).await.expect_problem(409, "stale_confirmation");
    let body = json!({ "reason": reason, "confirm": stale.text("/current_sequence") });
    let voided = caller.post(path, "v4", &body).await.expect(200);
    assert_eq!((voided.text("/voided"), voided.text("/pinned")), ("69", "31"));
    assert_eq!(voided.body["confirm"], Value::Null);
    assert_eq!(voided.text("/balance/voided"), "69");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adjustment_adds_a_lot_or_removes_available_credits() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let path = "/admin/v1/tenants/acme/adjust";
    let body = json!({ "direction": "add", "amount": 10, "reason": "goodwill" });
    let added = caller.post(path, "a1", &body).await.expect(200);
    assert_eq!(added.text("/lot/amount"), "10");
    assert_eq!(added.body["removed"], json!([]));
    let body = json!({ "direction": "remove", "amount": 105, "reason": "mistake" });
    let removed = caller.post(path, "a2", &body).await.expect(200);
    assert_eq!(removed.body["lot"], Value::Null);
    assert_eq!(removed.body["removed"].as_array().unwrap().len(), 2);
    assert_eq!(removed.text("/balance/available"), "5");
    let body = json!({ "direction": "remove", "amount": 6, "reason": "mistake" });
    caller.post(path, "a3", &body).await.expect_problem(402, "insufficient_credits");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_changes_in_what_is_named() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let path = "/admin/v1/tenants/acme/policy";
    let body = json!({ "debt_limit": "50" });
    caller.post(path, "p1", &body).await.expect(200);
    let body = json!({ "refund_expired": { "regrant_days": 7 } });
    let changed = caller.post(path, "p2", &body).await.expect(200);
    assert_eq!(changed.text("/policy/debt_limit"), "50");
    let shown = caller.get(path).await.expect(200);
    assert_eq!(shown.body["refund_expired"], json!({ "regrant_days": 7 }));

    let body = json!({ "amount": 130, "allow_debt": true });
    let charge = caller.post("/v1/tenants/acme/charges", "k1", &body).await.expect(201);
    assert_eq!(charge.text("/debt_added"), "30");
    assert_eq!(charge.text("/balance/debt"), "30");
    let grant = json!({ "amount": 50 });
    let grant = caller.post("/admin/v1/tenants/acme/grants", "g1", &grant).await.expect(201);
    assert_eq!(grant.text("/debt_repaid"), "30");
    assert_eq!((grant.text("/lot/free"), grant.text("/lot/used")), ("20", "30"));
    assert_eq!(grant.text("/balance/available"), "20");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_account_takes_no_new_work() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let admin = "/admin/v1/tenants/acme";
    let reason = json!({ "reason": "fraud suspected" });
    let frozen = caller.post(&format!("{admin}/freeze"), "f1", &reason).await.expect(200);
    assert_eq!(frozen.text("/status"), "frozen");
    let twice = caller.post(&format!("{admin}/freeze"), "f2", &reason).await;
    twice.expect_problem(409, "already_frozen");
    let hold = caller.post("/v1/tenants/acme/holds", "k1", &json!({ "amount": 1 })).await;
    hold.expect_problem(409, "account_frozen");
    let open = caller.post(&format!("{admin}/unfreeze"), "f3", &reason).await.expect(200);
    assert_eq!(open.text("/status"), "open");
    let twice = caller.post(&format!("{admin}/unfreeze"), "f4", &reason).await;
    twice.expect_problem(409, "not_frozen");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_closes_when_nothing_is_open() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let close = "/admin/v1/tenants/acme/close";
    let hold = caller.post("/v1/tenants/acme/holds", "k1", &json!({ "amount": 30 })).await;
    let hold = format!("/v1/tenants/acme/holds/{}", hold.expect(201).text("/hold_id"));
    let dry = json!({ "reason": "left", "dry_run": true });
    caller.post(close, "c1", &dry).await.expect_problem(409, "close_blocked");
    caller.post(&format!("{hold}/release"), "k2", &json!({})).await.expect(200);

    let shown = caller.post(close, "c2", &dry).await.expect(200);
    assert_eq!(shown.text("/status"), "closed");
    let still = caller.get("/admin/v1/tenants/acme").await.expect(200);
    assert_eq!(still.text("/status"), "open", "a dry run has no effect");
    let body = json!({ "reason": "left", "confirm": shown.text("/confirm") });
    let closed = caller.post(close, "c3", &body).await.expect(200);
    assert_eq!((closed.text("/status"), &closed.body["dry_run"]), ("closed", &json!(false)));
    let again = caller.post(close, "c3", &body).await.expect(200);
    assert_eq!(again.header("idempotent-replayed"), "true");
    cluster.end().await;
}
