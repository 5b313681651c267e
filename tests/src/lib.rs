//! The harness of the process tests: real nodes, real files, real connections on one machine.
//!
//! The tests themselves are in `tests/it`, one module for each subject. What they need is here:
//!
//! ```text
//!  program ── where `purser` is; running it to its end, or until it is told to stop
//!  cluster ── three nodes that can be killed, stopped, paused and started again
//!  postgres ── a database server that can be ended and started again
//!  dev ── a development cluster in three regions, and routers in front of it
//!  leaders ── who leads the group of an account
//!  http, raw, account ── calls: as programs make them, byte for byte, about one account
//!  postgres ── a database of a test's own
//!  load ── many clients with a record of their own, compared with the entries afterwards
//!  wait, together, ports ── waiting for a state with a deadline; calls that race; addresses that
//!                           nobody else takes
//! ```
//!
//! It knows the service from outside only: the program, its configuration, its API. It decides
//! nothing about credits, and shares no code with what does. Nothing here is retried to make a test
//! pass, and nothing waits for time to pass.

#![expect(clippy::print_stderr, reason = "a failed test tells what its nodes said last")]

mod account;
mod cluster;
mod dev;
mod http;
mod leaders;
mod load;
mod ports;
mod postgres;
mod program;
mod raw;
mod together;
mod wait;

pub use account::{Account, Figures, fresh_key, number};
pub use cluster::{Caller, Cluster, Shape};
pub use dev::{Dev, Router};
pub use http::{Api, NoAnswer, Reply};
pub use leaders::leaders;
pub use load::{Done, Load, Record, check_chain};
pub use ports::{free_address, free_dev_base};
pub use postgres::Postgres;
pub use rustix::process::Signal;

pub use program::{Ended, Running, purser, run};
pub use raw::{AfterSending, RawReply, Reaction, request_bytes, send};
pub use together::at_once;
pub use wait::wait_for;
