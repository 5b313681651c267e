//! What the golden tests pin about usage events.

use purser_ledger::{
    Confirm, DiscardEvent, Event, EventAbout, EventChange, EventEffect, EventName, Fact,
    HoldNumber, JobVerdict, Operation, ParkReason, ParkedEvent, Rejection, ResolveEvent,
};
use purser_types::JobId;

use super::{at, credits, hold, hold_number, owner, sequence};

fn event(id: &str, about: EventAbout) -> Event {
    let name = EventName::parse("/meters/7", id).unwrap();
    Event { name, kind: "com.example.used".into(), time: Some(at(2)), about }
}

fn record(event: Event) -> Operation {
    Operation::RecordEvent(Box::new(event))
}

/// One event that is charged, one that is parked, and one that came long before its time.
pub(super) fn lived() -> [Operation; 3] {
    let ahead = event("e10", EventAbout::Usage { amount: credits(2) });
    [used("e1", 2), unmatched(), record(Event { time: Some(at(10_000)), ..ahead })]
}

fn used(id: &str, amount: u64) -> Operation {
    record(event(id, EventAbout::Usage { amount: credits(amount) }))
}

/// An event that names no hold there is.
fn unmatched() -> Operation {
    let hold = HoldNumber(sequence(9_999));
    record(event("e9", EventAbout::Hold { hold, owner: None, amount: None }))
}

/// In the order of their numbers.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        used("e1", 10),
        Operation::ResolveEvent(ResolveEvent { number: sequence(7), as_charge: true }),
        Operation::DiscardEvent(DiscardEvent {
            number: sequence(7),
            confirm: Confirm(sequence(8)),
        }),
    ]
}

/// The name and number of an operation on events.
pub(super) fn operation_number(operation: &Operation) -> (&'static str, u32) {
    match operation {
        Operation::RecordEvent(_) => ("record_event", 36),
        Operation::ResolveEvent(_) => ("resolve_event", 37),
        Operation::DiscardEvent(_) => ("discard_event", 38),
        _ => unreachable!("an operation on events: {operation:?}"),
    }
}

/// The name and number of a fact about events.
pub(super) fn fact_number(fact: &Fact) -> (&'static str, u32) {
    match fact {
        Fact::EventApplied(_) => ("event_applied", 43),
        Fact::EventParked(_) => ("event_parked", 44),
        Fact::EventDiscarded(_) => ("event_discarded", 45),
        _ => unreachable!("a fact about events: {fact:?}"),
    }
}

/// In the order of their numbers.
pub(super) fn facts() -> Vec<Fact> {
    let (hold_of_region, amount) = (hold_number(), Some(credits(3)));
    let of_hold = EventAbout::Hold { hold: hold_of_region, owner: Some(owner()), amount };
    let job = JobId::parse("job-1").unwrap();
    let of_job = EventAbout::Job { job, verdict: JobVerdict::Succeeded };
    let parked = |about, why| {
        let (number, changed_by) = (sequence(7), sequence(8));
        let event = event("e2", about);
        Box::new(ParkedEvent { number, event, why, parked_at: at(4), changed_by })
    };
    let first = EventAbout::Usage { amount: credits(10) };
    vec![
        Fact::EventApplied(Box::new(EventChange {
            event: event("e1", of_hold),
            effect: EventEffect::Captured(hold()),
            parked: Some(sequence(7)),
        })),
        Fact::EventParked(parked(of_job.clone(), ParkReason::Conflict { first })),
        Fact::EventDiscarded(parked(
            of_job,
            ParkReason::Refused(Box::new(Rejection::AccountFrozen)),
        )),
    ]
}
