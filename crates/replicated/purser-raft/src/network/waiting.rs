//! Who waits for an answer on a lane, and whether the peer still says anything.
//!
//! Invariant: a call whose caller gave up before it was sent is not sent any more, so a caller knows
//! whether it was.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::ids::NodeId;

use super::links::LinkError;

/// A peer that owes an answer and is silent for so long is gone, or the connection is: half of one
/// can be lost without the other half noticing. Longer than any healthy disk takes over an append.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(5);

/// Where one call's answer goes.
pub(super) struct Caller {
    outcome: oneshot::Sender<Result<Bytes, LinkError>>,
    was_sent: Arc<AtomicBool>,
}

impl Caller {
    /// Tells it how the call ended. It may have given up.
    pub(super) fn tell(self, outcome: Result<Bytes, LinkError>) {
        drop(self.outcome.send(outcome));
    }
}

/// An answer that is on its way. Dropped, it is not waited for any more.
pub(crate) struct Pending {
    peer: NodeId,
    number: u64,
    waiting: Arc<Waiting>,
    outcome: oneshot::Receiver<Result<Bytes, LinkError>>,
    was_sent: Arc<AtomicBool>,
}

impl Pending {
    /// Call `number` to `peer`, which is not sent yet: its two ends.
    pub(super) fn new(peer: NodeId, number: u64, waiting: Arc<Waiting>) -> (Caller, Self) {
        let (sender, outcome) = oneshot::channel();
        let was_sent = Arc::new(AtomicBool::new(false));
        let caller = Caller { outcome: sender, was_sent: Arc::clone(&was_sent) };
        (caller, Self { peer, number, waiting, outcome, was_sent })
    }

    pub(crate) async fn answer(mut self) -> Result<Bytes, LinkError> {
        self.wait().await
    }

    /// Waits for the answer; dropped while it waits, it may be called again.
    pub(super) async fn wait(&mut self) -> Result<Bytes, LinkError> {
        match (&mut self.outcome).await {
            Ok(outcome) => outcome,
            Err(_dropped) => {
                let detail = "this node is stopping".to_owned();
                Err(LinkError::Unreachable { peer: self.peer, detail })
            }
        }
    }

    /// Gives the call up, and says whether any byte of it may have left by then. If not, none will.
    pub(super) fn give_up(mut self) -> bool {
        self.forget();
        self.was_sent.load(Ordering::SeqCst)
    }

    fn forget(&mut self) {
        // Order matters: a call that is about to be sent is not entered once this is closed, and
        // one that was entered before has said so when the lock is free.
        self.outcome.close();
        self.waiting.forget(self.number);
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.forget();
    }
}

/// The calls on a lane that were sent and not answered. Never more than there are callers who wait.
#[derive(Default)]
pub(super) struct Waiting {
    calls: Mutex<WaitingCalls>,
}

#[derive(Default)]
struct WaitingCalls {
    callers: HashMap<u64, Caller>,
    /// Since when the peer owes an answer and has said nothing, also if the caller has given up.
    silent_since: Option<Instant>,
}

impl Waiting {
    /// Enters a call that is sent at `now`, unless its caller has given up. Gives whether to send
    /// it.
    pub(super) fn enter(&self, number: u64, caller: Caller, now: Instant) -> bool {
        let mut calls = self.lock();
        if caller.outcome.is_closed() {
            return false;
        }
        caller.was_sent.store(true, Ordering::SeqCst);
        calls.callers.insert(number, caller);
        calls.silent_since.get_or_insert(now);
        true
    }

    /// Something was sent at `now` whose answer nobody waits for.
    pub(super) fn owe(&self, now: Instant) {
        self.lock().silent_since.get_or_insert(now);
    }

    /// Takes the caller of an answer that came at `now`.
    pub(super) fn take(&self, number: u64, now: Instant) -> Option<Caller> {
        let mut calls = self.lock();
        let caller = calls.callers.remove(&number);
        calls.silent_since = (!calls.callers.is_empty()).then_some(now);
        caller
    }

    /// Nobody waits for this call any more.
    pub(super) fn forget(&self, number: u64) {
        self.lock().callers.remove(&number);
    }

    /// Whether the peer has been silent for too long.
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        let since = self.lock().silent_since;
        since.is_some_and(|since| now.saturating_duration_since(since) > SILENCE_MAX)
    }

    /// Fails everybody who waits.
    pub(super) fn fail(&self, error: &LinkError) {
        let calls = std::mem::take(&mut *self.lock());
        for caller in calls.callers.into_values() {
            caller.tell(Err(error.clone()));
        }
    }

    /// The calls that are waited for.
    #[cfg(test)]
    pub(super) fn numbers(&self) -> Vec<u64> {
        self.lock().callers.keys().copied().collect()
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
        let waiting = Arc::new(Waiting::default());
        assert!(!waiting.is_silent(late), "nothing was asked");
        let (first, _pending) = Pending::new(NodeId(2), 1, Arc::clone(&waiting));
        let (second, pending) = Pending::new(NodeId(2), 2, Arc::clone(&waiting));
        assert!(waiting.enter(1, first, start));
        assert!(waiting.enter(2, second, start));
        assert!(!waiting.is_silent(start + SILENCE_MAX));
        assert!(waiting.is_silent(late));

        // Who gives up does not make the peer less silent; an answer does, to whomever.
        assert!(pending.give_up(), "it was sent");
        assert!(waiting.is_silent(late));
        drop(waiting.take(2, late));
        assert!(!waiting.is_silent(late + SILENCE_MAX));
        drop(waiting.take(1, late));
        assert!(!waiting.is_silent(late + SILENCE_MAX * 2), "it owes nothing");
    }

    #[test]
    fn a_call_that_nobody_waits_for_is_not_sent() {
        let waiting = Arc::new(Waiting::default());
        let (caller, pending) = Pending::new(NodeId(2), 1, Arc::clone(&waiting));
        assert!(!pending.give_up(), "it was not sent");
        assert!(!waiting.enter(1, caller, Instant::now()));
        assert_eq!(waiting.numbers(), []);
    }
}
