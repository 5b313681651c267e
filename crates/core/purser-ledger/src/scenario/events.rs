//! Lines about usage events: what is asked of them, and how they are told of.

use purser_types::{Credits, JobId, Sequence};

use super::line_error::LineError;
use super::names::Book;
use super::requests::{Read, Reader, instant};
use super::telling::Teller;
use super::words::{Words, number};
use crate::command::{Confirm, Context, Item, Operation};
use crate::events::{
    DiscardEvent, Event, EventAbout, EventChange, EventEffect, EventName, ParkReason, ParkedEvent,
    ResolveEvent,
};
use crate::jobs::JobVerdict;

/// How a line with `verb` is read.
pub(super) fn reader(verb: &str) -> Result<Read, LineError> {
    Ok(match verb {
        "event" => event,
        "resolve" => |_, _, words| resolve(words),
        "drop_event" => discard,
        unknown => return Err(LineError::UnknownCommand(unknown.to_owned())),
    })
}

fn event(reader: &Reader<'_>, _: &Book, words: &mut Words<'_>) -> Result<Operation, LineError> {
    let (source, id) = (words.plain("source")?, words.plain("id")?);
    let name = EventName::parse(source, id);
    let name =
        name.map_err(|_bad| LineError::Choice { what: "event", allowed: "a source and id" })?;
    let time = instant(words, "time")?;
    let about = if let Some(job) = words.named("job") {
        let verdict = match words.named("outcome") {
            Some("succeeded") => JobVerdict::Succeeded,
            _ => JobVerdict::Failed { retryable: true },
        };
        EventAbout::Job { job: JobId::parse(job)?, verdict }
    } else if let Some(hold) = words.named("of") {
        let (hold, owner) = reader.event_hold(hold)?;
        let amount = words.plain_or_none().map(Credits::parse).transpose()?;
        EventAbout::Hold { hold, owner, amount }
    } else {
        EventAbout::Usage { amount: Credits::parse(words.plain("amount")?)? }
    };
    let event = Event { name, kind: "usage".into(), time, about };
    Ok(Operation::RecordEvent(Box::new(event)))
}

/// How a region's book is asked to take an event: as whoever hears of events asks it.
pub(super) fn in_region(book: &Book, operation: &Operation, context: &Context) -> Option<Item> {
    let Operation::RecordEvent(event) = operation else { return None };
    event.as_capture(context.clone()).filter(|_| book.owner.is_some())
}

fn resolve(words: &mut Words<'_>) -> Result<Operation, LineError> {
    let as_charge = words.flag("as_charge");
    Ok(Operation::ResolveEvent(ResolveEvent { number: entry(words)?, as_charge }))
}

/// Confirms the event as it stands if the line confirms nothing.
fn discard(
    reader: &Reader<'_>,
    book: &Book,
    words: &mut Words<'_>,
) -> Result<Operation, LineError> {
    let number = entry(words)?;
    let known = reader.group.book(book).and_then(|account| account.parked_event(number));
    let last = known.map_or(number, |parked| parked.changed_by);
    let confirm = number_named(words)?.unwrap_or(Confirm(last));
    Ok(Operation::DiscardEvent(DiscardEvent { number, confirm }))
}

fn number_named(words: &mut Words<'_>) -> Result<Option<Confirm>, LineError> {
    Ok(number(words, "confirm")?.map(|sequence| Confirm(Sequence(sequence))))
}

fn entry(words: &mut Words<'_>) -> Result<Sequence, LineError> {
    let number = words.plain("entry")?.parse();
    let choice = |_| LineError::Choice { what: "entry", allowed: "a sequence" };
    number.map(Sequence).map_err(choice)
}

impl Teller<'_> {
    /// ` event meter/e1 h1 total=10`.
    pub(super) fn event_change(&self, change: &EventChange) -> String {
        let effect = match &change.effect {
            EventEffect::Nothing => String::new(),
            EventEffect::Charged(hold) => {
                format!(" {} {}", self.hold_name(hold.number), hold.amount)
            }
            EventEffect::Captured(hold)
            | EventEffect::LateCaptured(hold)
            | EventEffect::Released(hold) => {
                format!(" {} total={}", self.hold_name_here_or_away(hold), hold.captured)
            }
            EventEffect::Job(change) => self.job_change(change),
        };
        let parked = change.parked.map(|number| format!(" (parked by #{})", number.0));
        format!("{effect} of {}{}", name_text(&change.event), parked.unwrap_or_default())
    }

    /// ` #7 meter/e1 too_old`.
    pub(super) fn parked_event(&self, parked: &ParkedEvent) -> String {
        let why = match &parked.why {
            ParkReason::Refused(refusal) => self.rejection(refusal),
            ParkReason::Conflict { first } => {
                let amount = |about: &EventAbout| {
                    about.amount().map_or_else(|| "none".to_owned(), |it| it.to_string())
                };
                let (first, this) = (amount(first), amount(&parked.event.about));
                format!("conflict first={first} this={this}")
            }
            ParkReason::Unmatched | ParkReason::TooOld | ParkReason::InFuture => {
                parked.why.name().unwrap_or_default().to_owned()
            }
        };
        format!("#{} {}: {why}", parked.number.0, name_text(&parked.event))
    }
}

fn name_text(event: &Event) -> String {
    format!("{}/{}", event.name.source(), event.name.id())
}
