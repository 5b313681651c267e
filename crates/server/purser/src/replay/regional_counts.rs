//! What is counted about regions: who decided, how long that took, and what a cut did.

use std::collections::BTreeMap;

use purser_api::{DeciderRole, ProblemCode};
use tokio::time::Instant;

use super::caller::Decider;
use super::tally::{Waits, count, to_float};

/// Counts of calls that spend, where the service spans regions.
#[derive(Debug, Clone, Default)]
pub(crate) struct RegionalCounts {
    /// How long calls waited, by who decided.
    pub(crate) waits: BTreeMap<Way, Waits>,
    /// Accepted calls that left it to the region to decide, from a tenant's second one in a region on.
    pub(crate) later: LocalShare,
    /// Those of them in regions that are not the tenant's home, of tenants that are not left to run dry.
    pub(crate) later_away: LocalShare,
    /// Calls that were decided in another region than the one where they came in.
    pub(crate) passed_on: u64,
    /// The largest overspend bound that any answer stated.
    pub(crate) bound_max: Option<u64>,
    /// The cuts that are made just now, by the place of their region.
    pub(crate) cuts: BTreeMap<usize, CutCounts>,
    /// When regions were cut off, from the first cut on.
    pub(crate) cut_times: Vec<(Instant, Instant)>,
}

/// How many calls there were, and how many of them the region decided by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LocalShare {
    /// All of them.
    pub(crate) all: u64,
    /// Those that were decided where they came in.
    pub(crate) local: u64,
}

impl LocalShare {
    /// Counts one.
    pub(crate) fn add(&mut self, is_local: bool) {
        self.all += 1;
        self.local += u64::from(is_local);
    }

    /// The share that was decided locally; nothing if there were none.
    pub(crate) fn share(self) -> Option<f64> {
        (self.all > 0).then(|| to_float(self.local) / to_float(self.all))
    }
}

/// Who decided a call that spends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    /// The region where it came in, from its allocation.
    Local,
    /// The region where it came in, which is home.
    AtHome,
    /// Home, because the region where it came in was short.
    PassedOn,
    /// Home, because the call wanted it; it came in elsewhere.
    Strict,
}

impl Way {
    /// The way in words.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::AtHome => "at_home",
            Self::PassedOn => "passed_on",
            Self::Strict => "strict",
        }
    }
}

/// What calls met that came in at a region while it was cut off.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CutCounts {
    /// Decided by the region: from its allocations, or as home.
    pub(crate) decided: u64,
    /// Of these, from its allocations.
    pub(crate) from_allocations: u64,
    /// Attempts refused because home could not be reached.
    pub(crate) home_unreachable: u64,
    /// Other attempts that had to be repeated, by reason.
    pub(crate) other_retries: BTreeMap<String, u64>,
}

impl CutCounts {
    /// Counts an attempt that has to be repeated.
    pub(crate) fn count_retry(&mut self, reason: String) {
        if reason == ProblemCode::HomeUnreachable.name() {
            self.home_unreachable += 1;
        } else {
            count(&mut self.other_retries, reason);
        }
    }

    /// Counts a decision on a call that came in at the region that is cut off; `is_own` if it was the
    /// region's own.
    pub(crate) fn count_decided(&mut self, by: Decider, is_own: bool) {
        if is_own {
            self.decided += 1;
            self.from_allocations += u64::from(by.role == DeciderRole::Allocation);
        }
    }
}

impl RegionalCounts {
    /// Notes the bound that an answer stated.
    pub(crate) fn note_bound(&mut self, bound: Option<u64>) {
        self.bound_max = self.bound_max.max(bound);
    }
}
