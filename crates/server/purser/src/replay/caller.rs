//! Calls that are repeated until they are decided.
//!
//! A call has one key, and every attempt carries it. 503 and 429 say that nothing happened, 500,
//! 504, a broken connection and a time-out leave it open; both are answered by sending the same
//! request again after a pause. Everything else is a decision.
//!
//! Not here: what a call asks for, and what its answer means.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Method, Response, StatusCode};
use purser_api::{Problem, ProblemCode, headers};
use purser_client::AnswerBody;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::connection::{Address, Connection, ConnectionError};
use super::random::Random;
use super::tally::{Tally, count};

/// How long one attempt may take: longer than a node takes to give up (it answers 504 then).
pub(crate) const ATTEMPT_MAX: Duration = Duration::from_secs(10);
/// The pause before the second attempt.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
/// The longest pause between attempts: a tenth of the time in which a lost leader is replaced.
const PAUSE_LONGEST: Duration = Duration::from_millis(300);
/// How many connections there may be. What is due beyond that waits, and the wait counts.
const CONNECTIONS_MAX: usize = 256;

/// Where to call, and for how long to insist.
#[derive(Debug, Clone)]
pub(crate) struct CallerSettings {
    /// The nodes or front doors; calls go to them in turn, and retries to the next one.
    pub(crate) addresses: Vec<Address>,
    /// Who calls.
    pub(crate) authorization: HeaderValue,
    /// For how long a call is repeated before it is given up.
    pub(crate) patience: Duration,
    /// How long one attempt may take; usually [`ATTEMPT_MAX`].
    pub(crate) attempt_max: Duration,
}

/// One call.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// The method.
    pub(crate) method: Method,
    /// The path.
    pub(crate) path: String,
    /// The idempotency key, if the call changes something.
    pub(crate) key: Option<String>,
    /// The body; empty for none.
    pub(crate) body: Bytes,
}

impl Call {
    /// A call that reads.
    pub(crate) fn read(path: String) -> Self {
        Self { method: Method::GET, path, key: None, body: Bytes::new() }
    }

    /// A call that changes something.
    pub(crate) fn change(path: String, key: String, body: Bytes) -> Self {
        Self { method: Method::POST, path, key: Some(key), body }
    }
}

/// A decision.
#[derive(Debug, Clone)]
pub(crate) struct Decided {
    /// The HTTP status.
    pub(crate) status: StatusCode,
    /// The answer's body.
    pub(crate) body: Bytes,
    /// Whether it was decided before, under the same key.
    pub(crate) replayed: bool,
}

/// A call was given up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path} was not decided within {} s: {last}", patience.as_secs())]
pub(crate) struct Undecided {
    path: String,
    patience: Duration,
    last: String,
}

/// Makes calls.
pub(crate) struct Caller {
    settings: CallerSettings,
    /// Connections that no call uses, by the place of their address.
    idle: Vec<Mutex<Vec<Connection>>>,
    connections: Semaphore,
    turn: AtomicUsize,
    jitter: AtomicU64,
    tally: Arc<Tally>,
}

impl Caller {
    /// A caller that counts in `tally`.
    pub(crate) fn new(settings: CallerSettings, tally: Arc<Tally>) -> Self {
        Self {
            idle: settings.addresses.iter().map(|_| Mutex::default()).collect(),
            settings,
            connections: Semaphore::new(CONNECTIONS_MAX),
            turn: AtomicUsize::new(0),
            jitter: AtomicU64::new(0),
            tally,
        }
    }

    /// What is counted.
    pub(crate) fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }

    /// Sends a call until it is decided.
    pub(crate) async fn decide(&self, call: &Call) -> Result<Decided, Undecided> {
        let start = Instant::now();
        let deadline = start + self.settings.patience;
        let mut attempt = 0;
        loop {
            let reason = match self.attempt(call, deadline).await {
                Ok(response) => match again(&response) {
                    Some(reason) => reason,
                    None => {
                        self.count_delay(attempt, start);
                        return Ok(decided(response));
                    }
                },
                Err(error) => error.to_string(),
            };
            count(&mut self.tally.lock().retried, reason.clone());
            if deadline <= Instant::now() {
                self.tally.lock().undecided += 1;
                let (path, patience) = (call.path.clone(), self.settings.patience);
                return Err(Undecided { path, patience, last: reason });
            }
            sleep(self.pause(attempt)).await;
            attempt += 1;
        }
    }

    fn count_delay(&self, attempts_before: u32, start: Instant) {
        if attempts_before > 0 {
            self.tally.lock().delayed.add(start.elapsed());
        }
    }

    /// A pause that doubles with every attempt, half of it up to chance: callers that failed
    /// together shall not come back together.
    fn pause(&self, attempt: u32) -> Duration {
        let longest = PAUSE_FIRST.saturating_mul(1 << attempt.min(8)).min(PAUSE_LONGEST);
        let mut random = Random::from_seed(self.jitter.fetch_add(1, Ordering::Relaxed));
        longest.mul_f64((random.fraction() + 1.0) / 2.0)
    }

    /// One attempt. It is begun before `deadline` or not at all: where nothing answers, connections
    /// are held for long, and whoever waits for one must not wait for all before it.
    async fn attempt(
        &self,
        call: &Call,
        deadline: Instant,
    ) -> Result<Response<Bytes>, ConnectionError> {
        let permit = timeout_at(deadline, self.connections.acquire()).await;
        let permit = permit.map_err(|_elapsed| ConnectionError::NoneFree)?;
        let _permit = permit.expect("the semaphore is never closed");
        let attempt = self.attempt_at(self.next_place(), call);
        let attempt = timeout(self.settings.attempt_max, attempt).await;
        attempt.unwrap_or(Err(ConnectionError::TimedOut))
    }

    fn next_place(&self) -> usize {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        turn.checked_rem(self.settings.addresses.len()).unwrap_or_default()
    }

    async fn attempt_at(
        &self,
        place: usize,
        call: &Call,
    ) -> Result<Response<Bytes>, ConnectionError> {
        let address = &self.settings.addresses[place];
        let Call { method, path, key, body } = call;
        let authorization = &self.settings.authorization;
        let mut request = address.request(method.clone(), path, authorization, body.clone())?;
        if let Some(key) = key {
            let key = HeaderValue::from_str(key)
                .map_err(|error| ConnectionError::Request(error.into()))?;
            request.headers_mut().insert(HeaderName::from_static(headers::IDEMPOTENCY_KEY), key);
        }
        let idle = self.lock_idle(place).pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => Connection::open(address).await?,
        };
        let response = connection.call(request).await?;
        self.lock_idle(place).push(connection);
        Ok(response)
    }

    fn lock_idle(&self, place: usize) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle[place].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a response is no decision, if it is none.
fn again(response: &Response<Bytes>) -> Option<String> {
    let status = response.status();
    let undecided = matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::INTERNAL_SERVER_ERROR
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    );
    let problem = || Problem::from_json(response.body()).ok();
    let code = || problem().map_or_else(|| status.as_u16().to_string(), |it| it.code.into_owned());
    if undecided {
        return Some(code());
    }
    let in_progress = || code() == ProblemCode::InProgress.name();
    (status == StatusCode::CONFLICT && in_progress()).then(|| ProblemCode::InProgress.to_string())
}

fn decided(response: Response<Bytes>) -> Decided {
    let replayed =
        response.headers().get(headers::IDEMPOTENT_REPLAYED).is_some_and(|value| value == "true");
    Decided { status: response.status(), replayed, body: response.into_body() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, body: &'static str) -> Response<Bytes> {
        Response::builder().status(status).body(Bytes::from_static(body.as_bytes())).unwrap()
    }

    #[test]
    fn only_what_leaves_the_outcome_open_is_sent_again() {
        for status in [429, 500, 502, 503, 504] {
            assert_eq!(again(&response(status, "")), Some(status.to_string()));
        }
        for status in [200, 201, 400, 402, 404, 409, 422] {
            assert_eq!(again(&response(status, "")), None, "{status}");
        }
        let busy = Problem::new(ProblemCode::InProgress, "", "r1");
        let busy = Response::builder().status(409).body(serde_json::to_vec(&busy).unwrap().into());
        assert_eq!(again(&busy.unwrap()).as_deref(), Some("in_progress"));
    }

    fn caller(address: std::net::SocketAddr, patience: Duration) -> Caller {
        let settings = CallerSettings {
            addresses: vec![Address::of(address)],
            authorization: HeaderValue::from_static("Bearer dev"),
            patience,
            attempt_max: ATTEMPT_MAX,
        };
        Caller::new(settings, Arc::default())
    }

    #[tokio::test]
    async fn a_call_that_nobody_answers_is_given_up() {
        // Bound and not accepting would hang; a port that was just given back refuses at once.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let caller = caller(address, Duration::ZERO);
        let error = caller.decide(&Call::read("/livez".to_owned())).await.unwrap_err();
        assert_eq!(error.last, "could not connect");
        assert_eq!(caller.tally().lock().undecided, 1);
    }

    #[tokio::test]
    async fn a_call_does_not_wait_for_a_connection_beyond_its_patience() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let caller = caller(listener.local_addr().unwrap(), Duration::from_millis(1));
        let all = u32::try_from(CONNECTIONS_MAX).unwrap();
        let _all = caller.connections.acquire_many(all).await.unwrap();
        let error = caller.decide(&Call::read("/livez".to_owned())).await.unwrap_err();
        assert_eq!(error.last, "no connection was free in time");
    }
}
