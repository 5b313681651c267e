//! What is proved of every transcript at its end.

use purser_types::{ApplyError, CorruptSnapshot, Machine};

use super::group::Logged;
use super::memory::MemoryHistory;
use crate::audit::{Audit, Finding};
use crate::ledger::Ledger;

/// What turned out not to be so.
#[derive(Debug, thiserror::Error)]
pub enum Unproved {
    /// A ledger restored from a snapshot is the ledger that the snapshot was taken of.
    #[error("the ledger restored from its snapshot is another one")]
    Restored,
    /// A snapshot can be read.
    #[error("the snapshot cannot be read")]
    Snapshot(#[source] CorruptSnapshot),
    /// A second replica makes the same state and the same history bytes of the same commands.
    #[error("a second replica comes to another state or history")]
    Replica,
    /// A second replica can apply the commands.
    #[error("a second replica cannot apply a command")]
    Replay(#[source] ApplyError),
    /// The entries alone lead to the same balances, lots and holds.
    #[error("the entries do not explain the ledger")]
    Entries(#[source] Finding),
}

/// Proves a ledger, given its history and the commands that led to it.
pub(super) fn prove(
    ledger: &Ledger,
    history: &MemoryHistory,
    log: &[Logged],
) -> Result<(), Unproved> {
    let digest = ledger.digest();
    let restored = Ledger::restore(&mut ledger.snapshot()).map_err(Unproved::Snapshot)?;
    if restored.digest() != digest {
        return Err(Unproved::Restored);
    }
    let (replica, replica_history) = replay(log).map_err(Unproved::Replay)?;
    if replica.digest() != digest || replica_history != *history {
        return Err(Unproved::Replica);
    }
    let mut audit = Audit::default();
    for (position, record) in history.records_from(Default::default()) {
        audit.fold(position, record).map_err(Unproved::Entries)?;
    }
    audit.compare(ledger).into_iter().next().map_or(Ok(()), |first| Err(Unproved::Entries(first)))
}

/// Applies the commands again, from the beginning and without any restart.
fn replay(log: &[Logged]) -> Result<(Ledger, MemoryHistory), ApplyError> {
    let (mut ledger, mut history) = (Ledger::default(), MemoryHistory::default());
    for (logged, index) in log.iter().zip(1..) {
        ledger.apply(logged.stamped(index), &mut history)?;
    }
    Ok((ledger, history))
}
