//! The read model of real nodes in a real database: verified, built again, and late when it was away.

use std::time::Duration;

use purser_tests::{Account, Caller, Cluster, Ended, Postgres, Shape, fresh_key, run, wait_for};
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_secs(60);

/// Three nodes whose homes are kept in a database, and an account with 20 charges of 3 credits.
struct Kept {
    postgres: Postgres,
    cluster: Cluster,
    account: Account,
    _address: tempfile::NamedTempFile,
}

impl Kept {
    async fn start() -> Self {
        let postgres = Postgres::start();
        let address = tempfile::NamedTempFile::new().expect("a file is made");
        std::fs::write(address.path(), postgres.address()).expect("a file is written");
        let section = format!("[postgres]\naddress-file = {:?}\n", address.path());
        let shape = Shape { shards: 2, ..Shape::default() };
        let cluster = Cluster::start_with(shape, &section).await;
        let account = Account::open(&cluster.api(1), "acme", 1_000).await;
        let kept = Self { postgres, cluster, account, _address: address };
        kept.charge(20).await;
        kept.wait_for_entries(22).await;
        kept
    }

    async fn charge(&self, times: u32) {
        for _ in 0..times {
            let reply = self.account.post("charges", &fresh_key(), json!({ "amount": 3 })).await;
            reply.check(201);
        }
    }

    /// Waits until so many events were published, and so the entries are in the tables.
    async fn wait_for_entries(&self, entries: u32) {
        wait_for("the entries are in the tables", DEADLINE, async || {
            // The tables are made when a node has reached the database.
            let made = self.postgres.ask("SELECT to_regclass('purser.outbox') IS NOT NULL");
            let count = "SELECT count(*) FROM purser.outbox";
            (made == "t" && self.postgres.ask(count) == entries.to_string()).then_some(())
        })
        .await;
    }

    fn published(&self) -> String {
        self.postgres.ask(
            "SELECT shard, position, tenant, epoch, sequence, ordinal FROM purser.outbox
             ORDER BY shard, position",
        )
    }

    async fn verify(&self, more: &[&str]) -> Ended {
        let url = format!("http://{}", self.cluster.address(2));
        let variables = [("PURSER_URL", url.as_str()), ("PURSER_TOKEN", Caller::Admin.secret())];
        run([&["verify", "--json"], more].concat(), &variables).await
    }
}

#[track_caller]
fn answer(ended: &Ended) -> Value {
    let answers: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    answers[0].clone()
}

/// K064 in whole processes: a row removed, a row altered, a row doubled. Verification names the first
/// difference and the amounts, a rebuild mends it, and nothing is published again.
#[tokio::test]
async fn k064_harm_to_the_tables_is_named_and_mended_and_nothing_is_published_again() {
    let kept = Kept::start().await;
    let sound = kept.verify(&[]).await;
    let checks = answer(sound.check_code(0))["checks"].clone();
    let compared = |subject: &str| {
        let all = checks.as_array().unwrap().iter();
        let of_subject = all.filter(|check| check["subject"] == subject);
        of_subject.map(|check| check["compared"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(compared("ledger"), 22, "{checks:#}");
    assert_eq!(compared("replicas"), 4, "two shards, two other replicas of each: {checks:#}");
    assert!(compared("read_model") > 60, "{checks:#}");
    let events = kept.published();
    for (harm, first, credits) in [
        (
            "DELETE FROM purser.entries WHERE sequence = 7",
            "entries acme/credits/7: missing (3 credits)",
            "3",
        ),
        (
            "UPDATE purser.lots SET free = free - 5, used = used + 5",
            "lots acme/credits/2: free is 935, expected 940, used is 65, expected 60 (10 credits)",
            "10",
        ),
        (
            "ALTER TABLE purser.entries DROP CONSTRAINT entries_are_numbered_once;
             INSERT INTO purser.entries SELECT * FROM purser.entries WHERE sequence = 9",
            "entries acme/credits/9: doubled (3 credits)",
            "3",
        ),
    ] {
        kept.postgres.ask(harm);
        let found = kept.verify(&[]).await;
        assert!(found.stderr.contains(first), "{harm}: {found:#?}");
        let told = answer(found.check_code(1));
        assert_eq!(told["first_difference"], first);
        assert_eq!((&told["differences_count"], &told["credits"]), (&json!(1), &json!(credits)));
        kept.verify(&["--rebuild-read-model"]).await.check_code(0);
        assert_eq!(kept.published(), events, "after {harm}");
    }
    // The projectors go on with what was built again.
    kept.charge(1).await;
    kept.wait_for_entries(23).await;
    kept.verify(&[]).await.check_code(0);
}

/// The service goes on without its database, says that it cannot compare, and makes up for it.
#[tokio::test]
async fn a_database_that_is_away_only_delays_the_tables() {
    let mut kept = Kept::start().await;
    kept.postgres.stop();
    kept.charge(10).await;
    kept.account.check_balance("G=1000 A=910 U=90").await;
    let away = kept.verify(&[]).await;
    let told = answer(away.check_code(3));
    assert_eq!((&told["outcome"], &told["differences_count"]), (&json!("incomplete"), &json!(0)));
    kept.postgres.start_again();
    kept.wait_for_entries(32).await;
    kept.verify(&[]).await.check_code(0);
    let query = "SELECT available, used FROM purser.balances WHERE tenant = 'acme'";
    assert_eq!(kept.postgres.ask(query), "910|90");
}
