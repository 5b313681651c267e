//! Idempotency: one request, one effect, one answer.
//!
//! The check and the effect are one step in the log, so two racers with one key make one effect. A
//! decision is remembered, whatever it was; what the caller got wrong in the request itself is not.
//! A key is forgotten exactly when its retention ends.

use purser_types::{Credits, HistoryError, HistoryReader, IdempotencyKey, LogTime, Position};

use super::{Account, read_entry};
use crate::answer::{Decision, Existing, Last, Outcome, Receipt, Remembered};
use crate::command::Identity;
use crate::digest::{Digest16, digest16};
use crate::entry::Entry;
use crate::rejection::Rejection;

impl Account {
    /// Whether this book has decided a request under the key, whatever it was and however it ended,
    /// and remembers it at `now`.
    pub fn knows_key(&self, key: &IdempotencyKey, now: LogTime) -> bool {
        self.knows(&digest16(key.as_str().as_bytes()), now)
    }

    /// The same by the key's digest.
    pub(crate) fn knows(&self, key: &Digest16, now: LogTime) -> bool {
        self.keys.get(key, now).is_some()
    }

    /// The answer that a request already has, if it has one at `now`.
    pub(super) fn recall(
        &self,
        asked: Option<Identity>,
        now: LogTime,
        history: &dyn HistoryReader,
    ) -> Result<Option<Outcome>, HistoryError> {
        let Some(asked) = asked else { return Ok(None) };
        let Some(remembered) = self.keys.get(&asked.key, now) else {
            return Ok(self.recall_away(asked, now).map(Outcome::refused));
        };
        if remembered.fingerprint != asked.fingerprint {
            return Ok(Some(Outcome::refused(Rejection::KeyReused)));
        }
        let result = match &remembered.decision {
            Decision::Refused(refusal) => Err((**refusal).clone()),
            Decision::Accepted { entry, last, debt_repaid } => {
                Ok(Receipt { debt_repaid: *debt_repaid, ..receipt_of(*entry, *last, history)? })
            }
            Decision::Existing(existing) => Ok(receipt_of_existing(existing, history)?),
        };
        Ok(Some(Outcome { result, replayed: true }))
    }

    /// Remembers that a request was accepted: its entry, the account's last one, and what became of
    /// the account's debt.
    pub(super) fn remember_acceptance(
        &mut self,
        asked: Option<Identity>,
        now: LogTime,
        entry: Position,
        debt_repaid: Credits,
    ) {
        let last = self.head.position.unwrap_or(entry);
        self.remember(asked, now, Decision::Accepted { entry, last, debt_repaid });
    }

    /// Remembers that a request asked for what had been done before.
    pub(super) fn remember_existing(
        &mut self,
        asked: Option<Identity>,
        now: LogTime,
        existing: Existing,
    ) {
        self.remember(asked, now, Decision::Existing(Box::new(existing)));
    }

    /// Remembers that a request was refused, if that is to be remembered.
    pub(super) fn remember_refusal(
        &mut self,
        asked: Option<Identity>,
        now: LogTime,
        refusal: &Rejection,
    ) {
        if refusal.is_remembered() {
            self.remember(asked, now, Decision::Refused(Box::new(refusal.clone())));
        }
    }

    fn remember(&mut self, asked: Option<Identity>, now: LogTime, decision: Decision) {
        let Some(Identity { key, fingerprint }) = asked else { return };
        let remembered = Remembered { fingerprint, decision };
        self.keys.insert(key, remembered, now, self.standing.policy.key_retention);
    }
}

/// The receipt for an entry, when the account's last one was at `last`.
fn receipt_of(
    entry: Position,
    last: Position,
    history: &dyn HistoryReader,
) -> Result<Receipt, HistoryError> {
    let entry = read_entry(history, entry)?;
    let Entry { balance, sequence, log_time, .. } = read_entry(history, last)?;
    let last = Last { sequence, log_time };
    Ok(Receipt { entry, existing: None, balance, last, debt_repaid: Credits::ZERO })
}

/// The receipt for a grant that had been made before. It repaid nothing itself.
pub(super) fn receipt_of_existing(
    existing: &Existing,
    history: &dyn HistoryReader,
) -> Result<Receipt, HistoryError> {
    let receipt = receipt_of(existing.entry, existing.last, history)?;
    Ok(Receipt { existing: Some(existing.lot.clone()), ..receipt })
}
