//! One worker: one connection, one pair after the other.
//!
//! Kept lean on purpose (no JSON parser, no pool, no allocation that can be avoided): what the
//! client uses up, the servers on the same machine do not have.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use purser_api::{headers, paths};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::replay::connection::{Address, Connection, ConnectionError};
use crate::replay::random::{Random, Zipf};
use crate::replay::tally::Waits;

/// What each pair costs.
const COST: u32 = 5;
/// The body of every authorize.
const AUTHORIZE_BODY: &str = r#"{"amount":"5","ttl_seconds":60}"#;
/// The body of every capture.
const CAPTURE_BODY: &str = r#"{"amount":"5"}"#;
/// How a hold's id stands in an answer.
const HOLD_FIELD: &[u8] = b"\"hold_id\":\"";
/// How long a worker waits after an error, so that a dead service is not flooded.
const ERROR_PAUSE: Duration = Duration::from_millis(20);

/// What is called.
#[derive(Debug)]
pub(crate) struct Target {
    /// The nodes or front doors.
    pub(crate) addresses: Vec<Address>,
    /// Who calls.
    pub(crate) authorization: HeaderValue,
    /// How many tenants are set up.
    pub(crate) tenants: u32,
}

impl Target {
    /// The name of a tenant, from 0.
    pub(crate) fn tenant(place: usize) -> String {
        format!("bench-{place}")
    }
}

/// Where a measurement stands.
#[derive(Debug)]
pub(crate) struct Phase;

impl Phase {
    /// Pairs are not counted yet.
    pub(crate) const WARM: u8 = 0;
    /// Pairs are counted.
    pub(crate) const MEASURE: u8 = 1;
    /// No worker begins another pair.
    pub(crate) const STOP: u8 = 2;
}

/// When pairs fall due, whoever makes them, and which of them are counted: those that fall due in
/// the time of the measurement, however late they are made. So a stall at the end counts like any
/// other.
#[derive(Debug)]
pub(crate) struct Schedule {
    start: Instant,
    every: Duration,
    /// Places that are not counted, because they fall due while the service warms up.
    warm: u64,
    /// The first place that does not fall due any more.
    end: u64,
    next: AtomicU64,
}

impl Schedule {
    /// A pair every so often, from `start` on, for a time to warm up and then for the measurement.
    pub(crate) fn new(start: Instant, every: Duration, warm: Duration, measured: Duration) -> Self {
        let places = |time: Duration| {
            let places = time.as_nanos().div_ceil(every.as_nanos().max(1));
            u64::try_from(places).unwrap_or(u64::MAX)
        };
        let (warm, end) = (places(warm), places(warm + measured));
        Self { start, every, warm, end, next: AtomicU64::new(0) }
    }

    /// How many pairs fall due while it is measured.
    pub(crate) fn measured_count(&self) -> u64 {
        self.end.saturating_sub(self.warm)
    }

    fn next_turn(&self) -> Option<Turn> {
        let place = self.next.fetch_add(1, Ordering::Relaxed);
        let steps = u32::try_from(place).unwrap_or(u32::MAX);
        let due = self.start + self.every.saturating_mul(steps);
        (place < self.end).then_some(Turn { due, counts: Some(place >= self.warm) })
    }
}

/// A pair that a worker is to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Turn {
    due: Instant,
    /// Whether it counts; if that is not known yet, the phase decides in which it is done.
    counts: Option<bool>,
}

/// What the workers of a measurement share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// See [`Phase`].
    pub(crate) phase: AtomicU8,
    /// Cancelled when nobody waits any longer for calls that were begun.
    pub(crate) give_up: CancellationToken,
    run: String,
    picks: Zipf,
    /// When pairs fall due; without it, as soon as there is a worker.
    pub(crate) schedule: Option<Schedule>,
}

impl Shared {
    /// A measurement that has not started.
    pub(crate) fn new(run: String, picks: Zipf, schedule: Option<Schedule>) -> Self {
        let (phase, give_up) = (AtomicU8::new(Phase::WARM), CancellationToken::new());
        Self { phase, give_up, run, picks, schedule }
    }

    fn is_in(&self, phase: u8) -> bool {
        self.phase.load(Ordering::Relaxed) == phase
    }

    /// What a worker is to make next; nothing if it is to end.
    fn next_turn(&self) -> Option<Turn> {
        if self.is_in(Phase::STOP) {
            return None;
        }
        match &self.schedule {
            Some(schedule) => schedule.next_turn(),
            None => Some(Turn { due: Instant::now(), counts: None }),
        }
    }

    fn counts(&self, turn: Turn) -> bool {
        turn.counts.unwrap_or_else(|| self.is_in(Phase::MEASURE))
    }

    /// Whether a pair that failed counts. One that is given up ends behind the measurement that it
    /// began in, unless it is known to have fallen due before.
    fn counts_failure(&self, turn: Turn, error: &CallError) -> bool {
        match error {
            CallError::GivenUp => turn.counts != Some(false),
            _ => self.counts(turn),
        }
    }
}

/// What a worker did while it was measured.
#[derive(Debug, Default)]
pub(crate) struct Worked {
    /// Pairs that were captured.
    pub(crate) pairs: u64,
    /// How long authorizes took, or requests of a batch of them.
    pub(crate) authorize: Waits,
    /// How long captures took, or requests of a batch of them.
    pub(crate) capture: Waits,
    /// Calls that did not do what they should.
    pub(crate) errors: u64,
    /// The first of them, in words.
    pub(crate) first_error: Option<String>,
}

impl Worked {
    /// Adds what another worker did.
    pub(crate) fn merge(&mut self, other: Self) {
        self.pairs += other.pairs;
        self.authorize.merge(&other.authorize);
        self.capture.merge(&other.capture);
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
    }

    /// Counts errors that are one and the same in words.
    pub(crate) fn fail(&mut self, count: u64, error: impl std::fmt::Display) {
        self.errors += count;
        self.first_error.get_or_insert_with(|| error.to_string());
    }
}

/// Why a call did not do what it should.
#[derive(Debug, thiserror::Error)]
enum CallError {
    #[error("{0}")]
    Connection(#[from] ConnectionError),
    #[error("{status}: {body}")]
    Refused { status: StatusCode, body: String },
    #[error("{missing} operations of a batch were refused: {body}")]
    InBatch { missing: usize, body: String },
    #[error("an answer without a hold's id: {0}")]
    NoHold(String),
    #[error("no answer came until long after the end of the measurement")]
    GivenUp,
}

/// A client that makes one pair after the other.
struct Worker {
    target: Arc<Target>,
    shared: Arc<Shared>,
    number: u32,
    pairs: u64,
    random: Random,
    connection: Option<Connection>,
    worked: Worked,
}

/// Works until the measurement ends.
pub(crate) async fn work(
    target: Arc<Target>,
    shared: Arc<Shared>,
    number: u32,
    batch: Option<u32>,
) -> Worked {
    let mut worker = Worker::new(target, Arc::clone(&shared), number);
    // One for all calls: a timer for each would be work that the servers do not get.
    let mut given_up = std::pin::pin!(shared.give_up.cancelled());
    while let Some(turn) = shared.next_turn() {
        let done = tokio::select! {
            biased;
            done = worker.take_turn(turn, batch) => done,
            () = &mut given_up => Err(CallError::GivenUp),
        };
        if let Err(error) = done {
            worker.connection = None;
            if shared.counts_failure(turn, &error) {
                worker.worked.fail(1, &error);
            }
            sleep(ERROR_PAUSE).await;
        }
    }
    worker.worked
}

impl Worker {
    fn new(target: Arc<Target>, shared: Arc<Shared>, number: u32) -> Self {
        let random = Random::from_seed(u64::from(number));
        let worked = Worked::default();
        Self { target, shared, number, pairs: 0, random, connection: None, worked }
    }

    async fn take_turn(&mut self, turn: Turn, batch: Option<u32>) -> Result<(), CallError> {
        match batch {
            None => self.pair(turn).await,
            Some(size) => self.batch_pair(turn, size).await,
        }
    }

    /// One authorize and its capture.
    async fn pair(&mut self, turn: Turn) -> Result<(), CallError> {
        sleep_until_due(turn.due).await;
        let tenant = self.next_tenant();
        let key = self.next_key();
        let path = paths::fill(paths::HOLDS, &[&tenant]);
        let body = Bytes::from_static(AUTHORIZE_BODY.as_bytes());
        let answer = self.call(&path, Some(&key), body).await?;
        let authorized = Instant::now();
        let hold = hold_ids(&answer).next().ok_or_else(|| CallError::NoHold(text(&answer)))?;
        let path = paths::fill(paths::HOLD_CAPTURE, &[&tenant, &hold]);
        let key = format!("{key}c");
        let body = Bytes::from_static(CAPTURE_BODY.as_bytes());
        self.call(&path, Some(&key), body).await?;
        self.count(turn, 1, authorized);
        Ok(())
    }

    /// One batch of authorizes, and one of their captures.
    async fn batch_pair(&mut self, turn: Turn, size: u32) -> Result<(), CallError> {
        let mut tenants = Vec::new();
        let mut items = Items::default();
        for _ in 0..size {
            let (tenant, key) = (self.next_tenant(), self.next_key());
            items.add(format_args!(
                r#"{{"op":"authorize","tenant":"{tenant}","amount":"{COST}","ttl_seconds":60,"idempotency_key":"{key}"}}"#
            ));
            tenants.push(tenant);
        }
        let answer = self.call_batch(items).await?;
        let authorized = Instant::now();
        let holds: Vec<&str> = hold_ids(&answer).collect();
        if holds.len() != tenants.len() {
            return Err(in_batch(tenants.len() - holds.len().min(tenants.len()), &answer));
        }
        let mut items = Items::default();
        for (tenant, hold) in tenants.iter().zip(&holds) {
            let key = self.next_key();
            items.add(format_args!(
                r#"{{"op":"capture","tenant":"{tenant}","hold_id":"{hold}","amount":"{COST}","idempotency_key":"{key}"}}"#
            ));
        }
        let answer = self.call_batch(items).await?;
        let captured = hold_ids(&answer).count();
        if captured != tenants.len() {
            return Err(in_batch(tenants.len() - captured.min(tenants.len()), &answer));
        }
        self.count(turn, u64::from(size), authorized);
        Ok(())
    }

    /// Counts pairs that are captured now and were authorized at `authorized`.
    fn count(&mut self, turn: Turn, pairs: u64, authorized: Instant) {
        if self.shared.counts(turn) {
            self.worked.pairs += pairs;
            self.worked.authorize.add(authorized - turn.due);
            self.worked.capture.add(authorized.elapsed());
        }
    }

    fn next_tenant(&mut self) -> String {
        Target::tenant(self.shared.picks.pick(&mut self.random))
    }

    fn next_key(&mut self) -> String {
        self.pairs += 1;
        format!("{}-{}-{}", self.shared.run, self.number, self.pairs)
    }

    async fn call_batch(&mut self, items: Items) -> Result<Bytes, CallError> {
        self.call(paths::BATCH, None, items.finish()).await
    }

    async fn call(
        &mut self,
        path: &str,
        key: Option<&str>,
        body: Bytes,
    ) -> Result<Bytes, CallError> {
        let places = self.target.addresses.len().max(1);
        let place = usize::try_from(self.number).unwrap_or(0) % places;
        let address = &self.target.addresses[place];
        let mut request = address.request(Method::POST, path, &self.target.authorization, body)?;
        if let Some(key) = key {
            let value = HeaderValue::from_str(key).expect("keys here are letters and digits");
            request.headers_mut().insert(HeaderName::from_static(headers::IDEMPOTENCY_KEY), value);
        }
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => self.connection.insert(Connection::open(address).await?),
        };
        let response = connection.call(request).await?;
        let status = response.status();
        let body = response.into_body();
        if status.is_success() {
            Ok(body)
        } else {
            Err(CallError::Refused { status, body: text(&body) })
        }
    }
}

/// Waits only if there is something to wait for: a timer is a task switch.
async fn sleep_until_due(due: Instant) {
    if due > Instant::now() {
        sleep_until(due).await;
    }
}

/// The items of a batch, as text.
#[derive(Default)]
struct Items {
    text: String,
}

impl Items {
    fn add(&mut self, item: std::fmt::Arguments<'_>) {
        self.text.push_str(if self.text.is_empty() { r#"{"items":["# } else { "," });
        self.text.write_fmt(item).expect("writing to a string cannot fail");
    }

    fn finish(mut self) -> Bytes {
        self.text.push_str("]}");
        Bytes::from(self.text)
    }
}

/// The ids of the holds in an answer, in their order.
fn hold_ids(answer: &[u8]) -> impl Iterator<Item = &str> {
    let mut rest = answer;
    std::iter::from_fn(move || {
        let found = rest.windows(HOLD_FIELD.len()).position(|window| window == HOLD_FIELD)?;
        let behind = &rest[found + HOLD_FIELD.len()..];
        let end = behind.iter().position(|byte| *byte == b'"')?;
        rest = &behind[end..];
        std::str::from_utf8(&behind[..end]).ok()
    })
}

fn in_batch(missing: usize, answer: &Bytes) -> CallError {
    CallError::InBatch { missing, body: text(answer) }
}

/// The start of a body, for a message.
fn text(body: &Bytes) -> String {
    const CHARACTERS_MAX: usize = 300;
    String::from_utf8_lossy(body).chars().take(CHARACTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{Format, Output};
    use crate::replay::connection;
    use crate::replay::test_node::{TOKEN, TestNode};

    #[test]
    fn holds_are_found_in_their_order() {
        let answer =
            br#"{"results":[{"body":{"hold_id":"h1-0-us"}},{"body":{"hold_id":"h22-0-us"}}]}"#;
        assert_eq!(hold_ids(answer).collect::<Vec<_>>(), ["h1-0-us", "h22-0-us"]);
        assert_eq!(hold_ids(br#"{"hold_id":"cut"#).count(), 0);
    }

    #[test]
    fn items_make_a_batch() {
        let mut items = Items::default();
        items.add(format_args!("{{}}"));
        items.add(format_args!("{{}}"));
        let request: purser_api::BatchRequest = serde_json::from_slice(&items.finish()).unwrap();
        assert_eq!(request.items.len(), 2);
    }

    /// What every measurement rests on: a pair is authorized and captured, alone and in batches.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_pair_is_two_calls_that_a_node_accepts() {
        let node = TestNode::start().await;
        let authorization = connection::bearer(TOKEN).unwrap();
        let target = Target { addresses: vec![node.address()], authorization, tenants: 3 };
        let target = Arc::new(target);
        crate::bench::fund::fund(&target, &Output::new(Format::People)).await.unwrap();
        let shared = Shared::new("run".to_owned(), Zipf::new(3, 0.0), None);
        shared.phase.store(Phase::MEASURE, Ordering::Relaxed);
        let mut worker = Worker::new(target, Arc::new(shared), 0);
        let turn = || Turn { due: Instant::now(), counts: None };
        worker.take_turn(turn(), None).await.unwrap();
        worker.take_turn(turn(), Some(20)).await.unwrap();
        assert_eq!((worker.worked.pairs, worker.worked.errors), (21, 0));
        node.end().await;
    }

    #[test]
    fn a_pair_that_is_given_up_counts_unless_it_fell_due_in_the_warm_up() {
        let shared = Shared::new("run".to_owned(), Zipf::new(3, 0.0), None);
        shared.phase.store(Phase::STOP, Ordering::Relaxed);
        let counts =
            |counts, error| shared.counts_failure(Turn { due: Instant::now(), counts }, &error);
        assert!(!counts(Some(false), CallError::GivenUp));
        assert!(counts(Some(true), CallError::GivenUp));
        assert!(counts(None, CallError::GivenUp));
        let failed = || CallError::NoHold(String::new());
        assert!(!counts(None, failed()));
        assert!(counts(Some(true), failed()));
    }

    #[test]
    fn a_schedule_does_not_wait_for_the_slow_and_counts_what_falls_due() {
        let (start, millis) = (Instant::now(), Duration::from_millis);
        let schedule = Schedule::new(start, millis(10), millis(15), millis(25));
        let turns = std::iter::from_fn(|| schedule.next_turn());
        let turns: Vec<_> = turns.map(|turn| (turn.due - start, turn.counts)).collect();
        let expected = [(0, false), (10, false), (20, true), (30, true)];
        assert_eq!(turns, expected.map(|(due, counts)| (millis(due), Some(counts))));
        assert_eq!(schedule.measured_count(), 2);
    }
}
