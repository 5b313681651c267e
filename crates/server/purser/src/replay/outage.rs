//! A leader that dies in the middle of the run, and comes back.
//!
//! Works against `purser dev` only: its front door can kill and start nodes.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use purser_api::{ClusterAnswer, NodeNumber, paths};
use purser_client::AnswerBody;
use tokio::time::sleep;

use super::ReplayError;
use super::caller::{Call, Caller, CallerSettings};
use super::tally::{Quantiles, Tally, Waits};
use super::wire;
use crate::dev::control::{KILL, START, STATUS, StatusAnswer};

/// How long the node stays dead: long enough for new leaders and for callers to notice.
const DEAD_FOR: Duration = Duration::from_secs(4);
/// How long the node may take to start: it reads its log, and is not asked twice.
const START_MAX: Duration = Duration::from_secs(120);
/// How long after its return calls still count as made in the outage.
const AFTERMATH: Duration = Duration::from_secs(3);

/// A share of a run's length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Share(f64);

/// The text is not a percentage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be from 0% to 100%")]
pub(crate) struct InvalidShare;

impl FromStr for Share {
    type Err = InvalidShare;

    fn from_str(text: &str) -> Result<Self, InvalidShare> {
        let digits = text.strip_suffix('%').unwrap_or(text);
        let percent: u8 = digits.parse().map_err(|_odd| InvalidShare)?;
        if percent > 100 { Err(InvalidShare) } else { Ok(Self(f64::from(percent) / 100.0)) }
    }
}

impl Share {
    /// That share of a length.
    pub(crate) fn of(self, length: Duration) -> Duration {
        length.mul_f64(self.0)
    }
}

/// Kills the node that leads the most groups.
#[derive(Clone)]
pub(crate) struct LeaderKill {
    /// When, as a share of the run.
    pub(crate) at: Share,
    /// Calls the front door and nothing else: nodes cannot kill each other.
    front_door: Arc<Caller>,
}

/// An outage as clients saw it.
#[derive(Debug)]
pub(crate) struct Outage {
    /// The node that was killed.
    pub(crate) node: String,
    /// How many groups it led.
    pub(crate) groups_led: usize,
    /// How long calls waited for their decision from the kill until shortly after the return; the
    /// longest is the outage as the unluckiest client saw it.
    pub(crate) waits: Quantiles,
}

impl LeaderKill {
    /// A kill through the first of the addresses, which must be the front door.
    pub(crate) fn new(at: Share, settings: &CallerSettings) -> Self {
        let mut settings = settings.clone();
        settings.addresses.truncate(1);
        settings.attempt_max = START_MAX;
        Self { at, front_door: Arc::new(Caller::new(settings, Arc::default())) }
    }

    /// Fails if there is no development cluster: better now than in the middle of the run.
    pub(crate) async fn check(&self) -> Result<(), ReplayError> {
        self.status().await.map(drop)
    }

    /// Kills the node, waits, and starts it again.
    pub(crate) async fn carry_out(&self, tally: &Tally) -> Result<Outage, ReplayError> {
        let cluster: ClusterAnswer = self.read(paths::ADMIN_CLUSTER).await?;
        let mut led: BTreeMap<NodeNumber, usize> = BTreeMap::new();
        for leader in cluster.groups.iter().filter_map(|group| group.leader) {
            *led.entry(leader).or_default() += 1;
        }
        let most = led.into_iter().max_by_key(|(_, groups)| *groups);
        let (leader, groups_led) = most.ok_or(ReplayError::NoLeader)?;
        let node = self.status().await?.nodes.into_iter().find(|node| node.id == leader.0);
        let node = node.ok_or(ReplayError::NoLeader)?.node;

        tally.lock().outage = Some(Waits::default());
        self.control(KILL, &node).await?;
        sleep(DEAD_FOR).await;
        self.control(START, &node).await?;
        sleep(AFTERMATH).await;
        let waits = tally.lock().outage.take().unwrap_or_default().quantiles();
        Ok(Outage { node, groups_led, waits })
    }

    async fn status(&self) -> Result<StatusAnswer, ReplayError> {
        self.read(STATUS).await
    }

    async fn read<T: AnswerBody>(&self, path: &str) -> Result<T, ReplayError> {
        let decided = self.front_door.decide(&Call::read(path.to_owned())).await?;
        wire::read(&decided)?.map_err(|refusal| ReplayError::Refused { what: path.into(), refusal })
    }

    async fn control(&self, path: &str, node: &str) -> Result<(), ReplayError> {
        let body = Bytes::from(serde_json::json!({ "node": node }).to_string());
        let call = Call { method: Method::POST, path: path.to_owned(), key: None, body };
        let decided = self.front_door.decide(&call).await?;
        if decided.status.is_success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&decided.body).into_owned();
        Err(ReplayError::Control { path: path.to_owned(), text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_percentage() {
        let share = |text: &str| text.parse::<Share>();
        assert_eq!(share("50%"), Ok(Share(0.5)));
        assert_eq!(share("7"), Ok(Share(0.07)));
        for odd in ["", "%", "101%", "-1", "half"] {
            assert_eq!(share(odd), Err(InvalidShare), "{odd:?}");
        }
    }
}
