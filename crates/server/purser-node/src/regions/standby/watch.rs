//! A shard's leader and its standbys: who follows, and what they have.
//!
//! - R1: what home decides is answered, and a voucher leaves, only when every promotable standby has it.
//! - R6: but for calls whose sum stays within X.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use purser_ledger::{AccountName, Ledger, Outcome};
use purser_placement::{Beginning, ChangeNumber, TenantPlacement};
use purser_raft::{Group, NodeId};
use purser_types::{Epoch, Region, TenantId};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::answering::Answerable;
use super::messages::{StandbyAnswer, StandbyAsk};
use super::{Plan, ShardGroup};
use crate::regions::Regions;
use crate::regions::links::Links;
use crate::regions::messages::{Answered, Ask};
use crate::regions::placement::Directory;
use crate::shards::Shard;
use crate::tasks::chain;

/// How often a standby is asked to follow, and looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How long a standby, or Placement, may take to answer one question.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long dropping a standby from Placement may take: some hundred milliseconds for each thousand
/// tenants.
const DROP_PATIENCE: Duration = Duration::from_secs(30);

/// See the module's documentation.
pub(crate) struct Watch {
    shard: Shard,
    group: Group<Ledger>,
    links: Arc<Links>,
    directory: Arc<Directory>,
    /// The node of each standby that follows the shard.
    nodes: BTreeMap<Region, NodeId>,
    /// After how long a silent standby is dropped.
    silence: Duration,
    state: tokio::sync::watch::Sender<State>,
    answerable: Mutex<Answerables>,
}

/// What of accounts the standbys lack, in one term.
#[derive(Default)]
struct Answerables {
    term: u64,
    accounts: BTreeMap<AccountName, Answerable>,
}

/// What a leader knows in its term. Another term begins anew.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct State {
    /// The term in which this node leads; nothing if it does not.
    term: Option<u64>,
    /// Whether all is known that Placement knew when the term had begun: so that a tenant without
    /// standbys does not wait for any.
    is_placed: bool,
    /// What is known of each standby. One that is not named is not known to follow.
    standbys: BTreeMap<Region, Following>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Following {
    /// It is waited for, and what it acknowledges counts.
    Acknowledges,
    /// The same, but it is about to be dropped: nobody is told that it will be waited for.
    Leaving,
    /// No tenant can be promoted to it, and it is not waited for.
    Dropped,
}

/// Why something is not to be told to anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotSecured {
    /// A standby did not have it in time.
    #[error("a standby has not acknowledged it")]
    TooLate,
    /// The account's home is elsewhere by now, which does not know of it.
    #[error("the account has another home")]
    Fenced,
}

impl Watch {
    pub(in crate::regions) fn new(
        (shard, group): ShardGroup,
        (links, directory): (Arc<Links>, Arc<Directory>),
        plan: &Plan,
        silence: Duration,
    ) -> Self {
        let standbys = plan.standbys_of(links.own());
        let nodes =
            standbys.into_iter().filter_map(|region| Some((region, plan.node_of(region, shard)?)));
        Self {
            shard,
            group,
            links,
            directory,
            nodes: nodes.collect(),
            silence,
            state: tokio::sync::watch::Sender::default(),
            answerable: Mutex::default(),
        }
    }

    /// The standbys of this region's shards.
    pub(in crate::regions) fn standbys(&self) -> impl Iterator<Item = Region> {
        self.nodes.keys().copied()
    }

    /// Waits until what home has decided may be answered: `outcomes` of the entry at `index`.
    pub(crate) async fn secure_outcomes(
        &self,
        account: &AccountName,
        (outcomes, index): (&[Outcome], u64),
        deadline: Instant,
    ) -> Result<(), NotSecured> {
        // What is refused has no effect; a fail-over may forget it.
        if self.nodes.is_empty() || outcomes.iter().all(|outcome| outcome.result.is_err()) {
            return Ok(());
        }
        if self.may_answer(account, outcomes) {
            let epoch = self.epoch_of(account);
            return self.check_home(&account.tenant, epoch);
        }
        self.secure(account, index, deadline).await
    }

    /// Waits until every standby that an account may be promoted to has the entry at `index`, which is
    /// committed.
    pub(crate) async fn secure(
        &self,
        account: &AccountName,
        index: u64,
        deadline: Instant,
    ) -> Result<(), NotSecured> {
        if self.nodes.is_empty() {
            return Ok(());
        }
        let (tenant, epoch) = (&account.tenant, self.epoch_of(account));
        let securing = async {
            for (standby, node) in &self.nodes {
                self.secure_by((*standby, *node), tenant, (index, deadline)).await;
            }
        };
        match tokio::time::timeout_at(deadline.into(), securing).await {
            // Order matters: what was learned of Placement while waiting counts.
            Ok(()) => self.check_home(tenant, epoch),
            Err(_elapsed) => Err(NotSecured::TooLate),
        }
    }

    /// Waits until one standby has an entry, or is not waited for.
    async fn secure_by(
        &self,
        (standby, node): (Region, NodeId),
        tenant: &TenantId,
        (index, deadline): (u64, Instant),
    ) {
        let mut state = self.state.subscribe();
        loop {
            let now = state.borrow_and_update().clone();
            let following = match self.follows(&now, tenant, standby) {
                Need::None => return,
                Need::Acknowledged => true,
                Need::Unsure => false,
            };
            let acknowledged = async {
                if following {
                    return self.group.acknowledged(node, index, deadline).await.is_ok();
                }
                std::future::pending().await
            };
            tokio::select! {
                biased;
                // Order matters: the term is looked at after the acknowledgment, so it is of this term.
                is_there = acknowledged => if is_there && self.is_current(&now) { return },
                // The sender is in this very value.
                _ = state.changed() => continue,
            }
            // It does not lead any more, or again: the next look at the state tells.
            if state.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Whether what is known is of the term in which this node leads now.
    fn is_current(&self, state: &State) -> bool {
        state.term.is_some() && state.term == self.group.leading_term()
    }

    fn follows(&self, state: &State, tenant: &TenantId, standby: Region) -> Need {
        if !self.is_current(state) {
            return Need::Unsure;
        }
        let following = state.standbys.get(&standby).copied();
        if following == Some(Following::Dropped) {
            return Need::None;
        }
        let known = self.directory.known_home(tenant).filter(|_| state.is_placed);
        let has = |it: &TenantPlacement| it.standbys.iter().any(|one| one.region == standby);
        if known.is_some_and(|known| !has(&known)) {
            return Need::None;
        }
        match following {
            Some(_) => Need::Acknowledged,
            None => Need::Unsure,
        }
    }

    /// The epoch under which an account decides here, or did until it has left.
    fn epoch_of(&self, account: &AccountName) -> Option<Epoch> {
        self.group.view(|ledger, _| match ledger.account(account) {
            Some(account) => Some(account.epoch()),
            None => ledger.away(account).map(|(_, next)| Epoch(next.0.saturating_sub(1))),
        })
    }

    /// Refuses to tell what was decided under an epoch that ended with a lost home. What ended with a move
    /// has been taken along.
    fn check_home(&self, tenant: &TenantId, epoch: Option<Epoch>) -> Result<(), NotSecured> {
        let Some(known) = self.directory.known_home(tenant) else { return Ok(()) };
        let epoch = epoch.ok_or(NotSecured::Fenced)?;
        let is_next = known.epoch == Epoch(epoch.0.saturating_add(1));
        let is_lost = known.beginning == Beginning::FailedOver;
        if known.epoch <= epoch || is_next && !is_lost { Ok(()) } else { Err(NotSecured::Fenced) }
    }

    /// Whether all that was accepted counts under X and stays within it.
    fn may_answer(&self, account: &AccountName, outcomes: &[Outcome]) -> bool {
        let state = self.state.borrow().clone();
        let mut nodes = Vec::new();
        for (standby, node) in &self.nodes {
            match self.follows(&state, &account.tenant, *standby) {
                Need::None => (),
                Need::Acknowledged => nodes.push(*node),
                Need::Unsure => return false,
            }
        }
        if nodes.is_empty() {
            return true;
        }
        let acknowledged = nodes.iter().map(|node| self.group.acknowledged_index(*node)).min();
        let acknowledged = acknowledged.flatten();
        let Some(term) = state.term else { return false };
        let mut answerable = self.answerable();
        if answerable.term != term {
            *answerable = Answerables { term, accounts: BTreeMap::new() };
        }
        let known = &mut answerable.accounts;
        match Answerable::may_answer(known, &self.group, account, (outcomes, acknowledged)) {
            Ok(may) => may,
            Err(error) => {
                tracing::warn!(error = chain(&error), "what a standby lacks could not be read");
                false
            }
        }
    }

    fn answerable(&self) -> MutexGuard<'_, Answerables> {
        self.answerable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notices new terms, and learns what Placement knew when they had begun; until `stopping`.
    pub(in crate::regions) async fn keep_terms(&self, stopping: CancellationToken) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut status = self.group.watch();
        loop {
            tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                changed = status.changed() => if changed.is_err() { return },
                _ = ticks.tick() => (),
            }
            let term = self.group.leading_term();
            if self.state.borrow().term != term {
                self.state.send_replace(State { term, ..State::default() });
            }
            if term.is_some() && !self.state.borrow().is_placed {
                let deadline = Instant::now() + PATIENCE;
                let confirming = self.directory.confirm(deadline);
                let confirmed = tokio::time::timeout_at(deadline.into(), confirming).await;
                self.state.send_if_modified(|state| {
                    state.is_placed = matches!(confirmed, Ok(Ok(()))) && state.term == term;
                    state.is_placed
                });
            }
        }
    }

    /// Has a standby follow, and drops it when it does not for a while; until `stopping`.
    pub(in crate::regions) async fn tend(
        &self,
        regions: &Regions,
        standby: Region,
        stopping: CancellationToken,
    ) {
        let Some(node) = self.nodes.get(&standby).copied() else { return };
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut pace = Pace::default();
        loop {
            tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                _ = ticks.tick() => (),
            }
            let state = self.state.borrow().clone();
            let Some(term) = state.term.filter(|_| self.is_current(&state)) else {
                pace = Pace::default();
                continue;
            };
            // Order matters: what it is to have was there before it was asked.
            let written = self.group.shown_index();
            let is_there = self.have_follow(standby, node).await;
            let acknowledged = self.group.acknowledged_index(node);
            let following = state.standbys.get(&standby).copied();
            let is_first = pace.is_new();
            let has_all = is_there && acknowledged >= pace.wanted(written);
            if has_all {
                pace.restart(written);
            }
            let was_dropped = || state.is_placed && !regions.is_any_promotable(standby);
            let is_over = match following {
                // A new leader need not wait for what the one before has waited for.
                None => pace.is_over(self.silence) || is_first && !is_there && was_dropped(),
                Some(Following::Acknowledges) => pace.is_over(self.silence),
                Some(Following::Leaving) => !is_there,
                Some(Following::Dropped) => false,
            };
            let new = match following {
                None | Some(Following::Leaving) if is_there && !is_over => Following::Acknowledges,
                Some(Following::Dropped) if has_all => Following::Acknowledges,
                _ if is_over => {
                    // Order matters: from here on nothing is promised, so nobody takes the standby back while
                    // it is dropped.
                    if following.is_some() {
                        self.note(term, standby, Following::Leaving);
                    }
                    let deadline = Instant::now() + DROP_PATIENCE;
                    if !regions.have_dropped(standby, deadline).await {
                        continue;
                    }
                    Following::Dropped
                }
                _ => continue,
            };
            self.note(term, standby, new);
            pace = Pace::default();
        }
    }

    fn note(&self, term: u64, standby: Region, following: Following) {
        let is_news = self.state.send_if_modified(|state| {
            let is_of_term = state.term == Some(term);
            is_of_term && state.standbys.insert(standby, following) != Some(following)
        });
        if !is_news {
            return;
        }
        let Shard(shard) = self.shard;
        match following {
            Following::Acknowledges => tracing::info!(%standby, shard, "a standby follows"),
            Following::Leaving => {
                tracing::info!(%standby, shard, "a standby is silent or too slow, and is to be dropped");
            }
            Following::Dropped => {
                tracing::warn!(%standby, shard, "a standby is dropped, and not waited for");
            }
        }
    }

    /// Asks a standby's node to follow, and consensus to send it entries. Whether it does.
    async fn have_follow(&self, standby: Region, node: NodeId) -> bool {
        let status = self.group.status();
        if !status.learners.contains(&node) {
            let added = self.group.add_learner(node, Instant::now() + PATIENCE).await;
            if let Err(error) = added {
                tracing::debug!(%standby, %node, %error, "a standby could not be added");
                return false;
            }
        }
        let (Shard(shard), home) = (self.shard, self.links.own());
        let placed = self.directory.cursor();
        let ask = Ask::Standby(StandbyAsk::Follow { home, shard, placed });
        let deadline = Instant::now() + PATIENCE;
        match self.links.ask_any(vec![node], (standby, None), &ask, deadline).await {
            Ok(Answered::Standby(answer)) => answer == StandbyAnswer::Yes,
            Ok(_) => false,
            Err(error) => {
                tracing::trace!(%standby, %error, "a standby was not asked");
                false
            }
        }
    }

    /// Whether a standby follows with all that is here, and will be waited for from now on, for whichever
    /// tenant it stands by since `placed`.
    pub(in crate::regions) async fn promise(&self, standby: Region, placed: ChangeNumber) -> bool {
        let Some(node) = self.nodes.get(&standby) else { return false };
        // Order matters: it leads after it was asked, so whoever has led before knows nothing more.
        if self.group.read_barrier(Instant::now() + PATIENCE).await.is_err()
            || self.directory.cursor() < placed
        {
            return false;
        }
        let mut seen = self.state.subscribe();
        let state = seen.borrow_and_update().clone();
        if state.standbys.get(&standby) != Some(&Following::Acknowledges) {
            return false;
        }
        // Order matters: what is answered from here on waits for the standby, so it has to have what there
        // is now. The term is looked at last.
        let Some(written) = self.group.shown_index() else { return false };
        let deadline = Instant::now() + PATIENCE;
        self.group.acknowledged(*node, written, deadline).await.is_ok()
            && !seen.has_changed().unwrap_or(true)
            && self.is_current(&state)
    }
}

/// Since when a standby lacks what.
#[derive(Default)]
struct Pace {
    /// Since when it has not had all that there was then, and how much that was.
    lacks: Option<(Instant, Option<u64>)>,
}

impl Pace {
    /// What a standby is to have to count as up to date.
    fn wanted(&mut self, written: Option<u64>) -> Option<u64> {
        self.lacks.get_or_insert_with(|| (Instant::now(), written)).1
    }

    fn restart(&mut self, written: Option<u64>) {
        self.lacks = Some((Instant::now(), written));
    }

    /// Whether nothing was asked of it yet.
    const fn is_new(&self) -> bool {
        self.lacks.is_none()
    }

    fn is_over(&self, silence: Duration) -> bool {
        self.lacks.is_some_and(|(since, _)| since.elapsed() >= silence)
    }
}

/// Whether a standby is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// It is not.
    None,
    /// It is, and what it acknowledges counts.
    Acknowledged,
    /// It is, and it has not said yet that it follows.
    Unsure,
}
