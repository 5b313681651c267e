//! Moving a tenant's home to another region, and bringing to its end whatever was left half done.
//!
//! ```text
//!  Placement   settled ── begin ─▶ moving ──────────────── finish ─▶ settled, epoch + 1
//!  source      decides ─────────────── stops │ calls wait  ┊         └▶ steps down, passes calls on
//!  destination          is brought everything, and the rest ┊        └▶ takes home, decides
//!                                                           └ or abort: the source goes on, epoch + 1
//! ```
//!
//! What is to be done follows from Placement and from what the shards have, never from what somebody
//! remembers: so each step may be taken by anybody, twice, or late, and a node that dies in the middle
//! is replaced by whoever leads next. In each region the leader of a tenant's first shard tends it.
//! Not here: what callers do meanwhile (`http::astray`).

mod answering;
mod copying;
mod driving;
mod messages;
mod promoting;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use purser_ledger::AccountName;
use purser_placement::{Beginning, Operation, PlacementState, Refusal, TenantPlacement};
use purser_raft::Role;
use purser_types::{Epoch, Region, TenantId, Unit};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

pub(in crate::regions) use self::messages::Place;
pub(crate) use self::messages::{MoveAnswer, MoveAsk};
use self::source::States;
use super::Regions;
use super::links::AskError;
use super::messages::{Answered, Ask};
use super::placement::DirectoryError;
use crate::shards::Shard;
use crate::tasks::chain;

/// How long one step may take while nobody waits for it.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long one attempt at a step may take: then another leader may be known. A part of a megabyte takes
/// that long over a link of two megabits a second.
const ATTEMPT: Duration = Duration::from_secs(4);

/// How long to wait before a step that nobody could answer is tried again.
const PAUSE: Duration = Duration::from_millis(20);

/// How often what could not be brought to its end is tried again.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How many tenants are tended at once. A region that is drained moves all of its tenants, and each
/// brings some kilobytes over in the usual case, so the link is what limits it and not this.
pub(super) const TENDED_MAX: usize = 16;

/// What a node keeps in mind of moves.
pub(super) struct Moves {
    states: Arc<States>,
    /// The tenants that this node tends right now.
    tended: watch::Sender<BTreeSet<TenantId>>,
    /// Why moves were given up, by tenant, with the epoch that began then.
    given_up: Mutex<BTreeMap<TenantId, (Epoch, String)>>,
}

/// Why a step of a move could not be taken. It is tried again, or the move is given up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MoveError {
    /// Nobody answered.
    #[error("a shard could not be asked")]
    Ask(#[from] AskError),
    /// Placement could not be asked, or refused.
    #[error("Placement did not do it")]
    Directory(#[from] DirectoryError),
    /// The answer is to another question.
    #[error("a question was answered with something else")]
    Foreign,
    /// The source has no such account any more.
    #[error("the account is not at its source any more")]
    Gone,
    /// The destination does not take what the source has.
    #[error("the destination refuses what the source has")]
    Refused,
    /// Some account did not stop.
    #[error("an account did not stop")]
    NotStopped,
    /// There was no time left.
    #[error("it took too long")]
    TooLong,
    /// Something has to happen first that others do.
    #[error("accounts are not all where they should be yet")]
    NotYet,
}

/// How a move ended that somebody asked for.
#[derive(Debug)]
pub(crate) enum MoveEnd {
    /// The home is where it was asked to be.
    Moved(TenantPlacement),
    /// It was given up: the home is where it was.
    GivenUp(String),
    /// There was no time left to see the end.
    Unknown,
}

impl Moves {
    /// Nothing is under way. Fails without randomness from the system.
    pub(super) fn new() -> Result<Self, getrandom::Error> {
        let (states, tended) = (Arc::new(States::new()?), watch::Sender::new(BTreeSet::new()));
        Ok(Self { states, tended, given_up: Mutex::default() })
    }

    fn note_given_up(&self, tenant: &TenantId, epoch: Epoch, reason: String) {
        let mut given_up = self.given_up.lock().unwrap_or_else(PoisonError::into_inner);
        given_up.insert(tenant.clone(), (epoch, reason));
    }

    /// Why the epoch began that ended a move, if this node has ended it.
    fn reason(&self, tenant: &TenantId, epoch: Epoch) -> Option<String> {
        let given_up = self.given_up.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, reason) = given_up.get(tenant).filter(|(known, _)| *known == epoch)?;
        Some(reason.clone())
    }

    fn tend(&self, tenant: &TenantId) {
        self.tended.send_if_modified(|tended| tended.insert(tenant.clone()));
    }

    fn leave_alone(&self, tenant: &TenantId) {
        self.tended.send_if_modified(|tended| tended.remove(tenant));
    }
}

impl Regions {
    /// The account by whose shard it is told who tends a tenant.
    pub(crate) fn first_account(tenant: &TenantId) -> AccountName {
        AccountName { tenant: tenant.clone(), unit: Unit::credits() }
    }

    /// Has whoever tends a tenant look at it.
    pub(crate) async fn have_tended(
        &self,
        tenant: &TenantId,
        deadline: Instant,
    ) -> Result<(), MoveError> {
        let ask = MoveAsk::Look { tenant: tenant.clone() };
        match self.ask_move((self.links.own(), self.first_shard(tenant)), ask, deadline).await? {
            MoveAnswer::Left(_) => Ok(()),
            _ => Err(MoveError::Foreign),
        }
    }

    /// Begins a move of a tenant's home from here, unless one is under way to the same region, and waits
    /// for its end. Only the leader of the tenant's first shard is asked.
    pub(crate) async fn move_home(
        &self,
        tenant: &TenantId,
        (epoch, to): (Epoch, Region),
        deadline: Instant,
    ) -> Result<MoveEnd, DirectoryError> {
        if !self.links.is_reachable(to) {
            return Ok(MoveEnd::GivenUp(format!("region {to} cannot be reached")));
        }
        let begin = Operation::BeginMove { epoch, to };
        let begun = self.directory.change(tenant, begin, deadline).await;
        match begun {
            Ok(_) | Err(DirectoryError::Refused(Refusal::Fenced)) => (),
            Err(error) => return Err(error),
        }
        self.directory.look_again(tenant);
        let ended = |placement: &TenantPlacement| placement.epoch > epoch;
        let Some(placement) = self.await_placement(tenant, ended, deadline).await else {
            return Ok(MoveEnd::Unknown);
        };
        if placement.home != to {
            let reason = self.moves.reason(tenant, placement.epoch);
            return Ok(MoveEnd::GivenUp(reason.unwrap_or_else(|| "it was given up".to_owned())));
        }
        // The rest is certain; it is waited for as long as there is time.
        let mut tended = self.moves.tended.subscribe();
        let is_done = tended.wait_for(|tended| !tended.contains(tenant));
        drop(tokio::time::timeout_at(deadline.into(), is_done).await);
        Ok(MoveEnd::Moved(placement))
    }

    /// Waits until what this node knows of a tenant is as wished; nothing if it is not in time.
    pub(crate) async fn await_placement(
        &self,
        tenant: &TenantId,
        is_it: impl Fn(&TenantPlacement) -> bool,
        deadline: Instant,
    ) -> Option<TenantPlacement> {
        let mut news = self.directory.news();
        loop {
            // Order matters: what is learned after this line is told by the wait below.
            news.mark_unchanged();
            if let Some(known) = self.directory.known_home(tenant).filter(|known| is_it(known)) {
                return Some(known);
            }
            tokio::time::timeout_at(deadline.into(), news.changed()).await.ok()?.ok()?;
        }
    }

    /// Tends the tenants that have moved or are about to, as far as this node leads their first shards,
    /// until `stopping`.
    pub(super) async fn tend_moves(&self, stopping: CancellationToken) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut news = self.directory.news();
        let mut led = BTreeMap::new();
        let mut waiting = BTreeSet::new();
        let mut later = BTreeSet::new();
        let mut tending = FuturesUnordered::<BoxFuture<'_, (TenantId, bool)>>::new();
        loop {
            tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                Some((tenant, is_settled)) = tending.next() => {
                    self.moves.leave_alone(&tenant);
                    if !is_settled {
                        later.insert(tenant);
                    }
                }
                changed = news.changed() => if changed.is_err() { return },
                _ = ticks.tick() => {
                    waiting.append(&mut later);
                    waiting.extend(self.newly_led(&mut led));
                }
            }
            waiting.append(&mut self.directory.take_unseen());
            // Whoever leads the others has heard of them as well.
            waiting.retain(|tenant| self.leads(self.first_shard(tenant)));
            let tended = self.moves.tended.borrow().clone();
            let room = TENDED_MAX.saturating_sub(tended.len());
            let next = waiting.iter().filter(|tenant| !tended.contains(*tenant)).take(room);
            for tenant in next.cloned().collect::<Vec<_>>() {
                waiting.remove(&tenant);
                self.moves.tend(&tenant);
                tending.push(self.tend_tenant(tenant).boxed());
            }
        }
    }

    /// The tenants that this node has to look at because it has come to lead their first shards.
    fn newly_led(&self, led: &mut BTreeMap<Shard, u64>) -> Vec<TenantId> {
        let term = |shard: Shard| {
            let status = self.groups.of_shard(shard)?.status();
            (status.role == Role::Leader).then_some((shard, status.term))
        };
        let leads_now: BTreeMap<Shard, u64> = self.all_shards().filter_map(term).collect();
        let is_known = |shard: &Shard| led.get(shard) == leads_now.get(shard);
        let new: BTreeSet<Shard> =
            leads_now.keys().filter(|shard| !is_known(shard)).copied().collect();
        let tenants = if new.is_empty() { Vec::new() } else { self.directory.moves() };
        *led = leads_now;
        tenants.into_iter().filter(|tenant| new.contains(&self.first_shard(tenant))).collect()
    }

    async fn tend_tenant(&self, tenant: TenantId) -> (TenantId, bool) {
        let Some(placement) = self.directory.known_home(&tenant) else { return (tenant, true) };
        let is_here = placement.home == self.links.own();
        let tending = match placement.state {
            PlacementState::Moving { to } if is_here => self.drive(&tenant, &placement, to).await,
            _ if is_here && placement.beginning == Beginning::FailedOver => {
                self.take_over(&tenant, &placement).await
            }
            _ if is_here => self.settle_here(&tenant, &placement).await,
            _ => self.leave(&tenant, &placement).await,
        };
        match tending {
            Ok(()) => (tenant, true),
            Err(error) => {
                let (name, reason) = (tenant.as_str(), chain(&error));
                match error {
                    // Somebody has to look at that: the tenant has no home meanwhile.
                    MoveError::Gone | MoveError::Refused | MoveError::Foreign => {
                        tracing::error!(
                            tenant = name,
                            reason,
                            "a home cannot come to where it is to be"
                        );
                    }
                    _ => tracing::debug!(tenant = name, reason, "a move is not at its end yet"),
                }
                (tenant, false)
            }
        }
    }

    fn first_shard(&self, tenant: &TenantId) -> Shard {
        self.groups.shard_of(&Self::first_account(tenant))
    }

    pub(super) fn leads(&self, shard: Shard) -> bool {
        self.groups.of_shard(shard).is_some_and(|group| group.is_leading())
    }

    /// Asks the leader of a shard for a step, again and again until it has answered: any step may be
    /// taken twice.
    pub(super) async fn ask_move(
        &self,
        (region, shard): (Region, Shard),
        ask: MoveAsk,
        deadline: Instant,
    ) -> Result<MoveAnswer, MoveError> {
        let Shard(number) = shard;
        let ask = Ask::Move { shard: number, ask };
        loop {
            let attempt = deadline.min(Instant::now() + ATTEMPT);
            match self.ask_shard((region, shard), &ask, attempt).await {
                Ok(Answered::Move(answer)) => return Ok(answer),
                Ok(_) => return Err(MoveError::Foreign),
                Err(error) if deadline <= Instant::now() + PAUSE => return Err(error.into()),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}
