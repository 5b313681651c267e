//! One tenant whose credits were spent in several regions, against sums of what was answered.
//!
//! What a region decided reaches home's ledger as one entry for many decisions, and which lot paid
//! depends on which credits were where. So this is compared instead of lot by lot:
//!
//! - every hold and charge, asked for where it was made, with what was answered about it, and that its
//!   history has each accepted call once and nothing else ([`works`]);
//! - what is used, held, granted and taken back, and all lifetime totals, to the last credit; the lots
//!   and the balance with each other ([`sums`]);
//! - home's entries: in order, linked by their hashes, no bucket ever below zero, adding up to the
//!   balance; each call that home accepted has its entry, and no entry another ([`history`]);
//! - every refusal: that the state of its hold explains it, or that the credits could not have been
//!   there ([`works`], [`refusals`]).
//!
//! Not here: a tenant of which no region ever had anything, which is compared with the book.

mod history;
mod refusals;
mod sums;
#[cfg(test)]
mod tests;
mod works;

use std::collections::BTreeMap;

use purser_api::{Balance, Charge, Entry, EntryKind, Hold, Lot};
use tokio::time::Instant;

use self::works::Works;
use super::compare::Compared;
use super::difference::Difference;
use super::journal::Journal;

/// What home shows of a tenant, all as of one entry.
#[derive(Debug, Clone)]
pub(crate) struct ShownAtHome {
    /// The balance.
    pub(crate) balance: Balance,
    /// The entries, oldest first.
    pub(crate) entries: Vec<Entry>,
    /// The lots.
    pub(crate) lots: Vec<Lot>,
}

impl ShownAtHome {
    /// Whether home ever took an allocation back. It is closed with its region's last report, and then
    /// nobody shows the holds and charges that were made under it: the sums have them.
    pub(crate) fn has_taken_back(&self) -> bool {
        self.entries.iter().any(|entry| entry.kind == EntryKind::TakeBack)
    }
}

/// What is shown of a tenant's holds and charges.
#[derive(Debug, Clone)]
pub(crate) struct ShownWorks {
    /// By their ids.
    pub(crate) works: BTreeMap<String, ShownWork>,
    /// Whether some may be missing, because their allocation is closed.
    pub(crate) may_be_closed: bool,
}

/// What the owner of a hold or charge shows of it.
#[derive(Debug, Clone)]
pub(crate) enum ShownWork {
    /// A hold, and its entries in its owner's book.
    Hold(Box<Hold>, Vec<Entry>),
    /// A charge, likewise.
    Charge(Box<Charge>, Vec<Entry>),
}

/// Times at which some region was cut off.
pub(crate) type CutTimes = Vec<(Instant, Instant)>;

/// Whether regions ever had to do with an account, so that its entries do not tell everything.
pub(crate) fn is_touched(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| {
        matches!(
            entry.kind,
            EntryKind::Allocate
                | EntryKind::Allocation
                | EntryKind::Settle
                | EntryKind::Return
                | EntryKind::TakeBack
                | EntryKind::WriteOff
        )
    })
}

/// The ids of the holds and charges that were made, as far as answers tell.
pub(crate) fn works_of(journal: &Journal) -> Vec<String> {
    let makes = |asked: &super::book::Asked| {
        matches!(asked, super::book::Asked::Authorize { .. } | super::book::Asked::Charge { .. })
    };
    let made = journal.calls.values().filter(|call| makes(&call.asked));
    made.filter_map(|call| Some(call.receipt()?.id.clone())).collect()
}

/// Compares what home shows with the journal. Fails also for as long as not everything is booked that
/// regions have decided.
pub(crate) fn compare_home(
    journal: &Journal,
    shown: &ShownAtHome,
    cuts: &CutTimes,
) -> Result<Compared, Difference> {
    if let Some(complaint) = journal.complaints.first() {
        return Err(Difference(complaint.clone()));
    }
    let works = Works::of(journal)?;
    let overspent = history::check(journal, shown)?;
    let answers = history::check_answers(journal, &shown.entries)?;
    sums::check_debt(journal, &works, shown, overspent)?;
    sums::check(journal, &works, shown)?;
    let refusals = refusals::check(journal, &works, cuts)?;
    Ok(Compared {
        entries: count(shown.entries.len()),
        lots: count(shown.lots.len()),
        works: count(works.by_id.len()),
        answers,
        refusals,
        overspent,
        is_regional: true,
    })
}

/// Compares what the owners show of holds and charges with the journal.
pub(crate) fn compare_works(
    journal: &Journal,
    shown: &ShownWorks,
    now: Instant,
) -> Result<(), Difference> {
    Works::of(journal)?.compare(shown, now)
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
