//! Which tenants may be promoted to a standby: the leader of a region's first shard asks Placement.
//!
//! ```text
//!  promotable ◀── Placement ── all shards promise ── not promotable
//!       └──────── Placement ── one shard gives it up ──────▲
//! ```
//!
//! Tenants that are asked for are those that were known before the shards promised: whoever is opened or
//! dropped later has a later change, and is refused.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::future::{join_all, try_join_all};
use purser_placement::{
    Beginning, ChangeNumber, Command, Operation, Refusal, Request, TenantPlacement,
};
use purser_raft::Role;
use purser_types::{Epoch, Region, TenantId};
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

/// What the leader of a term knows.
#[derive(Debug, Default)]
struct Kept {
    term: u64,
    /// Whether no tenant can be promotable: this leader has dropped all of them, and asked for none since.
    is_clear: bool,
    /// Up to where Placement was looked through to the end.
    seen: Option<ChangeNumber>,
    /// The tenants that came to this region and are at home here, of those that are to be promotable.
    at_home: BTreeMap<TenantId, Epoch>,
}

impl Keeper {
    pub(in crate::regions) fn new(plan: Plan, home: Region) -> Self {
        let standbys = plan.standbys_of(home);
        let kept = standbys.into_iter().map(|standby| (standby, Mutex::default())).collect();
        Self { plan, kept }
    }
}

impl Kept {
    fn begin(&mut self, term: u64) {
        if self.term != term {
            *self = Self { term, ..Self::default() };
        }
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
        let cursor = self.directory.cursor();
        if kept.seen == Some(cursor) {
            return Ok(());
        }
        self.mend_plan().await?;
        let own = self.links.own();
        // Order matters: tenants are looked for before this node is known to lead, and before the shards
        // promise. Whoever leads later drops all of them before it says that none is promotable.
        let lacking = self.directory.tenants(|_, placement| {
            let mut standbys = placement.standbys.iter();
            let lacks = standbys.any(|known| known.region == standby && !known.promotable);
            placement.home == own && lacks && !placement.is_moving()
        });
        if lacking.is_empty() {
            kept.seen = Some(cursor);
            kept.at_home.clear();
            return Ok(());
        }
        let lacking = self.at_home(lacking, kept).await;
        if lacking.is_empty() {
            return Ok(());
        }
        let newest = lacking.iter().map(|(_, placement)| placement.change).max();
        let placed = newest.unwrap_or(ChangeNumber::NONE);
        if !self.leads_first().await || !self.all_promise(standby, placed).await {
            return Ok(());
        }
        kept.is_clear = false;
        let asked = lacking.into_iter().map(|known| set_standby(known, (standby, true)));
        let asked: Vec<Request> = asked.collect();
        let count = asked.len();
        let refused = self.change_all(asked, soon).await?;
        let (taken_in, refused) = (count.saturating_sub(refused.len()), refused.len());
        if taken_in > 0 {
            tracing::info!(%standby, taken_in, refused, "tenants can be taken over by a standby");
        }
        Ok(())
    }

    /// Those of the tenants that are at home here, and not on their way to here: what follows this region
    /// lacks the others.
    async fn at_home(
        &self,
        lacking: Vec<(TenantId, TenantPlacement)>,
        kept: &mut Kept,
    ) -> Vec<(TenantId, TenantPlacement)> {
        let has_come = |placement: &TenantPlacement| {
            matches!(placement.beginning, Beginning::Moved | Beginning::FailedOver)
        };
        let is_known = |kept: &Kept, (tenant, placement): &(TenantId, TenantPlacement)| {
            !has_come(placement) || kept.at_home.get(tenant) == Some(&placement.epoch)
        };
        let unknown = lacking.iter().filter(|it| !is_known(kept, it)).take(LOOKED_AT_ONCE);
        let looking = unknown.map(|(tenant, placement)| async move {
            let is_home = self.is_home_as_placed(tenant, placement).await.unwrap_or(false);
            is_home.then(|| (tenant.clone(), placement.epoch))
        });
        let found = join_all(looking).await;
        kept.at_home.extend(found.into_iter().flatten());
        lacking.into_iter().filter(|it| is_known(kept, it)).collect()
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
        // Order matters: it leads after it has looked, so nobody else asks for a tenant on the strength of
        // what it has seen since.
        let is_clear = kept.is_clear && self.leads_first().await;
        let dropped = if is_clear && group.leading_term() == Some(term) {
            Ok(())
        } else {
            self.drop_all(standby).await
        };
        kept.seen = None;
        match dropped {
            Ok(()) => {
                kept.is_clear = true;
                Answered::Standby(StandbyAnswer::Yes)
            }
            Err(error) => Answered::NotNow { reason: chain(&error) },
        }
    }

    /// Drops all tenants of this home, promotable or not, until none is promotable: one of them may have
    /// begun another epoch meanwhile, because its move was given up.
    async fn drop_all(&self, standby: Region) -> Result<(), DirectoryError> {
        self.directory.confirm(soon()).await?;
        let own = self.links.own();
        let mut followed = self.directory.tenants(|_, placement| {
            placement.home == own && placement.standbys.iter().any(|it| it.region == standby)
        });
        while !followed.is_empty() {
            let asked = followed.into_iter().map(|known| set_standby(known, (standby, false)));
            for refusal in self.change_all(asked.collect(), soon).await? {
                match refusal {
                    // What it is now was learned with that.
                    Refusal::Fenced | Refusal::NotStandby(_) | Refusal::TenantUnknown => (),
                    refusal => return Err(DirectoryError::Refused(refusal)),
                }
            }
            followed = self.directory.tenants(|_, placement| {
                placement.home == own && placement.is_promotable_to(standby)
            });
        }
        tracing::warn!(%standby, "a standby is dropped: it takes over for nobody");
        Ok(())
    }

    /// Whether any tenant of this home can be promoted to a standby, as far as is known here.
    pub(super) fn is_any_promotable(&self, standby: Region) -> bool {
        let own = self.links.own();
        let is_it = |_: &TenantId, placement: &TenantPlacement| {
            placement.home == own && placement.is_promotable_to(standby)
        };
        !self.directory.tenants(is_it).is_empty()
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

/// Asks for a tenant, as it was seen, to be promotable to a standby, or not to be.
fn set_standby(
    (tenant, placement): (TenantId, TenantPlacement),
    (region, promotable): (Region, bool),
) -> Request {
    let TenantPlacement { epoch, change: seen, .. } = placement;
    Request { tenant, operation: Operation::SetStandby { epoch, seen, region, promotable } }
}
