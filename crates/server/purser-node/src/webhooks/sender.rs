//! Sends one event to a receiver.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};

use super::WebhookSettings;
use super::address::Target;
use super::connection::{ConnectError, Connection, connect};
use super::event::Event;
use super::signature::signatures;
use crate::tasks::Tasks;

/// How long a receiver has from the first byte to its status.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the rest of an answer is waited for.
const DRAIN_PATIENCE: Duration = Duration::from_secs(1);

/// How much of an answer is read, so that its connection can be used again; of a longer one it is closed.
const ANSWER_BYTES_MAX: usize = 4 << 10;

/// Connections that are kept for later: as many as are used at once.
const IDLE_MAX: usize = super::worker::MAIN_MAX;

/// How long after it was made a connection is used again. Then the name is resolved again, and its addresses
/// are judged again: a receiver may have moved.
const AGE_MAX: Duration = Duration::from_secs(90);

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Makes senders: one for each worker, so that none waits for another's connections.
pub(super) struct Senders {
    settings: WebhookSettings,
    tasks: Tasks,
}

impl Senders {
    pub(super) const fn new(settings: WebhookSettings, tasks: Tasks) -> Self {
        Self { settings, tasks }
    }

    pub(super) fn sender(&self) -> Sender {
        let (settings, tasks) = (self.settings, self.tasks.clone());
        Sender(Arc::new(Kept { settings, tasks, idle: Mutex::default() }))
    }
}

/// Sends events of one webhook. Clones share connections.
#[derive(Clone)]
pub(super) struct Sender(Arc<Kept>);

struct Kept {
    settings: WebhookSettings,
    tasks: Tasks,
    idle: Mutex<Idle<Connection>>,
}

/// Connections that wait for their next use.
struct Idle<C>(Vec<Made<C>>);

impl<C> Default for Idle<C> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// A connection, and when it was made.
struct Made<C> {
    connection: C,
    at: Instant,
}

impl<C> Idle<C> {
    /// One that is young enough. Those that are not are closed.
    fn take(&mut self, now: Instant) -> Option<Made<C>> {
        self.0.retain(|made| now.saturating_duration_since(made.at) < AGE_MAX);
        self.0.pop()
    }

    fn keep(&mut self, made: Made<C>) {
        if self.0.len() < IDLE_MAX {
            self.0.push(made);
        }
    }
}

/// What is sent where, and how it is signed.
pub(super) struct Letter {
    /// The receiver.
    pub(super) url: Box<str>,
    /// What signs, newest first.
    pub(super) keys: Vec<Vec<u8>>,
    /// Seconds since 1970.
    pub(super) seconds: u64,
    /// What is sent.
    pub(super) event: Event,
}

/// Why an event was not delivered, as far as is known: it may have been.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    /// There is no connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// It broke.
    #[error("the connection broke")]
    Broken(#[source] hyper::Error),
    /// No answer came.
    #[error("no answer within {} seconds", PATIENCE.as_secs())]
    TooLate,
    /// The receiver does not take it. A redirect is none of its own events' business.
    #[error("the receiver answered {0}")]
    Refused(StatusCode),
    /// The event cannot be written as a request.
    #[error("the request could not be made")]
    Request(#[from] hyper::http::Error),
}

impl Sender {
    /// Sends an event. It is delivered if the receiver answers 2xx; redirects are not followed.
    pub(super) async fn send(&self, letter: &Letter) -> Result<(), SendError> {
        let target = Target::parse(&letter.url).map_err(ConnectError::from)?;
        let sending = self.send_to(&target, letter);
        tokio::time::timeout(PATIENCE, sending).await.unwrap_or(Err(SendError::TooLate))
    }

    async fn send_to(&self, target: &Target, letter: &Letter) -> Result<(), SendError> {
        if let Some(mut kept) = self.take_idle()
            && kept.connection.ready().await.is_ok()
            // It may just be closed: that says nothing about the receiver, which is asked once more.
            && let Ok(response) = kept.connection.send_request(request(target, letter)?).await
        {
            return self.judge(kept, response).await;
        }
        let settings = self.0.settings;
        let at = Instant::now();
        let connection = connect(target, settings.allow_private_targets, &self.0.tasks).await?;
        let mut fresh = Made { connection, at };
        let sent = fresh.connection.send_request(request(target, letter)?).await;
        self.judge(fresh, sent.map_err(SendError::Broken)?).await
    }

    async fn judge(
        &self,
        connection: Made<Connection>,
        response: Response<hyper::body::Incoming>,
    ) -> Result<(), SendError> {
        let (head, body) = response.into_parts();
        // What stands there is nobody's business: it only has to be out of the way before the connection is
        // used again, and a receiver that does not end it has answered all the same.
        let read = Limited::new(body, ANSWER_BYTES_MAX).collect();
        if tokio::time::timeout(DRAIN_PATIENCE, read).await.is_ok_and(|read| read.is_ok()) {
            self.keep(connection);
        }
        if head.status.is_success() { Ok(()) } else { Err(SendError::Refused(head.status)) }
    }

    fn take_idle(&self) -> Option<Made<Connection>> {
        let mut idle = self.0.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.take(Instant::now())
    }

    fn keep(&self, connection: Made<Connection>) {
        let mut idle = self.0.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.keep(connection);
    }
}

fn request(target: &Target, letter: &Letter) -> Result<Request<Full<Bytes>>, SendError> {
    let Letter { keys, seconds, event: Event { id, body }, .. } = letter;
    let path = target.uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = target.uri.authority().map_or("", |authority| authority.as_str());
    let signature = signatures(keys, (id, *seconds), body);
    let request = Request::post(path)
        .header(header::HOST, authority)
        .header(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))
        .header(header::USER_AGENT, concat!("purser/", env!("CARGO_PKG_VERSION")))
        .header(ID, &**id)
        .header(TIMESTAMP, *seconds)
        .header(SIGNATURE, signature);
    Ok(request.body(Full::new(body.clone()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_used_again_until_90_seconds_after_it_was_made_however_often_it_was_used() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut idle = Idle::default();
        idle.keep(Made { connection: "first", at: start });
        let used = idle.take(after(60)).unwrap();
        assert_eq!(used.connection, "first");
        idle.keep(used);
        idle.keep(Made { connection: "second", at: after(60) });
        let used = idle.take(after(90)).unwrap();
        assert_eq!((used.connection, idle.0.len()), ("second", 0));
        idle.keep(used);
        assert!(idle.take(after(150)).is_none());
    }
}
