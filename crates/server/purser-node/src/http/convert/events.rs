//! Usage events: what is asked of them, and how they are shown.

use purser_api as api;
use purser_api::{Amount, HoldId, Moment};
use purser_ledger::{
    Event, EventAbout, EventName, Fact, HoldNumber, JobVerdict, ParkReason, ParkedEvent, Receipt,
};
use purser_types::{Owner, Sequence};

use super::shown::Shown;
use crate::http::problem::{Refusal, code_of};

/// What the ledger is told of an event. `hold_of` numbers the hold that it names, and says whose it is
/// if a region made it.
pub(crate) fn event(
    event: &api::UsageEvent,
    hold_of: impl Fn(&HoldId) -> (HoldNumber, Option<Owner>),
) -> Result<Event, Refusal> {
    let invalid = |detail: String| Refusal::invalid(detail);
    let name = EventName::parse(&event.source, &event.id);
    let name = name.map_err(|error| invalid(format!("source and id {error}")))?;
    let kind = EventName::parse(&event.kind, &event.kind);
    kind.map_err(|error| invalid(format!("type {error}")))?;
    let about = about(&event.data, hold_of)?;
    let time = event.time.as_ref().map(|time| time.0);
    Ok(Event { name, kind: event.kind.as_str().into(), time, about })
}

fn about(
    data: &api::UsageData,
    hold_of: impl Fn(&HoldId) -> (HoldNumber, Option<Owner>),
) -> Result<EventAbout, Refusal> {
    let amount = data.amount.as_ref().map(|amount| amount.0);
    match (&data.hold_id, &data.job_id, data.outcome) {
        (None, None, None) => {
            let missing = || Refusal::invalid("data: an amount, a hold_id or a job_id is missing");
            Ok(EventAbout::Usage { amount: amount.ok_or_else(missing)? })
        }
        (Some(id), None, None) => {
            let (hold, owner) = hold_of(id);
            Ok(EventAbout::Hold { hold, owner, amount })
        }
        (None, Some(job), Some(outcome)) if amount.is_none() => {
            let verdict = match outcome {
                api::JobOutcome::Succeeded => JobVerdict::Succeeded,
                api::JobOutcome::Failed => JobVerdict::Failed { retryable: data.retryable },
            };
            Ok(EventAbout::Job { job: job.0.clone(), verdict })
        }
        _ => {
            let detail = "data: a job_id goes with an outcome and with nothing else, and a hold_id \
                          with an amount or none";
            Err(Refusal::invalid(detail))
        }
    }
}

/// Why an event has done nothing, in a word.
pub(crate) fn park_reason(why: &ParkReason) -> &'static str {
    match why {
        ParkReason::Refused(rejection) => code_of(rejection).name(),
        ParkReason::Unmatched
        | ParkReason::TooOld
        | ParkReason::InFuture
        | ParkReason::Conflict { .. } => why.name().unwrap_or_default(),
    }
}

impl Shown<'_> {
    /// An event that waits for people.
    pub(crate) fn parked_event(&self, parked: &ParkedEvent) -> api::ParkedEvent {
        let first = match &parked.why {
            ParkReason::Conflict { first } => Some(self.usage(first)),
            ParkReason::Unmatched
            | ParkReason::TooOld
            | ParkReason::InFuture
            | ParkReason::Refused(_) => None,
        };
        api::ParkedEvent {
            entry: parked.number.into(),
            source: parked.event.name.source().to_owned(),
            id: parked.event.name.id().to_owned(),
            kind: parked.event.kind.to_string(),
            time: parked.event.time.map(Moment),
            parked_at: Moment(parked.parked_at),
            reason: park_reason(&parked.why).to_owned(),
            data: self.usage(&parked.event.about),
            first_data: first,
            sequence: parked.changed_by.into(),
        }
    }

    fn usage(&self, about: &EventAbout) -> api::UsageData {
        let mut data = api::UsageData {
            unit: self.account.unit.clone().into(),
            amount: about.amount().map(Amount),
            hold_id: None,
            job_id: None,
            outcome: None,
            retryable: true,
        };
        match about {
            EventAbout::Usage { .. } => (),
            EventAbout::Hold { hold, owner, .. } => {
                let owner = owner.unwrap_or_else(|| self.named_by(hold.0));
                data.hold_id = Some(HoldId::new(hold.0, owner));
            }
            EventAbout::Job { job, verdict } => {
                data.job_id = Some(job.clone().into());
                data.retryable = *verdict != JobVerdict::Failed { retryable: false };
                data.outcome = Some(match verdict {
                    JobVerdict::Succeeded => api::JobOutcome::Succeeded,
                    JobVerdict::Failed { .. } => api::JobOutcome::Failed,
                });
            }
        }
        data
    }

    /// What an operator did to a parked event.
    pub(crate) fn parked_event_answer(
        &self,
        receipt: &Receipt,
        confirm: Option<Sequence>,
    ) -> Result<api::ParkedEventAnswer, Refusal> {
        let event = match &receipt.entry.fact {
            Fact::EventApplied(change) => &change.event,
            Fact::EventParked(parked) | Fact::EventDiscarded(parked) => &parked.event,
            _ => return Err(Refusal::internal("an act on an event made another entry")),
        };
        Ok(api::ParkedEventAnswer {
            source: event.name.source().to_owned(),
            id: event.name.id().to_owned(),
            effect: receipt.entry.fact.kind().to_owned(),
            dry_run: confirm.is_some(),
            confirm: confirm.map(Into::into),
            sequence: receipt.entry.sequence.into(),
            balance: self.balance_after(receipt),
        })
    }
}
