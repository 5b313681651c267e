//! Events that a region's book has taken, as home hears of them.
//!
//! The book that made a hold captures it, under a key that is made of the event's name. Home books that
//! capture, and knows from then on that the event was taken: also when the region has forgotten the key, or
//! its allocation is closed and the event comes here.

use purser_types::{Credits, IdempotencyKey, LogTime, Owner, Position};

use super::state::remember;
use super::{Event, EventAbout, KEY_OF_EVENT, Mark, ParkedEvent, SKEW_MAX};
use crate::account::Account;
use crate::codec;
use crate::command::{Context, HoldNumber};
use crate::digest::{Digest16, digest16};
use crate::entry::{Bucket, Entry, Fact};
use crate::hold::sum;
use crate::home::Settlement;

/// What an entry of a region tells of the event that it took.
struct Taken {
    /// The digest of the event's name.
    name: Digest16,
    content: Digest16,
    hold: HoldNumber,
    owner: Owner,
    /// How much was captured.
    amount: Credits,
}

impl Taken {
    /// Of an entry of this owner, if it took an event.
    fn of(owner: Owner, entry: &Entry) -> Option<Self> {
        let ends_hold =
            matches!(entry.fact, Fact::Captured(_) | Fact::LateCaptured(_) | Fact::Released(_));
        let hold = entry.fact.hold().filter(|_| ends_hold)?.number;
        let name = named_by(entry.key.as_ref()?)?;
        let content = content_of(owner, &entry.fingerprint?);
        let used = entry.moves.iter().filter(|step| step.to == Bucket::Used);
        let amount = sum(used.map(|step| step.amount));
        Some(Self { name, content, hold, owner, amount })
    }

    fn is(&self, ParkedEvent { event, .. }: &ParkedEvent) -> bool {
        // Cheap first: there may be thousands of others.
        let names_it = matches!(
            event.about,
            EventAbout::Hold { hold, owner, .. } if (hold, owner) == (self.hold, Some(self.owner))
        );
        names_it && event.name_digest() == self.name && event.content_away() == Some(self.content)
    }
}

impl Account {
    /// Remembers the events that a region has taken, whose captures were just booked. One that is parked
    /// here waits for nothing any more.
    pub(crate) fn remember_taken(
        &mut self,
        settlement: &Settlement,
        now: LogTime,
        booked_at: Position,
    ) {
        let owner = settlement.allocation.owner;
        for shipped in &settlement.shipped {
            let Some(taken) = Taken::of(owner, &shipped.entry) else { continue };
            let parked = self.events().parked().iter();
            let parked = parked.filter(|(_, parked)| taken.is(parked)).map(|(number, _)| *number);
            let parked: Vec<_> = parked.collect();
            // Its own time is not known here. It is accepted for no longer than one that is as far ahead
            // as may be.
            let time = now.saturating_add(SKEW_MAX);
            let age = self.standing.accepted_age(time);
            let events = self.events_mut();
            parked.into_iter().for_each(|number| events.unpark(number));
            let mark = Mark { content: taken.content, at: booked_at };
            remember(&mut events.marks, (taken.name, mark), time.saturating_add(age), age);
        }
    }

    /// Whether a region decides about the hold that an event names: it may take the event whatever is done
    /// about it here.
    pub(super) fn is_decided_away(&self, about: &EventAbout) -> bool {
        let EventAbout::Hold { owner: Some(owner), .. } = about else { return false };
        self.home_side().is_ok_and(|home| home.allocations.contains_key(owner))
    }
}

impl Event {
    /// What tells it from others of the same name, where a region takes it; nothing if none does.
    pub(super) fn content_away(&self) -> Option<Digest16> {
        let EventAbout::Hold { owner: Some(owner), .. } = self.about else { return None };
        let asked = self.as_capture(Context::default())?.identity()?;
        Some(content_of(owner, &asked.fingerprint))
    }

    /// What the event was about that has this one's name, as home has booked it from a region.
    pub(super) fn taken_away(&self, fact: &Fact) -> Option<EventAbout> {
        let Fact::Settled(settlement) = fact else { return None };
        let owner = settlement.allocation.owner;
        let mut all = settlement.shipped.iter().filter_map(|it| Taken::of(owner, &it.entry));
        let taken = all.find(|taken| taken.name == self.name_digest())?;
        let (hold, owner, amount) = (taken.hold, Some(owner), Some(taken.amount));
        Some(EventAbout::Hold { hold, owner, amount })
    }
}

/// The digest of the name of an event, from the key under which a region takes it.
fn named_by(key: &IdempotencyKey) -> Option<Digest16> {
    let digits = key.as_str().strip_prefix(KEY_OF_EVENT)?;
    let is_digest = digits.len() == 32
        && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let digest = u128::from_str_radix(digits, 16).ok().filter(|_| is_digest)?;
    Some(digest.to_be_bytes())
}

fn content_of(owner: Owner, fingerprint: &Digest16) -> Digest16 {
    digest16(&[codec::encode(&owner), fingerprint.to_vec()].concat())
}
