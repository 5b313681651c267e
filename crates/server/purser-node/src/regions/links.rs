//! The links to other regions: who is there, who leads what, how long it takes.
//!
//! A pulse goes to each of their nodes once a second. It is how a node knows that a region is out of
//! reach before anyone waits for it, so that a caller hears "nothing happened" instead of nothing; and it
//! brings the leaders of the region's shards, so that most asks go to the right node at once. A node that
//! does not answer pulses is asked last. Nothing here decides about credits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use purser_raft::{CallError, NodeId, PeerCalls};
use purser_types::{Life, Region, Span};
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::messages::{self, Answered, Ask};
use super::monotonic::Monotonic;
use crate::metrics::RegionMetrics;
use crate::shards::Shard;
use crate::tasks::chain;

/// How often each node is asked whether it is there.
const PULSE_EVERY: Duration = Duration::from_secs(1);

/// How long an answer to a pulse may take.
const PULSE_PATIENCE: Duration = Duration::from_secs(2);

/// Who was not heard for so long is out of reach: three pulses were lost.
const SILENCE_MAX: Span = Span::from_secs(3);

/// A round trip before any was measured.
const ROUND_TRIP_GUESS: Span = Span::from_micros(200_000);

/// The links of this node to all other regions; of a router, to its own as well.
pub(crate) struct Links {
    calls: PeerCalls,
    own: Region,
    nodes: BTreeMap<Region, Vec<NodeId>>,
    clock: Monotonic,
    states: Mutex<BTreeMap<Region, LinkState>>,
    metrics: RegionMetrics,
    /// Told when a region was heard for the first time.
    first_heard: Notify,
}

/// What is known of one region.
#[derive(Default)]
struct LinkState {
    /// When each of its nodes last answered anything.
    heard_at: BTreeMap<NodeId, Span>,
    round_trip: Option<Span>,
    leaders: Vec<Option<NodeId>>,
    /// The lives of its shards' groups, as their leaders said.
    lives: BTreeMap<Shard, Option<Life>>,
    /// The regions that each of its nodes hears, as it last said.
    hears: BTreeMap<NodeId, BTreeSet<Region>>,
    /// How often its nodes were named, so that they are in turns.
    turns: usize,
}

impl LinkState {
    /// When any of its nodes last answered anything.
    fn heard_at(&self) -> Option<Span> {
        self.heard_at.values().max().copied()
    }

    /// Whether a node was heard lately.
    fn hears(&self, node: NodeId, now: Span) -> bool {
        self.heard_at.get(&node).is_some_and(|heard_at| is_lately(*heard_at, now))
    }

    /// Whether a node that was heard lately said that it hears a region.
    fn knows_of(&self, region: Region, now: Span) -> bool {
        let mut hears = self.hears.iter();
        hears.any(|(node, heard)| heard.contains(&region) && self.hears(*node, now))
    }

    fn leader(&self, Shard(shard): Shard) -> Option<NodeId> {
        *self.leaders.get(usize::try_from(shard).ok()?)?
    }

    /// `nodes` in the order in which they are to be asked: who leads the shard, if that is known; then
    /// whoever else was heard lately, each of them first in turn; then those that are silent. One that
    /// leads but is silent is no exception: whoever hears it knows whether it leads still.
    fn in_order(&mut self, nodes: &[NodeId], shard: Option<Shard>, now: Span) -> Vec<NodeId> {
        let (mut order, silent): (Vec<_>, Vec<_>) =
            nodes.iter().copied().partition(|node| self.hears(*node, now));
        self.turns = self.turns.wrapping_add(1);
        let turn = self.turns.checked_rem(order.len()).unwrap_or_default();
        order.rotate_left(turn);
        let leader = shard.and_then(|shard| self.leader(shard));
        if let Some(place) = order.iter().position(|node| Some(*node) == leader) {
            order.swap(0, place);
        }
        order.extend(silent);
        order
    }
}

/// Whether it is not too long ago that something was heard.
const fn is_lately(heard_at: Span, now: Span) -> bool {
    now.as_micros().saturating_sub(heard_at.as_micros()) <= SILENCE_MAX.as_micros()
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// Nobody got the question: nothing happened.
    #[error("no node of {0} can be reached")]
    Unreachable(Region),
    /// Somebody may have got it.
    #[error("{0} did not answer")]
    Unknown(Region),
    /// Nothing happened there.
    #[error("{region} can not answer now: {reason}")]
    NotNow {
        /// Which region.
        region: Region,
        /// Why.
        reason: String,
    },
}

impl Links {
    /// Links of `node` in region `own` to the regions in which `nodes` stand.
    pub(crate) fn new(
        calls: PeerCalls,
        (node, own): (NodeId, Region),
        nodes: BTreeMap<Region, Vec<NodeId>>,
        clock: Monotonic,
    ) -> Self {
        Self {
            calls,
            own,
            nodes,
            clock,
            states: Mutex::default(),
            metrics: RegionMetrics::new(node),
            first_heard: Notify::new(),
        }
    }

    /// This node's region.
    pub(crate) const fn own(&self) -> Region {
        self.own
    }

    /// The regions that are linked: the others, and of a router its own too.
    pub(crate) fn linked(&self) -> impl Iterator<Item = Region> {
        self.nodes.keys().copied()
    }

    /// The regions other than this node's own.
    pub(crate) fn others(&self) -> impl Iterator<Item = Region> {
        self.linked().filter(|region| *region != self.own)
    }

    /// What this node counts of regions.
    pub(crate) const fn metrics(&self) -> &RegionMetrics {
        &self.metrics
    }

    /// The time that spans of this node are measured on.
    pub(crate) const fn clock(&self) -> &Monotonic {
        &self.clock
    }

    /// When a region last answered anything.
    pub(crate) fn heard_at(&self, region: Region) -> Option<Span> {
        self.states().get(&region)?.heard_at()
    }

    /// Whether a region was heard lately.
    pub(crate) fn is_reachable(&self, region: Region) -> bool {
        self.is_here(region)
            || self.heard_at(region).is_some_and(|heard_at| is_lately(heard_at, self.clock.now()))
    }

    /// Whether a node was heard lately, or needs no link.
    pub(crate) fn hears(&self, node: NodeId) -> bool {
        let Some((region, _)) = self.nodes.iter().find(|(_, nodes)| nodes.contains(&node)) else {
            return true;
        };
        self.states().get(region).is_some_and(|state| state.hears(node, self.clock.now()))
    }

    /// The other regions that were heard lately.
    pub(crate) fn heard(&self) -> Vec<Region> {
        self.others().filter(|region| self.is_reachable(*region)).collect()
    }

    /// The other regions that were not heard lately, neither by this node nor by anybody whom it hears in a
    /// third region.
    pub(crate) fn silent(&self) -> BTreeSet<Region> {
        let unheard: Vec<Region> =
            self.others().filter(|region| !self.is_reachable(*region)).collect();
        let (states, now) = (self.states(), self.clock.now());
        let unheard = unheard.into_iter();
        unheard.filter(|it| states.values().all(|state| !state.knows_of(*it, now))).collect()
    }

    /// Whether a region is this node's own, which needs no link.
    fn is_here(&self, region: Region) -> bool {
        region == self.own && !self.nodes.contains_key(&region)
    }

    /// How long a question and its answer took last, if one was answered.
    pub(crate) fn measured_round_trip(&self, region: Region) -> Option<Span> {
        self.states().get(&region)?.round_trip
    }

    /// Who leads each of a region's shards, as it last said.
    pub(crate) fn leaders(&self, region: Region) -> Vec<Option<NodeId>> {
        self.states().get(&region).map(|state| state.leaders.clone()).unwrap_or_default()
    }

    /// The life that the group of a shard there is in; nothing if its leader was not heard yet.
    pub(crate) fn life(&self, region: Region, shard: Shard) -> Option<Option<Life>> {
        self.states().get(&region)?.lives.get(&shard).copied()
    }

    /// How long a question and its answer took lately.
    pub(crate) fn round_trip(&self, region: Region) -> Span {
        if self.is_here(region) {
            return Span::from_micros(0);
        }
        self.measured_round_trip(region).unwrap_or(ROUND_TRIP_GUESS)
    }

    /// The nodes of a region, best first: the leader of a shard if it is known, and the silent ones last.
    /// Whoever answers is named first in turn.
    pub(crate) fn nodes(&self, region: Region, shard: Option<Shard>) -> Vec<NodeId> {
        let Some(nodes) = self.nodes.get(&region) else { return Vec::new() };
        let now = self.clock.now();
        self.states().entry(region).or_default().in_order(nodes, shard, now)
    }

    /// The nearest region that is within reach: this node's own if that is.
    pub(crate) fn nearest(&self) -> Region {
        let within_reach = self.others().filter(|region| self.is_reachable(*region));
        match self.is_reachable(self.own) {
            true => self.own,
            false => within_reach.min_by_key(|it| self.round_trip(*it)).unwrap_or(self.own),
        }
    }

    /// Asks a region, its leader of a shard if one is named. Nothing is asked twice that may have
    /// been heard once.
    pub(crate) async fn ask(
        &self,
        (region, shard): (Region, Option<Shard>),
        ask: &Ask,
        deadline: Instant,
    ) -> Result<Answered, AskError> {
        self.ask_any(self.nodes(region, shard), (region, shard), ask, deadline).await
    }

    /// Asks one of some nodes of a region, in their order.
    pub(crate) async fn ask_any(
        &self,
        nodes: Vec<NodeId>,
        (region, shard): (Region, Option<Shard>),
        ask: &Ask,
        deadline: Instant,
    ) -> Result<Answered, AskError> {
        let body = bytes::Bytes::from(messages::write(ask));
        self.metrics.record_ask(ask.kind(), region, body.len());
        let mut waiting: std::collections::VecDeque<NodeId> = nodes.into();
        // A leader that was named is asked once more than it stands in the list.
        let mut redirects = 2_u8;
        let mut refused = None;
        while let Some(node) = waiting.pop_front() {
            let answered = match self.calls.call(node, body.clone(), deadline).await {
                Ok(bytes) => messages::read(&bytes).map_err(|error| chain(&error)),
                Err(CallError::MaybeSent { detail }) => {
                    tracing::debug!(%node, %region, detail, "a node did not answer");
                    return Err(AskError::Unknown(region));
                }
                Err(error) => Err(chain(&error)),
            };
            match answered {
                Ok(Answered::NotLeader { leader }) => {
                    let leader = leader.map(NodeId);
                    self.note_leader(region, shard, leader);
                    if let Some(leader) = leader.filter(|_| redirects > 0) {
                        redirects -= 1;
                        waiting.push_front(leader);
                    }
                    refused = Some("nobody is known to lead the shard".to_owned());
                }
                Ok(Answered::NotNow { reason }) => refused = Some(reason),
                Ok(Answered::Unknown) => return Err(AskError::Unknown(region)),
                Ok(answered) => {
                    // A voter of Placement is asked in the name of the own region, and may stand elsewhere.
                    if self.nodes.get(&region).is_some_and(|nodes| nodes.contains(&node)) {
                        self.note_heard(region, node);
                    }
                    return Ok(answered);
                }
                Err(detail) => tracing::debug!(%node, %region, detail, "a node was not asked"),
            }
        }
        Err(match refused {
            Some(reason) => AskError::NotNow { region, reason },
            None => AskError::Unreachable(region),
        })
    }

    fn note_heard(&self, region: Region, node: NodeId) {
        let now = self.clock.now();
        let mut states = self.states();
        let heard_at = &mut states.entry(region).or_default().heard_at;
        let is_first = heard_at.is_empty();
        heard_at.insert(node, now);
        drop(states);
        if is_first {
            self.first_heard.notify_waiters();
        }
    }

    /// Resolves when every linked region was heard once.
    pub(crate) async fn all_heard(&self) {
        loop {
            let mut heard = std::pin::pin!(self.first_heard.notified());
            // Order matters: who is told between the look and the wait must not miss it.
            heard.as_mut().enable();
            if self.linked().all(|region| self.heard_at(region).is_some()) {
                return;
            }
            heard.await;
        }
    }

    fn note_leader(&self, region: Region, shard: Option<Shard>, leader: Option<NodeId>) {
        let Some(place) = shard.and_then(|Shard(shard)| usize::try_from(shard).ok()) else {
            return;
        };
        if let Some(known) = self.states().entry(region).or_default().leaders.get_mut(place) {
            *known = leader;
        }
    }

    /// Asks each node of a region again and again whether it is there, until `stopping`. A pulse does not
    /// wait for the one before it, so that one that is lost costs no time.
    pub(crate) async fn pulse(&self, region: Region, stopping: CancellationToken) {
        let mut ticks = tokio::time::interval(PULSE_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let nodes = self.nodes.get(&region).cloned().unwrap_or_default();
        let mut under_way = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                Some(()) = under_way.next() => (),
                _ = ticks.tick() => {
                    under_way.extend(nodes.iter().map(|node| self.pulse_once(region, *node)));
                }
            }
        }
    }

    /// Asks a node of a region whether it is there.
    async fn pulse_once(&self, region: Region, node: NodeId) {
        let sent = self.clock.now();
        let deadline = Instant::now() + PULSE_PATIENCE;
        match self.ask_any(vec![node], (region, None), &Ask::Pulse, deadline).await {
            Ok(Answered::Pulse { leaders, lives, hears }) => {
                let took = self.clock.since(sent);
                let mut states = self.states();
                let state = states.entry(region).or_default();
                state.round_trip = Some(took);
                state.hears.insert(node, hears.into_iter().collect());
                state.lives.extend(lives.into_iter().map(|it| (Shard(it.shard), it.life)));
                state.leaders = leaders.into_iter().map(|it| it.map(NodeId)).collect();
            }
            Ok(_) => tracing::warn!(%region, %node, "a pulse was answered with something else"),
            Err(error) => tracing::debug!(%region, %node, %error, "a pulse was not answered"),
        }
    }

    fn states(&self) -> MutexGuard<'_, BTreeMap<Region, LinkState>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];

    /// Nodes by number, in the order in which they would be asked at a second.
    fn order(state: &mut LinkState, shard: Option<Shard>, second: u64) -> Vec<u64> {
        let order = state.in_order(&NODES, shard, Span::from_secs(second));
        order.into_iter().map(|node| node.0).collect()
    }

    #[test]
    fn those_that_answer_take_turns_and_the_silent_are_asked_last() {
        let mut state = LinkState::default();
        // Nobody was heard yet.
        assert_eq!(order(&mut state, None, 0), [1, 2, 3]);
        state.heard_at = [(NodeId(2), Span::from_secs(4)), (NodeId(3), Span::from_secs(5))].into();
        assert_eq!(order(&mut state, None, 7), [2, 3, 1]);
        assert_eq!(order(&mut state, None, 7), [3, 2, 1]);
        assert_eq!(order(&mut state, None, 7), [2, 3, 1]);
        // Three seconds are not too long yet; more are.
        assert_eq!(order(&mut state, None, 8), [3, 1, 2]);
    }

    #[test]
    fn who_leads_the_shard_is_asked_first_unless_it_is_silent() {
        let leaders = vec![None, Some(NodeId(3)), Some(NodeId(1))];
        let heard_at = NODES.map(|node| (node, Span::from_secs(5)));
        let mut state = LinkState { leaders, heard_at: heard_at.into(), ..LinkState::default() };
        for _ in 0..3 {
            assert_eq!(order(&mut state, Some(Shard(1)), 6)[0], 3);
            assert_eq!(order(&mut state, Some(Shard(2)), 6)[0], 1);
        }
        let first: BTreeSet<u64> =
            (0..3).map(|_| order(&mut state, Some(Shard(0)), 6)[0]).collect();
        assert_eq!(first, [1, 2, 3].into());
        state.heard_at.remove(&NodeId(3));
        assert_eq!(order(&mut state, Some(Shard(1)), 6)[2], 3);
    }
}
