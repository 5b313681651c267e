//! Nodes that lost touch: frozen, alone, or just started. None shows an old balance as current.
//!
//! A frozen process (SIGSTOP) is a node whose network and clock stand still and come back: requests
//! wait in its sockets and are answered by a node that still believes what it believed before.

use std::time::Duration;

use purser_tests::{Account, Caller, Cluster, Figures, Reply, at_once, request_bytes, wait_for};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// How long an election and what follows may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// Charges under one key through the first of `through` that decides, for as long as it takes.
async fn charge_through(through: &[Account], key: &str, amount: u64) -> Reply {
    wait_for(format!("a charge of {amount} is decided"), DEADLINE, async || {
        for account in through {
            let path = account.path("charges");
            let reply = account.api.try_post(&path, key, &json!({ "amount": amount })).await;
            if let Ok(reply) = reply
                && reply.status < 500
            {
                return Some(reply);
            }
        }
        None
    })
    .await
}

/// K046 (a): the call was done, and its caller never heard of it.
#[tokio::test]
async fn an_answer_that_was_lost_is_given_by_the_next_leader() {
    let mut cluster = Cluster::start().await;
    let account = Account::open(&cluster.api(1), "lost", 100).await;
    let leader = cluster.leader_of("lost").await;
    let next = leader % 3 + 1;
    let seen = account.through(&cluster.api(next));

    let token = format!("Bearer {}", Caller::Spend.secret());
    let headers: [(&str, &[u8]); 3] = [
        ("authorization", token.as_bytes()),
        ("content-type", b"application/json"),
        ("idempotency-key", b"k1"),
    ];
    let body = br#"{"amount":30}"#;
    let bytes = request_bytes(&format!("POST {}", account.path("holds")), &headers, body);
    let mut unread = TcpStream::connect(cluster.address(leader)).await.expect("it listens");
    unread.write_all(&bytes).await.expect("it takes the request");
    wait_for("the hold is there", DEADLINE, async || {
        (seen.figures().await.held == 30).then_some(())
    })
    .await;
    cluster.kill(leader);
    drop(unread);

    let again = wait_for("another node decides", DEADLINE, async || {
        let path = seen.path("holds");
        let reply = seen.api.try_post(&path, "k1", &json!({ "amount": 30 })).await.ok()?;
        (reply.status < 500).then_some(reply)
    })
    .await;
    assert!(again.check(201).replayed(), "{again:#?}");
    seen.check_balance("G=100 A=70 H=30").await;
    // Whoever gives up on a key and takes another has asked twice, and is told so by the balance.
    let body = json!({ "amount": 30, "ttl_seconds": 60 });
    seen.post("holds", "k2", body).await.check(201);
    seen.check_balance("G=100 A=40 H=60").await;
}

/// K049: a leader that was replaced while it was frozen.
#[tokio::test]
async fn a_deposed_leader_neither_shows_nor_spends_what_is_gone() {
    let cluster = Cluster::start().await;
    let account = Account::open(&cluster.api(1), "deposed", 100).await;
    let old = cluster.leader_of("deposed").await;
    let others: Vec<Account> = Cluster::IDS
        .into_iter()
        .filter(|id| *id != old)
        .map(|id| account.through(&cluster.api(id)))
        .collect();
    let frozen = account.through(&cluster.api(old));
    frozen.check_balance("G=100 A=100").await;

    cluster.pause(old);
    // These wait in the sockets of the frozen leader while the others go on without it.
    let ask = |place: usize| {
        let (api, frozen) = (frozen.api.reconnected(), frozen.clone());
        async move {
            if place == 0 {
                api.try_post(&frozen.path("holds"), "late", &json!({ "amount": 50 })).await
            } else {
                api.try_get(&frozen.path("balance")).await
            }
        }
    };
    let mut waiting = JoinSet::new();
    waiting.spawn(at_once((0..9).map(ask).collect::<Vec<_>>()));
    charge_through(&others, "eighty", 80).await.check(201);
    cluster.resume(old);

    let mut answers = waiting.join_all().await.remove(0);
    let spend = answers.remove(0);
    for read in answers.into_iter().flatten() {
        if read.status == 200 {
            let figures = Figures::of(&read.body).to_string();
            assert_eq!(figures, "G=100 A=20 U=80", "an old balance was shown as current");
        } else {
            assert!([503, 504].contains(&read.status), "{read:#?}");
        }
    }
    if let Ok(spend) = spend {
        assert!([402, 503, 504].contains(&spend.status), "spent what is gone: {spend:#?}");
    }
    // What it could not decide is decided now, at any node.
    let spend = wait_for("the late call is decided", DEADLINE, async || {
        let path = frozen.path("holds");
        let reply = frozen.api.try_post(&path, "late", &json!({ "amount": 50 })).await.ok()?;
        (reply.status < 500).then_some(reply)
    })
    .await;
    spend.check_problem(402, "insufficient_credits");
    for account in others.iter().chain([&frozen]) {
        account.check_balance("G=100 A=20 U=80").await;
    }
}

/// K004 (a) and K049: nothing is decided without a majority, and what was not is not remembered.
#[tokio::test]
async fn a_node_alone_decides_nothing_until_the_others_are_back() {
    let mut cluster = Cluster::start().await;
    let account = Account::open(&cluster.api(1), "alone", 100).await;
    let last = cluster.leader_of("alone").await;
    let others: Vec<usize> = Cluster::IDS.into_iter().filter(|id| *id != last).collect();
    let alone = account.through(&cluster.api(last));

    for id in &others {
        cluster.pause(*id);
    }
    check_undecided(&alone, "paused").await;
    for id in &others {
        cluster.resume(*id);
    }
    check_decided_once(&alone, "paused", "G=100 A=70 H=30").await;

    for id in &others {
        cluster.kill(*id);
    }
    check_undecided(&alone, "killed").await;
    for id in &others {
        cluster.start_node(*id);
    }
    check_decided_once(&alone, "killed", "G=100 A=40 H=60").await;
}

/// Strict reads and spends are not decided; a read that may be old says that it is.
async fn check_undecided(alone: &Account, key: &str) {
    let read = alone.get("balance").await;
    assert_eq!(read.status, 503, "{read:#?}");
    assert_eq!(read.body["outcome"], "nothing_happened");
    let spend = alone.post("holds", key, json!({ "amount": 30 })).await;
    // A leader that took the call into its log cannot promise that nothing will come of it.
    let outcome = if spend.status == 503 { "nothing_happened" } else { "unknown" };
    assert!([503, 504].contains(&spend.status), "{spend:#?}");
    assert_eq!(spend.body["outcome"], outcome, "{spend:#?}");
    let stale = alone.get("balance?consistency=stale").await;
    assert!(stale.check(200).header("purser-age-ms").is_some(), "{stale:#?}");
    assert!(stale.body["age_ms"].as_u64().is_some_and(|age| age > 0), "{stale:#?}");
}

async fn check_decided_once(account: &Account, key: &str, balance: &str) {
    let decided = wait_for("the call is decided", DEADLINE, async || {
        let path = account.path("holds");
        let reply = account.api.try_post(&path, key, &json!({ "amount": 30 })).await.ok()?;
        (reply.status < 500).then_some(reply)
    })
    .await;
    decided.check(201);
    account.check_balance(balance).await;
}

/// K048 (c): a node that was just started has not read its log to the end yet.
#[tokio::test]
async fn a_restarted_node_never_shows_what_it_has_forgotten() {
    let mut cluster = Cluster::start().await;
    let account = Account::open(&cluster.api(1), "restarted", 1_000).await;
    for (round, victim) in (1..).zip(Cluster::IDS) {
        cluster.kill(victim);
        let others: Vec<Account> = Cluster::IDS
            .into_iter()
            .filter(|id| *id != victim)
            .map(|id| account.through(&cluster.api(id)))
            .collect();
        charge_through(&others, &format!("charge-{round}"), 10).await.check(201);
        let current = format!("G=1000 A={} U={}", 1_000 - 10 * round, 10 * round);

        cluster.start_node(victim);
        let restarted = account.through(&cluster.api(victim));
        let first = wait_for("the node answers", DEADLINE, async || {
            let reply = restarted.api.try_get(&restarted.path("balance")).await.ok()?;
            if reply.status != 200 {
                assert!([503, 504].contains(&reply.status), "{reply:#?}");
                return None;
            }
            Some(Figures::of(&reply.body).to_string())
        })
        .await;
        assert_eq!(first, current, "node {victim} showed an old balance");
        cluster.wait_for_node(victim).await;
    }
}
