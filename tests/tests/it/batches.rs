//! Batches: each item its own answer, or all of them one decision.

use purser_tests::{Account, Cluster};
use serde_json::{Value, json};

fn item(op: &str, tenant: &str, key: &str, more: Value) -> Value {
    let mut item = json!({ "op": op, "tenant": tenant, "idempotency_key": key });
    for (name, value) in more.as_object().expect("an object") {
        item[name] = value.clone();
    }
    item
}

fn authorize(tenant: &str, key: &str, amount: u64) -> Value {
    item("authorize", tenant, key, json!({ "amount": amount }))
}

fn statuses(body: &Value) -> Vec<u64> {
    let results = body["results"].as_array().expect("a batch has results");
    results.iter().map(|result| result["status"].as_u64().expect("a status")).collect()
}

#[tokio::test]
async fn items_of_a_plain_batch_succeed_and_fail_alone() {
    let cluster = Cluster::start().await;
    let api = cluster.api(1);
    let mut accounts = Vec::new();
    for tenant in ["one", "two", "three", "four"] {
        accounts.push(Account::open(&api, tenant, 100).await);
    }
    let body = json!({ "items": [
        authorize("one", "b1", 30),
        authorize("two", "b1", 101),
        item("burn", "two", "b2", json!({})),
        item("charge", "three", "b1", json!({ "amount": 7 })),
        authorize("nobody", "b1", 1),
        item("charge", "four", "b1", json!({ "amount": 5, "hold_id": "h1-0-us" })),
        item("release", "four", "b2", json!({ "hold_id": "h999-0-us" })),
    ]});
    let expected = [201, 402, 400, 201, 404, 400, 404];
    let first = api.post("/v1/batch", "unused", &body).await;
    assert_eq!(statuses(&first.check(200).body), expected, "{first:#?}");
    assert_eq!(first.body["results"][1]["body"]["code"], "insufficient_credits");
    assert_eq!(first.body["results"][2]["body"]["code"], "invalid_request");

    // Sent again through another node: nothing happens twice.
    let again = cluster.api(2).post("/v1/batch", "unused", &body).await;
    assert_eq!(statuses(&again.check(200).body), expected, "{again:#?}");
    for (place, replayed) in [(0, true), (1, true), (2, false), (3, true), (6, true)] {
        let result = &again.body["results"][place];
        assert_eq!(result["replayed"], replayed, "{result:#}");
    }
    let hold = &first.body["results"][0]["body"]["hold_id"];
    assert_eq!(&again.body["results"][0]["body"]["hold_id"], hold);
    for (account, balance) in
        accounts.iter().zip(["G=100 A=70 H=30", "G=100 A=100", "G=100 A=93 U=7", "G=100 A=100"])
    {
        account.check_balance(balance).await;
    }
}

#[tokio::test]
async fn an_atomic_batch_takes_effect_as_a_whole_or_not_at_all() {
    let cluster = Cluster::start().await;
    let api = cluster.api(1);
    let account = Account::open(&api, "whole", 100).await;
    let batch = |items: Value| json!({ "atomic": true, "items": items });

    let too_much = batch(json!([authorize("whole", "a1", 60), authorize("whole", "a2", 60)]));
    let refused = api.post("/v1/batch", "unused", &too_much).await;
    println!("an atomic batch that is refused answers {}: {}", refused.status, refused.body);
    let told = refused.body.to_string();
    assert!(told.contains("insufficient_credits"), "{refused:#?}");
    account.check_balance("G=100 A=100").await;

    let fits = batch(json!([
        authorize("whole", "a3", 60),
        item("charge", "whole", "a4", json!({ "amount": 40 })),
    ]));
    let done = api.post("/v1/batch", "unused", &fits).await;
    assert_eq!(statuses(&done.check(200).body), [201, 201], "{done:#?}");
    account.check_balance("G=100 H=60 U=40").await;
    let again = cluster.api(3).post("/v1/batch", "unused", &fits).await;
    assert_eq!(statuses(&again.check(200).body), [201, 201], "{again:#?}");
    account.check_balance("G=100 H=60 U=40").await;

    // One decision needs one ledger.
    Account::open(&api, "other", 100).await;
    let mixed = batch(json!([authorize("whole", "a5", 1), authorize("other", "a6", 1)]));
    api.post("/v1/batch", "unused", &mixed).await.check_problem(400, "invalid_request");
    account.check_balance("G=100 H=60 U=40").await;
}

#[tokio::test]
async fn a_batch_of_a_thousand_is_answered_in_order() {
    let cluster = Cluster::start().await;
    let api = cluster.api(2);
    let account = Account::open(&api, "many", 1_000_000).await;
    let amounts = 1..=1_000_u64;
    let items: Vec<Value> = amounts
        .clone()
        .map(|amount| {
            let key = format!("item-{amount}");
            item("charge", "many", &key, json!({ "amount": amount }))
        })
        .collect();
    let reply = api.post("/v1/batch", "unused", &json!({ "items": items })).await;
    let results = reply.check(200).body["results"].as_array().expect("results").clone();
    let charged: Vec<u64> =
        results.iter().map(|result| purser_tests::number(&result["body"]["amount"])).collect();
    assert_eq!(charged, amounts.collect::<Vec<u64>>());
    account.check_balance("G=1000000 A=499500 U=500500").await;

    let too_many: Vec<Value> = (0..1_001).map(|_| authorize("many", "k", 1)).collect();
    let refused = api.post("/v1/batch", "unused", &json!({ "items": too_many })).await;
    refused.check_problem(400, "invalid_request");
}
