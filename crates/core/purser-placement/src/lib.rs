//! Placement: who is home of whom, under which epoch.
//!
//! ```text
//!            ┌────────── FinishMove: epoch + 1, home = to ──────────┐
//!            │ ┌──────── AbortMove: epoch + 1, same home ─────────┐ │
//!            ▼ ▼                                                  │ │
//!  Open ──▶ Settled ─────────── BeginMove: same epoch ──────────▶ Moving { to }
//!            │ ▲                                                  │
//!            │ └─ ResolveTail of the last tail: same epoch ─┐     │
//!            ▼                                              │     ▼
//!   FailOver to a promotable standby: epoch + 1 ──────▶ FailedOver { tails } ⟲ FailOver
//! ```
//!
//! One group with a voter in each of at least three regions hosts [`Placement`]; every node follows
//! it into a [`Cache`]. Each step is a compare-and-set: it names the epoch that the caller has seen,
//! so of several who race for one epoch exactly one wins, and the others are told what is true now.
//!
//! Invariants kept here:
//!
//! - A tenant's epoch never goes back, and an epoch has one home for good.
//! - Only one step ever ends an epoch. What was sent under an ended one changes nothing, however
//!   late it arrives.
//! - A standby is promotable only by the word of the home that it follows, under that home's epoch:
//!   whoever becomes home starts without a promotable standby.
//!
//! [`standby`] has the rules by which a home says so.
//!
//! Not here: credits and accounts (whether a destination has the whole log, how much is quarantined,
//! what a tail is worth: all that is the ledger's), Raft, clocks, sockets, and who proposes a step.

#![warn(clippy::wildcard_enum_match_arm, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

mod cache;
mod change;
mod command;
mod placement;
mod refusal;
mod regions;
mod shared;
mod snapshot;
pub mod standby;
mod tenant;

pub use cache::{AsOf, Cache};
pub use change::{Change, ChangeNumber, Changes};
pub use command::{Command, Operation, Request, SetRegion};
pub use placement::{Answer, Decided, Outcome, PAGE_MAX, Placement, RegionOutcome};
pub use refusal::{Refusal, RegionRefusal};
pub use regions::{KnownRegion, PeerAddress, PeerAddressError};
pub use shared::Shared;
pub use tenant::{Beginning, PlacementState, Standby, Tail, TenantPlacement};
