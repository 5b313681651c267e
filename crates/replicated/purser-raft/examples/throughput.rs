//! Proposals a second of three nodes in this process, on real files with real syncs.
//!
//! `cargo run --release -p purser-raft --example throughput`

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use purser_raft::disk::RealDisk;
use purser_raft::{
    ClusterId, Group, GroupId, GroupSettings, Host, HostSettings, NodeId, PeerSwitch, RaftTimings,
    SystemClock, WalSettings,
};
use purser_types::{ApplyError, CorruptSnapshot, History, LogTime, Machine, Stamped};
use tokio::net::TcpListener;

const COMMAND_BYTES: usize = 256;
const WARM_UP: Duration = Duration::from_secs(1);
const MEASURED: Duration = Duration::from_secs(3);

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Counts commands and keeps each in the history.
#[derive(Debug, Clone, Default)]
struct Count {
    commands: u64,
    log_time: LogTime,
}

impl Machine for Count {
    type Answer = u64;

    fn apply(
        &mut self,
        stamped: Stamped<'_>,
        history: &mut dyn History,
    ) -> Result<u64, ApplyError> {
        history.append(stamped.command);
        self.commands += 1;
        self.log_time = self.log_time.max(stamped.at);
        Ok(self.commands)
    }

    fn log_time(&self) -> LogTime {
        self.log_time
    }

    fn snapshot(&self) -> Box<dyn Iterator<Item = Vec<u8>> + Send> {
        let words = [self.commands, self.log_time.as_unix_micros()];
        Box::new(words.into_iter().map(|word| word.to_le_bytes().to_vec()))
    }

    fn restore(chunks: &mut dyn Iterator<Item = Vec<u8>>) -> Result<Self, CorruptSnapshot> {
        let mut word = || {
            let bytes = chunks.next()?.try_into().ok()?;
            Some(u64::from_le_bytes(bytes))
        };
        let corrupt = || CorruptSnapshot("not a count".to_owned());
        let commands = word().ok_or_else(corrupt)?;
        let log_time = word().and_then(|micros| LogTime::from_unix_micros(micros).ok());
        Ok(Self { commands, log_time: log_time.ok_or_else(corrupt)? })
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let cluster = ClusterId::random()?;
    let mut listeners = Vec::new();
    let mut peers = BTreeMap::new();
    for number in 1..=3 {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        peers.insert(NodeId(number), listener.local_addr()?.to_string());
        listeners.push((NodeId(number), listener));
    }
    let mut nodes: Vec<(Host, Group<Count>)> = Vec::new();
    for (node, listener) in listeners {
        let settings = HostSettings {
            dir: folder.path().join(node.to_string()),
            node,
            cluster: Some(cluster),
            peers: peers.clone(),
            timings: RaftTimings::SHARED_MACHINE,
            wal: WalSettings::LARGE,
            disk: Arc::new(RealDisk),
            clock: Arc::new(SystemClock),
            switch: PeerSwitch::default(),
        };
        let host = Host::open(settings, listener).await?;
        let group = host.group(GroupId(1), Count::default(), GroupSettings::SERVER).await?;
        nodes.push((host, group));
    }
    let Some((host, group)) = nodes.first() else {
        return Ok(());
    };
    group.bootstrap(BTreeSet::from([NodeId(1), NodeId(2), NodeId(3)])).await?;
    let mut watch = group.watch();
    watch.wait_for(|status| status.leader.is_some()).await?;
    let leader = watch.borrow().leader.unwrap_or(NodeId(1));
    let leading = nodes.iter().find(|(host, _)| host.node() == leader);
    let (host, group) = leading.map_or((host, group), |(host, group)| (host, group));
    group.read_barrier(Instant::now() + Duration::from_secs(10)).await?;
    for concurrency in [1, 64, 1024] {
        measure(host, group, concurrency).await?;
    }
    let deadline = Instant::now() + Duration::from_secs(5);
    for (host, _) in &nodes {
        host.shutdown(deadline).await;
    }
    Ok(())
}

/// Proposes from so many clients at once, and prints how it went.
async fn measure(host: &Host, group: &Group<Count>, concurrency: usize) -> Result<(), Failure> {
    let started = Instant::now();
    let (begin, end) = (started + WARM_UP, started + WARM_UP + MEASURED);
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..concurrency {
        clients.spawn(propose_until(group.clone(), begin, end));
    }
    let before = host.status();
    let status_before = group.status();
    let mut latencies = Vec::new();
    while let Some(client) = clients.join_next().await {
        latencies.extend(client??);
    }
    let after = host.status();
    let status = group.status();
    latencies.sort_unstable();
    let percentile = |percent: usize| {
        latencies.get(latencies.len() * percent / 100).copied().unwrap_or_default()
    };
    let each_second = latencies.len() / usize::try_from(MEASURED.as_secs())?;
    let entries = status.proposed_entries - status_before.proposed_entries;
    let commands = status.proposed_commands - status_before.proposed_commands;
    writeln!(
        std::io::stdout(),
        "{concurrency:5} clients: {each_second:7}/s, p50 {:?}, p99 {:?}; {} commands an entry, \
         {} commands a sync",
        percentile(50),
        percentile(99),
        commands / entries.max(1),
        commands / (after.wal_syncs - before.wal_syncs).max(1),
    )?;
    Ok(())
}

async fn propose_until(
    group: Group<Count>,
    begin: Instant,
    end: Instant,
) -> Result<Vec<Duration>, Failure> {
    let command = Bytes::from(vec![7; COMMAND_BYTES]);
    let mut latencies = Vec::new();
    loop {
        let now = Instant::now();
        if now >= end {
            return Ok(latencies);
        }
        group.propose(command.clone(), now + Duration::from_secs(30)).await?;
        if now >= begin {
            latencies.push(now.elapsed());
        }
    }
}
