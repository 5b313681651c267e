//! An account that is taken over: what it needs beside its entries, and whether an entry can follow.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Place;

use purser_types::{HistoryError, HistoryReader, Position, Sequence};

use super::{Account, Side};
use crate::answer::{Decision, Existing, Remembered};
use crate::command::LotNumber;
use crate::entry::{Entry, Fact};
use crate::lot::Lot;
use crate::moving::{EntrylessDecision, KeyMemory};

impl Account {
    /// The decisions under keys that made no entry, for a group that takes the account over.
    ///
    /// With `since`, an earlier state of the account, only those that it did not have: so that most of
    /// them can go ahead before the account stops.
    pub fn entryless_decisions<'a>(
        &'a self,
        since: Option<&'a Self>,
        history: &'a dyn HistoryReader,
    ) -> impl Iterator<Item = Result<KeyMemory, HistoryError>> + 'a {
        let pairs = self.keys.buckets().flat_map(|bucket| bucket.pairs.iter());
        let latest = pairs.filter(|(key, kept)| self.keys.latest(key) == Some(*kept));
        let new = latest.filter(move |(key, kept)| {
            since.and_then(|since| since.keys.latest(key)) != Some(*kept)
        });
        new.filter_map(move |(key, kept)| {
            let decision = entryless(&kept.value.decision, history).transpose()?;
            let (key, fingerprint, until) = (*key, kept.value.fingerprint, kept.until);
            Some(decision.map(|decision| KeyMemory { key, fingerprint, until, decision }))
        })
    }

    /// Remembers a decision that made no entry. Returns whether the entries that it names are there.
    pub(crate) fn remember_entryless(
        &mut self,
        memory: &KeyMemory,
        history: &dyn HistoryReader,
    ) -> Result<bool, HistoryError> {
        let KeyMemory { key, fingerprint, until, decision } = memory;
        let decision = match decision {
            EntrylessDecision::Refused(refusal) => Decision::Refused(refusal.clone()),
            EntrylessDecision::Existing { entry, last, lot } => {
                let entry = self.locate(*entry, history)?;
                let last = self.locate(*last, history)?;
                let Some((entry, last)) = entry.zip(last) else { return Ok(false) };
                let lot = (**lot).clone();
                Decision::Existing(Box::new(Existing { entry, last, lot }))
            }
            EntrylessDecision::Found { entry, last } => {
                let entry = self.locate(*entry, history)?;
                let last = self.locate(*last, history)?;
                let Some((entry, last)) = entry.zip(last) else { return Ok(false) };
                Decision::Found { entry, last }
            }
        };
        // A page that comes late must not hide what was decided after it: that is kept for longer.
        if self.keys.latest(key).is_none_or(|known| known.until < *until) {
            let remembered = Remembered { fingerprint: *fingerprint, decision };
            let retention = self.standing.policy.key_retention;
            self.keys.insert_until(*key, remembered, *until, retention);
        }
        Ok(true)
    }

    /// Why an entry cannot be the account's next one; nothing if it can.
    ///
    /// What comes from another region is checked before it is applied: applying takes for granted what
    /// a decision here has made sure of, and ends the process where it is not so.
    pub(crate) fn unsound(&self, entry: &Entry) -> Option<&'static str> {
        if matches!(self.side, Side::Region(_)) || is_of_a_region(&entry.fact) {
            return Some("it is of a region's book");
        }
        if self.balance.after(&entry.fact, &entry.moves).as_ref() != Ok(&entry.balance) {
            return Some("its moves do not explain its balance");
        }
        if let Some(detail) = self.unsound_epoch(entry).or_else(|| self.unsound_job(entry)) {
            return Some(detail);
        }
        let mut lots: BTreeMap<LotNumber, Lot> = BTreeMap::new();
        if let Some(terms) = entry.fact.new_lot() {
            lots.insert(LotNumber(entry.sequence), Lot::pending(terms.clone()));
        }
        let named = entry.moves.iter().filter_map(|step| step.lot).chain(lot_of(&entry.fact));
        for number in named {
            if let Place::Vacant(place) = lots.entry(number) {
                let Some(lot) = self.lots.get(&number) else { return Some("it names no lot") };
                place.insert(lot.clone());
            }
        }
        let could = |lots: &mut BTreeMap<LotNumber, Lot>, step: &crate::Move| {
            let lot = step.lot.and_then(|number| lots.get_mut(&number));
            lot.is_none_or(|lot| lot.could_evolve(step))
        };
        let is_covered = entry.moves.iter().all(|step| could(&mut lots, step));
        (!is_covered).then_some("a lot would give what it has not")
    }

    /// Why an entry cannot be about the account's home as it is here.
    fn unsound_epoch(&self, entry: &Entry) -> Option<&'static str> {
        let epoch = self.epoch();
        if let Fact::HomeMoved(change) = &entry.fact {
            return (change.epoch <= epoch).then_some("its epoch is not new");
        }
        if let Fact::HomeStopped(stop) = &entry.fact {
            return (stop.epoch != epoch).then_some("it stops another epoch");
        }
        let opens = matches!(entry.fact, Fact::Opened { .. });
        let is_first = entry.sequence == Sequence::ZERO.next();
        (opens != is_first).then_some("an account is opened by its first entry")
    }
}

/// The decision, if it made no entry.
fn entryless(
    decision: &Decision,
    history: &dyn HistoryReader,
) -> Result<Option<EntrylessDecision>, HistoryError> {
    let sequence = |at: Position| Ok::<_, HistoryError>(super::read_entry(history, at)?.sequence);
    Ok(match decision {
        Decision::Accepted { .. } => None,
        Decision::Refused(refusal) => Some(EntrylessDecision::Refused(refusal.clone())),
        Decision::Existing(existing) => Some(EntrylessDecision::Existing {
            entry: sequence(existing.entry)?,
            last: sequence(existing.last)?,
            lot: Box::new(existing.lot.clone()),
        }),
        Decision::Found { entry, last } => {
            Some(EntrylessDecision::Found { entry: sequence(*entry)?, last: sequence(*last)? })
        }
    })
}

/// The lot whose phase a fact changes.
fn lot_of(fact: &Fact) -> Option<LotNumber> {
    if let Fact::LotEffective(number) | Fact::LotExpired(number) | Fact::Voided { number, .. } =
        fact
    {
        Some(*number)
    } else {
        None
    }
}

fn is_of_a_region(fact: &Fact) -> bool {
    matches!(
        fact,
        Fact::VoucherAccepted(_)
            | Fact::ReturnedHome { .. }
            | Fact::RefundPromised { .. }
            | Fact::AllocationSealed
            | Fact::AllocationFinished
    )
}
