//! `purser verify` against a node whose disk has turned a byte.

use purser_tests::{Caller, Cluster, Ended, run};
use serde_json::Value;

use crate::audit::{files, flip, stopped_cluster, used_bytes};

/// Has the homes verified by the node that is asked.
async fn verify(cluster: &Cluster, id: usize) -> Ended {
    let url = format!("http://{}", cluster.address(id));
    let variables = [("PURSER_URL", url.as_str()), ("PURSER_TOKEN", Caller::Admin.secret())];
    run(["verify", "--json"], &variables).await
}

#[tokio::test]
async fn a_byte_that_a_disk_has_turned_is_found_by_the_node_that_has_it() {
    let mut cluster = stopped_cluster().await;
    for id in Cluster::IDS {
        cluster.start_node(id);
    }
    cluster.wait_for_all().await;
    verify(&cluster, 1).await.check_code(0);
    for file in files(&cluster.data_dir(1)) {
        if file.extension().is_some_and(|extension| extension == "history") {
            flip(&file, used_bytes(&file) / 3);
        }
    }
    let found = verify(&cluster, 1).await;
    let told: Value = serde_json::from_str(&found.check_code(1).stdout).expect("JSON");
    let first = told[0]["first_difference"].as_str().expect("a difference");
    assert!(first.contains("damaged"), "{first}");
    verify(&cluster, 2).await.check_code(0);
}
