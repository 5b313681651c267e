//! Mending differences by entries like any other.
//!
//! Each step is one operation, whose key follows from the job, from what is charged for it before the step
//! and from what it costs: whoever finds the same, at the same time or again, takes the same step, once. An
//! operation that is refused leaves its difference open, and the others are mended.

use purser_api::{
    CallAmount, ChargeRequest, JobName, JobOutcome, Metadata, OutcomeRequest, ProblemCode, Reason,
    Reference, RefundRequest, SubjectId,
};
use purser_client::{Account, Call, ClientError};
use purser_types::{Credits, IdempotencyKey};

use super::charged::JOB_NOTE;
use super::differences::{Difference, Remedy};
use crate::client_commands::connection::{Service, failure};
use crate::failure::CommandError;
use crate::output::Output;

/// Mends all of them. Ends early only if the service is not reached, or it is not known what happened.
pub(super) async fn repair(
    differences: &mut [Difference],
    file: &str,
    service: &Service,
    output: &Output,
) -> Result<(), CommandError> {
    let total = u64::try_from(differences.len()).ok();
    let progress = output.progress("repaired", total);
    for difference in differences {
        let account = service.account_named(&difference.tenant, &difference.unit)?;
        let mending = Mending { account, difference, file };
        match mending.mend().await {
            Ok(None) => difference.done = true,
            Ok(refusal) => difference.refusal = refusal,
            // A job that is not remembered any more will not take anything either.
            Err(ClientError::Refused(problem))
                if difference.remedy == Remedy::Outcome
                    && problem.code == ProblemCode::JobNotFound.name() =>
            {
                difference.done = true;
            }
            Err(ClientError::Refused(problem)) => {
                difference.refusal = Some(format!("{}: {}", problem.code, problem.detail));
            }
            Err(error) => return Err(failure(error)),
        }
        progress.advance(1);
    }
    progress.finish("done");
    Ok(())
}

struct Mending<'a> {
    account: Account,
    difference: &'a Difference,
    file: &'a str,
}

impl Mending<'_> {
    /// Gives why it cannot be mended, if it cannot.
    async fn mend(&self) -> Result<Option<String>, ClientError> {
        match self.difference.remedy {
            Remedy::Refund => self.refund().await,
            Remedy::Outcome => self.succeed().await,
            Remedy::Charge if self.difference.was_refunded => {
                Ok(Some("some of it was refunded: reclaim that, or charge it, by hand".to_owned()))
            }
            Remedy::Charge => self.charge().await,
        }
    }

    /// Tells the job that it succeeded. What that has taken is seen when the entries are read again.
    async fn succeed(&self) -> Result<Option<String>, ClientError> {
        let job: JobName = self.difference.job_id.parse().map_err(|_odd| UNSENDABLE)?;
        let mut request = OutcomeRequest::new(JobOutcome::Succeeded);
        request.reason = Some(self.reason());
        let call = self.call(self.difference.charged, "outcome");
        self.account.report_outcome(&job, &request, &call).await.map(|_told| None)
    }

    /// Gives back what is too much, from the job's holds and charges in the order of their ids.
    async fn refund(&self) -> Result<Option<String>, ClientError> {
        let (mut net, mut left) = (self.difference.charged, self.difference.overcharged());
        for (subject, refundable) in &self.difference.parts {
            let part = left.min(*refundable);
            if part > 0 {
                self.refund_of(subject, part, net).await?;
                left -= part;
                net -= i128::from(part);
            }
        }
        Ok((left > 0).then(|| format!("{left} of it belong to no hold or charge of the job")))
    }

    async fn refund_of(&self, subject: &str, amount: u64, net: i128) -> Result<(), ClientError> {
        let request = RefundRequest { amount: Some(call_amount(amount)?), reason: self.reason() };
        let hold = subject.parse().map(SubjectId::Hold);
        let id = hold.or_else(|_charge| subject.parse().map(SubjectId::Charge));
        let id = id.map_err(|_odd| UNSENDABLE)?;
        let call = self.call(net, &format!("refund {subject}"));
        self.account.refund(&id, &request, &call).await.map(|_done| ())
    }

    /// Charges what is missing. The work was delivered, so it may become debt.
    async fn charge(&self) -> Result<Option<String>, ClientError> {
        let amount = self.difference.undercharged();
        let job = &self.difference.job_id;
        let note = [(JOB_NOTE.to_owned(), job.clone()), ("reason".to_owned(), self.text())];
        let request = ChargeRequest {
            consistency: purser_api::Consistency::Strict,
            allow_debt: true,
            reference: job.parse::<Reference>().ok(),
            metadata: Metadata::from_pairs(note).map_err(|_large| UNSENDABLE)?,
            ..ChargeRequest::new(call_amount(amount)?)
        };
        let call = self.call(self.difference.charged, "charge");
        self.account.charge(&request, &call).await.map(|_done| None)
    }

    /// A call under a key that follows from what is charged before it, and what it is to come to.
    fn call(&self, net: i128, act: &str) -> Call {
        let Difference { job_id, cost, .. } = self.difference;
        let key = format!("reconcile {job_id} {net} {cost} {act}");
        IdempotencyKey::parse(&key).map_or_else(|_too_long| Call::new(), Call::with_key)
    }

    fn reason(&self) -> Reason {
        let short = || "reconciled".parse().expect("a word is a reason");
        self.text().parse().unwrap_or_else(|_odd| short())
    }

    fn text(&self) -> String {
        match self.difference.line {
            Some(line) => format!("reconciled with {}, line {line}", self.file),
            None => format!("reconciled with {}, which does not have it", self.file),
        }
    }
}

/// What the service has named itself, or the file's reader has checked, can be sent.
const UNSENDABLE: ClientError = ClientError::Unsendable("the job cannot be named in a request");

fn call_amount(amount: u64) -> Result<CallAmount, ClientError> {
    let credits = Credits::from_u64(amount).map_err(|_large| UNSENDABLE)?;
    CallAmount::from_credits(credits).map_err(|_small| UNSENDABLE)
}
