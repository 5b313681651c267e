//! Many dead letters of a webhook, tried once more: some with each call, shard after shard.

use hyper::header::HeaderMap;
use purser_api::{
    Moment, ProblemCode as Code, Reason, WebhookName, WebhookRedriveAnswer, WebhookRedriveQuery,
    WebhookRedriveRequest, paths,
};
use purser_ledger::{RedriveAll, SinkAct};
use purser_types::SinkName;
use serde::Deserialize;

use super::parts::{Asked, Change, NotHere, everywhere, half_done, in_shard, propose};
use super::{about, sink_of};
use crate::feed::Feed;
use crate::http::call::Call;
use crate::http::operation::Operation;
use crate::http::problem::Refusal;
use crate::http::reply::{IDEMPOTENT_REPLAYED, Reply};
use crate::http::routes::{Access, Handled, Routes, Verb};

/// Declares the call.
pub(super) fn declare(routes: Routes<'_>) -> Routes<'_> {
    let access = Access { keyed: true, ..Access::CLUSTER };
    routes.call(
        (Verb::Post, paths::ADMIN_WEBHOOK_REDRIVE_ALL),
        Operation::RedriveWebhookAll,
        about(
            access,
            "Has dead letters tried once more, up to a number, and says how many are left.",
        )
        .query::<WebhookRedriveQuery>()
        .body::<WebhookRedriveRequest>()
        .answers::<WebhookRedriveAnswer>(200)
        .refuses(&[Code::WebhookNotFound]),
        redrive_all,
    )
}

async fn redrive_all(call: Call) -> Handled {
    let WebhookRedriveRequest { reason, limit, died_before } = call.json()?;
    let query: WebhookRedriveQuery = call.query()?;
    let sink = sink_of(&call)?;
    let limit = limit.get().saturating_sub(query.used.unwrap_or(0));
    let mut asked = Redrive { sink, reason, limit, used: 0, died_before };
    if query.shard.is_some() {
        let parts = everywhere(&call, query.shard, &asked).await?;
        return answer(parts);
    }
    let mut parts: Vec<Part> = Vec::new();
    for feed in call.api.feeds() {
        match in_shard(&call, feed, &asked).await {
            Ok(part) => {
                let more = u32::try_from(part.answer.redriven).unwrap_or(u32::MAX);
                asked.used = asked.used.saturating_add(more);
                parts.push(part);
            }
            Err(not_done) if !parts.is_empty() => return Err(half_done(not_done)),
            Err(not_done) => return Err(not_done),
        }
    }
    answer(parts)
}

/// What came of it in all shards that were asked.
fn answer(parts: Vec<Part>) -> Handled {
    let is_replayed = parts.iter().all(|part| part.is_replayed);
    let sum = |one: Part, other: Part| {
        let (one, other) = (one.answer, other.answer);
        let answer = WebhookRedriveAnswer {
            webhook: one.webhook,
            redriven: one.redriven.saturating_add(other.redriven),
            left: one.left.saturating_add(other.left),
            died_before: Moment(one.died_before.0.max(other.died_before.0)),
        };
        Part { answer, is_replayed }
    };
    let part = parts.into_iter().reduce(sum);
    let part = part.ok_or_else(|| Refusal::internal("there are no shards"))?;
    Ok(Reply::read(&part.answer)?.replayed(is_replayed))
}

/// Redrives in a shard what the limit leaves.
struct Redrive {
    sink: SinkName,
    reason: Reason,
    limit: u32,
    /// How many shards before have redriven.
    used: u32,
    died_before: Option<Moment>,
}

/// What a shard has redriven.
#[derive(Deserialize)]
struct Part {
    #[serde(flatten)]
    answer: WebhookRedriveAnswer,
    #[serde(skip)]
    is_replayed: bool,
}

impl Asked for Redrive {
    type Part = Part;

    const CHANGES: bool = true;

    fn more(&self, _shard: u32) -> String {
        format!("&used={}", self.used)
    }

    fn heard(&self, headers: &HeaderMap, part: Part) -> Part {
        Part { is_replayed: headers.contains_key(IDEMPOTENT_REPLAYED), ..part }
    }

    async fn here(&self, call: &Call, feed: &Feed) -> Result<Part, NotHere> {
        let asked = RedriveAll {
            key: call.key()?,
            limit: self.limit.saturating_sub(self.used),
            died_before: self.died_before.as_ref().map(|moment| moment.0),
        };
        let act = SinkAct::RedriveAll(asked);
        let change = Change { sink: self.sink.clone(), act, reason: Some(self.reason.clone()) };
        let done = propose(call, feed.group(), &change).await?;
        let missing = || Refusal::internal("a redrive was answered as something else");
        let tally = done.tally.ok_or_else(missing)?;
        let answer = WebhookRedriveAnswer {
            webhook: WebhookName(self.sink.clone()),
            redriven: tally.redriven.into(),
            left: tally.left.into(),
            died_before: Moment(tally.died_before),
        };
        Ok(Part { answer, is_replayed: !done.is_changed })
    }
}
