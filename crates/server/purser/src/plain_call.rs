//! One HTTP call outside the contract of `purser-api`: the control of a development cluster.
//!
//! It is sent once. Not here: retries and keys; the calls of the contract go through
//! `purser-client`.

use std::error::Error;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, StatusCode, header};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::failure::CommandError;

/// A call.
#[derive(Debug)]
pub(crate) struct PlainCall<'a> {
    /// `http://host:port`.
    pub(crate) base_url: &'a str,
    /// The bearer token.
    pub(crate) token: &'a str,
    /// What to do.
    pub(crate) method: Method,
    /// With what.
    pub(crate) path: &'a str,
    /// The body; may be empty.
    pub(crate) body: Bytes,
}

/// What any refusal says, problem documents included.
#[derive(Deserialize)]
struct RefusalText {
    detail: String,
}

impl PlainCall<'_> {
    /// Sends it and reads the answer.
    pub(crate) async fn send<T: DeserializeOwned>(self) -> Result<T, CommandError> {
        let url = format!("{}{}", self.base_url.trim_end_matches('/'), self.path);
        let request = Request::builder()
            .method(self.method)
            .uri(&url)
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token))
            .body(Full::new(self.body))
            .map_err(|error| CommandError::Usage(format!("{url} cannot be called: {error}")))?;
        let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
        let answered = client.request(request).await;
        let response = answered.map_err(|error| unreached(&url, error))?;
        let status = response.status();
        let body = response.into_body().collect().await;
        let body = body.map_err(|error| unreached(&url, error))?.to_bytes();
        if !status.is_success() {
            return Err(refused(status, &body));
        }
        serde_json::from_slice(&body).map_err(|error| {
            CommandError::broken(format!("{url} answers what this release cannot read"), error)
        })
    }
}

fn unreached(url: &str, error: impl Error + Send + Sync + 'static) -> CommandError {
    CommandError::unreached(format!("nothing answers at {url}"), error)
}

fn refused(status: StatusCode, body: &[u8]) -> CommandError {
    let text: Result<RefusalText, _> = serde_json::from_slice(body);
    CommandError::Failed(text.map_or_else(|_not_ours| status.to_string(), |text| text.detail))
}
