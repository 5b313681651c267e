//! Failing a region over although nobody asks: what the leader of Placement does about regions of which
//! nothing is heard, where the configuration says so.
//!
//! ```text
//!  every second: who is silent? ─▶ does a majority confirm this leader? ─▶ Vigil ─ due ─▶ fail over, as if asked
//! ```
//!
//! When a region is due is decided in [`Vigil`], and whom a standby can take over by Placement. What is kept
//! here is a count and a figure, and may be lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use purser_placement::standby::Vigil;
use purser_types::{Region, Span};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::failing_over::{Left, Word};
use crate::regions::Regions;
use crate::regions::placement::DirectoryError;
use crate::tasks::chain;

/// How often it is looked who is silent.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a majority may take to confirm this leader.
const CONFIRM_PATIENCE: Duration = Duration::from_secs(2);

/// How long failing a region over to one of its standbys may take. What is left is found by the next look.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whose word it is, where an operator's stands under the name of a token.
const BY: &str = "automatic";

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Automatic {
    /// After which silence; nothing if a region is failed over only when somebody asks.
    after: Option<Span>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    vigil: Vigil,
    /// What this node did last about each region.
    done: BTreeMap<Region, FailedOver>,
}

/// What came of a region's silence, by the node that has counted it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FailedOver {
    /// When, on the clock of the links.
    pub(crate) at: Span,
    /// For how long the region had been silent.
    pub(crate) silence: Span,
    /// The standbys that took over.
    pub(crate) to: BTreeSet<Region>,
    /// How many tenants.
    pub(crate) taken_over: u64,
    /// Whom nobody could take over.
    pub(crate) left: Left,
    /// What was at stake; nothing if some of it could not be asked.
    pub(crate) at_stake: Option<u128>,
    /// Whether nothing is left to do.
    is_over: bool,
}

impl FailedOver {
    /// Whether it concerned anybody.
    const fn has_concerned(&self) -> bool {
        self.taken_over > 0 || self.left.count > 0
    }
}

impl Automatic {
    pub(in crate::regions) fn new(after: Option<Duration>) -> Self {
        Self { after: after.map(Span::of), state: Mutex::default() }
    }

    /// After which silence a region is failed over, if it is.
    pub(crate) const fn after(&self) -> Option<Span> {
        self.after
    }

    /// For how long a region is silent, as far as this node counts that.
    pub(crate) fn silence(&self, region: Region) -> Option<Span> {
        self.state().vigil.silence(region)
    }

    /// What this node did last about a region, if that concerned anybody.
    pub(crate) fn done(&self, region: Region) -> Option<FailedOver> {
        self.state().done.get(&region).filter(|done| done.has_concerned()).cloned()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what was done about a region at `at`. What was over before was another silence, whose figures
    /// stay until one concerns somebody again.
    fn note(&self, lost: Region, at: Span, change: impl FnOnce(&mut FailedOver)) {
        let mut state = self.state();
        let silence = state.vigil.silence(lost).unwrap_or_default();
        let fresh = || FailedOver { silence, at_stake: Some(0), ..FailedOver::default() };
        let under_way = state.done.get(&lost).filter(|done| !done.is_over);
        let mut done = under_way.cloned().unwrap_or_else(fresh);
        done.at = at;
        change(&mut done);
        if done.is_over {
            state.vigil.note_over(lost);
        }
        if done.has_concerned() || !state.done.contains_key(&lost) {
            state.done.insert(lost, done);
        }
    }
}

impl Regions {
    /// What this node does about silent regions by itself.
    pub(crate) const fn automatic(&self) -> &Automatic {
        &self.automatic
    }

    /// Fails regions over that are silent, while this node leads Placement; until `stopping`.
    pub(in crate::regions) async fn fail_over_the_silent(
        &self,
        after: Span,
        stopping: CancellationToken,
    ) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                _ = ticks.tick() => (),
            }
            let silent = self.links.silent();
            for lost in self.look_for_due(after, &silent).await {
                // Failing over those before took its time: one that is heard again is not lost.
                let silent = self.links.silent();
                if !silent.contains(&lost) {
                    continue;
                }
                if let Err(error) = self.fail_over_silent(lost, &silent).await {
                    let error = chain(&error);
                    tracing::warn!(%lost, by = BY, error, "a silent region is not failed over yet");
                }
            }
        }
    }

    /// Counts one look. Gives the regions that are to be failed over.
    async fn look_for_due(&self, after: Span, silent: &BTreeSet<Region>) -> BTreeSet<Region> {
        // Order matters: a majority confirms this leader after it was seen who is silent.
        let leading = match silent.is_empty() {
            true => None,
            false => self.directory.confirmed_term(Instant::now() + CONFIRM_PATIENCE).await,
        };
        let now = self.links.clock().now();
        let mut state = self.automatic.state();
        state.vigil.look((leading, now), silent);
        state.vigil.due(after)
    }

    /// Has the standbys of a silent region take over whom they can. It is done with when there is nobody
    /// left whom one of them could.
    async fn fail_over_silent(
        &self,
        lost: Region,
        silent: &BTreeSet<Region>,
    ) -> Result<(), DirectoryError> {
        let silence = self.automatic.silence(lost).unwrap_or_default();
        let reason = format!("not heard for {} s", silence.as_secs());
        let word = Word { by: BY, reason: &reason };
        let standbys = self.standbys_of(lost);
        let mut is_over = standbys.is_disjoint(silent);
        let mut left = Left::default();
        for to in standbys.difference(silent).copied() {
            let deadline = Instant::now() + PATIENCE;
            let loss = self.loss_of((lost, to), deadline).await?;
            if loss.promotable() == 0 {
                left = loss.left;
                continue;
            }
            is_over = false;
            let at_stake = loss.at_stake;
            let taken_over = self.fail_over((lost, to), loss, word, deadline).await?;
            self.automatic.note(lost, self.links.clock().now(), |done| {
                done.to.insert(to);
                done.taken_over = done.taken_over.saturating_add(taken_over);
                done.at_stake = done.at_stake.zip(at_stake).map(|(sum, it)| sum.saturating_add(it));
            });
        }
        if is_over {
            if left.count > 0 {
                let (count, first) = (left.count, &left.first);
                tracing::warn!(%lost, by = BY, count, ?first, "tenants are left: nobody can take over");
            }
            self.automatic.note(lost, self.links.clock().now(), |done| {
                done.left = left;
                done.is_over = true;
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_that_concerns_nobody_leaves_the_figures_of_the_one_before() {
        let (automatic, us) = (Automatic::default(), Region::parse("us").unwrap());
        let at = Span::from_secs;
        automatic.note(us, at(10), |done| done.taken_over = 7);
        automatic.note(us, at(11), |done| done.is_over = true);
        let first = automatic.done(us).unwrap();
        assert_eq!((first.taken_over, first.at), (7, at(11)));
        automatic.note(us, at(90), |done| done.is_over = true);
        assert_eq!(automatic.done(us), Some(first));
        automatic.note(us, at(95), |done| done.left.count = 2);
        let last = automatic.done(us).unwrap();
        assert_eq!((last.taken_over, last.left.count, last.at), (0, 2, at(95)));
    }
}
