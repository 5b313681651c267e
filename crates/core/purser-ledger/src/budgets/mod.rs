//! Budgets: named caps on an account's use, inside the account.
//!
//! ```text
//!                 team:search  1,000 a month          a call names key:sk-12
//!                 ├── key:sk-12   50 a day              ─▶ both are checked, in this order
//!                 └── key:sk-13                         ─▶ its hold or charge carries both as caps
//! ```
//!
//! A hold or charge belongs, for as long as it lives, to the periods in which it was made: what it
//! captures, refunds and reclaims later changes their figures and no others. The record carries its caps
//! and their periods, so figures follow from the entries alone:
//!
//! - INV-21: what a budget holds and has used in a period is the sum over the holds and charges that were
//!   made under it in that period.
//!
//! Where a period ends is resolved before the log (`periods`). Not here: time zones and calendars.

mod decide;
mod periods;
mod state;

use minicbor::{Decode, Encode};
use purser_types::{BudgetName, Credits, LogTime, Sequence};

pub use self::periods::{BudgetPeriod, PeriodRun, Periods, PeriodsError};
pub(crate) use self::state::Budgets;
pub use self::state::{BudgetFigures, BudgetView};

/// The most budgets of an account: some 2 KB each with the figures that are kept.
pub const BUDGETS_MAX: usize = 1_000;

/// The most budgets that one call names.
pub const BUDGETS_NAMED_MAX: usize = 8;

/// The most budgets on the way from one up to the topmost, itself included. With
/// [`BUDGETS_NAMED_MAX`] this bounds what a hold carries to 40 caps, some 6 KB.
pub const BUDGET_DEPTH_MAX: usize = 5;

/// How many periods' figures are kept of each budget, the present one included: the last in which
/// something was begun. A hold lives 7 days at most, so the periods of days that live holds belong to are
/// among them.
pub const BUDGET_PERIODS_KEPT: usize = 13;

/// A budget as it stands, without its figures.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Budget {
    /// The caller's name for it.
    #[n(0)]
    pub name: BudgetName,
    /// The budget that what is taken of this one is taken of as well. Stays as it is: so no budget is
    /// ever above itself.
    #[n(1)]
    pub parent: Option<BudgetName>,
    /// The most that may be held and used in a period.
    #[n(2)]
    pub limit: Credits,
    /// When its periods end; never if that is not said.
    #[n(3)]
    pub calendar: Option<BudgetCalendar>,
    /// When it was made.
    #[n(4)]
    pub created_at: LogTime,
    /// The entry that last changed it.
    #[n(5)]
    pub changed_by: Sequence,
}

/// When a budget's periods end: as it was asked for, and the instants that this comes to.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct BudgetCalendar {
    /// How long a period is on the calendar.
    #[n(0)]
    pub unit: CalendarUnit,
    /// The IANA name of the time zone whose calendar it is. Only kept and shown.
    #[n(1)]
    pub zone: Box<str>,
    /// A local time at which a period begins. Only kept and shown.
    #[n(2)]
    pub anchor: Box<str>,
    /// The periods.
    #[n(3)]
    pub periods: Periods,
}

/// How long a period is on the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum CalendarUnit {
    /// A day.
    #[n(0)]
    Day,
    /// A week.
    #[n(1)]
    Week,
    /// A month.
    #[n(2)]
    Month,
}

/// A budget that a hold or charge was made under.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Cap {
    /// The budget.
    #[n(0)]
    pub budget: BudgetName,
    /// The period in which that was.
    #[n(1)]
    pub period: BudgetPeriod,
}

/// See [`Operation::SetBudget`](crate::Operation::SetBudget).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SetBudget {
    /// Its name.
    #[n(0)]
    pub name: BudgetName,
    /// The budget above it.
    #[n(1)]
    pub parent: Option<BudgetName>,
    /// The most that may be held and used in a period.
    #[n(2)]
    pub limit: Credits,
    /// When its periods end.
    #[n(3)]
    pub calendar: Option<BudgetCalendar>,
}

impl SetBudget {
    /// What was asked, without what the service made of it at the time: the same request is the same
    /// request on the next day.
    pub(crate) fn unresolved(&self) -> Self {
        let calendar = self.calendar.clone();
        let bare = |calendar| BudgetCalendar { periods: Periods::default(), ..calendar };
        Self { calendar: calendar.map(bare), ..self.clone() }
    }
}

/// See [`Operation::RemoveBudget`](crate::Operation::RemoveBudget).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RemoveBudget {
    /// Its name.
    #[n(0)]
    pub name: BudgetName,
}

impl CalendarUnit {
    /// Its name in answers and transcripts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }
}
