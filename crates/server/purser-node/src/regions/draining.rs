//! Draining this region: moving the homes of all its tenants elsewhere, some at a time.
//!
//! ```text
//!  asked ─▶ all tenants whose home is here ─▶ begin each move, wait for its end ─┐
//!             ▲ once more, while some could be moved ◀──────────────────────────┘
//!             └ nobody left, nobody movable, or stopped ─▶ ended
//! ```
//!
//! Who is left follows from Placement and is never remembered: whoever asks another node for a drain, or
//! the same one after a crash, goes on with what is left, and a move that had begun is brought to its end
//! by whoever tends its tenant. What is kept here is how far this drain has come, and it may be lost.
//! The leader of the region's first shard does it, so that one node does.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream;
use purser_types::{Region, TenantId};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Regions;
use super::moving::{MoveEnd, TENDED_MAX};
use super::placement::DirectoryError;
use crate::shards::Shard;
use crate::tasks::chain;

/// The shard whose leader drains its region.
pub(crate) const FIRST_SHARD: Shard = Shard(0);

/// How long to wait for the end of one move: somewhat longer than bringing a large account over may take.
const MOVE_PATIENCE: Duration = Duration::from_secs(2_400);

/// How many failures are kept with their reasons: the first ones tell what is wrong.
const FAILED_KEPT_MAX: usize = 100;

/// Whether this region is being drained, as far as this node knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum DrainPhase {
    /// Nobody has asked this node.
    #[default]
    Idle,
    /// Homes are moved.
    Draining,
    /// Somebody has stopped it.
    Stopped,
    /// Nobody is left, or those that are left could not be moved.
    Ended,
}

/// How far a drain has come.
#[derive(Debug, Clone, Default)]
pub(crate) struct DrainProgress {
    /// Whether it goes on.
    pub(crate) phase: DrainPhase,
    /// Where homes go, if that was said.
    pub(crate) to: Option<Region>,
    /// Homes that it has moved.
    pub(crate) moved: u64,
    /// Homes that are here now.
    pub(crate) left: u64,
    /// How many could not be moved when all were last tried.
    pub(crate) failed_count: u64,
    /// Why the first ones of them could not.
    pub(crate) failed: BTreeMap<TenantId, String>,
}

/// Counts the drains of one node. What still runs of an earlier one has no say in a later one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Round(u64);

/// What a node keeps in mind of a drain.
#[derive(Default)]
pub(super) struct Drains {
    latest: Mutex<Latest>,
    /// Told when a drain begins.
    begun: Notify,
}

/// The latest drain.
#[derive(Default)]
struct Latest {
    round: Round,
    /// `left` in it is not kept, but counted when it is asked for.
    progress: DrainProgress,
}

impl Latest {
    fn is_on(&self) -> bool {
        self.progress.phase == DrainPhase::Draining
    }
}

impl Drains {
    fn latest(&self) -> MutexGuard<'_, Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known of a drain, unless there is a later one.
    fn note(&self, round: Round, change: impl FnOnce(&mut DrainProgress)) {
        let mut latest = self.latest();
        if latest.round == round {
            change(&mut latest.progress);
        }
    }

    fn begin(&self, to: Option<Region>) -> Result<(), Option<Region>> {
        let mut latest = self.latest();
        if latest.is_on() {
            return if latest.progress.to == to { Ok(()) } else { Err(latest.progress.to) };
        }
        let Round(before) = latest.round;
        let progress =
            DrainProgress { phase: DrainPhase::Draining, to, ..DrainProgress::default() };
        *latest = Latest { round: Round(before.saturating_add(1)), progress };
        drop(latest);
        self.begun.notify_one();
        Ok(())
    }

    /// The drain that goes on, if one does.
    fn under_way(&self) -> Option<Round> {
        let latest = self.latest();
        latest.is_on().then_some(latest.round)
    }

    /// Where a drain that goes on is to, if that was said.
    fn destination(&self, round: Round) -> Option<Option<Region>> {
        let latest = self.latest();
        (latest.is_on() && latest.round == round).then_some(latest.progress.to)
    }

    /// Stops the drain that goes on, if one does.
    fn stop(&self) {
        if let Some(round) = self.under_way() {
            self.end(round, DrainPhase::Stopped);
        }
    }

    /// Ends a drain that goes on, in this way.
    fn end(&self, round: Round, phase: DrainPhase) {
        self.note(round, |progress| {
            if progress.phase == DrainPhase::Draining {
                progress.phase = phase;
            }
        });
    }

    fn forget_failures(&self, round: Round) {
        self.note(round, |progress| {
            progress.failed_count = 0;
            progress.failed.clear();
        });
    }

    fn note_moved(&self, round: Round) {
        self.note(round, |progress| progress.moved = progress.moved.saturating_add(1));
    }

    fn note_failed(&self, round: Round, tenant: TenantId, reason: String) {
        self.note(round, |progress| {
            progress.failed_count = progress.failed_count.saturating_add(1);
            if progress.failed.len() < FAILED_KEPT_MAX {
                progress.failed.insert(tenant, reason);
            }
        });
    }
}

impl Regions {
    /// Begins to move all homes out of this region, unless that is under way. Refuses another
    /// destination than that of the drain under way, and says which that is.
    pub(crate) fn begin_drain(&self, to: Option<Region>) -> Result<(), Option<Region>> {
        self.drains.begin(to)
    }

    /// Begins no more moves. Those that have begun come to their end.
    pub(crate) fn stop_drain(&self) {
        self.drains.stop();
    }

    /// How far the drain has come; nothing while this node does not know who is home here.
    pub(crate) fn drain_progress(&self) -> Option<DrainProgress> {
        if !self.directory.is_followed() {
            return None;
        }
        let left = self.directory.homes_in(self.links.own()).len();
        let left = u64::try_from(left).unwrap_or(u64::MAX);
        Some(DrainProgress { left, ..self.drains.latest().progress.clone() })
    }

    /// Drains this region whenever that was asked for, until `stopping`.
    pub(super) async fn drain_when_asked(&self, stopping: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                () = self.drains.begun.notified() => (),
            }
            // It may have been stopped by now.
            let Some(round) = self.drains.under_way() else { continue };
            tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                () = self.drain(round) => (),
            }
        }
    }

    async fn drain(&self, round: Round) {
        loop {
            self.drains.forget_failures(round);
            let homes = stream::iter(self.directory.homes_in(self.links.own()));
            let moving =
                homes.map(|tenant| self.drain_one(round, tenant)).buffer_unordered(TENDED_MAX);
            let moved = moving.filter(|moved| std::future::ready(*moved)).count().await;
            // Who could not be moved may be by now, if others could; and somebody may have come.
            if moved == 0 || self.drains.destination(round).is_none() {
                break;
            }
        }
        self.drains.end(round, DrainPhase::Ended);
    }

    /// Moves one home, if the drain goes on. Whether it has moved.
    async fn drain_one(&self, round: Round, tenant: TenantId) -> bool {
        if !self.leads(FIRST_SHARD) {
            // Whoever leads now is asked for the rest.
            self.drains.end(round, DrainPhase::Idle);
        }
        let wanted = self.drains.destination(round);
        let own = self.links.own();
        let here = self.directory.known_home(&tenant).filter(|placement| placement.home == own);
        let (Some(wanted), Some(placement)) = (wanted, here) else { return false };
        let is_reachable = |region: &Region| self.links.is_reachable(*region);
        let standbys = placement.standbys.iter().map(|standby| standby.region);
        let mut others = standbys.chain(self.links.others()).filter(is_reachable);
        let Some(to) = wanted.or_else(|| others.next()) else {
            self.drains.note_failed(round, tenant, "no other region can be reached".to_owned());
            return false;
        };
        let deadline = Instant::now() + MOVE_PATIENCE;
        let reason = match self.move_home(&tenant, (placement.epoch, to), deadline).await {
            Ok(MoveEnd::Moved(_)) => {
                self.drains.note_moved(round);
                return true;
            }
            Ok(MoveEnd::GivenUp(reason)) => reason,
            Ok(MoveEnd::Unknown) => "it was not at its end in time".to_owned(),
            Err(error) => {
                if matches!(error, DirectoryError::Unreachable(_)) {
                    // Everybody else would wait for it in vain.
                    self.drains.end(round, DrainPhase::Ended);
                }
                chain(&error)
            }
        };
        self.drains.note_failed(round, tenant, reason);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(name: &str) -> Option<Region> {
        Some(Region::parse(name).unwrap())
    }

    #[test]
    fn a_drain_begins_once_and_goes_one_way() {
        let drains = Drains::default();
        assert_eq!(drains.begin(region("eu")), Ok(()));
        let round = drains.under_way().unwrap();
        drains.note_moved(round);
        assert_eq!(drains.begin(region("eu")), Ok(()));
        assert_eq!((drains.under_way(), drains.latest().progress.moved), (Some(round), 1));
        assert_eq!(drains.begin(None), Err(region("eu")));
        drains.stop();
        assert_eq!(drains.under_way(), None);
        // The last of its moves comes to its end when it has been stopped.
        drains.note_moved(round);
        drains.end(round, DrainPhase::Ended);
        let progress = drains.latest().progress.clone();
        assert_eq!((progress.phase, progress.moved), (DrainPhase::Stopped, 2));
        assert_eq!(drains.begin(None), Ok(()));
        assert_eq!(drains.latest().progress.moved, 0);
    }

    #[test]
    fn what_is_left_of_a_stopped_drain_has_no_say_in_the_next_one() {
        let drains = Drains::default();
        assert_eq!(drains.begin(region("eu")), Ok(()));
        let stopped = drains.under_way().unwrap();
        drains.stop();
        // A move of it is still under way when the next one begins.
        assert_eq!(drains.begin(region("ap")), Ok(()));
        let next = drains.under_way().unwrap();
        drains.note_failed(next, TenantId::parse("acme").unwrap(), "no way".to_owned());
        assert_eq!(drains.destination(stopped), None);
        drains.note_moved(stopped);
        drains.note_failed(stopped, TenantId::parse("beta").unwrap(), "no way".to_owned());
        drains.forget_failures(stopped);
        drains.end(stopped, DrainPhase::Ended);
        let progress = drains.latest().progress.clone();
        assert_eq!((progress.phase, progress.moved), (DrainPhase::Draining, 0));
        assert_eq!(progress.failed_count, 1);
        assert_eq!(drains.destination(next), Some(region("ap")));
    }

    #[test]
    fn failures_are_counted_and_the_first_ones_kept() {
        let drains = Drains::default();
        assert_eq!(drains.begin(None), Ok(()));
        let round = drains.under_way().unwrap();
        for number in 0..FAILED_KEPT_MAX + 7 {
            let tenant = TenantId::parse(&format!("t{number:03}")).unwrap();
            drains.note_failed(round, tenant, "no way".to_owned());
        }
        let progress = drains.latest().progress.clone();
        assert_eq!((progress.failed_count, progress.failed.len()), (107, 100));
        drains.forget_failures(round);
        assert_eq!(drains.latest().progress.failed_count, 0);
    }
}
