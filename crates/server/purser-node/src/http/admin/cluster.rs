//! The node's groups: who leads, who votes, how far they are; and changing that.
//!
//! Changes are statements of what shall be, so repeating one changes nothing, and they carry no
//! idempotency key. Each concerns one group and is made by its leader, wherever it was asked for.

use std::collections::BTreeSet;

use purser_api::{
    ClockState, ClusterAnswer, GroupAnswer, GroupNumber, GroupRole, LeaderRequest, NodeNumber,
    ProblemCode as Code, VotersRequest, paths,
};
use purser_ledger::Ledger;
use purser_raft::{ChangeError, ClockVerdict, Group, GroupId, NodeId, Role};

use crate::http::call::Call;
use crate::http::describe::{Description, Tag};
use crate::http::operation::Operation;
use crate::http::problem::{NotDone, Refusal};
use crate::http::reply::Reply;
use crate::http::routes::{Access, Handled, Routes, Verb};

/// Declares the calls.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    let change = |summary| {
        Description::new(Access::CLUSTER, Tag::Cluster, summary)
            .answers::<GroupAnswer>(200)
            .refuses(&[Code::OutcomeUnknown, Code::NotFound, Code::ChangeRefused])
    };
    routes
        .call(
            (Verb::Get, paths::ADMIN_CLUSTER),
            Operation::GetCluster,
            Description::new(
                Access::CLUSTER_READ,
                Tag::Cluster,
                "Shows the groups as the asked node sees them.",
            )
            .answers::<ClusterAnswer>(200),
            get,
        )
        .call(
            (Verb::Put, paths::ADMIN_GROUP_LEARNER),
            Operation::AddLearner,
            change("Makes a node of the configuration get a group's log, without voting."),
            add_learner,
        )
        .call(
            (Verb::Put, paths::ADMIN_GROUP_VOTERS),
            Operation::SetVoters,
            change(
                "Says who votes in a group. New voters must be learners that have caught up; \
                      voters that are not named leave the group.",
            )
            .body::<VotersRequest>(),
            set_voters,
        )
        .call(
            (Verb::Put, paths::ADMIN_GROUP_LEADER),
            Operation::SetLeader,
            change("Hands a group's leadership to a voter that lacks nothing.")
                .body::<LeaderRequest>(),
            set_leader,
        )
}

/// One group as this node sees it.
fn show(group: &Group<Ledger>) -> GroupAnswer {
    let status = group.status();
    let count = |index: Option<u64>| index.map_or(0, |index| index.saturating_add(1));
    let numbers = |nodes: &BTreeSet<NodeId>| nodes.iter().copied().map(number_of).collect();
    let lag = status.lag_entries.iter().map(|(node, lag)| (number_of(*node), *lag));
    GroupAnswer {
        group: GroupNumber(group.id().0),
        role: role(status.role),
        term: status.term,
        leader: status.leader.map(number_of),
        last_index: count(status.last_index),
        committed_index: count(status.committed_index),
        applied_index: count(status.applied_index),
        snapshot_index: count(status.snapshot_index),
        voters: numbers(&status.voters),
        learners: numbers(&status.learners),
        lag_entries: lag.collect(),
        clock: clock(status.clock),
    }
}

const fn number_of(node: NodeId) -> NodeNumber {
    NodeNumber(node.0)
}

const fn role(role: Role) -> GroupRole {
    match role {
        Role::Learner => GroupRole::Learner,
        Role::Follower => GroupRole::Follower,
        Role::Candidate => GroupRole::Candidate,
        Role::Leader => GroupRole::Leader,
        Role::Stopped => GroupRole::Stopped,
    }
}

const fn clock(verdict: ClockVerdict) -> ClockState {
    match verdict {
        ClockVerdict::Good => ClockState::Good,
        ClockVerdict::Ahead => ClockState::Ahead,
        ClockVerdict::Behind => ClockState::Behind,
    }
}

async fn get(call: Call) -> Handled {
    let groups = call.api.groups().all().iter();
    let answer = ClusterAnswer {
        cluster: call.api.cluster().as_str().to_owned(),
        region: (*call.api.region()).into(),
        node: number_of(call.api.node()),
        groups: groups.map(show).collect(),
    };
    Ok(Reply::read(&answer)?)
}

async fn add_learner(call: Call) -> Handled {
    let group = named_group(&call)?;
    let node: NodeNumber = call.id("node")?;
    let node = NodeId(node.0);
    // A learner is not removed again but by making it a voter, which a node that nobody can reach
    // never becomes. So a slip of the pen must not get in.
    if !call.api.knows(node) {
        let detail = "the configuration of the asked node does not name this node";
        return Err(Refusal::new(Code::NotFound, detail).into());
    }
    change(&call, group, || group.add_learner(node, call.meta.deadline)).await
}

async fn set_voters(call: Call) -> Handled {
    let group = named_group(&call)?;
    let request: VotersRequest = call.json()?;
    let voters: BTreeSet<NodeId> =
        request.voters.nodes().iter().map(|node| NodeId(node.0)).collect();
    change(&call, group, || group.change_membership(voters.clone(), call.meta.deadline)).await
}

async fn set_leader(call: Call) -> Handled {
    let group = named_group(&call)?;
    let request: LeaderRequest = call.json()?;
    let node = NodeId(request.node.0);
    let status = group.status();
    if status.leader == Some(node) && status.role == Role::Leader {
        return Ok(Reply::read(&show(group))?);
    }
    change(&call, group, || async {
        group.transfer_leadership(node, call.meta.deadline).await?;
        // The old leader has stepped down; whether the named node has won is known when it is seen
        // to lead. If that takes too long, the answer shows how far it has come.
        let mut status = group.watch();
        let leads = status.wait_for(|status| status.leader == Some(node));
        match tokio::time::timeout_at(call.meta.deadline.into(), leads).await {
            Ok(Ok(_)) | Err(_) => Ok(()),
            Ok(Err(_)) => Err(ChangeError::OutcomeUnknown),
        }
    })
    .await
}

/// Makes a change on the group's leader.
async fn change<F, Fut>(call: &Call, group: &Group<Ledger>, make: F) -> Handled
where
    F: Fn() -> Fut,
    Fut: Future<Output = Result<(), ChangeError>>,
{
    loop {
        match make().await {
            Ok(()) => return Ok(Reply::read(&show(group))?),
            Err(ChangeError::NotLeader { leader }) => {
                call.elsewhere(group, leader, call.effect).await?;
            }
            Err(error) => return Err(NotDone::from(Refusal::of_change(&error))),
        }
    }
}

fn named_group(call: &Call) -> Result<&Group<Ledger>, Refusal> {
    let number: GroupNumber = call.id("group")?;
    let group = call.api.groups().numbered(GroupId(number.0));
    group.ok_or_else(|| Refusal::new(Code::NotFound, "there is no such group"))
}
