//! The Raft groups of a node: one for each shard, each hosting a ledger.

use std::collections::BTreeSet;

use purser_ledger::{AccountName, Ledger};
use purser_raft::{ChangeError, Group, GroupId, GroupStatus, Host, NodeId, OpenError, Role};

use crate::restoring::Gate;
use crate::settings::NodeSettings;
use crate::shards::{Shard, ShardCount};

/// All groups, by shard. Clones are the same groups.
#[derive(Clone)]
pub(crate) struct Groups {
    shards: ShardCount,
    groups: Vec<Group<Ledger>>,
    gate: Gate,
}

/// Why the groups could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum GroupsError {
    /// One could not be opened.
    #[error("group {group} could not be opened")]
    Open {
        /// Which.
        group: GroupId,
        /// Why.
        #[source]
        source: OpenError,
    },
    /// One could not be founded.
    #[error("group {group} could not be founded")]
    Bootstrap {
        /// Which.
        group: GroupId,
        /// Why.
        #[source]
        source: ChangeError,
    },
    /// The system gave no randomness.
    #[error("the system gives no randomness")]
    NoRandomness(#[source] getrandom::Error),
}

impl Groups {
    /// Opens the groups; founds those that have no members yet, if the settings say so. They may be used
    /// once the gate is open.
    pub(crate) async fn open(
        host: &Host,
        settings: &NodeSettings,
        gate: Gate,
    ) -> Result<Self, GroupsError> {
        let peers = settings.peers.iter().filter(|(_, peer)| peer.region == settings.region);
        let peers = peers.map(|(node, _)| *node);
        let voters: BTreeSet<NodeId> = peers.chain([settings.node]).collect();
        let mut groups = Vec::new();
        for id in settings.region_number().groups(settings.shards) {
            let group = host.group(id, Ledger::default(), settings.group).await;
            let group = group.map_err(|source| GroupsError::Open { group: id, source })?;
            if settings.bootstrap {
                let founded = group.bootstrap(voters.clone()).await;
                founded.map_err(|source| GroupsError::Bootstrap { group: id, source })?;
            }
            groups.push(group);
        }
        Ok(Self { shards: settings.shards, groups, gate })
    }

    /// Those of a router, which hosts none.
    pub(crate) fn none(shards: ShardCount) -> Self {
        Self { shards, groups: Vec::new(), gate: Gate::new(true) }
    }

    /// Whether they may be used: not before they have begun another life, if the node was restored.
    pub(crate) fn are_open(&self) -> bool {
        self.gate.is_open()
    }

    /// The group that an account belongs to. Nothing asks a router for one.
    pub(crate) fn of(&self, account: &AccountName) -> &Group<Ledger> {
        self.of_shard(self.shards.shard_of(account)).expect("there is a group for each shard")
    }

    /// The shard that an account belongs to, here and in every other region.
    pub(crate) fn shard_of(&self, account: &AccountName) -> Shard {
        self.shards.shard_of(account)
    }

    /// The group of a shard.
    pub(crate) fn of_shard(&self, Shard(shard): Shard) -> Option<&Group<Ledger>> {
        self.groups.get(usize::try_from(shard).ok()?)
    }

    /// The group with a number.
    pub(crate) fn numbered(&self, id: GroupId) -> Option<&Group<Ledger>> {
        self.groups.iter().find(|group| group.id() == id)
    }

    /// The shards and their groups.
    pub(crate) fn by_shard(&self) -> impl Iterator<Item = (Shard, &Group<Ledger>)> {
        (0..).map(Shard).zip(&self.groups)
    }

    /// All groups.
    pub(crate) fn all(&self) -> &[Group<Ledger>] {
        &self.groups
    }

    /// Resolves when every group is ready, and may be used.
    pub(crate) async fn ready(&self) {
        self.gate.opened().await;
        for group in &self.groups {
            let mut status = group.watch();
            if status.wait_for(is_ready).await.is_err() {
                // The group has stopped for good: it will not be ready.
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Whether a group knows its leader, and this node has applied all that it knows to be committed.
pub(crate) fn is_ready(status: &GroupStatus) -> bool {
    status.role != Role::Stopped
        && status.leader.is_some()
        && status.committed_index <= status.applied_index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_ready_with_a_leader_and_everything_applied() {
        let ready = GroupStatus {
            role: Role::Follower,
            leader: Some(NodeId(2)),
            committed_index: Some(7),
            applied_index: Some(7),
            ..GroupStatus::default()
        };
        assert!(is_ready(&ready));
        assert!(!is_ready(&GroupStatus { leader: None, ..ready.clone() }));
        assert!(!is_ready(&GroupStatus { applied_index: Some(6), ..ready.clone() }));
        assert!(!is_ready(&GroupStatus { role: Role::Stopped, ..ready }));
    }
}
