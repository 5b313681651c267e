//! Callers that wait for the answers of batches they proposed.
//!
//! Answers do not travel through openraft: the state machine looks a batch up by its name when it
//! applies it, whoever committed it. A batch that is never applied leaves callers behind; they go
//! when their deadline does, and [`Waiters::sweep`] forgets them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::error::ProposeError;

/// An answer, and the index of the entry that its command was in.
pub(crate) type Indexed<A> = (A, u64);

/// Where one caller's answer goes.
pub(crate) type Waiter<A> = oneshot::Sender<Result<Indexed<A>, ProposeError>>;

/// The callers of one group on one node.
pub(crate) struct Waiters<A> {
    batches: Mutex<HashMap<u64, Vec<Waiter<A>>>>,
}

impl<A> Waiters<A> {
    pub(crate) fn new() -> Self {
        Self { batches: Mutex::new(HashMap::new()) }
    }

    /// Remembers who proposed the commands of a batch, in order.
    pub(crate) fn insert(&self, batch: u64, waiters: Vec<Waiter<A>>) {
        self.lock().insert(batch, waiters);
    }

    /// Answers the commands of a batch that was applied, as the entry at `index`.
    pub(crate) fn answer(&self, batch: u64, index: u64, answers: Vec<A>) {
        let waiters = self.lock().remove(&batch).unwrap_or_default();
        for (waiter, answer) in waiters.into_iter().zip(answers) {
            // A caller whose deadline has passed has been told that the outcome is unknown.
            drop(waiter.send(Ok((answer, index))));
        }
    }

    /// Tells the callers of a batch that nothing happened, and why.
    pub(crate) fn refuse(&self, batch: u64, error: &ProposeError) {
        for waiter in self.lock().remove(&batch).unwrap_or_default() {
            drop(waiter.send(Err(error.clone())));
        }
    }

    /// Forgets batches that nobody waits for any more.
    pub(crate) fn sweep(&self) {
        self.lock().retain(|_, waiters| waiters.iter().any(|waiter| !waiter.is_closed()));
    }

    /// Tells everybody that the outcome is unknown.
    pub(crate) fn abandon(&self) {
        let batches = std::mem::take(&mut *self.lock());
        for waiter in batches.into_values().flatten() {
            drop(waiter.send(Err(ProposeError::OutcomeUnknown)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Vec<Waiter<A>>>> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
