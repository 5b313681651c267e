//! `purser audit`: proves the ledgers in stopped nodes' data folders, without a server.
//!
//! ```text
//!  folders ──▶ files: every byte of every file
//!     │
//!     └──▶ group by group:  history ──▶ fold ──┐
//!                           snapshot + log ──▶ live state ──▶ equal, lot by lot?
//!                           live state of every node at one index ──▶ equal?
//! ```
//!
//! The proof rests on the entries alone: sequence without holes, hash chain, moves that explain
//! every balance, nothing negative ([`purser_ledger::audit`]). The live state is only compared with
//! what they add up to.
//!
//! Invariant: nothing in the folders is changed, by the audit or by a node that starts meanwhile. A
//! folder that a node is using is refused. Only one without a lock file, as a copy may be, cannot be
//! kept from nodes; the report says so.

mod folders;
mod group;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use purser_raft::offline::{self, OfflineError, OfflineNode, ReadLock};
use purser_raft::{ClusterId, GroupId};

use self::folders::FolderError;
use self::group::{GroupAudit, in_full};
use self::report::{AuditReport, NodeReport};
use crate::failure::CommandError;
use crate::output::Output;

/// Check the data folders of stopped nodes: every byte, every entry, every balance.
///
/// Give all nodes of a cluster to have their states compared with each other. Nothing in the
/// folders is changed, and no node can start on them meanwhile; the report names the folders without
/// a lock file, for which the latter is not sure. Exits with 1 if anything is found, or if a node is
/// using one of them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Data folders of nodes, or folders that hold several of them.
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
}

/// Why an audit could not be carried out. What it finds is not among it: that is a result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuditError {
    /// There is nothing to audit, or the disk refuses.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A folder cannot be read at all.
    #[error("{} could not be checked", dir.display())]
    Check {
        /// The folder.
        dir: PathBuf,
        /// Why.
        #[source]
        source: OfflineError,
    },
}

/// A folder whose files could be opened.
struct OpenedNode {
    dir: PathBuf,
    node: OfflineNode,
    groups: BTreeSet<GroupId>,
}

impl OpenedNode {
    fn open(dir: PathBuf) -> Result<Self, OfflineError> {
        let node = OfflineNode::open(&dir)?;
        let groups = node.groups()?;
        Ok(Self { dir, node, groups })
    }
}

/// Audits the folders.
pub(crate) async fn run(args: Args, output: &Output) -> Result<(), CommandError> {
    let report = audit(&args.dirs, output)
        .map_err(|error| CommandError::broken("the audit was not carried out", error))?;
    output.answer(&report, AuditReport::render)?;
    match report.findings_count() {
        0 => Ok(()),
        1 => Err(CommandError::Failed("the audit found one thing".to_owned())),
        count => Err(CommandError::Failed(format!("the audit found {count} things"))),
    }
}

fn audit(dirs: &[PathBuf], output: &Output) -> Result<AuditReport, AuditError> {
    let mut report = AuditReport::default();
    let mut nodes = Vec::new();
    let folders = folders::nodes_in(dirs)?;
    let locks = lock_all(&folders)?;
    let progress = output.progress("folders checked", u64::try_from(folders.len()).ok());
    for (dir, lock) in folders.into_iter().zip(&locks) {
        let checked = offline::check(&dir)
            .map_err(|source| AuditError::Check { dir: dir.clone(), source })?;
        let mut node_report = NodeReport::new(&dir, &checked);
        if !lock.holds() {
            node_report.add_note("it has no lock file, so a node may have started on it meanwhile");
        }
        match OpenedNode::open(dir) {
            Ok(opened) => {
                node_report.identify(&opened.node);
                if opened.groups.is_empty() {
                    node_report.add_note("it has no groups, so there is nothing to prove");
                }
                nodes.push(opened);
            }
            Err(error) => {
                node_report.add_finding(format!("a node would refuse it: {}", in_full(&error)));
            }
        }
        report.nodes.push(node_report);
        progress.advance(1);
    }
    progress.finish(format_args!("{} nodes", report.nodes.len()));
    for ((cluster, group), having) in by_group(&nodes) {
        let label = format!("group {group}");
        let progress = output.progress(&label, None);
        let mut audited = GroupAudit { cluster, group, nodes: having }.carry_out(&progress);
        for without in nodes.iter().filter(|opened| opened.node.cluster() == cluster) {
            if !without.groups.contains(&group) {
                let node = without.node.node();
                audited.notes.push(format!("node {node} does not have the group"));
            }
        }
        progress.finish(audited.verdict());
        report.groups.push(audited);
    }
    Ok(report)
}

/// Keeps nodes from all folders, before the first of them is read; in the order of the folders.
fn lock_all(folders: &BTreeSet<PathBuf>) -> Result<Vec<ReadLock>, AuditError> {
    let lock = |dir: &PathBuf| {
        let locked = offline::read_lock(dir);
        locked.map_err(|source| AuditError::Check { dir: dir.clone(), source })
    };
    folders.iter().map(lock).collect()
}

/// The groups of all nodes, each with the nodes that have it.
fn by_group(nodes: &[OpenedNode]) -> BTreeMap<(ClusterId, GroupId), Vec<&OpenedNode>> {
    let mut groups: BTreeMap<_, Vec<&OpenedNode>> = BTreeMap::new();
    for opened in nodes {
        for group in &opened.groups {
            groups.entry((opened.node.cluster(), *group)).or_default().push(opened);
        }
    }
    groups
}

#[cfg(test)]
mod tests;
