//! The command line as programs use it: JSON they can read, and an exit code that says what happened.

use std::path::Path;
use std::time::Duration;

use purser_tests::{
    Account, Caller, Cluster, Ended, Running, Signal, free_dev_base, run, wait_for,
};
use serde_json::Value;

const DEADLINE: Duration = Duration::from_secs(60);

/// A cluster, and `purser` with its address and token in the environment.
struct Shell {
    cluster: Cluster,
}

impl Shell {
    async fn start() -> Self {
        Self { cluster: Cluster::start().await }
    }

    async fn run(&self, line: &str) -> Ended {
        self.run_with(line, &[]).await
    }

    /// Runs `purser` with the words of a line, and more variables.
    async fn run_with(&self, line: &str, variables: &[(&str, &str)]) -> Ended {
        let url = format!("http://{}", self.cluster.address(1));
        let own = [("PURSER_URL", url.as_str()), ("PURSER_TOKEN", Caller::Admin.secret())];
        run(line.split_whitespace(), &[&own, variables].concat()).await
    }

    /// Runs a line with `--json` and reads the answer.
    async fn json(&self, line: &str) -> Value {
        let ended = self.run(&format!("{line} --json")).await;
        json(line, ended.check_code(0))
    }
}

/// All of standard output as one JSON document.
#[track_caller]
fn json(line: &str, ended: &Ended) -> Value {
    let read = serde_json::from_str(&ended.stdout);
    assert!(read.is_ok(), "{line}: {ended:#?}");
    read.unwrap_or_default()
}

/// Every command but those that run until they are told to stop.
#[tokio::test]
async fn every_command_answers_programs_in_json() {
    let shell = Shell::start().await;
    for line in [
        "tenant open acme --debt-limit 50",
        "tenant get acme",
        "tenant list",
        "tenant freeze acme --reason fraud",
        "tenant unfreeze acme --reason mistaken",
        "tenant close acme --reason gone --dry-run",
        "grant acme 1000 --source-ref order-1",
        "lot list acme",
        "lot void acme l4-0-us --reason mistake --dry-run",
        "adjust acme --add 5 --reason goodwill",
        "policy get acme",
        "policy set acme --debt-limit 60",
        "budget set acme team 100 --every month --time-zone Europe/Berlin --reason plan",
        "budget get acme team",
        "budget list acme",
        "check acme 30 --budget team",
        "budget remove acme team --reason gone",
        "check acme 30",
        "balance acme",
        "entries acme --limit 2",
        "statement acme",
        "hold list acme",
        "cluster",
        "openapi",
        "completions bash",
    ] {
        shell.json(line).await;
    }
    let id = |answer: Value, field: &str| answer[field].as_str().expect("an id").to_owned();
    let hold = id(shell.json("hold create acme 30 --ttl 60").await, "hold_id");
    let other = id(shell.json("hold create acme 30").await, "hold_id");
    let charge = id(shell.json("charge create acme 30").await, "charge_id");
    for line in [
        format!("hold get acme {hold}"),
        format!("hold extend acme {other} 2999-01-01T00:00:00Z --key extend"),
        format!("hold capture acme {hold} 20 --partial"),
        format!("hold capture acme {hold} 5"),
        format!("hold refund acme {hold} 5 --reason failed"),
        format!("hold reclaim acme {hold} --reason delivered"),
        format!("hold release acme {other}"),
        format!("charge get acme {charge}"),
        format!("charge refund acme {charge} --reason failed"),
        format!("charge reclaim acme {charge} --reason delivered"),
    ] {
        // A deadline too far away is refused; a refusal is JSON too.
        let ended = shell.run(&format!("{line} --json")).await;
        ended.check_code(if line.contains("extend") { 1 } else { 0 });
        json(&line, &ended);
    }
    every_command_about_files_answers_in_json(&shell).await;
}

async fn every_command_about_files_answers_in_json(shell: &Shell) {
    let folder = shell.cluster.folder();
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("a file is written");
        path.display().to_string()
    };
    let item = r#"{"op":"authorize","tenant":"acme","amount":"1","idempotency_key":"b1"}"#;
    let batch = write("batch.json", &format!(r#"{{"items":[{item}]}}"#));
    let story = write("story.txt", "open acme key=k1\n");
    let trace = write("trace.csv", "time,estimated,actual\n2026-01-01T00:00:00Z,5,3\n");
    let (config, pages) = (shell.cluster.config_file(1), folder.join("pages"));
    for line in [
        format!("batch {batch}"),
        format!("scenario {story}"),
        format!("check-config {}", config.display()),
        format!("man {}", pages.display()),
        format!("replay {trace} --tenants 1 --lead 0"),
        "bench --concurrency 1 --spread hot --tenants 1 --seconds 1 --warm 0".to_owned(),
    ] {
        shell.json(&line).await;
    }
}

#[tokio::test]
async fn the_exit_code_says_what_happened() {
    let shell = Shell::start().await;
    let account = Account::open(&shell.cluster.api(1), "acme", 10).await;
    for (line, code) in [
        ("balance acme", 0),
        ("hold create acme 10", 0),
        ("hold create acme 11", 1),
        ("check acme 11", 1),
        ("balance nobody", 1),
        ("audit /", 1),
        ("balance", 2),
        ("balance acme --url ftp://nowhere", 2),
        ("balance acme --url http://127.0.0.1:1 --timeout 1", 3),
        ("hold create acme 1 --url http://127.0.0.1:1 --timeout 1", 3),
        ("bench --url http://127.0.0.1:1 --pids 1 --rate 0", 2),
        ("dev status --base-port 1", 3),
    ] {
        shell.run(line).await.check_code(code);
    }
    account.check_balance("G=10 H=10").await;
}

/// What the environment says about the web is not about nodes.
#[tokio::test]
async fn a_node_is_asked_directly_whatever_proxy_is_set() {
    let shell = Shell::start().await;
    Account::open(&shell.cluster.api(1), "acme", 10).await;
    let nowhere = "http://127.0.0.1:1";
    let proxies = [("http_proxy", nowhere), ("HTTP_PROXY", nowhere), ("ALL_PROXY", nowhere)];
    shell.run_with("balance acme --timeout 2", &proxies).await.check_code(0);
}

/// The first answer of a command that runs on, and how it ends when it is told to.
async fn first_answer(arguments: &[&str], folder: &Path) -> Value {
    let mut running = Running::start(arguments, &folder.join("output"));
    let answer = wait_for("it says where it is", DEADLINE, async || {
        assert_eq!(running.ended(), None, "{}", running.printed());
        // Notes and logs stand in the same file. Logs are JSON too, and have a level.
        let printed = running.printed();
        let values = serde_json::Deserializer::from_str(&printed).into_iter::<Value>();
        values.map_while(Result::ok).find(|value| value["level"].is_null())
    })
    .await;
    running.signal(Signal::TERM);
    assert_eq!(running.wait_for_end(DEADLINE).await.code(), Some(0));
    answer
}

/// At any time, also before the nodes of a development cluster have started.
#[tokio::test]
async fn what_runs_on_says_where_it_is_and_ends_when_it_is_told_to() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let base = free_dev_base().to_string();
    let data = folder.path().join("dev").display().to_string();
    let dev = ["dev", "--base-port", &base, "--data", &data, "--json"];
    let answer = first_answer(&dev, folder.path()).await;
    assert_eq!(answer["api"], format!("http://127.0.0.1:{base}"), "{answer:#}");

    let mut cluster = Cluster::start().await;
    cluster.stop_all().await;
    let config = cluster.config_file(1).display().to_string();
    let serve = ["serve", "--config", &config, "--json"];
    let answer = first_answer(&serve, cluster.folder()).await;
    assert_eq!(answer["api"], format!("http://{}", cluster.address(1)), "{answer:#}");
}

/// Nodes that were started for a measurement must not outlive it.
#[tokio::test]
async fn a_measurement_that_is_stopped_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("a folder is made");
    let (output, path) = (folder.path().join("output"), data.display().to_string());
    let bench = ["bench", "--spawn", "--shards", "1", "--tenants", "1", "--data", &path];
    let mut running = Running::start(bench, &output);
    wait_for("the nodes work", DEADLINE, async || {
        assert_eq!(running.ended(), None, "{}", running.printed());
        running.printed().contains("tenants opened").then_some(())
    })
    .await;
    running.signal(Signal::TERM);
    assert_eq!(running.wait_for_end(DEADLINE).await.code(), Some(1));
    let left = std::fs::read_dir(&data).expect("the folder is there").count();
    assert_eq!(left, 0, "the nodes have ended, and their data is gone");
}
