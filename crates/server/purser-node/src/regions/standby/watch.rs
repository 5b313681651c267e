//! A shard's leader and its standbys: who follows, and what they have.
//!
//! - R1: what home decides is answered, and a voucher leaves, only when every promotable standby has it.
//! - R6: but for calls whose sum stays within X.
//!
//! Here is what waits, asks and reads the clock; what follows from it is decided in
//! `purser_placement::standby`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use purser_ledger::{Account, AccountName, Ledger, Outcome};
use purser_placement::ChangeNumber;
use purser_placement::standby::{Fenced, Following, Look, Need, Pace, Step, Watched, check_home};
use purser_raft::{Group, NodeId, Role};
use purser_types::{Epoch, Region, Span, TenantId};
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
    silence: Span,
    state: tokio::sync::watch::Sender<Watched>,
    answerable: Mutex<Answerables>,
}

/// What of accounts the standbys lack, in one term.
#[derive(Default)]
struct Answerables {
    term: u64,
    accounts: BTreeMap<AccountName, Answerable>,
}

/// Why something is not to be told to anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotSecured {
    /// A standby did not have it in time.
    #[error("a standby has not acknowledged it")]
    TooLate,
    /// The account's home is elsewhere by now.
    #[error(transparent)]
    Fenced(#[from] Fenced),
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
            silence: Span::of(silence),
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
            let need = self.need(&now, tenant, standby);
            let acknowledged = async {
                match need {
                    Need::None => true,
                    Need::Acknowledged => {
                        let is_there = self.group.acknowledged(node, index, deadline).await.is_ok();
                        // Order matters: the term is looked at after the acknowledgment, so it is of this
                        // term.
                        is_there && now.current(self.group.leading_term()).is_some()
                    }
                    Need::Unsure => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                is_secured = acknowledged => if is_secured { return },
                // The sender is in this very value.
                _ = state.changed() => continue,
            }
            // It does not lead any more, or again: the next look at the state tells.
            if state.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Up to which entry every standby has the log to which any tenant could be promoted; nothing while that
    /// is not known, or this node does not lead.
    pub(crate) fn acknowledged_everywhere(&self) -> Option<u64> {
        let state = self.state.borrow().clone();
        let term = state.current(self.group.leading_term())?;
        let mut least = u64::MAX;
        for (standby, node) in &self.nodes {
            match state.following(*standby)? {
                Following::Dropped => (),
                Following::Acknowledges | Following::Leaving => {
                    least = least.min(self.group.acknowledged_index(*node)?);
                }
            }
        }
        // Order matters: the term is looked at after the acknowledgments, so they are of this term.
        (self.group.leading_term() == Some(term)).then_some(least)
    }

    /// Whether an account has gone to another home that does not know of what is decided here: it was failed
    /// over.
    pub(crate) fn is_lost(&self, account: &Account) -> bool {
        let known = self.directory.known_home(&account.name().tenant);
        let is_elsewhere = known.as_ref().is_some_and(|known| known.home != self.links.own());
        is_elsewhere && check_home(known.as_ref(), Some(account.epoch())).is_err()
    }

    fn need(&self, state: &Watched, tenant: &TenantId, standby: Region) -> Need {
        let known = self.directory.known_home(tenant);
        state.need(self.group.leading_term(), standby, known.as_ref())
    }

    /// The epoch under which an account decides here, or did until it has left.
    fn epoch_of(&self, account: &AccountName) -> Option<Epoch> {
        self.group.view(|ledger, _| match ledger.account(account) {
            Some(account) => Some(account.epoch()),
            None => ledger.away(account).map(|(_, next)| Epoch(next.0.saturating_sub(1))),
        })
    }

    fn check_home(&self, tenant: &TenantId, decided: Option<Epoch>) -> Result<(), NotSecured> {
        Ok(check_home(self.directory.known_home(tenant).as_ref(), decided)?)
    }

    /// Whether all that was accepted counts under X and stays within it.
    fn may_answer(&self, account: &AccountName, outcomes: &[Outcome]) -> bool {
        let state = self.state.borrow().clone();
        let mut nodes = Vec::new();
        for (standby, node) in &self.nodes {
            match self.need(&state, &account.tenant, *standby) {
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
        let Some(term) = state.current(self.group.leading_term()) else { return false };
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
            let leading = self.group.leading_term();
            self.state.send_if_modified(|state| state.begin(leading));
            if let Some(term) = leading
                && self.state.borrow().lacks_placement()
            {
                let deadline = Instant::now() + PATIENCE;
                let confirming = self.directory.confirm(deadline);
                if let Ok(Ok(())) = tokio::time::timeout_at(deadline.into(), confirming).await {
                    self.state.send_if_modified(|state| state.note_placed(term));
                }
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
            let Some(term) = state.current(self.group.leading_term()) else {
                pace = Pace::default();
                continue;
            };
            let look = self.look(term, standby, node).await;
            let was_dropped = || state.is_placed() && !regions.is_any_promotable(standby);
            let following = state.following(standby);
            let new = match pace.step(following, (&look, self.silence), was_dropped) {
                Step::Wait => continue,
                Step::Note(following) => following,
                Step::Drop => {
                    // Order matters: from here on nothing is promised.
                    self.note(standby, Following::Leaving, |state| {
                        state.note_leaving(term, standby)
                    });
                    let deadline = Instant::now() + DROP_PATIENCE;
                    // Order matters: known after it was dropped, because a tenant may have been failed over
                    // before, and what waits is told at once.
                    if !regions.have_dropped(standby, deadline).await
                        || self.directory.confirm(deadline).await.is_err()
                    {
                        continue;
                    }
                    Following::Dropped
                }
            };
            self.note(standby, new, |state| state.note(term, standby, new));
            pace = Pace::default();
        }
    }

    /// Asks a standby to follow, and looks at what it has.
    async fn look(&self, term: u64, standby: Region, node: NodeId) -> Look {
        // Order matters: what it is to have was there before it was asked.
        let written = self.group.shown_index();
        let follows = self.have_follow(term, standby, node).await;
        let (at, acknowledged) = (self.links.clock().now(), self.group.acknowledged_index(node));
        Look { at, written, follows, acknowledged }
    }

    fn note(&self, standby: Region, following: Following, note: impl FnOnce(&mut Watched) -> bool) {
        if !self.state.send_if_modified(note) {
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
    async fn have_follow(&self, term: u64, standby: Region, node: NodeId) -> bool {
        let status = self.group.status();
        let leads = status.role == Role::Leader && status.term == term;
        let Some(leader) = status.leader.filter(|_| leads) else { return false };
        if !status.learners.contains(&node) {
            let added = self.group.add_learner(node, Instant::now() + PATIENCE).await;
            if let Err(error) = added {
                tracing::debug!(%standby, %node, %error, "a standby could not be added");
                return false;
            }
        }
        let (Shard(shard), home) = (self.shard, self.links.own());
        let (placed, leader) = (self.directory.as_of(), leader.0);
        let ask = Ask::Standby(StandbyAsk::Follow { home, shard, placed, term, leader });
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
        if self.group.read_barrier(Instant::now() + PATIENCE).await.is_err() {
            return false;
        }
        let (as_of, state) = (self.directory.as_of(), self.state.borrow().clone());
        // Order matters: read after the state, so that what is answered from here on waits for the standby.
        let written = self.group.shown_index();
        let Some(promising) = state.promise(standby, (placed, as_of), written) else {
            return false;
        };
        let deadline = Instant::now() + PATIENCE;
        self.group.acknowledged(*node, promising.written, deadline).await.is_ok()
            && promising.holds(&self.state.borrow(), self.group.leading_term())
    }
}
