//! Lists: pages, cursors, filters, statements.

use purser_api::{CursorScope, paths};
use purser_types::{TenantId, Unit};
use serde_json::{Value, json};

use crate::support::{Caller, Cluster, open_with};

/// The values of `field` on all pages of a list, page by page.
async fn pages(caller: &Caller, path: &str, field: &str) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    let mut next = path.to_owned();
    loop {
        let page = caller.get(&next).await.expect(200);
        let items = page.body["items"].as_array().unwrap();
        let values = items.iter().map(|item| item[field].as_str().unwrap().to_owned());
        pages.push(values.collect());
        match &page.body["next_cursor"] {
            Value::String(cursor) => next = format!("{path}&cursor={cursor}"),
            _ => return pages,
        }
        assert_eq!(page.body["has_more"], true);
    }
}

async fn charge(caller: &Caller, key: &str) {
    let body = json!({ "amount": 1 });
    caller.post("/v1/tenants/acme/charges", key, &body).await.expect(201);
}

/// K066: a cursor is a filter and a place, bound to the tenant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k066_a_later_page_shows_nothing_newer_than_the_first() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    for key in ["k1", "k2", "k3"] {
        charge(&caller, key).await;
    }
    let path = "/v1/tenants/acme/entries?limit=2";
    let first = caller.get(path).await.expect(200);
    assert_eq!((first.text("/items/0/sequence"), first.text("/items/1/sequence")), ("5", "4"));
    assert_eq!(first.body["items"][0]["prev_hash"], first.body["items"][1]["hash"]);
    charge(&caller, "k4").await;
    let cursor = first.text("/next_cursor");
    let second = caller.get(&format!("{path}&cursor={cursor}")).await.expect(200);
    assert_eq!((second.text("/items/0/sequence"), second.text("/items/1/sequence")), ("3", "2"));

    for other in [
        format!("/v1/tenants/acme/entries?unit=tokens&cursor={cursor}"),
        format!("/v1/tenants/beta/entries?cursor={cursor}"),
        format!("/v1/tenants/acme/lots?cursor={cursor}"),
    ] {
        caller.get(&other).await.expect_problem(400, "invalid_cursor");
    }
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_of_a_hold_has_an_end() {
    let (cluster, caller) = Cluster::with_credits(2_000).await;
    let body = json!({ "amount": 1_500 });
    let made = caller.post("/v1/tenants/acme/holds", "h1", &body).await.expect(201);
    let hold = made.text("/hold_id");
    let capture = |number: u32| {
        json!({ "op": "capture", "tenant": "acme", "idempotency_key": format!("c{number}"),
            "hold_id": hold, "amount": 1, "final": false })
    };
    let path = format!("/v1/tenants/acme/holds/{hold}");
    for (captures, shown, has_older) in [(0..999, 1_000, false), (999..1_000, 1_000, true)] {
        let items: Vec<Value> = captures.map(capture).collect();
        let body = json!({ "items": items }).to_string();
        let headers = [("content-type", "application/json")];
        caller.raw("POST", "/v1/batch", &headers, body.into()).await.expect(200);
        let detail = caller.get(&path).await.expect(200);
        assert_eq!(detail.body["history"].as_array().unwrap().len(), shown);
        assert_eq!(detail.body["has_older"], has_older);
        assert_eq!(detail.body["history"][shown - 1]["sequence"], detail.body["sequence"]);
        assert_eq!(detail.text("/lots/0/amount"), "1500", "as it was made");
    }
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_are_listed_by_state_and_reference() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    for (key, reference) in [("k1", "red"), ("k2", "blue"), ("k3", "red"), ("k4", "red")] {
        let body = json!({ "amount": 1, "reference": reference });
        caller.post("/v1/tenants/acme/holds", key, &body).await.expect(201);
    }
    let release = "/v1/tenants/acme/holds/h5-0-us/release";
    caller.post(release, "k5", &json!({})).await.expect(200);

    let list = async |query: &str| {
        pages(&caller, &format!("/v1/tenants/acme/holds?limit=2{query}"), "hold_id").await.concat()
    };
    assert_eq!(list("").await, ["h6-0-us", "h5-0-us", "h4-0-us", "h3-0-us"]);
    assert_eq!(list("&reference=red").await, ["h6-0-us", "h5-0-us", "h3-0-us"]);
    assert_eq!(list("&state=active").await, ["h6-0-us", "h4-0-us", "h3-0-us"]);
    assert_eq!(list("&state=active&reference=red").await, ["h6-0-us", "h3-0-us"]);
    assert_eq!(list("&state=released").await, ["h5-0-us"]);
    assert!(list("&state=expired").await.is_empty());
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lots_are_listed_newest_first() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let later = json!({ "amount": 7, "effective_at": "2026-09-01T00:00:00Z" });
    caller.post("/admin/v1/tenants/acme/grants", "g2", &later).await.expect(201);
    let lots = pages(&caller, "/v1/tenants/acme/lots?limit=1", "lot_id").await;
    assert_eq!(lots, [["l3-0-us"], ["l2-0-us"]]);
    let pending = caller.get("/v1/tenants/acme/lots?status=pending").await.expect(200);
    assert_eq!(pending.text("/items/0/free"), "7");
    assert_eq!(pending.text("/items/0/status"), "pending");
    let balance = caller.get("/v1/tenants/acme/balance").await.expect(200);
    assert_eq!(balance.text("/pending"), "7");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_are_listed_by_name_over_all_shards() {
    let cluster = Cluster::start(1).await;
    let caller = cluster.caller(0, "root");
    for tenant in ["delta", "acme", "echo", "beta", "charlie"] {
        open_with(&caller, tenant, 0).await;
    }
    let reason = json!({ "reason": "test" });
    caller.post("/admin/v1/tenants/beta/freeze", "f1", &reason).await.expect(200);
    let all = pages(&caller, "/admin/v1/tenants?limit=2", "tenant").await;
    assert_eq!(all, [vec!["acme", "beta"], vec!["charlie", "delta"], vec!["echo"]]);
    let frozen = pages(&caller, "/admin/v1/tenants?status=frozen", "tenant").await;
    assert_eq!(frozen, [["beta"]]);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_adds_up() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    cluster.clock.advance(60);
    for key in ["k1", "k2", "k3"] {
        charge(&caller, key).await;
    }
    cluster.clock.advance(60);
    charge(&caller, "k4").await;

    let path = "/v1/tenants/acme/statement?from=2026-08-01T00:01:00Z&to=2026-08-01T00:02:00Z";
    let whole = caller.get(path).await.expect(200);
    assert_eq!(whole.body["entry_count"], 3);
    assert_eq!(whole.text("/opening/available"), "100");
    assert_eq!(whole.text("/closing/available"), "97");
    assert_eq!(whole.text("/totals/captured"), "3");
    assert_eq!(whole.text("/totals/granted"), "0");

    let sequences = pages(&caller, &format!("{path}&limit=2"), "sequence").await;
    assert_eq!(sequences, [vec!["3", "4"], vec!["5"]]);

    let all = caller.get("/v1/tenants/acme/statement").await.expect(200);
    assert_eq!(all.text("/opening/available"), "0");
    // All there is, the charge of this very instant too.
    assert_eq!(all.body["entry_count"], 6);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_stays_the_same_while_the_account_goes_on() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    charge(&caller, "k1").await;
    cluster.clock.advance(1);
    let path = "/v1/tenants/acme/statement?limit=2";
    let first = caller.get(path).await.expect(200);
    cluster.clock.advance(1);
    charge(&caller, "k2").await;
    let cursor = first.text("/next_cursor");
    let second = caller.get(&format!("{path}&cursor={cursor}")).await.expect(200);
    assert_eq!(second.body["closing"], first.body["closing"]);
    assert_eq!(second.body["to"], first.body["to"]);
    assert_eq!(second.body["items"].as_array().unwrap().len(), 1);
    assert_eq!(second.body["has_more"], false);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_made_up_place_in_a_statement_is_an_invalid_cursor() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let scope = CursorScope::new(paths::STATEMENT)
        .of_account(&TenantId::parse("acme").unwrap(), &Unit::credits());
    for place in ["1.1.18446744073709551615.0", "0.0.1.0", "2.1.3.0", "1.3.2.0", "1.1.4.0"] {
        let path = format!("/v1/tenants/acme/statement?cursor={}", scope.seal(place));
        caller.get(&path).await.expect_problem(400, "invalid_cursor");
    }
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_without_an_end_has_what_happened_at_this_very_instant() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    charge(&caller, "k1").await;
    let statement = caller.get("/v1/tenants/acme/statement").await.expect(200);
    let balance = caller.get("/v1/tenants/acme/balance").await.expect(200);
    assert_eq!(statement.text("/closing/available"), balance.text("/available"));
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_a_call_would_ignore_is_refused() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let open = json!({ "tenant": "beta" });
    let opened = caller.post("/admin/v1/tenants?unit=tokens", "o1", &open).await;
    opened.expect_problem(400, "invalid_request");
    let batch = json!({ "items": [] });
    let batched = caller.post("/v1/batch?atomic=true", "b1", &batch).await;
    batched.expect_problem(400, "invalid_request");
    cluster.end().await;
}
