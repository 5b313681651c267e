//! What a node knows of Placement: it follows, page by page, and answers without asking anyone.
//!
//! Pages may come from any replica, in any order, any number of times. What was known is never
//! replaced by what is older, and the cache says what it is *as of*: no tenant is older than that,
//! though some may be newer. Not here: asking for pages, and deciding anything by them. A cache may
//! be late, so it finds a home; it does not prove one.

use purser_types::{CowMap, Region, TenantId};

use crate::change::{Change, ChangeNumber, Changes};
use crate::regions::KnownRegion;
use crate::tenant::TenantPlacement;

/// What a node knows of Placement. A clone is cheap, so readers can be given one of their own.
#[derive(Debug, Clone, Default)]
pub struct Cache {
    tenants: CowMap<TenantId, TenantPlacement>,
    regions: CowMap<Region, KnownRegion>,
    /// Where to go on.
    cursor: ChangeNumber,
    /// The latest state of which a page was taken up. What changed between two pages was left out
    /// of the earlier one, so knowledge is whole only once a page ends at this or later.
    reaching: ChangeNumber,
    /// Everything up to here is known.
    as_of: ChangeNumber,
}

/// An answer, and how new it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsOf<T> {
    /// What was asked for, as far as it is known.
    pub known: T,
    /// The change that this is as of, or newer.
    pub as_of: ChangeNumber,
}

impl Cache {
    /// Takes up a page. One that does not follow on what is known is taken up too, but leaves
    /// [`Cache::cursor`] where it is.
    pub fn apply(&mut self, page: Changes) {
        for change in page.changes {
            self.learn(change);
        }
        if page.after > self.cursor {
            return;
        }
        self.cursor = self.cursor.max(page.through);
        self.reaching = self.reaching.max(page.latest);
        if page.through == page.latest && page.latest == self.reaching {
            self.as_of = self.as_of.max(page.latest);
        }
    }

    /// Takes up one change, if it is newer than what is known.
    fn learn(&mut self, change: Change) {
        match change {
            Change::Tenant { tenant, placement } => {
                // The epoch comes first: whatever numbers are told, nobody goes back to a home that
                // has been fenced.
                let age = |placement: &TenantPlacement| (placement.epoch, placement.change);
                let known = self.tenants.get(&tenant);
                if known.is_none_or(|known| age(known) < age(&placement)) {
                    self.tenants.insert(tenant, placement);
                }
            }
            Change::Region(region) => {
                let known = self.regions.get(&region.region);
                if known.is_none_or(|known| known.change < region.change) {
                    self.regions.insert(region.region, region);
                }
            }
        }
    }

    /// Who is home of a tenant. Nothing means that there was no such tenant as of then.
    pub fn home_of(&self, tenant: &TenantId) -> AsOf<Option<&TenantPlacement>> {
        let known = self.tenants.get(tenant);
        let change = known.map_or(ChangeNumber::NONE, |placement| placement.change);
        AsOf { known, as_of: self.as_of.max(change) }
    }

    /// A region: how many shards it has, and where it is reached.
    pub fn region(&self, region: Region) -> AsOf<Option<&KnownRegion>> {
        let known = self.regions.get(&region);
        let change = known.map_or(ChangeNumber::NONE, |region| region.change);
        AsOf { known, as_of: self.as_of.max(change) }
    }

    /// All tenants that are known, by name.
    pub fn tenants(&self) -> impl Iterator<Item = (&TenantId, &TenantPlacement)> {
        self.tenants.iter()
    }

    /// All regions that are known, by name.
    pub fn regions(&self) -> impl Iterator<Item = &KnownRegion> {
        self.regions.iter().map(|(_, region)| region)
    }

    /// Where to go on: the next page to ask for is the one after this change.
    pub fn cursor(&self) -> ChangeNumber {
        self.cursor
    }

    /// Everything up to this change is known. [`ChangeNumber::NONE`] until the first pages have
    /// come to their end; a node that has not got there should not say that a tenant is unknown.
    pub fn as_of(&self) -> ChangeNumber {
        self.as_of
    }
}
