//! Whole nodes in one process, talking over loopback, with real files.

#[cfg(test)]
mod calls;
#[cfg(test)]
mod counters;
#[cfg(test)]
mod distance;
#[cfg(test)]
mod folder;
#[cfg(test)]
mod groups;
#[cfg(test)]
mod regions;
#[cfg(test)]
mod support;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use purser_raft::{
    ClockVerdict, GroupSettings, GroupStatus, NodeId, ProposeError, ReadError, Role,
    TOLERANCE_MICROS,
};
use purser_types::Span;
use tokio::task::JoinSet;

use counters::add;
use support::{Cluster, deadline};

/// A snapshot every few dozen entries, and little kept behind it.
const FREQUENT_SNAPSHOTS: GroupSettings = GroupSettings {
    snapshot_log_bytes: 64 << 10,
    keep_log_bytes: 16 << 10,
    cache_log_bytes: 16 << 10,
    history_segment_bytes: 32 << 10,
    ..GroupSettings::SMALL
};

const ALL: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];

/// Soon enough for an answer that can not come.
fn soon() -> Instant {
    Instant::now() + Duration::from_millis(300)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_answered_is_on_every_node_and_survives_a_kill_of_all() {
    let mut cluster = Cluster::with_voters(3, GroupSettings::SMALL).await;
    for number in 1..=50 {
        let changed = cluster.add("a", 1, 0).await;
        assert_eq!(changed.value, number);
    }
    cluster.converge().await;
    cluster.check_equal();

    for id in ALL {
        cluster.kill(id).await;
    }
    for id in ALL {
        cluster.restart(id).await;
    }
    assert_eq!(cluster.add("a", 1, 0).await.value, 51);
    cluster.end_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stamps_never_go_down_when_leadership_moves() {
    let owned = Cluster::with_voters(3, GroupSettings::SMALL).await;
    let cluster = &owned;
    // Each next leader's clock is behind the one before, though all are good. The folders are
    // looked at in the end: they have the stamps as the leaders gave them.
    let mut last = cluster.add("a", 1, 0).await.at;
    for round in 1..=3 {
        let leader = cluster.leader().await;
        let next = ALL.into_iter().find(|id| *id != leader).unwrap();
        cluster.node(next).clock.set_ahead_by(-round);
        cluster.group(leader).transfer_leadership(next, deadline()).await.unwrap();
        cluster.wait_for(next, "leads", |status| status.role == Role::Leader).await;
        let at = cluster.add("a", 1, 0).await.at;
        assert!(at >= last, "{at:?} is before {last:?}");
        last = at;
        // And a clock that is set back between two entries in flight.
        let group = cluster.group(next);
        let many = (0..10).map(|number| async move {
            cluster.node(next).clock.set_ahead_by(-round - number % 2);
            group.propose(add("a", 1, 70_000), deadline()).await.unwrap()
        });
        for changed in futures_util::future::join_all(many).await {
            last = last.max(changed.at);
        }
    }
    owned.end_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_left_behind_gets_the_snapshot_and_the_history_it_lacks() {
    let mut cluster = Cluster::with_voters(3, FREQUENT_SNAPSHOTS).await;
    for number in 0..20 {
        cluster.add(&format!("early-{}", number % 3), 1, 100).await;
    }
    cluster.converge().await;
    let leader = cluster.leader().await;
    let behind = ALL.into_iter().find(|id| *id != leader).unwrap();
    let had = cluster.group(behind).status();
    cluster.kill(behind).await;

    let mut number = 0;
    while cluster.group(cluster.leader().await).status().purged_index <= had.last_index {
        cluster.add(&format!("late-{}", number % 7), 1, 2_000).await;
        number += 1;
        assert!(number < 5_000, "the log was never purged");
    }
    cluster.restart(behind).await;
    cluster.converge().await;
    cluster.check_equal();
    let has = cluster.group(behind).status();
    assert!(has.snapshot_index > had.last_index, "it came by a snapshot");
    assert_eq!(has.history_bytes, cluster.group(leader).status().history_bytes);

    // And what it got survives on its own disk.
    cluster.kill(behind).await;
    cluster.restart(behind).await;
    cluster.end_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_has_lost_its_storage_gets_everything_again_from_the_leader_that_knew_it() {
    let mut cluster = Cluster::with_voters(3, GroupSettings::SMALL).await;
    cluster.add("a", 1, 0).await;
    cluster.converge().await;
    let leader = cluster.leader().await;
    let emptied = NodeId(leader.0 % 3 + 1);
    cluster.kill(emptied).await;
    cluster.empty(emptied);
    cluster.restart(emptied).await;
    cluster.add("a", 1, 0).await;
    cluster.converge().await;
    cluster.end_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_learner_catches_up_and_becomes_a_voter() {
    let cluster = Cluster::start(4, GroupSettings::SMALL).await;
    cluster.group(NodeId(1)).bootstrap(ALL.into()).await.unwrap();
    for id in ALL {
        // Again, and by others: the same group.
        cluster.group(id).bootstrap(ALL.into()).await.unwrap();
    }
    cluster.add("a", 1, 0).await;
    let leader = cluster.leader_among(&ALL).await;
    let group = cluster.group(leader);
    group.add_learner(NodeId(4), deadline()).await.unwrap();
    let learned = |status: &GroupStatus| status.learners.contains(&NodeId(4));
    cluster.wait_for(NodeId(4), "is a learner", learned).await;
    cluster.converge().await;

    let voters: BTreeSet<NodeId> = [leader, NodeId(4)].into();
    group.change_membership(voters.clone(), deadline()).await.unwrap();
    cluster.wait_for(NodeId(4), "votes", |status| status.voters == voters).await;
    cluster.add("a", 1, 0).await;
    cluster.wait_for(NodeId(4), "follows", |status| status.role == Role::Follower).await;
    assert_eq!(cluster.group(NodeId(4)).status().voters, voters);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deposed_leader_answers_neither_reads_nor_changes() {
    let cluster = Cluster::with_voters(3, GroupSettings::SMALL).await;
    cluster.add("a", 1, 0).await;
    let old = cluster.leader().await;
    let proposed = cluster.group(old).status().proposed_entries;
    cluster.isolate(old);
    let group = cluster.group(old).clone();
    let mut left_behind = JoinSet::new();
    left_behind.spawn(async move { group.propose(add("a", 1, 0), deadline()).await });
    let is_left = |status: &GroupStatus| status.proposed_entries > proposed;
    cluster.wait_for(old, "proposes to nobody", is_left).await;
    assert!(cluster.group(old).read_barrier(soon()).await.is_err());

    let others: Vec<NodeId> = ALL.into_iter().filter(|id| *id != old).collect();
    assert_eq!(cluster.add_among(&others, "b", 5, 0).await.value, 5);
    assert!(cluster.group(old).read_barrier(soon()).await.is_err(), "the old one must not answer");
    assert_eq!(cluster.group(old).view(|machine, _| machine.value("b")), 0);

    cluster.heal(old);
    cluster.wait_for(old, "steps down", |status| status.role == Role::Follower).await;
    let refused = cluster.group(old).propose(add("a", 1, 0), deadline()).await;
    assert!(matches!(refused, Err(ProposeError::NotLeader { .. })), "{refused:?}");
    let refused = cluster.group(old).read_barrier(deadline()).await;
    assert!(matches!(refused, Err(ReadError::NotLeader { .. })), "{refused:?}");
    let answered = left_behind.try_join_next();
    assert!(answered.is_none(), "nobody can say what became of it: {answered:?}");
    cluster.end_equal().await;
    let outcome = left_behind.join_next().await.unwrap().unwrap();
    assert_eq!(outcome, Err(ProposeError::OutcomeUnknown));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_clock_runs_ahead_does_not_stamp() {
    let cluster = Cluster::with_voters(3, GroupSettings::SMALL).await;
    let wrong = cluster.leader().await;
    let before = cluster.add("a", 1, 0).await.at;
    cluster.node(wrong).clock.set_ahead_by(3_600);
    let is_ahead = |status: &GroupStatus| status.clock == ClockVerdict::Ahead;
    cluster.wait_for(wrong, "finds its clock ahead", is_ahead).await;
    let now = cluster.group(wrong).now();
    assert!(now.since(before).as_secs() < 600, "the wrong clock is not read from either: {now:?}");
    let refused = cluster.group(wrong).propose(add("a", 1, 0), deadline()).await.unwrap_err();
    let expected = matches!(refused, ProposeError::ClockAhead | ProposeError::NotLeader { .. });
    assert!(expected, "{refused}");

    let others: Vec<NodeId> = ALL.into_iter().filter(|id| *id != wrong).collect();
    let after = cluster.add_among(&others, "a", 1, 0).await.at;
    let apart = after.since(before);
    let tolerance = Span::from_micros(TOLERANCE_MICROS.unsigned_abs()).as_secs();
    assert!(apart.as_secs() < 600 + tolerance, "the wrong clock stamped: {apart:?}");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_refuses_at_once() {
    let settings = GroupSettings { queue_commands: 1, ..GroupSettings::SMALL };
    let cluster = Cluster::with_voters(3, settings).await;
    let leader = cluster.leader().await;
    cluster.isolate(leader);
    let group = cluster.group(leader);
    // Two entries are in flight, one command waits; of so many more, some find the queue full.
    let many = (0..20).map(|_| group.propose(add("a", 1, 0), soon()));
    let outcomes = futures_util::future::join_all(many).await;
    assert!(outcomes.contains(&Err(ProposeError::Overloaded)), "{outcomes:?}");
    assert!(outcomes.iter().all(Result::is_err));
    cluster.heal(leader);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_caller_gets_the_answer_to_its_own_command() {
    let cluster = Cluster::with_voters(3, GroupSettings::SMALL).await;
    cluster.add("warm", 1, 0).await;
    let group = cluster.group(cluster.leader().await);
    let before = group.status();
    let many = (1..=200).map(|amount| async move {
        let changed = group.propose(add(&format!("name-{amount}"), amount, 0), deadline()).await;
        assert_eq!(changed.unwrap().value, amount);
    });
    futures_util::future::join_all(many).await;
    let after = group.status();
    assert_eq!(after.proposed_commands - before.proposed_commands, 200);
    assert!(after.proposed_entries - before.proposed_entries < 200, "none shared an entry");
    cluster.end_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_command_reaches_every_node() {
    let cluster = Cluster::with_voters(3, GroupSettings::SMALL).await;
    cluster.add("a", 1, 0).await;
    let group = cluster.group(cluster.leader().await);
    let refused = group.propose(add("a", 1, 4 << 20), deadline()).await.unwrap_err();
    let ProposeError::TooLarge { max } = refused else {
        panic!("not refused for its size: {refused}");
    };
    assert_eq!(max, 4 << 20);
    let padding = max - add("a", 1, 0).len();
    assert_eq!(add("a", 1, padding).len(), max);
    assert_eq!(cluster.add("a", 1, padding).await.value, 2);
    cluster.end_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_command_is_lost_or_doubled_while_leadership_is_handed_over() {
    let cluster = Cluster::with_voters(3, GroupSettings::SMALL).await;
    cluster.add("a", 1, 0).await;
    let leader = cluster.leader().await;
    let next = ALL.into_iter().find(|id| *id != leader).unwrap();
    let group = cluster.group(leader);
    let proposing = async {
        let mut made = 1;
        loop {
            match group.propose(add("a", 1, 0), deadline()).await {
                Ok(changed) => made = changed.value,
                // Nothing happened, and this was the last one.
                Err(ProposeError::NotLeader { .. }) => return made,
                Err(error) => panic!("a command was left behind: {error}"),
            }
        }
    };
    let (made, handed_over) = tokio::join!(proposing, group.transfer_leadership(next, deadline()));
    handed_over.unwrap();
    assert_eq!(cluster.add("a", 1, 0).await.value, made + 1);
    cluster.end_equal().await;
}
