//! Placement as this node knows it: who is home of whom, followed into a cache, and changed by its
//! group's leader.
//!
//! The group's voters stand in several regions, so a change takes a wide-area round trip; looking
//! does not. The data path goes on without the group: what is known stays known. A tenant that the
//! cache does not know is asked for, because "not known here" is not "not there".

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use purser_placement::{
    Answer, Cache, ChangeNumber, Changes, Command, Operation, Outcome, PAGE_MAX, PeerAddress,
    Placement, Refusal, Request, SetRegion, TenantPlacement,
};
use purser_raft::{
    Group, GroupId, GroupSettings, Host, NodeId, ProposeError, RaftTimings, ReadError,
};
use purser_types::{Region, TenantId, codec};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::known::Known;
use super::links::{AskError, Links};
use super::messages::{Answered, Ask, Changed};
use crate::groups::GroupsError;
use crate::settings::{NodeSettings, RegionSettings, RouterSettings};
use crate::tasks::chain;

/// The number of the Placement group. No region's groups get there.
pub(crate) const PLACEMENT_GROUP: GroupId = GroupId(u32::MAX);

/// How often a node of the group looks for changes, and others ask for them.
const FOLLOW_EVERY: Duration = Duration::from_millis(250);

/// How long one voter may take to answer what changes nothing.
const VOTER_PATIENCE: Duration = Duration::from_secs(1);

/// How long to wait before a replica is looked at again that lags behind its leader.
const CATCH_UP_PAUSE: Duration = Duration::from_millis(20);

/// How long one question about Placement may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// See the module's documentation.
pub(crate) struct Directory {
    node: NodeId,
    voters: BTreeSet<NodeId>,
    /// On the nodes that vote.
    group: Option<Group<Placement>>,
    links: Arc<Links>,
    known: Known,
    /// Whether the cache was whole once.
    is_followed: watch::Sender<bool>,
    /// Whether all is known that the group knew when this node was started.
    is_confirmed: AtomicBool,
    /// The regions as the configuration has them, where they are to be made known.
    regions: Vec<SetRegion>,
    /// How many regions there are.
    regions_count: usize,
}

/// Why Placement could not be asked or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DirectoryError {
    /// Its group has no leader that can be reached; nothing happened.
    #[error("Placement cannot be reached: {0}")]
    Unreachable(String),
    /// It may have happened.
    #[error("what became of the change is not known")]
    Unknown,
    /// It was refused.
    #[error("Placement refuses it")]
    Refused(#[source] Refusal),
}

impl Directory {
    /// Opens the group, if this node votes in it.
    pub(crate) async fn open(
        host: &Host,
        settings: &NodeSettings,
        regions: &RegionSettings,
        links: Arc<Links>,
    ) -> Result<Self, GroupsError> {
        let voters = regions.placement_voters.clone();
        let group = if voters.contains(&settings.node) {
            let group_settings =
                GroupSettings { timings: Some(RaftTimings::WIDE), ..settings.group };
            let group = host.group(PLACEMENT_GROUP, Placement::default(), group_settings).await;
            let open_failed = |source| GroupsError::Open { group: PLACEMENT_GROUP, source };
            let group = group.map_err(open_failed)?;
            if settings.bootstrap {
                let founded = group.bootstrap(voters.clone()).await;
                let failed = |source| GroupsError::Bootstrap { group: PLACEMENT_GROUP, source };
                founded.map_err(failed)?;
            }
            Some(group)
        } else {
            None
        };
        let shards = u16::try_from(settings.shards.get()).ok().and_then(std::num::NonZeroU16::new);
        let shards = shards.expect("there are 1 to 1,024 shards");
        let known = regions.numbers.keys().map(|region| SetRegion {
            region: *region,
            seen: ChangeNumber::NONE,
            shards,
            peers: addresses_in(settings, *region),
        });
        let regions: Vec<SetRegion> = known.collect();
        Ok(Self {
            node: settings.node,
            voters,
            group,
            links,
            known: Known::new(),
            is_followed: watch::Sender::new(false),
            is_confirmed: AtomicBool::new(false),
            regions_count: regions.len(),
            regions,
        })
    }

    /// Of a router: it follows, and has no say.
    pub(crate) fn outside(settings: &RouterSettings, links: Arc<Links>) -> Self {
        Self {
            node: settings.node,
            voters: settings.placement_voters.clone(),
            group: None,
            links,
            known: Known::new(),
            is_followed: watch::Sender::new(false),
            is_confirmed: AtomicBool::new(false),
            regions: Vec::new(),
            regions_count: settings.regions.len(),
        }
    }

    /// Who is home of a tenant, as far as this node knows; nothing if it knows no such tenant.
    pub(crate) fn known_home(&self, tenant: &TenantId) -> Option<TenantPlacement> {
        self.known.look(|cache| cache.home_of(tenant).known.cloned())
    }

    /// Who is home of a tenant; nothing if there is no such tenant now. Asks the group's leader if
    /// this node knows of none.
    pub(crate) async fn home_of(
        &self,
        tenant: &TenantId,
        deadline: Instant,
    ) -> Result<Option<TenantPlacement>, DirectoryError> {
        match self.known_home(tenant) {
            Some(known) => Ok(Some(known)),
            None => self.refresh(tenant, deadline).await,
        }
    }

    /// Who is home of a tenant now, as the group's leader knows it; nothing if there is no such tenant.
    pub(crate) async fn refresh(
        &self,
        tenant: &TenantId,
        deadline: Instant,
    ) -> Result<Option<TenantPlacement>, DirectoryError> {
        let ask = Ask::PlacementOf { tenant: tenant.clone() };
        let Answered::Tenant(found) = self.ask_leader(&ask, deadline).await? else {
            return Err(DirectoryError::Unreachable("a foreign answer".to_owned()));
        };
        if let Some(placement) = &found {
            self.learn(tenant, placement);
        }
        Ok(found)
    }

    /// Takes up what another node knows of a tenant.
    pub(crate) fn learn(&self, tenant: &TenantId, placement: &TenantPlacement) {
        self.known.learn(tenant, placement);
    }

    /// Tells of whatever is learned from now on.
    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.known.news()
    }

    /// The tenants whose home is in a region, as far as this node knows.
    pub(super) fn homes_in(&self, region: Region) -> Vec<TenantId> {
        let cache = self.whole();
        let homes = cache.tenants().filter(|(_, placement)| placement.home == region);
        homes.map(|(tenant, _)| tenant.clone()).collect()
    }

    /// The tenants that have moved, are about to, or have lost a home.
    pub(super) fn moves(&self) -> Vec<TenantId> {
        self.known.moves()
    }

    /// Those of them of which something was learned since this was last asked.
    pub(super) fn take_unseen(&self) -> BTreeSet<TenantId> {
        self.known.take_unseen()
    }

    /// Has whoever tends moves look at a tenant, if it ever moved or is about to.
    pub(crate) fn look_again(&self, tenant: &TenantId) {
        self.known.look_again(tenant);
    }

    /// Asks for a change of one tenant. Gives its placement from then on.
    pub(crate) async fn change(
        &self,
        tenant: &TenantId,
        operation: Operation,
        deadline: Instant,
    ) -> Result<TenantPlacement, DirectoryError> {
        let request = Request { tenant: tenant.clone(), operation };
        let mut changed = self.change_many(vec![request], deadline).await?;
        changed.pop().ok_or(DirectoryError::Unknown)?.map_err(DirectoryError::Refused)
    }

    /// Asks for changes of up to [`Command::REQUESTS_MAX`] tenants. Gives the placement of each from then
    /// on, or why it was refused, in their order.
    pub(crate) async fn change_many(
        &self,
        requests: Vec<Request>,
        deadline: Instant,
    ) -> Result<Vec<Result<TenantPlacement, Refusal>>, DirectoryError> {
        let tenants: Vec<TenantId> =
            requests.iter().map(|request| request.tenant.clone()).collect();
        let command = codec::encode(&Command::Tenants(requests));
        let ask = Ask::PlacementChange { command: command.into() };
        let Answered::Changed(changed) = self.ask_leader(&ask, deadline).await? else {
            return Err(DirectoryError::Unreachable("a foreign answer".to_owned()));
        };
        let results = tenants.iter().zip(changed).map(|(tenant, changed)| {
            if let Some(placement) = &changed.placement {
                self.learn(tenant, placement);
            }
            match (changed.refusal, changed.placement) {
                (None, Some(placement)) => Ok(Ok(placement)),
                (Some(refusal), _) => Ok(Err(refusal)),
                (None, None) => Err(DirectoryError::Unknown),
            }
        });
        let results = results.collect::<Result<Vec<_>, _>>()?;
        if results.len() == tenants.len() { Ok(results) } else { Err(DirectoryError::Unknown) }
    }

    /// Up to which change everything is known.
    pub(crate) fn as_of(&self) -> ChangeNumber {
        self.known.as_of()
    }

    /// Learns everything that the group knew when this was called.
    pub(crate) async fn confirm(&self, deadline: Instant) -> Result<(), DirectoryError> {
        let Answered::Latest(latest) = self.ask_leader(&Ask::PlacementLatest, deadline).await?
        else {
            return Err(DirectoryError::Unreachable("a foreign answer".to_owned()));
        };
        loop {
            self.follow_once().await;
            if latest <= self.as_of() {
                self.is_confirmed.store(true, Ordering::Release);
                return Ok(());
            }
            if deadline <= Instant::now() {
                return Err(DirectoryError::Unreachable("it could not be followed".to_owned()));
            }
            tokio::time::sleep(CATCH_UP_PAUSE).await;
        }
    }

    /// Whether everything is known that the group knew when this node was started.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.is_confirmed.load(Ordering::Acquire)
    }

    /// The tenants for which something holds, as far as they are known here. Looks at all.
    pub(crate) fn tenants(
        &self,
        holds: impl Fn(&TenantId, &TenantPlacement) -> bool,
    ) -> Vec<(TenantId, TenantPlacement)> {
        let cache = self.whole();
        let found = cache.tenants().filter(|(tenant, placement)| holds(tenant, placement));
        found.map(|(tenant, placement)| (tenant.clone(), placement.clone())).collect()
    }

    /// All that is known. A clone is cheap, and looking at a million tenants would keep what is learned
    /// waiting.
    fn whole(&self) -> Cache {
        self.known.look(Cache::clone)
    }

    /// The latest fail-over of any tenant.
    pub(super) fn failed_over(&self) -> ChangeNumber {
        self.known.failed_over()
    }

    /// Follows the group and makes known what the configuration says of regions, until `stopping`.
    pub(crate) async fn follow(&self, stopping: CancellationToken) {
        let mut ticks = tokio::time::interval(FOLLOW_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                _ = ticks.tick() => (),
            }
            self.follow_once().await;
            self.make_regions_known().await;
            if !self.is_confirmed()
                && let Err(error) = self.confirm(Instant::now() + VOTER_PATIENCE).await
            {
                tracing::debug!(error = chain(&error), "Placement is not followed to its end yet");
            }
        }
    }

    /// The term in which this node leads the group, confirmed by a majority since this was called; nothing
    /// if it does not.
    pub(crate) async fn confirmed_term(&self, deadline: Instant) -> Option<u64> {
        let group = self.group.as_ref()?;
        let term = group.leading_term()?;
        group.read_barrier(deadline).await.ok()?;
        group.leading_term().filter(|now| *now == term)
    }

    /// Who leads the group, as far as this node knows: nothing on a node that does not vote in it.
    pub(crate) fn leader(&self) -> Option<NodeId> {
        self.group.as_ref().and_then(Group::leader)
    }

    /// Whether all of Placement was known when it was last looked at.
    pub(crate) fn is_followed(&self) -> bool {
        *self.is_followed.borrow()
    }

    /// Resolves when all of Placement was known once, every region of the configuration in it.
    pub(crate) async fn followed(&self) {
        let mut followed = self.is_followed.subscribe();
        // The sender is in this very value.
        drop(followed.wait_for(|is_followed| *is_followed).await);
    }

    async fn follow_once(&self) {
        loop {
            let after = self.known.look(Cache::cursor);
            let Some(changes) = self.changes_after(after).await else { return };
            // Whoever is asked may know less than is known here, through another one.
            let is_whole = changes.latest <= changes.through;
            if changes.through != after || changes.after != after {
                self.known.apply(changes);
            }
            if is_whole {
                let regions = self.known.look(|cache| cache.regions().count());
                self.is_followed.send_replace(regions == self.regions_count);
                return;
            }
        }
    }

    /// What comes after a change: by the own replica while it hears its leader, and else by another voter, who
    /// may hear it.
    async fn changes_after(&self, after: ChangeNumber) -> Option<Changes> {
        if !self.hears_leader()
            && let Ok(Answered::Changes(changes)) =
                self.ask_voters(&Ask::PlacementChanges { after }).await
        {
            return Some(changes);
        }
        let own = self.group.as_ref();
        own.map(|group| group.view(|placement, _| placement.changes_after(after, PAGE_MAX)))
    }

    /// Whether this node votes, and gets what the leader sends.
    fn hears_leader(&self) -> bool {
        self.leader().is_some_and(|leader| leader == self.node || self.links.hears(leader))
    }

    /// What the leader of the group does once: every region of the configuration gets known.
    async fn make_regions_known(&self) {
        let Some(group) = &self.group else { return };
        if group.leader() != Some(self.node) {
            return;
        }
        let missing = |region: &&SetRegion| {
            group.view(|placement, _| placement.region(region.region).is_none())
        };
        for region in self.regions.iter().filter(missing) {
            let command = Bytes::from(codec::encode(&Command::SetRegion(region.clone())));
            if let Err(error) = group.propose(command, Instant::now() + PATIENCE).await {
                tracing::debug!(region = %region.region, %error, "a region did not get known");
                return;
            }
        }
    }

    /// Asks whoever leads the group, here or elsewhere. Boxed, because each call contains it and few come to
    /// it.
    fn ask_leader<'a>(
        &'a self,
        ask: &'a Ask,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Answered, DirectoryError>> {
        self.ask_until(ask, deadline).boxed()
    }

    async fn ask_until(&self, ask: &Ask, deadline: Instant) -> Result<Answered, DirectoryError> {
        let deadline = deadline.min(Instant::now() + PATIENCE);
        loop {
            let answered = match self.leader_here() {
                true => self.answer_here(ask.clone(), deadline).await,
                false => self.ask_voters(ask).await?,
            };
            match answered {
                Answered::NotLeader { .. } | Answered::NotNow { .. }
                    if Instant::now() < deadline =>
                {
                    tokio::time::sleep(FOLLOW_EVERY).await;
                }
                Answered::NotLeader { .. } => {
                    return Err(DirectoryError::Unreachable("nobody leads it".to_owned()));
                }
                Answered::NotNow { reason } => return Err(DirectoryError::Unreachable(reason)),
                Answered::Unknown => return Err(DirectoryError::Unknown),
                answered => return Ok(answered),
            }
        }
    }

    /// Asks the group's voters, the leader first where it is known. If some of them can be reached, but not
    /// whoever leads, they are to pass the question on: links fail one by one, and a leader that this node
    /// does not hear is followed by the others for as long as that lasts.
    async fn ask_voters(&self, ask: &Ask) -> Result<Answered, DirectoryError> {
        let leader = self.leader();
        let voters = leader.into_iter().chain(self.voters.iter().copied());
        let voters: Vec<NodeId> = voters.filter(|voter| *voter != self.node).collect();
        // A leader that is silent is not waited for: that would take all the time there is. What any voter can
        // answer is asked of all.
        let is_for_any = matches!(ask, Ask::PlacementChanges { .. });
        if is_for_any || leader.is_none_or(|leader| self.links.hears(leader)) {
            let asked = self.ask_each(&voters, ask).await?;
            if is_for_any || !matches!(asked, Answered::NotNow { .. }) {
                return Ok(asked);
            }
        }
        let others: Vec<NodeId> =
            voters.into_iter().filter(|voter| Some(*voter) != leader).collect();
        self.ask_each(&others, &Ask::PlacementThrough(Box::new(ask.clone()))).await
    }

    /// Asks one voter after the other. What changes nothing may be asked again, so one that is silent keeps
    /// nobody from asking the next.
    async fn ask_each(&self, voters: &[NodeId], ask: &Ask) -> Result<Answered, DirectoryError> {
        let own = self.links.own();
        if ask.is_change() {
            let deadline = Instant::now() + PATIENCE;
            return match self.links.ask_any(voters.to_vec(), (own, None), ask, deadline).await {
                Ok(answered) => Ok(answered),
                Err(AskError::NotNow { reason, .. }) => Ok(Answered::NotNow { reason }),
                Err(AskError::Unknown(_)) => Err(DirectoryError::Unknown),
                Err(error) => Err(DirectoryError::Unreachable(chain(&error))),
            };
        }
        let mut last = Err(DirectoryError::Unreachable("there is no other voter".to_owned()));
        for voter in voters {
            let deadline = Instant::now() + VOTER_PATIENCE;
            match self.links.ask_any(vec![*voter], (own, None), ask, deadline).await {
                Ok(answered) => return Ok(answered),
                Err(AskError::NotNow { reason, .. }) => last = Ok(Answered::NotNow { reason }),
                // Somebody may have been reached before.
                Err(error) if last.is_err() => {
                    last = Err(DirectoryError::Unreachable(chain(&error)));
                }
                Err(_) => (),
            }
        }
        last
    }

    fn leader_here(&self) -> bool {
        self.leader() == Some(self.node)
    }

    /// Answers what another node asks about Placement.
    pub(crate) async fn answer(&self, ask: Ask, deadline: Instant) -> Answered {
        let Ask::PlacementThrough(ask) = ask else { return self.answer_here(ask, deadline).await };
        match self.leader() {
            Some(leader) if leader != self.node => self.pass_on(leader, &ask, deadline).await,
            _ => self.answer_here(*ask, deadline).await,
        }
    }

    /// Has whoever leads the group answer another node.
    async fn pass_on(&self, leader: NodeId, ask: &Ask, deadline: Instant) -> Answered {
        match self.links.ask_any(vec![leader], (self.links.own(), None), ask, deadline).await {
            Ok(answered) => answered,
            // What changes nothing can be asked again.
            Err(AskError::Unknown(_)) if ask.is_change() => Answered::Unknown,
            Err(error) => Answered::NotNow { reason: chain(&error) },
        }
    }

    async fn answer_here(&self, ask: Ask, deadline: Instant) -> Answered {
        let Some(group) = &self.group else { return Answered::NotLeader { leader: None } };
        match ask {
            Ask::PlacementChanges { after } => Answered::Changes(
                group.view(|placement, _| placement.changes_after(after, PAGE_MAX)),
            ),
            Ask::PlacementLatest => match group.read_barrier(deadline).await {
                Ok(()) => Answered::Latest(group.view(|placement, _| placement.latest_change())),
                Err(ReadError::NotLeader { leader }) => not_leader(leader),
                Err(error) => Answered::NotNow { reason: chain(&error) },
            },
            Ask::PlacementOf { tenant } => match group.read_barrier(deadline).await {
                Ok(()) => {
                    Answered::Tenant(group.view(|placement, _| placement.tenant(&tenant).cloned()))
                }
                Err(ReadError::NotLeader { leader }) => not_leader(leader),
                Err(error) => Answered::NotNow { reason: chain(&error) },
            },
            Ask::PlacementChange { command } => {
                // A new leader may be asked before it has looked.
                self.make_regions_known().await;
                let command: Vec<u8> = command.into();
                answer_change(group.propose(command.into(), deadline).await)
            }
            Ask::Pulse
            | Ask::Reports(_)
            | Ask::Vouchers(_)
            | Ask::Move { .. }
            | Ask::Standby(_)
            | Ask::State(_)
            | Ask::Books(_)
            | Ask::PlacementThrough(_) => {
                Answered::NotNow { reason: "that is no question about Placement".to_owned() }
            }
        }
    }
}

fn answer_change(answer: Result<Answer, ProposeError>) -> Answered {
    let changed =
        |outcome: Outcome| Changed { refusal: outcome.result.err(), placement: outcome.placement };
    match answer {
        Ok(Answer::Tenants(outcomes)) => {
            Answered::Changed(outcomes.into_iter().map(changed).collect())
        }
        Ok(Answer::Region(_)) => Answered::Changed(Vec::new()),
        Err(ProposeError::NotLeader { leader }) => not_leader(leader),
        Err(ProposeError::OutcomeUnknown) => Answered::Unknown,
        Err(error) => Answered::NotNow { reason: chain(&error) },
    }
}

fn not_leader(leader: Option<NodeId>) -> Answered {
    Answered::NotLeader { leader: leader.map(|node| node.0) }
}

/// Where the nodes of a region are reached, as far as `settings` say.
fn addresses_in(settings: &NodeSettings, region: Region) -> Vec<PeerAddress> {
    let peers = settings.peers.values().filter(|peer| peer.region == region);
    let own = (settings.region == region).then(|| settings.peer_listen.to_string());
    let addresses = peers.map(|peer| peer.address.clone()).chain(own);
    addresses.filter_map(|address| PeerAddress::parse(&address).ok()).collect()
}
