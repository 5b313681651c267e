//! README's two commands, and what the first of them promises.
//!
//! The first is run as the binary that lies here already: building it once more, optimized, inside
//! a test would take minutes and show nothing about what it does.

use std::path::Path;
use std::process::Stdio;

use purser_tests::{Account, Api, Dev, Ended, Load, leaders};
use reqwest::Method;
use serde_json::Value;

/// The lines of the fenced blocks of README.md, block by block.
fn fenced_blocks() -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let text = std::fs::read_to_string(path).expect("README.md can be read");
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while lines.any(|line| line.trim_start().starts_with("```")) {
        let block = lines.by_ref().take_while(|line| !line.trim_start().starts_with("```"));
        blocks.push(block.map(|line| line.trim().to_owned()).collect());
    }
    blocks
}

#[test]
fn the_readme_starts_with_its_two_commands() {
    let blocks = fenced_blocks();
    let commands: Vec<&[String]> = blocks.iter().take(2).map(Vec::as_slice).collect();
    assert_eq!(commands, [["cargo run --release -- dev"], ["cargo xtask test"]]);
}

/// Pastes a line into a shell, and returns the status and the body of the answer.
///
/// Where there is no curl, the same request is made without it.
async fn paste(line: &str, api: &Api) -> (u16, Value) {
    let mut curl = tokio::process::Command::new("curl");
    let curl = curl.arg("--version").stdout(Stdio::null()).status().await;
    if !curl.is_ok_and(|status| status.success()) {
        println!("NOT RUN: curl is not installed; its request is made without it");
        return paste_without_curl(line, api).await;
    }
    let line = format!(r"{line} -w '\n%{{http_code}}'");
    let output = tokio::process::Command::new("sh").arg("-c").arg(&line).output().await;
    let output = output.expect("a shell starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n').expect("a body and a status");
    let body = serde_json::from_str(body).unwrap_or_default();
    (status.parse().expect("a status"), body)
}

async fn paste_without_curl(line: &str, api: &Api) -> (u16, Value) {
    // Words in single quotes are one word each, as in a shell.
    let words: Vec<&str> = line
        .split('\'')
        .enumerate()
        .flat_map(
            |(place, part)| {
                if place % 2 == 1 { vec![part] } else { part.split_whitespace().collect() }
            },
        )
        .collect();
    let after = |option: &'static str| {
        let pairs = words.iter().zip(words.iter().skip(1));
        pairs.filter(move |(word, _)| **word == option).map(|(_, value)| *value)
    };
    let url = words.iter().find_map(|word| word.strip_prefix(api.base())).expect("a url");
    let method = if after("-d").next().is_some() { Method::POST } else { Method::GET };
    let mut request = api.request(method, url);
    for header in after("-H") {
        let (name, value) = header.split_once(": ").expect("a header");
        if !name.eq_ignore_ascii_case("authorization") {
            request = request.header(name, value);
        }
    }
    let body = after("-d").next().unwrap_or_default().to_owned();
    let reply = api.send(request.body(body)).await.expect("the front door answers");
    (reply.status, reply.body)
}

#[tokio::test]
async fn the_first_command_shows_what_to_paste_and_it_works() {
    let mut dev = Dev::start(&[]);
    let banner = dev.banner().await;
    assert!(banner.len() <= 10, "a small terminal has room for ten lines: {banner:#?}");
    assert!(banner[0].starts_with("Purser "), "{banner:#?}");
    assert!(banner[1].contains("loopback only, token dev"), "{banner:#?}");
    let line = banner.iter().find_map(|line| line.find("curl ").map(|at| &line[at..]));
    let line = line.expect("the banner has a call to paste");
    dev.wait_until_ready().await;

    let (status, first) = paste(line, &dev.api()).await;
    assert_eq!(status, 201, "{line}: {first:#}");
    // Pasted twice, it is the same call: that is what its key is for.
    let (status, second) = paste(line, &dev.api()).await;
    assert_eq!((status, &second["hold_id"]), (201, &first["hold_id"]), "{line}: {second:#}");
    let metrics = dev.api().get("/metrics").await;
    assert!(metrics.check(200).body.to_string().contains("purser_"), "{metrics:#?}");

    let printed = dev.stop().await;
    let last = printed.lines().last();
    assert_eq!(last, Some("stopping; Ctrl-C again to stop at once"), "an end without a fuss");
}

#[tokio::test]
async fn a_killed_node_of_the_development_cluster_is_not_missed() {
    let mut dev = Dev::start(&["--nodes", "3"]);
    dev.banner().await;
    dev.wait_until_ready().await;
    // The nodes of one region, so that all is decided at home and stands in its ledger.
    let us: Vec<Api> = (0..3).map(|place| dev.node(10 + place)).collect();
    let spender = vec![Account::open(&us[0], "spender", 1_000_000).await];
    let load = Load::start(4, &us, &spender);
    load.wait_for_calls(20).await;

    let leaders = leaders(&us[0]).await;
    let leader = *leaders.values().next().expect("somebody leads");
    let status = dev.control(&["status", "--json"]).await;
    let name =
        node_of(&status, |node| node["id"] == leader)["node"].as_str().expect("a name").to_owned();
    let killed = dev.control(&["kill", &name]).await;
    killed.check_code(0);
    load.wait_for_calls(50).await;
    let status = dev.control(&["status", "--json"]).await;
    assert_eq!(node_state(&status, &name), "killed", "{status:#?}");
    dev.control(&["kill", &name]).await.check_code(1);

    dev.control(&["start", &name]).await.check_code(0);
    load.wait_for_calls(50).await;
    let status = dev.control(&["status", "--json"]).await;
    assert_eq!(node_state(&status, &name), "running", "{status:#?}");
    let record = load.finish().await;
    println!("a node of the development cluster killed: {record}");
    record.check_against(&spender).await;

    dev.stop().await;
}

fn node_state(status: &Ended, name: &str) -> String {
    let node = node_of(status, |node| node["node"] == *name);
    node["state"].as_str().expect("a state").to_owned()
}

fn node_of(status: &Ended, is_it: impl Fn(&Value) -> bool) -> Value {
    let status: Value = serde_json::from_str(&status.check_code(0).stdout).expect("JSON");
    let nodes = status["nodes"].as_array().expect("nodes");
    nodes.iter().find(|node| is_it(node)).expect("the node is there").clone()
}
