//! Everything that touches openraft: its types, the log store, the state machine, the network.
//!
//! There is one instantiation of `Raft`, made here. The machine behind it is erased, so hosting
//! another machine compiles none of openraft again.

pub(crate) mod group_log;
pub(crate) mod log_store;
pub(crate) mod network;
mod progress;
mod slots;
pub(crate) mod state_machine;
#[cfg(test)]
mod suite;
pub(crate) mod types;

use crate::raft::state_machine::StateMachine;
use crate::raft::types::TypeConfig;

/// A group's consensus.
pub(crate) type Raft = openraft::Raft<TypeConfig, StateMachine>;
