//! Passing items on to other nodes, as smaller batches. Their results stay as they are written.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::future::join_all;
use hyper::StatusCode;
use hyper::http::uri::PathAndQuery;
use purser_api::{BatchRequest, paths};
use purser_raft::NodeId;
use purser_types::Region;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::independent::{Pending, Step};
use super::written::{Written, refused};
use crate::http::call::Call;
use crate::http::forward::ForwardError;
use crate::http::problem::Refusal;
use crate::http::reply::read_decided;
use crate::http::spending::Shortfall;

/// Passes items on to other regions, as batches of their own.
pub(super) async fn send_away(
    call: &Call,
    away: BTreeMap<Region, Vec<Pending>>,
) -> BTreeMap<usize, Written> {
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
pub(super) async fn send(call: &Call, node: NodeId, items: Vec<Pending>) -> Vec<Step> {
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
