//! The task that keeps a group in shape: publishes its status, takes snapshots, purges the log,
//! hands leadership over when the clock is wrong, and notices when consensus has stopped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use openraft::async_runtime::watch::WatchReceiver;
use tokio::sync::Semaphore;

use crate::clock::ClockVerdict;
use crate::error::StopReason;
use crate::group::core::GroupCore;
use crate::status::GroupStatus;
use crate::wal::Wal;

/// How often numbers are looked at that nobody announces. Short enough that the log grows by a
/// fraction of a snapshot's worth in between.
const LOOK_PERIOD: Duration = Duration::from_millis(200);

/// How long handing leadership over because of the clock may take, before it is tried again.
const CLOCK_TRANSFER_LIMIT: Duration = Duration::from_secs(5);

/// A group that is written to rarely keeps old segments of the shared log alive; from this many on
/// it takes a snapshot and lets them go.
const PINNED_SEGMENTS_MAX: u64 = 8;

/// What the keeper needs beside the group.
pub(super) struct Keeper {
    pub(super) core: Arc<GroupCore>,
    pub(super) wal: Arc<Wal>,
    pub(super) queued: Box<dyn Fn() -> usize + Send + Sync>,
    pub(super) sweep: Box<dyn Fn() + Send + Sync>,
    /// One attempt at a time to hand leadership over.
    pub(super) handing_over: Arc<Semaphore>,
}

impl Keeper {
    /// Runs until the group's tasks end or consensus stops.
    pub(super) async fn run(self) {
        let core = &self.core;
        let mut server = core.raft.server_metrics();
        let mut ticks = tokio::time::interval(LOOK_PERIOD);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut purged_for = core.snapshots.current().and_then(|now| now.covered().last);
        loop {
            let status = core.current_status((self.queued)());
            let leads_now = core.not_leader().is_none();
            let changed = core
                .leads
                .send_if_modified(|leads| std::mem::replace(leads, leads_now) != leads_now);
            if changed && leads_now {
                // It stamps nothing before it knows them.
                core.clocks.ask_soon();
            }
            self.publish(&status);
            if self.has_ended() {
                return;
            }
            tokio::select! {
                changed = server.changed() => {
                    if changed.is_err() && !self.has_ended() {
                        self.give_up("ended");
                        return;
                    }
                }
                _ = ticks.tick() => {
                    (self.sweep)();
                    self.look_at_log(&status).await;
                    let snapshot = core.snapshots.current().and_then(|now| now.covered().last);
                    if snapshot != purged_for {
                        purged_for = snapshot;
                        self.purge(core.settings.keep_log_bytes).await;
                    }
                    self.look_at_clock();
                }
            }
        }
    }

    /// Whether consensus has ended for a reason of its own. Everybody is told then.
    fn has_ended(&self) -> bool {
        let state = self.core.raft.metrics().borrow_watched().running_state.clone();
        match state {
            Ok(()) => false,
            Err(fatal) => {
                self.give_up(&fatal.to_string());
                true
            }
        }
    }

    fn give_up(&self, reason: &str) {
        self.core.stop.stop(StopReason::Consensus(reason.to_owned()));
        self.core.hosted.abandon_waiters();
    }

    fn publish(&self, status: &GroupStatus) {
        self.core.status.send_if_modified(|published| {
            let changed = published != status;
            if changed {
                published.clone_from(status);
            }
            changed
        });
    }

    async fn look_at_log(&self, status: &GroupStatus) {
        let core = &self.core;
        // Groups that share a log should not all write their snapshots at the same moment.
        let stagger = u64::from(core.id.0 % 8) * core.settings.snapshot_log_bytes / 16;
        let enough = core.settings.snapshot_log_bytes.saturating_add(stagger);
        let is_pinning = self.pinned_segments() > PINNED_SEGMENTS_MAX;
        let is_covered = status.snapshot_index == status.applied_index;
        if is_pinning && is_covered {
            self.purge(0).await;
        } else if status.log_bytes_since_snapshot > enough || is_pinning {
            // An error means that consensus has ended, which the next round sees.
            drop(core.trigger_snapshot().await);
        }
    }

    fn pinned_segments(&self) -> u64 {
        let oldest = self.core.log.oldest_segment();
        oldest.map_or(0, |oldest| self.wal.newest_segment().saturating_sub(oldest))
    }

    async fn purge(&self, keep_bytes: u64) {
        if let Some(upto) = self.core.log.purge_target(keep_bytes) {
            drop(self.core.raft.trigger().purge_log(upto).await);
        }
    }

    fn look_at_clock(&self) {
        let core = &self.core;
        let verdict = core.judge_clock(core.clocks.now()).sure();
        let Some(verdict @ (ClockVerdict::Ahead | ClockVerdict::Behind)) = verdict else {
            return;
        };
        if core.not_leader().is_some() {
            return;
        }
        let Some(successor) = core.successor() else {
            return;
        };
        let Ok(attempt) = Arc::clone(&self.handing_over).try_acquire_owned() else {
            return;
        };
        tracing::warn!(
            group = %core.id, ?verdict, %successor,
            "handing leadership over because of the clock"
        );
        let core = Arc::clone(core);
        self.core.tasks.spawn(async move {
            let _attempt = attempt;
            let deadline = Instant::now() + CLOCK_TRANSFER_LIMIT;
            if let Err(error) = core.transfer_leadership(successor, deadline).await {
                tracing::warn!(group = %core.id, error = %error, "leadership was not handed over");
            }
        });
    }
}
