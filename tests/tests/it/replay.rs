//! `purser replay`: every balance equal to its own book, against three processes of one region, and
//! against three regions that are cut off one after the other.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use purser_tests::{Api, Caller, Cluster, Ended, Running, free_dev_base, run, wait_for};

/// Names a folder with the public Azure traces of LLM inference, where there is one.
const TRACES_VARIABLE: &str = "PURSER_TRACES";

/// A trace of two hundred requests: bursts and pauses, estimates that are too high and too low.
fn made_up_trace() -> String {
    let mut text = "time,tenant,estimated,actual,duration_ms\n".to_owned();
    for number in 0..200_u64 {
        // Ten requests at once, then nine seconds of quiet.
        let second = number / 10 * 9;
        let (minute, second) = (second / 60, second % 60);
        let tenant = number * number % 7;
        let (estimated, actual) = (100 + number * 37 % 500, number * 53 % 700);
        let duration = 100 + number * 91 % 4_000;
        let line = writeln!(
            text,
            "2026-01-01 00:{minute:02}:{second:02}.{number:03},tenant-{tenant},{estimated},\
             {actual},{duration}"
        );
        line.expect("a string takes all");
    }
    text
}

async fn replay(cluster: &Cluster, traces: &[PathBuf], options: &[&str]) -> Ended {
    let urls = Cluster::IDS.map(|id| format!("http://{}", cluster.address(id))).join(",");
    let mut arguments = vec!["replay".to_owned(), "--url".to_owned(), urls];
    arguments.extend(options.iter().map(|option| (*option).to_owned()));
    arguments.extend(traces.iter().map(|trace| trace.display().to_string()));
    run(arguments, &[("PURSER_TOKEN", Caller::Admin.secret())]).await
}

#[track_caller]
fn check_all_equal(what: &str, ended: &Ended) {
    println!("{what}:\n{}", ended.stdout);
    ended.check_code(0);
    assert!(ended.stdout.contains("all equal"), "{ended:#?}");
}

#[tokio::test]
async fn a_replayed_trace_leaves_every_balance_equal_to_its_book() {
    let cluster = Cluster::start().await;
    let trace = cluster.folder().join("trace.csv");
    std::fs::write(&trace, made_up_trace()).expect("the trace is written");
    let ended = replay(&cluster, &[trace], &["--speed", "1000", "--tenants", "10"]).await;
    check_all_equal("made-up trace", &ended);

    match std::env::var_os(TRACES_VARIABLE) {
        Some(folder) => {
            let slice = ["--speed", "1000", "--limit", "2000", "--tenants", "200"];
            let ended = replay(&cluster, &csv_files(Path::new(&folder)), &slice).await;
            check_all_equal("a slice of the Azure traces", &ended);
        }
        None => println!("NOT RUN: the Azure traces ({TRACES_VARIABLE} names no folder)"),
    }
}

/// How long three regions may take to start.
const READY: Duration = Duration::from_secs(60);

/// Each region decides by what it was given while it is cut off; the rest waits; and then home finds
/// every credit.
#[tokio::test]
async fn three_regions_agree_with_the_sums_whatever_is_cut_off() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (base, data) = (free_dev_base(), folder.path().join("dev"));
    let (base_port, data) = (base.to_string(), data.display().to_string());
    let dev = ["dev", "--traffic", "off", "--base-port", &base_port, "--data", &data];
    let _dev = Running::start(dev, &folder.path().join("output"));
    let url = format!("http://127.0.0.1:{base}");
    let api = Api::new(url.clone(), "dev");
    wait_for("the cluster is ready", READY, async || {
        api.try_get("/readyz").await.is_ok_and(|reply| reply.status == 200).then_some(())
    })
    .await;
    let trace = folder.path().join("trace.csv");
    std::fs::write(&trace, made_up_trace()).expect("the trace is written");
    let trace = trace.display().to_string();
    // The trace is 171 s long, so the regions are cut off for 12 of 17 s. With as many credits as
    // that, regions have some to decide by.
    let options = ["--speed", "10", "--tenants", "1", "--supply", "5000", "--cut-each", "4s"];
    let arguments = [&["replay", "--json", "--url", &url, &trace], &options[..]].concat();
    let ended = run(arguments, &[("PURSER_TOKEN", "dev")]).await;
    println!("{}", ended.stdout);
    ended.check_code(0);
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let cuts = report["regions"]["cuts"].as_array().expect("the cuts that were made");
    assert_eq!(cuts.len(), 3, "{report:#}");
    assert_ne!(report["verification"]["regional"], 0, "{report:#}");
    assert_eq!(report["verification"]["overspent"], 0, "{report:#}");
}

fn csv_files(folder: &Path) -> Vec<PathBuf> {
    let names = std::fs::read_dir(folder).expect("the folder of the traces can be read");
    let mut files: Vec<PathBuf> = names
        .map(|name| name.expect("a name can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "csv"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "there are no traces in {}", folder.display());
    files
}
