//! A node's data folder: who may open it, and what the offline reader makes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use purser_raft::disk::{DiskFault, RealDisk, SimulatedDisk};
use purser_raft::offline::{
    LoggedContent, OfflineError, OfflineNode, ReadLock, Severity, check, read_lock,
};
use purser_raft::{
    ClusterId, Group, GroupSettings, Host, HostSettings, NodeId, OpenError, PeerSwitch,
    RaftTimings, SystemClock, WalSettings,
};
use tokio::net::TcpListener;

use crate::counters::{Counters, add};
use crate::support::{Cluster, GROUP, deadline};

fn settings(dir: &Path, node: u64, cluster: Option<ClusterId>) -> HostSettings {
    HostSettings {
        dir: dir.to_path_buf(),
        node: NodeId(node),
        cluster,
        peers: BTreeMap::new(),
        timings: RaftTimings::LAN,
        wal: WalSettings { segment_bytes: 4 << 10, prepare_ahead: false },
        disk: Arc::new(RealDisk),
        clock: Arc::new(SystemClock),
        switch: PeerSwitch::default(),
    }
}

async fn open(settings: HostSettings) -> Result<Host, OpenError> {
    Host::open(settings, TcpListener::bind("127.0.0.1:0").await.unwrap()).await
}

/// A lone node that leads.
async fn lone_node(dir: &Path) -> (Host, Group<Counters>) {
    lone_node_of(settings(dir, 1, None)).await
}

async fn lone_node_of(settings: HostSettings) -> (Host, Group<Counters>) {
    let host = open(settings).await.unwrap();
    let group = host.group(GROUP, Counters::default(), GroupSettings::SMALL).await.unwrap();
    group.bootstrap(BTreeSet::from([NodeId(1)])).await.unwrap();
    let mut watch = group.watch();
    watch.wait_for(|status| status.leader == Some(NodeId(1))).await.unwrap();
    (host, group)
}

/// A folder with several segments, a snapshot, and entries behind it.
async fn small_folder(dir: &Path) -> Counters {
    let (host, group) = lone_node(dir).await;
    for number in 0..30 {
        let command = add(&format!("name-{}", number % 4), 1, 150);
        group.propose(command, deadline()).await.unwrap();
        if number == 20 {
            let applied = group.status().applied_index;
            group.trigger_snapshot().await.unwrap();
            let mut watch = group.watch();
            watch.wait_for(|status| status.snapshot_index >= applied).await.unwrap();
        }
    }
    let machine = group.machine();
    host.shutdown(deadline()).await;
    machine
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_is_opened_by_its_node_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (host, _group) = lone_node(dir.path()).await;
    let cluster = host.cluster();
    let second = open(settings(dir.path(), 1, None)).await;
    assert!(matches!(second, Err(OpenError::InUse(_))));
    host.shutdown(deadline()).await;

    let other = open(settings(dir.path(), 2, None)).await;
    assert!(matches!(other, Err(OpenError::OtherNode { actual: NodeId(1), .. })));
    let other = open(settings(dir.path(), 1, Some(ClusterId::from_bytes([1; 16])))).await;
    assert!(matches!(other, Err(OpenError::OtherCluster { .. })));
    let again = open(settings(dir.path(), 1, Some(cluster))).await.unwrap();
    again.shutdown(deadline()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_has_one_node_or_any_number_of_readers() {
    let dir = tempfile::tempdir().unwrap();
    assert!(!read_lock(dir.path()).unwrap().holds());
    assert_eq!(files_below(dir.path()), [] as [PathBuf; 0], "a reader makes no file");

    let (host, _group) = lone_node(dir.path()).await;
    let refused = read_lock(dir.path());
    assert!(matches!(refused, Err(OfflineError::Open(OpenError::InUse(_)))), "{refused:?}");
    host.shutdown(deadline()).await;

    let readers = [read_lock(dir.path()).unwrap(), read_lock(dir.path()).unwrap()];
    assert!(readers.iter().all(ReadLock::holds));
    let node = open(settings(dir.path(), 1, None)).await;
    assert!(matches!(node, Err(OpenError::InUse(_))));
    drop(readers);
    open(settings(dir.path(), 1, None)).await.unwrap().shutdown(deadline()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_can_be_closed_and_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let (host, group) = lone_node(dir.path()).await;
    group.propose(add("a", 2, 0), deadline()).await.unwrap();
    let again = host.group(GROUP, Counters::default(), GroupSettings::SMALL).await;
    assert!(matches!(again, Err(OpenError::AlreadyOpen)));
    group.shutdown(deadline()).await;
    assert!(group.propose(add("a", 1, 0), deadline()).await.is_err());

    let group = host.group(GROUP, Counters::default(), GroupSettings::SMALL).await.unwrap();
    let mut watch = group.watch();
    watch.wait_for(|status| status.leader == Some(NodeId(1))).await.unwrap();
    assert_eq!(group.propose(add("a", 1, 0), deadline()).await.unwrap().value, 3);
    host.shutdown(deadline()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_flipped_byte_is_named() {
    let dir = tempfile::tempdir().unwrap();
    small_folder(dir.path()).await;
    let report = check(dir.path()).unwrap();
    assert_eq!(report.findings, [], "nothing is wrong yet");
    let files = files_below(dir.path());
    assert!(files.len() >= 5, "{files:?}");
    let mut severities = BTreeSet::new();
    for path in files {
        let whole = std::fs::read(&path).unwrap();
        let used = whole.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        // Every byte that says something in steps that meet every field, and some of the zeros.
        let places = (0..used).filter(|at| *at < 150 || at % 3 == 0);
        for place in places.chain((used..whole.len()).step_by(173)) {
            let mut damaged = whole.clone();
            damaged[place] ^= 0x20;
            std::fs::write(&path, &damaged).unwrap();
            let report = check(dir.path()).unwrap();
            let named = report.findings.iter().find(|finding| finding.file == path);
            let named = named.unwrap_or_else(|| panic!("{path:?} at {place}: {report:?}"));
            let offset = usize::try_from(named.offset).unwrap();
            assert!(offset <= place, "{path:?} at {place}: {named:?}");
            severities.insert(named.severity);
        }
        std::fs::write(&path, &whole).unwrap();
    }
    assert_eq!(severities, [Severity::Unused, Severity::Repaired, Severity::Damaged].into());

    std::fs::write(dir.path().join("groups/stray"), b"?").unwrap();
    let report = check(dir.path()).unwrap();
    assert_eq!(report.findings.len(), 1);
    assert_eq!(report.findings[0].severity, Severity::Unknown);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_offline_reader_rebuilds_what_the_node_had() {
    let dir = tempfile::tempdir().unwrap();
    let machine = small_folder(dir.path()).await;
    let before = files_below(dir.path());
    let node = OfflineNode::open(dir.path()).unwrap();
    assert_eq!(node.groups().unwrap(), [GROUP].into());
    assert_eq!(node.node(), NodeId(1));

    let rebuilt = node.rebuild(GROUP, Counters::default(), None).unwrap();
    assert_eq!(rebuilt.machine, machine);
    rebuilt.machine.check_history(&*rebuilt.history);
    let snapshot = node.snapshot(GROUP).unwrap().unwrap();
    let earlier = node.rebuild(GROUP, Counters::default(), Some(snapshot.index)).unwrap();
    assert!(earlier.machine.total() < machine.total());
    assert_eq!(earlier.history_bytes, snapshot.history_bytes);
    assert!(node.rebuild(GROUP, Counters::default(), Some(1_000)).is_err());

    let records: Vec<_> = node.history(GROUP).unwrap().map(Result::unwrap).collect();
    assert_eq!(records.len(), 30);
    let log = node.log(GROUP).unwrap();
    let is_commands = |content: &LoggedContent| matches!(content, LoggedContent::Commands { .. });
    assert!(log.iter().all(|entry| entry.known_committed));
    assert_eq!(log.iter().filter(|entry| is_commands(&entry.content)).count(), 30);
    assert_eq!(files_below(dir.path()), before, "nothing was changed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_folders_agree_at_one_index() {
    let mut cluster = Cluster::with_voters(3, GroupSettings::SMALL).await;
    for number in 0..40 {
        cluster.add(&format!("name-{}", number % 5), 1, 30).await;
    }
    let ids: Vec<NodeId> = cluster.nodes.iter().map(|node| node.id).collect();
    for id in ids {
        cluster.kill(id).await;
    }
    let open = |dir: &Path| OfflineNode::open(dir).unwrap();
    let nodes: Vec<OfflineNode> = cluster.nodes.iter().map(|node| open(node.dir.path())).collect();
    let committed = nodes.iter().map(|node| node.committed(GROUP).unwrap()).max().unwrap();
    let mut rebuilt = nodes.iter().filter_map(|node| {
        match node.rebuild(GROUP, Counters::default(), committed) {
            Ok(rebuilt) => Some(rebuilt.machine),
            // A follower that was killed may lack the last entries, which it never acknowledged.
            Err(OfflineError::NotInLog { .. }) => None,
            Err(error) => panic!("node {} is damaged: {error}", node.node()),
        }
    });
    let first = rebuilt.next().unwrap();
    let others: Vec<Counters> = rebuilt.collect();
    assert!(!others.is_empty(), "a majority has what was committed");
    assert!(others.iter().all(|other| *other == first));
}

/// A lone node whose disk refuses everything from some write point on: it must say so and stop, and
/// have on its disk whatever it answered.
async fn check_refusal(fault: DiskFault, after: u64, words: &str) {
    let disk = SimulatedDisk::from_seed(after);
    let dir = Path::new("/node");
    let settings = HostSettings { disk: Arc::new(disk.clone()), ..settings(dir, 1, None) };
    let (host, group) = lone_node_of(settings).await;
    disk.fail_at(disk.write_points() + after, fault);
    let mut answered = 0;
    loop {
        // History and snapshots meet the fault too. Once the group has stopped it takes none.
        drop(group.trigger_snapshot().await);
        match group.propose(add("a", 1, 50), deadline()).await {
            Ok(changed) => answered = changed.value,
            Err(_stopped) => break,
        }
    }
    let reason = host.failed().await.to_string();
    assert!(reason.contains(words), "{fault:?} after {after}: {reason}");
    host.kill().await;
    disk.restart();

    let node = OfflineNode::open_on(Arc::new(disk), dir).unwrap();
    let last = node.log(GROUP).unwrap().last().map(|last| last.index);
    let rebuilt = node.rebuild(GROUP, Counters::default(), last).unwrap();
    let kept = rebuilt.machine.value("a");
    assert!(kept >= answered, "{fault:?} after {after}: {kept} of {answered} answered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_disk_refuses_stops_with_the_reason() {
    let refusals = (0..14).flat_map(|after| {
        let errors = check_refusal(DiskFault::InputOutput, after, "input/output error");
        let full = check_refusal(DiskFault::NoSpace, after, "no storage space");
        [futures_util::future::Either::Left(errors), futures_util::future::Either::Right(full)]
    });
    futures_util::future::join_all(refusals).await;
}
