//! Three regions: who decides where, and that every credit is found again.

use serde_json::json;

use crate::abroad::{
    AP, EU, US, add_up, charge, decided_by, make_local, open_in, read_until, strictly,
    until_cut_off,
};
use crate::support::Cluster;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_spends_of_its_own_right_and_home_finds_every_credit() {
    let cluster = Cluster::of_regions().await;
    let [us, eu, ap] = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    // Asked anywhere, opened where its home is.
    open_in(&ap, "acme", "us", 10_000).await;
    let first = charge(&eu, "acme", "first", 1).await.expect(201);
    assert_eq!(decided_by(&first), "region=us, role=home");
    assert_eq!(first.text("/charge_id"), "c3-0-us");
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
    while strictly(&us, &format!("all-{number}"), 1_000 - spent).await.status != 201 {
        number += 1;
    }
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
