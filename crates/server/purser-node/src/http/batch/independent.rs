//! Items that are decided each by itself: here, by another node of this region, or by another region.
//!
//! Invariant: items of one account that are decided are decided in their order. An item that was
//! not taken, because the leadership moved, is not tried again once one behind it is done.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use purser_api::{BatchItemText, BatchOperation, ProblemCode as Code};
use purser_ledger::{AccountName, Item, Ledger};
use purser_raft::{Group, GroupId, NodeId};
use purser_types::Region;

use super::entrant::{Entrant, consistency_of};
use super::sending::{send, send_away};
use super::written::{Written, refused, shown};
use crate::http::call::Call;
use crate::http::forward::HOPS_MAX;
use crate::http::problem::Refusal;
use crate::http::seat::{Place, Seat};
use crate::http::spending::{Elsewhere, Seated};

/// An item that waits for its result.
pub(super) struct Pending {
    pub(super) place: usize,
    pub(super) text: BatchItemText,
    pub(super) account: AccountName,
    seat: Seat,
    pub(super) item: Item,
    operation: BatchOperation,
}

/// What came of one attempt at an item.
pub(super) enum Step {
    Done(Spot, Written),
    /// Nothing happened: another node leads, or none does.
    Again(Pending),
    /// Nothing happened here: another region decides it.
    Away(Region, Pending),
}

/// Where an item stands: its place in the batch, and the account whose order it is part of.
pub(super) struct Spot {
    pub(super) place: usize,
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
    pub(super) fn seated(&self) -> Seated<'_> {
        Seated {
            account: &self.account,
            seat: self.seat,
            item: self.item.clone(),
            consistency: consistency_of(&self.operation),
        }
    }

    pub(super) fn done(self, result: Written) -> Step {
        Step::Done(Spot { place: self.place, account: self.account }, result)
    }
}

/// Each item by itself.
pub(super) async fn independent(call: &Call, texts: Vec<BatchItemText>) -> Vec<Written> {
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
    if group.is_leading() || HOPS_MAX <= call.meta.hops {
        return None;
    }
    group.leader().filter(|leader| *leader != call.api.node())
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use purser_api::BatchRequest;
    use purser_ledger::Operation as Asked;
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
