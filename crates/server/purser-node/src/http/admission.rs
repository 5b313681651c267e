//! Who is let in, and what is taken from a request before its body means anything.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, HttpBody};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Limited};
use hyper::HeaderMap;
use hyper::header::{self, HeaderValue};
use purser_api::{BODY_BYTES_MAX, ProblemCode};
use purser_types::{IdempotencyKey, TenantId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::http::call::IDEMPOTENCY_KEY;
use crate::http::problem::Refusal;
use crate::token::{self, Token};

pub(crate) fn invalid_id(detail: impl Into<Cow<'static, str>>) -> Refusal {
    Refusal::new(ProblemCode::InvalidId, detail)
}

pub(crate) fn read_tenant(text: &str) -> Result<TenantId, Refusal> {
    TenantId::parse(text).map_err(|error| invalid_id(format!("a tenant {error}")))
}

pub(crate) fn authenticate<'a>(
    headers: &HeaderMap,
    tokens: &'a [Arc<Token>],
) -> Result<&'a Arc<Token>, Refusal> {
    let refused = |detail| Refusal::new(ProblemCode::Unauthenticated, detail);
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(refused("exactly one Authorization header is required"));
    };
    let secret =
        bearer(value).ok_or_else(|| refused("the Authorization header must be a Bearer token"))?;
    token::find(tokens, secret).ok_or_else(|| refused("the token is not known"))
}

fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, secret) = value.as_bytes().split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| secret.trim_ascii())
}

/// The answer is the same whether the tenant exists or not: a foreign tenant cannot be seen.
pub(crate) fn admit(caller: &Token, tenant: &TenantId) -> Result<(), Refusal> {
    if caller.reaches(tenant) {
        Ok(())
    } else {
        Err(Refusal::new(ProblemCode::Forbidden, "the token does not reach this tenant"))
    }
}

pub(crate) fn admit_to_all(caller: &Token) -> Result<(), Refusal> {
    if caller.tenants.is_none() {
        Ok(())
    } else {
        Err(Refusal::new(ProblemCode::Forbidden, "the token is limited to some tenants"))
    }
}

pub(crate) fn read_key(headers: &HeaderMap) -> Result<IdempotencyKey, Refusal> {
    let invalid = |detail: String| Refusal::new(ProblemCode::InvalidIdempotencyKey, detail);
    let mut values = headers.get_all(&IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else {
        let detail = "the Idempotency-Key header is required: your own name for this one change";
        return Err(Refusal::new(ProblemCode::MissingIdempotencyKey, detail));
    };
    if values.next().is_some() {
        return Err(invalid("the Idempotency-Key header stands there twice".to_owned()));
    }
    let text = str::from_utf8(value.as_bytes());
    let text = text.map_err(|_not_utf8| invalid("an idempotency key must be UTF-8".to_owned()))?;
    IdempotencyKey::parse(text).map_err(|error| invalid(format!("an idempotency key {error}")))
}

/// The room for the bodies of all requests that a node has in memory at once.
pub(crate) struct BodyRoom(Arc<Semaphore>);

impl BodyRoom {
    /// Room for so many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS))))
    }
}

/// A body that was read, and the room that it takes until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct ReadBody {
    bytes: Bytes,
    room: Option<OwnedSemaphorePermit>,
}

impl ReadBody {
    /// The body.
    pub(crate) const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Adds what has arrived. Room is taken as bytes come and not as they are announced: who
    /// announces much and sends nothing takes nothing.
    fn add(&mut self, more: Bytes, all: &BodyRoom) -> Result<(), Interrupted> {
        if BODY_BYTES_MAX - self.bytes.len() < more.len() {
            return Err(Interrupted::TooLarge);
        }
        let bytes = u32::try_from(more.len()).map_err(|_too_many| Interrupted::TooLarge)?;
        let room = Arc::clone(&all.0).try_acquire_many_owned(bytes);
        let room = room.map_err(|_full| Interrupted::NoRoom)?;
        match &mut self.room {
            Some(taken) => taken.merge(room),
            none => *none = Some(room),
        }
        if self.bytes.is_empty() {
            self.bytes = more;
        } else {
            let mut joined = BytesMut::from(std::mem::take(&mut self.bytes));
            joined.extend_from_slice(&more);
            self.bytes = joined.freeze();
        }
        Ok(())
    }
}

/// Why a body was not read to its end.
#[derive(Debug, Clone, Copy)]
enum Interrupted {
    TooLarge,
    NoRoom,
    CutOff,
}

/// How much of a body that nobody reads is taken off the connection. A caller that is still sending
/// does not hear an answer: the connection breaks under it first, and it would send the same again.
/// Whoever sends more than that does not listen.
const THROWN_AWAY_BYTES_MAX: usize = 8 * BODY_BYTES_MAX;

/// Reads a body within the limits of size, room and time. A body that is not there needs no type.
pub(crate) async fn read_body(
    headers: &HeaderMap,
    mut body: Body,
    room: &BodyRoom,
    deadline: Instant,
) -> Result<ReadBody, Refusal> {
    let length = body.size_hint().exact();
    let is_announced_too_large =
        length.is_some_and(|length| usize::try_from(length).map_or(true, |it| BODY_BYTES_MAX < it));
    let read = if is_announced_too_large {
        Ok(Err(Interrupted::TooLarge))
    } else {
        tokio::time::timeout_at(deadline.into(), collect(&mut body, room)).await
    };
    let incomplete = |detail| Refusal::new(ProblemCode::BodyIncomplete, detail);
    let read = match read {
        Ok(Ok(read)) => read,
        Ok(Err(Interrupted::CutOff)) => return Err(incomplete("the body did not arrive whole")),
        Err(_elapsed) => return Err(incomplete("the body did not arrive in time")),
        Ok(Err(Interrupted::TooLarge)) => {
            throw_away(headers, body, THROWN_AWAY_BYTES_MAX, deadline).await;
            let detail = format!("a body may have at most {BODY_BYTES_MAX} bytes");
            return Err(Refusal::new(ProblemCode::BodyTooLarge, detail));
        }
        Ok(Err(Interrupted::NoRoom)) => {
            throw_away(headers, body, BODY_BYTES_MAX, deadline).await;
            let detail = "too many bodies are in memory; nothing happened";
            return Err(Refusal::overloaded(detail));
        }
    };
    if !read.bytes.is_empty() && !is_json(headers) {
        let detail = "the Content-Type of a body must be application/json";
        return Err(Refusal::new(ProblemCode::UnsupportedMediaType, detail));
    }
    Ok(read)
}

async fn collect(body: &mut Body, room: &BodyRoom) -> Result<ReadBody, Interrupted> {
    let mut read = ReadBody::default();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_cut_off| Interrupted::CutOff)?;
        if let Ok(data) = frame.into_data() {
            read.add(data, room)?;
        }
    }
    Ok(read)
}

/// Takes the body of a request that was refused unread off the connection, so that the caller hears
/// the answer and can go on with the same connection.
pub(crate) async fn skip_body(headers: &HeaderMap, body: Body, deadline: Instant) {
    throw_away(headers, body, BODY_BYTES_MAX, deadline).await;
}

async fn throw_away(headers: &HeaderMap, body: Body, bytes_max: usize, deadline: Instant) {
    // The caller waits to be told to send it, and is not.
    if headers.contains_key(header::EXPECT) {
        return;
    }
    let mut rest = Limited::new(body, bytes_max);
    let throwing_away = async { while let Some(Ok(_)) = rest.frame().await {} };
    if tokio::time::timeout_at(deadline.into(), throwing_away).await.is_err() {
        tracing::debug!("a body that was not wanted did not end in time");
    }
}

/// The types of bodies that are read. What a body has to be its operation says; events are JSON by their
/// own names as well.
const JSON_TYPES: [&str; 3] =
    ["application/json", "application/cloudevents+json", "application/cloudevents-batch+json"];

fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return false };
    let essence = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    let essence = essence.trim_ascii();
    JSON_TYPES.iter().any(|json| essence.eq_ignore_ascii_case(json.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use futures_util::StreamExt;
    use futures_util::stream;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    #[track_caller]
    fn check_key(pairs: &[(&'static str, &str)], expected: Result<&str, ProblemCode>) {
        let read = read_key(&headers(pairs));
        let read = read.as_ref().map(IdempotencyKey::as_str).map_err(Refusal::code);
        assert_eq!(read, expected, "{pairs:?}");
    }

    #[test]
    fn a_key_is_one_text_without_control_characters() {
        check_key(&[("idempotency-key", "k1")], Ok("k1"));
        check_key(&[("idempotency-key", "größer")], Ok("größer"));
        check_key(&[], Err(ProblemCode::MissingIdempotencyKey));
        check_key(&[("idempotency-key", "")], Err(ProblemCode::InvalidIdempotencyKey));
        let long = "k".repeat(256);
        check_key(&[("idempotency-key", &long)], Err(ProblemCode::InvalidIdempotencyKey));
        let twice = [("idempotency-key", "a"), ("idempotency-key", "b")];
        check_key(&twice, Err(ProblemCode::InvalidIdempotencyKey));
    }

    #[test]
    fn a_token_stands_behind_its_scheme() {
        let secret = |text: &str| {
            let value = HeaderValue::from_str(text).unwrap();
            bearer(&value).map(<[u8]>::to_vec)
        };
        assert_eq!(secret("Bearer abc").as_deref(), Some(&b"abc"[..]));
        assert_eq!(secret("bearer abc").as_deref(), Some(&b"abc"[..]));
        assert_eq!(secret("Basic abc"), None);
        assert_eq!(secret("abc"), None);
    }

    const JSON: &[(&str, &str)] = &[("content-type", "application/json")];

    /// A body that comes in these pieces.
    fn pieces(pieces: &[Result<&'static [u8], io::ErrorKind>]) -> Body {
        let pieces: Vec<_> = pieces.iter().map(|it| it.map_err(io::Error::from)).collect();
        Body::from_stream(stream::iter(pieces))
    }

    async fn read(body: Body, room: &BodyRoom) -> Result<ReadBody, ProblemCode> {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        let read = read_body(&headers(JSON), body, room, deadline.into_std()).await;
        read.map_err(|refusal| refusal.code())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_arriving_may_be_sent_again() {
        let room = BodyRoom::new(BODY_BYTES_MAX);
        let cut_off = pieces(&[Ok(b"{\"amount\""), Err(io::ErrorKind::ConnectionReset)]);
        assert_eq!(read(cut_off, &room).await.unwrap_err(), ProblemCode::BodyIncomplete);

        let first = stream::iter([Ok::<_, io::Error>(&b"{"[..])]);
        let endless = Body::from_stream(first.chain(stream::pending()));
        assert_eq!(read(endless, &room).await.unwrap_err(), ProblemCode::BodyIncomplete);
        assert_eq!(ProblemCode::BodyIncomplete.retry(), purser_api::Retry::Later);
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_take_room_as_they_arrive_and_until_they_are_dropped() {
        let room = BodyRoom::new(10);
        let first = read(pieces(&[Ok(b"{\"a\""), Ok(b":1}")]), &room).await.unwrap();
        assert_eq!(&first.bytes()[..], b"{\"a\":1}");
        let second = read(pieces(&[Ok(b"{}"), Ok(b"  ")]), &room).await;
        assert_eq!(second.unwrap_err(), ProblemCode::Overloaded);
        // What the refused one had taken is free again.
        let third = read(pieces(&[Ok(b"{}")]), &room).await.unwrap();
        drop((first, third));
        read(pieces(&[Ok(b"{\"bb\":22}")]), &room).await.unwrap();
    }
}
