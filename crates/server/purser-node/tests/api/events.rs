//! Usage events over the API: taken once, kept for people, decided where they belong.

use serde_json::{Value, json};

use crate::abroad::{AP, EU, US, make_local, open_in};
use crate::support::{Caller, Cluster};

const EVENTS: &str = "/v1/events";
const PARKED: &str = "/admin/v1/tenants/acme/parked-events";

fn event(id: &str, data: Value) -> Value {
    json!({ "specversion": "1.0", "source": "/meters/7", "id": id, "type": "used", "subject": "acme",
            "data": data })
}

/// Sends events: what became of each, and why.
async fn send(caller: &Caller, events: &[Value]) -> Vec<(String, String)> {
    let answer = caller.post(EVENTS, "no key is read", &json!(events)).await.expect(200);
    let verdicts = answer.body["verdicts"].as_array().unwrap().clone();
    assert_eq!(verdicts.len(), events.len());
    let text = |verdict: &Value, name: &str| verdict[name].as_str().unwrap_or_default().to_owned();
    verdicts.iter().map(|it| (text(it, "verdict"), text(it, "reason"))).collect()
}

fn verdicts(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(one, other)| ((*one).to_owned(), (*other).to_owned())).collect()
}

async fn balance(caller: &Caller, name: &str) -> String {
    let answer = caller.get("/v1/tenants/acme/balance").await.expect(200);
    answer.text(&format!("/{name}")).to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_with_a_bad_middle_is_taken_but_for_it_and_redelivered_without_effect() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let batch = [
        event("e1", json!({ "amount": 5 })),
        event("e2", json!({ "amount": "many" })),
        event("e3", json!({ "amount": "7" })),
        event("e1", json!({ "amount": 6 })),
        event("e4", json!({ "amount": 200 })),
        event("e5", json!({ "hold_id": "h99-0-us" })),
        event("e6", json!({ "amount": 0 })),
    ];
    let dead = |reason| ("dead_lettered", reason);
    let rest = [dead("conflict"), dead("insufficient_credits"), dead("unmatched")];
    let first = [
        &[("applied", ""), ("invalid", "invalid_request"), ("applied", "")],
        &rest[..],
        &[("applied", "")],
    ];
    assert_eq!(send(&caller, &batch).await, verdicts(&first.concat()));
    let again = [
        &[("duplicate", ""), ("invalid", "invalid_request"), ("duplicate", "")],
        &rest[..],
        &[("duplicate", "")],
    ];
    assert_eq!(send(&caller, &batch).await, verdicts(&again.concat()));
    assert_eq!(
        (balance(&caller, "available").await, balance(&caller, "used").await),
        ("88".into(), "12".into())
    );

    // Alone, a bad event is a bad request.
    caller.post(EVENTS, "k", &batch[1]).await.expect_problem(400, "invalid_request");
    let nobody = json!({ "subject": "nobody" });
    let mut stranger = event("e7", json!({ "amount": 1 }));
    stranger.as_object_mut().unwrap().extend(nobody.as_object().unwrap().clone());
    caller.post(EVENTS, "k", &stranger).await.expect_problem(404, "tenant_not_found");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_take_a_parked_event_after_all_or_let_nothing_become_of_it() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let hold =
        caller.post("/v1/tenants/acme/holds", "a", &json!({ "amount": 30 })).await.expect(201);
    let of_hold = json!({ "hold_id": hold.text("/hold_id"), "amount": 25 });
    let batch = [
        event("e1", of_hold),
        event("e2", json!({ "hold_id": "h99-0-us", "amount": 10 })),
        event("e2", json!({ "amount": 11 })),
    ];
    let expected = [("applied", ""), ("dead_lettered", "unmatched"), ("dead_lettered", "conflict")];
    assert_eq!(send(&caller, &batch).await, verdicts(&expected));
    assert_eq!(balance(&caller, "available").await, "75");

    let list = caller.get(PARKED).await.expect(200);
    assert_eq!(
        (list.text("/items/0/reason"), list.text("/items/1/reason")),
        ("conflict", "unmatched")
    );
    assert_eq!(
        (list.text("/items/0/data/amount"), list.text("/items/0/first_data/amount")),
        ("11", "10")
    );
    let (conflict, unmatched) = (list.text("/items/0/entry"), list.text("/items/1/entry"));
    let only = caller.get(&format!("{PARKED}?reason=unmatched")).await.expect(200);
    assert_eq!(only.body["items"].as_array().unwrap().len(), 1);

    let why = json!({ "reason": "looked at it" });
    let redrive = |entry: &str| format!("{PARKED}/{entry}/redrive");
    caller.post(&redrive(unmatched), "r1", &why).await.expect_problem(404, "hold_not_found");
    caller.post(&redrive(conflict), "r2", &why).await.expect_problem(409, "event_conflict");
    let charge = json!({ "reason": "paid outside", "as_charge": true });
    for key in ["r3", "r4"] {
        let done = caller.post(&redrive(unmatched), key, &charge).await.expect(200);
        assert_eq!((done.text("/effect"), done.text("/balance/available")), ("charge", "65"));
    }
    let discard = format!("{PARKED}/{conflict}/discard");
    caller.post(&discard, "d1", &why).await.expect_problem(400, "confirmation_required");
    let dry = json!({ "reason": "wrong sender", "dry_run": true });
    let dry = caller.post(&discard, "d2", &dry).await.expect(200);
    let confirmed = json!({ "reason": "wrong sender", "confirm": dry.text("/confirm") });
    let done = caller.post(&discard, "d3", &confirmed).await.expect(200);
    assert_eq!(done.text("/effect"), "event_discarded");
    let list = caller.get(PARKED).await.expect(200);
    assert_eq!(list.body["items"], json!([]));
    let duplicates = [("duplicate", ""); 3];
    assert_eq!(send(&caller, &batch).await, verdicts(&duplicates));
    assert_eq!(balance(&caller, "available").await, "65");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_three_homes_are_taken_in_any_region() {
    let cluster = Cluster::of_regions().await;
    let (us, ap) = (cluster.caller(US, "root"), cluster.caller(AP, "root"));
    let homes = ["us", "eu", "ap"];
    for home in homes {
        open_in(&us, &format!("in-{home}"), home, 100).await;
    }
    let of = |home: &str| {
        let mut event = event("e1", json!({ "amount": 5 }));
        event["subject"] = json!(format!("in-{home}"));
        event
    };
    let batch = homes.map(of);
    assert_eq!(send(&us, &batch).await, verdicts(&[("applied", ""); 3]));
    assert_eq!(send(&ap, &batch).await, verdicts(&[("duplicate", ""); 3]));
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_of_a_regions_hold_is_decided_there_and_kept_at_home_if_it_is_refused() {
    let cluster = Cluster::of_regions().await;
    let (us, eu, ap) =
        (cluster.caller(US, "root"), cluster.caller(EU, "root"), cluster.caller(AP, "root"));
    open_in(&us, "acme", "us", 1_000).await;
    make_local(&eu, "acme", "eu").await;
    let hold = eu.post("/v1/tenants/acme/holds", "a", &json!({ "amount": 1 })).await.expect(201);
    let hold = hold.text("/hold_id");
    assert!(hold.ends_with("-1-eu"), "{hold}");
    let used = event("e1", json!({ "hold_id": hold, "amount": 1 }));
    assert_eq!(send(&ap, std::slice::from_ref(&used)).await, verdicts(&[("applied", "")]));
    assert_eq!(send(&us, &[used]).await, verdicts(&[("duplicate", "")]));
    let stands = eu.get(&format!("/v1/tenants/acme/holds/{hold}")).await.expect(200);
    assert_eq!((stands.text("/status"), stands.text("/captured_total")), ("captured", "1"));

    let unknown = event("e2", json!({ "hold_id": "h9999-1-eu", "amount": 1 }));
    let parked = verdicts(&[("dead_lettered", "unmatched")]);
    assert_eq!(send(&eu, std::slice::from_ref(&unknown)).await, parked);
    assert_eq!(send(&ap, &[unknown]).await, parked);
    let list = ap.get(PARKED).await.expect(200);
    assert_eq!(list.body["items"].as_array().unwrap().len(), 1);
    assert_eq!(list.text("/items/0/data/hold_id"), "h9999-1-eu");
    cluster.end().await;
}
