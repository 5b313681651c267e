//! Regions: what a node does for accounts whose home is elsewhere, and for its own accounts'
//! allocations.
//!
//! ```text
//!            this region                                            home's region
//!  call ──▶ http ──▶ Outpost: decides, or passes on ═══ HTTP ══▶ http ──▶ ledger
//!                       │  ▲                                                │
//!                reports│  │vouchers                        Desk: books, grants, recalls
//!                       └──┴═══════════ Links (asks) ═════════▶ ▲ │
//!  Directory: who is home of whom ◀════ Placement's group ══════┘ └─▶ vouchers
//! ```
//!
//! Each shard has a desk and an outpost, which work on the shard's leader. All messages may be lost,
//! repeated or late. Not here: rules about credits (`purser-ledger`), and what callers see (`http`).

mod desk;
mod draining;
mod known;
mod links;
mod messages;
mod monotonic;
mod moving;
mod outpost;
mod placement;
mod signature;
mod standby;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use purser_ledger::{AccountName, Answer, Ledger, Receipt, Rejection};
use purser_raft::{CallHandler, Group, Host, Leading, NodeId, PeerCalls, ProposeError};
use purser_types::Region;
use tokio_util::sync::CancellationToken;

pub(crate) use self::desk::{
    AwayTotals, Desk, HeardOf, Ticket, Waited, bound_of, right_of, unsettled_of,
};
use self::draining::Drains;
pub(crate) use self::draining::{DrainPhase, DrainProgress, FIRST_SHARD};
use self::links::{AskError, Links};
use self::messages::ShardLife;
pub(crate) use self::messages::{Answered, Ask, read as read_message, write as write_message};
pub use self::monotonic::Monotonic;
pub(crate) use self::moving::MoveEnd;
use self::moving::Moves;
use self::outpost::Homes;
pub(crate) use self::outpost::{Chance, HomeReason, Outpost};
pub(crate) use self::placement::{Directory, DirectoryError, PLACEMENT_GROUP};
pub(crate) use self::standby::{Automatic, Watch, Word};
use self::standby::{Keeper, Plan, Replicas, StandbyAnswer, StandbyAsk, Watches};
use crate::groups::{Groups, GroupsError, is_ready};
use crate::settings::{NodeSettings, RegionSettings, RouterSettings, nodes_by_region};
use crate::shards::Shard;
use crate::tasks::{Tasks, chain};
use crate::verification::{answer_books, answer_state};

/// How long another node's question may take here.
const PATIENCE: Duration = Duration::from_secs(10);

/// See the module's documentation.
pub(crate) struct Regions {
    links: Arc<Links>,
    directory: Arc<Directory>,
    /// By shard.
    desks: Vec<Arc<Desk>>,
    outposts: Vec<Arc<Outpost>>,
    watches: Watches,
    groups: Groups,
    moves: Moves,
    keeper: Keeper,
    automatic: Automatic,
    /// What this node follows; nothing on a router.
    replicas: Option<Replicas>,
    plan: Plan,
    drains: Drains,
    node: NodeId,
}

impl Regions {
    /// Opens what a node of a cluster in several regions needs besides its groups.
    pub(crate) async fn open(
        (host, spans): (&Host, Monotonic),
        settings: &NodeSettings,
        regions: &RegionSettings,
        groups: Groups,
    ) -> Result<Self, GroupsError> {
        let mut others = nodes_by_region(&settings.peers);
        others.remove(&settings.region);
        let own = (settings.node, settings.region);
        let links = Arc::new(Links::new(host.calls(), own, others, spans));
        let directory = Directory::open(host, settings, regions, Arc::clone(&links)).await?;
        let directory = Arc::new(directory);
        let key = &regions.voucher_key;
        let plan = Plan::of(settings);
        let mut desks = Vec::new();
        let mut outposts = Vec::new();
        let mut watches = Vec::new();
        for (shard, group) in settings.shards.shards().zip(groups.all()) {
            let followed = (Arc::clone(&links), Arc::clone(&directory));
            let silence = regions.standby_silence;
            let watch = Arc::new(Watch::new((shard, group.clone()), followed, &plan, silence));
            let of_shard = (shard, group.clone(), Arc::clone(&watch));
            let desk = Arc::new(Desk::new(of_shard, Arc::clone(&links), key.clone()));
            watches.push(watch);
            let (links, directory) = (Arc::clone(&links), Arc::clone(&directory));
            let homes = Homes { links, directory, desk: Arc::clone(&desk) };
            let outpost =
                Outpost::new((shard, group.clone()), homes, key.clone(), settings.retention.keys);
            desks.push(desk);
            outposts.push(Arc::new(outpost));
        }
        let moves = Moves::new().map_err(GroupsError::NoRandomness)?;
        let keeper = Keeper::new(plan.clone(), links.own());
        let replicas = Replicas::new(host, settings, plan.clone(), Arc::clone(&directory));
        let drains = Drains::default();
        Ok(Self {
            links,
            directory,
            desks,
            outposts,
            watches,
            groups,
            moves,
            keeper,
            automatic: Automatic::new(regions.fail_over_after),
            replicas: Some(replicas),
            plan,
            drains,
            node: settings.node,
        })
    }

    /// What a router needs: who is there, and who is home of whom. It leads no shard, so it has neither
    /// desk nor outpost.
    pub(crate) fn outside(
        calls: PeerCalls,
        settings: &RouterSettings,
    ) -> Result<Self, getrandom::Error> {
        let (own, all) = ((settings.node, settings.region), nodes_by_region(&settings.peers));
        let links = Arc::new(Links::new(calls, own, all, Monotonic::start()));
        let directory = Arc::new(Directory::outside(settings, Arc::clone(&links)));
        Ok(Self {
            links,
            directory,
            desks: Vec::new(),
            outposts: Vec::new(),
            groups: Groups::none(settings.shards),
            moves: Moves::new()?,
            drains: Drains::default(),
            watches: Vec::new(),
            keeper: Keeper::default(),
            automatic: Automatic::default(),
            replicas: None,
            plan: Plan::outside(settings),
            node: settings.node,
        })
    }

    /// Who is home of whom.
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The links to other regions.
    pub(crate) fn links(&self) -> &Links {
        &self.links
    }

    /// Resolves when every other region was heard once, and Placement was followed to its end.
    pub(crate) async fn connected(&self) {
        self.links.all_heard().await;
        self.directory.followed().await;
    }

    /// Whether it is known who is home of whom, and this process's own region is within reach.
    pub(crate) fn are_known(&self) -> bool {
        self.directory.is_followed() && self.links.is_reachable(self.links.own())
    }

    /// What the shards that this node leads have out, by region: every other region is named.
    pub(crate) fn totals(&self) -> BTreeMap<Region, AwayTotals> {
        let mut totals: BTreeMap<Region, AwayTotals> =
            self.links.others().map(|region| (region, AwayTotals::default())).collect();
        for (region, of_shard) in self.desks.iter().flat_map(|desk| desk.totals()) {
            totals.entry(region).or_default().add(&of_shard);
        }
        totals
    }

    /// Home's side of an account.
    pub(crate) fn desk(&self, account: &AccountName) -> &Arc<Desk> {
        let desk = self.desk_of(self.groups.shard_of(account));
        desk.expect("there is a desk for each shard")
    }

    /// The region's side of an account.
    pub(crate) fn outpost(&self, account: &AccountName) -> &Arc<Outpost> {
        let outpost = self.outpost_of(self.groups.shard_of(account));
        outpost.expect("there is an outpost for each shard")
    }

    /// Whom an account's home waits for.
    pub(crate) fn watch(&self, account: &AccountName) -> &Arc<Watch> {
        let watch = self.watch_of(self.groups.shard_of(account));
        watch.expect("there is a watch for each shard")
    }

    /// The watch of a shard.
    pub(crate) fn watch_of(&self, Shard(shard): Shard) -> Option<&Arc<Watch>> {
        self.watches.get(usize::try_from(shard).ok()?)
    }

    /// The regions that may stand by for a home.
    pub(crate) fn standbys_of(&self, home: Region) -> BTreeSet<Region> {
        self.plan.standbys_of(home)
    }

    /// Asks the node of a region that follows a shard elsewhere.
    async fn ask_replica(
        &self,
        (region, shard): (Region, Shard),
        ask: Ask,
        deadline: Instant,
    ) -> Result<Answered, AskError> {
        let node = self.plan.node_of(region, shard).ok_or(AskError::Unreachable(region))?;
        if node != self.node {
            return self.links.ask_any(vec![node], (region, None), &ask, deadline).await;
        }
        match self.answer(ask).await {
            Answered::NotNow { reason } => Err(AskError::NotNow { region, reason }),
            answered => Ok(answered),
        }
    }

    async fn answer_standby(&self, ask: StandbyAsk) -> Answered {
        let said = |is_so: bool| {
            Answered::Standby(if is_so { StandbyAnswer::Yes } else { StandbyAnswer::No })
        };
        match ask {
            StandbyAsk::Follow { home, shard, placed, term, leader } => match &self.replicas {
                Some(replicas) => {
                    let leader = Leading { term, node: NodeId(leader) };
                    replicas.follow((home, Shard(shard)), placed, leader).await
                }
                None => said(false),
            },
            StandbyAsk::Promise { shard, standby, placed } => match self.watch_of(Shard(shard)) {
                Some(watch) => said(watch.promise(standby, placed).await),
                None => said(false),
            },
            StandbyAsk::Drop { standby } => self.drop_standby(standby).await,
            StandbyAsk::Replica { home, shard, tenant, placement, ask } => {
                let of = (&tenant, &placement);
                self.answer_replica((home, Shard(shard)), of, ask).await
            }
            StandbyAsk::AtStake { home, shard } => self.answer_at_stake(home, Shard(shard)).await,
        }
    }

    /// The groups of other regions that this node follows now.
    pub(crate) fn following(&self) -> Vec<Group<Ledger>> {
        self.replicas.as_ref().map(Replicas::following).unwrap_or_default()
    }

    fn desk_of(&self, Shard(shard): Shard) -> Option<&Arc<Desk>> {
        self.desks.get(usize::try_from(shard).ok()?)
    }

    fn outpost_of(&self, Shard(shard): Shard) -> Option<&Arc<Outpost>> {
        self.outposts.get(usize::try_from(shard).ok()?)
    }

    /// Starts what goes on for as long as the node runs.
    pub(crate) fn start(self: &Arc<Self>, host: &Host, tasks: &Tasks) {
        host.serve_calls(Arc::new(Answering(Arc::clone(self))));
        self.start_following(tasks);
        let run = |name: &'static str, task: BoxFuture<'static, ()>| run(tasks, name, task);
        let stopping = || tasks.stopping();
        let (regions, stop) = (Arc::clone(self), stopping());
        run("moves", async move { regions.tend_moves(stop).await }.boxed());
        let (regions, stop) = (Arc::clone(self), stopping());
        run("drain", async move { regions.drain_when_asked(stop).await }.boxed());
        for desk in &self.desks {
            let (tending, watching) = (Arc::clone(desk), Arc::clone(desk));
            let (stop, other) = (stopping(), stopping());
            run("desk", async move { tending.tend_asked(stop).await }.boxed());
            run("leases", async move { watching.watch_leases(other).await }.boxed());
        }
        self.start_standbys(&run, &stopping);
        for region in self.links.others() {
            for desk in &self.desks {
                let (desk, stop) = (Arc::clone(desk), stopping());
                run("vouchers", async move { desk.push(region, stop).await }.boxed());
            }
        }
        // A home that has come to this region may have an allocation here from before.
        for region in self.links.others().chain([self.links.own()]) {
            for outpost in &self.outposts {
                let (outpost, stop) = (Arc::clone(outpost), stopping());
                run("reports", async move { outpost.report_to(region, stop).await }.boxed());
            }
        }
    }

    fn start_standbys(
        self: &Arc<Self>,
        run: &impl Fn(&'static str, BoxFuture<'static, ()>),
        stopping: &impl Fn() -> CancellationToken,
    ) {
        for watch in &self.watches {
            let (watching, stop) = (Arc::clone(watch), stopping());
            run("terms", async move { watching.keep_terms(stop).await }.boxed());
            for standby in watch.standbys() {
                let (watch, regions, stop) = (Arc::clone(watch), Arc::clone(self), stopping());
                run("standby", async move { watch.tend(&regions, standby, stop).await }.boxed());
            }
        }
        for standby in self.plan.standbys_of(self.links.own()) {
            let (regions, stop) = (Arc::clone(self), stopping());
            run("keeper", async move { regions.keep_standby(standby, stop).await }.boxed());
        }
        if let Some(after) = self.automatic.after() {
            let (regions, stop) = (Arc::clone(self), stopping());
            run("silence", async move { regions.fail_over_the_silent(after, stop).await }.boxed());
        }
    }

    /// Starts what keeps known who is there, and who is home of whom.
    pub(crate) fn start_following(&self, tasks: &Tasks) {
        let (directory, stop) = (Arc::clone(&self.directory), tasks.stopping());
        run(tasks, "placement", async move { directory.follow(stop).await }.boxed());
        for region in self.links.linked() {
            let (links, stop) = (Arc::clone(&self.links), tasks.stopping());
            run(tasks, "pulse", async move { links.pulse(region, stop).await }.boxed());
        }
    }

    /// All shards, the same in each region.
    fn all_shards(&self) -> impl Iterator<Item = Shard> {
        (0..).take(self.desks.len()).map(Shard)
    }

    /// Asks the leader of a shard, in this region or another. Nothing is asked twice that may have been
    /// heard once.
    pub(crate) async fn ask_shard(
        &self,
        (region, shard): (Region, Shard),
        ask: &Ask,
        deadline: Instant,
    ) -> Result<Answered, AskError> {
        if region != self.links.own() {
            return self.links.ask((region, Some(shard)), ask, deadline).await;
        }
        let leader = self.groups.of_shard(shard).and_then(|group| group.leader());
        let not_now = |reason: String| AskError::NotNow { region, reason };
        let unknown_leader = || not_now("nobody is known to lead the shard".to_owned());
        let leader = leader.ok_or_else(unknown_leader)?;
        if leader != self.node {
            return self.links.ask_any(vec![leader], (region, None), ask, deadline).await;
        }
        match self.answer(ask.clone()).await {
            Answered::NotLeader { .. } => Err(unknown_leader()),
            Answered::NotNow { reason } => Err(not_now(reason)),
            Answered::Unknown => Err(AskError::Unknown(region)),
            answered => Ok(answered),
        }
    }

    async fn answer(&self, ask: Ask) -> Answered {
        let no_shard = || Answered::NotNow { reason: "there is no such shard".to_owned() };
        match ask {
            Ask::Pulse => {
                let groups = self.groups.all().iter();
                let leaders = groups.clone().map(|group| group.leader().map(|node| node.0));
                // Whoever is no member, or has not applied everything, may know an earlier one.
                let led = groups
                    .enumerate()
                    .filter(|(_, group)| group.is_leading() && is_ready(&group.status()));
                let lives = led.filter_map(|(shard, group)| {
                    let shard = u32::try_from(shard).ok()?;
                    Some(ShardLife { shard, life: group.view(|ledger, _| ledger.life()) })
                });
                let hears = self.links.heard();
                Answered::Pulse { leaders: leaders.collect(), lives: lives.collect(), hears }
            }
            Ask::Reports(reports) => match self.desk_of(Shard(reports.shard)) {
                Some(desk) => desk.book(reports, false).await,
                None => no_shard(),
            },
            Ask::Vouchers(vouchers) => match self.outpost_of(Shard(vouchers.shard)) {
                Some(outpost) => outpost.take_vouchers(vouchers).await,
                None => no_shard(),
            },
            Ask::Move { shard, ask } => self.answer_move(Shard(shard), ask).await,
            Ask::Standby(ask) => self.answer_standby(ask).await,
            Ask::State(asked) => {
                let followed = self.following();
                let groups: Vec<_> = self.groups.all().iter().cloned().chain(followed).collect();
                answer_state(&groups, asked).await
            }
            Ask::Books(asked) => answer_books(&self.groups, self.node, asked).await,
            Ask::PlacementChanges { .. }
            | Ask::PlacementOf { .. }
            | Ask::PlacementChange { .. }
            | Ask::PlacementLatest
            | Ask::PlacementThrough(_) => {
                self.directory.answer(ask, Instant::now() + PATIENCE).await
            }
        }
    }
}

/// Starts a task that goes on for as long as the process runs.
fn run(tasks: &Tasks, name: &'static str, task: BoxFuture<'static, ()>) {
    tasks.spawn_vital(name, |_| task.map(Ok::<(), std::convert::Infallible>));
}

/// What became of the one item of a command.
fn only_result(answer: Answer) -> Result<Result<Receipt, Rejection>, ProposeError> {
    let outcome = answer.into_outcomes().and_then(|mut outcomes| outcomes.pop());
    Ok(outcome.ok_or(ProposeError::OutcomeUnknown)?.result)
}

/// Answers other nodes.
struct Answering(Arc<Regions>);

impl CallHandler for Answering {
    fn call(&self, from: NodeId, body: Bytes) -> BoxFuture<'static, Bytes> {
        let regions = Arc::clone(&self.0);
        async move {
            let answered = match messages::read::<Ask>(&body) {
                Ok(ask) => regions.answer(ask).await,
                Err(error) => {
                    let reason = chain(&error);
                    tracing::warn!(%from, reason, "a question cannot be read");
                    Answered::NotNow { reason }
                }
            };
            messages::write(&answered).into()
        }
        .boxed()
    }
}
