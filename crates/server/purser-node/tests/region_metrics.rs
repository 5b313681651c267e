//! Metrics of regions, in a process of their own: a process has one recorder.

// Clippy lets tests unwrap where it can see that they are tests.
#![cfg(test)]

#[path = "api/support.rs"]
#[expect(dead_code, reason = "shared with the tests of the API, which use more of it")]
mod support;

use purser_node::Recorder;
use serde_json::json;

use crate::support::{Cluster, Unusual};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_out_in_regions_and_what_may_be_overspent_is_published() {
    let recorder = Some(Recorder::install().unwrap());
    let regions = Some(&["us", "eu", "ap"][..]);
    let unusual = Unusual { recorder, regions, ..Unusual::default() };
    let cluster = Cluster::start_unusual(3, unusual).await;
    for node in &cluster.nodes {
        node.connected().await;
    }
    let [us, eu] = [0, 1].map(|place| cluster.caller(place, "root"));
    support::open_with(&us, "acme", 1_000).await;
    let charges = "/v1/tenants/acme/charges";
    let mut number = 0;
    loop {
        number += 1;
        let key = format!("c{number}");
        let answer = eu.post(charges, &key, &json!({ "amount": 1 })).await.expect(201);
        if answer.header("purser-decided-by") == "region=eu, role=allocation" {
            break;
        }
    }
    let set = json!({ "overdraft": 30, "reason": "launch day" });
    us.post("/admin/v1/tenants/acme/allocations/eu", "s1", &set).await.expect(200);
    let recall = json!({ "reason": "audit" });
    us.post("/admin/v1/tenants/acme/allocations/eu/recall", "r1", &recall).await.expect(200);

    // Sums come with the next publication.
    let bound = r#"purser_overspend_bound_credits{node="1",cause="overdraft"} 30"#;
    let text = loop {
        let metrics = us.get("/metrics").await.expect(200);
        let text = metrics.body.as_str().unwrap().to_owned();
        if text.contains(bound) {
            break text;
        }
        tokio::task::yield_now().await;
    };
    let value = |name: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name} is not there")).trim().parse().unwrap()
    };
    assert_eq!(value(r#"purser_overspend_ceiling_credits{node="1"}"#), 30.0);
    assert_eq!(value(r#"purser_overspend_bound_credits{node="2",cause="overdraft"}"#), 0.0);
    assert!(value(r#"purser_allocations_right_credits{node="1",region="eu"}"#) >= 30.0);
    assert!(value(r#"purser_report_age_max_seconds{node="1",region="eu"}"#) < 60.0);
    assert!(value(r#"purser_report_age_max_seconds{node="1",region="ap"}"#).is_nan());
    assert_eq!(value(r#"purser_stranded_credits{node="1",region="eu"}"#), 0.0);
    assert!(value(r#"purser_region_spends_total{node="2",outcome="local"}"#) >= 1.0);
    assert!(value(r#"purser_region_spends_total{node="2",outcome="no_allocation"}"#) >= 1.0);
    let act = |act: &str| {
        value(&format!(r#"purser_allocation_acts_total{{node="1",act="{act}",region="eu"}}"#))
    };
    assert!(act("grant") >= 1.0 && act("recall") >= 1.0);
    for name in ["asks_total", "asked_bytes_total"] {
        let kind = r#"{node="2",kind="reports",region="us"}"#;
        assert!(value(&format!("purser_cross_region_{name}{kind}")) >= 1.0);
    }
    assert!(!text.contains("acme"), "a tenant is never a label");
    cluster.end().await;
}
