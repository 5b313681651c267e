//! Which groups are open on a node.
//!
//! Invariant: a group is registered from before its first file is touched until after its last one
//! was, so no two lives of a group share files.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::error::OpenError;
use crate::group::core::GroupCore;
use crate::ids::GroupId;

/// The groups of a node, by id.
#[derive(Default)]
pub(super) struct Registry {
    slots: Mutex<Slots>,
    /// One token for each opening.
    openings: TaskTracker,
}

#[derive(Default)]
struct Slots {
    /// Set when the node ends.
    closed: bool,
    groups: BTreeMap<GroupId, Slot>,
}

enum Slot {
    Opening,
    Open(Arc<GroupCore>),
}

/// Keeps a group from being opened twice while it is being opened. Given up when dropped, unless it
/// has been opened.
pub(super) struct Opening {
    registry: Arc<Registry>,
    group: GroupId,
    _opening: TaskTrackerToken,
}

/// Where an open group is registered. It leaves when it has ended.
pub(crate) struct Registration {
    registry: Weak<Registry>,
    group: GroupId,
}

impl Registry {
    /// Reserves a group for opening.
    pub(super) fn reserve(self: &Arc<Self>, group: GroupId) -> Result<Opening, OpenError> {
        let mut slots = self.lock();
        if slots.closed {
            return Err(OpenError::Start("the node is stopping".to_owned()));
        }
        if slots.groups.contains_key(&group) {
            return Err(OpenError::AlreadyOpen);
        }
        slots.groups.insert(group, Slot::Opening);
        let registry = Arc::clone(self);
        Ok(Opening { registry, group, _opening: self.openings.token() })
    }

    /// Refuses further groups, waits for those that are being opened, and gives all that are open.
    pub(super) async fn close(&self) -> Vec<Arc<GroupCore>> {
        self.lock().closed = true;
        self.openings.close();
        self.openings.wait().await;
        let open = |slot: &Slot| match slot {
            Slot::Opening => None,
            Slot::Open(core) => Some(Arc::clone(core)),
        };
        self.lock().groups.values().filter_map(open).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Opening {
    /// Where the group will be registered.
    pub(super) fn registration(&self) -> Registration {
        Registration { registry: Arc::downgrade(&self.registry), group: self.group }
    }

    /// Says that the group is open.
    pub(super) fn open(&self, core: Arc<GroupCore>) {
        self.registry.lock().groups.insert(self.group, Slot::Open(core));
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        let mut slots = self.registry.lock();
        if matches!(slots.groups.get(&self.group), Some(Slot::Opening)) {
            slots.groups.remove(&self.group);
        }
    }
}

impl Registration {
    /// The group has ended and can be opened again.
    pub(crate) fn leave(&self) {
        if let Some(registry) = self.registry.upgrade() {
            registry.lock().groups.remove(&self.group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: GroupId = GroupId(1);

    #[tokio::test]
    async fn a_group_is_reserved_until_it_is_given_up() {
        let registry = Arc::new(Registry::default());
        let first = registry.reserve(GROUP).unwrap();
        assert!(matches!(registry.reserve(GROUP), Err(OpenError::AlreadyOpen)));
        drop(first);
        drop(registry.reserve(GROUP).unwrap());
        assert!(registry.close().await.is_empty());
        assert!(matches!(registry.reserve(GROUP), Err(OpenError::Start(_))));
    }
}
