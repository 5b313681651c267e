//! The vocabulary of Purser: what two bands share, and nothing else.
//!
//! A value from outside becomes one of these types at the edge, once; plain numbers and strings do
//! not travel inward. Not here: rules (they are `purser-ledger`'s), wire formats of HTTP (they are
//! `purser-api`'s), anything that reads a clock, a file or a socket.

#![warn(clippy::wildcard_enum_match_arm, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

pub mod codec;
mod cow_map;
mod credits;
mod ids;
mod log_time;
mod machine;

pub use cow_map::CowMap;
pub use credits::{Credits, CreditsError};
pub use ids::{
    BudgetName, Epoch, Generation, IdError, IdempotencyKey, JobId, Life, OperationId, Owner,
    QueueName, Region, Sequence, SinkName, TenantId, Unit,
};
pub use log_time::{LogTime, LogTimeOutOfRange, Span};
pub use machine::{
    ApplyError, CorruptSnapshot, History, HistoryError, HistoryReader, Machine, Position, Stamped,
};
