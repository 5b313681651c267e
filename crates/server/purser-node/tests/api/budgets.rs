//! Budgets over the API: set, spent under, refused, removed; in one region and in three.

use serde_json::{Value, json};

use crate::abroad::{EU, US, decided_by, make_local, open_in};
use crate::support::{Answer, Caller, Cluster};

const BUDGETS: &str = "/admin/v1/tenants/acme/budgets";
const CHARGES: &str = "/v1/tenants/acme/charges";
const JOBS: &str = "/v1/tenants/acme/jobs";
const HOLDS: &str = "/v1/tenants/acme/holds";

async fn set(caller: &Caller, budget: &str, mut body: Value) -> Answer {
    body["reason"] = "a cap".into();
    let path = format!("{BUDGETS}/{budget}");
    caller.keyed("PUT", &path, &format!("set {budget} {body}"), &body).await
}

async fn remove(caller: &Caller, budget: &str, key: &str) -> Answer {
    caller.post(&format!("{BUDGETS}/{budget}/remove"), key, &json!({ "reason": "not used" })).await
}

/// What a budget holds, has used, and has left.
async fn figures(caller: &Caller, budget: &str) -> [String; 3] {
    let shown = caller.get(&format!("{BUDGETS}/{budget}")).await.expect(200);
    ["/held", "/used", "/remaining"].map(|figure| shown.text(figure).to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_asked_of_its_budgets_and_of_the_account_together() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let made = set(&caller, "team", json!({ "limit": "40" })).await.expect(200);
    assert_eq!((made.text("/budget"), made.text("/limit")), ("team", "40"));
    set(&caller, "key:a", json!({ "limit": 10, "parent": "team" })).await.expect(200);
    let body = json!({ "amount": 8, "budgets": ["key:a"] });
    let held = caller.post(HOLDS, "h1", &body).await.expect(201);
    assert_eq!(figures(&caller, "team").await, ["8", "0", "32"]);
    assert_eq!(held.body["budgets"], json!([{ "budget": "key:a" }, { "budget": "team" }]));

    let body = json!({ "amount": 3, "budgets": ["key:a", "team"] });
    let refused = caller.post(CHARGES, "c1", &body).await.expect_problem(402, "budget_exceeded");
    assert_eq!((refused.text("/budget"), refused.text("/budget_remaining")), ("key:a", "2"));
    let checked = caller.post("/v1/tenants/acme/check", "any", &body).await.expect(200);
    assert_eq!((checked.text("/reason"), checked.text("/budget")), ("budget_exceeded", "key:a"));
    assert_eq!(figures(&caller, "key:a").await, ["8", "0", "2"]);
    let unknown = json!({ "amount": 3, "budgets": ["nobody"] });
    caller.post(CHARGES, "c2", &unknown).await.expect_problem(404, "budget_not_found");
    for odd in [json!(["team", "team"]), json!("team"), json!([7]), json!(null)] {
        let body = json!({ "amount": 3, "budgets": odd });
        caller.post(CHARGES, "c3", &body).await.expect_problem(400, "invalid_request");
    }

    let capture = format!("{HOLDS}/{}/capture", held.text("/hold_id"));
    caller.post(&capture, "k1", &json!({ "amount": 6 })).await.expect(200);
    assert_eq!(figures(&caller, "key:a").await, ["0", "6", "4"]);
    let item = json!({ "op": "charge", "tenant": "acme", "amount": 4, "budgets": ["key:a"],
        "idempotency_key": "b1" });
    let batch = json!({ "items": [item] });
    let done = caller.post("/v1/batch", "any", &batch).await.expect(200);
    assert_eq!(done.body["results"][0]["status"], 201, "{done:?}");
    assert_eq!(figures(&caller, "key:a").await, ["0", "10", "0"]);

    let first = caller.get(&format!("{BUDGETS}?limit=1")).await.expect(200);
    assert_eq!((first.text("/items/0/budget"), &first.body["has_more"]), ("key:a", &json!(true)));
    let cursor = first.text("/next_cursor");
    let second = caller.get(&format!("{BUDGETS}?limit=1&cursor={cursor}")).await.expect(200);
    assert_eq!((second.text("/items/0/used"), &second.body["has_more"]), ("10", &json!(false)));

    let bare = caller.post(&format!("{BUDGETS}/key:a/remove"), "r0", &json!({})).await;
    bare.expect_problem(400, "invalid_request");
    remove(&caller, "team", "r1").await.expect_problem(409, "budget_has_children");
    let other = json!({ "limit": 10 });
    set(&caller, "key:a", other).await.expect_problem(409, "budget_parent_fixed");
    remove(&caller, "key:a", "r2").await.expect(200);
    remove(&caller, "team", "r3").await.expect(200);
    caller.get(&format!("{BUDGETS}/team")).await.expect_problem(404, "budget_not_found");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_tells_its_budgets_and_its_hold_the_periods() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let period = json!({ "every": "month", "time_zone": "UTC" });
    set(&caller, "team", json!({ "limit": "40", "period": period })).await.expect(200);
    let body = json!({ "job_id": "j1", "amount": 30, "budgets": ["team"] });
    let job = caller.post(JOBS, "j1", &body).await.expect(201);
    assert_eq!(job.body["budgets"], json!(["team"]));
    let job = caller.get(&format!("{JOBS}/j1")).await.expect(200);
    assert_eq!(job.body["budgets"], json!(["team"]));
    let hold = caller.get(&format!("{HOLDS}/{}", job.text("/hold_id"))).await.expect(200);
    let month = json!([{ "budget": "team", "from": "2026-08-01T00:00:00Z",
        "until": "2026-09-01T00:00:00Z" }]);
    assert_eq!(hold.body["budgets"], month);
    let other = json!({ "job_id": "j1", "amount": 30 });
    caller.post(JOBS, "j2", &other).await.expect_problem(409, "job_id_conflict");
    let second = json!({ "job_id": "j2", "amount": 11, "budgets": ["team"] });
    caller.post(JOBS, "j3", &second).await.expect_problem(402, "budget_exceeded");
    let told = json!({ "outcome": "succeeded" });
    caller.post(&format!("{JOBS}/j1/outcome"), "o1", &told).await.expect(200);
    assert_eq!(figures(&caller, "team").await, ["0", "30", "10"]);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_days_budget_begins_anew_at_midnight_of_its_zone() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let period = json!({ "every": "day", "time_zone": "America/New_York" });
    let body = json!({ "limit": 10, "period": period });
    set(&caller, "day", body.clone()).await.expect(200);
    let charge = json!({ "amount": 10, "budgets": ["day"] });
    let first = caller.post(CHARGES, "c1", &charge).await.expect(201);
    let refused = caller.post(CHARGES, "c2", &charge).await.expect_problem(402, "budget_exceeded");
    // The clock of the test begins at 2026-08-01T00:00:00Z, which is yesterday there.
    assert_eq!(refused.text("/budget_until"), "2026-08-01T04:00:00Z");
    cluster.clock.advance(4 * 3_600);
    // The same request is the same on another day.
    let again = set(&caller, "day", body).await.expect(200);
    assert_eq!(again.header("idempotent-replayed"), "true");
    caller.post(CHARGES, "c3", &charge).await.expect(201);
    let refund = format!("{CHARGES}/{}/refund", first.text("/charge_id"));
    caller.post(&refund, "u1", &json!({ "reason": "sorry", "amount": 7 })).await.expect(200);
    let shown = caller.get(&format!("{BUDGETS}/day")).await.expect(200);
    assert_eq!((shown.text("/used"), shown.text("/from")), ("10", "2026-08-01T04:00:00Z"));
    assert_eq!(
        (shown.text("/past/0/used"), shown.text("/past/0/until")),
        ("3", "2026-08-01T04:00:00Z")
    );
    for period in [
        json!({ "every": "day", "time_zone": "Mars/Phobos" }),
        json!({ "every": "day", "time_zone": "UTC", "anchor": "2026-11-01T01:30:00Z" }),
        json!({ "every": "hour", "time_zone": "UTC" }),
    ] {
        let body = json!({ "limit": 10, "period": period });
        set(&caller, "odd", body).await.expect_problem(400, "invalid_request");
    }
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_under_budgets_is_decided_at_home_from_any_region() {
    let cluster = Cluster::of_regions().await;
    let (us, eu) = (cluster.caller(US, "root"), cluster.caller(EU, "root"));
    open_in(&us, "acme", "us", 100).await;
    set(&eu, "key:a", json!({ "limit": 10 })).await.expect(200);
    make_local(&eu, "acme", "eu").await;
    let body = json!({ "amount": 6, "budgets": ["key:a"] });
    let charged = eu.post(CHARGES, "c1", &body).await.expect(201);
    assert_eq!(decided_by(&charged), "region=us, role=home");
    let refused = eu.post(CHARGES, "c2", &body).await.expect_problem(402, "budget_exceeded");
    assert_eq!(refused.text("/budget_remaining"), "4");
    assert_eq!(figures(&us, "key:a").await, ["0", "6", "4"]);
    let checked = eu.post("/v1/tenants/acme/check", "any", &body).await.expect(200);
    assert_eq!((checked.text("/reason"), checked.text("/budget")), ("budget_exceeded", "key:a"));
    let item = json!({ "op": "charge", "tenant": "acme", "amount": 4, "budgets": ["key:a"],
        "idempotency_key": "b1" });
    let done = eu.post("/v1/batch", "any", &json!({ "items": [item] })).await.expect(200);
    assert_eq!(done.body["results"][0]["status"], 201, "{done:?}");
    assert_eq!(figures(&us, "key:a").await, ["0", "10", "0"]);
    cluster.end().await;
}
