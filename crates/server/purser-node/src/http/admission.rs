//! Who is let in, and what is taken from a request before its body means anything.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::HeaderMap;
use hyper::header::{self, HeaderValue};
use purser_api::{BODY_BYTES_MAX, ProblemCode};
use purser_types::{IdempotencyKey, TenantId};

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

/// Reads a body within the limits of size and time. A body that is not there needs no type.
pub(crate) async fn read_body(
    headers: &HeaderMap,
    mut body: Body,
    deadline: Instant,
) -> Result<Bytes, Refusal> {
    match axum::body::HttpBody::size_hint(&body).exact() {
        Some(0) => return Ok(Bytes::new()),
        Some(length) if usize::try_from(length).is_ok_and(|length| BODY_BYTES_MAX < length) => {
            return Err(too_large(body, deadline).await);
        }
        _ => (),
    }
    let reading = Limited::new(&mut body, BODY_BYTES_MAX).collect();
    let bytes = match tokio::time::timeout_at(deadline.into(), reading).await {
        Ok(Ok(collected)) => collected.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return Err(too_large(body, deadline).await);
        }
        Ok(Err(_)) => return Err(Refusal::invalid("the body did not arrive whole")),
        Err(_) => return Err(Refusal::invalid("the body did not arrive in time")),
    };
    if !bytes.is_empty() && !is_json(headers) {
        let detail = "the Content-Type of a body must be application/json";
        return Err(Refusal::new(ProblemCode::UnsupportedMediaType, detail));
    }
    Ok(bytes)
}

/// The refusal of a body that is too large, once the rest of it has been taken off the connection.
///
/// A caller that is still sending does not hear an answer: the connection breaks under it first, and
/// it would send the same again. So what is left is thrown away, up to eight times what is allowed;
/// whoever sends more than that does not listen.
async fn too_large(body: Body, deadline: Instant) -> Refusal {
    const THROWN_AWAY_BYTES_MAX: usize = 8 * BODY_BYTES_MAX;
    let mut rest = Limited::new(body, THROWN_AWAY_BYTES_MAX);
    let throwing_away = async { while let Some(Ok(_)) = rest.frame().await {} };
    if tokio::time::timeout_at(deadline.into(), throwing_away).await.is_err() {
        tracing::debug!("a body that was too large did not end in time");
    }
    let detail = format!("a body may have at most {BODY_BYTES_MAX} bytes");
    Refusal::new(ProblemCode::BodyTooLarge, detail)
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return false };
    let essence = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

#[cfg(test)]
mod tests {
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
}
