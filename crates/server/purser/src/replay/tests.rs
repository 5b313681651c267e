//! A short replay against a node in this process.

use std::fmt::Write;
use std::fs;

use clap::Parser;

use super::test_node::{TOKEN, TestNode};
use super::*;
use crate::output::Format;

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    replay: Args,
}

/// 200 requests, ten milliseconds apart.
fn trace() -> String {
    let mut text = "time,estimated,actual,duration_ms\n".to_owned();
    for number in 0..200_u32 {
        let (second, millis) = (number / 100, number % 100 * 10);
        let (estimated, actual) = (1_000 + number, 400 + 7 * number);
        writeln!(text, "2026-08-01T00:00:{second:02}.{millis:03}Z,{estimated},{actual},50")
            .unwrap();
    }
    text
}

/// The book and the service were written apart from each other; here they must agree about every
/// credit, with all that a replay makes go wrong.
#[tokio::test(flavor = "multi_thread")]
async fn the_book_and_a_node_agree_about_every_credit() {
    let node = TestNode::start().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), trace()).unwrap();
    let (path, url) = (file.path().to_str().unwrap(), node.address().to_string());
    let options = ["--token", TOKEN, "--tenants", "8", "--speed", "2", "--lead", "1"];
    let arguments = ["replay", path, "--url", &url].into_iter().chain(options);
    let args = Cli::try_parse_from(arguments).unwrap().replay;
    let report = replay(args, &Output::new(Format::People)).await.unwrap();
    assert!(report.outcome().is_ok(), "{}", report.render());
    assert!(report.render().ends_with("all equal"), "{}", report.render());
    node.end().await;
}

#[test]
fn a_service_that_is_not_there_is_told_from_one_that_is_wrong() {
    let exit_code = |error: ReplayError| CommandError::from(error).exit_code();
    assert_eq!(exit_code(ReplayError::Unreached), 3);
    assert_eq!(exit_code(ReplayError::NoLeader), 1);
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for (option, value) in
        [("--zipf", "-1"), ("--zipf", "NaN"), ("--limit", "0"), ("--speed", "0"), ("--run", "a b")]
    {
        let refused = Cli::try_parse_from(["replay", "trace.csv", option, value]);
        assert!(refused.is_err(), "{option} {value}");
    }
}
