//! Sizing: when home grants credits to a region, asks them back, or decides everything itself.
//!
//! ```text
//!   region                                        home
//!   Demand ── DemandReport, with each report ──▶  Pool ──▶ Grant · Recall · Mode
//! ```
//!
//! Policy, not safety: what may be granted or taken back is for `home` and `region` to decide, and
//! whatever is decided here they stay right. A policy that errs costs latency, messages or credits
//! that lie where nobody wants them.
//!
//! Nothing in here is replicated. A region's leader keeps a [`Demand`] for each of its books, home's
//! leader a [`Pool`] for each account; a new leader starts afresh and has learned the demand with the
//! next reports. Not here: clocks (the caller says what time it is), messages, floats.

mod arithmetic;
mod costs;
mod demand;
mod member;
mod pool;
mod shortfall;
mod split;
mod target;
#[cfg(test)]
#[expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "a sum that overflows or a region that is not there fails the test"
)]
mod tests;

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use purser_types::{Credits, Region, Span};

pub use demand::Demand;
pub use pool::Pool;
pub use shortfall::Shortfall;

use crate::protocol::Mode;

/// What a region's leader tells home about demand with each report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub struct DemandReport {
    /// How fast credits are used.
    #[n(0)]
    pub rate: Rate,
    /// What a call costs on average; nothing before the first.
    #[n(1)]
    pub mean_cost: Credits,
    /// What 99 of 100 calls cost at most.
    #[n(2)]
    pub p99_cost: Credits,
    /// What the calls cost that wait for credits, or were refused since the last report.
    #[n(3)]
    pub want: Credits,
    /// How long ago the last call came. A length, not an instant: clocks differ.
    #[n(4)]
    pub idle: Span,
    /// What of its free credits ends within [`LASTING`]: it will be gone before it is spent.
    #[n(5)]
    #[cbor(default, skip_if = "crate::codec::is_none")]
    pub ending: Credits,
}

/// Thousandths of a credit in a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Rate(#[n(0)] pub u64);

/// What home knows about one region's allocation of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Granted, and neither spent nor returned nor taken back, as far as it is booked.
    pub outstanding: Credits,
    /// What of that the region's holds held when it last reported.
    pub held: Credits,
    /// What of that the region has spent by its last report, and home has not booked yet.
    pub unsettled: Credits,
    /// The last report's demand.
    pub demand: DemandReport,
    /// Counts the region's reports: a new number is a new report.
    pub report: u64,
    /// When home last heard from the region's leader, about whichever account.
    pub heard_at: Span,
    /// How long it takes from a region's report until the voucher that answers it has arrived: the
    /// round trip and the standby's acknowledgment.
    pub refill: Span,
}

/// Calls that home could not serve yet because their credits are out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// What they cost in all.
    pub credits: Credits,
    /// What the one costs whose turn is next.
    pub first: Credits,
    /// When the last of them came.
    pub since: Span,
}

/// Everything that a decision is made from. Instants are spans on the leader's own clock, which only
/// goes forward, from a point that the caller chose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// What time it is.
    pub now: Span,
    /// What home itself could spend.
    pub available: Credits,
    /// The demand that home decides of its own: calls of its own region, and those that ask for
    /// `strict`. What a region forwards because it is short is in that region's demand.
    pub home: DemandReport,
    /// The regions that have an allocation.
    pub shares: BTreeMap<Region, Share>,
    /// Calls that wait at home.
    pub waiting: Option<Waiting>,
}

/// What home is to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Regions spend of their own right (`Local`), or give back all but what is held and let home
    /// decide (`Strict`).
    Mode(Mode),
    /// Ask credits back.
    Recall {
        /// From whom.
        region: Region,
        /// How much of its free credits it may keep. What is held it keeps anyway.
        keep: Credits,
    },
    /// Set credits aside.
    Grant {
        /// For whom.
        region: Region,
        /// How much more than it has.
        amount: Credits,
    },
}

impl Decision {
    /// The region that is given credits, if one is.
    pub fn granted(&self) -> Option<Region> {
        match self {
            Self::Grant { region, .. } => Some(*region),
            Self::Mode(_) | Self::Recall { .. } => None,
        }
    }
}

/// What an operator may turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// How long a region must be idle before it keeps no more than what it needs for a burst.
    ///
    /// Longer keeps occasional callers local at full speed; shorter frees credits sooner.
    pub rest_after: Span,
    /// How long a region must be idle before it keeps nothing at all.
    ///
    /// Longer spares a tenant that calls once in a while the way to home; it is also how long a little
    /// of its credits may lie in a region that is then cut off.
    pub end_after: Span,
}

impl Tuning {
    /// What is right for most.
    pub const USUAL: Self =
        Self { rest_after: Span::from_secs(60), end_after: Span::from_secs(3_600) };
}

/// For how long a grant should last: the longest time for which a region is given credits. What ends
/// sooner is as good as gone.
pub const LASTING: Span = Span::from_secs(10);

impl Share {
    /// What of [`Share::free`] does not end before long.
    pub fn lasting(&self) -> Credits {
        self.free().saturating_sub(self.demand.ending)
    }

    /// What the region can spend, as far as home knows: what is out and neither held nor spent.
    pub fn free(&self) -> Credits {
        self.outstanding.saturating_sub(self.held).saturating_sub(self.unsettled)
    }
}

/// How long a region that is used lets pass between two reports.
pub const REPORT_INTERVAL: Span = Span::from_secs(1);

/// The same for one that is not used; and how long it must not have been.
pub const IDLE_INTERVAL: Span = Span::from_secs(5);

/// How many reports in a row must be missing before a region counts as out of reach, and how many must
/// show a surplus before it is asked back.
pub(crate) const REPORTS_IN_A_ROW: u64 = 3;

/// How long home waits for the answer to a recall. A region that does not answer in time counts as out
/// of reach until it is heard from again.
pub const RECALL_DEADLINE: Span = Span::from_secs(1);
