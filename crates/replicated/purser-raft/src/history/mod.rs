//! A group's history: an append-only stream of records, kept for ever on the disk of every replica.
//!
//! Written while commands are applied and readable at once, but not synced: the log repeats what a
//! crash loses. It is made durable before a snapshot that relies on it is. At a start it is cut to
//! what the snapshot knew, and the log appends the same bytes again.
//!
//! Not here: what a record means, or which record belongs to which account.

pub(crate) mod format;
mod overlay;
mod reader;
pub(crate) mod scan;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;

use crate::disk::Disk;
use crate::ids::{ClusterId, GroupId};

pub(crate) use overlay::Overlay;
pub use reader::{GroupHistory, Placed};
pub(crate) use writer::HistoryWriter;

/// Where a history lies and whose it is.
#[derive(Clone)]
pub(crate) struct HistoryPlace {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) cluster: ClusterId,
    pub(crate) group: GroupId,
}

#[cfg(test)]
mod tests;
