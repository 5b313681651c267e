//! Carries a call to the leaders of all shards of the region.
//!
//! ```text
//!  asked ─┬─ shards that this node leads: done here
//!         └─ others: ?shard=N, to whoever leads
//! ```
//!
//! One after the other, so that what the first one refuses is not half done. A call that ends in between is
//! answered with what has become of it ([`half_done`]), and the same call again completes it.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use hyper::header::HeaderMap;
use hyper::http::uri::PathAndQuery;
use purser_api::{
    ProblemCode as Code, Reason, WebhookAnswer, WebhookName, WebhookRemoved, WebhooksAnswer, paths,
};
use purser_ledger::{Answer, Command, Ledger, SinkAct, SinkCommand, SinkDone, SinkRefusal, codec};
use purser_raft::{Group, NodeId, ProposeError, ReadError};
use purser_types::{Position, SinkName};
use serde::de::DeserializeOwned;

use super::not_found;
use super::showing::shown;
use crate::feed::Feed;
use crate::http::call::Call;
use crate::http::forward::{ForwardError, HOPS_MAX};
use crate::http::problem::{NotDone, Refusal};
use crate::http::routes::Effect;
use crate::tasks::chain;

/// Why a shard's part is not done on this node.
pub(super) enum NotHere {
    /// It does not lead the shard; perhaps that one does.
    Elsewhere(Option<NodeId>),
    /// It is refused.
    Refused(Refusal),
}

impl From<Refusal> for NotHere {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// What is asked in each shard.
pub(super) trait Asked: Sync {
    /// What a shard answers: what the call answers if only that shard is asked.
    type Part: DeserializeOwned + Send;

    /// Whether it changes anything: then a call that ends half way does not say that nothing happened.
    const CHANGES: bool = false;

    /// The path under which another node is asked for its part.
    fn path(&self, call: &Call) -> String {
        call.parts.uri.path().to_owned()
    }

    /// More that it is asked there, behind `?shard=N`.
    fn more(&self, _shard: u32) -> String {
        String::new()
    }

    /// What another node has answered, with what its headers say.
    fn heard(&self, _headers: &HeaderMap, part: Self::Part) -> Self::Part {
        part
    }

    /// Does it in a shard that this node leads.
    fn here(
        &self,
        call: &Call,
        feed: &Feed,
    ) -> impl Future<Output = Result<Self::Part, NotHere>> + Send;
}

/// The parts of all shards, or of one.
pub(super) async fn everywhere<A: Asked>(
    call: &Call,
    shard: Option<u32>,
    asked: &A,
) -> Result<Vec<A::Part>, NotDone> {
    let feeds = call.api.feeds();
    if let Some(shard) = shard {
        let missing = || Refusal::new(Code::NotFound, "the region has no such shard");
        let feed = feeds.iter().find(|feed| feed.shard() == shard).ok_or_else(missing)?;
        loop {
            match asked.here(call, feed).await {
                Ok(part) => return Ok(vec![part]),
                Err(NotHere::Refused(refusal)) => return Err(refusal.into()),
                Err(NotHere::Elsewhere(leader)) => {
                    call.elsewhere(feed.group(), leader, call.effect).await?;
                }
            }
        }
    }
    let mut parts = Vec::with_capacity(feeds.len());
    for feed in feeds {
        match in_shard(call, feed, asked).await {
            Ok(part) => parts.push(part),
            Err(not_done) if A::CHANGES && !parts.is_empty() => return Err(half_done(not_done)),
            Err(not_done) => return Err(not_done),
        }
    }
    Ok(parts)
}

/// What a call is answered that a shard has not done after others have.
///
/// A refusal is passed on: whoever called has to mend what it names, and then the same call completes the
/// rest. What may be over by itself must not say that nothing happened.
pub(super) fn half_done(not_done: NotDone) -> NotDone {
    let status = match &not_done {
        NotDone::Refused(refusal) => refusal.code().status(),
        NotDone::Relayed(answer) => answer.status().as_u16(),
    };
    match status {
        503.. => Refusal::outcome_unknown().into(),
        _ => not_done,
    }
}

/// One shard's part, by this node or by the one that leads it.
pub(super) async fn in_shard<A: Asked>(
    call: &Call,
    feed: &Feed,
    asked: &A,
) -> Result<A::Part, NotDone> {
    loop {
        let leader = match asked.here(call, feed).await {
            Ok(part) => return Ok(part),
            Err(NotHere::Refused(refusal)) => return Err(refusal.into()),
            Err(NotHere::Elsewhere(leader)) => leader,
        };
        if let Some(leader) = leader.filter(|leader| *leader != call.api.node())
            && let Some(part) = ask(call, (leader, feed.shard()), asked).await?
        {
            return Ok(part);
        }
        if !call.wait_for_change(feed.group()).await {
            return Err(Refusal::not_ready().into());
        }
    }
}

/// Asks another node for its part, in the caller's name; nothing if it has not heard it.
async fn ask<A: Asked>(
    call: &Call,
    (node, shard): (NodeId, u32),
    asked: &A,
) -> Result<Option<A::Part>, NotDone> {
    let Some(onward) = call.onward(node, None).filter(|_| call.meta.hops < HOPS_MAX) else {
        return Ok(None);
    };
    let path = format!("{}?shard={shard}{}", asked.path(call), asked.more(shard));
    let path =
        PathAndQuery::try_from(path).map_err(|error| Refusal::internal(error.to_string()))?;
    let sent = call.api.forwarder().send(call, onward, (path, call.body().clone())).await;
    let (head, body) = match sent {
        Ok(answer) => answer,
        Err(ForwardError::NotSent) => return Ok(None),
        Err(ForwardError::MaybeSent) if call.effect == Effect::None => return Ok(None),
        Err(ForwardError::MaybeSent) => return Err(Refusal::outcome_unknown().into()),
    };
    if head.status().is_success() {
        let part = serde_json::from_slice(&body);
        let part = part.map_err(|error| Refusal::internal(chain(&error)))?;
        return Ok(Some(asked.heard(head.headers(), part)));
    }
    // Its refusal is the answer.
    let (parts, ()) = head.into_parts();
    Err(NotDone::Relayed(Box::new(relayed(parts, body))))
}

fn relayed(mut parts: hyper::http::response::Parts, body: Bytes) -> Response {
    parts.headers.remove(hyper::header::CONNECTION);
    parts.headers.remove(hyper::header::TRANSFER_ENCODING);
    parts.headers.remove(hyper::header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(body))
}

/// Shows webhooks: one, or all.
pub(super) struct Listing {
    pub(super) only: Option<SinkName>,
}

impl Asked for Listing {
    type Part = WebhooksAnswer;

    fn path(&self, _: &Call) -> String {
        paths::ADMIN_WEBHOOKS.to_owned()
    }

    async fn here(&self, call: &Call, feed: &Feed) -> Result<WebhooksAnswer, NotHere> {
        confirm(call, feed.group()).await?;
        let now = feed.group().now();
        let items = feed.group().view(|ledger, _| {
            let asked = |name: &SinkName| self.only.as_ref().is_none_or(|only| only == name);
            let sinks = ledger.sinks().filter(|(name, _)| asked(name));
            sinks
                .map(|(name, sink)| shown(feed.shard(), (name, sink), now))
                .collect::<Result<_, _>>()
        })?;
        Ok(WebhooksAnswer { items })
    }
}

/// Where a webhook begins that is told of what happens from now on: each shard puts its own end there.
pub(super) const FROM_NOW: Position = Position(u64::MAX);

/// Changes a webhook.
pub(super) struct Change {
    pub(super) sink: SinkName,
    pub(super) act: SinkAct,
    pub(super) reason: Option<Reason>,
}

impl Asked for Change {
    type Part = WebhookAnswer;

    const CHANGES: bool = true;

    async fn here(&self, call: &Call, feed: &Feed) -> Result<WebhookAnswer, NotHere> {
        let group = feed.group();
        propose(call, group, self).await?;
        let now = group.now();
        let shown = group.view(|ledger, _| {
            let sink = ledger.sink(&self.sink)?;
            Some(shown(feed.shard(), (&self.sink, sink), now))
        });
        Ok(shown.ok_or_else(not_found)??)
    }
}

/// Ends a webhook.
pub(super) struct Removal {
    pub(super) sink: SinkName,
}

impl Asked for Removal {
    type Part = WebhookRemoved;

    const CHANGES: bool = true;

    async fn here(&self, call: &Call, feed: &Feed) -> Result<WebhookRemoved, NotHere> {
        let (sink, act) = (self.sink.clone(), SinkAct::Remove);
        propose(call, feed.group(), &Change { sink, act, reason: None }).await?;
        Ok(WebhookRemoved { webhook: WebhookName(self.sink.clone()) })
    }
}

/// Puts a change into a shard's log.
pub(super) async fn propose(
    call: &Call,
    group: &Group<Ledger>,
    change: &Change,
) -> Result<SinkDone, NotHere> {
    let Change { sink, act, reason } = change;
    let command = SinkCommand {
        sink: sink.clone(),
        act: begun_here(group, act.clone()),
        actor: Some(call.caller.name.clone()),
        reason: reason.as_ref().map(|reason| reason.as_str().into()),
    };
    let command = Bytes::from(codec::encode(&Command::Sink(Box::new(command))));
    let answer = match group.propose(command, call.meta.deadline).await {
        Ok(answer) => answer,
        Err(ProposeError::NotLeader { leader }) => return Err(NotHere::Elsewhere(leader)),
        Err(error) => return Err(Refusal::of_propose(&error).into()),
    };
    let Answer::Sink(done) = answer else {
        return Err(Refusal::internal("a webhook was answered as something else").into());
    };
    let refused = |refusal: SinkRefusal| match refusal {
        SinkRefusal::Unknown => not_found(),
        SinkRefusal::Exists | SinkRefusal::TooMany | SinkRefusal::TooManySecrets => {
            Refusal::new(Code::WebhookRefused, refusal.to_string())
        }
        SinkRefusal::OtherLetter => Refusal::new(Code::StaleConfirmation, refusal.to_string()),
        SinkRefusal::OtherRedrive => Refusal::new(Code::KeyReused, refusal.to_string()),
        SinkRefusal::OtherStep => Refusal::internal(refusal.to_string()),
    };
    let done = done.map_err(refused)?;
    if done.is_changed {
        let actor = &*call.caller.name;
        let reason = reason.as_ref().map(Reason::as_str);
        tracing::info!(group = %group.id(), webhook = %sink, ?act, actor, reason, "webhook changed");
    }
    Ok(done)
}

/// A webhook that begins with what happens from now on begins at the end of the shard's history.
fn begun_here(group: &Group<Ledger>, act: SinkAct) -> SinkAct {
    match act {
        SinkAct::Create { terms, secret, from: FROM_NOW } => {
            let from = group.view(|_, _| group.history().end());
            SinkAct::Create { terms, secret, from }
        }
        act => act,
    }
}

/// Makes sure that this node leads the group now.
pub(super) async fn confirm(call: &Call, group: &Group<Ledger>) -> Result<(), NotHere> {
    match group.read_barrier(call.meta.deadline).await {
        Ok(()) => Ok(()),
        Err(ReadError::NotLeader { leader }) => Err(NotHere::Elsewhere(leader)),
        Err(error) => Err(Refusal::of_read(&error).into()),
    }
}
