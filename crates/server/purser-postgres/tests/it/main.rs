//! The read model against a real PostgreSQL server.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod faults;
mod layers;
mod moving;
mod projecting;
mod querying;
mod rebuilding;
mod support;
mod taken_away;
mod tls;
