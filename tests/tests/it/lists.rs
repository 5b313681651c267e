//! Lists end, pages do not shift, and statements add up.

use std::collections::BTreeSet;

use purser_tests::{Account, Cluster, Figures, check_chain, fresh_key, number};
use serde_json::{Value, json};

/// K066: what is added between two pages is on neither.
#[tokio::test]
async fn a_page_never_shows_what_came_after_the_first() {
    let cluster = Cluster::start().await;
    let account = Account::open(&cluster.api(1), "pages", 100).await;
    let other = Account::open(&cluster.api(2), "others", 100).await;
    for _ in 0..3 {
        account.hold(1).await;
        other.hold(1).await;
    }
    let first = account.get("holds?limit=2").await;
    assert_eq!(first.check(200).body["has_more"], true);
    let (cursor, late) = (first.text("next_cursor"), account.hold(1).await);
    // The next page is read at another node.
    let second = account.through(&cluster.api(3));
    let second = second.get(&format!("holds?limit=2&cursor={cursor}")).await;
    assert_eq!(second.check(200).body["has_more"], false);
    let holds = |reply: &Value| -> Vec<String> {
        let items = reply["items"].as_array().expect("items").iter();
        items.map(|item| item["hold_id"].as_str().expect("an id").to_owned()).collect()
    };
    let (first, second) = (holds(&first.body), holds(&second.body));
    assert_eq!((first.len(), second.len()), (2, 1));
    let seen: BTreeSet<&String> = first.iter().chain(&second).collect();
    assert_eq!(seen.len(), 3);
    assert!(!seen.contains(&late));
    for misused in [
        other.get(&format!("holds?limit=2&cursor={cursor}")).await,
        account.get(&format!("holds?limit=2&state=active&cursor={cursor}")).await,
    ] {
        misused.check_problem(400, "invalid_cursor");
    }
}

#[tokio::test]
async fn every_list_ends_and_shows_each_item_once() {
    let cluster = Cluster::start().await;
    let account = Account::open(&cluster.api(1), "all", 0).await;
    for credits in 1..=7 {
        account.grant(credits).await;
    }
    let mut holds = Vec::new();
    for number in 0..7 {
        let body = json!({ "amount": 1, "reference": format!("job-{}", number % 2) });
        holds.push(account.post("holds", &fresh_key(), body).await.check(201).text("hold_id"));
    }
    account.capture(&holds[0], 1).await.check(200);

    for limit in [1, 2, 3, 7, 1_000] {
        for (list, id, expected) in [
            ("entries", "sequence", 16),
            ("lots", "lot_id", 7),
            ("holds", "hold_id", 7),
            ("statement", "sequence", 16),
        ] {
            let items = account.all_pages(&format!("{list}?limit={limit}")).await;
            let ids: BTreeSet<String> = items.iter().map(|item| item[id].to_string()).collect();
            assert_eq!((items.len(), ids.len()), (expected, expected), "{list} by {limit}");
        }
        for (filter, expected) in [
            ("state=active", 6),
            ("state=captured", 1),
            ("reference=job-1", 3),
            ("state=expired", 0),
        ] {
            let items = account.all_pages(&format!("holds?{filter}&limit={limit}")).await;
            assert_eq!(items.len(), expected, "holds with {filter} by {limit}");
        }
    }
    check_chain(&account.entries().await);
    let opened = cluster.api(2).get("/admin/v1/tenants?limit=1").await;
    assert_eq!(opened.check(200).body["items"][0]["tenant"], "all");
}

#[tokio::test]
async fn statements_add_up_to_the_balance() {
    let cluster = Cluster::start().await;
    let account = Account::open(&cluster.api(1), "books", 1_000).await;
    let mut middle = String::new();
    for round in 0..6_u64 {
        let hold = account.hold(50 + round).await;
        account.capture(&hold, 40).await.check(200);
        let charged = account.post("charges", &fresh_key(), json!({ "amount": 9 })).await;
        if round.is_multiple_of(2) {
            let refund = format!("charges/{}/refund", charged.check(201).text("charge_id"));
            let reason = json!({ "reason": "the work failed" });
            account.post(&refund, &fresh_key(), reason).await.check(200);
        }
        if round == 2 {
            middle = account.get("balance").await.body["as_of"]["log_time"]
                .as_str()
                .expect("a time")
                .to_owned();
        }
    }
    account.hold(5).await;

    let whole = account.get("statement").await;
    let early = account.get(&format!("statement?to={middle}")).await;
    let late = account.get(&format!("statement?from={middle}")).await;
    let balance = account.get("balance").await;
    assert_eq!(early.body["closing"], late.body["opening"], "one ends where the next begins");
    let buckets = ["granted", "available", "held", "used", "expired", "voided", "debt"];
    for bucket in buckets {
        assert_eq!(whole.check(200).body["opening"][bucket], "0", "{bucket}");
        assert_eq!(whole.body["closing"][bucket], balance.body[bucket], "{bucket}");
        assert_eq!(late.check(200).body["closing"][bucket], balance.body[bucket], "{bucket}");
    }
    for total in ["granted", "authorized", "captured", "released", "refunded", "reclaimed"] {
        let parts = [&early, &late].map(|part| number(&part.check(200).body["totals"][total]));
        let sum = parts.iter().sum::<u64>();
        assert_eq!(sum, number(&whole.body["totals"][total]), "{total}");
        assert_eq!(sum, number(&balance.body["totals"][total]), "{total}");
    }
    let count = |reply: &purser_tests::Reply| reply.body["entry_count"].as_u64();
    assert_eq!(count(&whole), count(&early).zip(count(&late)).map(|(early, late)| early + late),);
    let entries = account.entries().await;
    assert_eq!(count(&whole), u64::try_from(entries.len()).ok());
    assert_eq!(Figures::sum_of(&entries), Figures::of(&balance.body));

    // As of any entry, the balance is the sum of the entries up to it.
    for (length, sequence) in (1..=entries.len()).zip(1_u64..) {
        let then = account.get(&format!("balance?at_sequence={sequence}")).await;
        let sum = Figures::sum_of(entries.get(..length).unwrap_or_default());
        assert_eq!(Figures::of(&then.check(200).body), sum, "at {sequence}");
    }
}
