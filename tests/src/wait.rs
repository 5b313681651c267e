//! Waiting for a state, with a deadline.
//!
//! A test never waits for time to pass. It looks at a level (a node is ready, a process has ended)
//! until the level is there, and fails with the name of what it waited for.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// Pause between two looks: short against all that is waited for, long against the cost of a look.
const TICK: Duration = Duration::from_millis(20);

/// Looks until there is something to see, and returns that.
///
/// # Panics
///
/// When the deadline has passed. A look that has begun is not cut off, so a look has to end by
/// itself.
pub async fn wait_for<T>(
    what: impl Display,
    deadline: Duration,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> T {
    let start = Instant::now();
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(start.elapsed() < deadline, "waited {deadline:?} in vain: {what}");
    }
}
