//! Failing a region's tenants over to one of its standbys: a statement to Placement, by whoever is asked, or
//! by its leader. The rest is done where the tenants are taken over.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use purser_placement::{ChangeNumber, Operation, Request};
use purser_types::{Credits, Region, TenantId};

use super::messages::StandbyAsk;
use crate::regions::Regions;
use crate::regions::messages::{Answered, Ask};
use crate::regions::placement::DirectoryError;
use crate::shards::Shard;

/// How long to wait for what is at stake: a region that is lost is not kept waiting for a figure.
const AT_STAKE_PATIENCE: Duration = Duration::from_secs(2);

/// The tenants whose home is in a region, as far as its loss concerns them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Loss {
    /// What makes the standby home of those that it can take over.
    requests: Vec<Request>,
    /// Those that it can not take over: it does not have all that they were answered.
    pub(crate) left: Left,
    /// The latest change of any of them: what an operator has seen.
    pub(crate) seen: ChangeNumber,
    /// The X of the accounts that it can take over, added up: what is set aside for what the lost home had
    /// answered besides. As the standby has applied it, which may be an entry behind what it keeps. Nothing
    /// if some of it cannot be asked.
    pub(crate) at_stake: Option<u128>,
}

impl Loss {
    /// How many can be taken over by the standby.
    pub(crate) fn promotable(&self) -> u64 {
        u64::try_from(self.requests.len()).unwrap_or(u64::MAX)
    }
}

/// Tenants that stay where they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// How many.
    pub(crate) count: u64,
    /// The first of them by name, as many as are told.
    pub(crate) first: Vec<TenantId>,
}

impl Left {
    /// The most that are told by name.
    const FIRST_MAX: usize = 100;

    fn add(&mut self, tenant: TenantId) {
        self.count = self.count.saturating_add(1);
        if self.first.len() < Self::FIRST_MAX {
            self.first.push(tenant);
        }
    }
}

/// On whose word a region is failed over, and why: for whoever reads the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Word<'a> {
    /// The name of the token, or that nobody has asked.
    pub(crate) by: &'a str,
    /// Why.
    pub(crate) reason: &'a str,
}

impl Regions {
    /// What it would mean to fail a region over, as Placement has it now.
    pub(crate) async fn loss_of(
        &self,
        (lost, to): (Region, Region),
        deadline: Instant,
    ) -> Result<Loss, DirectoryError> {
        self.directory.confirm(deadline).await?;
        let homes = self.directory.tenants(|_, placement| placement.home == lost);
        let (left, seen) = (Left::default(), ChangeNumber::NONE);
        let mut loss = Loss { requests: Vec::new(), left, seen, at_stake: Some(0) };
        for (tenant, placement) in homes {
            loss.seen = loss.seen.max(placement.change);
            if placement.is_promotable_to(to) {
                let operation = Operation::FailOver { epoch: placement.epoch, to };
                loss.requests.push(Request { tenant, operation });
            } else {
                loss.left.add(tenant);
            }
        }
        if loss.promotable() > 0 {
            loss.at_stake = self.at_stake((lost, to), deadline).await;
        }
        Ok(loss)
    }

    /// What is at stake, as the nodes of a standby know it; nothing if one of them cannot tell.
    async fn at_stake(&self, (lost, to): (Region, Region), deadline: Instant) -> Option<u128> {
        let deadline = deadline.min(Instant::now() + AT_STAKE_PATIENCE);
        let asking = self.all_shards().map(|shard| async move {
            let Shard(number) = shard;
            let ask = Ask::Standby(StandbyAsk::AtStake { home: lost, shard: number });
            match self.ask_replica((to, shard), ask, deadline).await {
                Ok(Answered::AtStake(amount)) => Some(u128::from(amount.get())),
                Ok(_) => None,
                Err(error) => {
                    tracing::debug!(%lost, %to, shard = number, %error, "X is not known");
                    None
                }
            }
        });
        let parts = join_all(asking).await;
        parts.into_iter().try_fold(0_u128, |sum, part| sum.checked_add(part?))
    }

    /// Makes a standby the home of every tenant of a region that it can take over. Gives how many those
    /// were; the region's nodes bring them home. It may end in the middle, as unknown: asked again, it
    /// finds the rest.
    pub(crate) async fn fail_over(
        &self,
        (lost, to): (Region, Region),
        loss: Loss,
        Word { by, reason }: Word<'_>,
        deadline: Instant,
    ) -> Result<u64, DirectoryError> {
        let (count, at_stake) = (loss.requests.len(), loss.at_stake);
        let refused = self.change_all(loss.requests, || deadline).await?;
        for refusal in &refused {
            tracing::warn!(%lost, %to, %refusal, "a tenant was not failed over");
        }
        let done = count.saturating_sub(refused.len());
        let left = loss.left.count;
        tracing::warn!(%lost, %to, by, reason, done, left, at_stake, "a region is failed over");
        Ok(u64::try_from(done).unwrap_or(u64::MAX))
    }

    /// Answers [`StandbyAsk::AtStake`].
    pub(in crate::regions) async fn answer_at_stake(&self, home: Region, shard: Shard) -> Answered {
        let replica = self.replicas.as_ref().and_then(|it| it.following_of((home, shard)));
        let Some(group) = replica else {
            return Answered::NotNow { reason: "the shard is not followed here".to_owned() };
        };
        // Order matters: whoever asks has seen in Placement whom this standby can take over, and so must it.
        if let Err(error) = self.directory.confirm(Instant::now() + AT_STAKE_PATIENCE).await {
            return Answered::NotNow { reason: error.to_string() };
        }
        let (ledger, own) = (group.machine(), self.links.own());
        // Most accounts have no X, and these are not looked at.
        let with_x = ledger.accounts_with_allocations().filter(|it| !it.answer_limit().is_zero());
        let mut at_stake = with_x.filter(|account| {
            let placement = self.directory.known_home(&account.name().tenant);
            placement.is_some_and(|it| it.home == home && it.is_promotable_to(own))
        });
        let sum = at_stake.try_fold(Credits::ZERO, |sum, it| sum.checked_add(it.answer_limit()));
        let too_much = || Answered::NotNow { reason: "it is more than can be told".to_owned() };
        sum.map_or_else(too_much, Answered::AtStake)
    }
}
