//! Each call of the data plane once, as its caller sees it.

use serde_json::{Value, json};

use crate::support::{Answer, Caller, Cluster, START};

/// Authorizes and gives the path of the hold.
async fn hold(caller: &Caller, key: &str, body: &Value) -> (String, Answer) {
    let hold = caller.post("/v1/tenants/acme/holds", key, body).await.expect(201);
    (format!("/v1/tenants/acme/holds/{}", hold.text("/hold_id")), hold)
}

fn kinds(entries: &Value) -> Vec<&str> {
    let entries = entries.as_array().unwrap().iter();
    entries.map(|entry| entry["kind"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_goes_from_authorize_to_capture() {
    let (cluster, caller) = Cluster::with_credits(100).await;

    let body = json!({ "amount": "30", "ttl_seconds": 60, "reference": "job-1" });
    let (path, hold) = hold(&caller, "k1", &body).await;
    assert_eq!(hold.text("/status"), "active");
    assert_eq!(hold.text("/held_remaining"), "30");
    assert_eq!(hold.text("/created_at"), START);
    assert_eq!(hold.text("/expires_at"), "2026-08-01T00:01:00Z");
    assert_eq!(hold.text("/reference"), "job-1");
    assert_eq!(hold.text("/balance/available"), "70");
    assert_eq!(hold.body["lots"], json!([{ "lot_id": "l2-0-us", "amount": "30" }]));
    assert_eq!(hold.header("purser-decided-by"), "region=us, role=home");
    assert_eq!(hold.header("purser-bound"), "0");
    assert_eq!(hold.header("idempotent-replayed"), "");

    let body = json!({ "amount": 20 });
    let captured = caller.post(&format!("{path}/capture"), "k2", &body).await.expect(200);
    assert_eq!(captured.text("/status"), "captured");
    assert_eq!(captured.text("/captured"), "20");
    assert_eq!(captured.text("/debt_added"), "0");
    assert_eq!(captured.body["late"], false);
    assert_eq!(captured.text("/balance/available"), "80");
    assert_eq!(captured.text("/balance/used"), "20");

    let detail = caller.get(&path).await.expect(200);
    assert_eq!(kinds(&detail.body["history"]), ["authorize", "capture"]);
    assert_eq!(detail.text("/lots/0/amount"), "30");
    assert_eq!(detail.text("/history/1/actor"), "root");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_is_extended_and_released() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let (path, _) = hold(&caller, "k1", &json!({ "amount": 30, "ttl_seconds": 60 })).await;

    let body = json!({ "until": "2026-08-01T02:00:00+01:00" });
    let extended = caller.post(&format!("{path}/extend"), "k2", &body).await.expect(200);
    assert_eq!(extended.text("/expires_at"), "2026-08-01T01:00:00Z");
    let again = caller.post(&format!("{path}/extend"), "k3", &body).await;
    let again = again.expect_problem(409, "extend_not_later");
    assert_eq!(again.text("/expires_at"), "2026-08-01T01:00:00Z");

    let headers = [("idempotency-key", "k4")];
    let release = format!("{path}/release");
    let released = caller.raw("POST", &release, &headers, "".into()).await.expect(200);
    assert_eq!(released.text("/status"), "released");
    assert_eq!(released.text("/balance/available"), "100");
    let late = caller.post(&format!("{path}/capture"), "k5", &json!({})).await;
    late.expect_problem(409, "already_released");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_is_over_at_its_deadline_for_reads_and_decisions_alike() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let (path, _) = hold(&caller, "k1", &json!({ "amount": 100, "ttl_seconds": 60 })).await;

    cluster.clock.advance(59);
    let poor = caller.post("/v1/tenants/acme/holds", "k2", &json!({ "amount": 1 })).await;
    poor.expect_problem(402, "insufficient_credits");
    cluster.clock.advance(1);
    let balance = caller.get("/v1/tenants/acme/balance").await.expect(200);
    assert_eq!((balance.text("/available"), balance.text("/held")), ("100", "0"));
    // The hold's end is not written down yet, so it is not named.
    assert_eq!(balance.text("/as_of/log_time"), "2026-08-01T00:01:00Z");
    assert_eq!(balance.text("/as_of/sequence"), "3");
    caller.get("/v1/tenants/acme/balance?at_sequence=3").await.expect(200);

    // Whoever asks for entries, or for what names them, has what was due written first.
    let holds = caller.get("/v1/tenants/acme/holds?state=expired").await.expect(200);
    let sequence = holds.text("/items/0/sequence").to_owned();
    let then = caller.get(&format!("/v1/tenants/acme/balance?at_sequence={sequence}")).await;
    assert_eq!(then.expect(200).text("/available"), "100");
    let detail = caller.get(&path).await.expect(200);
    assert_eq!(detail.text("/status"), "expired");
    assert_eq!(kinds(&detail.body["history"]), ["authorize", "hold_expired"]);
    assert_eq!(detail.text("/history/1/log_time"), "2026-08-01T00:01:00Z");
    assert_eq!(detail.text("/history/1/actor"), "log");

    let capture = format!("{path}/capture");
    caller.post(&capture, "k3", &json!({})).await.expect_problem(409, "hold_expired");
    let body = json!({ "amount": 40, "if_expired": "charge" });
    let late = caller.post(&capture, "k4", &body).await.expect(200);
    assert_eq!(late.body["late"], true);
    assert_eq!(late.text("/balance/available"), "60");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_charge_is_refunded_and_reclaimed() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let body = json!({ "amount": 40, "metadata": { "model": "large" } });
    let charge = caller.post("/v1/tenants/acme/charges", "k1", &body).await.expect(201);
    assert_eq!(charge.text("/status"), "captured");
    assert_eq!(charge.text("/balance/used"), "40");
    let path = format!("/v1/tenants/acme/charges/{}", charge.text("/charge_id"));

    let reclaim = format!("{path}/reclaim");
    let early = caller.post(&reclaim, "k2", &json!({ "reason": "done" })).await;
    early.expect_problem(409, "not_refunded");
    let body = json!({ "amount": 30, "reason": "failed" });
    let refund = caller.post(&format!("{path}/refund"), "k3", &body).await.expect(200);
    assert_eq!(refund.text("/refunded"), "30");
    assert_eq!(refund.text("/lapsed"), "0");
    assert_eq!(refund.text("/refundable"), "10");
    assert_eq!(refund.text("/charge_id"), charge.text("/charge_id"));
    assert_eq!(refund.text("/balance/available"), "90");
    let reclaimed = caller.post(&reclaim, "k4", &json!({ "reason": "done" })).await.expect(200);
    assert_eq!(reclaimed.text("/reclaimed"), "30");
    assert_eq!(reclaimed.text("/debt_added"), "0");
    let twice = caller.post(&reclaim, "k5", &json!({ "reason": "done" })).await;
    twice.expect_problem(409, "already_reclaimed");

    let detail = caller.get(&path).await.expect(200);
    assert_eq!(kinds(&detail.body["history"]), ["charge", "refund", "reclaim"]);
    assert_eq!(detail.text("/history/0/metadata/model"), "large");
    assert_eq!(detail.text("/history/1/reason"), "failed");
    assert_eq!(detail.text("/history/1/original_sequence"), "3");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_names_the_lots_it_was_made_with_in_every_answer() {
    let (cluster, caller) = Cluster::with_credits(10).await;
    let second = json!({ "amount": 30 });
    caller.post("/admin/v1/tenants/acme/grants", "g2", &second).await.expect(201);
    let (path, made) = hold(&caller, "k1", &json!({ "amount": 25 })).await;
    let share = |lot, amount| json!({ "lot_id": lot, "amount": amount });
    let lots = json!([share("l2-0-us", "10"), share("l3-0-us", "15")]);
    assert_eq!(made.body["lots"], lots);

    let acts = [
        ("capture", json!({ "amount": 12, "final": false })),
        ("extend", json!({ "until": "2026-08-01T02:00:00Z" })),
        ("refund", json!({ "amount": 5, "reason": "failed" })),
        ("reclaim", json!({ "reason": "done" })),
        ("capture", json!({ "amount": 20, "final": false })),
        ("release", json!({})),
        ("refund", json!({ "reason": "failed" })),
    ];
    for (place, (act, body)) in acts.iter().enumerate() {
        let answer = caller.post(&format!("{path}/{act}"), &format!("a{place}"), body).await;
        assert_eq!(answer.expect(200).body["lots"], lots, "{act} {body}");
        let shown = caller.get(&path).await.expect(200);
        assert_eq!(shown.body["lots"], lots, "after {act} {body}");
        let state = shown.text("/status");
        for query in [String::new(), format!("?state={state}")] {
            let list = caller.get(&format!("/v1/tenants/acme/holds{query}")).await.expect(200);
            assert_eq!(list.body["items"][0]["lots"], lots, "after {act} {body}, {query:?}");
        }
    }

    let charge = caller.post("/v1/tenants/acme/charges", "c1", &json!({ "amount": 15 })).await;
    let charge = charge.expect(201);
    let lots = json!([share("l2-0-us", "10"), share("l3-0-us", "5")]);
    assert_eq!(charge.body["lots"], lots);
    let path = format!("/v1/tenants/acme/charges/{}", charge.text("/charge_id"));
    let refund = json!({ "amount": 7, "reason": "failed" });
    let refund = caller.post(&format!("{path}/refund"), "c2", &refund).await.expect(200);
    assert_eq!(refund.body["lots"], lots);
    assert_eq!(caller.get(&path).await.expect(200).body["lots"], lots);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_short_of_credits_is_told_what_to_grant() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let [holds, charges] = ["holds", "charges"].map(|calls| format!("/v1/tenants/acme/{calls}"));
    let grants = "/admin/v1/tenants/acme/grants";
    let policy = json!({ "debt_limit": 30 });
    caller.post("/admin/v1/tenants/acme/policy", "p1", &policy).await.expect(200);
    let short = caller.post(&holds, "k1", &json!({ "amount": 130 })).await;
    let short = short.expect_problem(402, "insufficient_credits");
    assert_eq!((short.text("/available"), short.text("/short_by")), ("100", "30"));
    assert_eq!((&short.body["debt"], &short.body["debt_limit"]), (&Value::Null, &Value::Null));

    let owing = |amount: u64| json!({ "amount": amount, "allow_debt": true });
    let short = caller.post(&charges, "k2", &owing(131)).await;
    let short = short.expect_problem(402, "insufficient_credits");
    assert_eq!((short.text("/short_by"), short.text("/debt")), ("31", "0"));
    assert_eq!(short.text("/debt_limit"), "30");
    caller.post(&charges, "k3", &owing(130)).await.expect(201);

    let wanted = json!({ "amount": 10 });
    let headers = [("content-type", "application/json")];
    let check = "/v1/tenants/acme/check";
    let check = caller.raw("POST", check, &headers, wanted.to_string().into()).await.expect(200);
    assert_eq!((check.text("/short_by"), check.text("/balance/debt")), ("40", "30"));
    let short = caller.post(&holds, "k4", &wanted).await;
    let short = short.expect_problem(402, "insufficient_credits");
    assert_eq!((short.text("/available"), short.text("/debt")), ("0", "30"));
    let grant = json!({ "amount": short.text("/short_by") });
    caller.post(grants, "g2", &grant).await.expect(201);
    caller.post(&holds, "k5", &wanted).await.expect(201);

    let largest = json!({ "amount": "1000000000000000000" });
    for key in 0..9 {
        caller.post(grants, &format!("large {key}"), &largest).await.expect(201);
    }
    let beyond = caller.post(grants, "beyond", &largest).await;
    let beyond = beyond.expect_problem(409, "grant_exceeds_ceiling");
    let rest = json!({ "amount": beyond.text("/grantable") });
    caller.post(grants, "rest", &rest).await.expect(201);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_decides_without_effect() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let check = async |amount: u64| {
        let body = json!({ "amount": amount, "ttl_seconds": 60, "reference": "job-1" }).to_string();
        let headers = [("content-type", "application/json")];
        caller.raw("POST", "/v1/tenants/acme/check", &headers, body.into()).await.expect(200)
    };
    let allowed = check(100).await;
    assert_eq!(allowed.body["allowed"], true);
    assert_eq!(allowed.text("/lots/0/amount"), "100");
    assert_eq!(allowed.body["reason"], Value::Null);
    let refused = check(130).await;
    assert_eq!(refused.body["allowed"], false);
    assert_eq!(refused.text("/short_by"), "30");
    assert_eq!(refused.text("/reason"), "insufficient_credits");
    assert_eq!(refused.text("/balance/available"), "100");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_balance_is_read_now_stale_or_as_of_an_entry() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    hold(&caller, "k1", &json!({ "amount": 30 })).await;
    cluster.clock.advance(5);

    let now = caller.get("/v1/tenants/acme/balance").await.expect(200);
    assert_eq!(now.text("/available"), "70");
    assert_eq!(now.text("/as_of/log_time"), "2026-08-01T00:00:05Z");
    assert_eq!(now.text("/as_of/sequence"), "3");
    assert_eq!(now.text("/totals/authorized"), "30");
    assert_eq!(now.body["age_ms"], 0);

    let stale = caller.get("/v1/tenants/acme/balance?consistency=stale").await.expect(200);
    assert_eq!(stale.text("/as_of/log_time"), START);
    assert_eq!(stale.body["age_ms"], 5_000);
    assert_eq!(stale.header("purser-age-ms"), "5000");

    let then = caller.get("/v1/tenants/acme/balance?at_sequence=2").await.expect(200);
    assert_eq!((then.text("/available"), then.text("/held")), ("100", "0"));
    let beyond = caller.get("/v1/tenants/acme/balance?at_sequence=4").await;
    let beyond = beyond.expect_problem(404, "sequence_not_found");
    assert_eq!(beyond.text("/current_sequence"), "3");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_beyond_53_bits_keep_every_digit() {
    let (cluster, caller) = Cluster::with_credits(9_007_199_254_740_993).await;
    let balance = caller.get("/v1/tenants/acme/balance").await.expect(200);
    assert_eq!(balance.text("/available"), "9007199254740993");
    cluster.end().await;
}
