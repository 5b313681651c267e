//! Whether a call that is in a tail was answered here as well: by its key, then by its hold.

use std::collections::BTreeSet;

use purser_types::HistoryError;

use super::tail::{Fate, Seen, Tail};
use crate::account::{Account, read_entry, request_key};
use crate::answer::Decision;
use crate::command::HoldNumber;
use crate::digest::Digest16;
use crate::entry::Entry;
use crate::hold::Hold;

/// The keys of the entries that come together: a call here under one of them stands for that entry,
/// and for no other.
pub(super) struct PageKeys(BTreeSet<Digest16>);

/// A call that is known here under a key.
pub(super) struct Known {
    pub(super) fate: Fate,
    /// The hold that it made here, if home made one.
    pub(super) hold: Option<HoldNumber>,
}

impl PageKeys {
    pub(super) fn of(entries: &[Entry]) -> Self {
        Self(entries.iter().filter_map(|entry| entry.key.as_ref()).map(request_key).collect())
    }
}

impl Account {
    /// What is known here of the call that made an entry, by its key. What was refused here has had no
    /// effect.
    pub(super) fn known_under_key(
        &self,
        entry: &Entry,
        seen: Seen<'_>,
    ) -> Result<Option<Known>, HistoryError> {
        let Some(key) = entry.key.as_ref().map(request_key) else { return Ok(None) };
        let away = self.home_side().ok().and_then(|home| home.requests.get(&key, seen.now));
        let here = self.keys.get(&key, seen.now);
        let here = here.filter(|known| !matches!(known.decision, Decision::Refused(_)));
        let fate = |fingerprint: Digest16| match entry.fingerprint {
            Some(asked) if asked == fingerprint => Fate::Matched,
            Some(_) | None => Fate::OtherUnderKey,
        };
        let Some(known) = here else {
            return Ok(away.map(|away| Known { fate: fate(away.fingerprint), hold: None }));
        };
        let hold = if let Decision::Accepted { entry, .. } = &known.decision {
            read_entry(seen.history, *entry)?.fact.into_hold()
        } else {
            None
        };
        Ok(Some(Known { fate: fate(known.fingerprint), hold: hold.map(|hold| hold.number) }))
    }

    /// Whether a capture of a hold here, made since the fork, stands for the next one in the tail.
    pub(super) fn has_stand_in(
        &self,
        tail: &mut Tail,
        here: &Hold,
        seen: Seen<'_>,
    ) -> Result<bool, HistoryError> {
        let mut captures = 0_u32;
        let mut next = Some(here.changed_by).filter(|sequence| *sequence > tail.forked_at);
        while let Some(sequence) = next {
            let Some(hashed) = self.entry(sequence, seen.history)? else { break };
            let entry = hashed.entry;
            let key = entry.key.as_ref().map(request_key);
            let is_others = key.is_some_and(|key| seen.keys.0.contains(&key));
            if entry.fact.captures() && !is_others {
                captures = captures.saturating_add(1);
            }
            let before = entry.fact.hold().and_then(|hold| hold.changed_before);
            next = before.filter(|sequence| *sequence > tail.forked_at);
        }
        let used = tail.stand_ins.entry(here.number).or_default();
        let is_free = *used < captures;
        if is_free {
            *used = used.saturating_add(1);
        }
        Ok(is_free)
    }
}
