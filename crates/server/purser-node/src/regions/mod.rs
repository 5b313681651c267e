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
mod known;
mod links;
mod messages;
mod monotonic;
mod moving;
mod outpost;
mod placement;
mod signature;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use purser_ledger::{AccountName, Answer, Receipt, Rejection};
use purser_raft::{CallHandler, Host, NodeId, ProposeError};
use purser_types::Region;

pub(crate) use self::desk::{AwayTotals, Desk, HeardOf, Waited, bound_of, right_of, unsettled_of};
use self::links::{AskError, Links};
use self::messages::{Answered, Ask};
use self::monotonic::Monotonic;
pub(crate) use self::moving::MoveEnd;
use self::moving::Moves;
use self::outpost::Homes;
pub(crate) use self::outpost::{Chance, HomeReason, Outpost};
pub(crate) use self::placement::{Directory, DirectoryError};
use crate::groups::{Groups, GroupsError};
use crate::settings::{NodeSettings, RegionSettings};
use crate::shards::Shard;
use crate::tasks::{Tasks, chain};

/// How long another node's question may take here.
const PATIENCE: Duration = Duration::from_secs(10);

/// See the module's documentation.
pub(crate) struct Regions {
    links: Arc<Links>,
    directory: Arc<Directory>,
    /// By shard.
    desks: Vec<Arc<Desk>>,
    outposts: Vec<Arc<Outpost>>,
    groups: Groups,
    moves: Moves,
    node: NodeId,
}

impl Regions {
    /// Opens what a node of a cluster in several regions needs besides its groups.
    pub(crate) async fn open(
        host: &Host,
        settings: &NodeSettings,
        regions: &RegionSettings,
        groups: Groups,
    ) -> Result<Self, GroupsError> {
        let links = Arc::new(Links::new(host.clone(), settings, Monotonic::start()));
        let directory = Directory::open(host, settings, regions, Arc::clone(&links)).await?;
        let directory = Arc::new(directory);
        let key = &regions.voucher_key;
        let mut desks = Vec::new();
        let mut outposts = Vec::new();
        for (shard, group) in settings.shards.shards().zip(groups.all()) {
            let desk = Desk::new(shard, group.clone(), Arc::clone(&links), key.clone());
            let desk = Arc::new(desk);
            let (links, directory) = (Arc::clone(&links), Arc::clone(&directory));
            let homes = Homes { links, directory, desk: Arc::clone(&desk) };
            let outpost =
                Outpost::new((shard, group.clone()), homes, key.clone(), settings.retention.keys);
            desks.push(desk);
            outposts.push(Arc::new(outpost));
        }
        let moves = Moves::new().map_err(GroupsError::NoRandomness)?;
        Ok(Self { links, directory, desks, outposts, groups, moves, node: settings.node })
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

    fn desk_of(&self, Shard(shard): Shard) -> Option<&Arc<Desk>> {
        self.desks.get(usize::try_from(shard).ok()?)
    }

    fn outpost_of(&self, Shard(shard): Shard) -> Option<&Arc<Outpost>> {
        self.outposts.get(usize::try_from(shard).ok()?)
    }

    /// Starts what goes on for as long as the node runs.
    pub(crate) fn start(self: &Arc<Self>, host: &Host, tasks: &Tasks) {
        host.serve_calls(Arc::new(Answering(Arc::clone(self))));
        let run = |name: &'static str, task: BoxFuture<'static, ()>| {
            tasks.spawn_vital(name, |_| task.map(Ok::<(), std::convert::Infallible>));
        };
        let stopping = || tasks.stopping();
        let directory = Arc::clone(&self.directory);
        let stop = stopping();
        run("placement", async move { directory.follow(stop).await }.boxed());
        let (regions, stop) = (Arc::clone(self), stopping());
        run("moves", async move { regions.tend_moves(stop).await }.boxed());
        for region in self.links.others() {
            let (links, stop) = (Arc::clone(&self.links), stopping());
            run("pulse", async move { links.pulse(region, stop).await }.boxed());
        }
        for desk in &self.desks {
            let (tending, watching) = (Arc::clone(desk), Arc::clone(desk));
            let (stop, other) = (stopping(), stopping());
            run("desk", async move { tending.tend_asked(stop).await }.boxed());
            run("leases", async move { watching.watch_leases(other).await }.boxed());
        }
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
        let leader = self.groups.of_shard(shard).and_then(|group| group.status().leader);
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
                let leaders = self.groups.all().iter().map(|group| group.status().leader);
                Answered::Pulse(leaders.map(|leader| leader.map(|node| node.0)).collect())
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
            Ask::PlacementChanges { .. }
            | Ask::PlacementOf { .. }
            | Ask::PlacementChange { .. } => {
                self.directory.answer(ask, Instant::now() + PATIENCE).await
            }
        }
    }
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
