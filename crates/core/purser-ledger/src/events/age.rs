//! How long events are accepted after their time, where that has been made longer.
//!
//! An event is remembered for as long as it is accepted. What was remembered for a shorter age is forgotten
//! by then, or will be: so a longer age is for events whose time comes after it was set, or one that had been
//! taken would be taken once more.

use minicbor::{Decode, Encode};
use purser_types::{LogTime, Span};

use super::SKEW_MAX;
use crate::policy::Policy;
use crate::standing::Standing;

/// An age that was made longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ShorterAge {
    /// It still is the age of events of this time and before: those that may have come in under it.
    #[n(0)]
    pub last: LogTime,
    /// How long they are accepted.
    #[n(1)]
    pub age: Span,
}

impl Standing {
    /// For how long at least an event is remembered, whatever its time is.
    pub fn event_age_min(&self) -> Span {
        let age = self.policy.events_accepted_for();
        self.shorter_age.map_or(age, |shorter| age.min(shorter.age))
    }

    /// How long an event of this time is accepted after it.
    pub(crate) fn accepted_age(&self, time: LogTime) -> Span {
        let age = self.policy.events_accepted_for();
        match self.shorter_age {
            Some(shorter) if time <= shorter.last => age.min(shorter.age),
            Some(_) | None => age,
        }
    }

    /// What a policy that is set at `now` leaves of the ages before.
    pub(crate) fn shorter_age_under(&self, policy: &Policy, now: LogTime) -> Option<ShorterAge> {
        let (age, next) = (self.policy.events_accepted_for(), policy.events_accepted_for());
        // Once its last events are too old under the new age as well, it makes no difference.
        let before =
            self.shorter_age.filter(|shorter| now < shorter.last.saturating_add(age.max(next)));
        if next <= age {
            return before;
        }
        let age = before.map_or(age, |shorter| shorter.age.min(age));
        Some(ShorterAge { last: now.saturating_add(SKEW_MAX), age })
    }
}
