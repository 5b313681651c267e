//! Jobs over the API: created, worked on, reported, dead, redriven, discarded; in one region and in three.

use serde_json::{Value, json};

use crate::abroad::{AP, EU, US, open_in};
use crate::support::{Answer, Caller, Cluster, open_with};

const JOBS: &str = "/v1/tenants/acme/jobs";
const LETTERS: &str = "/admin/v1/tenants/acme/dead-letters";

/// Creates a job of acme that workers find in the queue `q`.
async fn enqueue(caller: &Caller, job: &str, more: Value) -> Answer {
    let mut body = json!({ "job_id": job, "amount": 40, "queue": "q", "enqueue": true });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    caller.post(JOBS, &format!("create-{job}"), &body).await.expect(201)
}

/// Takes jobs that are due: their names and leases.
async fn lease(caller: &Caller, max: u32) -> Vec<(String, String)> {
    let body = json!({ "queue": "q", "max": max, "lease_seconds": 60 });
    let answer = caller.post("/v1/jobs/lease", "any", &body).await.expect(200);
    assert_eq!(answer.body["unknown_regions"], json!([]));
    let text = |job: &Value, name: &str| job[name].as_str().unwrap().to_owned();
    let jobs = answer.body["jobs"].as_array().unwrap();
    jobs.iter().map(|job| (text(job, "job_id"), text(job, "lease"))).collect()
}

async fn report(caller: &Caller, job: &str, key: &str, body: Value) -> Answer {
    caller.post(&format!("{JOBS}/{job}/outcome"), key, &body).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_tried_until_it_is_delivered_and_paid_once() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    let made = enqueue(&caller, "video-1", json!({ "reference": "frame-7" })).await;
    assert_eq!((made.text("/status"), made.text("/hold_id")), ("queued", "h3-0-us"));
    assert_eq!((made.text("/effect"), made.text("/moved")), ("authorized", "40"));
    assert_eq!((made.text("/balance/available"), made.text("/balance/held")), ("60", "40"));

    // Its name is its guard: the same once more is the job as it stands, another is refused.
    let body = json!({ "job_id": "video-1", "amount": 40, "queue": "q", "enqueue": true, "reference": "frame-7" });
    let found = caller.post(JOBS, "other-key", &body).await.expect(200);
    assert_eq!(found.body["job_id"], "video-1");
    let other = json!({ "job_id": "video-1", "amount": 41 });
    caller.post(JOBS, "k2", &other).await.expect_problem(409, "job_id_conflict");

    let [(job, token)] = &lease(&caller, 5).await[..] else { panic!("one job is due") };
    assert_eq!(job, "video-1");
    assert!(lease(&caller, 5).await.is_empty());
    let body = json!({ "outcome": "failed", "lease": token, "reason": "time-out" });
    let failed = report(&caller, "video-1", "f1", body.clone()).await.expect(200);
    assert_eq!((failed.text("/status"), failed.text("/effect")), ("queued", "released"));
    assert_eq!(failed.text("/failure"), "time-out");
    // Poller and webhook say the same: nothing more happens.
    let again = report(&caller, "video-1", "f2", body).await.expect(200);
    assert_eq!((&again.body["attempts"], again.text("/balance/available")), (&json!(1), "100"));

    assert!(lease(&caller, 5).await.is_empty());
    cluster.clock.advance(1);
    let [(_, token)] = &lease(&caller, 5).await[..] else { panic!("it is due again") };
    let renew = json!({ "lease": token, "lease_seconds": 600 });
    let renewed = caller.post(&format!("{JOBS}/video-1/renew"), "r1", &renew).await.expect(200);
    assert_eq!(renewed.text("/due_at"), "2026-08-01T00:10:01Z");
    let body = json!({ "outcome": "succeeded" });
    let done = report(&caller, "video-1", "s1", body.clone()).await.expect(200);
    assert_eq!((done.text("/status"), done.text("/effect")), ("succeeded", "captured_late"));
    assert_eq!((done.text("/moved"), done.text("/balance/used")), ("40", "40"));
    report(&caller, "video-1", "s2", body.clone()).await.expect(200);
    let replayed = report(&caller, "video-1", "s1", body).await.expect(200);
    assert_eq!(
        (replayed.header("idempotent-replayed"), replayed.body.clone()),
        ("true", done.body.clone())
    );
    let over = caller.post(&format!("{JOBS}/video-1/renew"), "r2", &renew).await;
    assert_eq!(over.expect_problem(409, "lease_lost").text("/job_status"), "succeeded");

    let shown = caller.get(&format!("{JOBS}/video-1")).await.expect(200);
    let kinds: Vec<&str> = shown.body["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["authorize", "lease", "release", "lease", "renew", "late_capture"]);
    assert_eq!(caller.get("/v1/tenants/acme/balance").await.expect(200).text("/used"), "40");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_is_redriven_once_and_discarded_as_it_was_shown() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    for job in ["one", "two"] {
        enqueue(&caller, job, json!({ "mode": "charge", "max_attempts": 1 })).await;
    }
    for (job, token) in lease(&caller, 5).await {
        let body = json!({ "outcome": "failed", "lease": token, "reason": "bad body" });
        let failed = report(&caller, &job, &format!("f-{job}"), body).await.expect(200);
        assert_eq!((failed.text("/status"), failed.text("/effect")), ("dead", "refunded"));
    }
    cluster.clock.advance(86_400);
    assert!(lease(&caller, 5).await.is_empty());

    let first = caller.get("/admin/v1/dead-letters?limit=1&queue=q").await.expect(200);
    assert_eq!((first.text("/items/0/job_id"), &first.body["has_more"]), ("one", &json!(true)));
    let cursor = first.text("/next_cursor");
    let path = format!("/admin/v1/dead-letters?limit=1&queue=q&cursor={cursor}");
    let second = caller.get(&path).await.expect(200);
    assert_eq!((second.text("/items/0/job_id"), &second.body["has_more"]), ("two", &json!(false)));
    let other_list = format!("/admin/v1/dead-letters?limit=1&cursor={cursor}");
    caller.get(&other_list).await.expect_problem(400, "invalid_cursor");
    let dead = caller.get(&format!("{JOBS}?state=dead")).await.expect(200);
    assert_eq!((dead.text("/items/0/job_id"), dead.text("/items/1/job_id")), ("two", "one"));

    let reason = json!({ "reason": "mended" });
    for key in ["r1", "r2", "r3"] {
        let redriven =
            caller.post(&format!("{LETTERS}/one/redrive"), key, &reason).await.expect(200);
        assert_eq!((redriven.text("/status"), &redriven.body["redriven"]), ("queued", &json!(1)));
    }
    let [(job, _)] = &lease(&caller, 5).await[..] else { panic!("it was redriven once") };
    report(&caller, job, "s1", json!({ "outcome": "succeeded" })).await.expect(200);
    let ended = caller.post(&format!("{LETTERS}/two/redrive"), "r1", &reason).await;
    ended.expect_problem(422, "key_reused");

    let path = format!("{LETTERS}/two/discard");
    let unsure = caller.post(&path, "d1", &json!({ "reason": "gone" })).await;
    unsure.expect_problem(400, "confirmation_required");
    let body = json!({ "reason": "gone", "dry_run": true });
    let dry = caller.post(&path, "d2", &body).await.expect(200);
    assert_eq!((&dry.body["dry_run"], dry.text("/status")), (&json!(true), "discarded"));
    let shown = caller.get(&format!("{LETTERS}/two")).await.expect(200);
    assert_eq!((shown.text("/status"), shown.text("/failure")), ("dead", "bad body"));
    let stale = json!({ "reason": "gone", "confirm": "1" });
    caller.post(&path, "d3", &stale).await.expect_problem(409, "stale_confirmation");
    let body = json!({ "reason": "gone", "confirm": dry.text("/confirm") });
    let discarded = caller.post(&path, "d4", &body).await.expect(200);
    assert_eq!((discarded.text("/status"), discarded.text("/effect")), ("discarded", "none"));
    let ended = caller.post(&path, "d5", &body).await.expect_problem(409, "job_ended");
    assert_eq!(ended.text("/job_status"), "discarded");
    let none = caller.get("/admin/v1/dead-letters").await.expect(200);
    assert_eq!(none.body["items"], json!([]));
    assert_eq!(caller.get("/v1/tenants/acme/balance").await.expect(200).text("/used"), "40");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_job_would_ignore_is_refused_and_a_bound_token_leases_nothing() {
    let (cluster, caller) = Cluster::with_credits(100).await;
    for more in [
        json!({ "allow_debt": true }),
        json!({ "mode": "charge", "ttl_seconds": 60 }),
        json!({ "enqueue": true, "lease_seconds": 60 }),
        json!({ "max_attempts": 0 }),
        json!({ "queue": "a/b" }),
        json!({ "attempts": 3 }),
    ] {
        let mut body = json!({ "job_id": "j", "amount": 40 });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        caller.post(JOBS, "k", &body).await.expect_problem(400, "invalid_request");
    }
    let unknown = report(&caller, "nobody", "k1", json!({ "outcome": "succeeded" })).await;
    unknown.expect_problem(404, "job_not_found");
    let bound = cluster.caller(0, "acme-spender");
    let refused = bound.post("/v1/jobs/lease", "any", &json!({})).await;
    refused.expect_problem(403, "forbidden");
    let body = json!({ "job_id": "j", "amount": 101 });
    bound.post(JOBS, "k2", &body).await.expect_problem(402, "insufficient_credits");
    let close = json!({ "reason": "gone", "dry_run": true });
    enqueue(&caller, "j", json!({})).await;
    let blocked = caller.post("/admin/v1/tenants/acme/close", "c1", &close).await;
    assert_eq!(blocked.expect_problem(409, "close_blocked").body["open_jobs"], 1);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_may_ask_any_node() {
    let cluster = Cluster::start(3).await;
    open_with(&cluster.caller(0, "root"), "acme", 1_000).await;
    let mut leased = Vec::new();
    for place in 0..3 {
        let caller = cluster.caller(place, "root");
        enqueue(&caller, &format!("j{place}"), json!({})).await;
        // A node that follows may not know of the job yet; then it is asked once more.
        crate::waiting::wait_for(format!("j{place} is due"), async || {
            leased.extend(lease(&caller, 5).await);
            if leased.len() == place + 1 { Ok(()) } else { Err(format!("{leased:?}")) }
        })
        .await;
    }
    let names: Vec<&str> = leased.iter().map(|(job, _)| &**job).collect();
    assert_eq!(names, ["j0", "j1", "j2"]);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_decided_at_home_and_worked_on_from_any_region() {
    let cluster = Cluster::of_regions().await;
    let (us, eu, ap) =
        (cluster.caller(US, "root"), cluster.caller(EU, "root"), cluster.caller(AP, "root"));
    open_in(&us, "acme", "eu", 100).await;
    let made = enqueue(&us, "j1", json!({ "mode": "charge" })).await;
    assert_eq!(made.header("purser-decided-by"), "region=eu, role=home");
    assert_eq!(made.text("/charge_id"), "c3-0-eu");
    // Nothing is due in the own region, so another one's job comes.
    let own =
        us.post("/v1/jobs/lease?region=us", "any", &json!({ "queue": "q" })).await.expect(200);
    assert_eq!(own.body["jobs"], json!([]));
    let [(_, token)] = &lease(&us, 2).await[..] else { panic!("one job is due") };
    assert!(lease(&eu, 2).await.is_empty());
    let failed = json!({ "outcome": "failed", "lease": token });
    let failed = report(&ap, "j1", "f1", failed).await.expect(200);
    assert_eq!((failed.text("/effect"), failed.text("/balance/used")), ("refunded", "0"));
    let done = report(&eu, "j1", "s1", json!({ "outcome": "succeeded" })).await.expect(200);
    assert_eq!((done.text("/effect"), done.text("/balance/used")), ("reclaimed", "40"));
    let shown = ap.get(&format!("{JOBS}/j1")).await.expect(200);
    assert_eq!(shown.text("/status"), "succeeded");
    cluster.end().await;
}
