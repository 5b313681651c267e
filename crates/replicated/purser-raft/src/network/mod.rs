//! How nodes talk: framed TCP, a few connections per peer, shared by all groups.
//!
//! ```text
//!  links (client)  ── Entries lane ──▶  server ──▶ group's Raft
//!                  ── Control lane ─▶           (heartbeats, votes, clocks)
//!                  ── Snapshot lane ▶           (one connection per transfer)
//! ```
//!
//! Not here: encryption, and who may connect beyond naming the right cluster.

pub(crate) mod clocks;
pub(crate) mod frame;
pub(crate) mod links;
pub(crate) mod messages;
pub(crate) mod server;
mod switch;
pub(crate) mod transfer;
mod waiting;

pub use switch::{Cut, PeerSwitch};
