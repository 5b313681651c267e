//! Which hold or charge an operation is about.

use purser_types::{HistoryError, HistoryReader, LogTime, Owner};

use super::Account;
use crate::command::{Capture, Extend, Operation, Reclaim, Refund, Release, Target};
use crate::hold::Hold;
use crate::rejection::Rejection;

impl Account {
    /// The hold or charge that an operation is about, if its record is kept. Refuses: a region's, that
    /// the region decides about.
    pub(super) fn concerned(
        &self,
        operation: &Operation,
        now: LogTime,
        history: &dyn HistoryReader,
    ) -> Result<Result<Option<Hold>, Rejection>, HistoryError> {
        let Some(target) = target_of(operation) else { return Ok(Ok(None)) };
        match away_of(operation) {
            Some(owner) => {
                let found = self.find_away(owner, target.number(), now, history)?;
                Ok(found.map(|hold| hold.filter(|hold| hold.is(target))))
            }
            None => Ok(Ok(self.find_hold(target, now, history)?)),
        }
    }
}

/// The closed allocation whose hold or charge an operation is about.
const fn away_of(operation: &Operation) -> Option<Owner> {
    if let Operation::Capture(Capture { away, .. })
    | Operation::Release(Release { away, .. })
    | Operation::Extend(Extend { away, .. })
    | Operation::Refund(Refund { away, .. })
    | Operation::Reclaim(Reclaim { away, .. }) = operation
    {
        *away
    } else {
        None
    }
}

/// The hold or charge that an operation names.
fn target_of(operation: &Operation) -> Option<Target> {
    match operation {
        Operation::Capture(capture) => Some(Target::Hold(capture.hold)),
        Operation::Release(release) => Some(Target::Hold(release.hold)),
        Operation::Extend(extend) => Some(Target::Hold(extend.hold)),
        Operation::Refund(refund) => Some(refund.target),
        Operation::Reclaim(reclaim) => Some(reclaim.target),
        Operation::Open(_)
        | Operation::Grant(_)
        | Operation::Authorize(_)
        | Operation::Charge(_)
        | Operation::Void(_)
        | Operation::Adjust(_)
        | Operation::SetPolicy(_)
        | Operation::Freeze
        | Operation::Unfreeze
        | Operation::Close(_)
        | Operation::CreateJob(_)
        | Operation::ReportOutcome(_)
        | Operation::RenewJob(_)
        | Operation::RedriveJob(_)
        | Operation::DiscardJob(_)
        | Operation::RecordEvent(_)
        | Operation::ResolveEvent(_)
        | Operation::DiscardEvent(_)
        | Operation::SetBudget(_)
        | Operation::RemoveBudget(_)
        | Operation::Allocate(_)
        | Operation::SetAllocation(_)
        | Operation::Settle(_)
        | Operation::TakeBack(_)
        | Operation::WriteOff(_)
        | Operation::Transfer(_)
        | Operation::Cover(_)
        | Operation::Accept(_)
        | Operation::Return(_)
        | Operation::Finish
        | Operation::Seal
        | Operation::Stop(_)
        | Operation::Stay(_)
        | Operation::BookTail(_)
        | Operation::WriteOffTail(_) => None,
    }
}
