//! Holds: authorize, capture, release, extend, and reading them.

use std::collections::VecDeque;
use std::ops::Bound;

use hyper::StatusCode;
use purser_api as api;
use purser_api::{
    AuthorizeRequest, CaptureAnswer, CaptureRequest, ExtendRequest, HoldAnswer, HoldDetail,
    HoldStatus, HoldsQuery, ProblemCode as Code, ReleaseRequest, UnitQuery, paths,
};
use purser_ledger::{Account, Fact, Hold, HoldNumber, Target};
use purser_types::{HistoryReader, LogTime, Sequence};

use crate::http::call::{Call, Remarks};
use crate::http::convert::{self, Shown, debt_added};
use crate::http::describe::{Description, Tag};
use crate::http::operation::Operation;
use crate::http::paging::{Found, Page};
use crate::http::problem::Refusal;
use crate::http::reply::Reply;
use crate::http::routes::{Access, Handled, Routes, Verb};

/// Declares the calls of the resource.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    let spend = |summary| Description::new(Access::SPEND, Tag::Spend, summary).query::<UnitQuery>();
    let read = |summary| Description::new(Access::READ, Tag::Read, summary);
    const ENDED: [Code; 4] =
        [Code::HoldNotFound, Code::HoldExpired, Code::AlreadyCaptured, Code::AlreadyReleased];
    routes
        .call(
            (Verb::Post, paths::HOLDS),
            Operation::Authorize,
            spend("Sets credits aside for work that has not been done yet.")
                .body::<AuthorizeRequest>()
                .answers::<HoldAnswer>(201)
                .refuses(&[Code::InsufficientCredits, Code::AccountFrozen, Code::AccountClosed])
                .refuses(&[Code::BudgetExceeded, Code::BudgetNotFound]),
            authorize,
        )
        .call(
            (Verb::Get, paths::HOLDS),
            Operation::ListHolds,
            read("Lists holds, newest first.")
                .query::<HoldsQuery>()
                .answers_list::<api::Hold>()
                .refuses(&[Code::InvalidCursor]),
            list,
        )
        .call(
            (Verb::Get, paths::HOLD),
            Operation::GetHold,
            read("Shows a hold with its lots and its history.")
                .query::<UnitQuery>()
                .answers::<HoldDetail>(200)
                .refuses(&[Code::HoldNotFound]),
            get,
        )
        .call(
            (Verb::Post, paths::HOLD_CAPTURE),
            Operation::Capture,
            spend("Takes all or part of a hold, once the work is done.")
                .optional_body::<CaptureRequest>()
                .answers::<CaptureAnswer>(200)
                .refuses(&ENDED)
                .refuses(&[Code::InsufficientCredits, Code::BudgetExceeded]),
            capture,
        )
        .call(
            (Verb::Post, paths::HOLD_RELEASE),
            Operation::Release,
            spend("Gives back all that is left of a hold.")
                .optional_body::<ReleaseRequest>()
                .answers::<HoldAnswer>(200)
                .refuses(&ENDED),
            release,
        )
        .call(
            (Verb::Post, paths::HOLD_EXTEND),
            Operation::Extend,
            spend("Moves a hold's deadline later.")
                .body::<ExtendRequest>()
                .answers::<HoldAnswer>(200)
                .refuses(&ENDED)
                .refuses(&[Code::ExtendNotLater, Code::ExtendTooLong]),
            extend,
        )
}

async fn authorize(call: Call) -> Handled {
    let request: AuthorizeRequest = call.json()?;
    let account = call.account(call.unit()?)?;
    let item = call.item(convert::authorize(&request))?.noting(&request.metadata)?;
    let done = call.spend(&account, item, request.decider()).await?;
    let answer = done.shown(&account).hold_answer(&done.receipt)?;
    Ok(Reply::decided(StatusCode::CREATED, &answer, done.decided)?)
}

async fn capture(call: Call) -> Handled {
    let request: CaptureRequest = call.json_or_default()?;
    let account = call.account(call.unit()?)?;
    let asked = convert::capture(call.hold()?, &request, call.seat.away());
    let item = call.item(asked)?.noting(&request.metadata)?;
    let done = call.decide(&account, item).await?;
    let answer = done.shown(&account).capture_answer(&done.receipt)?;
    if !done.decided.replayed {
        call.api.metrics().record_debt_added(debt_added(&done.receipt));
        if answer.late {
            call.api.metrics().record_late_capture();
        }
    }
    Ok(Reply::decided(StatusCode::OK, &answer, done.decided)?)
}

async fn release(call: Call) -> Handled {
    let request: ReleaseRequest = call.json_or_default()?;
    let account = call.account(call.unit()?)?;
    let mut item =
        call.item(convert::release(call.hold()?, call.seat.away()))?.noting(&request.metadata)?;
    if let Some(reason) = &request.reason {
        item = item.because(reason);
    }
    let done = call.decide(&account, item).await?;
    let answer = done.shown(&account).hold_answer(&done.receipt)?;
    Ok(Reply::decided(StatusCode::OK, &answer, done.decided)?)
}

async fn extend(call: Call) -> Handled {
    let request: ExtendRequest = call.json()?;
    let account = call.account(call.unit()?)?;
    let item = call.item(convert::extend(call.hold()?, &request, call.seat.away()))?;
    let done = call.decide(&account, item).await?;
    let answer = done.shown(&account).hold_answer(&done.receipt)?;
    Ok(Reply::decided(StatusCode::OK, &answer, done.decided)?)
}

async fn get(call: Call) -> Handled {
    let account = call.account(call.unit()?)?;
    let target = Target::Hold(call.hold()?);
    let owner = call.owner();
    let name = account.clone();
    let detail = call.study_written(&account, move |account, history, now| {
        let shown = Shown::new(&name, &owner).with_homes(account.homes());
        let Told { subject, history, has_older } =
            with_history(account, target, (history, now), &shown)?;
        Ok(HoldDetail { hold: shown.hold(&subject)?, history, has_older })
    });
    Ok(Reply::read(&detail.await?)?)
}

/// The most entries of one hold or charge that are shown: a hold may be captured bit by bit, and
/// extended, without end. As many as a page of a list may have.
const HISTORY_MAX: usize = 1_000;

/// A hold or charge and what happened to it.
pub(crate) struct Told {
    /// The hold or charge.
    pub(crate) subject: Hold,
    /// Its entries, oldest first; the newest [`HISTORY_MAX`] if there are more.
    pub(crate) history: Vec<api::Entry>,
    /// Whether there are older ones.
    pub(crate) has_older: bool,
}

/// Reads a hold or charge and its entries.
pub(crate) fn with_history(
    account: &Account,
    target: Target,
    (history, now): (&dyn HistoryReader, LogTime),
    shown: &Shown<'_>,
) -> Result<Told, Refusal> {
    let failed = |error| Refusal::of_history(&error);
    let subject = account.hold(target, now, history).map_err(failed)?;
    let not_found = match target {
        Target::Hold(_) => Code::HoldNotFound,
        Target::Charge(_) => Code::ChargeNotFound,
    };
    let subject = subject.ok_or_else(|| Refusal::not_found(not_found))?;
    let mut entries = Vec::new();
    let mut next = Some(subject.changed_by);
    while let Some(sequence) = next.filter(|_| entries.len() < HISTORY_MAX) {
        let Some(hashed) = account.entry(sequence, history).map_err(failed)? else { break };
        next = hashed.entry.fact.hold().and_then(|hold| hold.changed_before);
        entries.push(shown.entry(&hashed)?);
    }
    entries.reverse();
    Ok(Told { subject, history: entries, has_older: next.is_some() })
}

async fn list(call: Call) -> Handled {
    let query: HoldsQuery = call.query()?;
    let account = call.account(query.unit.0.clone())?;
    let page = Page::open(query.scope(&account.tenant), query.limit, query.cursor.as_ref())?;
    let owner = call.owner();
    let name = account.clone();
    // A hold names the entry that changed it last, so its end must be written down.
    let list = call.study_written(&account, move |account, history, now| {
        let shown = Shown::new(&name, &owner).with_homes(account.homes());
        let filter = Filter { state: query.state, reference: query.reference };
        let holds = match filter.state {
            Some(HoldStatus::Active) => live_holds(account, &page, &filter),
            _ => all_holds(account, (history, now), &page, &filter)?,
        };
        page.close(&holds, |hold| shown.hold(hold))
    });
    Ok(Reply::read(&list.await?)?)
}

struct Filter {
    state: Option<HoldStatus>,
    reference: Option<api::Reference>,
}

impl Filter {
    fn admits(&self, hold: &Hold) -> bool {
        let status = convert::hold_status(hold.state);
        let reference = self.reference.as_ref().map(api::Reference::as_str);
        self.state.is_none_or(|wanted| wanted == status)
            && (reference.is_none() || hold.reference.as_deref() == reference)
    }
}

/// The live holds of a page. They are in memory, so the filter is looked up in all of them.
fn live_holds(account: &Account, page: &Page, filter: &Filter) -> Found<Hold> {
    let mut newest = VecDeque::new();
    let before = |hold: &&Hold| page.admits(hold.number.0);
    for hold in account.holds_from(Bound::Unbounded).take_while(before) {
        if filter.admits(hold) {
            newest.push_front(hold);
            newest.truncate(page.limit() + 1);
        }
    }
    let items: Vec<Hold> = newest.iter().take(page.limit()).map(|hold| (*hold).clone()).collect();
    let next = (newest.len() > items.len()).then(|| items.last().map(|hold| hold.number.0));
    Found { items, next: next.flatten() }
}

/// How many entries a page of holds may look through. A page of a rare filter is then short, or
/// empty, and goes on behind what was looked through.
const ENTRIES_SCANNED_MAX: usize = 5_000;

/// The holds of a page, ended or not: by the entries that made them, newest first.
fn all_holds(
    account: &Account,
    (history, now): (&dyn HistoryReader, LogTime),
    page: &Page,
    filter: &Filter,
) -> Result<Found<Hold>, Refusal> {
    let failed = |error| Refusal::of_history(&error);
    let mut found = Found { items: Vec::new(), next: None };
    let Some(from) = page.newest(account.head().sequence) else { return Ok(found) };
    let entries = account.entries_back_from(from, history).map_err(failed)?;
    for (scanned, entry) in entries.enumerate() {
        let entry = entry.map_err(failed)?.entry;
        if found.items.len() == page.limit() || scanned == ENTRIES_SCANNED_MAX {
            found.next = Some(Sequence(entry.sequence.0.saturating_add(1)));
            break;
        }
        let (Fact::Authorized(_) | Fact::JobCreated(_)) = &entry.fact else { continue };
        let hold =
            account.hold(Target::Hold(HoldNumber(entry.sequence)), now, history).map_err(failed)?;
        found.items.extend(hold.filter(|hold| filter.admits(hold)));
    }
    Ok(found)
}
