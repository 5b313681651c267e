//! Verification: what this region's homes say, held against whatever else tells of it.
//!
//! ```text
//!  history ── folded again ──▶ live state             ledger
//!  live state at an index ───▶ every replica's        replicas
//!  booked of a region ───────▶ the region's own book  regions
//!  entries ──────────────────▶ rows of PostgreSQL     read model
//! ```
//!
//! Each node verifies its own copy of each shard, now and then by itself and whenever it is asked. One
//! verification goes on at a time, on threads that may wait, so it delays no caller. It changes nothing: the
//! ledger is mended by compensating entries only, which people decide about, and the read model is built
//! again on request.

mod books;
mod ledger;
mod read_model;
mod replicas;
mod run;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use purser_api::{DIFFERENCES_TOLD_MAX, GroupNumber, VerificationId, VerificationSubject};
use purser_ledger::Ledger;
use purser_raft::{Group, NodeId, PeerCalls};
use purser_types::{LogTime, Region};
use tokio::time::{MissedTickBehavior, timeout};
use tokio_util::sync::CancellationToken;

pub(crate) use self::books::{BookThere, BooksAsked, answer_books};
pub use self::read_model::{ReadModel, ReadModelDifference, ReadModelError, ReadModelVerdict};
pub(crate) use self::replicas::{AnsweringAlone, StateAsked, answer_state};
pub(crate) use self::run::{Check, Run};
use crate::groups::Groups;
use crate::metrics::record_verification;
use crate::regions::Regions;
use crate::shards::Shard;
use crate::tasks::Tasks;

/// How many verifications are remembered. A process forgets them when it ends.
const KEPT_MAX: usize = 16;

/// Verifies what this node has. See the module's documentation.
pub(crate) struct Verifier {
    node: NodeId,
    region: Region,
    groups: Groups,
    regions: Option<Arc<Regions>>,
    calls: PeerCalls,
    read_model: OnceLock<Arc<dyn ReadModel>>,
    runs: Mutex<VecDeque<Arc<Run>>>,
    tasks: Tasks,
}

/// How much of it all a verification is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Everything: somebody has asked.
    All,
    /// This node's own copies, and of what is the same whoever compares it what this node leads.
    Own,
}

/// How long the database may take: a verification that never ends keeps all later ones from beginning.
const READ_MODEL_PATIENCE: Duration = Duration::from_secs(4 * 3_600);

/// A verification goes on that does not do what is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is under way, which does not do all that is asked; ask again when it is over")]
pub(crate) struct OtherUnderWay(VerificationId);

impl Verifier {
    /// Verifies what `groups` have.
    pub(crate) fn new(
        (node, region): (NodeId, Region),
        (groups, regions): (Groups, Option<Arc<Regions>>),
        calls: PeerCalls,
        tasks: Tasks,
    ) -> Self {
        let (read_model, runs) = (OnceLock::new(), Mutex::default());
        Self { node, region, groups, regions, calls, read_model, runs, tasks }
    }

    /// From now on this read model is verified as well. There is one a process.
    pub(crate) fn attach(&self, read_model: Arc<dyn ReadModel>) {
        if self.read_model.set(read_model).is_err() {
            tracing::warn!("a second read model was to be verified, and is not");
        }
    }

    /// Starts a verification of everything; while one goes on, that one is meant.
    pub(crate) fn begin(self: &Arc<Self>, rebuild: bool) -> Result<Arc<Run>, OtherUnderWay> {
        let (run, is_new) = self.run((Scope::All, rebuild))?;
        if is_new {
            let (verifier, running) = (Arc::clone(self), Arc::clone(&run));
            self.tasks.spawn_until_stopping(async move {
                verifier.carry_out(&running, Scope::All).await;
            });
        }
        Ok(run)
    }

    /// A verification that was started lately.
    pub(crate) fn find(&self, id: VerificationId) -> Option<Arc<Run>> {
        self.runs().iter().find(|run| run.id() == id).cloned()
    }

    /// Verifies again and again, until shutdown.
    pub(crate) async fn verify_always(
        self: Arc<Self>,
        every: Duration,
        stopping: CancellationToken,
    ) -> Result<(), std::convert::Infallible> {
        let first = tokio::time::Instant::now() + every;
        let mut ticks = tokio::time::interval_at(first, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stopping.cancelled() => return Ok(()),
                _ = ticks.tick() => (),
            }
            if let Ok((run, true)) = self.run((Scope::Own, false)) {
                tokio::select! {
                    biased;
                    () = stopping.cancelled() => return Ok(()),
                    () = self.carry_out(&run, Scope::Own) => (),
                }
            }
        }
    }

    /// The verification that goes on, or a new one.
    fn run(&self, asked: (Scope, bool)) -> Result<(Arc<Run>, bool), OtherUnderWay> {
        let (scope, rebuild) = asked;
        let now = self.groups.all().first().map_or(LogTime::ZERO, Group::now);
        let mut runs = self.runs();
        if let Some(last) = runs.back().filter(|last| last.is_running()) {
            // What is not compared may not be called sound.
            let lacks = scope == Scope::All && !last.is_whole();
            if lacks || (rebuild && !last.rebuilds()) {
                return Err(OtherUnderWay(last.id()));
            }
            return Ok((Arc::clone(last), false));
        }
        // Two at one instant would have one number.
        let after = runs.back().map_or(0, |last| last.id().number.saturating_add(1));
        let number = now.as_unix_micros().max(after);
        let id = VerificationId { node: purser_api::NodeNumber(self.node.0), number };
        let run = Arc::new(Run::new(id, (self.region, asked), now));
        if runs.len() >= KEPT_MAX {
            runs.pop_front();
        }
        runs.push_back(Arc::clone(&run));
        Ok((run, true))
    }

    async fn carry_out(&self, run: &Arc<Run>, scope: Scope) {
        if run.rebuilds() {
            run.doing("building the read model again".to_owned());
            if let Some(failed) = self.rebuild().await {
                run.add(failed);
            }
        }
        let histories = self.groups.all().iter().map(|group| group.history().end().0);
        run.set_total(histories.fold(0, u64::saturating_add));
        for (shard, group) in self.groups.by_shard() {
            self.verify_shard(run, (shard, group), scope).await;
        }
        let leads_first = || self.groups.all().first().is_some_and(Group::is_leading);
        if let Some(read_model) = self.read_model.get()
            && (scope == Scope::All || leads_first())
        {
            run.doing("comparing the read model".to_owned());
            run.add(read_model::compare(&**read_model).await);
        }
        let now = self.groups.all().first().map_or(LogTime::ZERO, Group::now);
        let verdict = run.end(now);
        record_verification(self.node, &verdict);
        match &verdict.first_difference {
            Some(first) => {
                tracing::error!(id = %run.id(), first, "verification found a difference")
            }
            None => tracing::info!(id = %run.id(), outcome = %verdict.outcome, "verified"),
        }
    }

    async fn verify_shard(
        &self,
        run: &Arc<Run>,
        (shard, group): (Shard, &Group<Ledger>),
        scope: Scope,
    ) {
        let number = GroupNumber(group.id().0);
        run.doing(format!("folding the entries of group {}", number.0));
        run.add(ledger::prove(group, run, self.tasks.stopping()).await);
        let leads = group.is_leading();
        if scope == Scope::Own && !leads {
            return;
        }
        run.doing(format!("comparing the replicas of group {}", number.0));
        run.add(replicas::compare(group, &self.calls, self.node).await);
        if let Some(regions) = &self.regions {
            run.doing(format!("comparing the books of regions with group {}", number.0));
            run.add(books::compare(regions, (shard, group)).await);
        }
    }

    /// Builds the read model again. Tells why not, if it was not.
    async fn rebuild(&self) -> Option<Check> {
        let mut check = Check::new(VerificationSubject::ReadModel, None);
        match self.read_model.get() {
            None => check.not_compared("this node keeps no read model".to_owned()),
            Some(read_model) => match timeout(READ_MODEL_PATIENCE, read_model.rebuild()).await {
                Ok(Ok(())) => return None,
                Ok(Err(error)) => check.not_compared(format!("it was not built again: {error}")),
                Err(_elapsed) => check.not_compared("it was not built again in time".to_owned()),
            },
        }
        Some(check)
    }

    fn runs(&self) -> MutexGuard<'_, VecDeque<Arc<Run>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the first differences only.
fn tell(told: &mut Vec<String>, text: String) {
    if told.len() < DIFFERENCES_TOLD_MAX {
        told.push(text);
    }
}
