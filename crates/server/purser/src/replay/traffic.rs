//! What the nodes say to each other for the sake of regions, by their own count: `GET /metrics`.
//!
//! Read leniently: what a node does not count is not known. Calls that are passed on are not in it; the
//! answers tell who decided.

use std::collections::BTreeMap;

use serde::Serialize;

use super::ReplayError;
use super::caller::CallerSettings;
use super::target;

const METRICS: &str = "/metrics";
const ASKS: &str = "purser_cross_region_asks_total{";
const ASKED_BYTES: &str = "purser_cross_region_asked_bytes_total{";
const SPENDS: &str = "purser_region_spends_total{";

/// Counters of all nodes, by what identifies each: nodes of one process show those of all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    values: BTreeMap<String, u64>,
}

/// What was counted over a time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Traffic {
    /// Questions to other regions, by kind.
    pub(crate) asks: BTreeMap<String, u64>,
    /// Their bytes, by kind.
    pub(crate) bytes: BTreeMap<String, u64>,
    /// What became of authorizes and charges away from home.
    pub(crate) spends: BTreeMap<String, u64>,
}

impl Counters {
    /// Asks all nodes.
    pub(crate) async fn read(settings: &CallerSettings) -> Result<Self, ReplayError> {
        let mut counters = Self::default();
        for address in &settings.addresses {
            let answer = target::ask(settings, address, METRICS).await?;
            counters.add(&String::from_utf8_lossy(&answer.body));
        }
        Ok(counters)
    }

    fn add(&mut self, text: &str) {
        for line in text.lines() {
            let is_known = [ASKS, ASKED_BYTES, SPENDS].iter().any(|name| line.starts_with(name));
            if let Some((name, value)) = line.rsplit_once(' ')
                && let Ok(value) = value.parse()
                && is_known
            {
                self.values.insert(name.to_owned(), value);
            }
        }
    }

    /// What was counted since `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Traffic {
        let sums = |prefix: &str, label: &str| {
            let mut sums = BTreeMap::<String, u64>::new();
            for (name, value) in &self.values {
                let before = earlier.values.get(name).copied().unwrap_or_default();
                if let Some(labels) = name.strip_prefix(prefix)
                    && let Some(kind) = value_of(labels, label)
                {
                    *sums.entry(kind.to_owned()).or_default() += value.saturating_sub(before);
                }
            }
            sums
        };
        let (asks, bytes) = (sums(ASKS, "kind"), sums(ASKED_BYTES, "kind"));
        Traffic { asks, bytes, spends: sums(SPENDS, "outcome") }
    }
}

impl Traffic {
    /// Messages about allocations: reports, and vouchers that nobody asked for.
    pub(crate) fn about_allocations(&self) -> u64 {
        let of = |kind: &str| self.asks.get(kind).copied().unwrap_or_default();
        of("reports") + of("vouchers")
    }

    /// The bytes of one message of a kind, on average; nothing if there was none.
    pub(crate) fn bytes_of_one(&self, kind: &str) -> Option<u64> {
        let count = self.asks.get(kind)?;
        self.bytes.get(kind)?.checked_div(*count)
    }
}

/// The value of a label: `kind="reports"`.
fn value_of<'a>(labels: &'a str, label: &str) -> Option<&'a str> {
    let parts = labels.trim_end_matches('}').split(',');
    let mut values = parts.filter_map(|part| part.strip_prefix(label)?.strip_prefix('='));
    values.next().map(|value| value.trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_meanwhile_is_summed_by_kind_over_nodes() {
        let text = |reports: u64| {
            format!(
                "# TYPE purser_cross_region_asks_total counter\n\
                 purser_cross_region_asks_total{{node=\"1\",kind=\"reports\",region=\"eu\"}} {reports}\n\
                 purser_cross_region_asks_total{{node=\"2\",kind=\"reports\",region=\"us\"}} 4\n\
                 purser_cross_region_asks_total{{node=\"2\",kind=\"vouchers\",region=\"us\"}} 2\n\
                 purser_cross_region_asked_bytes_total{{node=\"1\",kind=\"reports\",region=\"eu\"}} 900\n\
                 purser_region_spends_total{{node=\"1\",outcome=\"local\"}} 7\n\
                 purser_accounts 5\n"
            )
        };
        let (mut before, mut after) = (Counters::default(), Counters::default());
        before
            .add("purser_cross_region_asks_total{node=\"1\",kind=\"reports\",region=\"eu\"} 10\n");
        // Nodes of one process show the same.
        after.add(&text(15));
        after.add(&text(15));
        let traffic = after.since(&before);
        assert_eq!(traffic.asks, [("reports".to_owned(), 9), ("vouchers".to_owned(), 2)].into());
        assert_eq!(traffic.spends, [("local".to_owned(), 7)].into());
        assert_eq!((traffic.about_allocations(), traffic.bytes_of_one("reports")), (11, Some(100)));
        assert_eq!(traffic.bytes_of_one("vouchers"), None);
    }
}
