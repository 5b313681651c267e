//! Three nodes of this program, in processes of their own, for the time of a measurement.
//!
//! They are what `purser serve` runs, with real files and real syncs, and are ended by their ids
//! when the cluster is dropped. Their logs lie beside their data, and a node that does not start is
//! reported with the end of its log.

use std::fmt::Write;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::HeaderValue;
use hyper::{Method, StatusCode};
use purser_api::paths;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::replay::connection::{Address, Connection, ConnectionError};

/// The fewest nodes of which one may fail.
const NODES: u16 = 3;
/// How long the nodes may take until all are ready.
const START_MAX: Duration = Duration::from_secs(60);
/// How often they are asked whether they are.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// The token that may do everything.
const TOKEN: &str = "bench";

/// Why the nodes did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClusterError {
    /// The system refused a folder, a port or a process.
    #[error("{what}")]
    System {
        /// What was wanted.
        what: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A node ended by itself, or was not ready in time.
    #[error("node {node} {how}; its log ends with:\n{log}")]
    Node {
        /// Which.
        node: u16,
        /// What it did.
        how: &'static str,
        /// The end of its log.
        log: String,
    },
}

/// One node.
#[derive(Debug)]
struct SpawnedNode {
    number: u16,
    process: Child,
    address: Address,
    log: PathBuf,
}

/// The nodes. Ended when dropped.
#[derive(Debug)]
pub(crate) struct SpawnedCluster {
    nodes: Vec<SpawnedNode>,
    /// Removed after the nodes have ended: the nodes are dropped first.
    dir: TempDir,
}

/// Where one node listens.
#[derive(Debug, Clone, Copy)]
struct Ports {
    api: SocketAddr,
    peer: SocketAddr,
}

impl SpawnedCluster {
    /// Starts the nodes with data below `parent`, and waits until all are ready.
    pub(crate) async fn start(parent: Option<&Path>, shards: u16) -> Result<Self, ClusterError> {
        let system = |what| move |source| ClusterError::System { what, source };
        let mut builder = tempfile::Builder::new();
        builder.prefix("purser-bench-");
        let dir = match parent {
            Some(parent) => builder.tempdir_in(parent),
            None => builder.tempdir(),
        };
        let dir = dir.map_err(system("no folder could be made"))?;
        let token_file = dir.path().join("token");
        fs::write(&token_file, TOKEN).map_err(system("the token's file could not be written"))?;
        let ports = free_ports().map_err(system("no ports are free"))?;
        let mut cluster = Self { nodes: Vec::new(), dir };
        for number in 1..=NODES {
            let config = config(number, shards, &ports, cluster.dir.path());
            let node = spawn(number, &config, &ports, cluster.dir.path())
                .map_err(system("a node's process could not be started"))?;
            cluster.nodes.push(node);
        }
        cluster.wait_until_ready().await?;
        Ok(cluster)
    }

    /// Where the nodes serve the API.
    pub(crate) fn addresses(&self) -> Vec<Address> {
        self.nodes.iter().map(|node| node.address.clone()).collect()
    }

    /// A token that may do everything.
    pub(crate) const fn token(&self) -> &'static str {
        TOKEN
    }

    /// The nodes' processes.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.nodes.iter().map(|node| node.process.id()).collect()
    }

    async fn wait_until_ready(&mut self) -> Result<(), ClusterError> {
        let deadline = Instant::now() + START_MAX;
        for node in &mut self.nodes {
            while !matches!(is_ready(&node.address).await, Ok(true)) {
                if matches!(node.process.try_wait(), Ok(Some(_))) {
                    return Err(node.failed("ended by itself"));
                }
                if Instant::now() >= deadline {
                    return Err(node.failed("was not ready in time"));
                }
                sleep(ASK_EVERY).await;
            }
        }
        Ok(())
    }
}

impl SpawnedNode {
    fn failed(&self, how: &'static str) -> ClusterError {
        const LINES_SHOWN: usize = 10;
        let log = fs::read_to_string(&self.log).unwrap_or_else(|error| error.to_string());
        let lines: Vec<&str> = log.lines().collect();
        let from = lines.len().saturating_sub(LINES_SHOWN);
        ClusterError::Node { node: self.number, how, log: lines[from..].join("\n") }
    }
}

impl Drop for SpawnedNode {
    fn drop(&mut self) {
        // The data is thrown away, so nothing needs to be finished in order.
        let ended = self.process.kill().and_then(|()| self.process.wait());
        if let Err(error) = ended {
            tracing::warn!(%error, pid = self.process.id(), "a node's process did not end");
        }
    }
}

async fn is_ready(address: &Address) -> Result<bool, ConnectionError> {
    let mut connection = Connection::open(address).await?;
    let anybody = HeaderValue::from_static("Bearer none");
    let request = address.request(Method::GET, paths::READYZ, &anybody, Bytes::new())?;
    Ok(connection.call(request).await?.status() == StatusCode::OK)
}

/// Ports that were free a moment ago. They are all held at once, so that no two are the same.
fn free_ports() -> io::Result<Vec<Ports>> {
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let held = (0..NODES).map(|_| Ok((bind()?, bind()?))).collect::<io::Result<Vec<_>>>()?;
    let ports = held
        .iter()
        .map(|(api, peer)| Ok(Ports { api: api.local_addr()?, peer: peer.local_addr()? }));
    ports.collect()
}

fn spawn(number: u16, config: &str, ports: &[Ports], dir: &Path) -> io::Result<SpawnedNode> {
    let config_file = dir.join(format!("node-{number}.toml"));
    fs::write(&config_file, config)?;
    let log = dir.join(format!("node-{number}.log"));
    let log_file = File::create(&log)?;
    let process = Command::new(std::env::current_exe()?)
        .arg("serve")
        .arg("--config")
        .arg(&config_file)
        .stdin(Stdio::null())
        .stdout(log_file.try_clone()?)
        .stderr(log_file)
        .spawn()?;
    let address = Address::of(ports[usize::from(number) - 1].api);
    Ok(SpawnedNode { number, process, address, log })
}

/// The configuration file of a node: a server's defaults, but for the shards.
fn config(number: u16, shards: u16, ports: &[Ports], dir: &Path) -> String {
    let mut text = String::new();
    let Ports { api, peer } = ports[usize::from(number) - 1];
    let data = dir.join(format!("node-{number}"));
    let mut line = |arguments: std::fmt::Arguments<'_>| {
        text.write_fmt(arguments).expect("writing to a string cannot fail");
        text.push('\n');
    };
    line(format_args!("node = {number}\ncluster = \"bench\"\nregion = \"bench\""));
    line(format_args!("shards = {shards}"));
    line(format_args!("data-dir = {data:?}\nlisten = \"{api}\"\npeer-listen = \"{peer}\""));
    for (other, ports) in (1..).zip(ports).filter(|(other, _)| *other != number) {
        let Ports { api, peer } = ports;
        line(format_args!("[[peer]]\nnode = {other}"));
        line(format_args!("address = \"{peer}\"\napi-url = \"http://{api}\""));
    }
    let token_file = dir.join("token");
    line(format_args!("[[token]]\nname = \"bench\"\ntoken-file = {token_file:?}"));
    line(format_args!("scopes = [\"spend\", \"read\", \"admin\"]"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_gets_a_configuration_that_a_node_accepts() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("token"), TOKEN).unwrap();
        let ports = free_ports().unwrap();
        for number in 1..=NODES {
            let text = config(number, 2, &ports, dir.path());
            let config = purser_node::NodeConfig::parse(&text).unwrap();
            let settings = config.validate().unwrap();
            assert_eq!(settings.peers.len(), 2);
            assert_eq!(settings.tokens.len(), 1);
        }
    }
}
