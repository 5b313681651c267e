//! Batches: up to 1,000 operations in one request.
//!
//! Items of an atomic batch are one command. All others are commands of their own, proposed at
//! once, in their order; those whose shards other nodes lead go there as smaller batches. So one
//! item's refusal, or one node's absence, is no other item's affair.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::future::join_all;
use hyper::StatusCode;
use hyper::http::uri::PathAndQuery;
use purser_api::{
    BatchAnswer, BatchBody, BatchItem, BatchItemText, BatchOperation, BatchRequest, BatchResult,
    Figures, ProblemCode as Code, SubjectId, paths,
};
use purser_ledger::{
    AccountName, Answer, Command, HoldNumber, Item, Operation as Asked, Outcome, Target, codec,
};
use purser_raft::{NodeId, ProposeError, Role};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::http::call::{Call, Remarks};
use crate::http::convert::{self, Shown, debt_added};
use crate::http::describe::{Description, Tag};
use crate::http::forward::{ForwardError, HOPS_MAX};
use crate::http::operation::Operation;
use crate::http::problem::{NotDone, Refusal, Replayed};
use crate::http::reply::Reply;
use crate::http::routes::{Access, Handled, Routes, Verb};
use crate::http::routing::Decision;

/// Declares the call.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    routes.call(
        (Verb::Post, paths::BATCH),
        Operation::Batch,
        Description::new(
            Access::ASK,
            Tag::Spend,
            "Does several operations, each under its own key.",
        )
        .body::<BatchRequest>()
        .answers::<BatchAnswer>(200)
        .refuses(&[Code::Overloaded, Code::OutcomeUnknown]),
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
    Ok(Reply::decided_as_written(join(&results), Replayed(false)))
}

/// The body of the answer, from results that are written already.
fn join(results: &[Bytes]) -> Bytes {
    const OPENING: &[u8] = br#"{"results":["#;
    let bytes: usize = results.iter().map(|result| result.len() + 1).sum();
    let mut body = Vec::with_capacity(OPENING.len() + bytes + 2);
    body.extend_from_slice(OPENING);
    for (place, result) in results.iter().enumerate() {
        if place > 0 {
            body.push(b',');
        }
        body.extend_from_slice(result);
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
            Item { context: call.context(idempotency_key), operation: asked(call, &operation)? };
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

fn asked(call: &Call, operation: &BatchOperation) -> Result<Asked, Refusal> {
    let hold = |id: &purser_api::HoldId| {
        call.own(id.sequence, &id.owner, Code::HoldNotFound).map(HoldNumber)
    };
    let target = |subject: &SubjectId| match subject {
        SubjectId::Hold(id) => hold(id).map(Target::Hold),
        SubjectId::Charge(id) => {
            let number = call.own(id.sequence, &id.owner, Code::ChargeNotFound);
            number.map(HoldNumber).map(Target::Charge)
        }
    };
    Ok(match operation {
        BatchOperation::Authorize(request) => convert::authorize(request),
        BatchOperation::Charge(request) => convert::charge(request),
        BatchOperation::Capture(id, request) => convert::capture(hold(id)?, request),
        BatchOperation::Release(id, _) => convert::release(hold(id)?),
        BatchOperation::Extend(id, request) => convert::extend(hold(id)?, request),
        BatchOperation::Refund(subject, request) => convert::refund(target(subject)?, request),
        BatchOperation::Reclaim(subject, _) => convert::reclaim(target(subject)?),
    })
}

/// All items or none, as one command.
async fn atomic(call: &Call, texts: &[BatchItemText]) -> Result<Vec<Bytes>, NotDone> {
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
    Done(usize, Bytes),
    /// Nothing happened: another node leads, or none does.
    Again(Pending),
}

/// Each item by itself.
async fn independent(call: &Call, texts: Vec<BatchItemText>) -> Vec<Bytes> {
    let mut results: Vec<Bytes> = vec![Bytes::new(); texts.len()];
    let mut pending = Vec::with_capacity(texts.len());
    for (place, text) in texts.into_iter().enumerate() {
        match Entrant::read(call, &text) {
            Ok(Entrant { account, item, operation }) => {
                let command = Command::Account { account: account.clone(), items: vec![item] };
                let command = Bytes::from(codec::encode(&command));
                pending.push(Pending { place, text, account, command, operation });
            }
            Err(refusal) => put(&mut results, place, refused(call, refusal)),
        }
    }
    while !pending.is_empty() {
        for step in attempt(call, std::mem::take(&mut pending)).await {
            match step {
                Step::Done(place, result) => put(&mut results, place, result),
                Step::Again(item) => pending.push(item),
            }
        }
        let Some(first) = pending.first() else { break };
        let group = call.api.groups().of(&first.account);
        if call.wait_for_change(group).await.is_err() {
            for item in pending.drain(..) {
                put(&mut results, item.place, refused(call, Refusal::not_ready()));
            }
        }
    }
    results
}

fn put(results: &mut [Bytes], place: usize, result: Bytes) {
    *results.get_mut(place).expect("places count the items of the batch") = result;
}

/// Tries all items once: here, or where their leaders are.
async fn attempt(call: &Call, items: Vec<Pending>) -> Vec<Step> {
    let mut here = Vec::new();
    let mut there: BTreeMap<NodeId, Vec<Pending>> = BTreeMap::new();
    for item in items {
        match leader_elsewhere(call, &item.account) {
            Some(node) => there.entry(node).or_default().push(item),
            None => here.push(item),
        }
    }
    let here = join_all(here.into_iter().map(|item| propose(call, item)));
    let there = join_all(there.into_iter().map(|(node, items)| send(call, node, items)));
    let (mut steps, sent) = tokio::join!(here, there);
    steps.extend(sent.into_iter().flatten());
    steps
}

/// Which other node leads an account's shard, if that is known and this batch may still travel.
fn leader_elsewhere(call: &Call, account: &AccountName) -> Option<NodeId> {
    let status = call.api.groups().of(account).status();
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
            Step::Done(item.place, result)
        }
        Ok(Answer::Swept { .. }) => {
            let refusal = Refusal::internal("an item was answered like a sweep");
            Step::Done(item.place, refused(call, refusal))
        }
        Err(ProposeError::NotLeader { .. }) => Step::Again(item),
        Err(error) => Step::Done(item.place, refused(call, Refusal::of_propose(&error))),
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
            serde_json::from_slice::<WrittenAnswer>(&body).ok()
        }
        // The other node has answered that nothing happened.
        Ok((response, _)) if response.status() == StatusCode::SERVICE_UNAVAILABLE => {
            return items.into_iter().map(Step::Again).collect();
        }
        Err(ForwardError::NotSent) => return items.into_iter().map(Step::Again).collect(),
        Ok(_) | Err(ForwardError::MaybeSent) => None,
    };
    match answer {
        Some(answer) if answer.results.len() == items.len() => {
            let written = |(item, result): (Pending, Box<RawValue>)| {
                Step::Done(item.place, Bytes::from(result.get().to_owned()))
            };
            items.into_iter().zip(answer.results).map(written).collect()
        }
        _ => {
            let unknown =
                |item: Pending| Step::Done(item.place, refused(call, Refusal::outcome_unknown()));
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
) -> Bytes {
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
    answered.map_or_else(|refusal| refused(call, refusal), |result| written(&result))
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
fn refused(call: &Call, refusal: Refusal) -> Bytes {
    let replayed = refusal.decision() == Some(Replayed(true));
    let problem = refusal.into_problem(&call.meta.request_id);
    written(&BatchResult { status: problem.status, replayed, body: BatchBody::Problem(problem) })
}

fn written(result: &BatchResult) -> Bytes {
    Bytes::from(serde_json::to_vec(result).expect("a result is made of texts and numbers"))
}
