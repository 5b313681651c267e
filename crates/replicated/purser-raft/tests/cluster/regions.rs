//! One cluster over several regions: groups on some of its nodes, learners, and long lines.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::join_all;
use purser_raft::{
    AcknowledgeError, Cut, Group, GroupId, GroupSettings, NodeId, ProposeError, RaftTimings, Role,
    WholeError,
};
use purser_types::{ApplyError, CorruptSnapshot, History, LogTime, Machine, Stamped};

use crate::counters::{Changed, Counters, add};
use crate::support::{Cluster, PATIENCE, deadline};
use crate::{ALL, soon};

/// Has voters on two of three nodes, and the third does not host it.
const PAIR: GroupId = GroupId(7);

/// Has one voter, and a learner in another region.
const FOLLOWED: GroupId = GroupId(9);

const FIRST: NodeId = NodeId(1);
const SECOND: NodeId = NodeId(2);
const THIRD: NodeId = NodeId(3);

async fn open(cluster: &Cluster, node: NodeId, id: GroupId) -> Group<Counters> {
    let opened = cluster.host(node).group(id, Counters::default(), GroupSettings::SMALL).await;
    opened.unwrap()
}

/// Changes a counter on a group that has a leader or soon will. Gives the index of its entry.
async fn add_indexed(group: &Group<Counters>, padding: usize) -> (Changed, u64) {
    loop {
        let mut watch = group.watch();
        let leads = watch.wait_for(|status| status.role == Role::Leader);
        drop(tokio::time::timeout(PATIENCE, leads).await.expect("it leads in time").unwrap());
        match group.propose_indexed(add("a", 1, padding), deadline()).await {
            Ok(made) => return made,
            // A new leader, that does not know the clocks yet.
            Err(ProposeError::NotLeader { .. }) => tokio::task::yield_now().await,
            Err(error) => panic!("the change was not made: {error}"),
        }
    }
}

async fn wait_until_applied(group: &Group<Counters>, index: u64) {
    let mut watch = group.watch();
    let applied = watch.wait_for(|status| status.applied_index >= Some(index));
    drop(tokio::time::timeout(PATIENCE, applied).await.expect("applied in time").unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_needs_only_those_of_the_nodes_that_it_is_on() {
    let cluster = Cluster::start(3, GroupSettings::SMALL).await;
    let (first, second) = (open(&cluster, FIRST, PAIR).await, open(&cluster, SECOND, PAIR).await);
    first.bootstrap([FIRST, SECOND].into()).await.unwrap();
    // Whoever is neither host nor member makes no difference, down to its being cut off.
    cluster.isolate(THIRD);
    let leads = async |group: &Group<Counters>| {
        let mut watch = group.watch();
        drop(watch.wait_for(|status| status.leader.is_some()).await.unwrap());
    };
    tokio::time::timeout(PATIENCE, leads(&first)).await.expect("somebody leads in time");
    let (leader, follower) =
        if first.status().leader == Some(FIRST) { (&first, SECOND) } else { (&second, FIRST) };
    let (changed, index) = add_indexed(leader, 0).await;
    assert_eq!(changed.value, 1);
    leader.acknowledged(follower, index, deadline()).await.unwrap();
    assert!(leader.status().matched_index[&follower] >= index);
    let other = if follower == FIRST { &first } else { &second };
    let refused = other.acknowledged(follower, index, deadline()).await.unwrap_err();
    assert!(matches!(refused, AcknowledgeError::NotLeader { .. }), "{refused:?}");
    wait_until_applied(other, index).await;
    cluster.heal(THIRD);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_learner_acknowledges_what_it_has_and_holds_nothing_up() {
    let cluster = Cluster::start(3, GroupSettings::SMALL).await;
    let leader = open(&cluster, FIRST, FOLLOWED).await;
    leader.bootstrap([FIRST].into()).await.unwrap();
    let (_, early) = add_indexed(&leader, 0).await;
    // Added before it hosts the group, which it soon does.
    leader.add_learner(THIRD, deadline()).await.unwrap();
    let missing = leader.acknowledged(THIRD, early, soon()).await;
    assert_eq!(missing, Err(AcknowledgeError::TimedOut));
    assert!(!leader.status().matched_index.contains_key(&THIRD));
    let learner = open(&cluster, THIRD, FOLLOWED).await;
    leader.acknowledged(THIRD, early, deadline()).await.unwrap();

    cluster.node(THIRD).switch.cut(FIRST, Cut::Both);
    let (changed, index) = add_indexed(&leader, 0).await;
    assert_eq!(changed.value, 2, "the voter is enough");
    leader.acknowledged(FIRST, index, deadline()).await.unwrap();
    let missing = leader.acknowledged(THIRD, index, soon()).await;
    assert_eq!(missing, Err(AcknowledgeError::TimedOut));
    cluster.node(THIRD).switch.heal(FIRST);
    leader.acknowledged(THIRD, index, deadline()).await.unwrap();
    wait_until_applied(&learner, index).await;
    assert_eq!(learner.machine(), leader.machine());

    // Who waits is told when the group ends.
    let waiting = leader.acknowledged(THIRD, u64::MAX, deadline());
    let (stopped, ()) = tokio::join!(waiting, leader.shutdown(deadline()));
    assert_eq!(stopped, Err(AcknowledgeError::Stopped));
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_whose_voters_are_far_apart_has_timings_of_its_own() {
    let settings = GroupSettings { timings: Some(RaftTimings::WIDE), ..GroupSettings::SMALL };
    // Twice as far, there and back, as any two regions are.
    let cluster = Cluster::start_apart(3, settings, Duration::from_millis(250)).await;
    cluster.group(FIRST).bootstrap(ALL.into()).await.unwrap();
    assert_eq!(cluster.add("a", 1, 0).await.value, 1);
    let leader = cluster.leader().await;
    cluster.group(leader).read_barrier(deadline()).await.unwrap();
    let next = ALL.into_iter().find(|id| *id != leader).unwrap();
    cluster.group(leader).transfer_leadership(next, deadline()).await.unwrap();
    assert_eq!(cluster.add("a", 1, 0).await.value, 2);

    // And a group that is quick at home, with a learner that is far.
    let group = open(&cluster, FIRST, FOLLOWED).await;
    let learner = open(&cluster, THIRD, FOLLOWED).await;
    group.bootstrap([FIRST].into()).await.unwrap();
    add_indexed(&group, 0).await;
    group.add_learner(THIRD, deadline()).await.unwrap();
    let many = join_all((0..8).map(|_| add_indexed(&group, 1 << 20))).await;
    let last = many.into_iter().map(|(_, index)| index).max().unwrap();
    group.acknowledged(THIRD, last, deadline()).await.unwrap();
    wait_until_applied(&learner, last).await;
    assert_eq!(learner.machine(), group.machine());
    cluster.end_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_learner_has_acknowledged_is_in_the_whole_of_its_machine() {
    let cluster = Cluster::start(3, GroupSettings::SMALL).await;
    let leader = open(&cluster, FIRST, FOLLOWED).await;
    leader.bootstrap([FIRST].into()).await.unwrap();
    add_indexed(&leader, 0).await;
    leader.add_learner(THIRD, deadline()).await.unwrap();
    let learner = open(&cluster, THIRD, FOLLOWED).await;
    assert!(matches!(learner.whole(), Err(WholeError::Running)));
    let many = join_all((0..64).map(|_| add_indexed(&leader, 100))).await;
    let last = many.into_iter().map(|(_, index)| index).max().unwrap();
    leader.acknowledged(THIRD, last, deadline()).await.unwrap();
    // Whether the learner has heard by now that it is committed, nobody knows.
    learner.shutdown(deadline()).await;
    let whole = learner.whole().unwrap();
    assert!(whole.last >= Some(last));
    assert_eq!(whole.machine, leader.machine());
    whole.machine.check_history(whole.history());
    // It goes on from there as if nothing had been.
    let again = open(&cluster, THIRD, FOLLOWED).await;
    let (_, index) = add_indexed(&leader, 0).await;
    leader.acknowledged(THIRD, index, deadline()).await.unwrap();
    wait_until_applied(&again, index).await;
    assert_eq!(again.machine(), leader.machine());
    cluster.end().await;
}

/// Fails to apply what nobody would be told of who has seen it.
#[derive(Clone, Default)]
struct Seen {
    group: Arc<OnceLock<Group<Self>>>,
}

impl Machine for Seen {
    type Answer = ();

    fn apply(&mut self, stamped: Stamped<'_>, _: &mut dyn History) -> Result<(), ApplyError> {
        let Some(group) = self.group.get() else { return Ok(()) };
        assert_eq!(group.shown_index(), Some(stamped.index));
        Ok(())
    }

    fn log_time(&self) -> LogTime {
        LogTime::ZERO
    }

    fn snapshot(&self) -> Box<dyn Iterator<Item = Vec<u8>> + Send> {
        Box::new(std::iter::empty())
    }

    fn restore(_: &mut dyn Iterator<Item = Vec<u8>>) -> Result<Self, CorruptSnapshot> {
        Ok(Self::default())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_counts_as_shown_before_anything_of_it_can_be_seen() {
    let cluster = Cluster::start(1, GroupSettings::SMALL).await;
    let machine = Seen::default();
    let opening = cluster.host(FIRST).group(PAIR, machine.clone(), GroupSettings::SMALL);
    let group = opening.await.unwrap();
    machine.group.set(group.clone()).ok().unwrap();
    group.bootstrap([FIRST].into()).await.unwrap();
    let mut watch = group.watch();
    drop(watch.wait_for(|status| status.role == Role::Leader).await.unwrap());
    let ((), index) = group.propose_indexed("seen".into(), deadline()).await.unwrap();
    assert_eq!(group.shown_index(), Some(index));
}
