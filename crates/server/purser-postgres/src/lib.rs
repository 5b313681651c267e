//! PostgreSQL as a read model of the ledger, and as an outbox.
//!
//! ```text
//!  history of a shard ─▶ Source ─▶ Projector ─▶ entries, balances, lots, holds, keys ─▶ queries
//!                          │                    outbox, cursor
//!                          └─▶ the same again beside it ─▶ compared (verify), or put in place (rebuild)
//! ```
//!
//! The tables are a projection: nothing decides from them, and they can be built again from the history at
//! any time. What is true is the ledger. The only SQL of the project is in here. Not here: HTTP, Raft,
//! how a history is read ([`Source`] is a trait), who runs a projector.

mod before;
mod changes;
mod database;
mod error;
mod moved;
mod outbox;
mod projector;
mod query;
mod rebuild;
mod rows;
mod shadow;
mod source;
mod standing;
mod target;
mod tls;
mod values;
mod verify;

pub use database::Database;
pub use error::{DatabaseError, Violation};
pub use outbox::Event;
pub use projector::{Progress, ProjectError, Projector, ProjectorSettings};
pub use query::{BalanceThen, Found, Moment, Period, Search, Statement};
pub use rebuild::rebuild;
pub use shadow::History;
pub use source::{Cursor, InvalidShard, Item, Page, Shard, Source, SourceError};
pub use standing::{BalanceRow, LotRow, ProjectedShard, Published, Standing};
pub use tls::Authorities;
pub use verify::{AlteredColumn, Difference, TableVerdict, Tally, Verification, Wrong, verify};
