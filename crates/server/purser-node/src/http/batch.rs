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
    ChargeId, Figures, HoldId, ProblemCode as Code, SubjectId, paths,
};
use purser_ledger::{
    AccountName, Answer, Command, HoldNumber, Item, Ledger, Operation as Asked, Outcome, Target,
    codec,
};
use purser_raft::{Group, GroupId, NodeId, ProposeError, Role};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::http::call::{Call, Remarks};
use crate::http::convert::{self, Shown, debt_added};
use crate::http::describe::{Description, Tag};
use crate::http::forward::{ForwardError, HOPS_MAX};
use crate::http::operation::Operation;
use crate::http::problem::{NotDone, Refusal, Replayed};
use crate::http::reply::{DECIDED_BY, Reply};
use crate::http::routes::{Access, Handled, Routes, Verb};
use crate::http::routing::Decision;

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
    let is_decided = results.iter().any(|result| result.is_decided);
    Ok(Reply::as_written(join(&results), is_decided.then_some(Replayed(false))))
}

/// The result of one item.
struct Written {
    /// As it stands in the answer.
    bytes: Bytes,
    /// Whether the log decided it.
    is_decided: bool,
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
}

impl Entrant {
    fn read(call: &Call, text: &BatchItemText) -> Result<Self, Refusal> {
        let BatchItem { tenant, unit, idempotency_key, operation } = text.read()?;
        call.admit(&tenant)?;
        let item =
            Item { context: call.context(idempotency_key), operation: asked(call, &operation) };
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
        Ok(Self { account: AccountName { tenant, unit }, item, operation })
    }
}

fn asked(call: &Call, operation: &BatchOperation) -> Asked {
    let hold = |id: &HoldId| HoldNumber(call.numbered(id.sequence, &id.owner));
    let charge = |id: &ChargeId| HoldNumber(call.numbered(id.sequence, &id.owner));
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
        BatchOperation::Refund(subject, request) => convert::refund(target(subject), request),
        BatchOperation::Reclaim(subject, _) => convert::reclaim(target(subject)),
    }
}

/// All items or none, as one command.
async fn atomic(call: &Call, texts: &[BatchItemText]) -> Result<Vec<Written>, NotDone> {
    let mut items = Vec::with_capacity(texts.len());
    let mut operations = Vec::with_capacity(texts.len());
    let mut account: Option<AccountName> = None;
    for (place, text) in texts.iter().enumerate() {
        let entrant = Entrant::read(call, text).map_err(|refusal| at_item(refusal, place))?;
        if account.get_or_insert_with(|| entrant.account.clone()) != &entrant.account {
            let detail = "the items of an atomic batch must be of one tenant and unit";
            return Err(at_item(Refusal::invalid(detail), place).into());
        }
        items.push(entrant.item);
        operations.push(entrant.operation);
    }
    let account = account.ok_or_else(|| Refusal::invalid("a batch has at least one item"))?;
    let outcomes = call.propose(&account, items).await?;
    let results = operations.iter().zip(outcomes);
    Ok(results.map(|(operation, outcome)| shown(call, &account, operation, outcome)).collect())
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
    command: Bytes,
    operation: BatchOperation,
}

/// What came of one attempt at an item.
enum Step {
    Done(Spot, Written),
    /// Nothing happened: another node leads, or none does.
    Again(Pending),
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
            Self::Again(item) => item.place,
        }
    }
}

impl Pending {
    fn done(self, result: Written) -> Step {
        Step::Done(Spot { place: self.place, account: self.account }, result)
    }
}

/// Each item by itself.
async fn independent(call: &Call, texts: Vec<BatchItemText>) -> Vec<Written> {
    let mut results: BTreeMap<usize, Written> = BTreeMap::new();
    let mut pending = Vec::with_capacity(texts.len());
    for (place, text) in texts.into_iter().enumerate() {
        match Entrant::read(call, &text) {
            Ok(Entrant { account, item, operation }) => {
                let command = Command::at_home(account.clone(), vec![item]);
                let command = Bytes::from(codec::encode(&command));
                pending.push(Pending { place, text, account, command, operation });
            }
            Err(refusal) => drop(results.insert(place, refused(call, refusal))),
        }
    }
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
    results.into_values().collect()
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
    let here = join_all(here.into_iter().map(|item| propose(call, item)));
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

async fn propose(call: &Call, item: Pending) -> Step {
    let group = call.api.groups().of(&item.account);
    match group.propose(item.command.clone(), call.meta.deadline).await {
        Ok(Answer::Account(mut outcomes)) => {
            let result = match outcomes.pop() {
                Some(outcome) => shown(call, &item.account, &item.operation, outcome),
                None => refused(call, Refusal::internal("an item without an outcome")),
            };
            item.done(result)
        }
        Ok(Answer::Swept { .. }) => {
            let refusal = Refusal::internal("an item was answered like a sweep");
            item.done(refused(call, refusal))
        }
        Err(ProposeError::NotLeader { .. }) => Step::Again(item),
        Err(error) => item.done(refused(call, Refusal::of_propose(&error))),
    }
}

/// A batch's answer whose results stay as they are written.
#[derive(Deserialize)]
struct WrittenAnswer {
    results: Vec<Box<RawValue>>,
}

/// Sends items to the node that leads their shards, as a batch of their own.
async fn send(call: &Call, node: NodeId, items: Vec<Pending>) -> Vec<Step> {
    let texts = items.iter().map(|item| item.text.clone()).collect();
    let body = serde_json::to_vec(&BatchRequest { items: texts, atomic: false });
    let (Ok(body), Some(base)) = (body, call.api.base_url(node, &call.parts.uri)) else {
        return items.into_iter().map(Step::Again).collect();
    };
    let path = PathAndQuery::from_static(paths::BATCH);
    let sent = call.api.forwarder().send(call, base, path, body.into()).await;
    let answer = match sent {
        Ok((response, body)) if response.status().is_success() => {
            let is_decided = response.headers().contains_key(DECIDED_BY);
            let answer = serde_json::from_slice::<WrittenAnswer>(&body).ok();
            answer.map(|answer| (answer.results, is_decided))
        }
        // The other node has answered that nothing happened.
        Ok((response, _)) if response.status() == StatusCode::SERVICE_UNAVAILABLE => {
            return items.into_iter().map(Step::Again).collect();
        }
        Err(ForwardError::NotSent) => return items.into_iter().map(Step::Again).collect(),
        Ok(_) | Err(ForwardError::MaybeSent) => None,
    };
    match answer {
        Some((results, is_decided)) if results.len() == items.len() => {
            let written = |(item, result): (Pending, Box<RawValue>)| {
                let bytes = Bytes::from(result.get().to_owned());
                item.done(Written { bytes, is_decided })
            };
            items.into_iter().zip(results).map(written).collect()
        }
        _ => {
            let unknown = |item: Pending| item.done(refused(call, Refusal::outcome_unknown()));
            items.into_iter().map(unknown).collect()
        }
    }
}

/// The result of an item that was decided.
fn shown(
    call: &Call,
    account: &AccountName,
    operation: &BatchOperation,
    outcome: Outcome,
) -> Written {
    let owner = call.api.owner();
    let answered = Decision::of(outcome, owner).and_then(|decision| {
        let shown = Shown::new(account, owner);
        let (status, body) = answer(&shown, operation, &decision)?;
        if !decision.replayed.0 {
            call.api.metrics().record_debt_added(debt_added(&decision.receipt));
            if matches!(&body, BatchBody::Capture(capture) if capture.late) {
                call.api.metrics().record_late_capture();
            }
        }
        Ok(BatchResult { status, replayed: decision.replayed.0, body })
    });
    let written = answered.map_or_else(|refusal| refused(call, refusal), |result| written(&result));
    Written { is_decided: true, ..written }
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
    let replayed = refusal.decision() == Some(Replayed(true));
    let problem = refusal.into_problem(&call.meta.request_id);
    written(&BatchResult { status: problem.status, replayed, body: BatchBody::Problem(problem) })
}

/// A result that the log has not decided.
fn written(result: &BatchResult) -> Written {
    let bytes = serde_json::to_vec(result).expect("a result is made of texts and numbers");
    Written { bytes: bytes.into(), is_decided: false }
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
        Pending { place, text, account: account(tenant), command: Bytes::new(), operation }
    }

    #[test]
    fn an_item_is_not_decided_after_one_behind_it() {
        let result = || Written { bytes: Bytes::new(), is_decided: true };
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
            Step::Again(item) => Some(is_overtaken(&last_done, item)),
        });
        let overtaken: Vec<_> = overtaken.collect();
        assert_eq!(overtaken, [None, Some(true), Some(false), None, Some(false)]);
    }
}
