//! Webhooks: signed, in order for each account, at least once; nobody waits for a receiver that fails.

use std::collections::BTreeSet;

use bytes::Bytes;
use purser_node::WebhookSettings;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use crate::abroad::{AP, EU, US, charge, strictly};
use crate::failovers::{open_followed, take_over, until_decided, until_placed};
use crate::receiver::{Fate, Receiver};
use crate::support::{Answer, Caller, Cluster, Unusual, open_with};
use crate::waiting::{until_answered, wait_for};

const WEBHOOKS: &str = "/admin/v1/webhooks";
const ONE: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const TWO: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";

async fn start(count: u64) -> Cluster {
    let webhooks = WebhookSettings { allow_private_targets: true };
    Cluster::start_unusual(count, Unusual { webhooks, ..Unusual::default() }).await
}

/// Says something that shall be.
async fn say(caller: &Caller, path: &str, body: &Value) -> Answer {
    let headers = [("content-type", "application/json")];
    caller.raw("POST", path, &headers, body.to_string().into()).await
}

/// A webhook from the first entry on.
async fn create(caller: &Caller, name: &str, url: &str, attempts_max: u8) -> Answer {
    let body = json!({
        "webhook": name, "url": url, "secret": ONE, "from": "beginning",
        "attempts_max": attempts_max,
    });
    until_answered("a webhook is made", async || say(caller, WEBHOOKS, &body).await).await
}

async fn get(caller: &Caller, name: &str) -> Answer {
    caller.get(&format!("{WEBHOOKS}/{name}")).await.expect(200)
}

/// The sum of a figure over the shards of a webhook.
fn in_all(answer: &Answer, figure: &str) -> u64 {
    let shards = answer.body["shards"].as_array().unwrap();
    shards.iter().map(|shard| shard[figure].as_u64().unwrap()).sum()
}

async fn until_in_all(caller: &Caller, name: &str, figure: &str, expected: u64) -> Answer {
    wait_for(format!("{figure} of {name} is {expected}"), async || {
        let answer = get(caller, name).await;
        if in_all(&answer, figure) == expected { Ok(answer) } else { Err(answer) }
    })
    .await
}

/// Waits until a tenant's events have all come at least once.
async fn until_taken(receiver: &Receiver, tenant: &str, last: u64) -> Vec<u64> {
    let all = |taken: &[u64]| (1..=last).all(|sequence| taken.contains(&sequence));
    receiver.until_taken(tenant, all).await
}

/// What came, without what had come before.
fn first_times(taken: &[u64]) -> Vec<u64> {
    let mut known = BTreeSet::new();
    taken.iter().copied().filter(|sequence| known.insert(*sequence)).collect()
}

async fn open_some(caller: &Caller, tenants: &[&str]) {
    for tenant in tenants {
        open_with(caller, tenant, 100).await;
        for key in ["a", "b", "c"] {
            charge(caller, tenant, key, 1).await.expect(201);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_entry_is_told_in_order_signed_and_under_the_name_that_changes_give_it() {
    let cluster = start(3).await;
    let receiver = Receiver::start().await;
    let tenants = ["t0", "t1", "t2", "t3", "t4"];
    open_some(&cluster.caller(0, "root"), &tenants).await;
    // Whichever node is asked, all shards have it.
    let made = create(&cluster.caller(1, "root"), "billing", &receiver.url(), 22).await.expect(200);
    assert_eq!(made.body["shards"].as_array().unwrap().len(), 2);
    assert!(!made.body.to_string().contains("whsec"), "{made}");
    let caller = cluster.caller(2, "root");
    charge(&caller, "t0", "later", 1).await.expect(201);
    for tenant in tenants {
        let last = if tenant == "t0" { 6 } else { 5 };
        let taken = until_taken(&receiver, tenant, last).await;
        assert_eq!(first_times(&taken), (1..=last).collect::<Vec<_>>(), "{tenant}");
    }
    let changes = caller.get("/v1/changes?limit=100").await.expect(200);
    let changes = changes.body["items"].as_array().unwrap().clone();
    for got in receiver.got() {
        assert_eq!((got.signed_by(ONE), got.path.as_str()), (1, "/hook?from=purser"));
        let event = got.json();
        assert!(changes.contains(&event["data"]), "{event}");
        assert_eq!(event["data"]["id"], got.id);
        assert_eq!(event["timestamp"], event["data"]["entry"]["log_time"]);
        let kind = event["data"]["entry"]["kind"].as_str().unwrap();
        assert_eq!(event["type"], format!("purser.entry.{kind}"));
    }
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_whose_events_are_refused_holds_up_nobody_and_is_told_in_order_later() {
    let cluster = start(1).await;
    let receiver = Receiver::start().await;
    receiver.set("bad", Fate::Refused);
    let caller = cluster.caller(0, "root");
    create(&caller, "billing", &receiver.url(), 22).await.expect(200);
    open_some(&caller, &["bad", "good"]).await;
    until_taken(&receiver, "good", 5).await;
    let seen = until_in_all(&caller, "billing", "parked", 1).await;
    let errors: Vec<&Value> =
        seen.body["shards"].as_array().unwrap().iter().map(|shard| &shard["last_error"]).collect();
    assert!(errors.contains(&&json!("the receiver answered 503 Service Unavailable")), "{seen}");
    charge(&caller, "bad", "meanwhile", 1).await.expect(201);
    charge(&caller, "good", "meanwhile", 1).await.expect(201);
    until_taken(&receiver, "good", 6).await;
    // Only the first one was tried: it has to come before the others.
    let tried = receiver.got().into_iter().filter(|got| got.tenant() == "bad");
    assert!(tried.into_iter().all(|got| got.sequence() == 1));
    receiver.set("bad", Fate::Taken);
    assert_eq!(receiver.taken("bad"), Vec::<u64>::new());
    cluster.clock.advance(10);
    let taken = until_taken(&receiver, "bad", 6).await;
    assert_eq!(first_times(&taken), [1, 2, 3, 4, 5, 6]);
    until_in_all(&caller, "billing", "parked", 0).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_is_redriven_once_and_discarded_for_good_however_often_that_is_pressed() {
    let cluster = start(3).await;
    let receiver = Receiver::start().await;
    receiver.set("bad", Fate::Refused);
    let caller = cluster.caller(0, "root");
    create(&caller, "billing", &receiver.url(), 1).await.expect(200);
    open_some(&caller, &["bad", "good"]).await;
    until_in_all(&caller, "billing", "dead_letters", 5).await;
    until_taken(&receiver, "good", 5).await;
    let letters = format!("{WEBHOOKS}/billing/dead-letters");
    let (mut ids, mut path) = (Vec::new(), format!("{letters}?limit=2"));
    loop {
        let page = cluster.caller(1, "root").get(&path).await.expect(200);
        let items = page.body["items"].as_array().unwrap().clone();
        ids.extend(items.iter().map(|item| item["dead_letter_id"].as_str().unwrap().to_owned()));
        if page.body["has_more"] == false {
            break;
        }
        path = format!("{letters}?limit=2&cursor={}", page.text("/next_cursor"));
    }
    let expected: Vec<String> = (1..=5).map(|number| format!("bad~credits~{number}")).collect();
    assert_eq!(ids, expected);
    receiver.set("bad", Fate::Taken);
    let because = json!({ "reason": "the receiver is mended" });
    let third = format!("{letters}/bad~credits~3/discard");
    say(&caller, &third, &because).await.expect_problem(400, "confirmation_required");
    let dry = json!({ "reason": "booked by hand", "dry_run": true });
    let dry = say(&cluster.caller(2, "root"), &third, &dry).await.expect(200);
    assert_eq!((&dry.body["dry_run"], dry.text("/status")), (&json!(true), "none"));
    let confirm: u64 = dry.text("/confirm").parse().unwrap();
    let discard = |confirm: u64| json!({ "reason": "booked by hand", "confirm": confirm });
    let other = say(&caller, &third, &discard(confirm - 1)).await;
    other.expect_problem(409, "stale_confirmation");
    for place in [0, 1, 2, 0] {
        let path = format!("{letters}/bad~credits~2/redrive");
        let said = say(&cluster.caller(place, "root"), &path, &because).await.expect(200);
        assert!(["redriven", "none"].contains(&said.text("/status")), "{said}");
        let said = say(&cluster.caller(place, "root"), &third, &discard(confirm)).await.expect(200);
        assert_eq!((said.text("/status"), &said.body["dry_run"]), ("none", &json!(false)));
    }
    wait_for("the letter is delivered", async || {
        let page = caller.get(&letters).await.expect(200);
        let items = page.body["items"].as_array().unwrap();
        let ids: Vec<_> = items.iter().map(|item| item["dead_letter_id"].clone()).collect();
        let left = [json!("bad~credits~1"), json!("bad~credits~4"), json!("bad~credits~5")];
        if ids == left { Ok(()) } else { Err(page) }
    })
    .await;
    // Pressed again, there is nothing left to be delivered.
    let path = format!("{letters}/bad~credits~2/redrive");
    assert_eq!(say(&caller, &path, &because).await.expect(200).text("/status"), "none");
    charge(&caller, "bad", "after", 1).await.expect(201);
    receiver.until_taken("bad", |taken| taken.contains(&6)).await;
    assert_eq!(receiver.taken("bad"), [2, 6]);
    say(&caller, &path, &json!({})).await.expect_problem(400, "invalid_request");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_dead_letters_are_redriven_in_pages_over_all_shards_and_each_page_once() {
    let cluster = start(3).await;
    let receiver = Receiver::start().await;
    let tenants = ["t0", "t1", "t2", "t3", "t4"];
    tenants.iter().for_each(|tenant| receiver.set(tenant, Fate::Refused));
    let caller = cluster.caller(0, "root");
    create(&caller, "billing", &receiver.url(), 1).await.expect(200);
    open_some(&caller, &tenants).await;
    let dead = until_in_all(&caller, "billing", "dead_letters", 25).await;
    let shards = dead.body["shards"].as_array().unwrap();
    assert!(shards.iter().all(|shard| shard["dead_letters"] != 0), "{dead}");
    tenants.iter().for_each(|tenant| receiver.set(tenant, Fate::Taken));
    let path = format!("{WEBHOOKS}/billing/redrive");
    let redrive = async |place: usize, key: &str, body: &Value| {
        let caller = cluster.caller(place, "root");
        until_answered("a redrive", async || caller.post(&path, key, body).await).await
    };
    let because = "the receiver is mended";
    let mut body = json!({ "reason": because, "limit": 10 });
    let mut pages = Vec::new();
    for (place, (key, left)) in [("a", 15), ("b", 5), ("c", 0), ("d", 0)].into_iter().enumerate() {
        let said = redrive(place % 3, key, &body).await.expect(200);
        let redriven = [10, 10, 5, 0][place];
        assert_eq!((&said.body["redriven"], &said.body["left"]), (&json!(redriven), &json!(left)));
        assert_eq!(said.header("idempotent-replayed"), "");
        let before = said.body["died_before"].clone();
        pages.push((key, body, said));
        body = json!({ "reason": because, "limit": 10, "died_before": before });
    }
    for (place, (key, body, said)) in (1_usize..).zip(&pages) {
        let again = redrive(place % 3, key, body).await.expect(200);
        assert_eq!((again.header("idempotent-replayed"), &again.bytes), ("true", &said.bytes));
    }
    let other = json!({ "reason": because, "limit": 11 });
    redrive(0, "a", &other).await.expect_problem(422, "key_reused");
    for tenant in tenants {
        let mut taken = until_taken(&receiver, tenant, 5).await;
        taken.sort_unstable();
        assert_eq!(taken, [1, 2, 3, 4, 5], "{tenant}");
    }
    until_in_all(&caller, "billing", "redriven", 0).await;
    let odd = json!({ "reason": because, "limit": 1_001 });
    redrive(0, "e", &odd).await.expect_problem(400, "invalid_request");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_later_shard_refuses_is_told_as_it_is_and_the_same_call_completes_the_rest() {
    let cluster = start(3).await;
    let receiver = Receiver::start().await;
    let tenants = ["t0", "t1", "t2", "t3", "t4"];
    tenants.iter().for_each(|tenant| receiver.set(tenant, Fate::Refused));
    let caller = cluster.caller(0, "root");
    create(&caller, "billing", &receiver.url(), 1).await.expect(200);
    open_some(&caller, &tenants).await;
    let dead = until_in_all(&caller, "billing", "dead_letters", 25).await;
    tenants.iter().for_each(|tenant| receiver.set(tenant, Fate::Taken));
    let remove = async |shard: u32| {
        let path = format!("{WEBHOOKS}/billing?shard={shard}");
        let removing = async || caller.raw("DELETE", &path, &[], Bytes::new()).await;
        until_answered("a shard's part is removed", removing).await.expect(200);
    };
    let make = async |path: &str, secret: &str| {
        let body = json!({
            "webhook": "billing", "url": receiver.url(), "secret": secret, "attempts_max": 1,
        });
        until_answered("a webhook is made", async || say(&caller, path, &body).await).await
    };
    let because = json!({ "reason": "the receiver is mended" });
    let redrive = async |place: usize| {
        let (caller, path) = (cluster.caller(place, "root"), format!("{WEBHOOKS}/billing/redrive"));
        until_answered("a redrive", async || caller.post(&path, "a", &because).await).await
    };

    remove(1).await;
    for place in [0, 1, 2] {
        redrive(place).await.expect_problem(404, "webhook_not_found");
        let (caller, path) = (cluster.caller(place, "root"), format!("{WEBHOOKS}/billing/enable"));
        let enabled = async || say(&caller, &path, &because).await;
        let enabled = until_answered("a webhook is enabled", enabled).await;
        enabled.expect_problem(404, "webhook_not_found");
    }
    make(&format!("{WEBHOOKS}?shard=1"), ONE).await.expect(200);
    let redriven = redrive(0).await.expect(200);
    assert_eq!(redriven.body["redriven"], dead.body["shards"][0]["dead_letters"], "{redriven}");

    remove(0).await;
    make(WEBHOOKS, TWO).await.expect_problem(409, "webhook_refused");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_never_answers_holds_up_neither_other_webhooks_nor_callers() {
    let cluster = start(1).await;
    let (silent, well) = (Receiver::start().await, Receiver::start().await);
    for tenant in ["t0", "t1"] {
        silent.set(tenant, Fate::Held);
    }
    let caller = cluster.caller(0, "root");
    create(&caller, "silent", &silent.url(), 22).await.expect(200);
    create(&caller, "well", &well.url(), 22).await.expect(200);
    open_some(&caller, &["t0", "t1"]).await;
    for tenant in ["t0", "t1"] {
        assert_eq!(first_times(&until_taken(&well, tenant, 5).await), [1, 2, 3, 4, 5]);
    }
    assert!(silent.got().iter().all(|got| got.fate == Fate::Held));
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_leads_next_skips_nothing_and_keeps_the_order() {
    let mut cluster = start(3).await;
    let receiver = Receiver::start().await;
    receiver.set("bad", Fate::Refused);
    let caller = cluster.caller(0, "root");
    create(&caller, "billing", &receiver.url(), 22).await.expect(200);
    open_some(&caller, &["good", "bad"]).await;
    until_in_all(&caller, "billing", "parked", 1).await;
    for place in [0, 1, 2] {
        cluster.crash(place).await;
        let caller = cluster.caller((place + 1) % 3, "root");
        for tenant in ["good", "bad"] {
            let key = format!("after-{place}");
            until_answered("a charge", async || charge(&caller, tenant, &key, 1).await)
                .await
                .expect(201);
        }
    }
    receiver.set("bad", Fate::Taken);
    cluster.clock.advance(60);
    for tenant in ["good", "bad"] {
        let taken = until_taken(&receiver, tenant, 8).await;
        assert_eq!(first_times(&taken), (1..=8).collect::<Vec<_>>(), "{tenant}");
    }
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_rotation_both_secrets_sign_until_the_old_one_ends() {
    let cluster = start(1).await;
    let receiver = Receiver::start().await;
    let caller = cluster.caller(0, "root");
    create(&caller, "billing", &receiver.url(), 22).await.expect(200);
    open_with(&caller, "acme", 100).await;
    until_taken(&receiver, "acme", 2).await;
    let rotate = json!({ "secret": TWO, "overlap_seconds": 60 });
    for _ in 0..2 {
        let path = format!("{WEBHOOKS}/billing/rotate");
        let rotated = say(&caller, &path, &rotate).await.expect(200);
        assert_eq!(rotated.body["secrets_count"], 2);
    }
    let expected = [("one", (0, 1)), ("two", (1, 1)), ("three", (1, 0))];
    for ((key, signed), sequence) in expected.into_iter().zip(2_u64..) {
        if key != "one" {
            charge(&caller, "acme", key, 1).await.expect(201);
            until_taken(&receiver, "acme", sequence).await;
        }
        let got = receiver.got();
        let last = got.iter().rfind(|got| got.sequence() == sequence).unwrap();
        assert_eq!((last.signed_by(TWO), last.signed_by(ONE)), (signed.0, signed.1), "{key}");
        if key == "two" {
            cluster.clock.advance(60);
        }
    }
    assert_eq!(get(&caller, "billing").await.body["secrets_count"], 1);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn private_targets_are_refused_by_spelling_and_by_what_a_name_leads_to() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let receiver = Receiver::start().await;
    let port = receiver.port();
    for url in [
        format!("http://127.0.0.1:{port}/"),
        format!("https://127.0.0.1:{port}/"),
        format!("https://[::1]:{port}/"),
        "https://169.254.169.254/latest/meta-data".to_owned(),
        "http://a.example/".to_owned(),
    ] {
        create(&caller, "billing", &url, 22).await.expect_problem(409, "webhook_refused");
    }
    create(&caller, "billing", &format!("https://localhost:{port}/"), 22).await.expect(200);
    let seen = until_in_all(&caller, "billing", "parked", 1).await;
    let text = seen.body.to_string();
    assert!(text.contains("is a private address, and private targets are not allowed"), "{text}");
    assert_eq!(receiver.connections(), 0);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirect_is_not_followed_and_https_is_spoken_by_tls() {
    let cluster = start(1).await;
    let receiver = Receiver::start().await;
    receiver.set("acme", Fate::Redirected);
    let secure = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let caller = cluster.caller(0, "root");
    create(&caller, "redirected", &receiver.url(), 1).await.expect(200);
    let url = format!("https://localhost:{}/", secure.local_addr().unwrap().port());
    create(&caller, "secure", &url, 1).await.expect(200);
    open_with(&caller, "acme", 100).await;
    until_in_all(&caller, "redirected", "dead_letters", 2).await;
    assert!(receiver.got().iter().all(|got| got.path == "/hook?from=purser"));
    let (mut stream, _) = secure.accept().await.unwrap();
    // A handshake of TLS, version 3.x.
    assert_eq!((stream.read_u8().await.unwrap(), stream.read_u8().await.unwrap()), (22, 3));
    drop((stream, secure));
    until_in_all(&caller, "secure", "dead_letters", 2).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_is_for_its_tenants_and_kinds_waits_while_disabled_and_can_be_removed() {
    let cluster = start(3).await;
    let receiver = Receiver::start().await;
    let caller = cluster.caller(0, "root");
    let body = json!({
        "webhook": "some", "url": receiver.url(), "secret": ONE, "tenants": ["t0"],
        "kinds": ["charge"],
    });
    open_with(&caller, "t0", 100).await;
    charge(&caller, "t0", "before", 1).await.expect(201);
    let made = until_answered("it is made", async || say(&caller, WEBHOOKS, &body).await).await;
    made.expect(200);
    say(&cluster.caller(1, "root"), WEBHOOKS, &body).await.expect(200);
    let other = json!({ "webhook": "some", "url": receiver.url(), "secret": TWO });
    say(&caller, WEBHOOKS, &other).await.expect_problem(409, "webhook_refused");
    say(&cluster.caller(0, "acme-admin"), WEBHOOKS, &body).await.expect_problem(403, "forbidden");

    let path = format!("{WEBHOOKS}/some/disable");
    let said = say(&caller, &path, &json!({ "reason": "maintenance" })).await.expect(200);
    assert_eq!(
        (said.text("/status"), said.text("/shards/1/disabled")),
        ("disabled", "maintenance")
    );
    open_some(&caller, &["t1"]).await;
    charge(&caller, "t0", "while it waits", 1).await.expect(201);
    let well = json!({ "reason": "it is over" });
    let said = say(&caller, &format!("{WEBHOOKS}/some/enable"), &well).await.expect(200);
    for shard in said.body["shards"].as_array().unwrap() {
        let acts = shard["history"].as_array().unwrap();
        let told = |act: &Value| (act["act"].clone(), act["actor"].clone(), act["reason"].clone());
        let by = acts[0]["actor"].clone();
        assert_ne!(by, Value::Null);
        let expected = [
            (json!("create"), by.clone(), Value::Null),
            (json!("disable"), by.clone(), json!("maintenance")),
            (json!("enable"), by.clone(), json!("it is over")),
        ];
        assert_eq!(acts.iter().map(told).collect::<Vec<_>>(), expected);
    }
    charge(&caller, "t0", "after", 1).await.expect(201);
    receiver.until_taken("t0", |taken| first_times(taken) == [4, 5]).await;
    assert_eq!(receiver.taken("t1"), Vec::<u64>::new());
    for _ in 0..2 {
        let path = format!("{WEBHOOKS}/some");
        cluster.caller(2, "root").raw("DELETE", &path, &[], Bytes::new()).await.expect(200);
        caller.get(&path).await.expect_problem(404, "webhook_not_found");
    }
    cluster.end().await;
}

/// K069: the last digit is kept in an event too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k069_two_to_the_53_and_one_comes_with_its_last_digit() {
    let cluster = start(1).await;
    let receiver = Receiver::start().await;
    let caller = cluster.caller(0, "root");
    create(&caller, "billing", &receiver.url(), 22).await.expect(200);
    open_with(&caller, "acme", 9_007_199_254_740_993).await;
    charge(&caller, "acme", "one", 1).await.expect(201);
    until_taken(&receiver, "acme", 3).await;
    let got = receiver.got();
    let postings = |sequence| {
        let event = got.iter().find(|got| got.sequence() == sequence).unwrap().json();
        event["data"]["entry"]["postings"].to_string()
    };
    let granted = postings(2);
    assert!(granted.contains(r#""9007199254740993""#), "{granted}");
    let charged = postings(3);
    assert!(charged.contains(r#""1""#) && charged.contains(r#""-1""#), "{charged}");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_stay_over_a_fail_over_and_what_could_be_lost_is_not_sent() {
    let cluster = Cluster::of_regions_with_webhooks().await;
    let [us, eu, ap] = [US, EU, AP].map(|place| cluster.caller(place, "root"));
    let [old, new] = [Receiver::start().await, Receiver::start().await];
    create(&us, "billing", &old.url(), 22).await.expect(200);
    create(&eu, "billing", &new.url(), 22).await.expect(200);
    open_followed(&us).await;
    let body = json!({ "unacknowledged_max": "500" });
    us.post("/admin/v1/tenants/acme/policy", "x", &body).await.expect(200);
    charge(&us, "acme", "before", 10).await.expect(201);
    let path = "/v1/tenants/acme/entries?limit=1";
    let before = us.get(path).await.expect(200);
    let before: u64 = before.text("/items/0/sequence").parse().unwrap();
    until_taken(&old, "acme", before).await;
    cluster.cut(US);
    // Answered within X: if the home were lost for good, nobody would know of it.
    charge(&us, "acme", "within x", 100).await.expect(201);
    take_over(&ap, "us").await;
    until_decided(&eu, "after", 5).await.expect(201);
    cluster.heal(US);
    until_placed(&eu, |placed| placed["home"] == "eu" && placed["state"] == "settled").await;
    strictly(&eu, "at last", 1).await.expect(201);
    let last = eu.get(path).await.expect(200);
    let last: u64 = last.text("/items/0/sequence").parse().unwrap();
    let taken = until_taken(&new, "acme", last).await;
    assert_eq!(first_times(&taken), (1..=last).collect::<Vec<_>>());

    let names = |receiver: &Receiver| {
        let got = receiver.got().into_iter().map(|got| (got.id.clone(), got.body));
        got.collect::<BTreeSet<_>>()
    };
    let (told, again) = (names(&old), names(&new));
    assert_eq!(
        told.len(),
        usize::try_from(before).unwrap(),
        "what only the lost home had was sent"
    );
    let ids = |names: &BTreeSet<(String, Bytes)>| {
        names.iter().map(|(id, _)| id.clone()).collect::<BTreeSet<_>>()
    };
    assert!(ids(&told).is_subset(&ids(&again)), "{told:?} {again:?}");
    assert_eq!(again.len(), usize::try_from(last).unwrap(), "an event came with another body");
    cluster.end().await;
}
