//! Batches: up to 1,000 operations in one request.
//!
//! Items of an atomic batch are one command. All others are commands of their own, proposed at
//! once, in their order; those whose shards other nodes lead go there as smaller batches. So one
//! item's refusal, or one node's absence, is no other item's affair.
//!
//! Invariant: items of one account that are decided are decided in their order. An item that was
//! not taken, because the leadership moved, is not tried again once one behind it is done.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::future::join_all;
use hyper::StatusCode;
use hyper::http::uri::PathAndQuery;
use purser_api::{
    BatchAnswer, BatchBody, BatchItem, BatchItemText, BatchOperation, BatchRequest, BatchResult,
    ChargeId, Consistency, Figures, HoldId, ProblemCode as Code, SubjectId, paths,
};
use purser_ledger::{AccountName, HoldNumber, Item, Ledger, Operation as Asked, Outcome, Target};
use purser_raft::{Group, GroupId, NodeId, Role};
use purser_types::{Owner, Region};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::http::call::{Call, Remarks};
use crate::http::convert::{self, Shown, debt_added};
use crate::http::describe::{Description, Tag};
use crate::http::forward::{ForwardError, HOPS_MAX};
use crate::http::operation::Operation;
use crate::http::problem::{Decided, NotDone, Refusal};
use crate::http::reply::{Reply, read_decided};
use crate::http::routes::{Access, Handled, Routes, Verb};
use crate::http::routing::Decision;
use crate::http::seat::{Place, Purpose, Seat};
use crate::http::spending::{Elsewhere, Seated, Shortfall};

/// Declares the call.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    routes.call(
        (Verb::Post, paths::BATCH),
        Operation::Batch,
        Description::new(
            Access::SPEND_EACH,
            Tag::Spend,
            "Does several operations, each under its own key.",
        )
        .body::<BatchRequest>()
        .answers::<BatchAnswer>(200)
        .refuses(&[Code::OutcomeUnknown]),
        batch,
    )
}

async fn batch(call: Call) -> Handled {
    call.no_query()?;
    let request: BatchRequest = call.json()?;
    let results = if request.atomic {
        atomic(&call, &request.items).await?
    } else {
        independent(&call, request.items).await
    };
    Ok(Reply::as_written(join(&results), decided_by(&results)))
}

/// The result of one item.
struct Written {
    /// As it stands in the answer.
    bytes: Bytes,
    /// Its status; 0 if another node gave it and it cannot be read.
    status: u16,
    /// How the log decided it, if it did, and that is known here.
    decided: Option<Decided>,
}

/// Who has decided a batch, if one has decided all of it that was decided. The bound is then the
/// largest.
fn decided_by(results: &[Written]) -> Option<Decided> {
    let mut all = results.iter().filter_map(|result| result.decided);
    let first = Decided { replayed: false, ..all.next()? };
    all.try_fold(first, |one, other| {
        let is_same = (one.region, one.role) == (other.region, other.role);
        let bound = one.bound.zip(other.bound).map(|(one, other)| one.max(other));
        is_same.then_some(Decided { bound, ..one })
    })
}

/// The body of the answer, from results that are written already.
fn join(results: &[Written]) -> Bytes {
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

/// An item that was read and let in.
struct Entrant {
    account: AccountName,
    item: Item,
    operation: BatchOperation,
    place: Place,
}

impl Entrant {
    async fn read(call: &Call, text: &BatchItemText) -> Result<Self, Refusal> {
        let BatchItem { tenant, unit, idempotency_key, operation } = text.read()?;
        call.admit(&tenant)?;
        let account = AccountName { tenant, unit };
        let place = match call.api.regions() {
            Some(regions) => {
                let purpose = match operation {
                    BatchOperation::Authorize(_) | BatchOperation::Charge(_) => Purpose::Begin,
                    BatchOperation::Refund(..) | BatchOperation::Reclaim(..) => Purpose::Undo,
                    BatchOperation::Capture(..)
                    | BatchOperation::Release(..)
                    | BatchOperation::Extend(..) => Purpose::Other,
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
        let item =
            Item::new(call.context(idempotency_key), asked(call, (&account, seat), &operation));
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
            BatchOperation::Extend(..) => item,
        };
        Ok(Self { account, item, operation, place })
    }
}

/// Who made the hold or charge that an operation is about.
const fn subject_of(operation: &BatchOperation) -> Option<Owner> {
    match operation {
        BatchOperation::Authorize(_) | BatchOperation::Charge(_) => None,
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
const fn consistency_of(operation: &BatchOperation) -> Consistency {
    match operation {
        BatchOperation::Authorize(request) => request.consistency,
        BatchOperation::Charge(request) => request.consistency,
        _ => Consistency::Local,
    }
}

fn asked(call: &Call, (account, seat): (&AccountName, Seat), operation: &BatchOperation) -> Asked {
    let owner = call.owner_in(seat);
    let seated = (account, &owner);
    let hold = |id: &HoldId| HoldNumber(call.numbered_by(seated, id.sequence, &id.owner));
    let charge = |id: &ChargeId| HoldNumber(call.numbered_by(seated, id.sequence, &id.owner));
    let target = |subject: &SubjectId| match subject {
        SubjectId::Hold(id) => Target::Hold(hold(id)),
        SubjectId::Charge(id) => Target::Charge(charge(id)),
    };
    match operation {
        BatchOperation::Authorize(request) => convert::authorize(request),
        BatchOperation::Charge(request) => convert::charge(request),
        BatchOperation::Capture(id, request) => convert::capture(hold(id), request),
        BatchOperation::Release(id, _) => convert::release(hold(id)),
        BatchOperation::Extend(id, request) => convert::extend(hold(id), request),
        BatchOperation::Refund(subject, request) => {
            convert::refund(target(subject), request, seat.away())
        }
        BatchOperation::Reclaim(subject, _) => convert::reclaim(target(subject), seat.away()),
    }
}

/// All items or none, as one command.
async fn atomic(call: &Call, texts: &[BatchItemText]) -> Result<Vec<Written>, NotDone> {
    let mut items = Vec::with_capacity(texts.len());
    let mut operations = Vec::with_capacity(texts.len());
    let mut first: Option<(AccountName, Place)> = None;
    for (at, text) in texts.iter().enumerate() {
        let read = Entrant::read(call, text).await;
        let Entrant { account, item, operation, place } =
            read.map_err(|refusal| at_item(refusal, at))?;
        let (known, known_place) = first.get_or_insert_with(|| (account.clone(), place));
        if *known != account {
            let detail = "the items of an atomic batch must be of one tenant and unit";
            return Err(at_item(Refusal::invalid(detail), at).into());
        }
        if *known_place != place {
            let detail = "the items of an atomic batch must be decided in one place; holds and \
                          charges of different regions, or of a region and new ones, are not";
            return Err(at_item(Refusal::invalid(detail), at).into());
        }
        items.push(item);
        operations.push(operation);
    }
    let (account, place) =
        first.ok_or_else(|| Refusal::invalid("a batch has at least one item"))?;
    let seat = match (place, call.api.regions()) {
        (Place::Here(Seat::Spend(home)) | Place::There(home), Some(regions)) => {
            // What is new is home's to decide, all of it together.
            for item in items.iter().filter(|_| matches!(place, Place::Here(_))) {
                call.note_for_home(regions, &account, item).await?;
            }
            return Err(call.to_region(regions, home, &account).await);
        }
        (Place::Here(seat), _) => seat,
        (Place::There(_), None) => Seat::Home,
    };
    let outcomes = call.decide_together(&account, seat, items).await?;
    let (decided, homes) = (call.decided_in(seat, &account), call.homes_of(&account));
    let results = operations.iter().zip(outcomes);
    let shown = |(operation, outcome): (&BatchOperation, Outcome)| {
        shown(call, &account, operation, Decision::of(outcome, decided, homes.clone()))
    };
    Ok(results.map(shown).collect())
}

/// Says which item is to blame.
fn at_item(refusal: Refusal, place: usize) -> Refusal {
    let failed_item = u32::try_from(place).ok();
    refusal.with_figures(Figures { failed_item, ..Figures::default() })
}

/// An item that waits for its result.
struct Pending {
    place: usize,
    text: BatchItemText,
    account: AccountName,
    seat: Seat,
    item: Item,
    operation: BatchOperation,
}

/// What came of one attempt at an item.
enum Step {
    Done(Spot, Written),
    /// Nothing happened: another node leads, or none does.
    Again(Pending),
    /// Nothing happened here: another region decides it.
    Away(Region, Pending),
}

/// Where an item stands: its place in the batch, and the account whose order it is part of.
struct Spot {
    place: usize,
    account: AccountName,
}

impl Step {
    fn place(&self) -> usize {
        match self {
            Self::Done(at, _) => at.place,
            Self::Again(item) | Self::Away(_, item) => item.place,
        }
    }
}

impl Pending {
    fn seated(&self) -> Seated<'_> {
        Seated {
            account: &self.account,
            seat: self.seat,
            item: self.item.clone(),
            consistency: consistency_of(&self.operation),
        }
    }

    fn done(self, result: Written) -> Step {
        Step::Done(Spot { place: self.place, account: self.account }, result)
    }
}

/// Each item by itself.
async fn independent(call: &Call, texts: Vec<BatchItemText>) -> Vec<Written> {
    let mut results: BTreeMap<usize, Written> = BTreeMap::new();
    let mut pending = Vec::with_capacity(texts.len());
    let mut there: BTreeMap<Region, Vec<Pending>> = BTreeMap::new();
    for (place, text) in texts.into_iter().enumerate() {
        match Entrant::read(call, &text).await {
            Ok(Entrant { account, item, operation, place: Place::Here(seat) }) => {
                pending.push(Pending { place, text, account, seat, item, operation });
            }
            Ok(Entrant { account, item, operation, place: Place::There(region) }) => {
                let item = Pending { place, text, account, seat: Seat::Home, item, operation };
                there.entry(region).or_default().push(item);
            }
            Err(refusal) => drop(results.insert(place, refused(call, refusal))),
        }
    }
    let sent = send_away(call, there);
    let settled = settle_here(call, pending);
    let (sent, settled) = tokio::join!(sent, settled);
    results.extend(sent);
    results.extend(settled);
    results.into_values().collect()
}

/// Has items decided by this region, and passes on those that another one turns out to decide.
async fn settle_here(call: &Call, mut pending: Vec<Pending>) -> BTreeMap<usize, Written> {
    let mut results = BTreeMap::new();
    let mut away: BTreeMap<Region, Vec<Pending>> = BTreeMap::new();
    while !pending.is_empty() {
        let steps = attempt(call, std::mem::take(&mut pending)).await;
        let last_done = last_done(&steps);
        for step in steps {
            match step {
                Step::Done(at, result) => drop(results.insert(at.place, result)),
                Step::Again(item) if is_overtaken(&last_done, &item) => {
                    let detail = "the leadership moved while the batch was decided, and an item \
                                  behind this one is done; nothing happened";
                    let refusal = Refusal::new(Code::NotReady, detail);
                    results.insert(item.place, refused(call, refusal));
                }
                Step::Again(item) => pending.push(item),
                Step::Away(region, item) => away.entry(region).or_default().push(item),
            }
        }
        let Some(first) = pending.first() else { break };
        let group = call.api.groups().of(&first.account);
        if !call.wait_for_change(group).await {
            for item in pending.drain(..) {
                results.insert(item.place, refused(call, Refusal::not_ready()));
            }
        }
    }
    results.extend(send_away(call, away).await);
    results
}

/// Passes items on to other regions, as batches of their own.
async fn send_away(call: &Call, away: BTreeMap<Region, Vec<Pending>>) -> BTreeMap<usize, Written> {
    let sending = away.into_iter().map(|(region, items)| async move {
        let Some(first) = items.first() else { return Vec::new() };
        let nodes = call.nodes_of(region, &first.account);
        let short = items.iter().filter_map(|item| Some((item.place, item.seated().shortfall()?)));
        let short: BTreeMap<usize, Shortfall> = short.collect();
        let mut left = items;
        let mut done = Vec::new();
        for node in nodes {
            let steps = send(call, node, left).await;
            left = Vec::new();
            for step in steps {
                match step {
                    Step::Done(at, result) => {
                        if let Some(shortfall) = short.get(&at.place) {
                            call.note_passed(shortfall, result.status);
                        }
                        done.push((at.place, result));
                    }
                    Step::Again(item) | Step::Away(_, item) => left.push(item),
                }
            }
            if left.is_empty() {
                break;
            }
        }
        let refusal = |item: Pending| (item.place, refused(call, Refusal::unreachable(region)));
        done.extend(left.into_iter().map(refusal));
        done
    });
    join_all(sending).await.into_iter().flatten().collect()
}

/// The last item of each account that is done.
fn last_done(steps: &[Step]) -> BTreeMap<AccountName, usize> {
    let mut last = BTreeMap::new();
    for step in steps {
        if let Step::Done(at, _) = step {
            let known = last.entry(at.account.clone()).or_insert(at.place);
            *known = at.place.max(*known);
        }
    }
    last
}

/// Whether an item that is not done stands before one of its account that is.
fn is_overtaken(last_done: &BTreeMap<AccountName, usize>, item: &Pending) -> bool {
    last_done.get(&item.account).is_some_and(|done| item.place < *done)
}

/// Tries all items once, in their order: here, or where their leaders are.
async fn attempt(call: &Call, items: Vec<Pending>) -> Vec<Step> {
    let mut here = Vec::new();
    let mut there: BTreeMap<NodeId, Vec<Pending>> = BTreeMap::new();
    // Asked once for each group: items of one account must not part.
    let mut leaders: BTreeMap<GroupId, Option<NodeId>> = BTreeMap::new();
    for item in items {
        let group = call.api.groups().of(&item.account);
        match *leaders.entry(group.id()).or_insert_with(|| leader_elsewhere(call, group)) {
            Some(node) => there.entry(node).or_default().push(item),
            None => here.push(item),
        }
    }
    let here = join_all(here.into_iter().map(|item| settle(call, item)));
    let there = join_all(there.into_iter().map(|(node, items)| send(call, node, items)));
    let (mut steps, sent) = tokio::join!(here, there);
    steps.extend(sent.into_iter().flatten());
    // What is left is tried again in the order of the batch.
    steps.sort_unstable_by_key(Step::place);
    steps
}

/// Which other node leads a group, if that is known and this batch may still travel.
fn leader_elsewhere(call: &Call, group: &Group<Ledger>) -> Option<NodeId> {
    let status = group.status();
    if status.role == Role::Leader || HOPS_MAX <= call.meta.hops {
        return None;
    }
    status.leader.filter(|leader| *leader != call.api.node())
}

async fn settle(call: &Call, item: Pending) -> Step {
    match call.settle(item.seated()).await {
        Ok(decision) => {
            let result = shown(call, &item.account, &item.operation, Ok(decision));
            item.done(result)
        }
        Err(Elsewhere::Leader(_)) => Step::Again(item),
        Err(Elsewhere::Region(region)) => Step::Away(region, item),
        Err(Elsewhere::Refused(refusal)) => {
            let result = shown(call, &item.account, &item.operation, Err(refusal));
            item.done(result)
        }
    }
}

/// A batch's answer whose results stay as they are written.
#[derive(Deserialize)]
struct WrittenAnswer {
    results: Vec<Box<RawValue>>,
}

/// What matters here of a result that stays as it is written.
#[derive(Deserialize)]
struct WrittenResult {
    status: u16,
}

/// Sends items to the node that leads their shards, as a batch of their own.
async fn send(call: &Call, node: NodeId, items: Vec<Pending>) -> Vec<Step> {
    let texts = items.iter().map(|item| item.text.clone()).collect();
    let body = serde_json::to_vec(&BatchRequest { items: texts, atomic: false });
    let placed = items.iter().filter_map(|item| call.placed(&item.account.tenant)).max();
    let (Ok(body), Some(onward)) = (body, call.onward(node, placed)) else {
        return items.into_iter().map(Step::Again).collect();
    };
    let path = PathAndQuery::from_static(paths::BATCH);
    let sent = call.api.forwarder().send(call, onward, (path, body.into())).await;
    let answer = match sent {
        Ok((response, body)) if response.status().is_success() => {
            let decided = read_decided(response.headers(), call.api.owner());
            let answer = serde_json::from_slice::<WrittenAnswer>(&body).ok();
            answer.map(|answer| (answer.results, decided))
        }
        // The other node has answered that nothing happened.
        Ok((response, _)) if response.status() == StatusCode::SERVICE_UNAVAILABLE => {
            return items.into_iter().map(Step::Again).collect();
        }
        Err(ForwardError::NotSent) => return items.into_iter().map(Step::Again).collect(),
        Ok(_) | Err(ForwardError::MaybeSent) => None,
    };
    match answer {
        Some((results, decided)) if results.len() == items.len() => {
            let written = |(item, result): (Pending, Box<RawValue>)| {
                let status = serde_json::from_str(result.get());
                let status = status.map_or(0, |WrittenResult { status }| status);
                let bytes = Bytes::from(result.get().to_owned());
                item.done(Written { bytes, status, decided })
            };
            items.into_iter().zip(results).map(written).collect()
        }
        _ => {
            let unknown = |item: Pending| item.done(refused(call, Refusal::outcome_unknown()));
            items.into_iter().map(unknown).collect()
        }
    }
}

/// The result of an item that was decided, or refused.
fn shown(
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
            if matches!(&body, BatchBody::Capture(capture) if capture.late) {
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
    })
}

/// The result of an item that was not done.
fn refused(call: &Call, refusal: Refusal) -> Written {
    let replayed = refusal.decision().is_some_and(|decided| decided.replayed);
    let problem = refusal.into_problem(&call.meta.request_id);
    written(&BatchResult { status: problem.status, replayed, body: BatchBody::Problem(problem) })
}

/// A result that the log has not decided.
fn written(result: &BatchResult) -> Written {
    let bytes = serde_json::to_vec(result).expect("a result is made of texts and numbers");
    Written { bytes: bytes.into(), status: result.status, decided: None }
}

#[cfg(test)]
mod tests {
    use purser_types::{TenantId, Unit};

    use super::*;

    fn account(tenant: &str) -> AccountName {
        AccountName { tenant: TenantId::parse(tenant).unwrap(), unit: Unit::credits() }
    }

    fn again(place: usize, tenant: &str) -> Pending {
        let json = format!(
            r#"{{"items":[{{"op":"charge","tenant":"{tenant}","amount":1,"idempotency_key":"k"}}]}}"#
        );
        let request: BatchRequest = purser_api::read_body(json.as_bytes()).unwrap();
        let text = request.items[0].clone();
        let operation = text.read().unwrap().operation;
        let item = Item::new(purser_ledger::Context::default(), Asked::Freeze);
        let account = account(tenant);
        Pending { place, text, account, seat: Seat::Home, item, operation }
    }

    #[test]
    fn an_item_is_not_decided_after_one_behind_it() {
        let result = || Written { bytes: Bytes::new(), status: 201, decided: None };
        let steps = [
            again(0, "acme").done(result()),
            Step::Again(again(1, "acme")),
            Step::Again(again(2, "beta")),
            again(3, "acme").done(result()),
            Step::Again(again(4, "acme")),
        ];
        let last_done = last_done(&steps);
        let overtaken = steps.iter().map(|step| match step {
            Step::Done(..) => None,
            Step::Again(item) | Step::Away(_, item) => Some(is_overtaken(&last_done, item)),
        });
        let overtaken: Vec<_> = overtaken.collect();
        assert_eq!(overtaken, [None, Some(true), Some(false), None, Some(false)]);
    }
}
