//! Idempotency: one request, one effect, one answer.
//!
//! The check and the effect are one step in the log, so two racers with one key make one effect. A
//! decision is remembered, whatever it was; what the caller got wrong in the request itself is not.
//! A key is forgotten exactly when its retention ends.

use minicbor::{Decode, Encode};
use purser_types::{
    Credits, HistoryError, HistoryReader, IdempotencyKey, LogTime, OperationId, Position,
};

use super::{Account, Scribe, read_entry};
use crate::answer::{Decision, Existing, Last, Outcome, Receipt, Remembered};
use crate::command::{Identity, LotNumber};
use crate::digest::{Digest16, digest16};
use crate::entry::{Bucket, Entry, Fact};
use crate::hold::sum;
use crate::rejection::Rejection;

/// A decision that the entries of an operation tell of, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Answering {
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub(crate) key: Digest16,
    #[n(1)]
    pub(crate) operation: OperationId,
}

/// What an idempotency key is looked up by.
pub(crate) fn request_key(key: &IdempotencyKey) -> Digest16 {
    digest16(key.as_str().as_bytes())
}

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
            Decision::Found { entry, last } => {
                Ok(Receipt { is_found: true, ..receipt_of(*entry, *last, history)? })
            }
        };
        Ok(Some(Outcome { result, replayed: true }))
    }

    /// Remembers that a request was accepted: its entry, the account's last one, and what became of
    /// the account's debt.
    pub(crate) fn remember_acceptance(
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
    fn remember_existing(&mut self, asked: Option<Identity>, now: LogTime, existing: Existing) {
        self.remember(asked, now, Decision::Existing(Box::new(existing)));
    }

    /// Answers with the entry that has done what is asked.
    pub(super) fn find_again(
        &mut self,
        asked: Option<Identity>,
        entry: Position,
        now: LogTime,
        scribe: &Scribe<'_>,
    ) -> Result<Outcome, HistoryError> {
        let last = self.head.position.unwrap_or(entry);
        let receipt = receipt_of(entry, last, &*scribe.history)?;
        let receipt = Receipt { is_found: true, ..receipt };
        self.remember(asked, now, Decision::Found { entry, last });
        Ok(Outcome { result: Ok(receipt), replayed: false })
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

    /// Remembers what an entry tells of a decision under a key, as it was remembered where the entry was
    /// written: with the debt that was repaid in the same operation.
    ///
    /// `answering` is the decision that the entry before it told of, and afterwards the one that this
    /// entry does.
    pub(crate) fn remember_as_told(
        &mut self,
        entry: &Entry,
        position: Position,
        answering: &mut Option<Answering>,
    ) {
        if let (Some(key), Some(fingerprint)) = (&entry.key, entry.fingerprint) {
            let asked = Identity { key: request_key(key), fingerprint };
            self.remember_acceptance(Some(asked), entry.log_time, position, Credits::ZERO);
            *answering = Some(Answering { key: asked.key, operation: entry.operation });
            return;
        }
        let goes_on = matches!(entry.fact, Fact::DebtRepaid(_) | Fact::CoverPaid(_));
        let told = answering.take().filter(|told| goes_on && told.operation == entry.operation);
        let Some(told) = told else { return };
        let known = self.keys.latest(&told.key).map(|kept| kept.value.clone());
        let Some(Remembered {
            fingerprint,
            decision: Decision::Accepted { entry: first, debt_repaid, .. },
        }) = known
        else {
            return;
        };
        let paid = entry.moves.iter().filter(|step| step.to == Bucket::Debt);
        let repaid = sum(paid.map(|step| step.amount).chain([debt_repaid]));
        let asked = Identity { key: told.key, fingerprint };
        self.remember_acceptance(Some(asked), entry.log_time, first, repaid);
        *answering = Some(told);
    }

    /// Answers with a lot that another request had been granted.
    pub(super) fn accept_again(
        &mut self,
        asked: Option<Identity>,
        number: LotNumber,
        now: LogTime,
        scribe: &Scribe<'_>,
    ) -> Result<Outcome, HistoryError> {
        let lot = self.lots.get(&number).expect("INV-9: a source names a known lot").clone();
        let entry = self.locate(number.0, &*scribe.history)?;
        let entry = entry.expect("INV-9: lots name entries of their account");
        let last = self.head.position.unwrap_or(entry);
        let existing = Existing { entry, last, lot };
        // Made like its repeats, so that they cannot differ from it.
        let receipt = receipt_of_existing(&existing, &*scribe.history)?;
        self.remember_existing(asked, now, existing);
        Ok(Outcome { result: Ok(receipt), replayed: false })
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
    let debt_repaid = Credits::ZERO;
    Ok(Receipt { entry, existing: None, balance, last, debt_repaid, is_found: false })
}

/// The receipt for a grant that had been made before. It repaid nothing itself.
fn receipt_of_existing(
    existing: &Existing,
    history: &dyn HistoryReader,
) -> Result<Receipt, HistoryError> {
    let receipt = receipt_of(existing.entry, existing.last, history)?;
    Ok(Receipt { existing: Some(existing.lot.clone()), ..receipt })
}
