//! A clock that only goes forward, for spans within one process.

use purser_types::Span;
use tokio::time::Instant;

/// Spans since some point in this process's life. It cannot be compared with another process's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Monotonic {
    origin: Instant,
}

impl Monotonic {
    /// A clock that starts now.
    pub(crate) fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// How long ago it started.
    pub(crate) fn now(self) -> Span {
        Span::from_micros(u64::try_from(self.origin.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    /// How long ago `earlier` was.
    pub(crate) fn since(self, earlier: Span) -> Span {
        Span::from_micros(self.now().as_micros().saturating_sub(earlier.as_micros()))
    }
}
