//! Calls that wait because their credits are out, and are served in the order in which they came.

use std::sync::Arc;
use std::time::{Duration, Instant};

use purser_ledger::{AccountName, Shortage};
use purser_types::{Credits, Span};
use tokio::sync::Notify;

use super::Desk;
use super::account::DeskAccount;

/// How often a call that waits has its account looked at: a recall that is not answered ends with
/// time alone.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A call that waits.
pub(super) struct Place {
    pub(super) cost: Credits,
    pub(super) since: Span,
    pub(super) verdict: Option<Verdict>,
    pub(super) changed: Arc<Notify>,
}

/// What a call that waits is told.
#[derive(Debug, Clone)]
pub(super) enum Verdict {
    /// There may be enough now.
    Go,
    /// Nobody within reach can pay.
    Short(Shortage),
}

/// How waiting ended.
#[derive(Debug)]
pub(crate) enum Waited {
    /// Ask the ledger again.
    Go,
    /// Ask it for the last time: this is what is known about credits that are out.
    Short(Shortage),
    /// There was no time left.
    TooLate,
}

/// A place in an account's queue, given up when dropped.
pub(crate) struct Ticket {
    desk: Arc<Desk>,
    account: AccountName,
    number: u64,
    changed: Arc<Notify>,
}

impl Ticket {
    /// Waits until the call's turn has come, or it is clear that nobody can pay.
    pub(crate) async fn wait(&self, deadline: Instant) -> Waited {
        loop {
            // Order matters: who is told between a look and the wait must not miss it.
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let tending = self.desk.tend(&self.account);
            if tokio::time::timeout_at(deadline.into(), tending).await.is_err() {
                // What was begun is for the desk to bring to its end: home may have no majority, and the
                // caller is not to wait for that.
                self.desk.tend_soon(&self.account);
                return Waited::TooLate;
            }
            match self.take_verdict() {
                Some(Verdict::Go) => return Waited::Go,
                Some(Verdict::Short(shortage)) => return Waited::Short(shortage),
                None if deadline <= Instant::now() => return Waited::TooLate,
                None => (),
            }
            let patience = LOOK_EVERY.min(deadline.saturating_duration_since(Instant::now()));
            // Either way it is looked at again.
            drop(tokio::time::timeout(patience, changed).await);
        }
    }

    fn take_verdict(&self) -> Option<Verdict> {
        let mut state = self.desk.state();
        let known = state.accounts.get_mut(&self.account)?;
        known.places.get_mut(&self.number)?.verdict.take()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.desk.state();
        if let Some(known) = state.accounts.get_mut(&self.account) {
            known.places.remove(&self.number);
            // The next one's turn may have come.
            known.wake_first();
        }
    }
}

impl DeskAccount {
    /// Has the first call that waits look again.
    pub(super) fn wake_first(&self) {
        if let Some(place) = self.places.values().next() {
            place.changed.notify_one();
        }
    }
}

impl Desk {
    /// Takes a place in an account's queue for a call that costs `cost`.
    pub(crate) fn queue(self: &Arc<Self>, account: &AccountName, cost: Credits) -> Ticket {
        let now = self.now();
        let mut state = self.state();
        state.tickets += 1;
        let number = state.tickets;
        let changed = Arc::new(Notify::new());
        let place = Place { cost, since: now, verdict: None, changed: Arc::clone(&changed) };
        let known = self.known(&mut state, account);
        known.places.insert(number, place);
        Ticket { desk: Arc::clone(self), account: account.clone(), number, changed }
    }

    /// Whether calls wait for the account's credits: who comes then waits behind them.
    pub(crate) fn has_queue(&self, account: &AccountName) -> bool {
        self.state().accounts.get(account).is_some_and(|known| !known.places.is_empty())
    }
}
