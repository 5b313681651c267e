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
mod links;
mod messages;
mod monotonic;
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
use self::links::Links;
use self::messages::{Answered, Ask};
use self::monotonic::Monotonic;
pub(crate) use self::outpost::{Chance, Outpost};
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
            let (links, directory) = (Arc::clone(&links), Arc::clone(&directory));
            let outpost = Outpost::new((shard, group.clone()), links, directory, key.clone());
            desks.push(Arc::new(desk));
            outposts.push(Arc::new(outpost));
        }
        Ok(Self { links, directory, desks, outposts, groups })
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
            for (desk, outpost) in self.desks.iter().zip(&self.outposts) {
                let (desk, outpost) = (Arc::clone(desk), Arc::clone(outpost));
                let (stop, other) = (stopping(), stopping());
                run("vouchers", async move { desk.push(region, stop).await }.boxed());
                run("reports", async move { outpost.report_to(region, other).await }.boxed());
            }
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
