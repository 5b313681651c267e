//! An entry as receivers get it.

use std::sync::Arc;

use bytes::Bytes;
use purser_api::{Change, WebhookEvent};
use purser_ledger::Sink;

use crate::feed::FeedItem;
use crate::http::change_of;
use crate::tasks::chain;

/// What is sent: the same bytes whenever and by whomever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    /// The entry's name.
    pub(super) id: Arc<str>,
    /// The body.
    pub(super) body: Bytes,
}

/// What a line finds where its next event should be.
pub(super) enum Found {
    /// The event.
    Event(Event),
    /// An entry that the webhook is not for.
    Unwanted,
    /// The account is not here any more.
    Gone,
}

/// An event cannot be made of an entry.
#[derive(Debug, thiserror::Error)]
#[error("the entry cannot be read: {0}")]
pub(super) struct Unreadable(String);

/// The event of an entry; nothing if the webhook is not for it.
pub(super) fn event_of(item: &FeedItem, sink: &Sink) -> Result<Option<Event>, Unreadable> {
    // Most webhooks that are not for all are for few: these entries are not written out.
    if !sink.wants(&item.account.tenant, item.entry.entry.fact.kind()) {
        return Ok(None);
    }
    let change: Change = change_of(item).map_err(|refusal| Unreadable(format!("{refusal:?}")))?;
    let id = Arc::from(&*change.id.0);
    let body = serde_json::to_vec(&WebhookEvent::of(change));
    let body = body.map_err(|error| Unreadable(chain(&error)))?;
    Ok(Some(Event { id, body: body.into() }))
}
