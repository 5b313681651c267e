//! A clock that only goes forward, for spans within one process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use purser_types::Span;
use tokio::time::Instant;

/// Spans since some point in this process's life: leases, silences and demand are measured on it, and it
/// cannot be compared with another process's. Clones are the same clock.
#[derive(Debug, Clone)]
pub struct Monotonic {
    origin: Instant,
    /// How far it was put forward, in microseconds.
    ahead: Arc<AtomicU64>,
}

impl Monotonic {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self { origin: Instant::now(), ahead: Arc::default() }
    }

    /// Puts it forward on purpose, as if so long had passed: for tests.
    pub fn put_forward(&self, by: Span) {
        self.ahead.fetch_add(by.as_micros(), Ordering::Relaxed);
    }

    /// How long ago it started.
    pub(crate) fn now(&self) -> Span {
        let passed = u64::try_from(self.origin.elapsed().as_micros()).unwrap_or(u64::MAX);
        Span::from_micros(passed.saturating_add(self.ahead.load(Ordering::Relaxed)))
    }

    /// How long ago `earlier` was.
    pub(crate) fn since(&self, earlier: Span) -> Span {
        Span::from_micros(self.now().as_micros().saturating_sub(earlier.as_micros()))
    }
}
