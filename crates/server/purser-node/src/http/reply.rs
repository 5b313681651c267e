//! What a handler answers, and how it becomes a response.

use axum::response::Response;
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{self, HeaderName, HeaderValue};
use purser_api::headers;
use serde::Serialize;

use crate::http::problem::{Refusal, Replayed};

const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static(headers::IDEMPOTENT_REPLAYED);
pub(crate) const DECIDED_BY: HeaderName = HeaderName::from_static(headers::PURSER_DECIDED_BY);
const BOUND: HeaderName = HeaderName::from_static(headers::PURSER_BOUND);
const AGE_MS: HeaderName = HeaderName::from_static(headers::PURSER_AGE_MS);

/// An answer: a body, written once, and what its headers say.
#[derive(Debug)]
pub(crate) struct Reply {
    status: StatusCode,
    body: Bytes,
    decided: Option<Replayed>,
    age_ms: Option<u64>,
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
        replayed: Replayed,
    ) -> Result<Self, Refusal> {
        Ok(Self { decided: Some(replayed), ..Self::with(status, body)? })
    }

    /// An answer whose body is written already. `decided` says how the log decided it, if it did.
    pub(crate) const fn as_written(body: Bytes, decided: Option<Replayed>) -> Self {
        Self { status: StatusCode::OK, body, decided, age_ms: None }
    }

    /// The same answer, saying how old it is.
    pub(crate) fn aged(self, age_ms: u64) -> Self {
        Self { age_ms: Some(age_ms), ..self }
    }

    /// How the log decided it, if it did.
    pub(crate) const fn decision(&self) -> Option<Replayed> {
        self.decided
    }

    fn with(status: StatusCode, body: &impl Serialize) -> Result<Self, Refusal> {
        let body = serde_json::to_vec(body)
            .map_err(|error| Refusal::internal(format!("the answer cannot be written: {error}")))?;
        Ok(Self { status, body: body.into(), decided: None, age_ms: None })
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
        response
    }
}

/// Says in the headers who decided, under which bound, and whether before.
pub(crate) fn mark_decided(
    response: &mut Response,
    decided_by: &HeaderValue,
    Replayed(replayed): Replayed,
) {
    let headers = response.headers_mut();
    headers.insert(DECIDED_BY, decided_by.clone());
    // Only home spends, so nothing can have been spent beyond what was granted.
    headers.insert(BOUND, HeaderValue::from_static("0"));
    if replayed {
        headers.insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    }
}
