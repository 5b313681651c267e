//! What callers are told by each operation: statuses, codes and figures.
//!
//! One walk for each subject; every corner of the rules has its transcript inside the ledger.

use purser_tests::{Account, Cluster, Figures, Reply, fresh_key, number};
use reqwest::Method;
use serde_json::{Value, json};

async fn undo(account: &Account, subject: &str, verb: &str, amount: Option<u64>) -> Reply {
    let mut body = json!({ "reason": "the work failed" });
    if let Some(amount) = amount {
        body["amount"] = Value::from(amount);
    }
    account.post(&format!("{subject}/{verb}"), &fresh_key(), body).await
}

/// K013: what was refused cannot be captured.
#[tokio::test]
async fn a_refused_authorize_leaves_nothing_to_capture() {
    let cluster = Cluster::start().await;
    let account = Account::open(&cluster.api(1), "refused", 100).await;
    let refused = account.authorize(150).await;
    refused.check_problem(402, "insufficient_credits");
    assert_eq!(refused.body["hold_id"], Value::Null);
    for hold in ["h1-0-us", "h2-0-us", "h3-0-us", "h4-0-us"] {
        for allow_debt in [false, true] {
            let body = json!({ "amount": 150, "allow_debt": allow_debt });
            let capture = format!("holds/{hold}/capture");
            let reply = account.post(&capture, &fresh_key(), body).await;
            reply.check_problem(404, "hold_not_found");
        }
    }
    account.check_balance("G=100 A=100").await;
}

/// K017 and K018: increments, the remainder, more than was held, and debt.
#[tokio::test]
async fn captures_add_up_and_the_last_frees_the_rest() {
    let cluster = Cluster::start().await;
    let account = Account::open(&cluster.api(1), "captures", 100).await;
    let hold = account.hold(60).await;
    let last = account.capture(&hold, 25).await;
    assert_eq!(last.check(200).body["captured_total"], "25");
    assert_eq!(last.body["held_remaining"], "0");
    assert_eq!(last.body["status"], "captured");
    account.check_balance("G=100 A=75 U=25").await;

    let hold = account.hold(60).await;
    let capture = format!("holds/{hold}/capture");
    let part = json!({ "amount": 40, "final": false });
    let part = account.post(&capture, &fresh_key(), part).await;
    assert_eq!(part.check(200).body["held_remaining"], "20");
    account.check_balance("G=100 A=15 H=20 U=65").await;
    account.capture(&hold, 30).await.check(200);
    account.check_balance("G=100 A=5 U=95").await;
    account.capture(&hold, 1).await.check_problem(409, "already_captured");

    let account = Account::open(&cluster.api(2), "debtor", 100).await;
    let limit = json!({ "debt_limit": "30" });
    account.admin("policy", &fresh_key(), limit).await.check(200);
    let hold = account.hold(80).await;
    let short = account.capture(&hold, 130).await;
    assert_eq!(short.check_problem(402, "insufficient_credits").body["short_by"], "30");
    account.check_balance("G=100 A=20 H=80").await;
    let capture = format!("holds/{hold}/capture");
    let with_debt = json!({ "amount": 130, "allow_debt": true });
    let captured = account.post(&capture, &fresh_key(), with_debt).await;
    assert_eq!(captured.check(200).body["debt_added"], "30");
    account.check_balance("G=100 U=130 D=30").await;
    account.authorize(1).await.check_problem(402, "insufficient_credits");
    let granted = account.admin("grants", &fresh_key(), json!({ "amount": 50 })).await;
    assert_eq!(granted.check(201).body["debt_repaid"], "30");
    account.check_balance("G=150 A=20 U=130").await;
    account.authorize(21).await.check_problem(402, "insufficient_credits");
    account.authorize(20).await.check(201);
}

/// K027, K029 and K032: a refund gives back what was captured, once.
#[tokio::test]
async fn refunds_stop_at_what_was_captured() {
    let cluster = Cluster::start().await;
    let account = Account::open(&cluster.api(1), "refunds", 1_000).await;
    let [first, _second] = [account.captured_hold(500).await, account.captured_hold(500).await];
    let first = format!("holds/{first}");
    let refunded = undo(&account, &first, "refund", Some(500)).await;
    assert_eq!(refunded.check(200).body["refunded"], "500");
    assert_eq!(refunded.body["refundable"], "0");
    for amount in [500, 1] {
        let more = undo(&account, &first, "refund", Some(amount)).await;
        assert_eq!(more.check_problem(409, "refund_exceeds_captured").body["refundable"], "0");
    }
    account.check_balance("G=1000 A=500 U=500").await;

    let partly = account.hold(100).await;
    account.capture(&partly, 60).await.check(200);
    let partly = format!("holds/{partly}");
    let more = undo(&account, &partly, "refund", Some(80)).await;
    assert_eq!(more.check_problem(409, "refund_exceeds_captured").body["refundable"], "60");
    let open = format!("holds/{}", account.hold(50).await);
    undo(&account, &open, "refund", Some(1)).await.check_problem(409, "nothing_captured");
    undo(&account, "holds/h99-0-us", "refund", Some(5)).await.check_problem(404, "hold_not_found");
    undo(&account, "charges/c99-0-us", "refund", None).await.check_problem(404, "charge_not_found");
    let claimed = json!({ "amount": 5, "reason": "none", "reserved": 500 });
    let claimed = account.post(&format!("{partly}/refund"), &fresh_key(), claimed).await;
    claimed.check_problem(400, "invalid_request");
    account.check_balance("G=1000 A=390 H=50 U=560").await;
}

/// K034 and K036: the work that was given up succeeds after all.
#[tokio::test]
async fn a_reclaim_takes_a_refund_back_once() {
    let cluster = Cluster::start().await;
    let account = Account::open(&cluster.api(1), "late", 50).await;
    let hold = format!("holds/{}", account.captured_hold(40).await);
    undo(&account, &hold, "reclaim", None).await.check_problem(409, "not_refunded");
    undo(&account, &hold, "refund", None).await.check(200);
    account.check_balance("G=50 A=50").await;
    let charged = account.post("charges", &fresh_key(), json!({ "amount": 45 })).await;
    charged.check(201);

    let reclaim = format!("{hold}/reclaim");
    let reason = json!({ "reason": "it arrived" });
    let reclaimed = account.post(&reclaim, "webhook", reason.clone()).await;
    assert_eq!(reclaimed.check(200).body["reclaimed"], "40");
    assert_eq!(reclaimed.body["debt_added"], "35");
    assert!(account.post(&reclaim, "webhook", reason.clone()).await.check(200).replayed());
    let poller = account.post(&reclaim, "poller", reason).await;
    poller.check_problem(409, "already_reclaimed");
    account.check_balance("G=50 U=85 D=35").await;
    account.authorize(1).await.check_problem(402, "insufficient_credits");
    account.grant(100).await;
    account.check_balance("G=150 A=65 U=85").await;
}

/// Whichever node was asked: the answer comes from home, under a bound of zero, with the balance.
#[tokio::test]
async fn every_answer_says_who_decided_and_what_is_left() {
    let cluster = Cluster::start().await;
    let account = Account::open(&cluster.api(1), "decided", 100).await;
    for (spent, id) in (1..).zip(Cluster::IDS) {
        let api = cluster.api(id);
        let request = api.request(Method::POST, &account.path("charges"));
        let request = request.header("idempotency-key", fresh_key());
        let request = request.header("request-id", format!("job-{id}"));
        let request = request.header("content-type", "application/json").body(r#"{"amount":1}"#);
        let reply = api.send(request).await.expect("the node answers");
        assert_eq!(reply.check(201).header("purser-decided-by"), Some("region=us, role=home"));
        assert_eq!(reply.header("purser-bound"), Some("0"));
        assert_eq!(reply.header("request-id"), Some(&*format!("job-{id}")));
        assert_eq!(reply.body["decided_by"], json!({ "region": "us", "role": "home" }));
        assert_eq!(reply.body["balance"]["available"], (100 - spent).to_string());

        let stale = account.through(&api).get("balance?consistency=stale").await;
        let age = stale.check(200).body["age_ms"].as_u64();
        assert_eq!(stale.header("purser-age-ms").and_then(|age| age.parse().ok()), age);
        let asked = account.through(&api);
        let check = asked.post("check", &fresh_key(), json!({ "amount": 98 })).await;
        assert_eq!(check.check(200).body["allowed"], 98 <= 100 - spent, "{check:#?}");
    }
    account.check_balance("G=100 A=97 U=3").await;
}

/// A balance in an answer is the one of the sequence that it names, also where the operation made
/// credits available and they paid debt at once.
#[tokio::test]
async fn the_balance_of_an_answer_is_as_of_the_sequence_it_names() {
    let cluster = Cluster::start().await;
    let account = Account::open(&cluster.api(1), "as-of", 200).await;
    account.admin("policy", &fresh_key(), json!({ "debt_limit": "30" })).await.check(200);
    let [first, second] = [account.hold(80).await, account.hold(120).await];
    let capture = |hold: &str, body: Value| {
        let (account, path) = (account.clone(), format!("holds/{hold}/capture"));
        async move { account.post(&path, &fresh_key(), body).await }
    };
    let owing = capture(&first, json!({ "amount": 110, "allow_debt": true })).await;
    let paying = capture(&second, json!({ "amount": 20 })).await;
    account.check_balance("G=200 A=70 U=130").await;
    for answer in [owing, paying] {
        let balance = &answer.check(200).body["balance"];
        let sequence = number(&balance["as_of"]["sequence"]);
        let then = account.get(&format!("balance?at_sequence={sequence}")).await;
        let then = Figures::of(&then.check(200).body);
        assert_eq!(Figures::of(balance), then, "as of {sequence}: {answer:#?}");
    }
}
