//! Idempotency keys over HTTP: what is the same request, and which answers are remembered.

use purser_tests::{Account, Caller, Cluster, Reply};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::json;

/// Sends a body as it stands, with a header of the caller's own choice beside the usual ones.
async fn post_text(account: &Account, key: &str, body: &str, header: (&str, &str)) -> Reply {
    let request = account.api.request(Method::POST, &account.path("holds"));
    let request = request.header("Idempotency-Key", key).header(CONTENT_TYPE, "application/json");
    let request = request.header(header.0, header.1).body(body.to_owned());
    account.api.send(request).await.expect("the node answers")
}

/// K006: how a request is written does not matter, nor who passed it on.
#[tokio::test]
async fn a_retry_is_recognized_however_it_is_written() {
    const TRACE: &str = "traceparent";
    let cluster = Cluster::start().await;
    let account = Account::open(&cluster.api(1), "writer", 100).await;
    let first = r#"{"amount":30,"ttl_seconds":60,"metadata":{"attempt":1}}"#;
    let trace = (TRACE, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let first = post_text(&account, "k1", first, trace).await;
    assert!(!first.check(201).replayed());

    let again = [
        r#"{"ttl_seconds":60,"metadata":{"attempt":2},"amount":30}"#,
        "  {\n\t\"amount\" : \"30\" , \"ttl_seconds\" : 60 }\r\n",
        r#"{"amount":30,"ttl_seconds":60,"consistency":"strict"}"#,
        r#"{"amount":30,"ttl_seconds":60,"metadata":{}}"#,
        r#"{"\u0061mount":30,"ttl_seconds":60}"#,
    ];
    let trace = (TRACE, "00-11111111111111111111111111111111-2222222222222222-00");
    for (body, id) in again.into_iter().zip(Cluster::IDS.into_iter().cycle()) {
        let reply = post_text(&account.through(&cluster.api(id)), "k1", body, trace).await;
        assert!(reply.check(201).replayed(), "{body}");
        for field in ["hold_id", "created_at", "expires_at", "sequence", "amount"] {
            assert_eq!(reply.body[field], first.body[field], "{field} after {body}");
        }
    }
    let other = r#"{"amount":30,"ttl_seconds":61}"#;
    post_text(&account, "k1", other, trace).await.check_problem(422, "key_reused");
    account.check_balance("G=100 A=70 H=30").await;

    // The metadata of the first stays.
    let entries = account.entries().await;
    let authorize =
        entries.iter().find(|entry| entry["kind"] == "authorize").expect("there is one");
    assert_eq!(authorize["metadata"], json!({ "attempt": "1" }));
}

/// K004: a decision is remembered, whatever it was; a request that was not decided is not.
#[tokio::test]
async fn decisions_are_remembered_and_nothing_else() {
    let cluster = Cluster::start().await;
    let account = Account::open(&cluster.api(1), "memory", 10).await;
    let thirty = json!({ "amount": 30 });

    // A refusal stays a refusal, so that a delayed copy never becomes a hold that nobody knows.
    let refused = account.post("holds", "k2", thirty.clone()).await;
    refused.check_problem(402, "insufficient_credits");
    assert_eq!(refused.body["available"], "10");
    assert_eq!(refused.body["short_by"], "20");
    assert_eq!(refused.body["retry"], "new_key");
    account.grant(100).await;
    let again = account.post("holds", "k2", thirty.clone()).await;
    again.check_problem(402, "insufficient_credits");
    assert!(again.replayed());
    assert!(again.text("detail").contains("new"), "it says to use a new key: {again:#?}");
    account.post("holds", "k3", thirty.clone()).await.check(201);

    // A hold that does not exist is a decision of the log too.
    let no_hold = "holds/h999999-0-us/release";
    account.post(no_hold, "k6", json!({})).await.check_problem(404, "hold_not_found");
    let again = account.post(no_hold, "k6", json!({})).await;
    assert!(again.check_problem(404, "hold_not_found").replayed());

    // What could not be read, or was not allowed to be asked, leaves the key free.
    let broken = account.post("holds", "k4", json!({ "amount": -1 })).await;
    assert!(!broken.check_problem(400, "invalid_request").replayed());
    let stranger = account.through(&cluster.api(1).with_token("nobody's"));
    stranger.post("holds", "k4", thirty.clone()).await.check_problem(401, "unauthenticated");
    let reader = account.through(&cluster.api_of(1, Caller::Read));
    reader.post("holds", "k4", thirty.clone()).await.check_problem(403, "forbidden");
    let large = json!({ "amount": 30, "metadata": { "note": "x".repeat(1 << 20) } });
    account.post("holds", "k4", large).await.check_problem(413, "body_too_large");
    let corrected = account.post("holds", "k4", thirty).await;
    assert!(!corrected.check(201).replayed());
    account.check_balance("G=110 A=50 H=60").await;
}

/// K002, K011 and K016: a key belongs to one request about one thing.
#[tokio::test]
async fn a_key_belongs_to_one_resource() {
    let cluster = Cluster::start().await;
    let account = Account::open(&cluster.api(1), "resources", 1_000).await;
    let [first, second] = [account.hold(250).await, account.hold(250).await];
    let capture = |hold: &str| format!("holds/{hold}/capture");
    let whole = json!({ "amount": 250 });
    account.post(&capture(&first), "chunk-7", whole.clone()).await.check(200);
    let reused = account.post(&capture(&second), "chunk-7", whole).await;
    reused.check_problem(422, "key_reused");
    account.check_balance("G=1000 A=500 H=250 U=250").await;
    // A documented way to say "this hold is not needed".
    account.post(&capture(&second), "none", json!({ "amount": 0 })).await.check(200);
    account.check_balance("G=1000 A=750 U=250").await;

    let hold = account.hold(30).await;
    let release = format!("holds/{hold}/release");
    let released = account.post(&release, "r1", json!({})).await;
    let again = account.post(&release, "r1", json!({})).await;
    assert!(again.check(200).replayed());
    assert_eq!(again.body["amount"], "30");
    let late = account.post(&release, "r2", json!({})).await;
    late.check_problem(409, "already_released");
    assert_eq!(late.body["first_sequence"], released.body["sequence"]);
    let detail = account.get(&format!("holds/{hold}")).await;
    assert_eq!(detail.check(200).body["history"].as_array().map(Vec::len), Some(2));

    // Keys are an account's own: another tenant may use the same.
    let other = Account::open(&cluster.api(2), "other", 10).await;
    let charged = other.post("charges", "chunk-7", json!({ "amount": 1 })).await;
    assert!(!charged.check(201).replayed());
}
