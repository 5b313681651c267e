//! Several groups on the same nodes: they share the log, and nothing else.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::future::{join_all, select_all};
use purser_raft::{Group, GroupId, GroupSettings, NodeId, ProposeError, Role};
use tokio::sync::watch;

use crate::ALL;
use crate::counters::{Counters, add};
use crate::support::{Cluster, PATIENCE, deadline};

const OTHERS: [GroupId; 3] = [GroupId(2), GroupId(3), GroupId(4)];

/// Longer than a change of leader takes, shorter than anybody wants to wait for an entry that was
/// left behind.
const PROPOSE_LIMIT: Duration = Duration::from_secs(10);

/// The handles to one group, by node.
type Handles = BTreeMap<NodeId, Group<Counters>>;

/// Three nodes with four groups, each of which has a leader.
async fn four_groups() -> (Cluster, Vec<Handles>) {
    let cluster = Cluster::with_voters(3, GroupSettings::SMALL).await;
    let mut groups: Vec<Handles> =
        vec![cluster.running().map(|(id, group)| (id, group.clone())).collect()];
    for group in OTHERS {
        let mut handles = Handles::new();
        for id in ALL {
            let host = cluster.host(id);
            let opened = host.group(group, Counters::default(), GroupSettings::SMALL).await;
            handles.insert(id, opened.unwrap());
        }
        handles[&NodeId(1)].bootstrap(ALL.into()).await.unwrap();
        groups.push(handles);
    }
    for handles in &groups {
        while propose(handles, "warm").await != Outcome::Answered {}
    }
    (cluster, groups)
}

/// Waits until a node leads the group.
async fn leader(handles: &Handles) -> NodeId {
    let waiting = handles.iter().map(|(id, group)| {
        Box::pin(async move {
            let mut watch = group.watch();
            let leads = watch.wait_for(|status| status.role == Role::Leader);
            leads.await.map(|_status| *id).unwrap()
        })
    });
    tokio::time::timeout(PATIENCE, select_all(waiting)).await.expect("somebody leads in time").0
}

/// How a proposal ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Answered,
    Nothing,
    Unknown,
}

/// Proposes once, to whoever leads.
async fn propose(handles: &Handles, name: &str) -> Outcome {
    let leader = leader(handles).await;
    match handles[&leader].propose(add(name, 1, 20), Instant::now() + PROPOSE_LIMIT).await {
        Ok(_) => Outcome::Answered,
        Err(ProposeError::OutcomeUnknown) => Outcome::Unknown,
        Err(_nothing_happened) => {
            tokio::task::yield_now().await;
            Outcome::Nothing
        }
    }
}

/// Waits until all nodes have applied what the group's leader has, and gives the machine.
async fn converged(handles: &Handles) -> Counters {
    let leader = &handles[&leader(handles).await];
    leader.read_barrier(deadline()).await.unwrap();
    let applied = leader.status().applied_index;
    for group in handles.values() {
        let mut watch = group.watch();
        let reached = watch.wait_for(|status| status.applied_index >= applied);
        drop(tokio::time::timeout(PATIENCE, reached).await.unwrap().unwrap());
    }
    let machine = leader.machine();
    for (id, group) in handles {
        assert_eq!(group.machine(), machine, "node {id}");
        machine.check_history(&group.history());
    }
    machine
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_share_the_syncs_of_their_node() {
    const ROUNDS: usize = 10;
    const AT_ONCE: usize = 20;
    let (cluster, groups) = four_groups().await;
    let syncs = || ALL.map(|id| cluster.host(id).status().wal_syncs);
    let before = syncs();
    let mut ends: Vec<Vec<Outcome>> = vec![Vec::new(); groups.len()];
    for _ in 0..ROUNDS {
        let at_once =
            groups.iter().map(|group| join_all((0..AT_ONCE).map(|_| propose(group, "a"))));
        for (ends, round) in ends.iter_mut().zip(join_all(at_once).await) {
            ends.extend(round);
        }
    }
    let commands = u64::try_from(ROUNDS * AT_ONCE * groups.len()).unwrap();
    for ((id, before), after) in ALL.iter().zip(before).zip(syncs()) {
        assert!(after - before < commands, "node {id}: {} for {commands}", after - before);
        assert!(cluster.host(*id).status().wal_batch_records_max > 1, "node {id}");
    }
    for (handles, ends) in groups.iter().zip(ends) {
        let count = |wanted| ends.iter().filter(|end| **end == wanted).count();
        let (answered, unknown) = (count(Outcome::Answered), count(Outcome::Unknown));
        assert!(answered > 0);
        let value = usize::try_from(converged(handles).await.value("a")).unwrap();
        assert!((answered..=answered + unknown).contains(&value), "{value}: {ends:?}");
    }
    cluster.end().await;
}

/// Hands the group's leadership on, and waits until the next leader has applied some more.
async fn hand_on(handles: &Handles) {
    let old = leader(handles).await;
    let next = ALL.into_iter().find(|id| *id > old).unwrap_or(NodeId(1));
    // It may have lost its leadership by itself meanwhile, which is as good.
    drop(handles[&old].transfer_leadership(next, deadline()).await);
    let new = &handles[&leader(handles).await];
    let applied = new.status().applied_index.map_or(0, |index| index + 5);
    let mut watch = new.watch();
    let goes_on = watch
        .wait_for(|status| status.role != Role::Leader || status.applied_index >= Some(applied));
    drop(tokio::time::timeout(PATIENCE, goes_on).await.unwrap().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_proposal_has_one_end_while_leadership_moves() {
    let (cluster, groups) = four_groups().await;
    let (stop, stopped) = watch::channel(false);
    let proposers = groups.iter().map(|handles| {
        let stopped = &stopped;
        join_all((0..6).map(move |proposer| async move {
            let mut ends = Vec::new();
            while !*stopped.borrow() {
                let name = format!("{proposer}-{}", ends.len());
                let end = propose(handles, &name).await;
                ends.push((name, end));
            }
            ends
        }))
    });
    let moving = async {
        for _ in 0..3 {
            join_all(groups.iter().map(hand_on)).await;
        }
        stop.send_replace(true);
    };
    let (ends, ()) = futures_util::future::join(join_all(proposers), moving).await;

    for (handles, ends) in groups.iter().zip(ends) {
        let machine = converged(handles).await;
        let mut answered = 0;
        for (name, end) in ends.into_iter().flatten() {
            let times = machine.value(&name);
            let fits = match end {
                Outcome::Answered => times == 1,
                Outcome::Nothing => times == 0,
                Outcome::Unknown => times <= 1,
            };
            assert!(fits, "{name} was {end:?}, and applied {times} times");
            answered += u64::from(end == Outcome::Answered);
        }
        assert!(answered > 50, "{answered} answers");
    }
    cluster.end().await;
}
