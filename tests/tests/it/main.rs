//! Whole processes against each other: what only HTTP, files and processes can show.
//!
//! The rules of the ledger have their tests inside; here is what happens around them. Cases with a
//! number, such as K007, are faults that other systems had, written down as scenarios.

#![expect(clippy::print_stdout, reason = "figures are printed, never asserted")]

mod audit;
mod bad_input;
mod batches;
mod command_line;
mod cut_off;
mod documents;
mod failover;
mod jobs_replay;
mod keys;
mod lists;
mod lost_region;
mod numbers;
mod operations;
mod races;
mod read_model;
mod readme;
mod reconcile;
mod replay;
mod routers;
mod shutdown;
mod times;
mod tokens;
mod verification;
