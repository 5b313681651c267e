//! Lives of a group on one node that must not meet.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use purser_types::{ApplyError, CorruptSnapshot, History, LogTime, Machine, Stamped};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::clock::SystemClock;
use crate::disk::RealDisk;
use crate::error::{OpenError, StopReason};
use crate::group::Group;
use crate::host::{Hearing, Host, Leading};
use crate::ids::{GroupId, NodeId};
use crate::network::PeerSwitch;
use crate::raft::types::Vote;
use crate::settings::{GroupSettings, HostSettings, RaftTimings, WalSettings};

const GROUP: GroupId = GroupId(1);

/// A machine that only knows the time.
#[derive(Clone, Default)]
struct Idle;

impl Machine for Idle {
    type Answer = ();

    fn apply(&mut self, _: Stamped<'_>, _: &mut dyn History) -> Result<(), ApplyError> {
        Ok(())
    }

    fn log_time(&self) -> LogTime {
        LogTime::ZERO
    }

    fn snapshot(&self) -> Box<dyn Iterator<Item = Vec<u8>> + Send> {
        Box::new(std::iter::empty())
    }

    fn restore(_: &mut dyn Iterator<Item = Vec<u8>>) -> Result<Self, CorruptSnapshot> {
        Ok(Self)
    }
}

fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

async fn host(dir: &Path) -> Result<Host, OpenError> {
    let settings = HostSettings {
        dir: dir.to_path_buf(),
        node: NodeId(1),
        cluster: None,
        peers: Default::default(),
        timings: RaftTimings::SHARED_MACHINE,
        wal: WalSettings::SMALL,
        disk: Arc::new(RealDisk),
        clock: Arc::new(SystemClock),
        switch: PeerSwitch::default(),
    };
    Host::open(settings, TcpListener::bind("127.0.0.1:0").await.unwrap()).await
}

async fn group(host: &Host) -> Result<Group<Idle>, OpenError> {
    let group = host.group(GROUP, Idle, GroupSettings::SMALL).await?;
    group.bootstrap(BTreeSet::from([NodeId(1)])).await.unwrap();
    Ok(group)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_is_not_opened_again_while_its_last_life_may_write() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path()).await.unwrap();
    let first = group(&host).await.unwrap();
    let transfer = first.core.incoming.new_file().unwrap();
    let mut ending = JoinSet::new();
    ending.spawn({
        let first = first.clone();
        async move { first.shutdown(deadline()).await }
    });
    assert_eq!(first.stopped().await, StopReason::ShutDown);
    assert!(matches!(group(&host).await, Err(OpenError::AlreadyOpen)));
    assert!(ending.try_join_next().is_none());

    drop(transfer);
    ending.join_next().await.unwrap().unwrap();
    assert!(first.core.incoming.new_file().is_err(), "its transfers are over");
    let second = group(&host).await.unwrap();
    assert_ne!(first.hosted.incarnation, second.hosted.incarnation, "it names its batches anew");
    // Ending the first life again takes nothing from the second.
    first.shutdown(deadline()).await;
    assert!(second.core.ports.get(GROUP).is_some());
    assert!(matches!(group(&host).await, Err(OpenError::AlreadyOpen)));
    host.shutdown(deadline()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_is_free_only_when_nobody_writes_any_more() {
    let dir = tempfile::tempdir().unwrap();
    let first = host(dir.path()).await.unwrap();
    let open = group(&first).await.unwrap();
    let writer = open.core.writers.token();
    let mut ending = JoinSet::new();
    ending.spawn({
        let first = first.clone();
        async move { first.kill().await }
    });
    assert_eq!(open.stopped().await, StopReason::ShutDown);
    assert!(matches!(host(dir.path()).await, Err(OpenError::InUse(_))));
    assert!(ending.try_join_next().is_none());

    drop(writer);
    ending.join_next().await.unwrap().unwrap();
    host(dir.path()).await.unwrap().kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_ends_opens_no_group() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path()).await.unwrap();
    host.shutdown(deadline()).await;
    assert!(matches!(group(&host).await, Err(OpenError::Start(_))));
}

/// In their own eyes others may lead as well, and would take what they hear for this node's word that all
/// is safe.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_hears_one_leader_hears_no_other_before_that_one_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path()).await.unwrap();
    let leader = |term, node| Leading { term, node: NodeId(node) };
    let settings = (GroupSettings::SMALL, Hearing::Only(leader(5, 2)));
    let group = host.group_hearing(GROUP, Idle, settings).await.unwrap();
    let heard = || {
        let port = group.core.ports.get(GROUP).unwrap();
        let all = [(4, 3), (5, 1), (5, 2), (6, 1)];
        all.map(|(term, node)| port.hears(&Vote::new_committed(term, NodeId(node))))
    };
    assert_eq!(heard(), [false, false, true, false]);
    assert!(!group.hear(leader(5, 1)), "it has led before");
    assert_eq!(heard(), [false, false, true, false]);
    assert!(group.hear(leader(6, 1)));
    assert_eq!(heard(), [false, false, false, true]);
    host.shutdown(deadline()).await;
}
