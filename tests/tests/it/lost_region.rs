//! A region that is lost while tenants are at home there, as an operator meets it: `purser dev` with a
//! region killed, `purser region failover`, and the region started again.

use std::time::Duration;

use purser_tests::{Account, Api, Dev, Figures, Reply, fresh_key, run, wait_for};
use serde_json::{Value, json};

/// How long an election, a fail-over or what follows may take.
const DEADLINE: Duration = Duration::from_secs(60);
/// What the tenant is granted.
const CREDITS: u64 = 100_000;
/// X: what home may answer before its standby has it.
const UNACKNOWLEDGED_MAX: u64 = 500;
/// Four of them stay within X, also if the standby lacks all that was charged before.
const WITHIN: u64 = 80;
/// The demo tenants whose home is `us`, and the one of this test.
const HOMES_IN_US: u64 = 3;

/// A command of an operator, asked of one node.
async fn command(api: &Api, arguments: &[&str]) -> purser_tests::Ended {
    let connection = ["--url", api.base(), "--timeout", "60"];
    run([arguments, &connection].concat(), &[]).await
}

async fn command_json(api: &Api, arguments: &[&str]) -> Value {
    let ended = command(api, &[arguments, &["--json"]].concat()).await;
    serde_json::from_str(&ended.check_code(0).stdout).expect("JSON")
}

fn decided_by(reply: &Reply) -> &str {
    reply.header("purser-decided-by").unwrap_or_default()
}

async fn charge(account: &Account, key: &str, amount: u64) -> Reply {
    account.post("charges", key, json!({ "amount": amount })).await
}

/// Charges one credit after another until the region that is asked decides by itself; gives what was
/// spent.
async fn make_local(account: &Account) -> u64 {
    let mut spent = 0;
    wait_for("the region has an allocation", DEADLINE, async || {
        let reply = charge(account, &fresh_key(), 1).await;
        spent += 1;
        decided_by(reply.check(201)).ends_with("role=allocation").then_some(())
    })
    .await;
    spent
}

/// Waits until Placement shows the tenant as wished, as `purser tenant home` tells.
async fn wait_until_placed(account: &Account, what: &str, is_it: impl Fn(&Value) -> bool) {
    wait_for(what, DEADLINE, async || {
        let placed = command_json(&account.api, &["tenant", "home", &account.tenant]).await;
        is_it(&placed).then_some(())
    })
    .await;
}

/// Waits until all regions show so much used, and the same balance to the last credit.
async fn check_adds_up(regions: &[Account], used: u64) {
    for account in regions {
        let what = format!("{} shows {used} used", account.api.base());
        let figures = wait_for(what, DEADLINE, async || {
            let reply = account.api.try_get(&account.path("balance")).await.ok()?;
            let figures = (reply.status == 200).then(|| Figures::of(&reply.body))?;
            (figures.used == used && figures.held == 0).then_some(figures)
        })
        .await;
        assert_eq!((figures.granted, figures.debt), (CREDITS, 0), "{figures}");
    }
}

async fn allow_unacknowledged(account: &Account) {
    let policy = json!({ "unacknowledged_max": UNACKNOWLEDGED_MAX.to_string() });
    account.admin("policy", &fresh_key(), policy).await.check(200);
}

/// Placement may have lost its leader with a region, and then it takes some seconds until it has another.
async fn wait_until_placement_answers(node: &Api) {
    wait_for("Placement answers", DEADLINE, async || {
        let ended = command(node, &["region", "failover", "us", "--dry-run"]).await;
        (ended.code == Some(0)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_lost_home_region_is_taken_over_by_one_command_and_every_credit_is_found_again() {
    let dev = Dev::start(&["--traffic", "off", "--wan", "none"]);
    dev.wait_until_ready().await;
    let [us, eu, ap] = [10, 20, 30].map(|distance| dev.node(distance));
    let at_us = Account::open(&us, "lost", CREDITS).await;
    let (at_eu, at_ap) = (at_us.through(&eu), at_us.through(&ap));
    allow_unacknowledged(&at_us).await;

    // Spent in three regions, with all of it at the standby.
    let mut used = make_local(&at_eu).await + make_local(&at_ap).await;
    for number in 0..10 {
        charge(&at_us, &format!("us-{number}"), 10).await.check(201);
        used += 10;
    }
    at_us.captured_hold(7).await;
    used += 7;
    wait_for("the standby can take all homes over", DEADLINE, async || {
        let seen = command_json(&ap, &["region", "failover", "us", "--dry-run"]).await;
        (seen["taken_over"] == HOMES_IN_US && seen["left"] == 0).then_some(())
    })
    .await;

    // What home answers from here on stays within X, and its standby never hears of it.
    dev.control(&["cut", "us"]).await.check_code(0);
    for number in 0..4 {
        let reply = charge(&at_us, &format!("within-{number}"), WITHIN).await;
        assert_eq!(decided_by(reply.check(201)), "region=us, role=home");
        used += WITHIN;
    }
    dev.control(&["kill", "us/1"]).await.check_code(0);
    for account in [&at_eu, &at_ap] {
        let reply = charge(account, &fresh_key(), 1).await;
        assert!(decided_by(reply.check(201)).ends_with("role=allocation"), "{reply:#?}");
        used += 1;
    }

    wait_until_placement_answers(&ap).await;
    // Nobody is there to be asked, so nothing happens.
    command(&ap, &["region", "failover", "us"]).await.check_code(2);
    let done = command_json(&ap, &["region", "failover", "us", "--yes"]).await;
    assert_eq!(
        (&done["to"], &done["taken_over"], &done["left"]),
        (&json!("eu"), &json!(HOMES_IN_US), &json!(0))
    );
    let strict = json!({ "amount": 5, "consistency": "strict" });
    let reply = wait_for("the standby decides", DEADLINE, async || {
        let reply = at_ap.api.try_post(&at_ap.path("charges"), "strict", &strict).await.ok()?;
        (reply.status < 500).then_some(reply)
    })
    .await;
    assert_eq!(decided_by(reply.check(201)), "region=eu, role=home");
    used += 5;
    // One that home had answered is repeated before home is back: it happens here, and once.
    charge(&at_eu, "within-2", WITHIN).await.check(201);
    let tails = command_json(&eu, &["tenant", "tails", "lost"]).await;
    assert_eq!(tails["tails"][0]["region"], "us", "{tails:#}");
    assert_eq!(tails["tails"][0]["set_aside"], UNACKNOWLEDGED_MAX.to_string(), "{tails:#}");

    dev.control(&["heal", "us"]).await.check_code(0);
    dev.control(&["start", "us/1"]).await.check_code(0);
    wait_until_placed(&at_eu, "the tail is booked", |placed| {
        placed["home"] == "eu" && placed["state"] == "settled"
    })
    .await;
    check_adds_up(&[at_eu.clone(), at_ap, at_us], used).await;
    let tails = command_json(&eu, &["tenant", "tails", "lost"]).await;
    assert_eq!(tails, json!({ "tails": [] }));
    assert!(charge(&at_eu, "within-0", WITHIN).await.check(201).replayed());
    // The history of both homes is one, and has each call once.
    let entries = at_eu.entries().await;
    assert_eq!(entries.iter().filter(|entry| entry["kind"] == "home_moved").count(), 1);
    for number in 0..4 {
        let key = format!("within-{number}");
        let charges = entries.iter().filter(|entry| entry["idempotency_key"] == key);
        assert_eq!(charges.count(), 1, "{key}");
    }
    let overspend = command_json(&eu, &["overspend"]).await;
    assert_eq!(overspend["unknown_regions"], json!([]), "{overspend:#}");
    assert_eq!(overspend["bound"], "0", "{overspend:#}");
    dev.stop().await;
}
