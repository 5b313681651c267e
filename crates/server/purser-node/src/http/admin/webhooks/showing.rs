//! Webhooks as bodies, from one shard or from all.

use std::collections::BTreeMap;

use purser_api::{
    AttemptsMax, EntryKind, Moment, TenantName, WebhookAct, WebhookActKind, WebhookAnswer,
    WebhookDeadLetterId, WebhookName, WebhookShard, WebhookStatus, WebhookUrl,
};
use purser_ledger::{NotedAct, Sink, SinkNote};
use purser_types::{LogTime, SinkName};

use crate::http::problem::Refusal;

/// A webhook as one shard knows it.
pub(super) fn shown(
    shard: u32,
    (name, sink): (&SinkName, &Sink),
    now: LogTime,
) -> Result<WebhookAnswer, Refusal> {
    let unreadable = |what: &str| Refusal::internal(format!("a kept webhook's {what}"));
    let url: WebhookUrl = sink.terms.url.parse().map_err(|_odd| unreadable("address"))?;
    let attempts_max: AttemptsMax =
        sink.terms.attempts_max.to_string().parse().map_err(|_odd| unreadable("attempts"))?;
    let kinds = sink.terms.kinds.iter().map(|kind| kind.parse::<EntryKind>());
    let kinds = kinds.collect::<Result<_, _>>().map_err(|_odd| unreadable("kinds"))?;
    let first = sink.lines.iter().map(|(_, line)| line).min_by_key(|line| line.due);
    let count = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
    let of_shard = WebhookShard {
        shard,
        disabled: sink.disabled.as_ref().map(|disabled| disabled.why.to_string()),
        parked: count(sink.lines.len()),
        last_error: first.map(|line| line.error.to_string()).filter(|error| !error.is_empty()),
        dead_letters: count(sink.letters.len()),
        redriven: count(sink.redriven.len()),
        history: sink.notes.iter().map(act_of).collect(),
    };
    Ok(WebhookAnswer {
        webhook: WebhookName(name.clone()),
        status: status_of(std::slice::from_ref(&of_shard)),
        url,
        tenants: sink.terms.tenants.iter().cloned().map(TenantName).collect(),
        kinds,
        attempts_max,
        created_at: Moment(sink.created_at),
        secrets_count: u32::try_from(sink.signing(now).count()).unwrap_or(u32::MAX),
        shards: vec![of_shard],
    })
}

fn act_of(note: &SinkNote) -> WebhookAct {
    let act = match note.act {
        NotedAct::Create => WebhookActKind::Create,
        NotedAct::Rotate => WebhookActKind::Rotate,
        NotedAct::Enable => WebhookActKind::Enable,
        NotedAct::Disable => WebhookActKind::Disable,
        NotedAct::Redrive => WebhookActKind::Redrive,
        NotedAct::RedriveAll => WebhookActKind::RedriveAll,
        NotedAct::Discard => WebhookActKind::Discard,
    };
    let dead_letter_id = note.event.as_ref().map(|event| WebhookDeadLetterId {
        tenant: event.account.tenant.clone(),
        unit: event.account.unit.clone(),
        sequence: event.sequence,
    });
    let actor = note.actor.as_deref().map(str::to_owned);
    let reason = note.reason.as_deref().map(str::to_owned);
    WebhookAct { at: Moment(note.at), act, actor, reason, dead_letter_id }
}

/// Webhooks as all shards know them that were asked, by name.
pub(super) fn merged(parts: impl IntoIterator<Item = WebhookAnswer>) -> Vec<WebhookAnswer> {
    let mut all: BTreeMap<WebhookName, WebhookAnswer> = BTreeMap::new();
    for part in parts {
        match all.get_mut(&part.webhook) {
            Some(known) => {
                known.secrets_count = known.secrets_count.max(part.secrets_count);
                known.shards.extend(part.shards);
                known.status = status_of(&known.shards);
            }
            None => {
                all.insert(part.webhook.clone(), part);
            }
        }
    }
    all.into_values().collect()
}

fn status_of(shards: &[WebhookShard]) -> WebhookStatus {
    let is_disabled = shards.iter().any(|shard| shard.disabled.is_some());
    if is_disabled { WebhookStatus::Disabled } else { WebhookStatus::Enabled }
}
