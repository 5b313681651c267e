//! Three regions: who decides where, and that every credit is found again.

use serde_json::{Value, json};

use crate::abroad::{
    AP, EU, US, add_up, charge, decided_by, make_local, open_in, strictly, until_cut_off,
};
use crate::support::{Answer, Caller, Cluster};
use crate::waiting::{read_until, until_status};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_spends_of_its_own_right_and_home_finds_every_credit() {
    let cluster = Cluster::of_regions().await;
    let [us, eu, ap] = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    // Asked anywhere, opened where its home is.
    open_in(&ap, "acme", "us", 10_000).await;
    let first = charge(&eu, "acme", "first", 1).await.expect(201);
    assert_eq!(decided_by(&first), "region=us, role=home");
    assert!(first.text("/charge_id").ends_with("-0-us"), "{first}");
    let mut spent = 1 + make_local(&eu, "acme", "eu").await;
    let local = charge(&eu, "acme", "local", 1).await.expect(201);
    assert_eq!(decided_by(&local), "region=eu, role=allocation");
    assert!(local.text("/charge_id").ends_with("-1-eu"), "{}", local.text("/charge_id"));
    assert_eq!(local.header("purser-bound"), "0");
    spent += 1;
    // A repeat is answered where it was decided, also if it is asked to be strict.
    let strict = json!({ "amount": 1, "consistency": "strict" });
    let again = eu.post("/v1/tenants/acme/charges", "local", &strict).await.expect(201);
    assert_eq!(again.bytes, local.bytes);
    assert_eq!(again.header("idempotent-replayed"), "true");
    // Refunded from another region, by whoever made it.
    let path = format!("/v1/tenants/acme/charges/{}/refund", local.text("/charge_id"));
    let refund = ap.post(&path, "undo", &json!({ "reason": "never delivered" })).await.expect(200);
    assert_eq!(decided_by(&refund), "region=eu, role=allocation");
    spent -= 1;
    let strict = strictly(&eu, "strict", 7).await.expect(201);
    assert_eq!(decided_by(&strict), "region=us, role=home");
    spent += 7;
    add_up(&us, (spent, 0), 10_000).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_that_is_cut_off_spends_its_right_and_no_more() {
    let cluster = Cluster::of_regions().await;
    let [us, eu] = [US, EU].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", 1_000).await;
    let mut spent = make_local(&eu, "acme", "eu").await;
    cluster.cut(EU);
    until_cut_off(&eu).await;
    for number in 0.. {
        let answer = charge(&eu, "acme", &format!("alone-{number}"), 1).await;
        if answer.status != 201 {
            answer.expect_problem(503, "home_unreachable");
            break;
        }
        assert_eq!(decided_by(&answer), "region=eu, role=allocation");
        spent += 1;
    }
    // Home goes on with what it has, and says what is out.
    spent += 10;
    let strict = strictly(&us, "meanwhile", 10).await.expect(201);
    assert_eq!(strict.header("purser-bound"), "0");
    cluster.heal(EU);
    add_up(&us, (spent, 0), 1_000).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credits_that_are_scattered_serve_a_strict_call() {
    let cluster = Cluster::of_regions().await;
    let [us, eu, ap] = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", 1_000).await;
    let spent = make_local(&eu, "acme", "eu").await + make_local(&ap, "acme", "ap").await;
    let all = strictly(&us, "all", 1_000 - spent).await.expect(201);
    assert_eq!(decided_by(&all), "region=us, role=home");
    add_up(&us, (1_000, 0), 1_000).await;
    let more = strictly(&eu, "more", 1).await;
    more.expect_problem(402, "insufficient_credits");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credits_that_only_a_lost_region_has_are_stranded_and_not_exhausted() {
    let cluster = Cluster::of_regions().await;
    let [us, eu] = [US, EU].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", 1_000).await;
    let spent = make_local(&eu, "acme", "eu").await;
    cluster.cut(EU);
    until_cut_off(&eu).await;
    let short = strictly(&us, "all", 1_000 - spent).await.expect_problem(402, "stranded");
    assert_eq!(short.body["regions"], json!(["eu"]));
    assert_ne!(short.text("/stranded"), "0");
    cluster.heal(EU);
    // Remembered: the same key gets the same answer, another one is served.
    let again = strictly(&us, "all", 1_000 - spent).await.expect_problem(402, "stranded");
    assert_eq!(again.header("idempotent-replayed"), "true");
    let mut number = 0;
    until_status(201, "all credits", async || {
        number += 1;
        strictly(&us, &format!("all-{number}"), 1_000 - spent).await
    })
    .await;
    add_up(&us, (1_000, 0), 1_000).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_operation_in_two_regions_leaves_one_charge() {
    let cluster = Cluster::of_regions().await;
    let [us, eu, ap] = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", 1_000).await;
    let spent = make_local(&eu, "acme", "eu").await + make_local(&ap, "acme", "ap").await;
    let [one, other] =
        [charge(&eu, "acme", "twice", 1).await, charge(&ap, "acme", "twice", 1).await];
    assert_eq!(decided_by(&one.expect(201)), "region=eu, role=allocation");
    assert_eq!(decided_by(&other.expect(201)), "region=ap, role=allocation");
    // Both are booked, and one of them is undone.
    let path = "/v1/tenants/acme/balance";
    read_until(&us, path, |body| body["totals"]["refunded"] == "1").await;
    add_up(&us, (spent + 1, 0), 1_000).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_region_has_passed_on_it_never_decides_itself() {
    let cluster = Cluster::of_regions().await;
    let [us, eu] = [US, EU].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", 1_000).await;
    let passed_on = charge(&eu, "acme", "first", 1).await.expect(201);
    assert_eq!(decided_by(&passed_on), "region=us, role=home");
    let spent = 1 + make_local(&eu, "acme", "eu").await;
    let again = charge(&eu, "acme", "first", 1).await.expect(201);
    assert_eq!(decided_by(&again), "region=us, role=home");
    assert_eq!(again.bytes, passed_on.bytes);
    assert_eq!(again.header("idempotent-replayed"), "true");
    charge(&eu, "acme", "first", 2).await.expect_problem(422, "key_reused");
    add_up(&us, (spent, 0), 1_000).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_capture_beyond_what_the_region_may_spend_is_paid_by_home() {
    let cluster = Cluster::of_regions().await;
    let [us, eu] = [US, EU].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", 10_000).await;
    let spent = make_local(&eu, "acme", "eu").await;
    let hold = eu.post("/v1/tenants/acme/holds", "hold", &json!({ "amount": 1 })).await.expect(201);
    assert_eq!(decided_by(&hold), "region=eu, role=allocation");
    let path = format!("/v1/tenants/acme/holds/{}/capture", hold.text("/hold_id"));
    let captured = us.post(&path, "capture", &json!({ "amount": 2_000 })).await.expect(200);
    assert_eq!(decided_by(&captured), "region=eu, role=allocation");
    assert_eq!(captured.text("/captured_total"), "2000");
    add_up(&us, (spent + 2_000, 0), 10_000).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_capture_that_nobody_can_pay_for_is_owed_where_its_caller_allows_it() {
    let cluster = Cluster::of_regions().await;
    let [us, eu] = [US, EU].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", 1_000).await;
    let policy = json!({ "debt_limit": "800" });
    us.post("/admin/v1/tenants/acme/policy", "policy", &policy).await.expect(200);
    let spent = make_local(&eu, "acme", "eu").await;
    let hold = eu.post("/v1/tenants/acme/holds", "hold", &json!({ "amount": 1 })).await.expect(201);
    let path = format!("/v1/tenants/acme/holds/{}/capture", hold.text("/hold_id"));
    let beyond = json!({ "amount": 1_500 });
    let refused = us.post(&path, "no", &beyond).await;
    let refused = refused.expect_problem(402, "insufficient_credits");
    assert_eq!(decided_by(&refused), "region=eu, role=allocation");
    let again = us.post(&path, "no", &beyond).await.expect_problem(402, "insufficient_credits");
    assert_eq!(again.header("idempotent-replayed"), "true");
    let on_credit = json!({ "amount": 1_500, "allow_debt": true });
    let captured = us.post(&path, "yes", &on_credit).await.expect(200);
    assert_eq!(decided_by(&captured), "region=eu, role=allocation");
    // Home has booked what is owed, and it is no overspend.
    let used = (spent + 1_500).to_string();
    let balance = read_until(&us, "/v1/tenants/acme/balance", |it| it["used"] == *used).await;
    let debt = (spent + 500).to_string();
    assert_eq!(balance.text("/debt"), debt);
    let overspend = us.get("/admin/v1/overspend").await.expect(200);
    assert_eq!((overspend.text("/bound"), overspend.text("/allowed_debt")), ("0", &*debt));
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn captures_that_are_short_together_are_all_paid_for() {
    let cluster = Cluster::of_regions().await;
    let [us, eu] = [US, EU].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", 10_000).await;
    let spent = make_local(&eu, "acme", "eu").await;
    let mut captures = Vec::new();
    for key in ["one", "two", "three"] {
        let hold = eu.post("/v1/tenants/acme/holds", key, &json!({ "amount": 1 })).await;
        let id = hold.expect(201).text("/hold_id").to_owned();
        captures.push((format!("/v1/tenants/acme/holds/{id}/capture"), format!("take-{key}")));
    }
    let body = json!({ "amount": 3_000 });
    let capture = |(path, key): &(String, String)| {
        let (eu, path, key, body) = (eu.clone(), path.clone(), key.clone(), body.clone());
        async move { eu.post(&path, &key, &body).await }
    };
    let [one, two, three] = [0, 1, 2].map(|place| capture(&captures[place]));
    let answers = tokio::join!(one, two, three);
    for answer in [answers.0, answers.1, answers.2] {
        assert_eq!(decided_by(&answer.expect(200)), "region=eu, role=allocation");
    }
    add_up(&us, (spent + 9_000, 0), 10_000).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_capture_that_only_a_lost_region_could_pay_for_is_stranded() {
    let cluster = Cluster::of_regions().await;
    let [us, eu, ap] = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", 1_000).await;
    let spent = make_local(&eu, "acme", "eu").await + make_local(&ap, "acme", "ap").await;
    let hold = eu.post("/v1/tenants/acme/holds", "hold", &json!({ "amount": 1 })).await.expect(201);
    let path = format!("/v1/tenants/acme/holds/{}/capture", hold.text("/hold_id"));
    cluster.cut(AP);
    until_cut_off(&ap).await;
    let rest = json!({ "amount": 1_000 - spent });
    let short = eu.post(&path, "rest", &rest).await.expect_problem(402, "stranded");
    assert_eq!(decided_by(&short), "region=eu, role=allocation");
    assert_eq!(short.body["regions"], json!(["ap"]));
    cluster.heal(AP);
    let again = eu.post(&path, "rest", &rest).await.expect_problem(402, "stranded");
    assert_eq!(again.header("idempotent-replayed"), "true");
    // Nothing of it happened, and what home has pays for less.
    let less = eu.post(&path, "less", &json!({ "amount": 100 })).await.expect(200);
    assert_eq!(decided_by(&less), "region=eu, role=allocation");
    add_up(&us, (spent + 100, 0), 1_000).await;
    cluster.end().await;
}

/// Charges acme under several keys, all of them or none.
async fn charge_together(caller: &Caller, charges: &[(&str, u64)]) -> Answer {
    let item = |(key, amount): &(&str, u64)| json!({ "op": "charge", "tenant": "acme", "idempotency_key": key, "amount": amount });
    let items: Vec<Value> = charges.iter().map(item).collect();
    let body = json!({ "atomic": true, "items": items }).to_string();
    caller.raw("POST", "/v1/batch", &[("content-type", "application/json")], body.into()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_decided_together_waits_for_credits_that_are_out() {
    let cluster = Cluster::of_regions().await;
    let [us, eu, ap] = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", 1_000).await;
    let spent = make_local(&eu, "acme", "eu").await + make_local(&ap, "acme", "ap").await;
    let all = charge_together(&eu, &[("half", 500), ("rest", 500 - spent)]).await.expect(200);
    assert_eq!(decided_by(&all), "region=us, role=home");
    let statuses = [0, 1].map(|place| all.body["results"][place]["status"].as_u64());
    assert_eq!(statuses, [Some(201); 2], "{:#}", all.body);
    add_up(&us, (1_000, 0), 1_000).await;
    let more = charge_together(&us, &[("one", 1), ("more", 1)]).await.expect(200);
    let codes = [0, 1].map(|place| more.body["results"][place]["body"]["code"].as_str());
    assert_eq!(codes, [Some("insufficient_credits"), Some("batch_aborted")], "{:#}", more.body);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_region_has_decided_is_not_decided_again_together_when_it_is_home() {
    let cluster = Cluster::of_regions().await;
    let [us, eu] = [US, EU].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", 1_000).await;
    let spent = make_local(&eu, "acme", "eu").await;
    let local = charge(&eu, "acme", "local", 1).await.expect(201);
    assert_eq!(decided_by(&local), "region=eu, role=allocation");
    let body = json!({ "to": "eu" }).to_string();
    let headers = [("content-type", "application/json")];
    let moved = us.raw("POST", "/admin/v1/tenants/acme/move", &headers, body.into()).await;
    moved.expect(200);
    let together = charge_together(&eu, &[("new", 1), ("local", 1)]).await;
    together.expect_problem(422, "key_reused");
    add_up(&us, (spent + 1, 0), 1_000).await;
    cluster.end().await;
}
