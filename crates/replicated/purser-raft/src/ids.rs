//! Names of nodes, groups and clusters, as consensus knows them.

use std::fmt;

/// A node. Unique in its cluster and never used again for another data folder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

/// A Raft group: one replicated log, one machine, one history. The same number on every node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

/// A cluster: 16 random bytes, written as 32 hexadecimal digits.
///
/// Every file and every connection names it, so that a folder or a node of another cluster is
/// refused instead of mixed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId([u8; 16]);

/// The text is not a cluster's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must have 32 hexadecimal digits")]
pub struct ClusterIdError;

impl ClusterId {
    /// The cluster with these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// A name that no other cluster has.
    ///
    /// Errors if the system has no randomness to give.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        Ok(Self(bytes))
    }

    /// Reads 32 hexadecimal digits.
    pub fn parse(text: &str) -> Result<Self, ClusterIdError> {
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(ClusterIdError);
        }
        let number = u128::from_str_radix(text, 16).map_err(|_invalid| ClusterIdError)?;
        Ok(Self(number.to_be_bytes()))
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// The store suite of openraft makes its nodes from numbers.
#[cfg(test)]
impl From<u64> for NodeId {
    fn from(number: u64) -> Self {
        Self(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_reads_back_as_it_is_written() {
        let cluster = ClusterId::random().unwrap();
        assert_eq!(ClusterId::parse(&cluster.to_string()), Ok(cluster));
        assert_eq!(ClusterId::parse("00"), Err(ClusterIdError));
        assert_eq!(ClusterId::parse(&"+".repeat(32)), Err(ClusterIdError));
    }
}
