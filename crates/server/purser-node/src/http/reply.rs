//! What a handler answers, and how it becomes a response.

use axum::response::Response;
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use purser_api::{DeciderRole, headers};
use purser_types::{Credits, Owner, Region};
use serde::Serialize;

use crate::http::problem::{Decided, Refusal};

pub(crate) const IDEMPOTENT_REPLAYED: HeaderName =
    HeaderName::from_static(headers::IDEMPOTENT_REPLAYED);
pub(crate) const DECIDED_BY: HeaderName = HeaderName::from_static(headers::PURSER_DECIDED_BY);
const BOUND: HeaderName = HeaderName::from_static(headers::PURSER_BOUND);
const AGE_MS: HeaderName = HeaderName::from_static(headers::PURSER_AGE_MS);

/// An answer: a body, written once, and what its headers say.
#[derive(Debug)]
pub(crate) struct Reply {
    status: StatusCode,
    body: Bytes,
    decided: Option<Decided>,
    age_ms: Option<u64>,
    is_replayed: bool,
}

impl Reply {
    /// A read.
    pub(crate) fn read(body: &impl Serialize) -> Result<Self, Refusal> {
        Self::with(StatusCode::OK, body)
    }

    /// A decision.
    pub(crate) fn decided(
        status: StatusCode,
        body: &impl Serialize,
        decided: Decided,
    ) -> Result<Self, Refusal> {
        Ok(Self { decided: Some(decided), ..Self::with(status, body)? })
    }

    /// An answer whose body is written already. `decided` says how the log decided it, if it did.
    pub(crate) const fn as_written(body: Bytes, decided: Option<Decided>) -> Self {
        Self { status: StatusCode::OK, body, decided, age_ms: None, is_replayed: false }
    }

    /// The same answer, saying how old it is.
    pub(crate) fn aged(self, age_ms: u64) -> Self {
        Self { age_ms: Some(age_ms), ..self }
    }

    /// The same answer, saying whether it was given before, under the same key. For what no account decides.
    pub(crate) fn replayed(self, is_replayed: bool) -> Self {
        Self { is_replayed, ..self }
    }

    /// How the log decided it, if it did.
    pub(crate) const fn decision(&self) -> Option<Decided> {
        self.decided
    }

    fn with(status: StatusCode, body: &impl Serialize) -> Result<Self, Refusal> {
        let body = serde_json::to_vec(body)
            .map_err(|error| Refusal::internal(format!("the answer cannot be written: {error}")))?;
        Ok(Self { status, body: body.into(), decided: None, age_ms: None, is_replayed: false })
    }

    /// The response.
    pub(crate) fn into_response(self) -> Response {
        let mut response = Response::new(self.body.into());
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(age_ms) = self.age_ms {
            headers.insert(AGE_MS, HeaderValue::from(age_ms));
        }
        if self.is_replayed {
            headers.insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
        }
        response
    }
}

/// Says in the headers who decided, under which bound, and whether before.
pub(crate) fn mark_decided(response: &mut Response, decided: &Decided) {
    let headers = response.headers_mut();
    let Decided { region, role, bound, replayed, .. } = decided;
    let decided_by = format!("region={region}, role={}", role.name());
    let decided_by = HeaderValue::try_from(decided_by);
    headers.insert(DECIDED_BY, decided_by.expect("names are made of plain characters"));
    // Unknown is never shown as zero.
    if let Some(bound) = bound {
        headers.insert(BOUND, HeaderValue::from(bound.get()));
    }
    if *replayed {
        headers.insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    }
}

/// Who decided, as another node says it in its headers. `owner` stands for whoever that is: the ids in
/// the body are written already.
pub(crate) fn read_decided(headers: &HeaderMap, owner: &Owner) -> Option<Decided> {
    let text = headers.get(DECIDED_BY)?.to_str().ok()?;
    let (region, role) = text.strip_prefix("region=")?.split_once(", role=")?;
    let role = *DeciderRole::ALL.iter().find(|known| known.name() == role)?;
    let bound = headers.get(BOUND).and_then(|bound| bound.to_str().ok()?.parse().ok());
    let bound = bound.and_then(|bound| Credits::from_u64(bound).ok());
    let region = Region::parse(region).ok()?;
    Some(Decided { owner: *owner, region, role, bound, replayed: false })
}
