//! Consensus: hosts any [`purser_types::Machine`] as a replicated, durable group.
//!
//! ```text
//!   propose ──▶ proposer ──▶ openraft ──▶ log store ──▶ write-ahead log (one per node)
//!                  ▲             │
//!      answers     │             ├──▶ network (one set of connections per peer)
//!                  │             ▼
//!               waiters ◀── state machine ──▶ history (append only, kept for ever)
//!                                        └──▶ snapshots
//! ```
//!
//! A [`Host`] is the process-wide part: data folder, log, listener. A [`Group`] is the handle to
//! one replicated machine on it. [`offline`] reads a data folder without a server. What the owners
//! of hosts want of each other beside that goes over the same network, as [`PeerCalls`].
//!
//! Not here: what a command means. This crate knows no credits, and no type of openraft leaves it.
//!
//! What is kept here:
//!
//! - What [`Group::propose`] answered is on the disks of a majority, and is applied on every replica
//!   in the same order with the same stamp.
//! - A command is applied at most once per proposal. An error says whether it can still happen.
//! - Stamps never go down, whoever leads and whatever the clocks do.
//! - Every byte of every file is covered by a checksum or provably unused.

mod batch;
mod clock;
mod codec;
#[cfg(test)]
mod crash;
pub mod disk;
mod entry;
mod error;
mod group;
mod history;
mod host;
mod identity;
mod ids;
mod network;
pub mod offline;
mod proposer;
mod raft;
mod settings;
mod snapshot;
mod status;
mod tasks;
mod waiters;
mod wal;

pub use clock::{Clock, ClockVerdict, SystemClock, TOLERANCE_MICROS, judge};
pub use error::{AcknowledgeError, ChangeError, OpenError, ProposeError, ReadError, StopReason};
pub use group::{Group, Whole, WholeError};
pub use history::{GroupHistory, Placed};
pub use host::{Hearing, Host, Leading};
pub use identity::{LOCK_FILE, RESTORED_FILE};
pub use ids::{ClusterId, ClusterIdError, GroupId, NodeId};
pub use network::{CallError, CallHandler, Cut, PeerCalls, PeerSwitch};
pub use settings::{GroupSettings, HostSettings, RaftTimings, WalSettings};
pub use status::{GroupStatus, HostStatus, Role};
