//! What an account remembers of events, and how entries change it.
//!
//! An event that was applied is a digest and the place of its entry. One that is parked is kept whole.

use std::ops::Bound;

use minicbor::{Decode, Encode};
use purser_types::{CowMap, LogTime, Position, Sequence, Span};

use super::{Event, EventChange, ParkReason, ParkedEvent, SKEW_MAX};
use crate::account::Account;
use crate::digest::Digest16;
use crate::entry::Entry;
use crate::policy::Policy;
use crate::time_ring::TimeRing;

/// See the module's documentation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Events {
    /// By the digest of an event's name; of name and content for one that came after another of its name.
    pub(crate) marks: TimeRing<Digest16, Mark>,
    /// The same for events that came before their time. Apart, because one that is years ahead would keep
    /// the memory of all others for as long.
    pub(crate) ahead: TimeRing<Digest16, Mark>,
    parked: CowMap<Sequence, ParkedEvent>,
    /// The parked ones by the digest of name and content.
    by_whole: CowMap<Digest16, Sequence>,
}

/// An event that was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Mark {
    /// The digest of what it is about.
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub(crate) content: Digest16,
    /// Where the last entry about it is.
    #[n(1)]
    pub(crate) at: Position,
}

impl Mark {
    /// Whether it is an event's, and not that of another of the same name.
    pub(super) fn is_of(&self, event: &Event) -> bool {
        self.content == event.content() || event.content_away() == Some(self.content)
    }
}

/// Adds a mark, to be kept until an instant, or for as long as the one that it takes the place of: what was
/// taken once is remembered for as long as was promised then.
pub(super) fn remember(
    marks: &mut TimeRing<Digest16, Mark>,
    (digest, mark): (Digest16, Mark),
    until: LogTime,
    age: Span,
) {
    let promised = marks.latest(&digest).map_or(until, |known| known.until);
    marks.insert_until(digest, mark, until.max(promised), age);
}

impl Events {
    /// Nothing.
    fn none() -> &'static Self {
        static NONE: std::sync::LazyLock<Events> = std::sync::LazyLock::new(Events::default);
        &NONE
    }

    /// Adds a parked event, or puts it in the place of what it was.
    pub(crate) fn park(&mut self, parked: ParkedEvent) {
        self.by_whole.insert(parked.event.whole_digest(), parked.number);
        self.parked.insert(parked.number, parked);
    }

    /// What is remembered at `now` under a digest.
    pub(super) fn mark(&self, digest: &Digest16, now: LogTime) -> Option<&Mark> {
        // Whatever came before its time and was decided again since then has a mark that is newer.
        self.marks.get(digest, now).or_else(|| self.ahead.get(digest, now))
    }

    /// When memory of marks can be freed.
    pub(crate) fn next_forget(&self) -> Option<LogTime> {
        self.marks.next_forget().into_iter().chain(self.ahead.next_forget()).min()
    }

    /// Frees the memory of marks that have ended at `now`.
    pub(crate) fn forget(&mut self, now: LogTime) {
        self.marks.forget(now);
        self.ahead.forget(now);
    }

    /// Whether one rebuilt from entries remembers at `now` what this one does, and nothing else.
    pub(crate) fn remembers_alike(&self, rebuilt: &Self, now: LogTime) -> bool {
        self.marks.tells_like(&rebuilt.marks, now) && self.ahead.tells_like(&rebuilt.ahead, now)
    }

    pub(super) fn unpark(&mut self, number: Sequence) {
        if let Some(parked) = self.parked.remove(&number) {
            self.by_whole.remove(&parked.event.whole_digest());
        }
    }

    /// The parked events, in the order in which they were parked.
    pub(crate) fn parked(&self) -> &CowMap<Sequence, ParkedEvent> {
        &self.parked
    }

    /// Where the same event is parked, if it is.
    pub(super) fn parked_like(&self, event: &Event) -> Option<&ParkedEvent> {
        self.by_whole.get(&event.whole_digest()).and_then(|number| self.parked.get(number))
    }

    /// Whether everything that follows from the parked events is what follows from them.
    pub(crate) fn follows(&self) -> bool {
        let mut again = Self::default();
        self.parked.iter().for_each(|(_, parked)| again.park(parked.clone()));
        self.is_like(&again)
    }

    /// Whether the parked events are the same, and what follows from them.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.parked == other.parked && self.by_whole == other.by_whole
    }

    /// As if they had been forgotten.
    #[cfg(test)]
    pub(crate) fn lose_index(&mut self) {
        self.by_whole = CowMap::default();
    }
}

impl Account {
    /// What is remembered of the account's events.
    pub(crate) fn events(&self) -> &Events {
        self.events.as_deref().unwrap_or_else(|| Events::none())
    }

    /// The same, to change it. Most accounts have none, and it is made where it is needed.
    pub(crate) fn events_mut(&mut self) -> &mut Events {
        self.events.get_or_insert_default()
    }

    /// The events that are parked from `from` on, in the order in which they were parked.
    pub fn parked_events_from(&self, from: Bound<&Sequence>) -> impl Iterator<Item = &ParkedEvent> {
        self.events().parked.range_from(from).map(|(_, parked)| parked)
    }

    /// How many events are parked.
    pub fn parked_events_count(&self) -> usize {
        self.events().parked.len()
    }

    /// The event that an entry parked, if it still is.
    pub fn parked_event(&self, number: Sequence) -> Option<&ParkedEvent> {
        self.events().parked.get(&number)
    }

    /// An event has done what the entry says.
    pub(crate) fn evolve_event(&mut self, change: &EventChange, entry: &Entry, at: Position) {
        if let Some(hold) = entry.fact.hold() {
            self.evolve_hold_or_away(hold, entry, at);
        }
        if let Some(job) = entry.fact.job() {
            self.evolve_job(job, entry, at);
        }
        if let Some(number) = change.parked {
            self.events_mut().unpark(number);
        }
        self.mark(&change.event, change.event.name_digest(), (entry.log_time, at));
    }

    /// An event is parked.
    pub(crate) fn evolve_parked(&mut self, parked: &ParkedEvent, entry: &Entry, at: Position) {
        self.events_mut().park(parked.clone());
        self.mark_parked(parked, entry.log_time, at);
    }

    /// Nothing becomes of a parked event.
    pub(crate) fn evolve_discarded(&mut self, parked: &ParkedEvent, entry: &Entry, at: Position) {
        self.events_mut().unpark(parked.number);
        self.mark_parked(parked, entry.log_time, at);
    }

    fn mark_parked(&mut self, parked: &ParkedEvent, log_time: LogTime, at: Position) {
        let event = &parked.event;
        let digest = if matches!(parked.why, ParkReason::Conflict { .. }) {
            event.whole_digest()
        } else {
            event.name_digest()
        };
        self.mark(event, digest, (log_time, at));
    }

    /// Remembers an event until its time and the accepted age are over; for that age from now on if it is
    /// too old already.
    fn mark(&mut self, event: &Event, digest: Digest16, (log_time, at): (LogTime, Position)) {
        let mark = Mark { content: event.content(), at };
        let time = event.time.unwrap_or(log_time);
        let age = self.standing.accepted_age(time);
        let untimely = self.untimely(event, log_time);
        let events = self.events_mut();
        match untimely {
            None => {
                remember(&mut events.marks, (digest, mark), time.saturating_add(age), age);
            }
            Some(ParkReason::InFuture) => {
                // Whatever the age will be when its time has come.
                let age = Policy::EVENT_AGE_MAX;
                remember(&mut events.ahead, (digest, mark), time.saturating_add(age), age);
            }
            Some(_) => {
                remember(&mut events.marks, (digest, mark), log_time.saturating_add(age), age);
            }
        }
    }

    /// Why an event is not accepted at `now` for its time; nothing if it is.
    pub(super) fn untimely(&self, event: &Event, now: LogTime) -> Option<ParkReason> {
        let time = event.time?;
        if time.saturating_add(self.standing.accepted_age(time)) <= now {
            Some(ParkReason::TooOld)
        } else if now.saturating_add(SKEW_MAX) < time {
            Some(ParkReason::InFuture)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> LogTime {
        LogTime::ZERO.saturating_add(Span::from_secs(seconds))
    }

    fn mark(position: u64) -> (Digest16, Mark) {
        ([1; 16], Mark { content: [2; 16], at: Position(position) })
    }

    /// Compares one that remembers a mark until an instant with one that does not, both ways.
    fn check_noticed(ring: fn(&mut Events) -> &mut TimeRing<Digest16, Mark>) {
        let (none, mut some, mut other) = (Events::default(), Events::default(), Events::default());
        remember(ring(&mut some), mark(7), at(80), Span::from_secs(80));
        remember(ring(&mut other), mark(8), at(80), Span::from_secs(80));
        for (live, rebuilt) in [(&none, &some), (&some, &none), (&some, &other)] {
            assert!(!live.remembers_alike(rebuilt, at(79)));
            // What has ended is freed at some time, and an audit frees nothing.
            assert!(live.remembers_alike(rebuilt, at(80)));
        }
        assert!(some.remembers_alike(&some.clone(), at(0)));
    }

    #[test]
    fn a_mark_that_only_one_remembers_is_noticed_whichever_it_is() {
        check_noticed(|events| &mut events.marks);
        check_noticed(|events| &mut events.ahead);
    }
}
