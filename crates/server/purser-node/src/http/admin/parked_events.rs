//! Usage events that wait for people: dead letters, and those that name a hold or job that is not known.

use std::ops::Bound;

use hyper::StatusCode;
use purser_api as api;
use purser_api::{
    DiscardRequest, ParkedEventAnswer, ParkedEventsQuery, ProblemCode as Code, RedriveEventRequest,
    SequenceNumber, UnitQuery, paths,
};
use purser_ledger::{Confirm, DiscardEvent, Operation as Asked, ResolveEvent};
use purser_types::Sequence;

use super::lifecycle::confirmed;
use super::rehearsal::{Rehearsed, rehearse};
use crate::http::call::{Call, Remarks};
use crate::http::convert::{Shown, park_reason};
use crate::http::describe::{Description, Tag};
use crate::http::operation::Operation;
use crate::http::paging::{Found, Page};
use crate::http::problem::Refusal;
use crate::http::reply::Reply;
use crate::http::routes::{Access, Handled, Routes, Verb};

/// Declares the calls.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    let read = |summary| Description::new(Access::ADMIN_READ, Tag::Spend, summary);
    let act = |summary| Description::new(Access::ADMIN, Tag::Spend, summary).query::<UnitQuery>();
    routes
        .call(
            (Verb::Get, paths::ADMIN_PARKED_EVENTS),
            Operation::ListParkedEvents,
            read("Lists usage events that have done nothing and wait for people, newest first.")
                .query::<ParkedEventsQuery>()
                .answers_list::<api::ParkedEvent>()
                .refuses(&[Code::InvalidCursor]),
            list,
        )
        .call(
            (Verb::Get, paths::ADMIN_PARKED_EVENT),
            Operation::GetParkedEvent,
            read("Shows one of them.")
                .query::<UnitQuery>()
                .answers::<api::ParkedEvent>(200)
                .refuses(&[Code::EventNotParked]),
            get,
        )
        .call(
            (Verb::Post, paths::ADMIN_PARKED_EVENT_REDRIVE),
            Operation::RedriveParkedEvent,
            act("Takes a usage event after all, or charges its amount: once, however often it is asked for.")
                .body::<RedriveEventRequest>()
                .answers::<ParkedEventAnswer>(200)
                .refuses(&[Code::EventNotParked, Code::EventConflict, Code::HoldNotFound])
                .refuses(&[Code::AllocationOpen])
                .refuses(&[Code::JobNotFound, Code::InsufficientCredits, Code::AccountFrozen])
                .refuses(&[Code::AccountClosed, Code::AlreadyCaptured, Code::AlreadyReleased]),
            redrive,
        )
        .call(
            (Verb::Post, paths::ADMIN_PARKED_EVENT_DISCARD),
            Operation::DiscardParkedEvent,
            act("Lets nothing become of a usage event. A dry run shows what to confirm.")
                .body::<DiscardRequest>()
                .answers::<ParkedEventAnswer>(200)
                .refuses(&[Code::ConfirmationRequired, Code::StaleConfirmation])
                .refuses(&[Code::EventNotParked, Code::AllocationOpen]),
            discard,
        )
}

impl Call {
    /// The entry in the path.
    fn parking(&self) -> Result<Sequence, Refusal> {
        Ok(self.id::<SequenceNumber>("entry")?.0)
    }
}

async fn list(call: Call) -> Handled {
    let query: ParkedEventsQuery = call.query()?;
    let account = call.account(query.unit.0.clone())?;
    let page = Page::open(query.scope(&account.tenant), query.limit, query.cursor.as_ref())?;
    let (owner, name) = (call.owner(), account.clone());
    let list = call.study_written(&account, move |account, _, _| {
        let shown = Shown::new(&name, &owner).with_homes(account.homes());
        let stands = |reason: &str| query.reason.as_deref().is_none_or(|wanted| wanted == reason);
        let all = account.parked_events_from(Bound::Unbounded);
        let mut parked: Vec<_> = all
            .take_while(|parked| page.admits(parked.number))
            .filter(|parked| stands(park_reason(&parked.why)))
            .cloned()
            .collect();
        parked.reverse();
        let found = Found::first(parked, page.limit(), |parked| parked.number);
        page.close(&found, |parked| Ok(shown.parked_event(parked)))
    });
    Ok(Reply::read(&list.await?)?)
}

async fn get(call: Call) -> Handled {
    let account = call.account(call.unit()?)?;
    let (number, owner, name) = (call.parking()?, call.owner(), account.clone());
    let parked = call.study_written(&account, move |account, _, _| {
        let parked = account.parked_event(number);
        let parked = parked.ok_or_else(|| Refusal::not_found(Code::EventNotParked))?;
        Ok(Shown::new(&name, &owner).with_homes(account.homes()).parked_event(parked))
    });
    Ok(Reply::read(&parked.await?)?)
}

async fn redrive(call: Call) -> Handled {
    let request: RedriveEventRequest = call.json()?;
    let account = call.account(call.unit()?)?;
    let (number, as_charge) = (call.parking()?, request.as_charge);
    let asked = Asked::ResolveEvent(ResolveEvent { number, as_charge });
    let done = call.decide(&account, call.item(asked)?.because(&request.reason)).await?;
    let answer = done.shown(&account).parked_event_answer(&done.receipt, None)?;
    Ok(Reply::decided(StatusCode::OK, &answer, done.decided)?)
}

async fn discard(call: Call) -> Handled {
    let request: DiscardRequest = call.json()?;
    let account = call.account(call.unit()?)?;
    let number = call.parking()?;
    if request.dry_run {
        // What is confirmed is the event, so others may change meanwhile.
        let look = call.look(&account, move |seen, _, _| {
            let parked = seen.account().parked_event(number);
            Ok(parked.ok_or_else(|| Refusal::not_found(Code::EventNotParked))?.changed_by)
        });
        let confirm = look.await?;
        let act = move |_| Asked::DiscardEvent(DiscardEvent { number, confirm: Confirm(confirm) });
        let Rehearsed { done, .. } = rehearse(&call, &account, act).await?;
        let answer = done.shown(&account).parked_event_answer(&done.receipt, Some(confirm))?;
        return Ok(Reply::read(&answer)?);
    }
    let confirm = confirmed(request.confirm)?;
    let asked = Asked::DiscardEvent(DiscardEvent { number, confirm });
    let done = call.decide(&account, call.item(asked)?.because(&request.reason)).await?;
    let answer = done.shown(&account).parked_event_answer(&done.receipt, None)?;
    Ok(Reply::decided(StatusCode::OK, &answer, done.decided)?)
}
