//! Callers that meet: whatever the order, exactly one effect, and everybody is told the same.
//!
//! Each race is run for many rounds, and each round sends its calls through different nodes.

use std::collections::BTreeSet;

use purser_tests::{Account, Cluster, Figures, Reply, at_once};
use serde_json::{Value, json};

const ROUNDS: usize = 20;

/// One call of a race.
struct Call {
    through: Account,
    path: String,
    key: String,
    body: Value,
}

/// An account with credits, seen through each of the three nodes.
async fn account_through_all(cluster: &Cluster, tenant: &str, credits: u64) -> [Account; 3] {
    let account = Account::open(&cluster.api(1), tenant, credits).await;
    Cluster::IDS.map(|id| account.through(&cluster.api(id)))
}

/// Sends all calls at once.
async fn race(calls: Vec<Call>) -> Vec<Reply> {
    at_once(calls.into_iter().map(|call| async move {
        let Call { through, path, key, body } = call;
        through.api.post(&path, &key, &body).await
    }))
    .await
}

/// A call below the tenant, through the node of its place in the race.
fn call(accounts: &[Account; 3], place: usize, rest: &str, key: String, body: Value) -> Call {
    let through = accounts[place % 3].clone();
    Call { path: through.path(rest), through, key, body }
}

fn statuses(replies: &[Reply]) -> Vec<u16> {
    let mut statuses: Vec<u16> = replies.iter().map(|reply| reply.status).collect();
    statuses.sort_unstable();
    statuses
}

/// K001 and K007: one key, two bodies, six callers, three nodes.
#[tokio::test]
async fn one_key_makes_one_hold_and_another_body_under_it_is_refused() {
    let cluster = Cluster::start().await;
    let accounts = account_through_all(&cluster, "keys", 10_000).await;
    let mut held = 0;
    for round in 0..ROUNDS {
        let key = format!("round-{round}");
        let authorize = |place: usize| {
            let amount = if place.is_multiple_of(2) { 30 } else { 40 };
            call(&accounts, place + round, "holds", key.clone(), json!({ "amount": amount }))
        };
        // Once while the first is on its way, once when it is long decided.
        for time in ["first", "later"] {
            let replies = race((0..6).map(authorize).collect()).await;
            let (allowed, refused): (Vec<_>, Vec<_>) =
                replies.iter().partition(|reply| reply.status == 201);
            let holds: BTreeSet<String> =
                allowed.iter().map(|reply| reply.text("hold_id")).collect();
            assert_eq!((holds.len(), allowed.len()), (1, 3), "{time} in {key}: {replies:#?}");
            for reply in refused {
                reply.check_problem(422, "key_reused");
            }
            let replays = allowed.iter().filter(|reply| reply.replayed()).count();
            assert_eq!(replays, if time == "first" { 2 } else { 3 }, "{time} in {key}");
            if time == "first" {
                held += purser_tests::number(&allowed[0].body["amount"]);
            }
        }
    }
    assert_eq!(accounts[0].figures().await.held, held);
    let authorizes = entries_of_kind(&accounts[0], "authorize").await;
    assert_eq!(authorizes.len(), ROUNDS);
}

/// K007: the loser of a race left a hold behind that nobody could release.
#[tokio::test]
async fn a_release_after_a_race_leaves_nothing_held() {
    let cluster = Cluster::start().await;
    let accounts = account_through_all(&cluster, "owners", 100).await;
    for round in 0..ROUNDS {
        let authorize = |place: usize| {
            let key = format!("round-{round}");
            call(&accounts, place + round, "holds", key, json!({ "amount": 30 }))
        };
        let replies = race((0..2).map(authorize).collect()).await;
        assert_eq!(statuses(&replies), [201, 201]);
        let hold = replies[0].text("hold_id");
        assert_eq!(hold, replies[1].text("hold_id"));
        let release = format!("holds/{hold}/release");
        accounts[0].post(&release, &format!("release-{round}"), json!({})).await.check(200);
        accounts[round % 3].check_balance("G=100 A=100").await;
    }
}

/// K012 (b): twenty callers, one credit.
#[tokio::test]
async fn the_last_credit_is_given_to_one() {
    let cluster = Cluster::start().await;
    for round in 0..ROUNDS {
        let accounts = account_through_all(&cluster, &format!("last-{round}"), 1).await;
        let authorize = |place: usize| {
            call(&accounts, place, "holds", format!("k-{place}"), json!({ "amount": 1 }))
        };
        let replies = race((0..20).map(authorize).collect()).await;
        let (allowed, refused): (Vec<_>, Vec<_>) =
            replies.iter().partition(|reply| reply.status == 201);
        assert_eq!(allowed.len(), 1, "{replies:#?}");
        for reply in refused {
            reply.check_problem(402, "insufficient_credits");
        }
        accounts[0].check_balance("G=1 H=1").await;
    }
}

/// K020: the log's order decides, and the loser is told.
#[tokio::test]
async fn of_a_capture_and_a_release_one_wins() {
    let cluster = Cluster::start().await;
    let accounts = account_through_all(&cluster, "ends", 10_000).await;
    let mut captures = 0;
    for round in 0..ROUNDS {
        let hold = accounts[0].hold(40).await;
        let end = |place: usize, verb: &str, body: Value| {
            let key = format!("{verb}-{round}");
            call(&accounts, place + round, &format!("holds/{hold}/{verb}"), key, body)
        };
        let capture = end(0, "capture", json!({ "amount": 40 }));
        let release = end(1, "release", json!({}));
        let replies = race(vec![capture, release]).await;
        assert_eq!(statuses(&replies), [200, 409], "{replies:#?}");
        if replies[0].status == 200 {
            captures += 1;
            replies[1].check_problem(409, "already_captured");
        } else {
            replies[0].check_problem(409, "already_released");
        }
        // The worker's clean-up comes late and undoes nothing.
        let late = format!("holds/{hold}/release");
        let late = accounts[2].post(&late, &format!("late-{round}"), json!({})).await;
        let ended = if replies[0].status == 200 { "already_captured" } else { "already_released" };
        late.check_problem(409, ended);
    }
    println!("of {ROUNDS} races the capture won {captures}");
    let figures = accounts[0].figures().await;
    let expected = Figures {
        granted: 10_000,
        available: 10_000 - captures * 40,
        used: captures * 40,
        ..Figures::default()
    };
    assert_eq!(figures, expected);
}

/// K026: one purchase is one lot, by whichever service, under whichever key.
#[tokio::test]
async fn one_source_ref_makes_one_lot() {
    let cluster = Cluster::start().await;
    let accounts = account_through_all(&cluster, "buyer", 0).await;
    for round in 0..ROUNDS {
        let grant = |place: usize| {
            let through = accounts[(place + round) % 3].clone();
            // Two of the four share a key, as a delivery and its repetition do.
            let key = format!("delivery-{round}-{}", place / 2);
            let body = json!({ "amount": 500, "source_ref": format!("pay-{round}") });
            Call { path: through.admin_path("grants"), through, key, body }
        };
        let replies = race((0..4).map(grant).collect()).await;
        let lots: BTreeSet<String> = replies
            .iter()
            .map(|reply| reply.body["lot"]["lot_id"].as_str().unwrap_or("none").to_owned())
            .collect();
        assert!(replies.iter().all(|reply| reply.status < 300), "{replies:#?}");
        assert_eq!(lots.len(), 1, "{replies:#?}");
        let other = json!({ "amount": 501, "source_ref": format!("pay-{round}") });
        let other = accounts[0].admin("grants", &format!("other-{round}"), other).await;
        assert_eq!(
            other.check_problem(409, "source_ref_conflict").body["lot_id"].as_str(),
            lots.first().map(String::as_str)
        );
    }
    let granted = 500 * ROUNDS;
    accounts[0].check_balance(&format!("G={granted} A={granted}")).await;
}

/// K028: two partial refunds that do not fit together, and three full ones.
#[tokio::test]
async fn refunds_that_race_never_give_back_more_than_was_captured() {
    let cluster = Cluster::start().await;
    for round in 0..ROUNDS {
        let accounts = account_through_all(&cluster, &format!("refunds-{round}"), 100).await;
        let hold = accounts[0].captured_hold(100).await;
        let refund = |place: usize, amount: u64| {
            let path = format!("holds/{hold}/refund");
            let body = json!({ "amount": amount, "reason": "the work failed" });
            call(&accounts, place, &path, format!("refund-{amount}-{place}"), body)
        };
        let replies = race((0..2).map(|place| refund(place, 60)).collect()).await;
        assert_eq!(statuses(&replies), [200, 409], "{replies:#?}");
        let refused = replies.iter().find(|reply| reply.status == 409).expect("one is refused");
        refused.check_problem(409, "refund_exceeds_captured");
        assert_eq!(refused.body["refundable"], "40");
        accounts[1].check_balance("G=100 A=60 U=40").await;

        let replies = race((0..3).map(|place| refund(place, 40)).collect()).await;
        assert_eq!(statuses(&replies), [200, 409, 409], "{replies:#?}");
        accounts[2].check_balance("G=100 A=100").await;
    }
}

async fn entries_of_kind(account: &Account, kind: &str) -> Vec<Value> {
    let mut entries = account.entries().await;
    entries.retain(|entry| entry["kind"] == kind);
    entries
}
