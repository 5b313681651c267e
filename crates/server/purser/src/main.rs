//! `purser`, the one binary: a development cluster, a server, and the command line over the API.
//!
//! Not here: any rule. What a command means is decided by a node, and what a node is, by
//! `purser-node`. This crate reads arguments, wires parts together, and prints.
//!
//! ```text
//!  cli ──▶ dev              several nodes in this process, with data and traffic
//!      ──▶ serve            one node, as its configuration says
//!      ──▶ router           a process that passes calls on to nodes
//!      ──▶ client_commands  one call of the API each
//!      ──▶ replay, bench    load, with its own book or its own clock
//!      ──▶ audit, scenario  the ledger's rules without a server
//! ```
//!
//! Exit codes: 0 done, 1 refused or failed, 2 usage, 3 not reached or outcome unknown, 64 settings
//! refused by `serve`, `router` and `check-config`.

mod audit;
mod backup;
mod bench;
mod check_config;
mod cli;
mod client_commands;
mod dev;
mod failure;
mod generate;
mod metrics;
mod output;
mod plain_call;
mod read_model;
mod replay;
mod router;
mod scenario;
mod serve;
mod signals;
mod telemetry;

use std::process::ExitCode;

use clap::Parser;

/// A sixth of a call's time went into the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main(cli::Cli::parse())
}
