//! Usage events: taken in one by one, wherever each is decided.
//!
//! ```text
//!  event ─┬─ names a hold of a region ─▶ that region's book: a capture under a key of the event's own
//!         │                              └ refused ─▶ home, which keeps it for people
//!         └─ anything else ────────────▶ home
//! ```
//!
//! One event's refusal is no other event's affair. Where one was not decided, because somebody could not
//! be reached, the others are taken all the same and the call fails: all of them are to be sent again,
//! and those that were taken are duplicates then.

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use hyper::http::uri::PathAndQuery;
use purser_api::{
    EventText, EventVerdict, EventsAnswer, EventsQuery, EventsRequest, HoldId, Problem,
    ProblemCode as Code, UsageEvent, VerdictKind, paths,
};
use purser_ledger::{
    AccountName, Context, Event, Fact, HoldNumber, Item, Operation as Asked, Rejection,
};
use purser_raft::NodeId;
use purser_types::{Credits, Generation, Owner, Region};

use crate::http::call::Call;
use crate::http::convert::{self, debt_added};
use crate::http::describe::{Description, Tag};
use crate::http::forward::{ForwardError, HOPS_MAX};
use crate::http::operation::Operation;
use crate::http::problem::Refusal;
use crate::http::reply::Reply;
use crate::http::routes::{Access, Handled, Routes, Verb};
use crate::http::routing::Decision;
use crate::http::seat::{Place, Purpose, Seat};
use crate::http::spending::{Elsewhere, Seated};

/// How many events of a call are on their way at once. They are begun in their order.
const PARALLEL: usize = 64;

/// Declares the call.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    routes.call(
        (Verb::Post, paths::EVENTS),
        Operation::TakeEvents,
        Description::new(
            Access::SPEND_EACH,
            Tag::Spend,
            "Takes usage events in, a CloudEvent or a list of them, each once however often it is sent.",
        )
        .query::<EventsQuery>()
        .body::<EventsRequest>()
        .answers::<EventsAnswer>(200)
        .refuses(&[Code::HomeUnreachable, Code::OutcomeUnknown, Code::TooManyEventsParked])
        .refuses(&[Code::TenantNotFound]),
        events,
    )
}

async fn events(call: Call) -> Handled {
    let query: EventsQuery = call.query()?;
    let verdicts = match EventsRequest::read(call.body()).map_err(Refusal::from)? {
        EventsRequest::One(text) => vec![take(&call, &text, query.at_home).await?],
        EventsRequest::Batch(texts) => {
            let taking: Vec<_> =
                texts.iter().map(|text| take_of_batch(&call, text, query.at_home)).collect();
            let taken: Vec<_> = stream::iter(taking).buffered(PARALLEL).collect().await;
            taken.into_iter().collect::<Result<_, Refusal>>()?
        }
    };
    Ok(Reply::read(&EventsAnswer { verdicts })?)
}

/// The status from which on a refusal says nothing about the event itself.
const FAULTS_FROM: u16 = 500;

/// Takes an event of a batch in. What is wrong with it is its verdict.
async fn take_of_batch(
    call: &Call,
    text: &EventText,
    at_home: bool,
) -> Result<EventVerdict, Refusal> {
    match take(call, text, at_home).await {
        Err(refusal) if refusal.code().status() < FAULTS_FROM => {
            let ((source, id), reason) = (text.name(), refusal.code().name().to_owned());
            let (verdict, reason) = (VerdictKind::Invalid, Some(reason));
            Ok(EventVerdict { source, id, verdict, reason })
        }
        taken => taken,
    }
}

/// An event that was read and let in.
struct Taken<'a> {
    call: &'a Call,
    text: &'a EventText,
    event: UsageEvent,
    account: AccountName,
    /// Whether home takes it in whatever it names.
    at_home: bool,
}

async fn take(call: &Call, text: &EventText, at_home: bool) -> Result<EventVerdict, Refusal> {
    let event = text.read()?;
    call.admit(&event.subject.0)?;
    // What is wrong with it is said here, wherever it is decided.
    convert::event(&event, |id| (HoldNumber(id.sequence), Some(id.owner)))?;
    let account = AccountName { tenant: event.subject.0.clone(), unit: event.data.unit.0.clone() };
    let mut taken = Taken { call, text, event, account, at_home };
    loop {
        match taken.step().await? {
            Step::Done(verdict) => return Ok(verdict),
            Step::ToHome => taken.at_home = true,
            Step::Again => {
                let group = call.api.groups().of(&taken.account);
                if !call.wait_for_change(group).await {
                    return Err(Refusal::not_ready());
                }
            }
        }
    }
}

/// What came of one attempt.
enum Step {
    Done(EventVerdict),
    /// The region of the hold has refused it.
    ToHome,
    /// Nothing has happened.
    Again,
}

impl Taken<'_> {
    async fn step(&self) -> Result<Step, Refusal> {
        let Some(regions) = self.call.api.regions() else { return self.record().await };
        let owner = self.owner_of_hold();
        let purpose = if owner.is_some() { Purpose::GoOn } else { Purpose::Other };
        match self.call.place_of(regions, &self.account, owner, purpose).await? {
            Place::Here(Seat::Allocation(generation)) => self.capture(generation).await,
            Place::Here(_) => self.record().await,
            Place::There(region) => {
                self.pass_on(self.call.nodes_of(region, &self.account), region).await
            }
        }
    }

    /// The region's book that decides about the hold that the event names, if one does.
    fn owner_of_hold(&self) -> Option<Owner> {
        let uses_nothing = self.event.data.amount == Some(Credits::ZERO.into());
        let id = self.event.data.hold_id.as_ref().filter(|_| !self.at_home && !uses_nothing);
        id.map(|id| id.owner).filter(|owner| owner.generation != Generation::HOME)
    }

    fn read(&self, seat: Seat) -> Result<Event, Refusal> {
        let seated = self.call.owner_in(seat);
        convert::event(&self.event, |id: &HoldId| {
            if id.owner.generation != Generation::HOME {
                return (HoldNumber(id.sequence), Some(id.owner));
            }
            let account = (&self.account, &seated);
            (HoldNumber(self.call.numbered_by(account, id.sequence, &id.owner)), None)
        })
    }

    fn context(&self) -> Context {
        Context {
            actor: Some(self.call.caller.name.clone()),
            request_id: Some((&*self.call.meta.request_id).into()),
            ..Context::default()
        }
    }

    /// Has home, which is here, take it in.
    async fn record(&self) -> Result<Step, Refusal> {
        let event = self.read(Seat::Home)?;
        let item = Item::new(self.context(), Asked::RecordEvent(Box::new(event)));
        match self.settle(Seat::Home, item).await {
            Ok(done) => {
                self.note(&done);
                let receipt = &done.receipt;
                Ok(Step::Done(match &receipt.entry.fact {
                    Fact::EventParked(parked) => {
                        let reason = convert::park_reason(&parked.why);
                        self.verdict(VerdictKind::DeadLettered, Some(reason))
                    }
                    _ if receipt.is_found => self.verdict(VerdictKind::Duplicate, None),
                    _ => self.verdict(VerdictKind::Applied, None),
                }))
            }
            Err(elsewhere) => self.follow(elsewhere).await,
        }
    }

    /// Has the book of this region that made the hold capture it.
    async fn capture(&self, generation: Generation) -> Result<Step, Refusal> {
        let seat = Seat::Allocation(generation);
        let event = self.read(seat)?;
        let item = event
            .as_capture(self.context())
            .ok_or_else(|| Refusal::internal("an event without a hold came to a region's book"))?;
        match self.settle(seat, item).await {
            Ok(done) => {
                self.note(&done);
                let again = done.decided.replayed || done.receipt.is_found;
                let kind = if again { VerdictKind::Duplicate } else { VerdictKind::Applied };
                Ok(Step::Done(self.verdict(kind, None)))
            }
            Err(Elsewhere::Refused(refusal)) if refusal.code().status() < FAULTS_FROM => {
                Ok(Step::ToHome)
            }
            Err(elsewhere) => self.follow(elsewhere).await,
        }
    }

    async fn settle(&self, seat: Seat, item: Item) -> Result<Decision, Elsewhere> {
        let consistency = purser_api::Consistency::Local;
        self.call.settle(Seated { account: &self.account, seat, item, consistency }).await
    }

    /// Counts what has happened now.
    fn note(&self, done: &Decision) {
        if !done.decided.replayed && !done.receipt.is_found {
            self.call.api.metrics().record_debt_added(debt_added(&done.receipt));
        }
    }

    async fn follow(&self, elsewhere: Elsewhere) -> Result<Step, Refusal> {
        match elsewhere {
            Elsewhere::Leader(Some(node)) if node != self.call.api.node() => {
                match self.ask(node).await {
                    Err(ForwardError::NotSent) => Ok(Step::Again),
                    Err(ForwardError::MaybeSent) => Err(Refusal::outcome_unknown()),
                    Ok(answered) => answered.map(Step::Done),
                }
            }
            Elsewhere::Leader(_) => Ok(Step::Again),
            Elsewhere::Region(region) => {
                self.pass_on(self.call.nodes_of(region, &self.account), region).await
            }
            Elsewhere::Refused(refusal) => Err(refusal),
        }
    }

    /// Has the first of some nodes take it in that hears of it.
    async fn pass_on(&self, nodes: Vec<NodeId>, region: Region) -> Result<Step, Refusal> {
        for node in nodes {
            match self.ask(node).await {
                Err(ForwardError::NotSent) => (),
                Err(ForwardError::MaybeSent) => return Err(Refusal::outcome_unknown()),
                Ok(answered) => return answered.map(Step::Done),
            }
        }
        Err(Refusal::unreachable(region))
    }

    /// Sends the event to another node by itself, in the caller's name.
    async fn ask(&self, node: NodeId) -> Result<Result<EventVerdict, Refusal>, ForwardError> {
        let call = self.call;
        let path = if self.at_home {
            format!("{}?at_home=true", paths::EVENTS)
        } else {
            paths::EVENTS.to_owned()
        };
        let path = PathAndQuery::try_from(path).map_err(|_unreadable| ForwardError::NotSent)?;
        // A batch of one: so what is wrong with the event is a verdict there as well.
        let body = serde_json::to_vec(&[self.text]).map_err(|_unwritable| ForwardError::NotSent)?;
        let placed = call.placed(&self.account.tenant);
        let onward = call.onward(node, placed).filter(|_| call.meta.hops < HOPS_MAX);
        let onward = onward.ok_or(ForwardError::NotSent)?;
        let (response, body) =
            call.api.forwarder().send(call, onward, (path, Bytes::from(body))).await?;
        if response.status() == hyper::StatusCode::SERVICE_UNAVAILABLE {
            // Home has decided that there is no room. Anything else says that it was not asked.
            let problem = serde_json::from_slice::<Problem>(&body).ok();
            let is_full = problem.is_some_and(|it| it.code == Code::TooManyEventsParked.name());
            let refused =
                || Refusal::of_rejection(&Rejection::TooManyEventsParked, call.api.owner());
            return if is_full { Ok(Err(refused())) } else { Err(ForwardError::NotSent) };
        }
        let answer = serde_json::from_slice::<EventsAnswer>(&body).ok();
        let answer = answer.filter(|_| response.status().is_success());
        let verdict = answer.and_then(|answer| answer.verdicts.into_iter().next());
        Ok(verdict.ok_or_else(Refusal::outcome_unknown))
    }

    /// The verdict on an event that was decided here.
    fn verdict(&self, verdict: VerdictKind, reason: Option<&str>) -> EventVerdict {
        self.call.api.metrics().record_event(verdict);
        EventVerdict {
            source: self.event.source.clone(),
            id: self.event.id.clone(),
            verdict,
            reason: reason.map(str::to_owned),
        }
    }
}
