//! How nodes talk: framed TCP, a few connections per peer, shared by all groups.
//!
//! ```text
//!  links (client)  ── Entries lane ──▶  server ──▶ group's Raft
//!                  ── Control lane ─▶           (heartbeats, votes, clocks)
//!                  ── Snapshot lane ▶           (one connection per transfer)
//!                  ── Calls lane ───▶ the owner's handler
//! ```
//!
//! Not here: encryption, and who may connect beyond naming the right cluster.

pub(crate) mod calls;
pub(crate) mod clocks;
pub(crate) mod frame;
pub(crate) mod links;
pub(crate) mod messages;
pub(crate) mod peer_calls;
pub(crate) mod server;
mod switch;
pub(crate) mod transfer;
pub(crate) mod waiting;

pub use calls::{CallError, CallHandler};
pub use peer_calls::PeerCalls;
pub use switch::{Cut, PeerSwitch};
