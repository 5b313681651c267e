//! What entries make of lots and holds, for whoever keeps them outside a ledger: a read model.
//!
//! The rules are those of `evolve`, which serves an account that is whole. Here only what an entry
//! touches has to be at hand, so a fold can go on from rows of a database. Not here: what an account
//! keeps for deciding (burn-down order, agenda, keys), and regions' books, which home's entries carry.

use std::collections::{BTreeMap, BTreeSet};

use purser_types::{Owner, Sequence};

use crate::command::{HoldNumber, LotNumber};
use crate::entry::{Entry, Fact};
use crate::hold::Hold;
use crate::home::{Allocation, AllocationStatus, Settlement};
use crate::lot::{Lot, LotPhase};

/// Why an entry cannot be folded: what it goes on from is not what it was written on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    /// It names a lot that is not there.
    #[error("lot {} is not known", .0.0.0)]
    UnknownLot(LotNumber),
    /// It takes from a lot what the lot has not.
    #[error("lot {} does not have what the entry takes from it", .0.0.0)]
    Overdrawn(LotNumber),
    /// It is of a region's book, not of home's.
    #[error("the entry is of a region's book")]
    RegionsBook,
}

/// A hold or charge as it stands after an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldAfter {
    /// The region's allocation that decided it, where the entry says so. Nothing for home's own.
    pub owner: Option<Owner>,
    /// The hold or charge, with what has paid for it as home knows it.
    pub hold: Hold,
}

impl Entry {
    /// The lots that the entry touches, its new one included.
    pub fn lots(&self) -> BTreeSet<LotNumber> {
        let moved = self.moves.iter().filter_map(|step| step.lot);
        let changed = self.fact.new_phase().map(|(number, _)| number);
        let new = self.fact.new_lot().map(|_| LotNumber(self.sequence));
        moved.chain(changed).chain(new).collect()
    }

    /// The holds and charges that the entry is about, each as the entry leaves it.
    pub fn holds(&self) -> Vec<HoldAfter> {
        if let Fact::Settled(settlement) = &self.fact {
            return settlement.holds_after();
        }
        let own = self.fact.hold().cloned();
        own.map(|hold| HoldAfter { owner: None, hold }).into_iter().collect()
    }

    /// The allocation that the entry closes, by the entry that opened it: whatever of its holds was still
    /// open has ended with it.
    pub fn closes(&self) -> Option<Sequence> {
        let allocation = self.fact.allocation()?;
        (allocation.status == AllocationStatus::Closed).then_some(allocation.opened_by)
    }
}

impl Fact {
    /// The allocation that the fact is about, as it stands afterwards.
    fn allocation(&self) -> Option<&Allocation> {
        if let Self::Settled(settlement) = self {
            return Some(&settlement.allocation);
        }
        if let Self::Allocated(allocation)
        | Self::AllocationSet(allocation)
        | Self::TakenBack(allocation)
        | Self::Covered(allocation)
        | Self::CoverPaid(allocation)
        | Self::WrittenOff(allocation) = self
        {
            Some(allocation)
        } else {
            None
        }
    }
}

impl Settlement {
    fn holds_after(&self) -> Vec<HoldAfter> {
        let mut holds: BTreeMap<HoldNumber, HoldAfter> = BTreeMap::new();
        for shipped in &self.shipped {
            if let Some(hold) = shipped.entry.fact.hold() {
                let hold = shipped.hold_at_home(hold, self.allocation.opened_by);
                let after = HoldAfter { owner: Some(self.allocation.owner), hold };
                holds.insert(after.hold.number, after);
            }
        }
        holds.into_values().collect()
    }
}

/// Folds an entry of home into the lots that it touches: all of [`Entry::lots`] that were there before
/// must be in `lots`. After an error they are of no use.
pub fn fold_lots(lots: &mut BTreeMap<LotNumber, Lot>, entry: &Entry) -> Result<(), FoldError> {
    if matches!(entry.fact, Fact::VoucherAccepted(_)) {
        return Err(FoldError::RegionsBook);
    }
    if let Some(terms) = entry.fact.new_lot() {
        lots.insert(LotNumber(entry.sequence), Lot::pending(terms.clone()));
    }
    for step in &entry.moves {
        let Some(number) = step.lot else { continue };
        let lot = lots.get_mut(&number).ok_or(FoldError::UnknownLot(number))?;
        if step.takes_effect() {
            lot.phase = LotPhase::Active;
        }
        if !lot.could_evolve(step) {
            return Err(FoldError::Overdrawn(number));
        }
    }
    if let Some((number, phase)) = entry.fact.new_phase() {
        lots.get_mut(&number).ok_or(FoldError::UnknownLot(number))?.phase = phase;
    }
    Ok(())
}
