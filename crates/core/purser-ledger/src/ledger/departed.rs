//! What accounts remembered under keys whose home has gone elsewhere.
//!
//! Such a call was decided here, so no book of this region decides it anew (R10): it is for the new home,
//! which has the same memory. The account's own ring is kept as it is, which costs nothing a key, until
//! the last of its keys ends.

use purser_types::{CowMap, LogTime};

use crate::account::AccountNumber;
use crate::answer::Remembered;
use crate::command::AccountName;
use crate::digest::Digest16;
use crate::time_ring::TimeRing;

/// An account that was here: one name may have been here several times.
pub(super) type Place = (AccountName, AccountNumber);

/// See the module's documentation.
#[derive(Debug, Clone, Default)]
pub(super) struct Departed {
    keys: CowMap<Place, TimeRing<Digest16, Remembered>>,
    /// When each can be forgotten. Derived from them.
    by_end: CowMap<(LogTime, Place), ()>,
}

impl Departed {
    /// Whether an account decided something here under a key that is kept at `now`.
    pub(super) fn knows(&self, name: &AccountName, key: &Digest16, now: LogTime) -> bool {
        let first = (name.clone(), AccountNumber::default());
        let from = self.keys.range_from(std::ops::Bound::Included(&first));
        let mut own = from.take_while(|((other, _), _)| other == name);
        own.any(|(_, keys)| keys.get(key, now).is_some())
    }

    /// Keeps what an account remembers, or a part of it that a snapshot tells of.
    pub(super) fn change(
        &mut self,
        place: Place,
        change: impl FnOnce(&mut TimeRing<Digest16, Remembered>),
    ) {
        let mut keys = self.keys.remove(&place).unwrap_or_default();
        if let Some(end) = end_of(&keys) {
            self.by_end.remove(&(end, place.clone()));
        }
        change(&mut keys);
        // Without keys there is nothing to keep.
        if let Some(end) = end_of(&keys) {
            self.by_end.insert((end, place.clone()), ());
            self.keys.insert(place, keys);
        }
    }

    /// Frees the memory of an account of which no key is kept at `now`: one at a time, which is enough,
    /// since they come one at a time. No answer depends on it.
    pub(super) fn forget(&mut self, now: LogTime) {
        let Some((end, place)) = self.by_end.first().map(|(end, ())| end.clone()) else { return };
        if end <= now {
            self.keys.remove(&place);
            self.by_end.remove(&(end, place));
        }
    }

    /// What takes memory, by account.
    pub(super) fn all(&self) -> CowMap<Place, TimeRing<Digest16, Remembered>> {
        self.keys.clone()
    }
}

/// When the last key of a ring ends.
fn end_of(keys: &TimeRing<Digest16, Remembered>) -> Option<LogTime> {
    keys.buckets().map(|bucket| bucket.ends_at).max()
}
