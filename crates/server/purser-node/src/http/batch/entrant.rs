//! One item of a batch: read, let in, and turned into what the ledger is asked.

use purser_api::{
    BatchItem, BatchItemText, BatchOperation, ChargeId, Consistency, HoldId, SubjectId,
};
use purser_ledger::{AccountName, HoldNumber, Item, Operation as Asked, Target};
use purser_types::Owner;

use crate::http::call::{Call, Remarks};
use crate::http::convert;
use crate::http::problem::Refusal;
use crate::http::seat::{Place, Purpose, Seat};

/// An item that was read and let in.
pub(super) struct Entrant {
    pub(super) account: AccountName,
    pub(super) item: Item,
    pub(super) operation: BatchOperation,
    pub(super) place: Place,
}

impl Entrant {
    pub(super) async fn read(call: &Call, text: &BatchItemText) -> Result<Self, Refusal> {
        let BatchItem { tenant, unit, idempotency_key, operation } = text.read()?;
        call.admit(&tenant)?;
        let account = AccountName { tenant, unit };
        let place = match call.api.regions() {
            Some(regions) => {
                let purpose = match operation {
                    BatchOperation::Authorize(_) | BatchOperation::Charge(_) => Purpose::Begin,
                    // Home decides about jobs.
                    BatchOperation::CreateJob(_)
                    | BatchOperation::ReportOutcome(..)
                    | BatchOperation::RenewJob(..) => Purpose::Other,
                    BatchOperation::Capture(..)
                    | BatchOperation::Release(..)
                    | BatchOperation::Extend(..)
                    | BatchOperation::Refund(..)
                    | BatchOperation::Reclaim(..) => Purpose::GoOn,
                };
                call.place_of(regions, &account, subject_of(&operation), purpose).await?
            }
            None => Place::Here(Seat::Home),
        };
        let seat = match place {
            Place::Here(seat) => seat,
            // Another region reads it again.
            Place::There(_) => Seat::Home,
        };
        let asked = asked(call, (&account, seat), &operation)?;
        let item = Item::new(call.context(idempotency_key), asked);
        let item = match &operation {
            BatchOperation::Authorize(request) => item.noting(&request.metadata)?,
            BatchOperation::Capture(_, request) => item.noting(&request.metadata)?,
            BatchOperation::Charge(request) => item.noting(&request.metadata)?,
            BatchOperation::Release(_, request) => match &request.reason {
                Some(reason) => item.because(reason).noting(&request.metadata)?,
                None => item.noting(&request.metadata)?,
            },
            BatchOperation::Refund(_, request) => item.because(&request.reason),
            BatchOperation::Reclaim(_, request) => item.because(&request.reason),
            BatchOperation::CreateJob(request) => item.noting(&request.metadata)?,
            BatchOperation::ReportOutcome(_, request) => match &request.reason {
                Some(reason) => item.because(reason).noting(&request.metadata)?,
                None => item.noting(&request.metadata)?,
            },
            BatchOperation::Extend(..) | BatchOperation::RenewJob(..) => item,
        };
        Ok(Self { account, item, operation, place })
    }
}

/// Who made the hold or charge that an operation is about.
const fn subject_of(operation: &BatchOperation) -> Option<Owner> {
    match operation {
        BatchOperation::Authorize(_)
        | BatchOperation::Charge(_)
        | BatchOperation::CreateJob(_)
        | BatchOperation::ReportOutcome(..)
        | BatchOperation::RenewJob(..) => None,
        BatchOperation::Capture(id, _)
        | BatchOperation::Release(id, _)
        | BatchOperation::Extend(id, _) => Some(id.owner),
        BatchOperation::Refund(subject, _) | BatchOperation::Reclaim(subject, _) => {
            Some(match subject {
                SubjectId::Hold(id) => id.owner,
                SubjectId::Charge(id) => id.owner,
            })
        }
    }
}

/// Who may decide an operation.
pub(super) fn consistency_of(operation: &BatchOperation) -> Consistency {
    match operation {
        BatchOperation::Authorize(request) => request.decider(),
        BatchOperation::Charge(request) => request.decider(),
        BatchOperation::CreateJob(_) => Consistency::Strict,
        _ => Consistency::Local,
    }
}

fn asked(
    call: &Call,
    (account, seat): (&AccountName, Seat),
    operation: &BatchOperation,
) -> Result<Asked, Refusal> {
    let owner = call.owner_in(seat);
    let seated = (account, &owner);
    let hold = |id: &HoldId| HoldNumber(call.numbered_by(seated, id.sequence, &id.owner));
    let charge = |id: &ChargeId| HoldNumber(call.numbered_by(seated, id.sequence, &id.owner));
    let target = |subject: &SubjectId| match subject {
        SubjectId::Hold(id) => Target::Hold(hold(id)),
        SubjectId::Charge(id) => Target::Charge(charge(id)),
    };
    Ok(match operation {
        BatchOperation::Authorize(request) => convert::authorize(request),
        BatchOperation::Charge(request) => convert::charge(request),
        BatchOperation::Capture(id, request) => convert::capture(hold(id), request, seat.away()),
        BatchOperation::Release(id, _) => convert::release(hold(id), seat.away()),
        BatchOperation::Extend(id, request) => convert::extend(hold(id), request, seat.away()),
        BatchOperation::Refund(subject, request) => {
            convert::refund(target(subject), request, seat.away())
        }
        BatchOperation::Reclaim(subject, _) => convert::reclaim(target(subject), seat.away()),
        BatchOperation::CreateJob(request) => convert::create_job(request)?,
        BatchOperation::ReportOutcome(job, request) => convert::outcome(job.0.clone(), request),
        BatchOperation::RenewJob(job, request) => convert::renew_job(job.0.clone(), request),
    })
}
