//! Credits that go from one region to another, by home.
//!
//! ```text
//!  transfer ─▶ recall ─▶ the region returns, and reports ─▶ return and grant, with one command
//! ```
//!
//! At every moment they belong to exactly one side: to the first region until its return is booked, and
//! from then on to the second, because home books the return and makes the grant with the same
//! command. A leader that fails in between loses nothing: what is under way stands in the allocation.

use super::{AllocationStatus, PendingTransfer};
use crate::account::{Account, Draft};
use crate::command::{Allocate, Transfer};
use crate::entry::{Bucket, Entry, Fact};
use crate::hold::sum;
use crate::protocol::Recall;
use crate::rejection::Rejection;

impl Account {
    /// Asks credits back for another region. Refuses: frozen; no such allocation; one that is not open;
    /// to the same region; a transfer under way; more than the region has free as far as home knows.
    ///
    /// What the region spends before it hears of it is not transferred.
    pub(crate) fn decide_transfer(&self, asked: &Transfer) -> Result<Draft, Rejection> {
        self.refuse_if_frozen()?;
        let mut allocation = self.named_allocation(asked.from)?.clone();
        if allocation.status != AllocationStatus::Open {
            return Err(Rejection::AllocationEnded);
        }
        if asked.to == asked.from.region {
            return Err(Rejection::TransferToItself);
        }
        if allocation.transfer.is_some() {
            return Err(Rejection::TransferUnderWay);
        }
        let right = allocation.for_all().saturating_sub(allocation.held);
        let keep = right.checked_sub(asked.amount);
        let keep = keep.ok_or(Rejection::TransferBeyondRight { right })?;
        let recall = allocation.recall.number.saturating_add(1);
        allocation.recall = Recall { number: recall, keep };
        let Transfer { to, amount, life, .. } = *asked;
        allocation.transfer = Some(PendingTransfer { to, amount, recall, life });
        allocation.renew();
        Ok(Draft { fact: Fact::AllocationSet(Box::new(allocation)), moves: Vec::new() })
    }

    /// The grant that ends a transfer, if an entry has just booked the return that it waited for: what
    /// came back, unless debt was to be repaid with it, or home cannot grant any more.
    pub(super) fn decide_transferred(
        &self,
        pending: PendingTransfer,
        settled: &Entry,
    ) -> Option<Draft> {
        let Fact::Settled(settlement) = &settled.fact else { return None };
        let mut entries = settlement.shipped.iter().map(|shipped| &shipped.entry);
        let answer = entries.find(|entry| answers(entry, pending))?;
        let returned = answer.moves.iter().filter(|step| step.to == Bucket::Returned);
        let returned = sum(returned.map(|step| step.amount));
        let amount = returned.min(pending.amount).min(self.balance.available);
        if amount.is_zero() {
            return None;
        }
        let PendingTransfer { to, life, .. } = pending;
        let grant = self.decide_allocate(&Allocate { life, ..Allocate::new(to, amount) }).ok();
        grant.filter(|draft| self.has_room_for(draft))
    }
}

/// Whether a region's entry answers the recall of a transfer.
pub(super) fn answers(entry: &Entry, pending: PendingTransfer) -> bool {
    matches!(entry.fact, Fact::ReturnedHome { recall } if pending.recall <= recall)
}
