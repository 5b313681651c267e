//! Waiting for a level: looked at again and again, with a deadline, and never for time to pass.

use std::fmt::Display;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Answer, Caller};

/// How long anything may take. Elections, silences of three seconds and calls that end at their deadline are
/// part of it, on a machine that has other things to do; the runner ends a test that hangs later than this.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// Looks until there is what is waited for, and gives that. A look that finds something else gives it as an
/// error. It is not cut off, so it has to end by itself.
///
/// # Panics
///
/// When the time is over: says `what` was waited for, and what was seen last.
pub(crate) async fn wait_for<T, S: Display>(
    what: impl Display,
    mut look: impl AsyncFnMut() -> Result<T, S>,
) -> T {
    let began = Instant::now();
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) => {
                let is_over = began.elapsed() >= WAIT_MAX;
                assert!(!is_over, "waited {WAIT_MAX:?} in vain: {what}; seen last: {seen}");
            }
        }
        // What is waited for may have to run on this thread.
        tokio::task::yield_now().await;
    }
}

/// Reads until the answer is as wished. Others than 200 are not.
pub(crate) async fn read_until(
    caller: &Caller,
    path: &str,
    is_it: impl Fn(&Value) -> bool,
) -> Answer {
    wait_for(format!("{path} is as wished"), async || {
        let answer = caller.get(path).await;
        if answer.status == 200 && is_it(&answer.body) { Ok(answer) } else { Err(answer) }
    })
    .await
}

/// Asks until the answer is neither 503 nor 504: under one key, so that it is done once at most.
pub(crate) async fn until_answered(
    what: impl Display,
    mut ask: impl AsyncFnMut() -> Answer,
) -> Answer {
    wait_for(what, async || {
        let answer = ask().await;
        if matches!(answer.status, 503 | 504) { Err(answer) } else { Ok(answer) }
    })
    .await
}

/// Asks until the answer has a status.
pub(crate) async fn until_status(
    status: u16,
    what: impl Display,
    mut ask: impl AsyncFnMut() -> Answer,
) -> Answer {
    wait_for(format!("{status} for {what}"), async || {
        let answer = ask().await;
        if answer.status == status { Ok(answer) } else { Err(answer) }
    })
    .await
}
