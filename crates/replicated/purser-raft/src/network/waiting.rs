//! Who waits for an answer on a lane, and whether the peer still says anything.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::links::LinkError;

/// A peer that owes an answer and is silent for so long is gone, or the connection is: half of one
/// can be lost without the other half noticing. Longer than any healthy disk takes over an append.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// Where one call's answer goes.
pub(super) type Outcome = oneshot::Sender<Result<Bytes, LinkError>>;

/// The calls on a lane that were sent and not answered. Never more than there are callers who wait.
#[derive(Default)]
pub(super) struct Waiting {
    calls: Mutex<WaitingCalls>,
}

#[derive(Default)]
struct WaitingCalls {
    outcomes: HashMap<u64, Outcome>,
    /// Since when the peer owes an answer and has said nothing, also if the caller has given up.
    silent_since: Option<Instant>,
}

impl Waiting {
    /// Enters a call that is sent at `now`, unless its caller has given up. Gives whether to send
    /// it.
    pub(super) fn enter(&self, number: u64, outcome: Outcome, now: Instant) -> bool {
        let mut calls = self.lock();
        if outcome.is_closed() {
            return false;
        }
        calls.outcomes.insert(number, outcome);
        calls.silent_since.get_or_insert(now);
        true
    }

    /// Something was sent at `now` whose answer nobody waits for.
    pub(super) fn owe(&self, now: Instant) {
        self.lock().silent_since.get_or_insert(now);
    }

    /// Takes the caller of an answer that came at `now`.
    pub(super) fn take(&self, number: u64, now: Instant) -> Option<Outcome> {
        let mut calls = self.lock();
        let outcome = calls.outcomes.remove(&number);
        calls.silent_since = (!calls.outcomes.is_empty()).then_some(now);
        outcome
    }

    /// Nobody waits for this call any more.
    pub(super) fn forget(&self, number: u64) {
        self.lock().outcomes.remove(&number);
    }

    /// Whether the peer has been silent for too long.
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        let since = self.lock().silent_since;
        since.is_some_and(|since| now.saturating_duration_since(since) > SILENCE_MAX)
    }

    /// Fails everybody who waits.
    pub(super) fn fail(&self, error: &LinkError) {
        let calls = std::mem::take(&mut *self.lock());
        for outcome in calls.outcomes.into_values() {
            drop(outcome.send(Err(error.clone())));
        }
    }

    /// The calls that are waited for.
    #[cfg(test)]
    pub(super) fn numbers(&self) -> Vec<u64> {
        self.lock().outcomes.keys().copied().collect()
    }

    fn lock(&self) -> MutexGuard<'_, WaitingCalls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_silent_from_the_oldest_unanswered_call_on() {
        let start = Instant::now();
        let late = start + SILENCE_MAX + Duration::from_millis(1);
        let waiting = Waiting::default();
        assert!(!waiting.is_silent(late), "nothing was asked");
        let (first, _caller) = oneshot::channel();
        let (second, caller) = oneshot::channel();
        assert!(waiting.enter(1, first, start));
        assert!(waiting.enter(2, second, start));
        assert!(!waiting.is_silent(start + SILENCE_MAX));
        assert!(waiting.is_silent(late));

        // Who gives up does not make the peer less silent; an answer does, to whomever.
        drop(caller);
        waiting.forget(2);
        assert!(waiting.is_silent(late));
        drop(waiting.take(2, late));
        assert!(!waiting.is_silent(late + SILENCE_MAX));
        drop(waiting.take(1, late));
        assert!(!waiting.is_silent(late + SILENCE_MAX * 2), "it owes nothing");
    }

    #[test]
    fn a_call_that_nobody_waits_for_is_not_sent() {
        let waiting = Waiting::default();
        let (outcome, caller) = oneshot::channel();
        drop(caller);
        assert!(!waiting.enter(1, outcome, Instant::now()));
        assert_eq!(waiting.numbers(), []);
    }
}
