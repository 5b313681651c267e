//! What is under way on one connection: requests that have no answer yet, and answers that the
//! caller has not taken.
//!
//! An answer is under way until its last byte has left for the socket. HTTP/2 lets a caller ask for
//! an answer and give it no room to be sent ("window"), and until there is room its bytes lie here.
//! Nothing moves then, and nothing is written that could stall. So the bytes themselves tell when
//! they are gone: whoever keeps them keeps the exchange open.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::time::Instant;

/// How long a connection may go on without something happening.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// How long a caller may take to take a whole answer.
    pub(super) answer: Duration,
    /// How long there may be no request.
    pub(super) idle: Duration,
}

/// What has taken too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overdue {
    /// An answer was not taken.
    Answer,
    /// There was no request.
    Idle,
}

/// The exchanges of one connection.
pub(super) struct Exchanges(Mutex<Book>);

struct Book {
    /// How many have not ended.
    open: usize,
    /// When the last one ended.
    idle_since: Instant,
    /// Those whose answers are under way: when each was given, and its number.
    answers: BTreeSet<(Instant, u64)>,
    /// How many were ever given.
    answers_given: u64,
}

impl Exchanges {
    /// Those of a connection that has just been made.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Book {
            open: 0,
            idle_since: Instant::now(),
            answers: BTreeSet::new(),
            answers_given: 0,
        })))
    }

    /// A request has come.
    pub(super) fn begin(self: &Arc<Self>) -> Exchange {
        self.lock().open += 1;
        Exchange { all: Arc::clone(self), answer: None }
    }

    /// Resolves when something has taken longer than `patience`; idleness counts from `since` at
    /// the earliest. It may be noticed later by as much as the shorter of both.
    pub(super) async fn overdue(&self, patience: Patience, since: Instant) -> Overdue {
        // Looked at now and then instead of at every request: that costs requests nothing.
        let look_every = patience.answer.min(patience.idle);
        loop {
            let now = Instant::now();
            let look_again = now + look_every;
            match self.next_due(patience, since) {
                Some((at, overdue)) if at <= now => return overdue,
                Some((at, _)) => tokio::time::sleep_until(at.min(look_again)).await,
                None => tokio::time::sleep_until(look_again).await,
            }
        }
    }

    /// What will be overdue first, and when, as things stand.
    fn next_due(&self, patience: Patience, since: Instant) -> Option<(Instant, Overdue)> {
        let book = self.lock();
        match book.answers.first() {
            Some((given, _)) => Some((*given + patience.answer, Overdue::Answer)),
            None if book.open == 0 => {
                Some((book.idle_since.max(since) + patience.idle, Overdue::Idle))
            }
            None => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request and its answer. It ends when it is dropped.
pub(super) struct Exchange {
    all: Arc<Exchanges>,
    /// The place of its answer in the book, once there is one.
    answer: Option<(Instant, u64)>,
}

impl Exchange {
    /// The answer's body, which ends the exchange when its last byte is gone.
    pub(super) fn answer(mut self, body: Body) -> Answer {
        let mut book = self.all.lock();
        book.answers_given += 1;
        let place = (Instant::now(), book.answers_given);
        book.answers.insert(place);
        drop(book);
        self.answer = Some(place);
        Answer { body, exchange: Arc::new(self) }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let mut book = self.all.lock();
        book.open -= 1;
        if let Some(place) = &self.answer {
            book.answers.remove(place);
        }
        if book.open == 0 {
            book.idle_since = Instant::now();
        }
    }
}

/// The body of an answer. Each of its pieces knows the exchange that it belongs to.
pub(super) struct Answer {
    body: Body,
    exchange: Arc<Exchange>,
}

/// A piece of an answer, and what it keeps open.
struct Piece {
    bytes: Bytes,
    _exchange: Arc<Exchange>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let exchange = &self.exchange;
        let keep = |bytes| Bytes::from_owner(Piece { bytes, _exchange: Arc::clone(exchange) });
        polled.map(|frame| frame.map(|frame| frame.map(|frame| frame.map_data(keep))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
