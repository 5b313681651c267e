//! Nodes killed under load: nothing acknowledged is lost, nothing happens twice, service comes back.
//!
//! Sixteen clients spend from four accounts and repeat every call under its key until it is
//! decided. Afterwards their records are compared with the entries.

use std::time::{Duration, Instant};

use purser_tests::{Account, Api, Cluster, Load, fresh_key, wait_for};
use serde_json::json;

const CLIENTS: usize = 16;
/// Calls that are acknowledged before, between and after faults.
const SOME_CALLS: u64 = 300;
/// How long the service may be away. The figure itself is printed.
const BACK_DEADLINE: Duration = Duration::from_secs(10);

async fn accounts(cluster: &Cluster) -> Vec<Account> {
    let mut accounts = Vec::new();
    for tenant in ["north", "east", "south", "west"] {
        accounts.push(Account::open(&cluster.api(1), tenant, 100_000_000).await);
    }
    accounts
}

/// Waits until every account can be spent from through one of `nodes`, and says how long it took.
async fn print_time_back(what: &str, nodes: &[Api], accounts: &[Account]) {
    let start = Instant::now();
    for account in accounts {
        let key = fresh_key();
        wait_for(format!("{} can be spent from", account.tenant), BACK_DEADLINE, async || {
            for node in nodes {
                let path = account.path("charges");
                let reply = node.try_post(&path, &key, &json!({ "amount": 1 })).await;
                if reply.is_ok_and(|reply| reply.status == 201) {
                    return Some(());
                }
            }
            None
        })
        .await;
    }
    println!("{what}: service was back after {} ms", start.elapsed().as_millis());
}

/// Lets the load end and compares what the clients know with what each node tells.
async fn finish(what: &str, cluster: &Cluster, load: Load, accounts: &[Account]) {
    load.wait_for_calls(SOME_CALLS).await;
    let record = load.finish().await;
    println!("{what}: {record}");
    for id in Cluster::IDS {
        let api = cluster.api(id);
        let seen: Vec<Account> = accounts.iter().map(|account| account.through(&api)).collect();
        record.check_against(&seen).await;
    }
}

/// Kills one node under load, waits for the service, and lets the node come back.
async fn kill_one(what: &str, choose: fn(usize) -> usize) {
    let mut cluster = Cluster::start().await;
    let accounts = accounts(&cluster).await;
    let load = Load::start(CLIENTS, &cluster.apis(), &accounts);
    load.wait_for_calls(SOME_CALLS).await;

    let victim = choose(cluster.leader_of(&accounts[0].tenant).await);
    cluster.kill(victim);
    let others: Vec<usize> = Cluster::IDS.into_iter().filter(|id| *id != victim).collect();
    let others: Vec<Api> = others.into_iter().map(|id| cluster.api(id)).collect();
    print_time_back(what, &others, &accounts).await;
    load.wait_for_calls(SOME_CALLS).await;

    cluster.start_node(victim);
    cluster.wait_for_node(victim).await;
    finish(what, &cluster, load, &accounts).await;
}

#[tokio::test]
async fn a_killed_leader_loses_and_doubles_nothing() {
    kill_one("leader killed", |leader| leader).await;
}

#[tokio::test]
async fn a_killed_follower_loses_and_doubles_nothing() {
    kill_one("follower killed", |leader| leader % 3 + 1).await;
}

#[tokio::test]
async fn three_nodes_killed_at_once_lose_and_double_nothing() {
    let mut cluster = Cluster::start().await;
    let accounts = accounts(&cluster).await;
    let load = Load::start(CLIENTS, &cluster.apis(), &accounts);
    load.wait_for_calls(SOME_CALLS).await;
    for id in Cluster::IDS {
        cluster.kill(id);
    }
    for id in Cluster::IDS {
        cluster.start_node(id);
    }
    print_time_back("all killed and started", &cluster.apis(), &accounts).await;
    cluster.wait_for_all().await;
    finish("all killed and started", &cluster, load, &accounts).await;
}
