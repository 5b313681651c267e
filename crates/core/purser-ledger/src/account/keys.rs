//! Idempotency: one request, one effect, one answer.
//!
//! The check and the effect are one step in the log, so two racers with one key make one effect. A
//! decision is remembered, whatever it was; what the caller got wrong in the request itself is not.
//! A key is forgotten exactly when its retention ends.

use purser_types::{Credits, HistoryError, HistoryReader, LogTime, Position};

use super::{Account, read_entry};
use crate::answer::{Decision, Outcome, Receipt, Remembered};
use crate::chain::{Backwards, Hashed};
use crate::command::Item;
use crate::digest::{Digest16, digest16};
use crate::entry::{Bucket, Fact};
use crate::hold::sum;
use crate::rejection::Rejection;

impl Account {
    /// The answer that the item's key already has, if it has one at `now`.
    pub(super) fn recall(
        &self,
        item: &Item,
        now: LogTime,
        history: &dyn HistoryReader,
    ) -> Result<Option<Outcome>, HistoryError> {
        let Some(remembered) = self.remembered(item, now) else { return Ok(None) };
        if remembered.fingerprint != item.fingerprint() {
            return Ok(Some(Outcome::refused(Rejection::KeyReused)));
        }
        let result = match &remembered.decision {
            Decision::Refused(refusal) => Err((**refusal).clone()),
            Decision::Accepted { entry, last } => Ok(receipt_again(history, *entry, *last)?),
        };
        Ok(Some(Outcome { result, replayed: true }))
    }

    fn remembered(&self, item: &Item, now: LogTime) -> Option<&Remembered> {
        let remembered = self.keys.get(&key_digest(item)?)?;
        let forgotten_at = remembered.decided_at.saturating_add(self.policy.key_retention);
        (now < forgotten_at).then_some(remembered)
    }

    pub(super) fn remember_acceptance(
        &mut self,
        item: &Item,
        now: LogTime,
        entry: Position,
        last: Position,
    ) {
        self.remember(item, now, Decision::Accepted { entry, last });
    }

    pub(super) fn remember_refusal(&mut self, item: &Item, now: LogTime, refusal: &Rejection) {
        if refusal.is_remembered() {
            self.remember(item, now, Decision::Refused(Box::new(refusal.clone())));
        }
    }

    fn remember(&mut self, item: &Item, now: LogTime, decision: Decision) {
        let Some(digest) = key_digest(item) else { return };
        let remembered = Remembered { fingerprint: item.fingerprint(), decided_at: now, decision };
        self.keys.insert(digest, remembered, now, self.policy.key_retention);
    }
}

fn key_digest(item: &Item) -> Option<Digest16> {
    item.context.key.as_ref().map(|key| digest16(&[key.as_str().as_bytes()]))
}

/// The receipt of an operation, from the entries it wrote: its own, then repaid debt.
fn receipt_again(
    history: &dyn HistoryReader,
    position: Position,
    last: Position,
) -> Result<Receipt, HistoryError> {
    let entry = read_entry(history, position)?;
    let balance = read_entry(history, last)?.balance;
    let mut debt_repaid = Credits::ZERO;
    for step in Backwards::new(history, Some(last)) {
        let (at, Hashed { entry: later, .. }) = step?;
        if at <= position || later.operation != entry.operation {
            break;
        }
        if let Fact::DebtRepaid(_) = later.fact {
            let repaid = later.moves.iter().filter(|step| step.to == Bucket::Debt);
            debt_repaid = sum(repaid.map(|step| step.amount).chain([debt_repaid]));
        }
    }
    Ok(Receipt { entry, balance, debt_repaid })
}
