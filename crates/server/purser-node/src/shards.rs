//! Which shard an account belongs to.
//!
//! The rule is fixed for good: an account that moved to another shard by a new release would be
//! gone from where its ledger is. The number of shards is part of the cluster's identity for the
//! same reason (see [`crate::ClusterName`]).

use std::num::NonZeroU32;

use purser_ledger::AccountName;
use purser_raft::GroupId;
use sha2::{Digest, Sha256};

use crate::settings::RegionNumber;

/// How many shards a cluster's accounts are spread over. Each is a Raft group of its own.
///
/// More spread the work over more leaders; each costs a few tasks, a snapshot file and its
/// heartbeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardCount(NonZeroU32);

/// One of the parts that the accounts of a cluster are spread over. An account belongs to the same
/// one in every region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(pub u32);

impl RegionNumber {
    /// The groups of a region, in the order of their shards.
    pub(crate) fn groups(self, shards: ShardCount) -> impl Iterator<Item = GroupId> {
        let first = u32::from(self.get()) * ShardCount::MAX;
        shards.shards().map(move |Shard(shard)| GroupId(first + shard))
    }
}

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

    /// All shards.
    pub fn shards(self) -> impl Iterator<Item = Shard> {
        (0..self.get()).map(Shard)
    }

    /// The shard of an account.
    ///
    /// By a cryptographic hash, so that nobody can choose tenant names that all meet in one shard.
    pub fn shard_of(self, account: &AccountName) -> Shard {
        let mut hasher = Sha256::new();
        // Neither name can contain the separator.
        hasher.update(account.tenant.as_str());
        hasher.update(b"\0");
        hasher.update(account.unit.as_str());
        let digest: [u8; 32] = hasher.finalize().into();
        let [a, b, c, d, ..] = digest;
        Shard(u32::from_be_bytes([a, b, c, d]) % self.get())
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
        assert_eq!(sixteen.shard_of(&account(tenant, unit)), Shard(expected), "{tenant} {unit}");
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
            let Shard(shard) = shards.shard_of(&account(&format!("t{number}"), "credits"));
            counts[usize::try_from(shard).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
    }

    /// Golden: group numbers name files and are on the wire.
    #[test]
    fn each_region_has_groups_of_its_own() {
        let two = ShardCount::from_u32(2).unwrap();
        let groups = |number| RegionNumber::from_u16(number).unwrap().groups(two);
        assert_eq!(groups(0).collect::<Vec<_>>(), [GroupId(0), GroupId(1)]);
        assert_eq!(groups(3).collect::<Vec<_>>(), [GroupId(3_072), GroupId(3_073)]);
    }

    #[test]
    fn there_is_at_least_one_shard() {
        assert_eq!(ShardCount::from_u32(0), Err(InvalidShardCount));
        assert_eq!(ShardCount::from_u32(ShardCount::MAX + 1), Err(InvalidShardCount));
        assert_eq!(ShardCount::from_u32(1).unwrap().shard_of(&account("a", "b")), Shard(0));
    }
}
