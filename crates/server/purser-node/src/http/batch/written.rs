//! The results of a batch, as they stand in its answer.

use bytes::Bytes;
use purser_api::{BatchBody, BatchOperation, BatchResult, JobEffect};
use purser_ledger::AccountName;

use crate::http::call::Call;
use crate::http::convert::{Shown, debt_added};
use crate::http::problem::{Decided, Refusal};
use crate::http::routing::Decision;

/// The result of one item.
pub(super) struct Written {
    /// As it stands in the answer.
    pub(super) bytes: Bytes,
    /// Its status; 0 if another node gave it and it cannot be read.
    pub(super) status: u16,
    /// How the log decided it, if it did, and that is known here.
    pub(super) decided: Option<Decided>,
}

/// Who has decided a batch, if one has decided all of it that was decided. The bound is then the
/// largest.
pub(super) fn decided_by(results: &[Written]) -> Option<Decided> {
    let mut all = results.iter().filter_map(|result| result.decided);
    let first = Decided { replayed: false, ..all.next()? };
    all.try_fold(first, |one, other| {
        let is_same = (one.region, one.role) == (other.region, other.role);
        let bound = one.bound.zip(other.bound).map(|(one, other)| one.max(other));
        is_same.then_some(Decided { bound, ..one })
    })
}

/// The body of the answer, from results that are written already.
pub(super) fn join(results: &[Written]) -> Bytes {
    const OPENING: &[u8] = br#"{"results":["#;
    let bytes: usize = results.iter().map(|result| result.bytes.len() + 1).sum();
    let mut body = Vec::with_capacity(OPENING.len() + bytes + 2);
    body.extend_from_slice(OPENING);
    for (place, result) in results.iter().enumerate() {
        if place > 0 {
            body.push(b',');
        }
        body.extend_from_slice(&result.bytes);
    }
    body.extend_from_slice(b"]}");
    Bytes::from(body)
}

/// The result of an item that was decided, or refused.
pub(super) fn shown(
    call: &Call,
    account: &AccountName,
    operation: &BatchOperation,
    decision: Result<Decision, Refusal>,
) -> Written {
    let answered = decision.and_then(|decision| {
        let shown = decision.shown(account);
        let (status, body) = answer(&shown, operation, &decision)?;
        if !decision.decided.replayed {
            call.api.metrics().record_debt_added(debt_added(&decision.receipt));
            let is_late = match &body {
                BatchBody::Capture(capture) => capture.late,
                BatchBody::Job(job) => job.effect == JobEffect::CapturedLate,
                _ => false,
            };
            if is_late && !decision.receipt.is_found {
                call.api.metrics().record_late_capture();
            }
        }
        let decided = decision.decided;
        Ok((decided, BatchResult { status, replayed: decided.replayed, body }))
    });
    match answered {
        Ok((decided, result)) => Written { decided: Some(decided), ..written(&result) },
        Err(refusal) => {
            let decided = refusal.decision();
            Written { decided, ..refused(call, refusal) }
        }
    }
}

fn answer(
    shown: &Shown<'_>,
    operation: &BatchOperation,
    decision: &Decision,
) -> Result<(u16, BatchBody), Refusal> {
    let receipt = &decision.receipt;
    Ok(match operation {
        BatchOperation::Authorize(_) => (201, BatchBody::Hold(shown.hold_answer(receipt)?)),
        BatchOperation::Charge(_) => (201, BatchBody::Charge(shown.charge_answer(receipt)?)),
        BatchOperation::Capture(..) => (200, BatchBody::Capture(shown.capture_answer(receipt)?)),
        BatchOperation::Release(..) | BatchOperation::Extend(..) => {
            (200, BatchBody::Hold(shown.hold_answer(receipt)?))
        }
        BatchOperation::Refund(..) => (200, BatchBody::Refund(shown.refund_answer(receipt)?)),
        BatchOperation::Reclaim(..) => (200, BatchBody::Reclaim(shown.reclaim_answer(receipt)?)),
        BatchOperation::CreateJob(_) if !receipt.is_found => {
            (201, BatchBody::Job(Box::new(shown.job_answer(receipt)?)))
        }
        BatchOperation::CreateJob(_)
        | BatchOperation::ReportOutcome(..)
        | BatchOperation::RenewJob(..) => {
            (200, BatchBody::Job(Box::new(shown.job_answer(receipt)?)))
        }
    })
}

/// The result of an item that was not done.
pub(super) fn refused(call: &Call, refusal: Refusal) -> Written {
    let replayed = refusal.decision().is_some_and(|decided| decided.replayed);
    let problem = refusal.into_problem(&call.meta.request_id);
    written(&BatchResult { status: problem.status, replayed, body: BatchBody::Problem(problem) })
}

/// A result that the log has not decided.
fn written(result: &BatchResult) -> Written {
    let bytes = serde_json::to_vec(result).expect("a result is made of texts and numbers");
    Written { bytes: bytes.into(), status: result.status, decided: None }
}
