//! Which tenants may be promoted to a standby: the leader of a region's first shard asks Placement.
//!
//! ```text
//!  promotable ◀── Placement ── all shards promise ── not promotable
//!       └──────── Placement ── one shard gives it up ──────▲
//! ```
//!
//! Whom it asks for, and what it may say, is decided in `purser_placement::standby`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::future::{join_all, try_join_all};
use purser_placement::standby::{Dropping, Kept, TakingIn};
use purser_placement::{ChangeNumber, Command, Operation, Refusal, Request, TenantPlacement};
use purser_raft::Role;
use purser_types::{Region, TenantId};
use tokio::sync::Mutex;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::Plan;
use super::messages::{StandbyAnswer, StandbyAsk};
use crate::regions::FIRST_SHARD;
use crate::regions::Regions;
use crate::regions::messages::{Answered, Ask};
use crate::regions::placement::DirectoryError;
use crate::shards::Shard;
use crate::tasks::chain;

/// How often tenants are looked for that a standby may take over.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a shard may take to promise. A drop waits for that.
const PROMISE_PATIENCE: Duration = Duration::from_secs(1);

/// How many tenants that came to this region are looked for at a time.
const LOOKED_AT_ONCE: usize = 64;

/// How long Placement may take for one step.
const PATIENCE: Duration = Duration::from_secs(3);

/// See the module's documentation.
#[derive(Default)]
pub(in crate::regions) struct Keeper {
    plan: Plan,
    /// By standby. Held while tenants are asked for or dropped, so that one comes after the other.
    kept: BTreeMap<Region, Mutex<Kept>>,
}

impl Keeper {
    pub(in crate::regions) fn new(plan: Plan, home: Region) -> Self {
        let standbys = plan.standbys_of(home);
        let kept = standbys.into_iter().map(|standby| (standby, Mutex::default())).collect();
        Self { plan, kept }
    }
}

impl Regions {
    /// Asks for tenants that a standby may take over, on the leader of the first shard; until `stopping`.
    pub(in crate::regions) async fn keep_standby(
        &self,
        standby: Region,
        stopping: CancellationToken,
    ) {
        let Some(kept) = self.keeper.kept.get(&standby) else { return };
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                _ = ticks.tick() => (),
            }
            let Some(term) = self.first_term() else { continue };
            let mut kept = kept.lock().await;
            kept.begin(term);
            if let Err(error) = self.take_in(standby, &mut kept).await {
                let error = chain(&error);
                tracing::debug!(%standby, error, "tenants were not made promotable");
            }
        }
    }

    /// The term in which this node leads the region's first shard.
    fn first_term(&self) -> Option<u64> {
        self.groups.of_shard(FIRST_SHARD)?.leading_term()
    }

    /// Makes promotable whoever is not, if all shards promise.
    async fn take_in(&self, standby: Region, kept: &mut Kept) -> Result<(), DirectoryError> {
        let as_of = self.directory.as_of();
        if kept.has_seen(as_of) {
            return Ok(());
        }
        self.mend_plan().await?;
        let own = self.links.own();
        // Order matters: tenants are looked for before this node is known to lead, and before the shards
        // promise.
        let lacking =
            self.directory.tenants(|_, placement| TakingIn::lacks(own, standby, placement));
        if lacking.is_empty() {
            kept.note_seen(as_of);
            return Ok(());
        }
        self.look_for_homes(&lacking, kept).await;
        let Some(taking_in) = TakingIn::of(standby, lacking, kept) else { return Ok(()) };
        if !self.leads_first().await || !self.all_promise(standby, taking_in.placed()).await {
            return Ok(());
        }
        let asked = taking_in.ask(kept);
        let count = asked.len();
        let refused = self.change_all(asked, soon).await?;
        let (taken_in, refused) = (count.saturating_sub(refused.len()), refused.len());
        if taken_in > 0 {
            tracing::info!(%standby, taken_in, refused, "tenants can be taken over by a standby");
        }
        Ok(())
    }

    /// Learns which of the tenants are at home here, of those that came to this region.
    async fn look_for_homes(&self, lacking: &[(TenantId, TenantPlacement)], kept: &mut Kept) {
        let unknown = lacking.iter().filter(|known| !kept.is_at_home(known)).take(LOOKED_AT_ONCE);
        let looking = unknown.map(|(tenant, placement)| async move {
            let is_home = self.is_home_as_placed(tenant, placement).await.unwrap_or(false);
            is_home.then(|| (tenant.clone(), placement.epoch))
        });
        let found = join_all(looking).await;
        for (tenant, epoch) in found.into_iter().flatten() {
            kept.note_at_home(tenant, epoch);
        }
    }

    /// Whether this node leads the region's first shard, as its others confirm.
    async fn leads_first(&self) -> bool {
        match self.groups.of_shard(FIRST_SHARD) {
            Some(group) => group.read_barrier(soon()).await.is_ok(),
            None => false,
        }
    }

    /// Has tenants whose home came to this region followed by the regions that stand by for it.
    async fn mend_plan(&self) -> Result<(), DirectoryError> {
        let own = self.links.own();
        let planned = self.keeper.plan.standbys_of(own);
        let elsewhere = self.directory.tenants(|_, placement| {
            let followed = placement.standbys.iter().all(|it| planned.contains(&it.region));
            placement.home == own && !followed && !placement.is_moving()
        });
        let mended = elsewhere.into_iter().map(|(tenant, placement)| {
            // As many as it was given, or as there are.
            let standbys =
                planned.iter().copied().take(placement.standbys.iter().count()).collect();
            let TenantPlacement { epoch, change: seen, .. } = placement;
            Request { tenant, operation: Operation::SetStandbys { epoch, seen, standbys } }
        });
        let mended: Vec<Request> = mended.collect();
        if mended.is_empty() { Ok(()) } else { self.change_all(mended, soon).await.map(drop) }
    }

    /// Whether every shard of this region says that it knows Placement up to a change, that a standby has
    /// all that it has, and that it waits for it from now on.
    async fn all_promise(&self, standby: Region, placed: ChangeNumber) -> bool {
        let own = self.links.own();
        let promising = self.all_shards().map(|shard| async move {
            let Shard(number) = shard;
            let ask = Ask::Standby(StandbyAsk::Promise { shard: number, standby, placed });
            let deadline = Instant::now() + PROMISE_PATIENCE;
            match self.ask_shard((own, shard), &ask, deadline).await {
                Ok(Answered::Standby(StandbyAnswer::Yes)) => Ok(()),
                Ok(_) | Err(_) => Err(()),
            }
        });
        try_join_all(promising).await.is_ok()
    }

    /// Has whoever keeps this region's standbys drop one. Whether no tenant can be promoted to it.
    pub(in crate::regions) async fn have_dropped(
        &self,
        standby: Region,
        deadline: Instant,
    ) -> bool {
        let ask = Ask::Standby(StandbyAsk::Drop { standby });
        match self.ask_shard((self.links.own(), FIRST_SHARD), &ask, deadline).await {
            Ok(Answered::Standby(answer)) => answer == StandbyAnswer::Yes,
            Ok(_) => false,
            Err(error) => {
                tracing::debug!(%standby, %error, "a standby was not dropped");
                false
            }
        }
    }

    /// Answers [`StandbyAsk::Drop`].
    pub(in crate::regions) async fn drop_standby(&self, standby: Region) -> Answered {
        let (Some(kept), Some(group)) =
            (self.keeper.kept.get(&standby), self.groups.of_shard(FIRST_SHARD))
        else {
            return Answered::Standby(StandbyAnswer::No);
        };
        let Some(term) = group.leading_term() else {
            let status = group.status();
            let leader = status.leader.filter(|_| status.role != Role::Leader);
            return Answered::NotLeader { leader: leader.map(|node| node.0) };
        };
        let mut kept = kept.lock().await;
        kept.begin(term);
        // Order matters: it is known to lead after it has looked.
        let is_clear = kept.is_clear(Some(term))
            && self.leads_first().await
            && kept.is_clear(group.leading_term());
        let dropped = if is_clear { Ok(()) } else { self.drop_all(standby).await };
        kept.note_dropping();
        match dropped {
            Ok(()) => {
                kept.note_dropped();
                Answered::Standby(StandbyAnswer::Yes)
            }
            Err(error) => Answered::NotNow { reason: chain(&error) },
        }
    }

    /// Drops all tenants of this home, promotable or not, until none is promotable.
    async fn drop_all(&self, standby: Region) -> Result<(), DirectoryError> {
        self.directory.confirm(soon()).await?;
        let dropping = Dropping { own: self.links.own(), standby };
        let mut left = self.directory.tenants(|_, placement| dropping.is_followed(placement));
        while !left.is_empty() {
            let refused = self.change_all(dropping.ask(left), soon).await?;
            if let Some(refusal) = refused.iter().find(|it| !Dropping::goes_on_after(it)) {
                return Err(DirectoryError::Refused(*refusal));
            }
            left = self.directory.tenants(|_, placement| dropping.is_left(placement));
        }
        tracing::warn!(%standby, "a standby is dropped: it takes over for nobody");
        Ok(())
    }

    /// Whether any tenant of this home can be promoted to a standby, as far as is known here.
    pub(super) fn is_any_promotable(&self, standby: Region) -> bool {
        let dropping = Dropping { own: self.links.own(), standby };
        !self.directory.tenants(|_, placement| dropping.is_left(placement)).is_empty()
    }

    /// Asks Placement for many changes, each page of them with its own deadline, and gives what was refused.
    /// What it did not come to is not known if it did anything.
    pub(super) async fn change_all(
        &self,
        mut requests: Vec<Request>,
        deadline: impl Fn() -> Instant,
    ) -> Result<Vec<Refusal>, DirectoryError> {
        let mut refused = Vec::new();
        let mut is_first = true;
        while !requests.is_empty() {
            let rest = requests.split_off(requests.len().min(Command::REQUESTS_MAX));
            let changed = self.directory.change_many(requests, deadline()).await;
            let changed = changed.map_err(|error| match error {
                DirectoryError::Unreachable(_) if !is_first => DirectoryError::Unknown,
                error => error,
            });
            refused.extend(changed?.into_iter().filter_map(Result::err));
            (requests, is_first) = (rest, false);
        }
        Ok(refused)
    }
}

fn soon() -> Instant {
    Instant::now() + PATIENCE
}
