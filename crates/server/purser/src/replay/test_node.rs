//! A whole node in a test's own process, on ports that the system gives.

use std::fs;
use std::time::Duration;

use purser_node::{Listeners, Node, NodeConfig, Surroundings};
use tempfile::TempDir;

use super::connection::Address;

/// The token that may do everything.
pub(crate) const TOKEN: &str = "test";

/// A node that is the only one of its cluster.
pub(crate) struct TestNode {
    node: Node,
    /// Kept as long as the node.
    _dir: TempDir,
}

impl TestNode {
    /// Starts a node, and waits until it decides.
    pub(crate) async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (data, token_file) = (dir.path().join("data"), dir.path().join("token"));
        fs::write(&token_file, TOKEN).unwrap();
        let config = format!(
            "node = 1\ncluster = \"test\"\nregion = \"us\"\nshards = 2\ndata-dir = {data:?}\n\
             listen = \"127.0.0.1:0\"\npeer-listen = \"127.0.0.1:0\"\n\
             [storage]\nprofile = \"small\"\n\
             [[token]]\nname = \"test\"\ntoken-file = {token_file:?}\n\
             scopes = [\"spend\", \"read\", \"admin\"]\n"
        );
        let settings = NodeConfig::parse(&config).unwrap().validate().unwrap();
        let listeners = Listeners::bind(&settings).await.unwrap();
        let node = Node::start(settings, listeners, Surroundings::real()).await.unwrap();
        node.ready().await;
        Self { node, _dir: dir }
    }

    /// Where its API is.
    pub(crate) fn address(&self) -> Address {
        Address::of(self.node.addresses().api)
    }

    /// Ends the node.
    pub(crate) async fn end(self) {
        self.node.shutdown(Duration::from_secs(10)).await;
    }
}
