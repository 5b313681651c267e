//! Which shard an account belongs to.
//!
//! The rule is fixed for good: an account that moved to another shard by a new release would be
//! gone from where its ledger is. The number of shards is part of the cluster's identity for the
//! same reason (see [`crate::ClusterName`]).

use std::num::NonZeroU32;

use purser_ledger::AccountName;
use purser_raft::GroupId;
use sha2::{Digest, Sha256};

/// How many shards a cluster's accounts are spread over. Each is a Raft group of its own.
///
/// More spread the work over more leaders; each costs a few tasks, a snapshot file and its
/// heartbeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardCount(NonZeroU32);

/// The number of shards is none, or more than [`ShardCount::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be from 1 to {}", ShardCount::MAX)]
pub struct InvalidShardCount;

impl ShardCount {
    /// The most shards: beyond that, heartbeats alone would keep a node busy.
    pub const MAX: u32 = purser_api::GROUPS_MAX;

    /// Checks a number of shards.
    pub fn from_u32(count: u32) -> Result<Self, InvalidShardCount> {
        match NonZeroU32::new(count) {
            Some(count) if count.get() <= Self::MAX => Ok(Self(count)),
            _ => Err(InvalidShardCount),
        }
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// All groups, one for each shard.
    pub fn groups(self) -> impl Iterator<Item = GroupId> {
        (0..self.get()).map(GroupId)
    }

    /// The group of an account.
    ///
    /// By a cryptographic hash, so that nobody can choose tenant names that all meet in one shard.
    pub fn group_of(self, account: &AccountName) -> GroupId {
        let mut hasher = Sha256::new();
        // Neither name can contain the separator.
        hasher.update(account.tenant.as_str());
        hasher.update(b"\0");
        hasher.update(account.unit.as_str());
        let digest: [u8; 32] = hasher.finalize().into();
        let [a, b, c, d, ..] = digest;
        GroupId(u32::from_be_bytes([a, b, c, d]) % self.get())
    }
}

#[cfg(test)]
mod tests {
    use purser_types::{TenantId, Unit};

    use super::*;

    fn account(tenant: &str, unit: &str) -> AccountName {
        let (tenant, unit) = (TenantId::parse(tenant).unwrap(), Unit::parse(unit).unwrap());
        AccountName { tenant, unit }
    }

    #[track_caller]
    fn check_shard(tenant: &str, unit: &str, expected: u32) {
        let sixteen = ShardCount::from_u32(16).unwrap();
        assert_eq!(sixteen.group_of(&account(tenant, unit)), GroupId(expected), "{tenant} {unit}");
    }

    /// Golden: these numbers say where ledgers lie on disks. They may never change.
    #[test]
    fn an_account_stays_in_its_shard_for_good() {
        check_shard("acme", "credits", 15);
        check_shard("acme", "tokens", 0);
        check_shard("a", "credits", 2);
        check_shard("team:search_2.eu-1", "credits", 1);
    }

    #[test]
    fn accounts_spread_evenly() {
        let shards = ShardCount::from_u32(8).unwrap();
        let mut counts = [0_u32; 8];
        for number in 0..8_000 {
            let GroupId(shard) = shards.group_of(&account(&format!("t{number}"), "credits"));
            counts[usize::try_from(shard).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
    }

    #[test]
    fn there_is_at_least_one_shard() {
        assert_eq!(ShardCount::from_u32(0), Err(InvalidShardCount));
        assert_eq!(ShardCount::from_u32(ShardCount::MAX + 1), Err(InvalidShardCount));
        assert_eq!(ShardCount::from_u32(1).unwrap().group_of(&account("a", "b")), GroupId(0));
    }
}
