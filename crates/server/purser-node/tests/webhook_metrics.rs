//! Metrics of webhooks, in a process of their own: a process has one recorder.

// Clippy lets tests unwrap where it can see that they are tests.
#![cfg(test)]

#[path = "api/receiver.rs"]
#[expect(dead_code, reason = "shared with the tests of the API, which use more of it")]
mod receiver;
#[path = "api/support.rs"]
#[expect(dead_code, reason = "shared with the tests of the API, which use more of it")]
mod support;

use std::time::Duration;

use purser_node::{Recorder, WebhookSettings};
use serde_json::json;

use crate::receiver::{Fate, Receiver};
use crate::support::{Cluster, Unusual};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_and_what_waits_are_shown_by_webhook_and_never_by_tenant() {
    let recorder = Some(Recorder::install().unwrap());
    let webhooks = WebhookSettings { allow_private_targets: true };
    let cluster =
        Cluster::start_unusual(1, Unusual { recorder, webhooks, ..Unusual::default() }).await;
    let receiver = Receiver::start().await;
    receiver.set("bad", Fate::Refused);
    let caller = cluster.caller(0, "root");
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let body = json!({ "webhook": "billing", "url": receiver.url(), "secret": secret });
    let headers = [("content-type", "application/json")];
    caller.raw("POST", "/admin/v1/webhooks", &headers, body.to_string().into()).await.expect(200);
    support::open_with(&caller, "good", 10).await;
    support::open_with(&caller, "bad", 10).await;

    let sums = |text: &str, metric: &str, label: &str| -> f64 {
        let lines = text.lines().filter(|line| line.starts_with(&format!("{metric}{{")));
        let lines = lines.filter(|line| line.contains(r#"webhook="billing""#));
        let lines = lines.filter(|line| line.contains(label));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    };
    let shown = async {
        loop {
            let text = caller.get("/metrics").await.expect(200).body;
            let text = text.as_str().unwrap();
            assert!(!text.contains("good"), "a tenant is never a label");
            let delivered = sums(text, "purser_webhook_deliveries_total", r#"outcome="delivered""#);
            let failed = sums(text, "purser_webhook_deliveries_total", r#"outcome="failed""#);
            let waiting = sums(text, "purser_webhook_pending", "");
            let parked = sums(text, "purser_webhook_parked_accounts", "");
            if (delivered, failed, waiting, parked) == (2.0, 1.0, 2.0, 1.0) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), shown).await.unwrap();

    // A webhook that waits still shows what has failed, and that it waits.
    let because = json!({ "reason": "maintenance" }).to_string();
    let path = "/admin/v1/webhooks/billing/disable";
    caller.raw("POST", path, &headers, because.into()).await.expect(200);
    let waits = async {
        loop {
            let text = caller.get("/metrics").await.expect(200).body;
            let text = text.as_str().unwrap();
            let disabled = sums(text, "purser_webhook_disabled", "");
            let parked = sums(text, "purser_webhook_parked_accounts", "");
            // In each of the two shards.
            if (disabled, parked) == (2.0, 1.0) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waits).await.unwrap();
    cluster.end().await;
}
