//! The rules of Purser: what may happen to credits.
//!
//! ```text
//!  command ──▶ decide ──▶ entry ──▶ evolve
//!              answers,   what      applies,
//!              changes    happened  cannot fail
//!              nothing
//! ```
//!
//! Commands go through the Raft log; entries are appended as the ledger. The same code runs in the
//! server, on every replica, in the simulator, in the model checker, and in an offline audit.
//!
//! Not here: Raft, clocks, sockets, files, threads, randomness, floats. "Now" is the stamp of the log
//! entry, and history is read and written through a trait.

#![warn(clippy::wildcard_enum_match_arm, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

mod account;
mod answer;
pub mod audit;
mod balance;
mod budgets;
mod chain;
mod command;
mod digest;
mod entry;
mod events;
mod fold;
mod hold;
mod home;
pub mod invariants;
mod jobs;
pub mod lease;
mod ledger;
mod lot;
mod moving;
mod policy;
mod protocol;
mod region;
mod rejection;
pub mod scenario;
mod sinks;
mod sizing;
mod standing;
mod time_ring;
mod unacknowledged;

pub use account::{Account, AccountNumber, AsOf, CheckVerdict, Head};
pub use answer::{Answer, Last, LeasedJob, Outcome, PassedOn, Receipt};
pub use balance::{Balance, BalanceError, Total};
pub use budgets::{
    BUDGET_DEPTH_MAX, BUDGET_PERIODS_KEPT, BUDGETS_MAX, BUDGETS_NAMED_MAX, Budget, BudgetCalendar,
    BudgetFigures, BudgetPeriod, BudgetView, CalendarUnit, Cap, PeriodRun, Periods, PeriodsError,
    RemoveBudget, SetBudget,
};
pub use chain::{Hashed, Record};
pub use command::{
    AccountName, Adjust, Allocate, Authorize, Capture, Category, Charge, Close, Command, Confirm,
    Context, Cover, Extend, Grant, HoldNumber, Identity, IfExpired, Item, LotNumber, Metadata,
    MetadataTooLarge, OnCredit, Open, Operation, Reclaim, Refund, Release, Return, SetAllocation,
    Shortage, TakeBack, Target, Transfer, Void, WriteOff,
};
pub use digest::{Digest16, Digest32, hash_of};
pub use entry::{Bucket, Entry, Fact, Move, Posting, allocation_genesis, genesis_hash};
pub use events::{
    BadEventName, DiscardEvent, Event, EventAbout, EventChange, EventEffect, EventName, ParkReason,
    ParkedEvent, ResolveEvent, ShorterAge,
};
pub use fold::{FoldError, HoldAfter, fold_lots};
pub use hold::{Hold, HoldKind, HoldState, Portion, Source, Spend};
pub use home::{
    AllocatedLot, Allocation, AllocationStatus, Bound, Covered, EpochBegan, Fate, HomeChange,
    HomeSpan, LostEntry, PendingTransfer, Residence, SameRequest, Settlement, SettlementClass,
    Shipped, Tail, TailRun,
};
pub use jobs::{
    CreateJob, DiscardJob, FirstAttempt, Job, JobChange, JobEffect, JobFunding, JobRetry, JobState,
    JobVerdict, LeaseJobs, LeaseToken, RedriveJob, RenewJob, ReportOutcome,
};
pub use ledger::{Ledger, Overspend};
pub use lot::{Lot, LotPhase, LotStatus, LotTerms};
pub use moving::{
    Departure, EntrylessDecision, Gone, Import, ImportPart, ImportProgress, KeyMemory, MoveRefusal,
    MoveStep, Stay, StepDown, TailPage, TakeHome, Way, WriteOffTail,
};
pub use policy::{OnExpiry, Policy, PolicyChange, RefundExpired};
pub use protocol::{Booked, Mode, Recall, Report, Voucher, VoucherLot};
pub use purser_types::codec;
pub use region::BookPhase;
pub use rejection::Rejection;
pub use sinks::{
    Advance, ChangedLetter, ChangedLine, DeadLetter, Disabled, Dispatch, DispatchLimits, EntryName,
    Errand, ErrandWay, LetterChange, Line, NotedAct, Offer, RedriveAll, RedriveTally, Redriven,
    SECRETS_MAX, SINKS_MAX, Sink, SinkAct, SinkCommand, SinkDone, SinkNote, SinkRefusal,
    SinkSecret, SinkTerms, delay_after,
};
pub use sizing::{
    Decision, Demand, DemandReport, IDLE_INTERVAL, Known, LASTING, Pool, RECALL_DEADLINE,
    REPORT_INTERVAL, Rate, Share, Shortfall, Tuning, Waiting,
};
pub use standing::{AccountStatus, Standing};
pub use unacknowledged::{Unacknowledged, counted};
