//! How long a stream of appends may stand still.
//!
//! Not the age of each append: those in flight together are many megabytes, which a long line takes
//! its time for while nothing is wrong.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio::time::error::Elapsed;

/// When a stream had its last answer. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Progress {
    limit: Duration,
    last: Arc<Mutex<Instant>>,
}

impl Progress {
    /// A stream that begins now and may stand still for `limit`.
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, last: Arc::new(Mutex::new(Instant::now())) }
    }

    /// Something of the stream was answered now.
    pub(super) fn note(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn ends(&self, begun: Instant) -> Instant {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.max(begun) + self.limit
    }

    /// Gives up what is begun now when for the limit it is not done, nor anything else of the
    /// stream.
    pub(super) async fn bound<T>(&self, doing: impl Future<Output = T>) -> Result<T, Elapsed> {
        let begun = Instant::now();
        let mut doing = pin!(doing);
        loop {
            let done = tokio::time::timeout_at(self.ends(begun), doing.as_mut()).await;
            if done.is_ok() || self.ends(begun) <= Instant::now() {
                return done;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn an_append_is_given_up_when_the_whole_stream_stands_still() {
        let progress = Progress::new(LIMIT);
        let start = Instant::now();
        let others = async {
            for _ in 0..3 {
                tokio::time::sleep(LIMIT - Duration::from_secs(1)).await;
                progress.note();
            }
            start.elapsed()
        };
        let (given_up, last_answer) = tokio::join!(progress.bound(pending::<()>()), others);
        assert!(given_up.is_err());
        assert_eq!(start.elapsed(), last_answer + LIMIT);

        // One that begins after a pause has all of it.
        tokio::time::sleep(LIMIT * 2).await;
        let begun = Instant::now();
        assert!(progress.bound(pending::<()>()).await.is_err());
        assert_eq!(begun.elapsed(), LIMIT);
    }
}
