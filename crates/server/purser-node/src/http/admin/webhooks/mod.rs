//! Webhooks: who is told of the region's entries, and what could not be delivered.
//!
//! Each call says what shall be, so it carries no idempotency key, and a repeat completes what was cut short;
//! but for the redrive of many dead letters, which has a key, so that a repeat does not redrive more.
//! A webhook is in every shard of the region, and the calls are carried to all of them ([`parts`]); what
//! concerns one account goes to its shard alone.

mod letters;
mod parts;
mod redrives;
mod showing;

use std::collections::BTreeSet;

use purser_api::{
    BecauseRequest, ProblemCode as Code, RotateRequest, WebhookAnswer, WebhookEnableRequest,
    WebhookName, WebhookQuery, WebhookRemoved, WebhookRequest, WebhookStart, WebhooksAnswer, paths,
};
use purser_ledger::{SinkAct, SinkTerms};
use purser_types::{Position, SinkName, Span};

use self::parts::{Change, FROM_NOW, Listing, Removal, everywhere};
use self::showing::merged;
use crate::http::call::Call;
use crate::http::describe::{Description, Tag};
use crate::http::operation::Operation;
use crate::http::problem::Refusal;
use crate::http::reply::Reply;
use crate::http::routes::{Access, Effect, Handled, Routes, Verb};
use crate::webhooks::refuse_target;

/// The most tenants that a webhook can be limited to.
const TENANTS_MAX: usize = 100;

/// Declares the calls.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    let routes = declare_webhooks(routes);
    redrives::declare(letters::declare(routes))
}

fn about(access: Access, summary: &'static str) -> Description {
    let described = Description::new(access, Tag::Webhooks, summary).refuses(&[Code::NotFound]);
    match access.effect {
        Effect::Change => described.refuses(&[Code::OutcomeUnknown]),
        Effect::None => described,
    }
}

fn declare_webhooks(routes: Routes<'_>) -> Routes<'_> {
    let change = |summary| {
        let described = about(Access::CLUSTER, summary).query::<WebhookQuery>();
        described.answers::<WebhookAnswer>(200).refuses(&[Code::WebhookNotFound])
    };
    routes
        .call(
            (Verb::Get, paths::ADMIN_WEBHOOKS),
            Operation::ListWebhooks,
            about(Access::CLUSTER_READ, "Shows the webhooks of the asked region.")
                .query::<WebhookQuery>()
                .answers::<WebhooksAnswer>(200),
            list,
        )
        .call(
            (Verb::Post, paths::ADMIN_WEBHOOKS),
            Operation::CreateWebhook,
            about(
                Access::CLUSTER,
                "Has the entries of the asked region told to a receiver, by signed calls.",
            )
            .query::<WebhookQuery>()
            .body::<WebhookRequest>()
            .answers::<WebhookAnswer>(200)
            .refuses(&[Code::WebhookRefused]),
            create,
        )
        .call(
            (Verb::Get, paths::ADMIN_WEBHOOK),
            Operation::GetWebhook,
            about(Access::CLUSTER_READ, "Shows a webhook.")
                .query::<WebhookQuery>()
                .answers::<WebhookAnswer>(200)
                .refuses(&[Code::WebhookNotFound]),
            get,
        )
        .call(
            (Verb::Delete, paths::ADMIN_WEBHOOK),
            Operation::RemoveWebhook,
            about(Access::CLUSTER, "Ends a webhook, with its dead letters.")
                .query::<WebhookQuery>()
                .answers::<WebhookRemoved>(200),
            remove,
        )
        .call(
            (Verb::Post, paths::ADMIN_WEBHOOK_ROTATE),
            Operation::RotateWebhook,
            change("Has events signed with another secret, and for a while with the one before too.")
                .body::<RotateRequest>()
                .refuses(&[Code::WebhookRefused]),
            rotate,
        )
        .call(
            (Verb::Post, paths::ADMIN_WEBHOOK_ENABLE),
            Operation::EnableWebhook,
            change("Has a webhook's events delivered, from where it stands, and what has failed at once.")
                .optional_body::<WebhookEnableRequest>(),
            enable,
        )
        .call(
            (Verb::Post, paths::ADMIN_WEBHOOK_DISABLE),
            Operation::DisableWebhook,
            change("Has a webhook's events wait.").body::<BecauseRequest>(),
            disable,
        )
}

async fn list(call: Call) -> Handled {
    let query: WebhookQuery = call.query()?;
    let parts = everywhere(&call, query.shard, &Listing { only: None }).await?;
    let items = parts.into_iter().flat_map(|part: WebhooksAnswer| part.items);
    Ok(Reply::read(&WebhooksAnswer { items: merged(items) })?)
}

async fn get(call: Call) -> Handled {
    let query: WebhookQuery = call.query()?;
    let only = Some(sink_of(&call)?);
    let parts = everywhere(&call, query.shard, &Listing { only: only.clone() }).await?;
    let items = parts.into_iter().flat_map(|part: WebhooksAnswer| part.items);
    let items = items.filter(|item| Some(&item.webhook.0) == only.as_ref());
    match merged(items).pop() {
        Some(found) => Ok(Reply::read(&found)?),
        None => Err(not_found().into()),
    }
}

async fn create(call: Call) -> Handled {
    let request: WebhookRequest = call.json()?;
    let allow_private = call.api.webhooks().allow_private_targets;
    refuse_target(request.url.as_str(), allow_private)
        .map_err(|error| Refusal::new(Code::WebhookRefused, error.to_string()))?;
    if request.tenants.len() > TENANTS_MAX {
        let detail = format!("a webhook is limited to at most {TENANTS_MAX} tenants, or to none");
        return Err(Refusal::invalid(detail).into());
    }
    let tenants: BTreeSet<_> = request.tenants.into_iter().map(|tenant| tenant.0).collect();
    let kinds = request.kinds.iter().map(|kind| kind.name().into()).collect();
    let (url, attempts_max) = (request.url.as_str().into(), request.attempts_max.get());
    let act = SinkAct::Create {
        terms: SinkTerms { url, tenants, kinds, attempts_max },
        secret: request.secret.as_str().into(),
        // Each shard begins at its own end.
        from: match request.from {
            WebhookStart::Now => FROM_NOW,
            WebhookStart::Beginning => Position::default(),
        },
    };
    change(&call, Change { sink: request.webhook.0, act, reason: request.reason }).await
}

async fn rotate(call: Call) -> Handled {
    let request: RotateRequest = call.json()?;
    let act = SinkAct::Rotate {
        secret: request.secret.as_str().into(),
        overlap: Span::from_secs(request.overlap_seconds.get().into()),
    };
    change(&call, Change { sink: sink_of(&call)?, act, reason: request.reason }).await
}

async fn enable(call: Call) -> Handled {
    let WebhookEnableRequest { reason } = call.json_or_default()?;
    change(&call, Change { sink: sink_of(&call)?, act: SinkAct::Enable, reason }).await
}

async fn disable(call: Call) -> Handled {
    let BecauseRequest { reason } = call.json()?;
    let act = SinkAct::Disable { why: reason.as_str().into() };
    change(&call, Change { sink: sink_of(&call)?, act, reason: Some(reason) }).await
}

async fn change(call: &Call, change: Change) -> Handled {
    let query: WebhookQuery = call.query()?;
    let parts: Vec<WebhookAnswer> = everywhere(call, query.shard, &change).await?;
    let answer = merged(parts).pop();
    Ok(Reply::read(&answer.ok_or_else(|| Refusal::internal("there are no shards"))?)?)
}

async fn remove(call: Call) -> Handled {
    let query: WebhookQuery = call.query()?;
    let sink = sink_of(&call)?;
    everywhere(&call, query.shard, &Removal { sink: sink.clone() }).await?;
    Ok(Reply::read(&WebhookRemoved { webhook: WebhookName(sink) })?)
}

fn sink_of(call: &Call) -> Result<SinkName, Refusal> {
    Ok(call.id::<WebhookName>("webhook")?.0)
}

fn not_found() -> Refusal {
    Refusal::not_found(Code::WebhookNotFound)
}
