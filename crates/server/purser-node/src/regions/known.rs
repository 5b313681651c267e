//! What this node knows of Placement, and who hears when that changes.
//!
//! Most tenants never move, so those that have, or that are on their way, are listed: whoever tends
//! moves looks at these and at no others. Not here: where knowledge comes from (`placement`).

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use purser_placement::{Cache, Change, ChangeNumber, Changes, PlacementState, TenantPlacement};
use purser_types::{Epoch, TenantId};
use tokio::sync::watch;

/// The epoch under which a tenant is opened.
const FIRST_EPOCH: Epoch = Epoch(1);

/// See the module's documentation.
pub(super) struct Known {
    cache: RwLock<Cache>,
    moves: Mutex<Moves>,
    /// Counts what was learned.
    news: watch::Sender<u64>,
}

#[derive(Default)]
struct Moves {
    /// Tenants that have moved, are about to, or have lost a home.
    all: BTreeSet<TenantId>,
    /// Those of them of which something was learned that nobody has looked at.
    unseen: BTreeSet<TenantId>,
    /// The latest fail-over of any tenant.
    failed_over: ChangeNumber,
}

impl Known {
    /// Nothing yet.
    pub(super) fn new() -> Self {
        Self { cache: RwLock::default(), moves: Mutex::default(), news: watch::Sender::new(0) }
    }

    /// Looks at what is known.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Cache) -> T) -> T {
        look(&self.cache.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes up a page of changes.
    pub(super) fn apply(&self, page: Changes) {
        let tenants = page.changes.iter().filter_map(|change| match change {
            Change::Tenant { tenant, .. } => Some(tenant.clone()),
            Change::Region(_) => None,
        });
        let tenants: Vec<TenantId> = tenants.collect();
        let mut cache = self.cache.write().unwrap_or_else(PoisonError::into_inner);
        let before: Vec<Option<ChangeNumber>> =
            tenants.iter().map(|tenant| change_of(&cache, tenant)).collect();
        cache.apply(page);
        let mut moves = self.lists();
        let mut is_news = false;
        for (tenant, before) in tenants.into_iter().zip(before) {
            if change_of(&cache, &tenant) == before {
                continue;
            }
            is_news = true;
            let known = cache.home_of(&tenant).known;
            let failed_over = known.map_or(ChangeNumber::NONE, |known| known.failed_over);
            moves.failed_over = moves.failed_over.max(failed_over);
            if known.is_some_and(has_moved) {
                moves.unseen.insert(tenant.clone());
                moves.all.insert(tenant);
            }
        }
        drop((cache, moves));
        if is_news {
            self.news.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    /// Takes up what is known of one tenant.
    pub(super) fn learn(&self, tenant: &TenantId, placement: &TenantPlacement) {
        let after = self.look(Cache::cursor);
        let change = Change::Tenant { tenant: tenant.clone(), placement: placement.clone() };
        // A page that reaches no further than what is known: it teaches one tenant and nothing else.
        let latest = placement.change.max(after);
        self.apply(Changes { after, through: after, latest, changes: vec![change] });
    }

    /// Up to which change everything is known. Where to go on is no such place: a tenant that has changed
    /// since a page was made is in a later one, with a change that the page had reached before.
    pub(super) fn as_of(&self) -> ChangeNumber {
        self.look(Cache::as_of)
    }

    /// The tenants that have moved, are about to, or have lost a home.
    pub(super) fn moves(&self) -> Vec<TenantId> {
        self.lists().all.iter().cloned().collect()
    }

    /// The latest fail-over of any tenant.
    pub(super) fn failed_over(&self) -> ChangeNumber {
        self.lists().failed_over
    }

    /// Those of them of which something was learned since this was last asked.
    pub(super) fn take_unseen(&self) -> BTreeSet<TenantId> {
        std::mem::take(&mut self.lists().unseen)
    }

    /// Has a tenant of the list looked at, as if something had been learned of it.
    pub(super) fn look_again(&self, tenant: &TenantId) {
        let mut lists = self.lists();
        if !lists.all.contains(tenant) {
            return;
        }
        lists.unseen.insert(tenant.clone());
        drop(lists);
        self.news.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Tells of whatever is learned from now on.
    pub(super) fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    fn lists(&self) -> MutexGuard<'_, Moves> {
        self.moves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn change_of(cache: &Cache, tenant: &TenantId) -> Option<ChangeNumber> {
    cache.home_of(tenant).known.map(|placement| placement.change)
}

/// Whether a tenant may have accounts elsewhere than at its home, or accounts that have stopped.
fn has_moved(placement: &TenantPlacement) -> bool {
    placement.epoch > FIRST_EPOCH || placement.state != PlacementState::Settled
}

#[cfg(test)]
mod tests {
    use purser_placement::{Beginning, Shared};
    use purser_types::Region;

    use super::*;

    fn opened(name: &str, change: u64) -> Change {
        let placement = TenantPlacement {
            home: Region::parse("us").unwrap(),
            epoch: FIRST_EPOCH,
            beginning: Beginning::Opened,
            state: PlacementState::Settled,
            standbys: Shared::from_iter([]),
            change: ChangeNumber(change),
            failed_over: ChangeNumber::NONE,
        };
        Change::Tenant { tenant: TenantId::parse(name).unwrap(), placement }
    }

    /// Who takes it for known would not wait for a standby, or not drop it, of a tenant that it lacks.
    #[test]
    fn a_node_in_the_middle_of_the_pages_does_not_know_what_they_have_passed_over() {
        let known = Known::new();
        let page = |after, through, change| Changes {
            after: ChangeNumber(after),
            through: ChangeNumber(through),
            latest: ChangeNumber(3),
            changes: vec![change],
        };
        // Another tenant was opened as change 1 and changed as 3, so it is in no page up to 2.
        known.apply(page(0, 2, opened("beta", 2)));
        assert_eq!(known.look(Cache::cursor), ChangeNumber(2));
        assert_eq!(known.as_of(), ChangeNumber::NONE);
        known.apply(page(2, 3, opened("acme", 3)));
        assert_eq!(known.as_of(), ChangeNumber(3));
    }
}
