//! Changes: what homes of this region have decided, oldest first, for whoever keeps something beside the
//! ledger.
//!
//! ```text
//!  asked ─┬─ shards that this node leads: their feeds
//!         └─ others: ?shard=N, to whoever leads
//! ```
//!
//! The cursor has a place in each shard. Each shard gives its part of a page; one that nobody leads is named,
//! and keeps the others waiting for no longer than an election.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::{join_all, select_all};
use hyper::http::uri::PathAndQuery;
use purser_api::{
    Change, ChangeId, ChangesAnswer, ChangesQuery, Cursor, EpochNumber, PageLimit,
    ProblemCode as Code, RegionName, TenantName, UnitName, paths,
};
use purser_raft::NodeId;
use purser_types::{Owner, Position};

use crate::feed::{Feed, FeedCursor, FeedError, FeedItem};
use crate::http::call::Call;
use crate::http::convert::Shown;
use crate::http::describe::{Description, Tag};
use crate::http::forward::HOPS_MAX;
use crate::http::operation::Operation;
use crate::http::paging::{invalid_cursor, open_cursor};
use crate::http::problem::{NotDone, Refusal};
use crate::http::reply::Reply;
use crate::http::routes::{Access, Effect, Handled, Routes, Verb};
use crate::tasks::chain;

/// How often other nodes are asked while there is nothing to tell yet.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// How long a shard is waited for that nobody leads: so long an election takes at most. The others' part of
/// the page waits with it.
const LEADER_PATIENCE: Duration = Duration::from_secs(2);

/// How much of a call's time is kept for its answer.
const ANSWER_TIME: Duration = Duration::from_secs(1);

/// Declares the call.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    routes.call(
        (Verb::Get, paths::CHANGES),
        Operation::ListChanges,
        Description::new(
            Access::READ,
            Tag::Read,
            "Tells what the homes of the asked region have decided, oldest first, from a cursor on; \
             at least once, and in order for each account. Ask with `next` again and again.",
        )
        .query::<ChangesQuery>()
        .answers::<ChangesAnswer>(200)
        .refuses(&[Code::InvalidCursor, Code::NotFound]),
        list,
    )
}

async fn list(call: Call) -> Handled {
    let query: ChangesQuery = call.query()?;
    let places = places(&call, &query)?;
    let wait = Duration::from_secs(query.wait_seconds.get().into());
    let until = (Instant::now() + wait).min(call.meta.deadline - ANSWER_TIME);
    let mut answer = match query.shard {
        Some(_) => one(&call, &query, &places).await?,
        None => all(&call, &query, &places).await?,
    };
    while answer.items.is_empty() && !answer.has_more && Instant::now() < until {
        wait_for_news(&call, &query, &places, until).await;
        let query = ChangesQuery { from: Some(answer.next.clone()), ..query.clone() };
        let places = self::places(&call, &query)?;
        answer = match query.shard {
            Some(_) => one(&call, &query, &places).await?,
            None => all(&call, &query, &places).await?,
        };
    }
    Ok(Reply::read(&answer)?)
}

/// A page of all shards.
async fn all(
    call: &Call,
    query: &ChangesQuery,
    places: &[FeedCursor],
) -> Result<ChangesAnswer, NotDone> {
    let feeds = call.api.feeds();
    let share = (query.limit.get() / feeds.len().max(1)).max(1);
    let parts = feeds.iter().zip(places).map(|(feed, place)| part(call, feed, *place, share));
    let (mut items, mut has_more, mut next) = (Vec::new(), false, Vec::new());
    let mut unknown_shards = Vec::new();
    for ((feed, place), part) in feeds.iter().zip(places).zip(join_all(parts).await) {
        match part? {
            Some(part) => {
                items.extend(part.items);
                has_more |= part.has_more;
                next.push(part.next);
            }
            None => {
                unknown_shards.push(feed.shard());
                next.push(*place);
            }
        }
    }
    if unknown_shards.len() == feeds.len() {
        return Err(Refusal::not_ready().into());
    }
    Ok(ChangesAnswer { items, has_more, next: seal(call, query, &next), unknown_shards })
}

/// A page of one shard, by its leader.
async fn one(
    call: &Call,
    query: &ChangesQuery,
    places: &[FeedCursor],
) -> Result<ChangesAnswer, NotDone> {
    let (feed, place) = shard_of(call, query, places)?;
    loop {
        match feed.page(place, query.limit.get()).await {
            Ok(page) => {
                let Part { items, has_more, next } = Part::of(call, page, place)?;
                let (next, unknown_shards) = (seal(call, query, &[next]), Vec::new());
                return Ok(ChangesAnswer { items, has_more, next, unknown_shards });
            }
            Err(FeedError::NotLeading) => {
                let group = feed.group();
                call.elsewhere(group, group.leader(), Effect::None).await?;
            }
            Err(error) => return Err(refusal(&error).into()),
        }
    }
}

/// What one shard has to tell.
struct Part {
    items: Vec<Change>,
    has_more: bool,
    next: FeedCursor,
}

impl Part {
    fn of(call: &Call, page: crate::feed::FeedPage, after: FeedCursor) -> Result<Self, Refusal> {
        let reached = page.items.iter().filter(|item| call.caller.reaches(&item.account.tenant));
        let items = reached.map(change_of).collect::<Result<_, Refusal>>()?;
        Ok(Self { items, has_more: page.next != after, next: page.next })
    }
}

/// An entry as a body.
pub(crate) fn change_of(item: &FeedItem) -> Result<Change, Refusal> {
    let FeedItem { account, home: (home, epoch), homes, entry, .. } = item;
    let owner = Owner::home(*home);
    let shown = Shown::new(account, &owner).with_homes(homes);
    Ok(Change {
        id: ChangeId::of(&account.tenant, &account.unit, *epoch, entry.entry.sequence),
        tenant: TenantName(account.tenant.clone()),
        unit: UnitName(account.unit.clone()),
        home: RegionName(*home),
        epoch: EpochNumber(*epoch),
        entry: shown.entry(entry)?,
    })
}

/// What a shard has to tell, by this node or by the one that leads it; nothing if nobody does, for longer
/// than an election takes.
async fn part(
    call: &Call,
    feed: &Feed,
    place: FeedCursor,
    items_max: usize,
) -> Result<Option<Part>, Refusal> {
    let asking = part_of_leader(call, feed, place, items_max);
    tokio::time::timeout(LEADER_PATIENCE, asking).await.unwrap_or(Ok(None))
}

async fn part_of_leader(
    call: &Call,
    feed: &Feed,
    place: FeedCursor,
    items_max: usize,
) -> Result<Option<Part>, Refusal> {
    let group = feed.group();
    loop {
        match feed.page(place, items_max).await {
            Ok(page) => return Part::of(call, page, place).map(Some),
            Err(FeedError::NotLeading) => (),
            Err(error) => return Err(refusal(&error)),
        }
        if let Some(leader) = group.leader().filter(|leader| *leader != call.api.node())
            && let Some(part) = ask(call, leader, (feed.shard(), place), items_max).await?
        {
            return Ok(Some(part));
        }
        if !call.wait_for_change(group).await {
            return Ok(None);
        }
    }
}

/// Asks another node for its part, in the caller's name; nothing if it does not answer.
async fn ask(
    call: &Call,
    node: NodeId,
    (shard, place): (u32, FeedCursor),
    items_max: usize,
) -> Result<Option<Part>, Refusal> {
    let Some(onward) = call.onward(node, None).filter(|_| call.meta.hops < HOPS_MAX) else {
        return Ok(None);
    };
    let query = ChangesQuery { shard: Some(shard), ..ChangesQuery::default() };
    let from = seal(call, &query, &[place]);
    let limit = items_max.min(usize::from(PageLimit::MAX));
    let path = format!("{}?shard={shard}&limit={limit}&from={}", paths::CHANGES, from);
    let path =
        PathAndQuery::try_from(path).map_err(|error| Refusal::internal(error.to_string()))?;
    let Ok((response, body)) = call.api.forwarder().send(call, onward, (path, Bytes::new())).await
    else {
        return Ok(None);
    };
    if !response.status().is_success() {
        tracing::debug!(%node, status = %response.status(), "a node did not tell its changes");
        return Ok(None);
    }
    let unreadable = |error: serde_json::Error| Refusal::internal(chain(&error));
    let answer: ChangesAnswer = serde_json::from_slice(&body).map_err(unreadable)?;
    let next = read_places(call, &query, &answer.next)?;
    let next = next.first().copied().ok_or_else(invalid_cursor)?;
    Ok(Some(Part { items: answer.items, has_more: answer.has_more, next }))
}

/// Waits until there may be something to tell, at most until `until`.
async fn wait_for_news(call: &Call, query: &ChangesQuery, places: &[FeedCursor], until: Instant) {
    let feeds = call.api.feeds().iter();
    let asked = feeds.filter(|feed| query.shard.is_none_or(|shard| shard == feed.shard()));
    let led = asked.zip(places).filter(|(feed, _)| feed.is_leading());
    let news: Vec<_> = led.map(|(feed, place)| Box::pin(feed.news(*place))).collect();
    let others = news.len() < places.len();
    let pause = if others { (Instant::now() + ASK_EVERY).min(until) } else { until };
    let news = async {
        if news.is_empty() {
            std::future::pending::<()>().await;
        }
        select_all(news).await;
    };
    // Either way it is looked again.
    drop(tokio::time::timeout_at(pause.into(), news).await);
}

/// Where to read on in each of the shards that are asked for.
fn places(call: &Call, query: &ChangesQuery) -> Result<Vec<FeedCursor>, Refusal> {
    let count = match query.shard {
        Some(_) => 1,
        None => call.api.feeds().len(),
    };
    let places = match &query.from {
        Some(cursor) => read_places(call, query, cursor)?,
        None => vec![FeedCursor::default(); count],
    };
    if places.len() == count { Ok(places) } else { Err(invalid_cursor()) }
}

fn shard_of<'a>(
    call: &'a Call,
    query: &ChangesQuery,
    places: &[FeedCursor],
) -> Result<(&'a Feed, FeedCursor), Refusal> {
    let missing = || Refusal::new(Code::NotFound, "the region has no such shard");
    let asked = |feed: &&Feed| query.shard == Some(feed.shard());
    let feed = call.api.feeds().iter().find(asked).ok_or_else(missing)?;
    let place = places.first().ok_or_else(invalid_cursor)?;
    Ok((feed, *place))
}

fn scope(call: &Call, query: &ChangesQuery) -> purser_api::CursorScope {
    query.scope(RegionName(*call.api.region()))
}

/// Places as a cursor, with commas between.
fn seal(call: &Call, query: &ChangesQuery, places: &[FeedCursor]) -> Cursor {
    let texts = places.iter().map(|FeedCursor(position)| position.0.to_string());
    scope(call, query).seal(&texts.collect::<Vec<_>>().join(","))
}

fn read_places(
    call: &Call,
    query: &ChangesQuery,
    cursor: &Cursor,
) -> Result<Vec<FeedCursor>, Refusal> {
    let text = open_cursor(&scope(call, query), cursor)?;
    let place = |text: &str| Some(FeedCursor(Position(text.parse().ok()?)));
    text.split(',').map(place).collect::<Option<_>>().ok_or_else(invalid_cursor)
}

fn refusal(error: &FeedError) -> Refusal {
    match error {
        FeedError::NoSuchPlace(_) => invalid_cursor(),
        FeedError::NotLeading => Refusal::not_ready(),
        FeedError::History(error) => Refusal::of_history(error),
        FeedError::Task(error) => Refusal::internal(chain(error)),
    }
}
