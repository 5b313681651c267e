//! Expiry without a sweeper, and instants as text.

use std::time::Duration;

use jiff::{Timestamp, ToSpan};
use purser_tests::{Account, Cluster, Shape, fresh_key, wait_for};
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_secs(30);

/// K009 and K021: what has expired is gone whether or not anybody swept.
#[tokio::test]
async fn holds_and_lots_end_in_time_with_every_sweeper_off() {
    let cluster = Cluster::start_shaped(Shape { sweeper: false, ..Shape::default() }).await;
    let account = Account::open(&cluster.api(1), "abandoned", 100).await;
    for _ in 0..10 {
        let body = json!({ "amount": 10, "ttl_seconds": 1 });
        let made = account.post("holds", &fresh_key(), body).await;
        // On a slow machine the first are over before the last are made; then that is shown too.
        made.check(201);
    }
    wait_for("all holds are over", DEADLINE, async || {
        (account.figures().await.to_string() == "G=100 A=100").then_some(())
    })
    .await;
    account.hold(1).await;
    account.check_balance("G=100 A=99 H=1").await;
    let entries = account.entries().await;
    let expired = entries.iter().filter(|entry| entry["kind"] == "hold_expired");
    assert_eq!(expired.count(), 10);

    let account = Account::open(&cluster.api(2), "short", 300).await;
    let soon = Timestamp::from_second(Timestamp::now().as_second() + 3).expect("soon");
    let body = json!({ "amount": 1_000, "expires_at": soon.to_string() });
    account.admin("grants", &fresh_key(), body).await.check(201);
    wait_for("the lot is over", DEADLINE, async || {
        (account.figures().await.to_string() == "G=1300 A=300 X=1000").then_some(())
    })
    .await;
    account.authorize(500).await.check_problem(402, "insufficient_credits");
    account.authorize(300).await.check(201);
    account.check_balance("G=1300 H=300 X=1000").await;
}

/// K072 (a): an offset is part of the instant.
#[tokio::test]
async fn an_instant_is_the_same_however_its_offset_is_written() {
    let cluster = Cluster::start().await;
    let account = Account::open(&cluster.api(1), "clocks", 0).await;
    let written = [
        "2126-08-01T00:00:00+09:00",
        "2126-07-31T15:00:00Z",
        "2126-07-31t15:00:00z",
        "2126-07-31T11:00:00.000000-04:00",
    ];
    for text in written {
        let body = json!({ "amount": 1, "expires_at": text });
        let granted = account.admin("grants", "one-instant", body).await;
        assert_eq!(granted.check(201).body["lot"]["expires_at"], "2126-07-31T15:00:00Z", "{text}");
    }
    account.check_balance("G=1 A=1").await;
    let never = json!({ "amount": 1, "expires_at": null });
    let never = account.admin("grants", &fresh_key(), never).await;
    assert_eq!(never.check(201).body["lot"]["expires_at"], Value::Null);

    let day = Timestamp::now() + 24.hours();
    let hold = account.hold(1).await;
    let until = format!("{}", Timestamp::from_second(day.as_second()).expect("a day ahead"));
    let extended = json!({ "until": until });
    let extended = account.post(&format!("holds/{hold}/extend"), &fresh_key(), extended).await;
    assert_eq!(extended.check(200).body["expires_at"], until);
}
