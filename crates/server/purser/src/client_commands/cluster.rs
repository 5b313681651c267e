//! `purser cluster`: the groups of a cluster, and changing who leads them and who takes part.

use std::collections::BTreeSet;

use clap::{Args, Subcommand};
use purser_api::{
    ClusterAnswer, GroupAnswer, GroupNumber, LeaderRequest, NodeNumber, Voters, VotersRequest,
};

use super::connection::Service;
use super::tables::{self, Column};
use crate::failure::CommandError;
use crate::output::Output;

/// Show the groups of the cluster, as the node that is asked sees them, or change them.
#[derive(Debug, Args)]
pub(crate) struct Cluster {
    #[command(subcommand)]
    action: Option<ClusterAction>,
}

/// A change of one group. Each says what shall be, so it may be said again.
#[derive(Debug, Subcommand)]
enum ClusterAction {
    /// Hand a group's leadership to a voter that lacks nothing.
    Transfer(Member),
    /// Make a node get a group's log, without voting.
    AddLearner(Member),
    /// Say who votes in a group; voters that are not named leave it.
    SetVoters(Electorate),
}

/// A node in a group.
#[derive(Debug, Args)]
struct Member {
    /// The group's number.
    group: GroupNumber,
    /// The node's number.
    node: NodeNumber,
}

/// All voters of a group.
#[derive(Debug, Args)]
struct Electorate {
    /// The group's number.
    group: GroupNumber,
    /// All nodes that vote from now on. New ones must be learners that have caught up.
    #[arg(required = true, num_args = 1..=Voters::MAX, value_name = "NODE")]
    nodes: Vec<NodeNumber>,
}

/// Asks for the groups, or changes one.
pub(super) async fn run(
    args: Cluster,
    service: &Service,
    output: &Output,
) -> Result<(), CommandError> {
    let (cluster, call) = (service.admin().cluster(), service.read());
    let changed = match args.action {
        None => {
            let cluster = service.found(cluster.groups(&call).await)?;
            return Ok(output.answer(&cluster, show_cluster)?);
        }
        Some(ClusterAction::Transfer(Member { group, node })) => {
            cluster.set_leader(group, &LeaderRequest { node }, &call).await
        }
        Some(ClusterAction::AddLearner(Member { group, node })) => {
            cluster.add_learner(group, node, &call).await
        }
        Some(ClusterAction::SetVoters(Electorate { group, nodes })) => {
            let voters = Voters::from_nodes(nodes.into_iter().collect());
            let voters = voters.map_err(|error| CommandError::Usage(error.to_string()))?;
            cluster.set_voters(group, &VotersRequest { voters }, &call).await
        }
    };
    output.answer(&service.said(changed)?, |group| show_groups([group]))?;
    Ok(())
}

fn show_cluster(cluster: &ClusterAnswer) -> String {
    show_groups(&cluster.groups)
}

fn show_groups<'a>(groups: impl IntoIterator<Item = &'a GroupAnswer>) -> String {
    let columns = [
        Column::Number("GROUP"),
        Column::Text("ROLE"),
        Column::Number("TERM"),
        Column::Number("LEADER"),
        Column::Number("COMMITTED"),
        Column::Number("APPLIED"),
        Column::Text("VOTERS"),
        Column::Text("LEARNERS"),
    ];
    tables::table(
        &columns,
        groups.into_iter().map(|group| {
            vec![
                group.group.to_string(),
                group.role.to_string(),
                group.term.to_string(),
                tables::or_none(group.leader),
                group.committed_index.to_string(),
                group.applied_index.to_string(),
                nodes(&group.voters),
                nodes(&group.learners),
            ]
        }),
    )
}

fn nodes(nodes: &BTreeSet<NodeNumber>) -> String {
    nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}
