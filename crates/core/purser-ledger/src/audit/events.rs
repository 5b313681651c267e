//! Usage events, followed through the entries that are about them.

use std::collections::BTreeMap;

use purser_types::{LogTime, Span};

use super::expect;
use crate::codec;
use crate::digest::{Digest16, digest16};
use crate::entry::{Entry, Fact};
use crate::events::{EVENT_AGE, EventName, ParkedEvent};

/// What the entries say of events.
#[derive(Debug, Default)]
pub(super) struct AuditedEvents {
    /// Until when an event that was applied is not to be applied again, by the digest of its name.
    applied: BTreeMap<Digest16, LogTime>,
    /// What is parked, by the entry that parked it.
    parked: BTreeMap<u64, ParkedEvent>,
}

impl AuditedEvents {
    /// Follows the event that an entry is about, if it is about one. `age` is the policy's.
    pub(super) fn follow(&mut self, entry: &Entry, age: Option<Span>) -> Result<(), String> {
        if let Fact::EventParked(parked) = &entry.fact {
            expect("the entry that changed the event", parked.changed_by, entry.sequence)?;
            expect("the entry that parks the event", parked.number, entry.sequence)?;
            self.parked.insert(parked.number.0, (**parked).clone());
        } else if let Fact::EventDiscarded(parked) = &entry.fact {
            let before = self.parked.remove(&parked.number.0).map(|before| before.event);
            expect("the discarded event", before.as_ref(), Some(&parked.event))?;
        } else if let Fact::EventApplied(change) = &entry.fact {
            let (event, name) = (&change.event, digest(&change.event.name));
            if let Some(number) = change.parked {
                let before = self.parked.remove(&number.0).map(|before| before.event);
                expect("the event that is not parked any more", before.as_ref(), Some(event))?;
            } else if self.applied.get(&name).is_some_and(|until| entry.log_time < *until) {
                let (source, id) = (event.name.source(), event.name.id());
                return Err(format!("event {id} of {source} is applied twice"));
            }
            let from = event.time.unwrap_or(entry.log_time);
            self.applied.insert(name, from.saturating_add(age.unwrap_or(EVENT_AGE)));
        }
        Ok(())
    }
}

fn digest(name: &EventName) -> Digest16 {
    digest16(&codec::encode(name))
}
