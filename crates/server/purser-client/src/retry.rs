//! The loop around the attempts of one call.
//!
//! It knows no HTTP: what an attempt is, its caller says. Invariant: it ends at the deadline, and
//! what it says about the effect holds for all attempts together.

use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::error::{AttemptError, Effect};

/// How long a call may go on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) deadline: Instant,
    pub(crate) attempt_time: Duration,
    pub(crate) backoff: Backoff,
}

/// How a call failed, all attempts together.
#[derive(Debug)]
pub(crate) struct GaveUp {
    /// How the last attempt failed.
    pub(crate) last: AttemptError,
    /// Whether any attempt may have done it.
    pub(crate) may_have_happened: bool,
}

/// Makes attempts until one succeeds, none can help or the deadline comes. An attempt is given the
/// time that it may take.
pub(crate) async fn attempts<T, Attempt>(
    limits: Limits,
    mut attempt: impl FnMut(Duration) -> Attempt,
) -> Result<T, GaveUp>
where
    Attempt: Future<Output = Result<T, AttemptError>>,
{
    let mut failures = 0_u32;
    let mut may_have_happened = false;
    loop {
        let time = limits.deadline.duration_since(Instant::now()).min(limits.attempt_time);
        let last = if time.is_zero() { Err(AttemptError::NoTime) } else { attempt(time).await };
        let last = match last {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        match last.effect() {
            Effect::Decided => return Err(GaveUp { last, may_have_happened: false }),
            Effect::Unknown => may_have_happened = true,
            Effect::Nothing => {}
        }
        failures = failures.saturating_add(1);
        let Some(floor) = last.retry() else {
            return Err(GaveUp { last, may_have_happened });
        };
        let pause = limits.backoff.pause(failures, floor);
        // Sleeping only to find the time over would tell the caller nothing new.
        if limits.deadline <= Instant::now() + pause {
            return Err(GaveUp { last, may_have_happened });
        }
        tracing::debug!(failures, ?pause, error = %last, "sending again");
        tokio::time::sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;

    use purser_api::{Problem, ProblemCode};

    use super::*;

    fn problem(code: ProblemCode) -> AttemptError {
        let problem = Box::new(Problem::new(code, "as scripted", "r1"));
        AttemptError::Problem { problem, retry_after: None }
    }

    fn limits(deadline: Duration) -> Limits {
        let backoff =
            Backoff { first: Duration::from_millis(100), ceiling: Duration::from_millis(400) };
        let deadline = Instant::now() + deadline;
        Limits { deadline, attempt_time: Duration::from_secs(1), backoff }
    }

    /// Plays the failures one after the other, then succeeds; gives the result and the number of
    /// attempts.
    async fn play(
        limits: Limits,
        failures: impl IntoIterator<Item = AttemptError>,
    ) -> (Result<(), GaveUp>, usize) {
        let script = RefCell::new(failures.into_iter().collect::<VecDeque<_>>());
        let count = RefCell::new(0);
        let result = attempts(limits, |_| {
            *count.borrow_mut() += 1;
            let next = script.borrow_mut().pop_front();
            async move { next.map_or(Ok(()), Err) }
        })
        .await;
        (result, count.into_inner())
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_succeed_later_is_sent_again() {
        let failures = [ProblemCode::Overloaded, ProblemCode::InProgress, ProblemCode::NotReady];
        let started = Instant::now();
        let (result, count) = play(limits(Duration::from_secs(10)), failures.map(problem)).await;
        assert!(result.is_ok());
        assert_eq!(count, 4);
        // Half to all of 100, 200 and 400 milliseconds; the clock counts whole milliseconds.
        let waited = started.elapsed();
        assert!((350..=705).contains(&waited.as_millis()), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_service_asks_for_is_waited_for() {
        let overloaded = Box::new(Problem::new(ProblemCode::Overloaded, "as scripted", "r1"));
        let retry_after = Some(Duration::from_secs(3));
        let failure = AttemptError::Problem { problem: overloaded, retry_after };
        let started = Instant::now();
        let (result, _) = play(limits(Duration::from_secs(10)), [failure]).await;
        assert!(result.is_ok());
        assert!(started.elapsed() >= Duration::from_secs(3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_decision_is_never_sent_again() {
        for code in [ProblemCode::InsufficientCredits, ProblemCode::InvalidRequest] {
            let (result, count) = play(limits(Duration::from_secs(10)), [problem(code)]).await;
            assert!(matches!(result, Err(GaveUp { may_have_happened: false, .. })), "{code}");
            assert_eq!(count, 1, "{code}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_ends_before_its_deadline() {
        let started = Instant::now();
        let always = std::iter::repeat_with(|| problem(ProblemCode::NotReady)).take(1_000);
        let (result, count) = play(limits(Duration::from_secs(5)), always).await;
        assert!(matches!(result, Err(GaveUp { may_have_happened: false, .. })));
        assert!(started.elapsed() < Duration::from_secs(5));
        assert!((12..50).contains(&count), "{count} attempts");
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_gets_no_more_time_than_is_left() {
        let times = RefCell::new(Vec::new());
        let result: Result<(), GaveUp> = attempts(limits(Duration::from_millis(1_700)), |time| {
            times.borrow_mut().push(time);
            async move {
                tokio::time::sleep(time).await;
                Err(problem(ProblemCode::OutcomeUnknown))
            }
        })
        .await;
        assert!(matches!(result, Err(GaveUp { may_have_happened: true, .. })));
        let times = times.into_inner();
        assert_eq!(times[0], Duration::from_secs(1));
        assert!(times[1..].iter().all(|time| *time < Duration::from_millis(700)), "{times:?}");
    }

    /// The attempt that timed out may have happened; that a later one did not, or was turned away
    /// at the door, says nothing about it. A decision does, because the key was looked up first.
    #[tokio::test(start_paused = true)]
    async fn unknown_stays_unknown_until_the_ledger_decides() {
        for last in [ProblemCode::Unauthenticated, ProblemCode::BodyTooLarge] {
            let failures = [ProblemCode::OutcomeUnknown, ProblemCode::NotReady, last];
            let (result, _) = play(limits(Duration::from_secs(10)), failures.map(problem)).await;
            assert!(matches!(result, Err(GaveUp { may_have_happened: true, .. })), "{last}");
        }
        let refused = [ProblemCode::ChangeRefused; 100];
        let failures = [ProblemCode::OutcomeUnknown].into_iter().chain(refused);
        let (result, _) = play(limits(Duration::from_secs(10)), failures.map(problem)).await;
        assert!(matches!(result, Err(GaveUp { may_have_happened: true, .. })));
        let failures = [ProblemCode::OutcomeUnknown, ProblemCode::InsufficientCredits];
        let (result, _) = play(limits(Duration::from_secs(10)), failures.map(problem)).await;
        assert!(matches!(result, Err(GaveUp { may_have_happened: false, .. })));
    }
}
