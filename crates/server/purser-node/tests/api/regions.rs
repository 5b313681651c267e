//! Three regions: who decides where, and that every credit is found again.

use serde_json::{Value, json};

use crate::support::{Answer, Caller, Cluster};

/// Places of the nodes in the cluster.
const US: usize = 0;
const EU: usize = 1;
const AP: usize = 2;

async fn open_in(caller: &Caller, tenant: &str, home: &str, credits: u64) {
    let body = json!({ "tenant": tenant, "home": home });
    caller.post("/admin/v1/tenants", &format!("open-{tenant}"), &body).await.expect(201);
    let path = format!("/admin/v1/tenants/{tenant}/grants");
    let body = json!({ "amount": credits });
    caller.post(&path, &format!("grant-{tenant}"), &body).await.expect(201);
}

async fn charge(caller: &Caller, key: &str, amount: u64) -> Answer {
    caller.post("/v1/tenants/acme/charges", key, &json!({ "amount": amount })).await
}

fn decided_by(answer: &Answer) -> &str {
    answer.header("purser-decided-by")
}

/// Charges one credit after another until `is_it`; gives how many were charged. Fails with the test's
/// time limit if it never is.
async fn charge_until(caller: &Caller, prefix: &str, is_it: impl Fn(&Answer) -> bool) -> u64 {
    let mut number = 0;
    loop {
        number += 1;
        let answer = charge(caller, &format!("{prefix}-{number}"), 1).await;
        if is_it(&answer) {
            return number;
        }
        answer.expect(201);
    }
}

/// Asks again and again until the answer is as wished.
async fn read_until(caller: &Caller, path: &str, is_it: impl Fn(&Value) -> bool) -> Answer {
    loop {
        let answer = caller.get(path).await;
        if answer.status == 200 && is_it(&answer.body) {
            return answer;
        }
    }
}

/// Charges one credit after another until the region decides by itself; gives what was spent.
async fn make_local(caller: &Caller, region: &str) -> u64 {
    let by = format!("region={region}, role=allocation");
    charge_until(caller, region, |answer| decided_by(answer) == by).await
}

async fn strictly(caller: &Caller, key: &str, amount: u64) -> Answer {
    let body = json!({ "amount": amount, "consistency": "strict" });
    caller.post("/v1/tenants/acme/charges", key, &body).await
}

/// A balance once `used` is booked, whose credits must add up to `granted`.
async fn settled(caller: &Caller, used: u64, granted: u64) -> Answer {
    let used_text = used.to_string();
    let is_it = |body: &Value| body["used"] == used_text.as_str();
    let balance = read_until(caller, "/v1/tenants/acme/balance", is_it).await;
    let out: u64 = balance.body["allocated"]
        .as_object()
        .unwrap()
        .values()
        .map(|amount| amount.as_str().unwrap().parse::<u64>().unwrap())
        .sum();
    let available: u64 = balance.text("/available").parse().unwrap();
    assert_eq!(available + out + used, granted, "{:#}", balance.body);
    assert_eq!(balance.text("/debt"), "0");
    balance
}

/// Asks until a call that needs home is refused because home cannot be reached.
async fn until_cut_off(caller: &Caller) {
    for number in 0.. {
        let answer = strictly(caller, &format!("probe-{number}"), 1_000_000).await;
        if answer.status == 503 {
            answer.expect_problem(503, "home_unreachable");
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_spends_of_its_own_right_and_home_finds_every_credit() {
    let cluster = Cluster::of_regions().await;
    let [us, eu, ap] = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    // Asked anywhere, opened where its home is.
    open_in(&ap, "acme", "us", 10_000).await;
    let first = charge(&eu, "first", 1).await.expect(201);
    assert_eq!(decided_by(&first), "region=us, role=home");
    assert_eq!(first.text("/charge_id"), "c3-0-us");
    let mut spent = 1 + make_local(&eu, "eu").await;
    let local = charge(&eu, "local", 1).await.expect(201);
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
    settled(&us, spent, 10_000).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_that_is_cut_off_spends_its_right_and_no_more() {
    let cluster = Cluster::of_regions().await;
    let [us, eu] = [US, EU].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", 1_000).await;
    let mut spent = make_local(&eu, "eu").await;
    cluster.cut(EU);
    until_cut_off(&eu).await;
    for number in 0.. {
        let answer = charge(&eu, &format!("alone-{number}"), 1).await;
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
    settled(&us, spent, 1_000).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credits_that_are_scattered_serve_a_strict_call() {
    let cluster = Cluster::of_regions().await;
    let [us, eu, ap] = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", 1_000).await;
    let spent = make_local(&eu, "eu").await + make_local(&ap, "ap").await;
    let all = strictly(&us, "all", 1_000 - spent).await.expect(201);
    assert_eq!(decided_by(&all), "region=us, role=home");
    settled(&us, 1_000, 1_000).await;
    let more = strictly(&eu, "more", 1).await;
    more.expect_problem(402, "insufficient_credits");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credits_that_only_a_lost_region_has_are_stranded_and_not_exhausted() {
    let cluster = Cluster::of_regions().await;
    let [us, eu] = [US, EU].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", 1_000).await;
    let spent = make_local(&eu, "eu").await;
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
    settled(&us, 1_000, 1_000).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_operation_in_two_regions_leaves_one_charge() {
    let cluster = Cluster::of_regions().await;
    let [us, eu, ap] = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", 1_000).await;
    let spent = make_local(&eu, "eu").await + make_local(&ap, "ap").await;
    let [one, other] = [charge(&eu, "twice", 1).await, charge(&ap, "twice", 1).await];
    assert_eq!(decided_by(&one.expect(201)), "region=eu, role=allocation");
    assert_eq!(decided_by(&other.expect(201)), "region=ap, role=allocation");
    // Both are booked, and one of them is undone.
    let path = "/v1/tenants/acme/balance";
    read_until(&us, path, |body| body["totals"]["refunded"] == "1").await;
    settled(&us, spent + 1, 1_000).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_region_has_passed_on_it_never_decides_itself() {
    let cluster = Cluster::of_regions().await;
    let [us, eu] = [US, EU].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", 1_000).await;
    let passed_on = charge(&eu, "first", 1).await.expect(201);
    assert_eq!(decided_by(&passed_on), "region=us, role=home");
    let spent = 1 + make_local(&eu, "eu").await;
    let again = charge(&eu, "first", 1).await.expect(201);
    assert_eq!(decided_by(&again), "region=us, role=home");
    assert_eq!(again.bytes, passed_on.bytes);
    assert_eq!(again.header("idempotent-replayed"), "true");
    charge(&eu, "first", 2).await.expect_problem(422, "key_reused");
    settled(&us, spent, 1_000).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_capture_beyond_what_the_region_may_spend_is_paid_by_home() {
    let cluster = Cluster::of_regions().await;
    let [us, eu] = [US, EU].map(|place| cluster.caller(place, "root"));
    open_in(&us, "acme", "us", 10_000).await;
    let spent = make_local(&eu, "eu").await;
    let hold = eu.post("/v1/tenants/acme/holds", "hold", &json!({ "amount": 1 })).await.expect(201);
    assert_eq!(decided_by(&hold), "region=eu, role=allocation");
    let path = format!("/v1/tenants/acme/holds/{}/capture", hold.text("/hold_id"));
    let captured = us.post(&path, "capture", &json!({ "amount": 2_000 })).await.expect(200);
    assert_eq!(decided_by(&captured), "region=eu, role=allocation");
    assert_eq!(captured.text("/captured_total"), "2000");
    settled(&us, spent + 2_000, 10_000).await;
    cluster.end().await;
}
