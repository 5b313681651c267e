//! Metrics, in a process of their own: a process has one recorder.

// Clippy lets tests unwrap where it can see that they are tests.
#![cfg(test)]

#[path = "api/support.rs"]
#[expect(dead_code, reason = "shared with the tests of the API, which use more of it")]
mod support;

use std::time::Duration;

use purser_node::Recorder;
use serde_json::json;

use crate::support::{Cluster, Unusual};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_counted_by_operation_and_outcome() {
    let recorder = Recorder::install().unwrap();
    let unusual = Unusual { recorder: Some(recorder), ..Unusual::default() };
    let cluster = Cluster::start_unusual(1, unusual).await;
    let caller = cluster.caller(0, "root");
    support::open_with(&caller, "acme", 10).await;
    let hold = "/v1/tenants/acme/holds";
    caller.post(hold, "k1", &json!({ "amount": 10 })).await.expect(201);
    caller.post(hold, "k1", &json!({ "amount": 10 })).await.expect(201);
    caller.post(hold, "k2", &json!({ "amount": 10 })).await.expect(402);
    caller.post(hold, "k3", &json!({ "amount": "x" })).await.expect(400);

    let job = json!({ "job_id": "j", "amount": 1, "mode": "charge", "allow_debt": true });
    caller.post("/v1/tenants/acme/jobs", "k4", &job).await.expect(402);
    let policy = json!({ "debt_limit": "5" });
    caller.post("/admin/v1/tenants/acme/policy", "k5", &policy).await.expect(200);
    caller.post("/v1/tenants/acme/jobs", "k6", &job).await.expect(201);
    let event = json!({ "specversion": "1.0", "source": "meter", "id": "1", "type": "usage",
        "subject": "acme", "data": { "amount": 1, "hold_id": "h999-0-us" } });
    caller.post("/v1/events", "no key is read", &json!([event])).await.expect(200);

    let metrics = caller.get("/metrics").await.expect(200);
    let text = metrics.body.as_str().unwrap();
    for line in [
        r#"purser_requests_total{node="1",operation="authorize",outcome="done"} 2"#,
        r#"purser_requests_total{node="1",operation="authorize",outcome="refused"} 1"#,
        r#"purser_requests_total{node="1",operation="authorize",outcome="invalid"} 1"#,
        r#"purser_replays_total{node="1",operation="authorize"} 1"#,
        r#"purser_request_duration_seconds_count{node="1",operation="authorize"} 4"#,
    ] {
        assert!(text.contains(line), "{line} is not there");
    }
    assert!(text.contains("purser_build_info{"));
    assert!(!text.contains("acme"), "a tenant is never a label");

    // The numbers of groups come with the next publication.
    let lines = [
        r#"purser_raft_has_leader{node="1",group="0"} 1"#,
        r#"purser_jobs_open{node="1"} 1"#,
        r#"purser_jobs_dead{node="1"} 0"#,
        r#"purser_usage_events_parked{node="1"} 1"#,
    ];
    let published = async {
        loop {
            let metrics = caller.get("/metrics").await;
            let text = metrics.body.as_str().unwrap();
            if lines.iter().all(|line| text.contains(line)) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), published).await.unwrap();
    cluster.end().await;
}
