//! Between the contract's words and the ledger's.
//!
//! `asked` turns bodies into what the ledger is asked; `shown` turns what the ledger has into
//! bodies, and `answers` puts these together for each operation. Nothing is decided here.

mod allocations;
mod answers;
mod asked;
mod budgets;
mod entries;
mod events;
mod jobs;
mod shown;

pub(crate) use allocations::{allocation_of, recall, set_allocation, transfer};
pub(crate) use answers::debt_added;
pub(crate) use asked::{
    adjust, authorize, capture, charge, extend, grant, open, policy_change, reclaim, refund,
    release,
};
pub(crate) use budgets::{budget_detail, budget_names, budget_of, set_budget};
pub(crate) use events::{event, park_reason};
pub(crate) use jobs::{create_job, job_status, outcome, renew_job, term};
pub(crate) use shown::{
    Shown, buckets, hold_status, lot_status, named_by, policy, tenant_status, totals_between,
};
