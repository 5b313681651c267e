//! The client and its one way to send a request.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use purser_api::{Problem, Retry, headers};
use purser_types::{IdempotencyKey, TenantId};
use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Method, StatusCode};
use serde::Serialize;
use tokio::time::Instant;

use crate::account::Account;
use crate::admin::Admin;
use crate::backoff::Backoff;
use crate::body::AnswerBody;
use crate::call::{Answer, Call, random_key};
use crate::error::{AttemptError, ClientError};
use crate::retry::{GaveUp, Limits, attempts};
use crate::settings::{ClientSettings, SettingsError, authorization, checked_base_urls};

/// A client of one region. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    http: reqwest::Client,
    authorization: HeaderValue,
    base_urls: Vec<String>,
    /// Counts the nodes that failed; where the next attempt goes follows from it.
    preferred: AtomicUsize,
    call_time: Duration,
    attempt_time: Duration,
    backoff: Backoff,
}

/// A request as all its attempts send it.
pub(crate) struct Request {
    method: Method,
    path: String,
    body: Option<Vec<u8>>,
    key: Option<IdempotencyKey>,
    /// Whether it changes anything. A read that got no answer has not happened.
    changes: bool,
}

impl Client {
    /// A client with the default settings.
    pub fn new<I>(base_urls: I, token: impl Into<String>) -> Result<Self, SettingsError>
    where
        I: IntoIterator<Item: Into<String>>,
    {
        Self::from_settings(&ClientSettings::new(base_urls, token))
    }

    /// A client with these settings. Nothing is sent yet.
    pub fn from_settings(settings: &ClientSettings) -> Result<Self, SettingsError> {
        let http = reqwest::Client::builder()
            // Requests are small and wait for their answers; Nagle would only add to that.
            .tcp_nodelay(true)
            .redirect(reqwest::redirect::Policy::none())
            // A node is asked and no one else: a proxy would hide which node failed, and whether it
            // was reached. What the environment says about the web is not about nodes.
            .no_proxy()
            // Order matters to `may_have_happened`: only the loop in `retry` sends again.
            .retry(reqwest::retry::never())
            .build()
            .map_err(SettingsError::Http)?;
        let inner = Inner {
            http,
            authorization: authorization(&settings.token)?,
            base_urls: checked_base_urls(&settings.base_urls)?,
            preferred: AtomicUsize::new(0),
            call_time: settings.call_time,
            attempt_time: settings.attempt_time,
            backoff: settings.backoff,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// A tenant's account in the default unit, as the data plane sees it.
    pub fn account(&self, tenant: TenantId) -> Account {
        Account::new(self.clone(), tenant)
    }

    /// The admin API. Needs a token with the scope `admin`, and perhaps other base URLs.
    pub fn admin(&self) -> Admin {
        Admin::new(self.clone())
    }

    /// Sends a request until it is answered, refused or out of time.
    ///
    /// Only what depends on the answer's type is in here: each call of the contract has one, and the
    /// rest need not be compiled for each.
    pub(crate) async fn send<T: AnswerBody>(
        &self,
        request: Request,
        time: Option<Duration>,
    ) -> Result<Answer<T>, ClientError> {
        let (reply, request) = self.exchange(request, time).await?;
        match T::from_json(&reply.body) {
            Ok(body) => Ok(Answer { body, replayed: reply.replayed, key: request.key }),
            Err(error) => {
                self.prefer_next(reply.place);
                let last = unreadable(reply.status, &error);
                Err(give_up(last, request.changes, request.key))
            }
        }
    }

    /// Boxed, so that the code that sends is made in this crate, and not again in every program.
    fn exchange(&self, request: Request, time: Option<Duration>) -> Exchange<'_> {
        let limits = Limits {
            deadline: Instant::now() + time.unwrap_or(self.inner.call_time),
            attempt_time: self.inner.attempt_time,
            backoff: self.inner.backoff,
        };
        Box::pin(async move {
            let mut headers = HeaderMap::new();
            if let Some(key) = &request.key {
                headers.insert(headers::IDEMPOTENCY_KEY, key_header(key)?);
            }
            let sent = attempts(limits, |time| self.attempt(&request, &headers, time)).await;
            match sent {
                Ok(reply) => Ok((reply, request)),
                Err(GaveUp { last, may_have_happened }) => {
                    Err(give_up(last, may_have_happened && request.changes, request.key))
                }
            }
        })
    }

    async fn attempt(
        &self,
        request: &Request,
        headers: &HeaderMap,
        time: Duration,
    ) -> Result<Reply, AttemptError> {
        let place = self.inner.preferred.load(Ordering::Relaxed);
        let answer = self.attempt_at(place, request, headers, time).await;
        if answer.as_ref().is_err_and(AttemptError::blames_node) {
            self.prefer_next(place);
        }
        answer
    }

    /// Makes later attempts go past the node at `place`, which failed.
    fn prefer_next(&self, place: usize) {
        // The maximum and not a count: of many calls that fail at one node, only the first moves
        // on, and no node is skipped.
        self.inner.preferred.fetch_max(place.saturating_add(1), Ordering::Relaxed);
    }

    async fn attempt_at(
        &self,
        place: usize,
        request: &Request,
        headers: &HeaderMap,
        time: Duration,
    ) -> Result<Reply, AttemptError> {
        let base_url = &self.inner.base_urls[place % self.inner.base_urls.len()];
        let Request { method, path, body, .. } = request;
        let mut sending = self
            .inner
            .http
            .request(method.clone(), format!("{base_url}{path}"))
            .timeout(time)
            .header(header::AUTHORIZATION, self.inner.authorization.clone())
            .headers(headers.clone());
        if let Some(body) = body {
            sending = sending.header(header::CONTENT_TYPE, "application/json").body(body.clone());
        }
        let response = sending.send().await.map_err(lost)?;
        let status = response.status();
        let headers = response.headers().clone();
        let body = response.bytes().await.map_err(lost)?;
        if status.is_success() {
            let replayed = headers.get(headers::IDEMPOTENT_REPLAYED);
            let replayed = replayed.is_some_and(|value| value.as_bytes() == b"true");
            return Ok(Reply { place, status, replayed, body: body.into() });
        }
        let problem = Problem::from_json(&body).map_err(|error| unreadable(status, &error))?;
        let retry_after = retry_after(&problem, &headers);
        Err(AttemptError::Problem { problem: Box::new(problem), retry_after })
    }
}

/// A request on its way, all attempts together. It gives the request back with the answer.
type Exchange<'a> =
    Pin<Box<dyn Future<Output = Result<(Reply, Request), ClientError>> + Send + 'a>>;

/// An answer that is no problem, not read yet.
struct Reply {
    /// Who answered: the value of [`Inner::preferred`] that led there.
    place: usize,
    status: StatusCode,
    replayed: bool,
    body: Vec<u8>,
}

fn unreadable(status: StatusCode, error: &serde_json::Error) -> AttemptError {
    AttemptError::Unreadable { status: status.as_u16(), detail: error.to_string() }
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Client")
            .field("base_urls", &self.inner.base_urls)
            .finish_non_exhaustive()
    }
}

impl Request {
    /// A read.
    pub(crate) fn get(path: String) -> Self {
        Self { method: Method::GET, path, body: None, key: None, changes: false }
    }

    /// A question that has a body and no effect.
    pub(crate) fn ask(path: String, body: &impl Serialize) -> Self {
        let body = Some(written(body));
        Self { method: Method::POST, path, body, key: None, changes: false }
    }

    /// A change under the call's key, or under a random one.
    pub(crate) fn change(path: String, body: &impl Serialize, call: &Call) -> Self {
        let key = call.key.clone().unwrap_or_else(random_key);
        let body = Some(written(body));
        Self { method: Method::POST, path, body, key: Some(key), changes: true }
    }

    /// The same, for what a path stands for as a whole.
    pub(crate) fn replace(path: String, body: &impl Serialize, call: &Call) -> Self {
        Self { method: Method::PUT, ..Self::change(path, body, call) }
    }

    /// A statement of what shall be. Saying it again changes nothing, so it needs no key.
    pub(crate) fn put(path: String, body: Option<&impl Serialize>) -> Self {
        Self { method: Method::PUT, path, body: body.map(written), key: None, changes: true }
    }

    /// The same, for what goes on when it has been said.
    pub(crate) fn state(path: String, body: &impl Serialize) -> Self {
        Self { changes: true, ..Self::ask(path, body) }
    }

    /// The same, where the path says it all.
    pub(crate) fn state_alone(path: String) -> Self {
        Self { method: Method::POST, path, body: None, key: None, changes: true }
    }

    /// There shall be nothing at this path.
    pub(crate) fn delete(path: String) -> Self {
        Self { method: Method::DELETE, path, body: None, key: None, changes: true }
    }

    /// Changes that carry their keys in the body.
    pub(crate) fn changes_with_own_keys(path: String, body: &impl Serialize) -> Self {
        Self { changes: true, ..Self::ask(path, body) }
    }
}

fn written<T: Serialize>(body: &T) -> Vec<u8> {
    serde_json::to_vec(body).expect("bodies have text keys and plain values")
}

/// A path with a query; parameters at their defaults may be left out by `query` itself.
pub(crate) fn with_query(path: &str, query: &impl Serialize) -> String {
    let query = serde_urlencoded::to_string(query).expect("queries are flat");
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

/// The key as a header. Not every key can be one: HTTP takes spaces off both ends of a value, and
/// the service would see another key.
fn key_header(key: &IdempotencyKey) -> Result<HeaderValue, ClientError> {
    let text = key.as_str();
    if text.starts_with(' ') || text.ends_with(' ') {
        return Err(ClientError::Unsendable("a key in a header cannot start or end with a space"));
    }
    let header = HeaderValue::from_bytes(text.as_bytes());
    header.map_or(Err(ClientError::Unsendable("the key cannot stand in a header")), Ok)
}

/// Whether a failed request may have arrived.
fn lost(error: reqwest::Error) -> AttemptError {
    // A time-out while connecting counts as both; what was never connected was never sent.
    if error.is_connect() || error.is_builder() {
        AttemptError::NotSent(error)
    } else {
        AttemptError::NoAnswer(error)
    }
}

/// How long the service asks to wait: in milliseconds in the problem, in seconds in the header.
fn retry_after(problem: &Problem, headers: &HeaderMap) -> Option<Duration> {
    let seconds = || {
        let header = headers.get(headers::RETRY_AFTER)?.to_str().ok()?;
        header.parse().ok().map(Duration::from_secs)
    };
    problem.figures.retry_after_ms.map(Duration::from_millis).or_else(seconds)
}

fn give_up(
    last: AttemptError,
    may_have_happened: bool,
    key: Option<IdempotencyKey>,
) -> ClientError {
    match last {
        last if may_have_happened => ClientError::Unknown { key, last },
        // A problem that could have been retried was not the service's last word; time ran out.
        AttemptError::Problem { problem, .. }
            if matches!(problem.retry, Retry::Never | Retry::NewKey) =>
        {
            ClientError::Refused(problem)
        }
        last => ClientError::Unreachable { last },
    }
}
