//! The metrics of regions: what is out, what may be overspent, and what regions say to each other.
//!
//! Figures are published by whoever leads a shard, and are zero elsewhere, so their sum over the nodes of
//! all regions is the whole. Labels are nodes, enums and the regions of the configuration.

use std::collections::BTreeMap;

use metrics::{Counter, Unit, counter, describe_counter, describe_gauge, gauge};
use purser_ledger::{Operation, Overspend};
use purser_raft::NodeId;
use purser_types::{Region, Span};

use super::float;
use crate::regions::{AwayTotals, HomeReason};

const BOUND: &str = "purser_overspend_bound_credits";
const CEILING: &str = "purser_overspend_ceiling_credits";
const ALLOWED_DEBT: &str = "purser_allowed_debt_credits";
const OUT: &str = "purser_allocations_out_credits";
const RIGHT: &str = "purser_allocations_right_credits";
const UNSETTLED: &str = "purser_allocations_unsettled_credits";
const STRANDED: &str = "purser_stranded_credits";
const REPORT_AGE: &str = "purser_report_age_max_seconds";
const LEASE_LEFT: &str = "purser_lease_remaining_min_seconds";
const SPENDS: &str = "purser_region_spends_total";
const ACTS: &str = "purser_allocation_acts_total";
const REVERSALS: &str = "purser_duplicates_reversed_total";
const ASKS: &str = "purser_cross_region_asks_total";
const ASKED_BYTES: &str = "purser_cross_region_asked_bytes_total";

/// Tells the recorder what the names mean.
pub(super) fn describe() {
    describe_gauge!(
        BOUND,
        Unit::Count,
        "The most that can have been spent beyond what was granted, by cause, of accounts in the \
         groups that this node leads"
    );
    describe_gauge!(CEILING, Unit::Count, "The most that the overspend bound may come to");
    describe_gauge!(ALLOWED_DEBT, Unit::Count, "Debt that calls and policies allowed at home");
    describe_gauge!(OUT, Unit::Count, "Credits out in a region, by region");
    describe_gauge!(RIGHT, Unit::Count, "What a region may still spend, by region");
    describe_gauge!(
        UNSETTLED,
        Unit::Count,
        "The most that a region can have spent without home having booked it, by region"
    );
    describe_gauge!(STRANDED, Unit::Count, "Credits out in a region that is out of reach");
    describe_gauge!(
        REPORT_AGE,
        Unit::Seconds,
        "The age of the oldest last report, by region; missing where none was heard"
    );
    describe_gauge!(
        LEASE_LEFT,
        Unit::Seconds,
        "The least that is left of a lease, by region; missing where none was heard"
    );
    describe_counter!(
        SPENDS,
        Unit::Count,
        "Authorizes and charges of accounts whose home is elsewhere, by what became of them"
    );
    describe_counter!(ACTS, Unit::Count, "What home did about allocations, by act and region");
    describe_counter!(
        REVERSALS,
        Unit::Count,
        "Holds and charges undone because another region had decided the same request"
    );
    describe_counter!(ASKS, Unit::Count, "Questions to other regions, by kind and region");
    describe_counter!(ASKED_BYTES, Unit::Bytes, "Bytes of these questions");
}

/// What became of an authorize or a charge whose account's home is elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpendOutcome {
    /// This region decided it at once, by its own right.
    Local,
    /// The same, once credits had come that were on their way.
    Waited,
    /// It was passed on to home, who was asked for.
    Strict,
    /// It was passed on to home, because this region could not decide it.
    PassedOn(HomeReason),
    /// The right was short, and home was out of reach.
    Unreachable,
}

/// Counts what becomes of spends.
pub(crate) struct SpendMetrics {
    local: Counter,
    waited: Counter,
    strict: Counter,
    no_allocation: Counter,
    ordered: Counter,
    short: Counter,
    unreachable: Counter,
}

impl SpendMetrics {
    pub(super) fn new(node: &str) -> Self {
        let of = |outcome: &'static str| counter!(SPENDS, "node" => node.to_owned(), "outcome" => outcome);
        Self {
            local: of("local"),
            waited: of("waited"),
            strict: of("strict"),
            no_allocation: of("no_allocation"),
            ordered: of("ordered"),
            short: of("short"),
            unreachable: of("unreachable"),
        }
    }

    /// Counts one.
    pub(crate) fn record(&self, outcome: SpendOutcome) {
        let counter = match outcome {
            SpendOutcome::Local => &self.local,
            SpendOutcome::Waited => &self.waited,
            SpendOutcome::Strict => &self.strict,
            SpendOutcome::PassedOn(HomeReason::NoAllocation) => &self.no_allocation,
            SpendOutcome::PassedOn(HomeReason::Ordered) => &self.ordered,
            SpendOutcome::PassedOn(HomeReason::Short) => &self.short,
            SpendOutcome::Unreachable => &self.unreachable,
        };
        counter.increment(1);
    }
}

/// What home did about an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HomeAct {
    /// Set credits aside.
    Grant,
    /// Asked credits back.
    Recall,
    /// Asked credits back for another region.
    Transfer,
    /// Took credits back without hearing from the region.
    TakeBack,
    /// Gave up what was lost.
    WriteOff,
}

impl HomeAct {
    /// The act that an operation is, if it is one that is counted.
    pub(crate) const fn of(operation: &Operation) -> Option<Self> {
        match operation {
            Operation::Allocate(_) => Some(Self::Grant),
            Operation::SetAllocation(set) if set.keep.is_some() => Some(Self::Recall),
            Operation::Transfer(_) => Some(Self::Transfer),
            Operation::TakeBack(_) => Some(Self::TakeBack),
            Operation::WriteOff(_) => Some(Self::WriteOff),
            _ => None,
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Grant => "grant",
            Self::Recall => "recall",
            Self::Transfer => "transfer",
            Self::TakeBack => "take_back",
            Self::WriteOff => "write_off",
        }
    }
}

/// The kinds of questions that nodes of different regions ask each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AskKind {
    /// Whether it is there.
    Pulse,
    /// What has happened under allocations.
    Reports,
    /// What home has decided.
    Vouchers,
    /// Who is home of whom.
    Placement,
    /// Steps of moves.
    Moves,
    /// Whether a standby follows, and what it has.
    Standby,
    /// What it has, to be compared.
    Verification,
}

impl AskKind {
    const fn label(self) -> &'static str {
        match self {
            Self::Pulse => "pulse",
            Self::Reports => "reports",
            Self::Vouchers => "vouchers",
            Self::Placement => "placement",
            Self::Moves => "moves",
            Self::Standby => "standby",
            Self::Verification => "verification",
        }
    }
}

/// What a node counts of regions where it happens.
pub(crate) struct RegionMetrics {
    node: String,
    reversals: Counter,
}

impl RegionMetrics {
    /// The handles of a node.
    pub(crate) fn new(node: NodeId) -> Self {
        let node = node.to_string();
        Self { reversals: counter!(REVERSALS, "node" => node.clone()), node }
    }

    /// Counts what home did about an allocation.
    pub(crate) fn record_act(&self, act: HomeAct, region: Region) {
        let labels = [
            ("node", self.node.clone()),
            ("act", act.label().to_owned()),
            ("region", region.to_string()),
        ];
        counter!(ACTS, &labels).increment(1);
    }

    /// Counts a hold or charge that was undone because it had been decided elsewhere before.
    pub(crate) fn record_reversal(&self) {
        self.reversals.increment(1);
    }

    /// Counts a question to a region.
    pub(crate) fn record_ask(&self, kind: AskKind, region: Region, bytes: usize) {
        let labels = [
            ("node", self.node.clone()),
            ("kind", kind.label().to_owned()),
            ("region", region.to_string()),
        ];
        counter!(ASKS, &labels).increment(1);
        counter!(ASKED_BYTES, &labels).increment(u64::try_from(bytes).unwrap_or(u64::MAX));
    }
}

/// Shows what the shards that a node leads have out, and what may be overspent of it.
pub(super) fn record_away(
    node: &str,
    overspends: impl Iterator<Item = Overspend>,
    away: &BTreeMap<Region, (AwayTotals, bool)>,
) {
    let sum = overspends.fold(Overspend::default(), |sum, part| Overspend {
        realised: sum.realised.saturating_add(part.realised),
        taken_back: sum.taken_back.saturating_add(part.taken_back),
        overdraft: sum.overdraft.saturating_add(part.overdraft),
        failover: sum.failover.saturating_add(part.failover),
        ceiling: sum.ceiling.saturating_add(part.ceiling),
        allowed_debt: sum.allowed_debt.saturating_add(part.allowed_debt),
        ..sum
    });
    let by_cause = [
        ("realised", sum.realised),
        ("taken_back", sum.taken_back),
        ("overdraft", sum.overdraft),
        ("failover", sum.failover),
    ];
    for (cause, credits) in by_cause {
        gauge!(BOUND, "node" => node.to_owned(), "cause" => cause).set(float(credits));
    }
    gauge!(CEILING, "node" => node.to_owned()).set(float(sum.ceiling));
    gauge!(ALLOWED_DEBT, "node" => node.to_owned()).set(float(sum.allowed_debt));
    for (region, (totals, is_reachable)) in away {
        let labels = [("node", node.to_owned()), ("region", region.to_string())];
        gauge!(OUT, &labels).set(float(totals.out));
        gauge!(RIGHT, &labels).set(float(totals.right));
        gauge!(UNSETTLED, &labels).set(float(totals.unsettled));
        gauge!(STRANDED, &labels).set(float(if *is_reachable { 0 } else { totals.out }));
        // What is not known is no number: it must not look like a fresh report.
        let seconds = |span: Option<Span>| span.map_or(f64::NAN, seconds);
        gauge!(REPORT_AGE, &labels).set(seconds(totals.age_max));
        gauge!(LEASE_LEFT, &labels).set(seconds(totals.lease_left_min));
    }
}

fn seconds(span: Span) -> f64 {
    const MICROS_PER_SECOND: f64 = 1_000_000.0;
    float(span.as_micros()) / MICROS_PER_SECOND
}
