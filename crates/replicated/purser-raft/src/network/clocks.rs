//! What the peers' clocks say: asked each second, and at once when there is a reason to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use purser_types::LogTime;
use tokio::sync::Notify;

use crate::clock::{Clock, ClockVerdict, Judgement, judge};
use crate::codec::Decoder;
use crate::ids::{GroupId, NodeId};
use crate::tasks::Tasks;

use super::links::Links;
use super::messages::{Lane, RequestKind};

const ASK_PERIOD: Duration = Duration::from_secs(1);

/// An answer that takes longer says little about the clock: what is read may be wrong by half of
/// it, and the tolerance is 5 s. Readings overlap, as a peer in another region may take longer than
/// the second between two.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// A reading older than this is forgotten: the peer may have set its clock since.
const READING_AGE_MAX: Duration = Duration::from_secs(5);

/// The readings of all peers. Clones share them.
#[derive(Clone)]
pub(crate) struct Clocks {
    node: NodeId,
    own: Arc<dyn Clock>,
    readings: Arc<Mutex<BTreeMap<NodeId, Reading>>>,
    ask_now: Arc<Notify>,
}

#[derive(Clone, Copy)]
struct Reading {
    /// What the peer's clock said,
    said: LogTime,
    /// and when, by a clock that nobody sets.
    at: Instant,
}

impl Clocks {
    /// The clocks around `node`, whose own one is `own`. `ask_now` has the peers asked without
    /// waiting for the next second.
    pub(crate) fn new(node: NodeId, own: Arc<dyn Clock>, ask_now: Arc<Notify>) -> Self {
        Self { node, own, readings: Arc::default(), ask_now }
    }

    /// What this node's clock says.
    pub(crate) fn now(&self) -> LogTime {
        self.own.now()
    }

    /// This node's clock.
    pub(crate) fn own(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.own)
    }

    /// Has the peers asked at once.
    pub(crate) fn ask_soon(&self) {
        self.ask_now.notify_one();
    }

    /// Asks every peer, each second and when told to, until the tasks end.
    pub(crate) async fn ask(self, links: Links, tasks: Tasks) {
        let mut ticks = tokio::time::interval(ASK_PERIOD);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => (),
                () = self.ask_now.notified() => (),
            }
            for peer in links.peers() {
                let (clocks, links) = (self.clone(), links.clone());
                tasks.spawn(async move { clocks.ask_one(&links, peer).await });
            }
        }
    }

    async fn ask_one(&self, links: &Links, peer: NodeId) {
        let asked = Instant::now();
        let asking = async {
            let target = (peer, Lane::Control);
            let pending = links.send(target, RequestKind::Clock, GroupId(0), |_body| ()).await?;
            pending.answer().await
        };
        // A peer that does not answer has no say in the median.
        let Ok(Ok(answer)) = tokio::time::timeout(ANSWER_TIMEOUT, asking).await else {
            return;
        };
        let said = Decoder::new(&answer).u64().ok();
        let Some(said) = said.and_then(|micros| LogTime::from_unix_micros(micros).ok()) else {
            return;
        };
        let took = asked.elapsed();
        links.note_round_trip(peer, took);
        let at = asked + took / 2;
        let mut readings = self.lock();
        // Answers may overtake each other.
        if readings.get(&peer).is_none_or(|reading| reading.at < at) {
            readings.insert(peer, Reading { said, at });
        }
    }

    /// How far each peer's clock is ahead of this node's, in microseconds.
    pub(crate) fn offsets(&self) -> BTreeMap<NodeId, i64> {
        self.offsets_from(self.now())
    }

    /// How far each peer's clock is ahead of `now`, in microseconds.
    fn offsets_from(&self, now: LogTime) -> BTreeMap<NodeId, i64> {
        let own = i64::try_from(now.as_unix_micros()).unwrap_or(i64::MAX);
        let offset_of = |reading: &Reading| {
            let said = i64::try_from(reading.said.as_unix_micros()).unwrap_or(i64::MAX);
            let since = i64::try_from(reading.at.elapsed().as_micros()).unwrap_or(i64::MAX);
            said.saturating_add(since).saturating_sub(own)
        };
        self.lock()
            .iter()
            .filter(|(_, reading)| reading.at.elapsed() <= READING_AGE_MAX)
            .map(|(peer, reading)| (*peer, offset_of(reading)))
            .collect()
    }

    /// What the clock of node `whose` is worth among those of `voters`, when this node's says
    /// `now`.
    pub(crate) fn judge(
        &self,
        whose: NodeId,
        now: LogTime,
        voters: &BTreeSet<NodeId>,
    ) -> Judgement {
        let mut offsets = self.offsets_from(now);
        offsets.insert(self.node, 0);
        let Some(&own) = offsets.get(&whose) else {
            return Judgement { verdict: ClockVerdict::Good, is_sure: false };
        };
        offsets.retain(|node, _| voters.contains(node));
        let is_sure = offsets.len() > voters.len() / 2;
        offsets.remove(&whose);
        let others: Vec<i64> = offsets.into_values().collect();
        Judgement { verdict: judge(own, &others), is_sure }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, Reading>> {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stands still.
    struct Standing;

    impl Clock for Standing {
        fn now(&self) -> LogTime {
            LogTime::from_unix_micros(1_000_000_000).unwrap()
        }
    }

    #[track_caller]
    fn check_judgement(read: &[u64], voters: u64, expected: Option<ClockVerdict>) {
        let clocks = Clocks::new(NodeId(1), Arc::new(Standing), Arc::default());
        let reading = Reading { said: Standing.now(), at: Instant::now() };
        clocks.lock().extend(read.iter().map(|node| (NodeId(*node), reading)));
        let voters = (1..=voters).map(NodeId).collect();
        assert_eq!(clocks.judge(NodeId(1), Standing.now(), &voters).sure(), expected);
    }

    #[test]
    fn nobody_judges_a_clock_before_a_majority_was_read() {
        check_judgement(&[], 1, Some(ClockVerdict::Good));
        check_judgement(&[], 2, None);
        check_judgement(&[], 3, None);
        check_judgement(&[2], 3, Some(ClockVerdict::Good));
        check_judgement(&[2], 5, None);
        check_judgement(&[2, 3], 5, Some(ClockVerdict::Good));
        // Those who do not vote have no say.
        check_judgement(&[6, 7], 5, None);
    }

    #[test]
    fn the_reading_that_is_judged_is_the_one_that_is_given() {
        let clocks = Clocks::new(NodeId(1), Arc::new(Standing), Arc::default());
        let reading = Reading { said: Standing.now(), at: Instant::now() };
        clocks.lock().extend([(NodeId(2), reading), (NodeId(3), reading)]);
        let voters = [1, 2, 3].map(NodeId).into();
        let hour_later = LogTime::from_unix_micros(1_000_000_000 + 3_600_000_000).unwrap();
        let judgement = clocks.judge(NodeId(1), hour_later, &voters);
        assert_eq!(judgement.sure(), Some(ClockVerdict::Ahead));
        let judgement = clocks.judge(NodeId(1), LogTime::ZERO, &voters);
        assert_eq!(judgement.sure(), Some(ClockVerdict::Behind));
    }
}
