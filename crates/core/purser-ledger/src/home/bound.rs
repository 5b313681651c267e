//! The overspend bound: the most that can have been spent beyond what was granted, and the most that
//! this may come to.
//!
//! INV-13. Both are sums over the allocations that are not closed; a decision that could lift the
//! bound looks at the sums as they would be with the allocation that it changes.

use purser_types::Credits;

use super::{Allocation, Home};

/// The most that can have been spent beyond what was granted, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bound {
    /// It has been, and is owed.
    pub realised: Credits,
    /// Taken back, and perhaps spent before.
    pub taken_back: Credits,
    /// Allowed beyond what was granted, and not used as far as is known.
    pub overdraft: Credits,
    /// Set aside for what lost homes may have decided: F.
    pub failover: Credits,
}

impl Bound {
    /// All causes together.
    pub fn total(self) -> u128 {
        wide(self.realised).saturating_add(self.potential())
    }

    /// What regions and lost homes may still turn into debt. It is booked whatever it comes to.
    pub fn potential(self) -> u128 {
        let parts = [self.taken_back, self.overdraft, self.failover];
        parts.into_iter().fold(0, |sum, part| sum.saturating_add(wide(part)))
    }
}

impl Home {
    /// The bound, with one of the allocations as `changed` if that is to change.
    pub(crate) fn bound(&self, changed: Option<&Allocation>) -> Bound {
        let sum = |part: fn(&Allocation) -> Credits| self.sum(changed, part);
        Bound {
            realised: self.realised,
            taken_back: sum(Allocation::unresolved),
            overdraft: sum(Allocation::overdraft_unused),
            failover: self.quarantine(),
        }
    }

    /// The most that the bound may come to: what the policy allows to be taken back, what operators
    /// took back beyond that, the overdrafts, and what is set aside for lost homes. Not here: X, which
    /// a fail-over turns into what is set aside.
    pub(crate) fn ceiling(&self, changed: Option<&Allocation>, takeback_cap: Credits) -> Credits {
        let forced = |allocation: &Allocation| {
            if allocation.is_forced { allocation.unresolved() } else { Credits::ZERO }
        };
        let overdrafts = self.sum(changed, |it| it.overdraft_worst);
        let parts = [self.sum(changed, forced), overdrafts, self.quarantine()];
        parts.into_iter().fold(takeback_cap, add)
    }

    /// Whether the bound would stay within its ceiling if an allocation became as `changed`.
    pub(crate) fn keeps_ceiling(&self, changed: &Allocation, takeback_cap: Credits) -> bool {
        let ceiling = self.ceiling(Some(changed), takeback_cap);
        self.bound(Some(changed)).total() <= wide(ceiling)
    }

    /// What is out in regions, of all allocations.
    pub(crate) fn outstanding(&self) -> Credits {
        self.sum(None, Allocation::outstanding)
    }

    fn sum(&self, changed: Option<&Allocation>, part: fn(&Allocation) -> Credits) -> Credits {
        let is_other = |other: &&Allocation| changed.is_none_or(|it| it.owner != other.owner);
        let others = self.allocations.values().filter(is_other);
        others.chain(changed).map(part).fold(Credits::ZERO, add)
    }
}

/// A sum that ends at the largest amount.
fn add(sum: Credits, part: Credits) -> Credits {
    sum.checked_add(part).unwrap_or(Credits::MAX)
}

fn wide(amount: Credits) -> u128 {
    amount.get().into()
}
