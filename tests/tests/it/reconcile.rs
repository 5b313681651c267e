//! `purser reconcile`: what was charged, held against what the business says.

use std::path::PathBuf;

use purser_tests::{Account, Caller, Cluster, Ended, fresh_key, run};
use serde_json::{Value, json};

struct Desk {
    cluster: Cluster,
    account: Account,
}

impl Desk {
    async fn start() -> Self {
        let cluster = Cluster::start().await;
        let account = Account::open(&cluster.api(1), "acme", 1_000).await;
        Self { cluster, account }
    }

    /// A job that is charged at once, and how its attempt ended.
    async fn job(&self, name: &str, outcome: &str) {
        let job = json!({ "job_id": name, "amount": 30, "mode": "charge" });
        self.account.post("jobs", &fresh_key(), job).await.check(201);
        let told = json!({ "outcome": outcome, "retryable": false });
        let path = format!("jobs/{name}/outcome");
        self.account.post(&path, &fresh_key(), told).await.check(200);
    }

    fn file(&self, text: &str) -> PathBuf {
        let file = self.cluster.folder().join("outcomes.csv");
        std::fs::write(&file, text).expect("a file is written");
        file
    }

    async fn reconcile(&self, file: &std::path::Path, more: &[&str]) -> Ended {
        let url = format!("http://{}", self.cluster.address(3));
        let variables = [("PURSER_URL", url.as_str()), ("PURSER_TOKEN", Caller::Admin.secret())];
        let file = file.display().to_string();
        run([&["reconcile", file.as_str(), "--json"], more].concat(), &variables).await
    }
}

#[track_caller]
fn report(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).expect("JSON")
}

/// Listed with sums, bad lines by their numbers; nothing changes without `--repair`; a repair is entries like
/// any other, and a repeat finds nothing to do.
#[tokio::test]
async fn differences_are_listed_and_then_repaired_once() {
    let desk = Desk::start().await;
    desk.job("delivered", "succeeded").await;
    desk.job("refunded", "failed").await;
    desk.job("free", "succeeded").await;
    desk.job("dearer", "succeeded").await;
    desk.job("unlisted", "succeeded").await;
    desk.account.check_balance("G=1000 A=880 U=120").await;
    let file = desk.file(
        "tenant,job_id,cost\n\
         acme,delivered,30\n\
         acme,refunded,30\n\
         acme,nonsense\n\
         acme,free,0\n\
         acme,dearer,45\n\
         acme,never-seen,7\n",
    );
    let shown = desk.reconcile(&file, &[]).await;
    let told = report(shown.check_code(1));
    assert_eq!((&told["outcomes"], &told["agreeing"]), (&json!(5), &json!(1)), "{told:#}");
    assert_eq!(told["overcharged"], "30");
    assert_eq!(told["undercharged"], "52");
    assert_eq!((&told["unlisted_count"], &told["unlisted"]), (&json!(1), &json!("30")));
    let bad = told["bad_lines"].as_array().unwrap();
    assert!(bad.len() == 1 && bad[0].as_str().unwrap().starts_with("line 4:"), "{told:#}");
    let remedies: Vec<_> = told["differences"].as_array().unwrap().iter().collect();
    let remedies: Vec<(&Value, &Value)> =
        remedies.iter().map(|one| (&one["job_id"], &one["remedy"])).collect();
    let expected = [
        (&json!("dearer"), &json!("outcome")),
        (&json!("free"), &json!("refund")),
        (&json!("never-seen"), &json!("charge")),
        (&json!("refunded"), &json!("outcome")),
    ];
    assert_eq!(remedies, expected);
    desk.account.check_balance("G=1000 A=880 U=120").await;

    // The bad line is a reason to look, and loses nothing.
    let repaired = desk.reconcile(&file, &["--repair"]).await;
    let told = report(repaired.check_code(1));
    let done = |one: &Value| one["done"] == true && one["refusal"].is_null();
    assert!(told["differences"].as_array().unwrap().iter().all(done), "{told:#}");
    desk.account.check_balance("G=1000 A=858 U=142").await;

    let file = desk.file(
        "tenant,job_id,cost\nacme,delivered,30\nacme,refunded,30\nacme,free,0\n\
         acme,dearer,45\nacme,never-seen,7\n",
    );
    for more in [&["--repair"][..], &[]] {
        let again = desk.reconcile(&file, more).await;
        assert_eq!(report(again.check_code(0))["agreeing"], 5);
    }
    desk.account.check_balance("G=1000 A=858 U=142").await;
    let complete = desk.reconcile(&file, &["--complete", "--repair"]).await;
    assert_eq!(report(complete.check_code(0))["overcharged"], "30");
    desk.account.check_balance("G=1000 A=888 U=112").await;
}
