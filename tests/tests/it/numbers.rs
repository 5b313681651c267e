//! Amounts at their ends, through the API and the command line.

use purser_tests::{Account, Caller, Cluster, fresh_key, run};
use serde_json::{Value, json};

/// K069: one more than what a floating-point number can hold.
#[tokio::test]
async fn two_to_the_53_plus_one_stays_exact() {
    const ODD: u64 = (1 << 53) + 1;
    let cluster = Cluster::start().await;
    // As text, and as a JSON number.
    for (tenant, amount) in [("text", json!("9007199254740993")), ("number", json!(ODD))] {
        let account = Account::open(&cluster.api(1), tenant, 0).await;
        let granted = account.admin("grants", &fresh_key(), json!({ "amount": amount })).await;
        assert_eq!(granted.check(201).body["lot"]["amount"], "9007199254740993");
        account.check_balance("G=9007199254740993 A=9007199254740993").await;
        let hold = account.hold(1).await;
        account.capture(&hold, 1).await.check(200);
        account.check_balance("G=9007199254740993 A=9007199254740992 U=1").await;
        let entries = account.entries().await;
        assert!(Value::from(entries).to_string().contains("\"9007199254740993\""));

        let api = cluster.api(2);
        let variables = [("PURSER_URL", api.base()), ("PURSER_TOKEN", Caller::Admin.secret())];
        let json = run(["balance", tenant, "--json"], &variables).await;
        let shown: Value = serde_json::from_str(&json.check_code(0).stdout).expect("JSON");
        assert_eq!(shown["granted"], "9007199254740993");
        assert_eq!(shown["available"], "9007199254740992");
        let table = run(["balance", tenant], &variables).await;
        let digits: String =
            table.check_code(0).stdout.chars().filter(char::is_ascii_alphanumeric).collect();
        assert!(digits.contains("9007199254740992"), "{table:#?}");
    }
}

/// K068: nothing wraps and nobody panics.
#[tokio::test]
async fn the_ends_of_a_64_bit_integer_are_answers() {
    const CALL_MAX: u64 = 1_000_000_000_000_000_000;
    let cluster = Cluster::start().await;
    let account = Account::open(&cluster.api(1), "rich", 0).await;
    for _ in 0..9 {
        account.grant(CALL_MAX).await;
    }
    let grant = |amount: &str| {
        let (account, body) = (account.clone(), json!({ "amount": amount }));
        async move { account.admin("grants", &fresh_key(), body).await }
    };
    grant("1000000000000000000").await.check_problem(409, "grant_exceeds_ceiling");
    for amount in [
        "1000000000000000001",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "99999999999999999999999999999999999999999",
    ] {
        grant(amount).await.check_problem(400, "invalid_request");
    }
    account.check_balance("G=9000000000000000000 A=9000000000000000000").await;
    // What is left up to 2^63 - 1 can be granted, and not one more.
    grant("223372036854775807").await.check(201);
    grant("1").await.check_problem(409, "grant_exceeds_ceiling");

    let hold = account.hold(CALL_MAX).await;
    let release = format!("holds/{hold}/release");
    account.post(&release, &fresh_key(), json!({})).await.check(200);
    for _ in 0..9 {
        account.captured_hold(CALL_MAX).await;
    }
    account.check_balance("G=9223372036854775807 A=223372036854775807 U=9000000000000000000").await;
    for id in Cluster::IDS {
        cluster.api(id).get("/livez").await.check(200);
    }
}

/// K071: an amount has two spellings, and they are the same.
#[tokio::test]
async fn digits_are_read_as_text_and_as_a_number() {
    let cluster = Cluster::start().await;
    let account = Account::open(&cluster.api(1), "spelling", 100).await;
    let held = account.post("holds", "k", json!({ "amount": 30 })).await;
    let again = account.post("holds", "k", json!({ "amount": "30" })).await;
    assert!(again.check(201).replayed());
    assert_eq!(again.body["hold_id"], held.body["hold_id"]);
    account.check_balance("G=100 A=70 H=30").await;
}
