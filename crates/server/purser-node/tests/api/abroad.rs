//! What tests of several regions have in common: places, opening, spending, waiting for what must come.

use serde_json::{Value, json};

use crate::support::{Answer, Caller};

/// Places of the nodes in [`crate::support::Cluster::of_regions`].
pub(crate) const US: usize = 0;
pub(crate) const EU: usize = 1;
pub(crate) const AP: usize = 2;

/// Opens a tenant with this home and grants it credits.
pub(crate) async fn open_in(caller: &Caller, tenant: &str, home: &str, credits: u64) {
    let body = json!({ "tenant": tenant, "home": home });
    caller.post("/admin/v1/tenants", &format!("open-{tenant}"), &body).await.expect(201);
    let path = format!("/admin/v1/tenants/{tenant}/grants");
    let body = json!({ "amount": credits });
    caller.post(&path, &format!("grant-{tenant}"), &body).await.expect(201);
}

/// Charges a tenant, in the region that is asked if it can.
pub(crate) async fn charge(caller: &Caller, tenant: &str, key: &str, amount: u64) -> Answer {
    let path = format!("/v1/tenants/{tenant}/charges");
    caller.post(&path, key, &json!({ "amount": amount })).await
}

/// Charges acme at home.
pub(crate) async fn strictly(caller: &Caller, key: &str, amount: u64) -> Answer {
    let body = json!({ "amount": amount, "consistency": "strict" });
    caller.post("/v1/tenants/acme/charges", key, &body).await
}

pub(crate) fn decided_by(answer: &Answer) -> &str {
    answer.header("purser-decided-by")
}

/// Charges one credit after another until the region decides by itself; gives what was spent. Fails
/// with the test's time limit if it never does.
pub(crate) async fn make_local(caller: &Caller, tenant: &str, region: &str) -> u64 {
    let by = format!("region={region}, role=allocation");
    let mut spent = 0;
    loop {
        let answer = charge(caller, tenant, &format!("{region}-{spent}"), 1).await.expect(201);
        spent += 1;
        if decided_by(&answer) == by {
            return spent;
        }
    }
}

/// Asks again and again until the answer is as wished. Fails with the test's time limit if it never is.
pub(crate) async fn read_until(
    caller: &Caller,
    path: &str,
    is_it: impl Fn(&Value) -> bool,
) -> Answer {
    loop {
        let answer = caller.get(path).await;
        if answer.status == 200 && is_it(&answer.body) {
            return answer;
        }
    }
}

/// acme's balance once home has booked `used` and holds `held`; its credits must add up to `granted`.
pub(crate) async fn add_up(caller: &Caller, (used, held): (u64, u64), granted: u64) -> Answer {
    let (used_text, held_text) = (used.to_string(), held.to_string());
    let is_it = |body: &Value| body["used"] == *used_text && body["held"] == *held_text;
    let balance = read_until(caller, "/v1/tenants/acme/balance", is_it).await;
    let regions = balance.body["allocated"].as_object().unwrap().values();
    let out: u64 = regions.map(|amount| amount.as_str().unwrap().parse::<u64>().unwrap()).sum();
    let available: u64 = balance.text("/available").parse().unwrap();
    assert_eq!(available + out + used + held, granted, "{:#}", balance.body);
    assert_eq!(balance.text("/debt"), "0");
    balance
}

/// Asks until a call that needs home is refused because home cannot be reached.
pub(crate) async fn until_cut_off(caller: &Caller) {
    for number in 0.. {
        let answer = strictly(caller, &format!("probe-{number}"), 1_000_000).await;
        if answer.status == 503 {
            answer.expect_problem(503, "home_unreachable");
            return;
        }
    }
}
