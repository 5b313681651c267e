//! What this node follows of other regions' shards, and gives away when one of these regions is lost.
//!
//! A replica either follows or is frozen. It is frozen before anything of it is taken over, and follows
//! again only somebody who knows of all that was taken over.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use purser_ledger::Ledger;
use purser_placement::standby::may_follow;
use purser_placement::{Beginning, ChangeNumber, TenantPlacement};
use purser_raft::{Group, GroupId, GroupSettings, Hearing, Host, Leading, Role, Whole};
use purser_types::{Region, TenantId};
use tokio::sync::Mutex;

use super::Plan;
use super::messages::StandbyAnswer;
use crate::regions::messages::Answered;
use crate::regions::placement::Directory;
use crate::settings::{NodeSettings, RegionNumber};
use crate::shards::{Shard, ShardCount};
use crate::tasks::chain;

/// How long freezing may wait for the group's tasks.
const PATIENCE: Duration = Duration::from_secs(5);

/// A replica of which something was taken over follows again after so long without a question.
const FROZEN_FOR: Duration = Duration::from_secs(30);

/// Each replica, by home and shard; locked while it is opened or frozen.
type AllHeld = BTreeMap<(Region, Shard), Arc<Mutex<Replica>>>;

/// See the module's documentation.
pub(in crate::regions) struct Replicas {
    host: Host,
    plan: Plan,
    own: Region,
    node: purser_raft::NodeId,
    numbers: BTreeMap<Region, RegionNumber>,
    shards: ShardCount,
    group: GroupSettings,
    directory: Arc<Directory>,
    /// By home and shard.
    held: std::sync::Mutex<AllHeld>,
}

/// One shard of a home elsewhere.
#[derive(Default)]
pub(in crate::regions) struct Replica {
    state: Held,
}

#[derive(Default)]
enum Held {
    /// It is not open.
    #[default]
    Closed,
    /// It follows.
    Follows(Group<Ledger>),
    /// It was taken over from, last at that moment.
    Frozen(Arc<Whole<Ledger>>, Instant),
}

/// Why a replica could not be frozen, for the log.
type NotFrozen = String;

impl Replicas {
    pub(in crate::regions) fn new(
        host: &Host,
        settings: &NodeSettings,
        plan: Plan,
        directory: Arc<Directory>,
    ) -> Self {
        let numbers = settings.regions.as_ref().map(|regions| regions.numbers.clone());
        Self {
            host: host.clone(),
            plan,
            own: settings.region,
            node: settings.node,
            numbers: numbers.unwrap_or_default(),
            shards: settings.shards,
            group: settings.group,
            directory,
            held: std::sync::Mutex::default(),
        }
    }

    /// The groups that follow now.
    pub(in crate::regions) fn following(&self) -> Vec<Group<Ledger>> {
        let held: Vec<(Region, Shard)> = self.lock().keys().copied().collect();
        held.into_iter().filter_map(|of| self.following_of(of)).collect()
    }

    /// The group of a shard that follows now, if it does.
    pub(in crate::regions) fn following_of(&self, of: (Region, Shard)) -> Option<Group<Ledger>> {
        let replica = self.lock().get(&of).cloned()?;
        match &replica.try_lock().ok()?.state {
            Held::Follows(group) => Some(group.clone()),
            Held::Closed | Held::Frozen(..) => None,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, AllHeld> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The replica of a shard that this node is to follow; nothing if it is not to.
    fn replica(&self, home: Region, shard: Shard) -> Option<(GroupId, Arc<Mutex<Replica>>)> {
        let number = self.numbers.get(&home)?;
        let place = usize::try_from(shard.0).ok()?;
        let group = number.groups(self.shards).nth(place)?;
        let is_here = self.plan.stands_by(self.own, home)
            && self.plan.node_of(self.own, shard) == Some(self.node);
        is_here.then(|| (group, Arc::clone(self.lock().entry((home, shard)).or_default())))
    }

    /// Answers [`StandbyAsk::Follow`](super::StandbyAsk::Follow).
    pub(in crate::regions) async fn follow(
        &self,
        (home, shard): (Region, Shard),
        placed: ChangeNumber,
        leader: Leading,
    ) -> Answered {
        let no = Answered::Standby(StandbyAnswer::No);
        let Some((id, replica)) = self.replica(home, shard) else { return no };
        let mut replica = replica.lock().await;
        // Order matters: looked at with the replica in hand, so that nothing is taken over meanwhile. What
        // this node did before it was started, Placement knows.
        let is_confirmed = self.directory.is_confirmed();
        let failed_over = is_confirmed.then(|| self.directory.failed_over());
        if !may_follow(placed, failed_over) {
            return no;
        }
        match &replica.state {
            Held::Follows(group) if group.status().role != Role::Stopped => {
                return if group.hear(leader) { Answered::Standby(StandbyAnswer::Yes) } else { no };
            }
            Held::Frozen(_, asked) if asked.elapsed() < FROZEN_FOR => return no,
            Held::Follows(_) | Held::Frozen(..) | Held::Closed => {
                match self.open(id, Hearing::Only(leader)).await {
                    Ok(group) => replica.state = Held::Follows(group),
                    Err(reason) => return Answered::NotNow { reason },
                }
            }
        }
        Answered::Standby(StandbyAnswer::Yes)
    }

    /// Opens a replica. It hears only a leader that has asked to be followed since: another one was not asked
    /// what it knows of the fail-overs that this replica has served.
    async fn open(&self, id: GroupId, hearing: Hearing) -> Result<Group<Ledger>, String> {
        let opened = self.host.group_hearing(id, Ledger::default(), (self.group, hearing)).await;
        opened.map_err(|error| chain(&error))
    }

    /// All that this node has of a shard whose home was lost for a tenant. It follows no more.
    pub(in crate::regions) async fn freeze(
        &self,
        (home, shard): (Region, Shard),
        (tenant, placement): (&TenantId, &TenantPlacement),
    ) -> Result<Arc<Whole<Ledger>>, NotFrozen> {
        let (id, replica) =
            self.replica(home, shard).ok_or("this node does not follow the shard")?;
        let is_lost = placement.beginning == Beginning::FailedOver && placement.home == self.own;
        if !is_lost {
            return Err("the tenant is not to be taken over by this region".to_owned());
        }
        let mut replica = replica.lock().await;
        // Order matters: known before it is frozen, so that it follows nobody who does not know.
        self.directory.learn(tenant, placement);
        if let Held::Frozen(whole, asked) = &mut replica.state {
            *asked = Instant::now();
            return Ok(Arc::clone(whole));
        }
        let group = match &replica.state {
            Held::Follows(group) => group.clone(),
            // What it would be sent from here on may be of somebody who does not know that the tenants that
            // were taken over before have another home.
            Held::Closed | Held::Frozen(..) => self.open(id, Hearing::Nobody).await?,
        };
        group.shutdown(Instant::now() + PATIENCE).await;
        replica.state = Held::Closed;
        let whole = tokio::task::spawn_blocking(move || group.whole()).await;
        let whole = whole.map_err(|error| chain(&error))?.map_err(|error| chain(&error))?;
        let whole = Arc::new(whole);
        let last = whole.last;
        tracing::warn!(%home, shard = shard.0, last, "a standby stops following, and is taken over from");
        replica.state = Held::Frozen(Arc::clone(&whole), Instant::now());
        Ok(whole)
    }
}
