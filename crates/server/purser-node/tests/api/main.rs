//! The API against nodes in this process: real files, real ports, a clock that the test moves.

// Clippy lets tests unwrap where it can see that they are tests.
#![cfg(test)]

mod abroad;
mod acts;
mod allocations;
mod batches;
mod budgets;
mod calls;
mod changes;
mod clusters;
mod description;
mod drains;
mod events;
mod failovers;
mod faults;
mod forks;
mod inputs;
mod jobs;
mod keys;
mod leases;
mod lists;
mod lives;
mod losses;
mod moves;
mod receiver;
mod regions;
mod replays;
mod restores;
mod router;
mod silences;
mod support;
mod tokens;
mod verifications;
mod waiting;
mod webhooks;
