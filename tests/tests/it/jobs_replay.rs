//! `purser replay --jobs`: everything counts once, whatever fails, comes twice, comes late, crashes or is
//! killed: nodes that project, and the database that they project into.

use std::fmt::Write;
use std::time::Duration;

use purser_tests::{Dev, Postgres, run, wait_for};
use serde_json::Value;

/// How long the first jobs may take to be there.
const UNDER_WAY: Duration = Duration::from_secs(60);

/// Three hundred requests of seven tenants within a minute and a half.
fn trace() -> String {
    let mut text = "time,tenant,estimated,actual,duration_ms\n".to_owned();
    for number in 0..300_u64 {
        let (seconds, millis) = (number * 3 / 10, number * 300 % 1_000);
        let (minute, second) = (seconds / 60, seconds % 60);
        let (tenant, estimated) = (number * number % 7, 100 + number * 37 % 500);
        let line = writeln!(
            text,
            "2026-01-01 00:{minute:02}:{second:02}.{millis:03},t-{tenant},{estimated},1,100"
        );
        line.expect("a string takes all");
    }
    text
}

#[tokio::test]
async fn every_delivered_job_is_charged_once_whatever_fails_is_repeated_or_is_killed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("trace.csv"), trace()).expect("the trace is written");
    let mut postgres = Postgres::start();
    let (address, address_file) = (postgres.address(), path("address"));
    std::fs::write(&address_file, &address).expect("the address is written");
    let dev = Dev::start(&["--traffic", "off", "--postgres", &address_file]);
    dev.wait_until_ready().await;
    let (url, trace) = (dev.url(), path("trace.csv"));
    let arguments = ["replay", "--json", "--jobs", "--run", "r1", "--speed", "15", "--seed", "5"];
    let arguments = [&arguments[..], &["--tenants", "1", "--url", &*url, &*trace]].concat();
    let variables = [("PURSER_TOKEN", "dev"), ("PURSER_POSTGRES", &*address)];

    let disturb = async {
        let jobs = "/v1/tenants/r1:t-4/jobs?state=succeeded&limit=1";
        let api = dev.api();
        wait_for("a job is delivered", UNDER_WAY, async || {
            let reply = api.try_get(jobs).await.ok().filter(|reply| reply.status == 200)?;
            (reply.body["items"] != serde_json::json!([])).then_some(())
        })
        .await;
        postgres.crash_and_start_again();
        // It leads its region's shards, and with them their projectors die and come back.
        for node in ["us/1", "eu/1"] {
            dev.control(&["kill", node]).await.check_code(0);
            dev.control(&["start", node]).await.check_code(0);
        }
        postgres.crash_and_start_again();
    };
    let (ended, ()) = tokio::join!(run(arguments, &variables), disturb);
    ended.check_code(0);
    let report: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    println!("{report:#}");
    for end in ["succeeded", "failed", "dead", "discarded"] {
        assert_ne!(report["ends"][end].as_u64().unwrap_or(0), 0, "{end}: {report:#}");
    }
    for what in ["workers_crashed", "events_duplicate", "redriven", "discarded", "told_ahead"] {
        assert_ne!(report["counts"][what].as_u64().unwrap_or(0), 0, "{what}: {report:#}");
    }
    let entries = report["compared"]["entries"].as_u64().expect("how many entries there were");
    assert_eq!(report["tables"]["published"], entries, "{report:#}");
    dev.stop().await;
}
