//! What the wire does at this moment: how far regions are from each other, which of them are cut
//! off or slowed down, and which nodes are gone.
//!
//! [`Weather`] is what is so now; [`Way`] is what one connection between two regions sees of it,
//! and how it hears of a change.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use purser_types::Region;
use tokio::sync::watch;
use tokio::time::Instant;

use super::distance::{Distances, RegionPair};
use crate::dev::layout::NodeName;

/// The state of the whole wire.
#[derive(Debug, Clone, Default)]
pub(super) struct Weather {
    pub(super) distances: Distances,
    /// What was done to a region's wire on purpose; whole where nothing is said.
    pub(super) regions: BTreeMap<Region, RegionWire>,
    /// Nodes that were killed: nobody can connect to them.
    pub(super) gone: BTreeSet<NodeName>,
}

/// The wire between one region and all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RegionWire {
    pub(super) is_cut: bool,
    /// How often it was cut so far. Whoever looks away while the wire is cut and healed sees by
    /// this that it was.
    cuts: u64,
    /// What is added to each direction.
    pub(super) slowed_by: Duration,
}

impl RegionWire {
    /// Everything is lost from now on.
    pub(super) fn cut(&mut self) {
        if !self.is_cut {
            *self = Self { is_cut: true, cuts: self.cuts.saturating_add(1), ..*self };
        }
    }

    /// As nothing had been done to it.
    pub(super) fn heal(&mut self) {
        *self = Self { cuts: self.cuts, ..Self::default() };
    }
}

impl Weather {
    fn wires(&self, pair: RegionPair) -> [RegionWire; 2] {
        pair.regions().map(|region| self.regions.get(&region).copied().unwrap_or_default())
    }

    /// How long a byte is under way from one region to the other.
    pub(super) fn delay(&self, pair: RegionPair) -> Duration {
        let slowed = self.wires(pair).map(|wire| wire.slowed_by);
        slowed.into_iter().fold(self.distances.round_trip(pair) / 2, Duration::saturating_add)
    }

    /// Whether everything between two regions is lost.
    pub(super) fn is_cut(&self, pair: RegionPair) -> bool {
        self.wires(pair).iter().any(|wire| wire.is_cut)
    }

    /// Grows with each cut between two regions.
    fn cuts(&self, pair: RegionPair) -> u64 {
        self.wires(pair).iter().fold(0, |sum, wire| sum.saturating_add(wire.cuts))
    }
}

/// The way from one region to a node of another.
#[derive(Debug, Clone)]
pub(super) struct Way {
    weather: watch::Receiver<Weather>,
    pair: RegionPair,
    to: NodeName,
}

impl Way {
    /// The way from `from` to `to`.
    pub(super) fn new(weather: watch::Receiver<Weather>, from: Region, to: NodeName) -> Self {
        Self { weather, pair: RegionPair::of(from, to.region), to }
    }

    /// Whether a new connection gets through.
    pub(super) fn is_open(&self) -> bool {
        let weather = self.weather.borrow();
        !weather.is_cut(self.pair) && !weather.gone.contains(&self.to)
    }

    fn is_cut(&self) -> bool {
        self.weather.borrow().is_cut(self.pair)
    }

    /// Grows with each cut.
    pub(super) fn cuts(&self) -> u64 {
        self.weather.borrow().cuts(self.pair)
    }

    /// Resolves when what [`Way::is_open`] says is `open`.
    pub(super) async fn until_open_is(&mut self, open: bool) {
        while self.is_open() != open {
            self.changed().await;
        }
    }

    /// Resolves when the way is cut, or has been since there were `cuts`, even if it is whole again.
    pub(super) async fn until_cut_since(&mut self, cuts: u64) {
        while self.cuts() == cuts && !self.is_cut() {
            self.changed().await;
        }
    }

    /// Resolves when bytes get through again.
    pub(super) async fn until_whole(&mut self) {
        while self.is_cut() {
            self.changed().await;
        }
    }

    /// Resolves when what left at `left_at` arrives, if it goes one way `times` times. A change of
    /// the delay counts at once, also for what is under way.
    pub(super) async fn until_arrival(&mut self, left_at: Instant, times: u32) {
        loop {
            let delay = self.weather.borrow_and_update().delay(self.pair);
            let arrives_at = left_at + delay.saturating_mul(times);
            if arrives_at <= Instant::now() {
                return;
            }
            tokio::select! {
                biased;
                () = self.changed() => {}
                () = tokio::time::sleep_until(arrives_at) => return,
            }
        }
    }

    async fn changed(&mut self) {
        if self.weather.changed().await.is_err() {
            // The wire is being taken down, and whoever waits here with it.
            std::future::pending::<()>().await;
        }
    }
}
