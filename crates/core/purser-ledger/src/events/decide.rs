//! Deciding about events. What a call would be refused for, and a key would remember, makes a dead letter;
//! what is no decision yet stays an error, and the event is to be sent again.

use purser_types::{Credits, HistoryError, HistoryReader, LogTime, Sequence};

use super::{
    DiscardEvent, Event, EventAbout, EventChange, EventEffect, PARKED_MAX, ParkReason, ParkedEvent,
    ResolveEvent,
};
use crate::account::{Account, Draft, Origin, Scribe, Side, Verdict as Decided, read_entry};
use crate::command::{Capture, Charge, Context, IfExpired, Item, Operation, Target};
use crate::entry::{Entry, Fact, Move};
use crate::jobs::ReportOutcome;
use crate::rejection::Rejection;
use crate::standing::AccountStatus;

/// What a decision comes to, or why the history could not be read.
type Decision = Result<Result<Decided, Rejection>, HistoryError>;

/// The circumstances of a decision about an event.
#[derive(Clone, Copy)]
struct About<'a> {
    context: &'a Context,
    now: LogTime,
    history: &'a dyn HistoryReader,
}

/// What an event would do.
struct Done {
    effect: EventEffect,
    moves: Vec<Move>,
}

/// Why it does nothing.
enum NotDone {
    Unmatched,
    Refused(Rejection),
}

impl Account {
    /// Decides about an operation on events; nothing if it is none.
    pub(crate) fn decide_of_event(
        &self,
        item: &Item,
        now: LogTime,
        history: &dyn HistoryReader,
    ) -> Result<Option<Result<Decided, Rejection>>, HistoryError> {
        let is_of_event = matches!(
            item.operation,
            Operation::RecordEvent(_) | Operation::ResolveEvent(_) | Operation::DiscardEvent(_)
        );
        if is_of_event && matches!(self.side, Side::Region(_)) {
            return Ok(Some(Err(Rejection::DecidedElsewhere)));
        }
        let about = About { context: &item.context, now, history };
        let decided = if let Operation::RecordEvent(event) = &item.operation {
            self.record_event(event, item, about)
        } else if let Operation::ResolveEvent(asked) = &item.operation {
            self.resolve_event(asked, about)
        } else if let Operation::DiscardEvent(asked) = &item.operation {
            self.discard_event(asked, about)
        } else {
            return Ok(None);
        };
        decided.map(Some)
    }

    /// Takes an event in: once. Refuses: too many are parked; what is no decision about the call that the
    /// event stands for.
    fn record_event(&self, event: &Event, item: &Item, about: About<'_>) -> Decision {
        let mark = self.events().mark(&event.name_digest(), about.now);
        let conflict = match mark.filter(|mark| !mark.is_of(event)) {
            None => None,
            Some(mark) => {
                let again = self.events().mark(&event.whole_digest(), about.now);
                if let Some(again) = again {
                    return Ok(Ok(Decided::Found(again.at)));
                }
                let first = read_entry(about.history, mark.at)?.fact;
                let here = event_of(&first).map(|first| first.about.clone());
                let first = here.or_else(|| event.taken_away(&first));
                first.map(|first| ParkReason::Conflict { first })
            }
        };
        if let Some(parked) = self.events().parked_like(event) {
            return self.record_again(parked, item, about);
        }
        if let Some(mark) = mark.filter(|_| conflict.is_none()) {
            return Ok(Ok(Decided::Found(mark.at)));
        }
        if let Some(why) = conflict.or_else(|| self.untimely(event, about.now)) {
            return Ok(self.park(event, why, about));
        }
        Ok(match self.effect(&event.about, about)? {
            Ok(done) => Ok(applied(event.clone(), done, None)),
            Err(NotDone::Unmatched) => self.park(event, ParkReason::Unmatched, about),
            Err(NotDone::Refused(refusal)) => match self.refusal_of(item, refusal) {
                refusal if refusal.is_remembered() => {
                    self.park(event, ParkReason::Refused(Box::new(refusal)), about)
                }
                refusal => Err(refusal),
            },
        })
    }

    /// The same event is parked: what it named may have turned up.
    fn record_again(&self, parked: &ParkedEvent, item: &Item, about: About<'_>) -> Decision {
        if parked.why == ParkReason::Unmatched {
            let unchanged = |number| self.found(number, about);
            return match self.effect_late(parked, about)? {
                Ok(done) => Ok(Ok(applied(parked.event.clone(), done, Some(parked.number)))),
                Err(NotDone::Unmatched) => unchanged(parked.changed_by),
                Err(NotDone::Refused(refusal)) => match self.refusal_of(item, refusal) {
                    refusal if refusal.is_remembered() => unchanged(parked.changed_by),
                    refusal => Ok(Err(refusal)),
                },
            };
        }
        self.found(parked.changed_by, about)
    }

    fn found(&self, entry: Sequence, about: About<'_>) -> Decision {
        let at = self.locate(entry, about.history)?;
        Ok(at.map(Decided::Found).ok_or(Rejection::EventNotParked))
    }

    /// Parks an event. Refuses: too many are parked.
    fn park(&self, event: &Event, why: ParkReason, about: About<'_>) -> Result<Decided, Rejection> {
        if self.events().parked().len() >= PARKED_MAX {
            return Err(Rejection::TooManyEventsParked);
        }
        let number = self.head.sequence.next();
        let event = event.clone();
        let parked = ParkedEvent { number, event, why, parked_at: about.now, changed_by: number };
        Ok(Decided::Write(Draft::still(Fact::EventParked(Box::new(parked)))))
    }

    /// What an event does that is taken in now.
    fn effect(
        &self,
        event: &EventAbout,
        about: About<'_>,
    ) -> Result<Result<Done, NotDone>, HistoryError> {
        if self.standing.status == AccountStatus::Closed {
            return Ok(Err(NotDone::Refused(Rejection::AccountClosed)));
        }
        if event.amount() == Some(Credits::ZERO) {
            return Ok(Ok(Done { effect: EventEffect::Nothing, moves: Vec::new() }));
        }
        let decided = match event {
            EventAbout::Usage { amount } => self.charge_for_event(*amount, about.now),
            EventAbout::Hold { hold, owner, amount } => {
                let found = match owner {
                    Some(owner) => self.find_away(*owner, *hold, about.now, about.history)?,
                    None => Ok(self.find_hold(Target::Hold(*hold), about.now, about.history)?),
                };
                match found {
                    // Of a region that still decides about it: what home hears of it, the region knows not.
                    Ok(None) | Err(Rejection::DecidedElsewhere) => {
                        return Ok(Err(NotDone::Unmatched));
                    }
                    Ok(Some(found)) => {
                        let (is_final, allow_debt) = (true, true);
                        let if_expired = IfExpired::Charge;
                        let (hold, amount, away) = (*hold, *amount, *owner);
                        let asked =
                            Capture { hold, amount, is_final, allow_debt, if_expired, away };
                        self.decide_capture(&asked, Some(found), None)
                    }
                    Err(refusal) => Err(refusal),
                }
            }
            EventAbout::Job { job, verdict } => {
                let asked = ReportOutcome { job: job.clone(), verdict: *verdict, lease: None };
                match self.decide_told(&asked, about.context, (about.now, about.history))? {
                    Ok(Decided::Write(draft)) => Ok(draft),
                    Ok(Decided::Found(_) | Decided::Existing(_)) => {
                        let effect = EventEffect::Nothing;
                        return Ok(Ok(Done { effect, moves: Vec::new() }));
                    }
                    Err(Rejection::JobNotFound) => return Ok(Err(NotDone::Unmatched)),
                    Err(refusal) => Err(refusal),
                }
            }
        };
        Ok(decided.and_then(|draft| self.done(draft)).map_err(NotDone::Refused))
    }

    /// What a parked event does. A hold of home that was made after the event came has a number that
    /// belonged to no hold then, so it is not the one that the event names.
    fn effect_late(
        &self,
        parked: &ParkedEvent,
        about: About<'_>,
    ) -> Result<Result<Done, NotDone>, HistoryError> {
        let done = self.effect(&parked.event.about, about)?;
        let is_other = matches!(
            parked.event.about,
            EventAbout::Hold { hold, owner: None, .. } if parked.number <= hold.0
        );
        Ok(if is_other { Err(NotDone::Unmatched) } else { done })
    }

    fn charge_for_event(&self, amount: Credits, now: LogTime) -> Result<Draft, Rejection> {
        self.decide_charge(
            &Charge { amount, allow_debt: true, reference: None, budgets: Box::default() },
            now,
        )
    }

    /// What a draft does, if the account has room for it.
    fn done(&self, draft: Draft) -> Result<Done, Rejection> {
        if !self.has_room_for(&draft) {
            return Err(Rejection::AmountOverflow);
        }
        let Draft { fact, moves } = draft;
        let effect = EventEffect::of(fact)
            .expect("a charge, a capture, a release and an outcome are effects");
        Ok(Done { effect, moves })
    }

    /// Takes a parked event after all, by an operator's decision. Refuses: it is not parked; another of
    /// its name was taken; a region may still take it; what the call would be refused for.
    fn resolve_event(&self, asked: &ResolveEvent, about: About<'_>) -> Decision {
        let Some(parked) = self.parked_event(asked.number) else {
            return self.resolved_before(asked.number, about, |fact| {
                matches!(fact, Fact::EventApplied(_))
            });
        };
        if matches!(parked.why, ParkReason::Conflict { .. }) {
            return Ok(Err(Rejection::EventConflict));
        }
        if self.is_decided_away(&parked.event.about) {
            return Ok(Err(Rejection::AllocationOpen));
        }
        let event = &parked.event.about;
        let missing = match event {
            EventAbout::Usage { .. } | EventAbout::Hold { .. } => Rejection::HoldNotFound,
            EventAbout::Job { .. } => Rejection::JobNotFound,
        };
        let done = match event.amount().filter(|_| asked.as_charge) {
            Some(amount) => self.effect(&EventAbout::Usage { amount }, about)?,
            None => self.effect_late(parked, about)?,
        };
        Ok(match done {
            Ok(done) => Ok(applied(parked.event.clone(), done, Some(parked.number))),
            Err(NotDone::Unmatched) => Err(missing),
            Err(NotDone::Refused(refusal)) => Err(refusal),
        })
    }

    /// Lets nothing become of a parked event. Refuses: it is not parked; it has changed since the operator
    /// looked; a region may still take it.
    fn discard_event(&self, asked: &DiscardEvent, about: About<'_>) -> Decision {
        let Some(parked) = self.parked_event(asked.number) else {
            return self.resolved_before(asked.number, about, |fact| {
                matches!(fact, Fact::EventDiscarded(_))
            });
        };
        if parked.changed_by != asked.confirm.0 {
            return Ok(Err(Rejection::StaleConfirmation { sequence: parked.changed_by }));
        }
        if self.is_decided_away(&parked.event.about) {
            return Ok(Err(Rejection::AllocationOpen));
        }
        let parked = ParkedEvent { changed_by: self.head.sequence.next(), ..parked.clone() };
        let draft = Draft::still(Fact::EventDiscarded(Box::new(parked)));
        Ok(Ok(Decided::Write(draft)))
    }

    /// What became of an event that was parked, if that is what is asked for once more.
    fn resolved_before(
        &self,
        number: Sequence,
        about: About<'_>,
        is_this: impl Fn(&Fact) -> bool,
    ) -> Decision {
        let gone = Ok(Err(Rejection::EventNotParked));
        let Some(hashed) = self.entry(number, about.history)? else { return gone };
        let Fact::EventParked(parked) = &hashed.entry.fact else { return gone };
        let digests = [parked.event.name_digest(), parked.event.whole_digest()];
        for mark in digests.iter().filter_map(|it| self.events().mark(it, about.now)) {
            let entry: Entry = read_entry(about.history, mark.at)?;
            if is_this(&entry.fact) && parked_by(&entry.fact) == Some(number) {
                return Ok(Ok(Decided::Found(mark.at)));
            }
        }
        gone
    }

    /// After a job was created: the events that had named it before take effect. What is refused stays
    /// parked, for people.
    pub(crate) fn match_events(
        &mut self,
        created: &Fact,
        now: LogTime,
        scribe: &mut Scribe<'_>,
    ) -> Result<(), HistoryError> {
        let Fact::JobCreated(created) = created else { return Ok(()) };
        let names_it = |parked: &&ParkedEvent| {
            let is_unmatched = parked.why == ParkReason::Unmatched;
            let EventAbout::Job { job, .. } = &parked.event.about else { return false };
            is_unmatched && *job == created.job.id
        };
        let all = self.parked_events_from(std::ops::Bound::Unbounded);
        let waiting: Vec<ParkedEvent> = all.filter(names_it).cloned().collect();
        for parked in waiting {
            let history = &*scribe.history;
            let about = About { context: &Context::default(), now, history };
            let Ok(done) = self.effect(&parked.event.about, about)? else { continue };
            if let Decided::Write(draft) = applied(parked.event, done, Some(parked.number)) {
                self.append(draft, now, Origin::default(), scribe);
            }
        }
        Ok(())
    }
}

fn applied(event: Event, Done { effect, moves }: Done, parked: Option<Sequence>) -> Decided {
    let change = EventChange { event, effect, parked };
    Decided::Write(Draft { fact: Fact::EventApplied(Box::new(change)), moves })
}

/// The event that a fact is about.
fn event_of(fact: &Fact) -> Option<&Event> {
    if let Fact::EventApplied(change) = fact {
        Some(&change.event)
    } else if let Fact::EventParked(parked) | Fact::EventDiscarded(parked) = fact {
        Some(&parked.event)
    } else {
        None
    }
}

/// The entry that had parked the event that a fact is about.
fn parked_by(fact: &Fact) -> Option<Sequence> {
    if let Fact::EventApplied(change) = fact {
        change.parked
    } else if let Fact::EventDiscarded(parked) = fact {
        Some(parked.number)
    } else {
        None
    }
}
