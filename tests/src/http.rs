//! Calls as a program without our client makes them: JSON over HTTP, one answer each.
//!
//! Not here: retries. What a call was answered is what a test is about.

use std::time::Duration;

use purser_api::{Problem, headers};
use reqwest::Method;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use serde_json::Value;

/// How long a call may take before its outcome is unknown to the caller. Longer than a node takes
/// to answer 503 or 504 by itself.
const CALL_DEADLINE: Duration = Duration::from_secs(15);

/// One node as one caller sees it. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Api {
    base: String,
    token: String,
    http: reqwest::Client,
}

/// There was no answer: not connected, cut off, or too late.
#[derive(Debug)]
pub struct NoAnswer(pub String);

/// What a node answered.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body; `null` if it was empty, a string if it was not JSON.
    pub body: Value,
}

impl Api {
    /// A caller with a token at an address such as `http://127.0.0.1:7710`.
    pub fn new(base: impl Into<String>, token: impl Into<String>) -> Self {
        Self { base: base.into(), token: token.into(), http: connections() }
    }

    /// The same node and token, over connections of its own.
    #[must_use]
    pub fn reconnected(&self) -> Self {
        Self { http: connections(), ..self.clone() }
    }

    /// The same node with another token.
    #[must_use]
    pub fn with_token(&self, token: impl Into<String>) -> Self {
        Self { token: token.into(), ..self.clone() }
    }

    /// The address of the node.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Reads. `path` starts with a slash.
    pub async fn get(&self, path: &str) -> Reply {
        self.try_get(path).await.expect("the node answers")
    }

    /// Changes something under a key.
    pub async fn post(&self, path: &str, key: &str, body: &Value) -> Reply {
        self.try_post(path, key, body).await.expect("the node answers")
    }

    /// Reads from a node that may not answer.
    pub async fn try_get(&self, path: &str) -> Result<Reply, NoAnswer> {
        self.send(self.request(Method::GET, path)).await
    }

    /// Changes something at a node that may not answer.
    pub async fn try_post(&self, path: &str, key: &str, body: &Value) -> Result<Reply, NoAnswer> {
        let request = self.request(Method::POST, path).header(headers::IDEMPOTENCY_KEY, key);
        self.send(request.header(CONTENT_TYPE, "application/json").body(body.to_string())).await
    }

    /// A request with this caller's token, to be finished and given to [`Api::send`].
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        request.header(AUTHORIZATION, format!("Bearer {}", self.token))
    }

    /// Sends a request and reads all of the answer.
    pub async fn send(&self, request: reqwest::RequestBuilder) -> Result<Reply, NoAnswer> {
        let response = request.send().await.map_err(NoAnswer::from)?;
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let text = response.text().await.map_err(NoAnswer::from)?;
        Ok(Reply { status, headers, body: json_or_text(text) })
    }
}

impl From<reqwest::Error> for NoAnswer {
    fn from(error: reqwest::Error) -> Self {
        Self(format!("{error:?}"))
    }
}

impl Reply {
    /// Fails unless the status is this one.
    #[track_caller]
    pub fn check(&self, status: u16) -> &Self {
        assert_eq!(self.status, status, "{self:#?}");
        self
    }

    /// Fails unless this is a problem document with this status and code.
    #[track_caller]
    pub fn check_problem(&self, status: u16, code: &str) -> &Self {
        self.check(status);
        assert_eq!(self.header("content-type"), Some(Problem::MEDIA_TYPE), "{self:#?}");
        assert_eq!(self.body["code"], code, "{self:#?}");
        assert_eq!(self.body["status"], status, "{self:#?}");
        for field in ["type", "title", "detail", "retry", "outcome", "request_id"] {
            assert!(self.body[field].is_string(), "a problem has a `{field}`: {self:#?}");
        }
        self
    }

    /// The text of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Whether the answer says that it was decided before.
    pub fn replayed(&self) -> bool {
        self.header(headers::IDEMPOTENT_REPLAYED) == Some("true")
    }

    /// A field that is text.
    #[track_caller]
    pub fn text(&self, field: &str) -> String {
        let text = self.body[field].as_str();
        assert!(text.is_some(), "`{field}` is not text: {self:#?}");
        text.unwrap_or_default().to_owned()
    }
}

fn connections() -> reqwest::Client {
    // No proxy: whatever is set for the machine is not for its loopback.
    let builder = reqwest::Client::builder().no_proxy().tcp_nodelay(true).timeout(CALL_DEADLINE);
    builder.build().expect("a client without TLS needs nothing")
}

fn json_or_text(text: String) -> Value {
    if text.is_empty() {
        return Value::Null;
    }
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}
