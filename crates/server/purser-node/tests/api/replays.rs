//! A repeated request is answered as it was, to the last byte, whatever has happened since.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::abroad::make_local;
use crate::support::{Answer, Caller, Cluster, open_with};
use crate::waiting::{read_until, wait_for};

/// The calls with a key that need several regions.
const OF_REGIONS: [&str; 5] = ["recall", "set_allocation", "take_back", "transfer", "write_off"];

/// The calls with a key about jobs and events.
const OF_JOBS: [&str; 7] = [
    "create_job",
    "discard",
    "discard_event",
    "job_outcome",
    "redrive",
    "redrive_event",
    "renew_job",
];

/// The call with a key that needs a lost home. [`crate::failovers`] asks it again.
const OF_LOST_HOMES: &str = "write_off_tail";

/// The call with a key about a webhook's dead letters. [`crate::webhooks`] asks it again.
const OF_WEBHOOKS: &str = "redrive_webhook";

/// What was asked of one account, and what came back.
struct Story {
    caller: Caller,
    told: Vec<Told>,
}

/// A call of the story.
struct Told {
    operation: &'static str,
    path: String,
    body: Value,
    answer: Answer,
}

impl Story {
    fn new(caller: Caller) -> Self {
        Self { caller, told: Vec::new() }
    }

    /// Calls `operation` under a key of its own, and notes the answer.
    async fn call(
        &mut self,
        operation: &'static str,
        path: &str,
        body: Value,
        status: u16,
    ) -> Value {
        let path = match operation {
            "open_tenant" => "/admin/v1/tenants".to_owned(),
            "freeze" | "unfreeze" | "close" | "grant" | "void" | "adjust" | "set_policy"
            | "set_budget" | "remove_budget" | "redrive" | "discard" | "redrive_event"
            | "discard_event" => {
                format!("/admin/v1/tenants/acme/{path}")
            }
            _ if OF_REGIONS.contains(&operation) => format!("/admin/v1/tenants/acme/{path}"),
            _ => format!("/v1/tenants/acme/{path}"),
        };
        let answer = self.ask(self.told.len(), &path, &body).await;
        assert_eq!(answer.status, status, "{operation}: {:#}", answer.body);
        assert_eq!(answer.header("idempotent-replayed"), "", "{operation}");
        let shown = answer.body.clone();
        self.told.push(Told { operation, path, body, answer });
        shown
    }

    /// The same for a destructive act, whatever its answer.
    async fn try_call(&mut self, operation: &'static str, path: &str, body: Value) -> &Answer {
        let path = format!("/admin/v1/tenants/acme/{path}");
        let answer = self.ask(self.told.len(), &path, &body).await;
        self.told.push(Told { operation, path, body, answer });
        &self.told.last().expect("it was just told").answer
    }

    /// The request is named by its caller, so that a problem's `request_id` is the same too.
    async fn ask(&self, place: usize, path: &str, body: &Value) -> Answer {
        let key = format!("key {place}");
        let headers = [
            ("idempotency-key", key.as_str()),
            ("content-type", "application/json"),
            ("request-id", "the-same"),
        ];
        let is_put = path.contains("/budgets/") && !path.ends_with("/remove");
        let method = if is_put { "PUT" } else { "POST" };
        self.caller.raw(method, path, &headers, body.to_string().into()).await
    }

    /// What a destructive act must confirm now.
    async fn confirmation(&self, path: &str) -> Value {
        let body = json!({ "reason": "to see", "dry_run": true });
        let path = format!("/admin/v1/tenants/acme/{path}");
        let dry = self.caller.post(&path, "dry", &body).await.expect(200);
        dry.body["confirm"].clone()
    }

    /// Asks for everything again.
    async fn check_told_again(&self, when: &str) {
        for (place, Told { operation, path, body, answer }) in self.told.iter().enumerate() {
            let again = self.ask(place, path, body).await;
            let case = format!("{operation} {body} {when}");
            assert_eq!(again.header("idempotent-replayed"), "true", "{case}: {:#}", again.body);
            assert_eq!(again.status, answer.status, "{case}");
            assert_eq!(again.body, answer.body, "{case}");
            assert_eq!(again.bytes, answer.bytes, "{case}");
        }
    }
}

/// Every call with a key, in an account where each changes what the ones before it showed: grants
/// that pay debt, holds over a lot that is voided and one that expires, two policies, two freezes.
async fn live(story: &mut Story) {
    let because = |reason| json!({ "reason": reason });
    let policy = json!({ "debt_limit": 50 });
    story.call("open_tenant", "", json!({ "tenant": "acme", "policy": policy }), 201).await;
    let bought = json!({ "amount": 100, "source_ref": "pay_1" });
    story.call("grant", "grants", bought.clone(), 201).await;
    story.call("grant", "grants", bought.clone(), 200).await;
    let hold = story.call("authorize", "holds", json!({ "amount": 40 }), 201).await;
    let hold = format!("holds/{}", hold["hold_id"].as_str().unwrap());
    let other = story.call("authorize", "holds", json!({ "amount": 10 }), 201).await;
    let other = format!("holds/{}", other["hold_id"].as_str().unwrap());
    story.call("authorize", "holds", json!({ "amount": 1_000 }), 402).await;
    let until = json!({ "until": "2026-08-01T06:00:00Z" });
    story.call("extend", &format!("{hold}/extend"), until, 200).await;
    let (capture, refund) = (format!("{hold}/capture"), format!("{hold}/refund"));
    let part = json!({ "amount": 25, "final": false });
    story.call("capture", &capture, part, 200).await;
    let over = json!({ "amount": 90, "allow_debt": true });
    story.call("capture", &capture, over, 200).await;
    story.call("authorize", "holds", json!({ "amount": 1 }), 402).await;
    story.call("grant", "grants", bought.clone(), 200).await;
    story.call("refund_hold", &refund, json!({ "amount": 10, "reason": "failed" }), 200).await;
    let ending = json!({ "amount": 200, "expires_at": "2026-08-01T01:00:00Z" });
    story.call("grant", "grants", ending, 201).await;
    story.call("reclaim_hold", &format!("{hold}/reclaim"), because("succeeded"), 200).await;
    let charge = story.call("charge", "charges", json!({ "amount": 5 }), 201).await;
    let charge = format!("charges/{}", charge["charge_id"].as_str().unwrap());
    story.call("refund_charge", &format!("{charge}/refund"), because("failed"), 200).await;
    story.call("reclaim_charge", &format!("{charge}/reclaim"), because("succeeded"), 200).await;

    let mistaken = json!({ "amount": 20, "priority": 0 });
    let mistaken = story.call("grant", "grants", mistaken, 201).await;
    let pinned = story.call("authorize", "holds", json!({ "amount": 5 }), 201).await;
    let pinned = format!("holds/{}", pinned["hold_id"].as_str().unwrap());
    let void = format!("lots/{}/void", mistaken["lot"]["lot_id"].as_str().unwrap());
    let confirm = story.confirmation(&void).await;
    story.call("void", &void, json!({ "reason": "a mistake", "confirm": confirm }), 200).await;
    story.call("void", &void, json!({ "reason": "a mistake", "confirm": confirm }), 409).await;
    story.call("set_policy", "policy", json!({ "debt_limit": 7 }), 200).await;
    story.call("freeze", "freeze", because("suspicion"), 200).await;
    story.call("authorize", "holds", json!({ "amount": 1 }), 409).await;
    let regrant = json!({ "refund_expired": { "regrant_days": 3 } });
    story.call("set_policy", "policy", regrant, 200).await;
    story.call("unfreeze", "unfreeze", because("cleared"), 200).await;
    story.call("freeze", "freeze", because("suspicion again"), 200).await;
    story.call("release", &format!("{pinned}/release"), json!({}), 200).await;
    story.call("release", &format!("{other}/release"), json!({}), 200).await;
    story.call("unfreeze", "unfreeze", because("cleared again"), 200).await;
    let adjust = |direction| json!({ "direction": direction, "amount": 3, "reason": "counted" });
    story.call("adjust", "adjust", adjust("add"), 200).await;
    story.call("adjust", "adjust", adjust("remove"), 200).await;
    story.call("grant", "grants", bought, 200).await;
    let cap = json!({ "limit": 50, "reason": "a cap" });
    story.call("set_budget", "budgets/team", cap, 200).await;
    story.call("remove_budget", "budgets/team/remove", because("not used"), 200).await;
    story.call("remove_budget", "budgets/team/remove", because("not used"), 404).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_tells_the_first_answer_whatever_has_happened_since() {
    let mut cluster = Cluster::start(1).await;
    let mut story = Story::new(cluster.caller(0, "root"));
    live(&mut story).await;
    story.check_told_again("in the end").await;

    // The lot that paid for most of it lapses.
    cluster.clock.advance(3_600);
    story.check_told_again("an hour later").await;
    let confirm = story.confirmation("close").await;
    story.call("close", "close", json!({ "reason": "left", "confirm": confirm }), 200).await;
    story.check_told_again("after the account was closed").await;
    cluster.crash(0).await;
    story.caller = cluster.caller(0, "root");
    story.check_told_again("after a crash").await;

    let operations = story.told.iter().map(|told| told.operation.to_owned());
    let of_regions = OF_REGIONS.iter().map(|operation| (*operation).to_owned());
    let of_jobs = OF_JOBS.iter().map(|operation| (*operation).to_owned());
    let others = of_regions.chain(of_jobs).chain([OF_LOST_HOMES, OF_WEBHOOKS].map(str::to_owned));
    let called: BTreeSet<String> = operations.chain(others).collect();
    assert_eq!(called, keyed_operations(), "each call with a key is in the story");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_about_an_allocation_tells_the_first_answer_too() {
    let mut cluster = Cluster::of_regions().await;
    let mut story = Story::new(cluster.caller(0, "root"));
    open_with(&story.caller, "acme", 10_000).await;
    let eu = cluster.caller(1, "root");
    let number = make_local(&eu, "acme", "eu").await;
    // What home does not know to be spent it takes for free.
    let used = number.to_string();
    let balance = "/v1/tenants/acme/balance";
    read_until(&story.caller, balance, |body| body["used"] == *used).await;
    let transfer = json!({ "from": "eu", "to": "ap", "amount": 1, "reason": "demand moves" });
    story.call("transfer", "transfer", transfer, 200).await;
    let beyond = json!({ "from": "eu", "to": "ap", "amount": 20_000, "reason": "too much" });
    // Not remembered, and so not part of the story: the region has not answered the first one.
    let is_answered = |body: &Value| {
        let mut items = body["items"].as_array().unwrap().iter();
        items.all(|allocation| allocation["transfer"].is_null())
    };
    read_until(&story.caller, "/admin/v1/tenants/acme/allocations", is_answered).await;
    story.call("transfer", "transfer", beyond, 409).await;
    let recall = json!({ "keep": 2, "reason": "audit" });
    story.call("recall", "allocations/eu/recall", recall, 200).await;
    let set = json!({ "overdraft": 5, "mode": "strict", "reason": "audit" });
    story.call("set_allocation", "allocations/eu", set, 200).await;
    cluster.cut(1);
    for (operation, path) in
        [("take_back", "allocations/eu/take-back"), ("write_off", "allocations/eu/write-off")]
    {
        // What was under way when the region was cut off may still be booked.
        wait_for(operation, async || {
            let confirm = story.confirmation(path).await;
            let body = json!({ "reason": "lost", "confirm": confirm });
            let ended = story.try_call(operation, path, body).await;
            if ended.status == 200 {
                return Ok(());
            }
            assert_eq!(ended.body["code"], "stale_confirmation", "{:#}", ended.body);
            Err(ended.to_string())
        })
        .await;
    }
    let open = json!({ "keep": 0, "reason": "audit" });
    story.call("recall", "allocations/ap/recall", open, 200).await;
    story.check_told_again("in the end").await;

    cluster.heal(1);
    cluster.crash(0).await;
    cluster.nodes[0].connected().await;
    story.caller = cluster.caller(0, "root");
    story.check_told_again("after a crash").await;
    let called: BTreeSet<&str> = story.told.iter().map(|told| told.operation).collect();
    assert_eq!(called, OF_REGIONS.into(), "each call about allocations is in the story");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_about_jobs_and_events_tells_the_first_answer_too() {
    let mut cluster = Cluster::start(1).await;
    let mut story = Story::new(cluster.caller(0, "root"));
    open_with(&story.caller, "acme", 10_000).await;
    let because = json!({ "reason": "looked at it" });
    let job = |id| json!({ "job_id": id, "amount": 40, "mode": "charge", "max_attempts": 1 });
    let made = story.call("create_job", "jobs", job("one"), 201).await;
    let longer = json!({ "lease": made["lease"], "lease_seconds": 1_800 });
    story.call("renew_job", "jobs/one/renew", longer, 200).await;
    let failed = json!({ "outcome": "failed" });
    story.call("job_outcome", "jobs/one/outcome", failed.clone(), 200).await;
    story.call("redrive", "dead-letters/one/redrive", because.clone(), 200).await;
    let succeeded = json!({ "outcome": "succeeded" });
    story.call("job_outcome", "jobs/one/outcome", succeeded, 200).await;
    story.call("create_job", "jobs", job("two"), 201).await;
    story.call("job_outcome", "jobs/two/outcome", failed, 200).await;
    let confirm = story.confirmation("dead-letters/two/discard").await;
    let gone = |confirm| json!({ "reason": "gone", "confirm": confirm });
    story.call("discard", "dead-letters/two/discard", gone(confirm), 200).await;

    let event = |id| {
        json!({ "specversion": "1.0", "source": "/meters/7", "id": id, "type": "used",
                "subject": "acme", "data": { "hold_id": "h99-0-us", "amount": 10 } })
    };
    let events = json!([event("e1"), event("e2")]);
    story.caller.post("/v1/events", "no key is read", &events).await.expect(200);
    let parked = story.caller.get("/admin/v1/tenants/acme/parked-events").await.expect(200);
    let path = |at: usize, act: &str| {
        format!("parked-events/{}/{act}", parked.text(&format!("/items/{at}/entry")))
    };
    let charge = json!({ "reason": "paid outside", "as_charge": true });
    story.call("redrive_event", &path(0, "redrive"), charge, 200).await;
    let discard = path(1, "discard");
    let confirm = story.confirmation(&discard).await;
    story.call("discard_event", &discard, gone(confirm), 200).await;
    story.check_told_again("in the end").await;

    cluster.crash(0).await;
    story.caller = cluster.caller(0, "root");
    story.check_told_again("after a crash").await;
    let called: BTreeSet<&str> = story.told.iter().map(|told| told.operation).collect();
    assert_eq!(called, OF_JOBS.into(), "each call about jobs and events is in the story");
    cluster.end().await;
}

/// The calls that need an idempotency key, by the API's own description.
fn keyed_operations() -> BTreeSet<String> {
    let document = serde_json::to_value(purser_node::openapi_document()).unwrap();
    let items = document["paths"].as_object().unwrap().values();
    let calls = items.flat_map(|item| item.as_object().unwrap().values());
    let is_keyed = |call: &&Value| {
        let mut parameters = call["parameters"].as_array().into_iter().flatten();
        parameters.any(|parameter| parameter["name"] == "Idempotency-Key")
    };
    calls.filter(is_keyed).map(|call| call["operationId"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_of_a_batch_tells_its_first_answer_too() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let items = json!({ "items": [
        { "op": "authorize", "tenant": "acme", "idempotency_key": "b1", "amount": 30 },
        { "op": "charge", "tenant": "acme", "idempotency_key": "b2", "amount": 20 },
        { "op": "charge", "tenant": "acme", "idempotency_key": "b3", "amount": 51 },
    ]});
    let headers = [("content-type", "application/json"), ("request-id", "the-same")];
    let batch = async || {
        let answer = caller.raw("POST", "/v1/batch", &headers, items.to_string().into()).await;
        answer.expect(200).body["results"].as_array().unwrap().clone()
    };
    let first = batch().await;
    caller.post("/v1/tenants/acme/holds/h3-0-us/release", "r1", &json!({})).await.expect(200);
    let refund = json!({ "reason": "failed" });
    caller.post("/v1/tenants/acme/charges/c4-0-us/refund", "r2", &refund).await.expect(200);
    for (again, first) in batch().await.iter().zip(&first) {
        assert_eq!((&again["replayed"], &first["replayed"]), (&json!(true), &json!(false)));
        assert_eq!((&again["status"], &again["body"]), (&first["status"], &first["body"]));
    }
    cluster.end().await;
}
