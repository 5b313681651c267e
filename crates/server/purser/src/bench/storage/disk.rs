//! What entries take on disk, and how long a node with many of them needs to serve again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use purser_ledger::{AccountName, Command, Ledger, codec};
use purser_raft::disk::RealDisk;
use purser_raft::{
    ChangeError, ClusterId, Group, GroupId, GroupSettings, Host, HostSettings, NodeId, OpenError,
    PeerSwitch, ProposeError, RaftTimings, ReadError, Role, SystemClock, WalSettings,
};
use purser_types::Sequence;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::task::{JoinError, JoinSet};

use super::commands::{self, NotAccepted};
use crate::output::{Output, Progress};
use crate::replay::tally::to_float;

/// Proposals on their way at once, at most: several full batches, below what a group lets wait.
const WRITERS_MAX: u32 = 2_048;
/// Entries that a writer is worth starting for.
const ENTRIES_PER_WRITER: u32 = 1_000;
/// Accounts for each writer, so that no account is a bottleneck.
const ACCOUNTS_PER_WRITER: u32 = 10;
/// How long a proposal, a read or a shutdown may take.
const PATIENCE: Duration = Duration::from_secs(120);
const NODE: NodeId = NodeId(1);
const GROUP: GroupId = GroupId(0);

/// Figures of the disk and of the restart.
#[derive(Debug, Serialize)]
pub(super) struct DiskFigures {
    pub(super) entries: u64,
    pub(super) history_bytes_per_entry: f64,
    pub(super) folder_bytes_per_entry: f64,
    pub(super) entries_per_second: f64,
    pub(super) restart_seconds: f64,
}

/// Why the disk could not be measured.
#[derive(Debug, thiserror::Error)]
pub(super) enum DiskError {
    #[error("a folder or a port could not be had")]
    System(#[from] io::Error),
    #[error("the group could not be opened")]
    Open(#[from] OpenError),
    #[error("the group could not be founded")]
    Found(#[from] ChangeError),
    #[error("a command was not decided")]
    Propose(#[from] ProposeError),
    #[error("the group does not serve")]
    Read(#[from] ReadError),
    #[error(transparent)]
    NotAccepted(#[from] NotAccepted),
    #[error("the group stopped")]
    Stopped,
    #[error("a part of the measurement failed")]
    Task(#[from] JoinError),
}

/// Fills a group with about so many entries, closes it and opens it again.
pub(super) async fn measure(
    entries: u32,
    parent: Option<&Path>,
    output: &Output,
) -> Result<DiskFigures, DiskError> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("purser-bench-");
    let dir = match parent {
        Some(parent) => builder.tempdir_in(parent),
        None => builder.tempdir(),
    }?;
    let cluster = ClusterId::random()?;
    let (host, group) = open(dir.path(), cluster).await?;
    group.bootstrap(BTreeSet::from([NODE])).await?;
    serves(&group).await?;

    let progress = output.progress("entries written", Some(u64::from(entries)));
    let start = Instant::now();
    let written = fill(&group, entries, &progress).await?;
    let filling = start.elapsed();
    progress.finish(written);
    let history_bytes = group.status().history_bytes;
    drop(group);
    host.shutdown(Instant::now() + PATIENCE).await;

    output.note("restarting");
    let start = Instant::now();
    let (host, group) = open(dir.path(), cluster).await?;
    serves(&group).await?;
    let restart = start.elapsed();
    drop(group);
    host.shutdown(Instant::now() + PATIENCE).await;

    Ok(DiskFigures {
        entries: written,
        history_bytes_per_entry: bytes_per(written, history_bytes),
        folder_bytes_per_entry: bytes_per(written, bytes_below(dir.path())?),
        entries_per_second: to_float(written) / filling.as_secs_f64(),
        restart_seconds: restart.as_secs_f64(),
    })
}

async fn open(dir: &Path, cluster: ClusterId) -> Result<(Host, Group<Ledger>), DiskError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let settings = HostSettings {
        dir: dir.join("node"),
        node: NODE,
        cluster: Some(cluster),
        peers: BTreeMap::new(),
        timings: RaftTimings::LAN,
        wal: WalSettings::LARGE,
        disk: Arc::new(RealDisk),
        clock: Arc::new(SystemClock),
        switch: PeerSwitch::default(),
    };
    let host = Host::open(settings, listener).await?;
    let group = host.group(GROUP, Ledger::default(), GroupSettings::SERVER).await?;
    Ok((host, group))
}

/// Waits until the group leads and answers reads.
async fn serves(group: &Group<Ledger>) -> Result<(), DiskError> {
    let mut status = group.watch();
    let leads = status.wait_for(|status| status.role == Role::Leader).await;
    leads.map_err(|_closed| DiskError::Stopped)?;
    Ok(group.read_barrier(Instant::now() + PATIENCE).await?)
}

/// Fills the group from many writers at once. Returns how many entries there are.
async fn fill(group: &Group<Ledger>, entries: u32, progress: &Progress) -> Result<u64, DiskError> {
    let count = entries.div_ceil(ENTRIES_PER_WRITER).clamp(1, WRITERS_MAX);
    let share = entries.div_ceil(count);
    let mut writers = JoinSet::new();
    for number in 0..count {
        let writer = Writer { group: group.clone(), number, written: 0 };
        writers.spawn(writer.write(share));
    }
    let mut written = 0;
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    let mut told = 0;
    loop {
        tokio::select! {
            ended = writers.join_next() => match ended {
                Some(ended) => written += ended??,
                None => return Ok(written),
            },
            _ = ticks.tick() => {
                let proposed = group.status().proposed_commands;
                progress.advance(proposed.saturating_sub(told));
                told = proposed;
            }
        }
    }
}

/// Writes to accounts of its own.
struct Writer {
    group: Group<Ledger>,
    number: u32,
    written: u64,
}

impl Writer {
    /// Writes about `entries` entries, and tells how many it were.
    async fn write(mut self, entries: u32) -> Result<u64, DiskError> {
        let first = self.number.saturating_mul(ACCOUNTS_PER_WRITER);
        let accounts: Vec<AccountName> =
            (first..first.saturating_add(ACCOUNTS_PER_WRITER)).map(commands::account).collect();
        for account in &accounts {
            self.propose(&commands::open(account)).await?;
            self.propose(&commands::grant(account)).await?;
        }
        for (pair, account) in (0_u64..).zip(accounts.iter().cycle()) {
            if self.written >= u64::from(entries) {
                break;
            }
            let key = format!("{}-{pair}", self.number);
            let hold = self.propose(&commands::authorize(account, Some(&key))).await?;
            let key = format!("{key}c");
            self.propose(&commands::capture(account, hold, Some(&key))).await?;
        }
        Ok(self.written)
    }

    async fn propose(&mut self, command: &Command) -> Result<Sequence, DiskError> {
        let bytes = Bytes::from(codec::encode(command));
        let answer = self.group.propose(bytes, Instant::now() + PATIENCE).await?;
        self.written += 1;
        Ok(commands::sequence_of(answer)?)
    }
}

/// Bytes of all files below a folder.
fn bytes_below(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0_u64;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        let more = if metadata.is_dir() { bytes_below(&entry.path())? } else { metadata.len() };
        bytes = bytes.saturating_add(more);
    }
    Ok(bytes)
}

/// In KiB first, because those are counted exactly up to four TiB.
fn bytes_per(entries: u64, bytes: u64) -> f64 {
    to_float(bytes / 1_024) * 1_024.0 / to_float(entries.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_filled_node_restarts_with_all_that_was_written() {
        let output = Output::new(Format::People);
        let figures = measure(1_001, None, &output).await.unwrap();
        assert_eq!(figures.entries, 2 * 502, "{figures:?}");
        assert!(figures.history_bytes_per_entry > 100.0, "{figures:?}");
        assert!(figures.folder_bytes_per_entry > figures.history_bytes_per_entry, "{figures:?}");
        assert!(figures.restart_seconds > 0.0, "{figures:?}");
    }
}
