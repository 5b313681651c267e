//! The dead letters of a webhook: listed shard by shard, in each by account and sequence; and what people
//! decide about one.

use std::ops::Bound;

use purser_api::{
    BecauseRequest, List, Moment, PageLimit, ProblemCode as Code, Reason, SequenceNumber,
    TenantName, UnitName, WebhookDeadLetter, WebhookDeadLetterAnswer, WebhookDeadLetterId,
    WebhookDeadLetterStatus, WebhookDeadLettersQuery, WebhookDiscardAnswer, WebhookDiscardRequest,
    WebhookName, paths,
};
use purser_ledger::{AccountName, DeadLetter, EntryName, Sink, SinkAct};
use purser_types::{LogTime, Sequence, SinkName};

use super::parts::{Asked, Change, NotHere, confirm, everywhere, in_shard, propose};
use super::{about, not_found, sink_of};
use crate::feed::Feed;
use crate::http::admin::lifecycle::confirmed;
use crate::http::call::Call;
use crate::http::operation::Operation;
use crate::http::paging::{invalid_cursor, open_cursor};
use crate::http::problem::{NotDone, Refusal};
use crate::http::reply::Reply;
use crate::http::routes::{Access, Effect, Handled, Routes, Verb};

/// Declares the calls.
pub(super) fn declare(routes: Routes<'_>) -> Routes<'_> {
    let letter = |summary| about(Access::CLUSTER, summary).refuses(&[Code::WebhookNotFound]);
    routes
        .call(
            (Verb::Get, paths::ADMIN_WEBHOOK_DEAD_LETTERS),
            Operation::ListWebhookDeadLetters,
            about(Access::CLUSTER_READ, "Lists what could not be delivered.")
                .query::<WebhookDeadLettersQuery>()
                .answers_list::<WebhookDeadLetter>()
                .refuses(&[Code::WebhookNotFound, Code::InvalidCursor]),
            list,
        )
        .call(
            (Verb::Post, paths::ADMIN_WEBHOOK_REDRIVE),
            Operation::RedriveWebhook,
            letter("Has a dead letter tried once more.")
                .body::<BecauseRequest>()
                .answers::<WebhookDeadLetterAnswer>(200),
            redrive,
        )
        .call(
            (Verb::Post, paths::ADMIN_WEBHOOK_DISCARD),
            Operation::DiscardWebhook,
            letter(
                "Gives a dead letter up for good. A dry run shows the effect and what to confirm.",
            )
            .body::<WebhookDiscardRequest>()
            .answers::<WebhookDiscardAnswer>(200)
            .refuses(&[Code::ConfirmationRequired, Code::StaleConfirmation]),
            discard,
        )
}

/// A dead letter that a call names, and the webhook.
struct Named {
    id: WebhookDeadLetterId,
    event: EntryName,
    sink: SinkName,
}

impl Named {
    fn of(call: &Call) -> Result<Self, Refusal> {
        call.no_query()?;
        let id: WebhookDeadLetterId = call.id("dead_letter")?;
        let event = EntryName { account: account_of(&id), sequence: id.sequence };
        Ok(Self { id, event, sink: sink_of(call)? })
    }

    /// When it died, and whether it is tried once more; nothing if there is no such dead letter.
    fn look(&self, call: &Call) -> Result<Option<(LogTime, bool)>, Refusal> {
        call.api.groups().of(&self.event.account).view(|ledger, _| {
            let sink = ledger.sink(&self.sink).ok_or_else(not_found)?;
            let letter = sink.letter(&self.event);
            Ok(letter.map(|(letter, is_redriven)| (letter.died_at, is_redriven)))
        })
    }

    /// What has become of it.
    fn answer(self, call: &Call) -> Result<WebhookDeadLetterAnswer, Refusal> {
        let status = match self.look(call)? {
            None => WebhookDeadLetterStatus::None,
            Some((_, false)) => WebhookDeadLetterStatus::Dead,
            Some((_, true)) => WebhookDeadLetterStatus::Redriven,
        };
        Ok(WebhookDeadLetterAnswer { dead_letter_id: self.id, status })
    }

    /// Has it decided by the leader of its shard.
    async fn decide(&self, call: &Call, act: SinkAct, reason: Reason) -> Result<(), NotDone> {
        let group = call.api.groups().of(&self.event.account);
        let change = Change { sink: self.sink.clone(), act, reason: Some(reason) };
        loop {
            match propose(call, group, &change).await {
                Ok(_) => return Ok(()),
                Err(NotHere::Elsewhere(leader)) => {
                    call.elsewhere(group, leader, call.effect).await?;
                }
                Err(NotHere::Refused(refusal)) => return Err(refusal.into()),
            }
        }
    }
}

async fn redrive(call: Call) -> Handled {
    let BecauseRequest { reason } = call.json()?;
    let named = Named::of(&call)?;
    named.decide(&call, SinkAct::Redrive(named.event.clone()), reason).await?;
    Ok(Reply::read(&named.answer(&call)?)?)
}

async fn discard(call: Call) -> Handled {
    let request: WebhookDiscardRequest = call.json()?;
    let named = Named::of(&call)?;
    if request.dry_run {
        return discard_dry(&call, named).await;
    }
    let number = confirmed(request.confirm)?.0.0;
    let odd = |_out_of_range| Refusal::invalid("`confirm` is none that a dry run gives");
    let died_at = LogTime::from_unix_micros(number).map_err(odd)?;
    let event = named.event.clone();
    named.decide(&call, SinkAct::Discard { event, died_at }, request.reason).await?;
    let answer =
        WebhookDiscardAnswer { dry_run: false, confirm: None, answer: named.answer(&call)? };
    Ok(Reply::read(&answer)?)
}

/// What is confirmed is when it died: redriven, it may die again.
async fn discard_dry(call: &Call, named: Named) -> Handled {
    let group = call.api.groups().of(&named.event.account);
    loop {
        match confirm(call, group).await {
            Ok(()) => break,
            Err(NotHere::Elsewhere(leader)) => call.elsewhere(group, leader, Effect::None).await?,
            Err(NotHere::Refused(refusal)) => return Err(refusal.into()),
        }
    }
    let known = named.look(call)?;
    let number = |(died_at, _): (LogTime, bool)| Sequence(died_at.as_unix_micros());
    let status = WebhookDeadLetterStatus::None;
    let answer = WebhookDiscardAnswer {
        dry_run: true,
        confirm: known.map(number).map(SequenceNumber),
        answer: WebhookDeadLetterAnswer { dead_letter_id: named.id, status },
    };
    Ok(Reply::read(&answer)?)
}

async fn list(call: Call) -> Handled {
    let query: WebhookDeadLettersQuery = call.query()?;
    let sink = sink_of(&call)?;
    let scope = query.scope(&WebhookName(sink.clone()));
    let after = match &query.cursor {
        Some(cursor) => {
            let text = open_cursor(&scope, cursor)?;
            Some(text.parse::<WebhookDeadLetterId>().map_err(|_odd| invalid_cursor())?)
        }
        None => None,
    };
    let limit = query.limit.get();
    let mut page = Page { items: Vec::new(), has_more: false };
    if query.shard.is_some() {
        let asked = Letters { sink, after, limit };
        for part in everywhere(&call, query.shard, &asked).await? {
            page.add(part);
        }
    } else {
        let first = after.as_ref().map(|id| call.api.groups().shard_of(&account_of(id)).0);
        let mut after = after;
        for feed in call.api.feeds().iter().filter(|feed| Some(feed.shard()) >= first) {
            // One more than is asked for tells whether there are more.
            let limit = limit.saturating_sub(page.items.len()).saturating_add(1);
            let asked = Letters {
                sink: sink.clone(),
                after: after.take(),
                limit: limit.min(usize::from(PageLimit::MAX)),
            };
            page.add(in_shard(&call, feed, &asked).await?);
            if page.has_more || page.items.len() > query.limit.get() {
                break;
            }
        }
    }
    let Page { mut items, has_more } = page;
    let has_more = has_more || items.len() > limit;
    items.truncate(limit);
    let last = items.last().filter(|_| has_more);
    let next_cursor = last.map(|last| scope.seal(&last.dead_letter_id.to_string()));
    Ok(Reply::read(&List { items, has_more: next_cursor.is_some(), next_cursor })?)
}

struct Page {
    items: Vec<WebhookDeadLetter>,
    has_more: bool,
}

impl Page {
    fn add(&mut self, part: List<WebhookDeadLetter>) {
        self.items.extend(part.items);
        self.has_more = part.has_more;
    }
}

/// Asks a shard for dead letters.
struct Letters {
    sink: SinkName,
    after: Option<WebhookDeadLetterId>,
    limit: usize,
}

impl Asked for Letters {
    type Part = List<WebhookDeadLetter>;

    fn more(&self, shard: u32) -> String {
        let query =
            WebhookDeadLettersQuery { shard: Some(shard), ..WebhookDeadLettersQuery::default() };
        let scope = query.scope(&WebhookName(self.sink.clone()));
        let cursor =
            self.after.as_ref().map(|id| format!("&cursor={}", scope.seal(&id.to_string())));
        format!("&limit={}{}", self.limit, cursor.unwrap_or_default())
    }

    async fn here(&self, call: &Call, feed: &Feed) -> Result<Self::Part, NotHere> {
        confirm(call, feed.group()).await?;
        let sink = feed.group().view(|ledger, _| ledger.sink(&self.sink).cloned());
        let sink = sink.ok_or_else(not_found)?;
        let mut items = letters_after(&sink, self.after.as_ref(), self.limit.saturating_add(1));
        let has_more = items.len() > self.limit;
        items.truncate(self.limit);
        let scope = WebhookDeadLettersQuery {
            shard: Some(feed.shard()),
            ..WebhookDeadLettersQuery::default()
        };
        let scope = scope.scope(&WebhookName(self.sink.clone()));
        let last = items.last().filter(|_| has_more);
        let next_cursor = last.map(|last| scope.seal(&last.dead_letter_id.to_string()));
        Ok(List { items, has_more, next_cursor })
    }
}

fn letters_after(
    sink: &Sink,
    after: Option<&WebhookDeadLetterId>,
    count: usize,
) -> Vec<WebhookDeadLetter> {
    let after = after.map(|id| EntryName { account: account_of(id), sequence: id.sequence });
    let from = || after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
    let dead = sink.letters.range_from(from()).take(count);
    let dead = dead.map(|(event, letter)| shown(event, letter, WebhookDeadLetterStatus::Dead));
    let redriven = sink.redriven.range_from(from()).take(count);
    let redriven = redriven
        .map(|(event, redriven)| shown(event, &redriven.letter, WebhookDeadLetterStatus::Redriven));
    let mut all: Vec<_> = dead.chain(redriven).collect();
    all.sort_by(|one, other| one.dead_letter_id.cmp(&other.dead_letter_id));
    all.truncate(count);
    all
}

fn shown(
    event: &EntryName,
    letter: &DeadLetter,
    status: WebhookDeadLetterStatus,
) -> WebhookDeadLetter {
    let AccountName { tenant, unit } = &event.account;
    let (tenant, unit) = (tenant.clone(), unit.clone());
    let dead_letter_id = WebhookDeadLetterId {
        tenant: tenant.clone(),
        unit: unit.clone(),
        sequence: event.sequence,
    };
    WebhookDeadLetter {
        dead_letter_id,
        tenant: TenantName(tenant),
        unit: UnitName(unit),
        sequence: SequenceNumber(event.sequence),
        status,
        attempts: letter.attempts,
        error: letter.error.to_string(),
        died_at: Moment(letter.died_at),
    }
}

fn account_of(id: &WebhookDeadLetterId) -> AccountName {
    AccountName { tenant: id.tenant.clone(), unit: id.unit.clone() }
}
