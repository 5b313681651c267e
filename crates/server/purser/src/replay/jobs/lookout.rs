//! Whether a region was out of reach while the jobs ran: otherwise no credits can be stranded.
//!
//! Nodes may be killed and regions cut off by others than this program, so the nodes are asked. A group
//! that has lost its leader has another term for good; whom a node does not hear it says for as long as
//! that lasts. A cut that ends before the nodes notice it is none.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use purser_api::{ClusterAnswer, GroupNumber, RegionsAnswer, paths};
use purser_client::AnswerBody;
use purser_types::Region;
use tokio::task::JoinSet;
use tokio::time::interval;

use crate::replay::caller::CallerSettings;
use crate::replay::connection::Address;
use crate::replay::{target, wire};

/// How often the nodes are asked whom they hear.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a node may take to answer. One that does not says nothing.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// The term of each group of each region.
type Terms = BTreeMap<(Region, GroupNumber), u64>;

/// See the module's documentation.
pub(super) struct Lookout {
    settings: CallerSettings,
    /// As they were at first, if all nodes told them.
    terms: Option<Terms>,
    /// Whether a node did not hear a region.
    is_unheard: Arc<AtomicBool>,
    /// Ends with this.
    looking: JoinSet<()>,
}

impl Lookout {
    /// Starts to look at the nodes of `settings`.
    pub(super) async fn start(settings: &CallerSettings) -> Self {
        let settings = CallerSettings {
            patience: Duration::ZERO,
            attempt_max: ANSWER_MAX,
            ..settings.clone()
        };
        let (terms, is_unheard) = (terms(&settings).await, Arc::default());
        let mut looking = JoinSet::new();
        looking.spawn(look(settings.clone(), Arc::clone(&is_unheard)));
        Self { settings, terms, is_unheard, looking }
    }

    /// Whether a region was, or may have been, out of reach since the start.
    pub(super) async fn end(mut self) -> bool {
        self.looking.shutdown().await;
        let is_unheard = self.is_unheard.load(Ordering::Relaxed);
        is_unheard || self.terms.is_none() || terms(&self.settings).await != self.terms
    }
}

/// Notes whether a node does not hear a region, until one does not.
async fn look(settings: CallerSettings, is_unheard: Arc<AtomicBool>) {
    let mut ticks = interval(LOOK_EVERY);
    while !is_unheard.load(Ordering::Relaxed) {
        ticks.tick().await;
        for address in &settings.addresses {
            let known: Option<RegionsAnswer> = read(&settings, address, paths::ADMIN_REGIONS).await;
            let regions = known.map(|known| known.regions).unwrap_or_default();
            if regions.iter().any(|region| !region.is_reachable) {
                is_unheard.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// The latest term of each group that any node knows; nothing if a node does not answer.
async fn terms(settings: &CallerSettings) -> Option<Terms> {
    let mut terms = Terms::new();
    for address in &settings.addresses {
        let cluster: ClusterAnswer = read(settings, address, paths::ADMIN_CLUSTER).await?;
        for group in cluster.groups {
            let term = terms.entry((cluster.region.0, group.group)).or_default();
            *term = group.term.max(*term);
        }
    }
    Some(terms)
}

async fn read<T: AnswerBody>(
    settings: &CallerSettings,
    address: &Address,
    path: &str,
) -> Option<T> {
    let decided = target::ask(settings, address, path).await.ok()?;
    wire::read(&decided).ok()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::caller::ATTEMPT_MAX;
    use crate::replay::connection;
    use crate::replay::test_node::{TOKEN, TestNode};

    #[tokio::test(flavor = "multi_thread")]
    async fn a_region_is_out_of_reach_once_its_leader_is_lost_and_not_before() {
        let node = TestNode::start().await;
        let settings = CallerSettings {
            addresses: vec![node.address()],
            regions: Vec::new(),
            authorization: connection::bearer(TOKEN).unwrap(),
            patience: ATTEMPT_MAX,
            attempt_max: ATTEMPT_MAX,
        };
        let lookout = Lookout::start(&settings).await;
        assert_eq!(lookout.terms.as_ref().map(Terms::len), Some(2));
        assert!(!lookout.end().await);

        let mut elected_anew = Lookout::start(&settings).await;
        let terms = elected_anew.terms.as_mut().unwrap();
        terms.values_mut().for_each(|term| *term -= 1);
        assert!(elected_anew.end().await);

        let lost = Lookout::start(&settings).await;
        node.end().await;
        assert!(lost.end().await);
    }
}
