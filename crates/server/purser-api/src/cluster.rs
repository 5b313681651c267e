//! The cluster: its groups as a node sees them, and changing who votes and who leads.
//!
//! A change says what shall be, so repeating it changes nothing, and it carries no idempotency key.
//! Numbers of nodes, groups, terms and entries are JSON numbers: none of them is an amount, and none
//! comes near the 2^53 that every reader of JSON can hold.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::spelled::{InvalidText, read_digits, spelled_enum};
use crate::text::RegionName;

/// The most groups of a cluster, and so the end of every list of groups.
pub const GROUPS_MAX: u32 = 1_024;

/// The number of a node, unique in its cluster.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(transparent)]
#[schema(value_type = u64)]
pub struct NodeNumber(pub u64);

/// The number of a group, from 0: one for each shard.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(transparent)]
#[schema(value_type = u32)]
pub struct GroupNumber(pub u32);

spelled_enum! {
    /// What a node is in a group.
    GroupRole, "what a node is in a group" {
        /// It decides, and sends its log to the others.
        Leader "leader",
        /// It votes and gets the leader's log.
        Follower "follower",
        /// It asks the others to make it the leader.
        Candidate "candidate",
        /// It gets the log without voting.
        Learner "learner",
        /// The group no longer runs on this node.
        Stopped "stopped",
    }
}

spelled_enum! {
    /// What a node's clock is worth, against the clocks of its group.
    ClockState, "the state of a clock" {
        /// It may stamp entries.
        Good "good",
        /// It is too far ahead, so it stamps nothing.
        Ahead "ahead",
        /// It is behind; the node hands leadership over when it can.
        Behind "behind",
    }
}

/// The node's groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterAnswer {
    /// The cluster's name.
    pub cluster: String,
    /// The node's region.
    pub region: RegionName,
    /// The node that was asked.
    pub node: NodeNumber,
    /// Its groups, as it sees them.
    #[schema(max_items = 1_024)]
    pub groups: Vec<GroupAnswer>,
}

/// One group as a node sees it. Indexes count the entries of its log from 1; 0 is before the first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupAnswer {
    /// The group's number.
    pub group: GroupNumber,
    /// What the node is in it.
    pub role: GroupRole,
    /// The group's term.
    pub term: u64,
    /// Who leads; `null` if the node does not know.
    pub leader: Option<NodeNumber>,
    /// The last entry in the node's log.
    pub last_index: u64,
    /// The last entry that it knows to be committed.
    pub committed_index: u64,
    /// The last entry that it has applied.
    pub applied_index: u64,
    /// The last entry in its last snapshot.
    pub snapshot_index: u64,
    /// Who votes.
    pub voters: BTreeSet<NodeNumber>,
    /// Who gets the log without voting. Only nodes that the leader's configuration names are added,
    /// so the list ends with it.
    pub learners: BTreeSet<NodeNumber>,
    /// How many entries the other nodes lack, by node; only the leader knows.
    #[schema(value_type = BTreeMap<String, u64>)]
    pub lag_entries: BTreeMap<NodeNumber, u64>,
    /// What the node's clock is worth.
    pub clock: ClockState,
}

/// Says who votes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VotersRequest {
    /// All that vote from now on.
    pub voters: Voters,
}

/// Says who leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaderRequest {
    /// The node.
    pub node: NodeNumber,
}

/// The voters of a group: at least one, at most nine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "BTreeSet<NodeNumber>", into = "BTreeSet<NodeNumber>")]
#[schema(value_type = BTreeSet<NodeNumber>, min_items = 1, max_items = 9)]
pub struct Voters(BTreeSet<NodeNumber>);

/// Nobody would vote, or too many would.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a group has from 1 to {} voters", Voters::MAX)]
pub struct InvalidVoters;

impl Voters {
    /// The most voters. Nine bear the loss of four; each further one only makes every commit wait
    /// for more nodes. What shall read and not vote is a learner.
    pub const MAX: usize = 9;

    /// Checks how many there are.
    pub fn from_nodes(nodes: BTreeSet<NodeNumber>) -> Result<Self, InvalidVoters> {
        if (1..=Self::MAX).contains(&nodes.len()) { Ok(Self(nodes)) } else { Err(InvalidVoters) }
    }

    /// The nodes.
    pub const fn nodes(&self) -> &BTreeSet<NodeNumber> {
        &self.0
    }
}

impl TryFrom<BTreeSet<NodeNumber>> for Voters {
    type Error = InvalidVoters;

    fn try_from(nodes: BTreeSet<NodeNumber>) -> Result<Self, InvalidVoters> {
        Self::from_nodes(nodes)
    }
}

impl From<Voters> for BTreeSet<NodeNumber> {
    fn from(voters: Voters) -> Self {
        voters.0
    }
}

impl fmt::Display for NodeNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

impl fmt::Display for GroupNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

impl FromStr for NodeNumber {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        let number = read_digits(text).map(Self);
        number.ok_or_else(|| InvalidText("expected a node's number, such as 1".to_owned()))
    }
}

impl FromStr for GroupNumber {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        let number = read_digits(text).and_then(|number| u32::try_from(number).ok()).map(Self);
        number.ok_or_else(|| InvalidText("expected a group's number, such as 0".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_one_to_nine_voters() {
        let voters = |count| Voters::from_nodes((1..=count).map(NodeNumber).collect());
        assert_eq!(voters(0), Err(InvalidVoters));
        assert!(voters(1).is_ok() && voters(9).is_ok());
        assert_eq!(voters(10), Err(InvalidVoters));
        assert!(serde_json::from_str::<VotersRequest>(r#"{"voters":[]}"#).is_err());
    }

    #[test]
    fn a_number_in_a_path_has_one_spelling() {
        assert_eq!("0".parse(), Ok(GroupNumber(0)));
        assert_eq!("18446744073709551615".parse(), Ok(NodeNumber(u64::MAX)));
        for odd in ["", "+1", "-1", "01", "1.0", "4294967296"] {
            assert!(odd.parse::<GroupNumber>().is_err(), "{odd:?}");
        }
    }
}
