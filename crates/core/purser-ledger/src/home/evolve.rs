//! Applying home's entries about allocations. Cannot fail: what an entry says has happened.

use purser_types::{Credits, LogTime, Position};

use super::{Allocation, AllocationStatus, Bound, Home, SameRequest, Settlement};
use crate::account::{Account, HoldKey, Side};
use crate::entry::Entry;
use crate::hold::HoldState;

impl Account {
    /// The allocation is as the entry says.
    pub(crate) fn evolve_allocation(&mut self, allocation: &Allocation) {
        let Some(home) = self.home_side_mut() else { return };
        let owner = allocation.owner;
        let last = home.generations.entry(owner.region).or_default();
        *last = (*last).max(owner.generation);
        if allocation.status == AllocationStatus::Closed {
            home.allocations.remove(&owner);
            home.closed.insert(owner, allocation.opened_by);
        } else {
            home.allocations.insert(owner, allocation.clone());
        }
    }

    /// A region's entries are booked.
    pub(crate) fn evolve_settlement(
        &mut self,
        settlement: &Settlement,
        entry: &Entry,
        position: Position,
    ) {
        self.evolve_allocation(&settlement.allocation);
        self.remember_away(settlement, entry.log_time);
        self.remember_decided(settlement, entry.log_time, position);
        self.remember_taken(settlement, entry.log_time, position);
        let allocation = settlement.allocation.opened_by;
        for shipped in &settlement.shipped {
            let Some(hold) = shipped.entry.fact.hold() else { continue };
            let key = HoldKey { allocation, hold: hold.number };
            self.evolve_away(key, &shipped.spent, entry, position);
            if shipped.same == SameRequest::Duplicate {
                self.note_duplicate(key, entry.log_time);
            }
            let is_open = hold.state == HoldState::Active || !shipped.spent.is_empty();
            self.evolve_reversal(key, is_open);
        }
    }

    fn note_duplicate(&mut self, key: HoldKey, now: LogTime) {
        let retention = self.standing.policy.record_retention;
        if let Some(home) = self.home_side_mut() {
            home.duplicates.insert(key, (), now, retention);
        }
    }

    /// A duplicate is to be undone for as long as it holds or has spent anything: a capture that comes
    /// later is undone as well.
    pub(crate) fn evolve_reversal(&mut self, key: HoldKey, is_open: bool) {
        let Some(home) = self.home_side_mut() else { return };
        if is_open && home.duplicates.latest(&key).is_some() {
            home.reversals.insert(key);
        } else {
            home.reversals.remove(&key);
        }
    }

    /// What home knows of allocations, to be changed. Nothing in a region's book.
    pub(crate) fn home_side_mut(&mut self) -> Option<&mut Home> {
        match &mut self.side {
            Side::Home(home) => Some(home.get_or_insert_default()),
            Side::Region(_) => None,
        }
    }

    /// Every region is to hear what has changed for all of them.
    pub(crate) fn renew_vouchers(&mut self) {
        if let Side::Home(Some(home)) = &mut self.side {
            home.allocations.values_mut().for_each(Allocation::renew);
        }
    }

    /// Debt of regions' spends that is not repaid.
    pub(crate) fn realised(&self) -> Credits {
        self.home_side().map_or(Credits::ZERO, |home| home.realised)
    }

    /// The most that can have been spent beyond what was granted, now. Of a region's book: nothing,
    /// home states it.
    pub fn bound(&self) -> Bound {
        self.home_side().map(|home| home.bound(None)).unwrap_or_default()
    }

    /// The most that [`Account::bound`] may come to, also if this home is lost.
    pub fn ceiling(&self) -> Credits {
        let cap = self.standing.policy.takeback_cap;
        let ceiling = self.home_side().map_or(Credits::ZERO, |home| home.ceiling(None, cap));
        ceiling.checked_add(self.answer_limit()).unwrap_or(Credits::MAX)
    }

    /// What is owed and no region made: a call or a policy allowed it here.
    pub fn allowed_debt(&self) -> Credits {
        match self.side {
            Side::Home(_) => self.balance.debt.saturating_sub(self.realised()),
            Side::Region(_) => Credits::ZERO,
        }
    }

    /// Whether regions have something of this account, or have made debt that is not repaid; or whether
    /// that is so of a lost home, or would be if this one were lost.
    pub(crate) fn has_to_do_with_regions(&self) -> bool {
        let may_lose = !self.answer_limit().is_zero();
        self.home_side().is_ok_and(|home| {
            let is_owed = !home.realised.is_zero() || !home.tails.is_empty();
            !home.allocations.is_empty() || is_owed || may_lose
        })
    }

    /// What is out in regions, as far as home knows. Of a region's book: nothing.
    pub fn outstanding(&self) -> Credits {
        self.home_side().map_or(Credits::ZERO, Home::outstanding)
    }

    /// The allocations that are not closed.
    pub fn allocations(&self) -> impl Iterator<Item = &Allocation> {
        self.home_side().into_iter().flat_map(|home| home.allocations.values())
    }
}
