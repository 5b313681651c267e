//! A node that is asked to stop: it finishes what it has begun, and ends well.

use purser_tests::{Account, Cluster, Load};

/// As in a rolling restart: one node after the other, under load.
#[tokio::test]
async fn nodes_restarted_in_turn_lose_no_call_and_end_well() {
    let mut cluster = Cluster::start().await;
    let mut accounts = Vec::new();
    for tenant in ["north", "south"] {
        accounts.push(Account::open(&cluster.api(1), tenant, 100_000_000).await);
    }
    let load = Load::start(8, &cluster.apis(), &accounts);
    for id in Cluster::IDS {
        load.wait_for_calls(100).await;
        let status = cluster.stop(id).await;
        assert_eq!(status.code(), Some(0), "{}", cluster.printed(id));
        load.wait_for_calls(100).await;
        cluster.start_node(id);
        cluster.wait_for_node(id).await;
    }
    let record = load.finish().await;
    println!("rolling restart: {record}");
    record.check_against(&accounts).await;
    cluster.stop_all().await;
}
