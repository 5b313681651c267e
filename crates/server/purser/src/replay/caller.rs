//! Calls that are repeated until they are decided.
//!
//! A call has one key, and every attempt carries it. 503 and 429 say that nothing happened, 500,
//! 504, a broken connection and a time-out leave it open; both are answered by sending the same
//! request again after a pause. Everything else is a decision.
//!
//! Not here: what a call asks for, and what its answer means.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Method, Response, StatusCode};
use purser_api::{DeciderRole, Problem, ProblemCode, headers};
use purser_client::AnswerBody;
use purser_types::Region;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::connection::{Address, Connection, ConnectionError};
use super::random::Random;
use super::tally::Tally;

/// How long one attempt may take: longer than a node takes to give up (it answers 504 then).
pub(crate) const ATTEMPT_MAX: Duration = Duration::from_secs(10);
/// The pause before the second attempt.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
/// The longest pause between attempts: a tenth of the time in which a lost leader is replaced.
const PAUSE_LONGEST: Duration = Duration::from_millis(300);
/// How long a connection may have been idle to be used again: half of the time after which a node may
/// close it, because a call that meets its end has an unknown outcome.
const IDLE_MAX: Duration = Duration::from_secs(5);
/// How many connections there may be. What is due beyond that waits, and the wait counts.
const CONNECTIONS_MAX: usize = 256;

/// Where to call, and for how long to insist.
#[derive(Debug, Clone)]
pub(crate) struct CallerSettings {
    /// The nodes or front doors; calls go to them in turn, and retries to the next one.
    pub(crate) addresses: Vec<Address>,
    /// Which of them belong to one region, by the region's place. Empty where that does not matter.
    pub(crate) regions: Vec<Range<usize>>,
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
    /// The place of the region at which it comes in, every time it is sent: a call that another region
    /// may have decided is not decided there again. Anywhere if there is none.
    pub(crate) entrance: Option<usize>,
}

impl Call {
    /// A call that reads.
    pub(crate) fn read(path: String) -> Self {
        Self { method: Method::GET, path, key: None, body: Bytes::new(), entrance: None }
    }

    /// A call that changes something.
    pub(crate) fn change(path: String, key: String, body: Bytes) -> Self {
        Self { method: Method::POST, path, key: Some(key), body, entrance: None }
    }

    /// The same call, coming in at a region.
    pub(crate) fn at(self, entrance: Option<usize>) -> Self {
        Self { entrance, ..self }
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
    /// Who decided, if the answer says so.
    pub(crate) by: Option<Decider>,
    /// The overspend bound under which it was decided, if the answer says so.
    pub(crate) bound: Option<u64>,
}

/// Who decided a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decider {
    /// The region.
    pub(crate) region: Region,
    /// As what.
    pub(crate) role: DeciderRole,
}

impl std::fmt::Display for Decider {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} as {}", self.region, self.role.name())
    }
}

/// A call was given up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path} was not decided within {} s: {last}", patience.as_secs())]
pub(crate) struct Undecided {
    path: String,
    patience: Duration,
    last: String,
}

/// A connection that no call uses, and since when.
type Idle = (Instant, Connection);

/// Makes calls.
pub(crate) struct Caller {
    settings: CallerSettings,
    /// Connections that no call uses, by the place of their address.
    idle: Vec<Mutex<Vec<Idle>>>,
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
        let mut was_unknown = false;
        loop {
            let (reason, is_unknown) = match self.attempt(call, deadline).await {
                Ok(response) => match again(&response) {
                    Some(reason) => (reason, leaves_open(response.status())),
                    None => {
                        self.count_delay(attempt, start);
                        self.tally.lock().resolved += u64::from(was_unknown);
                        return Ok(decided(response));
                    }
                },
                Err(error) => (error.to_string(), error.leaves_open()),
            };
            was_unknown |= is_unknown;
            self.tally.lock().count_retry(reason.clone(), call.entrance);
            if deadline <= Instant::now() {
                let (path, patience) = (call.path.clone(), self.settings.patience);
                let undecided = Undecided { path, patience, last: reason };
                self.tally.lock().count_undecided(call.key.as_deref(), &undecided);
                return Err(undecided);
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
        let attempt = self.attempt_at(self.next_place(call.entrance), call);
        let attempt = timeout(self.settings.attempt_max, attempt).await;
        attempt.unwrap_or(Err(ConnectionError::TimedOut))
    }

    fn next_place(&self, entrance: Option<usize>) -> usize {
        let all = 0..self.settings.addresses.len();
        let theirs = entrance.and_then(|place| self.settings.regions.get(place));
        let Range { start, end } = theirs.cloned().unwrap_or(all);
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        start + turn.checked_rem(end.saturating_sub(start)).unwrap_or_default()
    }

    async fn attempt_at(
        &self,
        place: usize,
        call: &Call,
    ) -> Result<Response<Bytes>, ConnectionError> {
        let address = &self.settings.addresses[place];
        let Call { method, path, key, body, .. } = call;
        let authorization = &self.settings.authorization;
        let mut request = address.request(method.clone(), path, authorization, body.clone())?;
        if let Some(key) = key {
            let key = HeaderValue::from_str(key)
                .map_err(|error| ConnectionError::Request(error.into()))?;
            request.headers_mut().insert(HeaderName::from_static(headers::IDEMPOTENCY_KEY), key);
        }
        let idle = self.lock_idle(place).pop();
        let mut connection = match idle {
            Some((since, connection)) if since.elapsed() < IDLE_MAX => connection,
            Some(_) | None => Connection::open(address).await?,
        };
        let response = connection.call(request).await?;
        self.lock_idle(place).push((Instant::now(), connection));
        Ok(response)
    }

    fn lock_idle(&self, place: usize) -> std::sync::MutexGuard<'_, Vec<Idle>> {
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

/// Whether a call may have happened that was answered with this, of what is sent again.
const fn leaves_open(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::INTERNAL_SERVER_ERROR | StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT
    )
}

fn decided(response: Response<Bytes>) -> Decided {
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    let replayed = header(headers::IDEMPOTENT_REPLAYED) == Some("true");
    let by = header(headers::PURSER_DECIDED_BY).and_then(decider);
    let bound = header(headers::PURSER_BOUND).and_then(|text| text.parse().ok());
    Decided { status: response.status(), replayed, by, bound, body: response.into_body() }
}

/// Reads `region=us, role=home`.
fn decider(text: &str) -> Option<Decider> {
    let (region, role) = text.strip_prefix("region=")?.split_once(", role=")?;
    let role = *DeciderRole::ALL.iter().find(|known| known.name() == role)?;
    Some(Decider { region: Region::parse(region).ok()?, role })
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

    #[test]
    fn an_answer_says_who_decided_it() {
        let eu = Region::parse("eu").unwrap();
        let by = Decider { region: eu, role: DeciderRole::Allocation };
        assert_eq!(decider("region=eu, role=allocation"), Some(by));
        for odd in ["", "eu", "region=eu", "region=eu, role=king", "region=, role=home"] {
            assert_eq!(decider(odd), None, "{odd:?}");
        }
    }

    #[tokio::test]
    async fn a_call_comes_in_at_nodes_of_its_region_only() {
        let settings = CallerSettings {
            addresses: (1..=5).map(|port| Address::of(([127, 0, 0, 1], port).into())).collect(),
            regions: vec![0..2, 2..5],
            authorization: HeaderValue::from_static("Bearer dev"),
            patience: Duration::ZERO,
            attempt_max: ATTEMPT_MAX,
        };
        let caller = Caller::new(settings, Arc::default());
        let places = |entrance| -> std::collections::BTreeSet<usize> {
            (0..30).map(|_| caller.next_place(entrance)).collect()
        };
        assert_eq!(places(Some(0)), [0, 1].into());
        assert_eq!(places(Some(1)), [2, 3, 4].into());
        assert_eq!(places(None), [0, 1, 2, 3, 4].into());
    }

    fn caller(address: std::net::SocketAddr, patience: Duration) -> Caller {
        let settings = CallerSettings {
            addresses: vec![Address::of(address)],
            regions: Vec::new(),
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
