//! A leader that dies in the middle of the run, and comes back.
//!
//! Works against `purser dev` only: its front door can kill and start nodes.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use purser_api::{ClusterAnswer, NodeNumber, paths};
use serde_json::json;
use tokio::time::sleep;

use super::ReplayError;
use super::front_door::FrontDoor;
use super::tally::{Quantiles, Tally, Waits};
use crate::dev::control::{KILL, START};

/// How long the node stays dead: long enough for new leaders and for callers to notice.
const DEAD_FOR: Duration = Duration::from_secs(4);
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
    /// Nodes cannot kill each other.
    pub(crate) front_door: FrontDoor,
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
    /// Kills the node, waits, and starts it again.
    pub(crate) async fn carry_out(&self, tally: &Tally) -> Result<Outage, ReplayError> {
        let cluster: ClusterAnswer = self.front_door.read(paths::ADMIN_CLUSTER).await?;
        let mut led: BTreeMap<NodeNumber, usize> = BTreeMap::new();
        for leader in cluster.groups.iter().filter_map(|group| group.leader) {
            *led.entry(leader).or_default() += 1;
        }
        let most = led.into_iter().max_by_key(|(_, groups)| *groups);
        let (leader, groups_led) = most.ok_or(ReplayError::NoLeader)?;
        let node =
            self.front_door.status().await?.nodes.into_iter().find(|node| node.id == leader.0);
        let node = node.ok_or(ReplayError::NoLeader)?.node;

        tally.lock().outage = Some(Waits::default());
        self.front_door.control(KILL, &json!({ "node": node })).await?;
        sleep(DEAD_FOR).await;
        self.front_door.control(START, &json!({ "node": node })).await?;
        sleep(AFTERMATH).await;
        let waits = tally.lock().outage.take().unwrap_or_default().quantiles();
        Ok(Outage { node, groups_led, waits })
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
