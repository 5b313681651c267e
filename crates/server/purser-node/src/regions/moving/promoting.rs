//! Taking over from a lost home: from what its standby has, and what it had decided besides, once it is
//! heard of.
//!
//! ```text
//!  Placement: failed over ─▶ the standby's replica stops following ─▶ copied here ─▶ home here
//!   the lost home comes back ─▶ steps down ─▶ its tail, page by page ─▶ booked ─▶ Placement: resolved
//! ```
//!
//! Each step may be repeated, by whoever leads the tenant's first shard by then.

use std::time::Instant;

use futures_util::future::try_join_all;
use purser_ledger::{AccountName, Way};
use purser_placement::{Beginning, Operation as Placing, Tail, TenantPlacement};
use purser_types::{Epoch, Region, TenantId};

use super::copying::{Copying, Source};
use super::messages::{MoveAnswer, MoveAsk, OpenTail, Part, Place, Presence, SourceAccount};
use super::{MoveError, PATIENCE};
use crate::regions::Regions;
use crate::regions::messages::{Answered, Ask};
use crate::regions::standby::{ReplicaAsk, StandbyAsk};
use crate::shards::Shard;

/// What this region's node has of a shard of a lost home.
struct ReplicaOf<'a> {
    regions: &'a Regions,
    home: Region,
    shard: Shard,
    tenant: &'a TenantId,
    placement: &'a TenantPlacement,
}

impl Source for ReplicaOf<'_> {
    async fn next_part(
        &self,
        account: &AccountName,
        place: Place,
        deadline: Instant,
    ) -> Result<Option<Part>, MoveError> {
        let ask = ReplicaAsk::Part { account: account.clone(), place };
        match self.ask(ask, deadline).await? {
            MoveAnswer::Part(part) => Ok(part),
            _ => Err(MoveError::Foreign),
        }
    }
}

impl ReplicaOf<'_> {
    async fn ask(&self, ask: ReplicaAsk, deadline: Instant) -> Result<MoveAnswer, MoveError> {
        let Shard(shard) = self.shard;
        let ask = StandbyAsk::Replica {
            home: self.home,
            shard,
            tenant: self.tenant.clone(),
            placement: self.placement.clone(),
            ask,
        };
        let own = self.regions.links.own();
        match self.regions.ask_replica((own, self.shard), Ask::Standby(ask), deadline).await? {
            Answered::Move(answer) => Ok(answer),
            _ => Err(MoveError::Foreign),
        }
    }

    async fn accounts(&self) -> Result<Vec<SourceAccount>, MoveError> {
        match self.ask(ReplicaAsk::Accounts, Instant::now() + PATIENCE).await? {
            MoveAnswer::Accounts(accounts) => Ok(accounts),
            _ => Err(MoveError::Foreign),
        }
    }
}

impl Regions {
    /// Whether a tenant was failed over to this region and not all of its accounts are home here yet, as far
    /// as this node can tell.
    pub(crate) async fn is_on_its_way(&self, tenant: &TenantId) -> bool {
        let Some(placement) = self.directory.known_home(tenant) else { return false };
        let is_taken_over =
            placement.home == self.links.own() && placement.beginning == Beginning::FailedOver;
        is_taken_over && !self.is_home_as_placed(tenant, &placement).await.unwrap_or(false)
    }

    /// Brings a tenant that was failed over to this region home, and then what its lost homes had decided
    /// besides.
    pub(super) async fn take_over(
        &self,
        tenant: &TenantId,
        placement: &TenantPlacement,
    ) -> Result<(), MoveError> {
        if !self.is_home_as_placed(tenant, placement).await? {
            self.bring_home(tenant, placement).await?;
        }
        // One lost home that stays silent does not keep another's tail from being booked.
        let mut resolved = Ok(());
        for tail in placement.tails() {
            resolved = resolved.and(self.resolve(tenant, placement, *tail).await);
        }
        resolved
    }

    /// Whether a tenant's accounts are at its home under the epoch of the placement, which began with a
    /// fail-over: all were brought before the first of them became home. A tenant without accounts is there
    /// once that tail is resolved.
    pub(in crate::regions) async fn is_home_as_placed(
        &self,
        tenant: &TenantId,
        placement: &TenantPlacement,
    ) -> Result<bool, MoveError> {
        let home = placement.home;
        let ask = MoveAsk::Accounts { tenant: tenant.clone() };
        let accounts = self.ask_all_in(home, &ask, Instant::now() + PATIENCE).await?;
        if self.arriving_in(home, tenant).await? > 0 {
            return Ok(false);
        }
        if accounts.is_empty() {
            return Ok(lost_of(placement).is_none());
        }
        Ok(accounts.iter().all(|(_, account)| account.epoch >= placement.epoch))
    }

    async fn arriving_in(&self, region: Region, tenant: &TenantId) -> Result<u64, MoveError> {
        let ask = MoveAsk::Arriving { tenant: tenant.clone() };
        let mut arriving = 0_u64;
        let deadline = Instant::now() + PATIENCE;
        let asking =
            self.all_shards().map(|shard| self.ask_move((region, shard), ask.clone(), deadline));
        for answer in try_join_all(asking).await? {
            match answer {
                MoveAnswer::Left(count) => arriving = arriving.saturating_add(count),
                _ => return Err(MoveError::Foreign),
            }
        }
        Ok(arriving)
    }

    async fn bring_home(
        &self,
        tenant: &TenantId,
        placement: &TenantPlacement,
    ) -> Result<(), MoveError> {
        let lost = lost_of(placement).ok_or(MoveError::NotYet)?;
        let old = self.accounts_here(tenant).await?;
        let old = old.into_iter().filter(|(_, account)| account.epoch < placement.epoch);
        self.step_down_here(tenant, placement, old.collect()).await?;
        let replica = |shard| ReplicaOf { regions: self, home: lost, shard, tenant, placement };
        let found = self.all_shards().map(|shard| async move {
            let accounts = replica(shard).accounts().await?;
            Ok::<_, MoveError>(accounts.into_iter().map(move |account| (shard, account)))
        });
        let found = try_join_all(found).await?;
        let found: Vec<(Shard, SourceAccount)> = found.into_iter().flatten().collect();
        if found.is_empty() {
            return self.confirm_nothing(tenant, lost).await;
        }
        let own = self.links.own();
        let bringing = found.iter().map(|(shard, account)| async move {
            let source = replica(*shard);
            let name = account.account.clone();
            let mut copy = Copying::new(name, *shard, own).that_may_begin_anew();
            copy.look(self).await?;
            while !copy.is_up_to(account.head) {
                if copy.is_beyond(account.head) {
                    // It came from the home itself, by a move that was under way.
                    copy.begin_anew(self, Instant::now() + PATIENCE).await?;
                }
                copy.step(self, &source, Instant::now() + PATIENCE).await?;
            }
            Ok::<_, MoveError>(())
        });
        // All of them before the first becomes home: that is how it is told that nothing is left.
        try_join_all(bringing).await?;
        let way = Way::FailedOver { from: lost };
        for (shard, account) in found {
            let SourceAccount { account, head, .. } = account;
            let ask = MoveAsk::TakeHome { account, placement: placement.clone(), way, head };
            match self.ask_move((own, shard), ask, Instant::now() + PATIENCE).await? {
                MoveAnswer::Presence(Presence::AtHome { epoch }) if epoch >= placement.epoch => (),
                MoveAnswer::Presence(_) => return Err(MoveError::Refused),
                _ => return Err(MoveError::Foreign),
            }
        }
        tracing::warn!(tenant = tenant.as_str(), %lost, "a lost home is taken over");
        Ok(())
    }

    /// Makes sure that a lost home has no account of a tenant either, of which its standby has none: none was
    /// ever answered to be open.
    async fn confirm_nothing(&self, tenant: &TenantId, lost: Region) -> Result<(), MoveError> {
        if !self.links.is_reachable(lost) {
            return Err(MoveError::NotYet);
        }
        let ask = MoveAsk::Accounts { tenant: tenant.clone() };
        let there = self.ask_all_in(lost, &ask, Instant::now() + PATIENCE).await?;
        if there.is_empty() { Ok(()) } else { Err(MoveError::Gone) }
    }

    /// Books what a lost home had decided after what came over, and has Placement know.
    async fn resolve(
        &self,
        tenant: &TenantId,
        placement: &TenantPlacement,
        tail: Tail,
    ) -> Result<(), MoveError> {
        let (from, own) = (tail.from, self.links.own());
        let ask = MoveAsk::Tails { tenant: tenant.clone() };
        let asking = self.all_shards().map(|shard| {
            let ask = ask.clone();
            async move {
                match self.ask_move((own, shard), ask, Instant::now() + PATIENCE).await? {
                    MoveAnswer::Tails(tails) => {
                        Ok(tails.into_iter().map(move |tail| (shard, tail)))
                    }
                    _ => Err(MoveError::Foreign),
                }
            }
        });
        let open = try_join_all(asking).await?;
        for (shard, open) in open.into_iter().flatten().filter(|(_, open)| open.from == from) {
            if !self.links.is_reachable(from) {
                return Err(MoveError::NotYet);
            }
            self.book_tail((from, shard), placement, open).await?;
        }
        let resolve = Placing::ResolveTail { epoch: placement.epoch, from };
        self.directory.change(tenant, resolve, Instant::now() + PATIENCE).await?;
        tracing::info!(tenant = tenant.as_str(), %from, "the tail of a lost home is resolved");
        Ok(())
    }

    async fn book_tail(
        &self,
        (from, shard): (Region, Shard),
        placement: &TenantPlacement,
        open: OpenTail,
    ) -> Result<(), MoveError> {
        let OpenTail { account, epoch, mut booked, mut earlier, .. } = open;
        let (own, mut after) = (self.links.own(), booked);
        loop {
            let (account, placement) = (account.clone(), placement.clone());
            let ask = MoveAsk::Tail { account: account.clone(), placement, epoch, after, earlier };
            let page = match self.ask_move((from, shard), ask, Instant::now() + PATIENCE).await? {
                MoveAnswer::Tail(page) => page.ok_or(MoveError::NotYet)?,
                _ => return Err(MoveError::Foreign),
            };
            let next = page.asks_on(booked.sequence);
            let ask = MoveAsk::BookTail { account, page };
            match self.ask_move((own, shard), ask, Instant::now() + PATIENCE).await? {
                MoveAnswer::Tails(left) => {
                    let Some(left) = left.into_iter().find(|left| left.epoch == epoch) else {
                        return Ok(());
                    };
                    (after, earlier) = if left.booked == booked {
                        (next.ok_or(MoveError::Refused)?, Vec::new())
                    } else {
                        (left.booked, left.earlier)
                    };
                    booked = left.booked;
                }
                _ => return Err(MoveError::Foreign),
            }
        }
    }
}

/// Whose place a standby takes with the epoch of a placement; nothing once that tail is resolved.
fn lost_of(placement: &TenantPlacement) -> Option<Region> {
    let ended = Epoch(placement.epoch.0.saturating_sub(1));
    placement.tails().iter().find(|tail| tail.epoch == ended).map(|tail| tail.from)
}
