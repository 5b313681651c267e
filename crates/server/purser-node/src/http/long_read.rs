//! Long reads: those that go through an account's history or through all accounts, and dry runs.
//!
//! They run on threads that may wait for the disk, so many at once and no more, and nobody waits for
//! one beyond the time of its request. A read that is given up goes on to its end unheard, and keeps
//! its place until then: else there would be no telling how many run.

use std::sync::Arc;
use std::time::Instant;

use purser_ledger::{Account, AccountName, AsOf, Ledger};
use purser_raft::GroupHistory;
use purser_types::{HistoryReader, LogTime, Machine};
use tokio::sync::Semaphore;

use crate::http::call::Call;
use crate::http::problem::{NotDone, Refusal};
use crate::http::routing::{look_at, not_found_in};
use crate::tasks::chain;

/// Why a long read gave nothing.
#[derive(Debug, thiserror::Error)]
enum LongReadError {
    /// There was no place for it in time.
    #[error("too many long reads are under way")]
    NoPlace,
    /// It did not end in time.
    #[error("the read took too long")]
    TooLong,
    /// It panicked.
    #[error("a read failed")]
    Failed(#[from] tokio::task::JoinError),
}

/// Has `prepare` make a read once there is a place for it, and runs that on a thread of its own.
async fn run<T, R>(
    places: &Arc<Semaphore>,
    deadline: Instant,
    prepare: impl FnOnce() -> R,
) -> Result<T, LongReadError>
where
    T: Send + 'static,
    R: FnOnce() -> T + Send + 'static,
{
    let waiting = tokio::time::timeout_at(deadline.into(), Arc::clone(places).acquire_owned());
    let place = waiting.await.map_err(|_elapsed| LongReadError::NoPlace)?;
    let place = place.expect("nobody closes the semaphore");
    let read = prepare();
    let reading = tokio::task::spawn_blocking(move || {
        let _place = place;
        read()
    });
    let read = tokio::time::timeout_at(deadline.into(), reading).await;
    Ok(read.map_err(|_elapsed| LongReadError::TooLong)??)
}

impl Call {
    /// Looks at an account for long, strictly: at a copy, on a thread that may wait for the disk.
    pub(crate) async fn study<T: Send + 'static>(
        &self,
        account: &AccountName,
        look: impl FnOnce(&AsOf<'_>, LogTime) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, NotDone> {
        let (name, generation) = (account.clone(), self.seat.generation());
        let study = move |ledger: &Ledger, history: &GroupHistory, now: LogTime| {
            look_at(ledger, history, (&name, generation), now, look)
        };
        self.confirm_home(account).await?;
        self.at_leisure(account, study).await
    }

    /// Looks at what is written down of an account, strictly, with everything written that was due
    /// when the call was made.
    pub(crate) async fn study_written<T: Send + 'static>(
        &self,
        account: &AccountName,
        look: impl FnOnce(&Account, &dyn HistoryReader, LogTime) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, NotDone> {
        let (name, generation) = (account.clone(), self.seat.generation());
        let study = move |ledger: &Ledger, history: &GroupHistory, now: LogTime| {
            let book = ledger.book(&name, generation);
            look(book.ok_or_else(|| not_found_in(ledger, (&name, generation)))?, history, now)
        };
        self.write_due(account).await?;
        self.at_leisure(account, study).await
    }

    /// Looks at a ledger for long, as this node has it.
    pub(crate) async fn at_leisure<T: Send + 'static>(
        &self,
        account: &AccountName,
        study: impl FnOnce(&Ledger, &GroupHistory, LogTime) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, NotDone> {
        let group = self.api.groups().of(account);
        let read = self.read_long(|| {
            // Taken when it is its turn: while it waits, it keeps no old state alive.
            let (ledger, history, now) = (group.machine(), group.history(), group.now());
            move || study(&ledger, &history, now.max(ledger.log_time()))
        });
        Ok(read.await?)
    }

    /// Runs a read that `prepare` makes when it is its turn.
    pub(crate) async fn read_long<T, R>(&self, prepare: impl FnOnce() -> R) -> Result<T, Refusal>
    where
        T: Send + 'static,
        R: FnOnce() -> Result<T, Refusal> + Send + 'static,
    {
        match run(self.api.long_reads(), self.meta.deadline, prepare).await {
            Ok(read) => read,
            Err(error @ LongReadError::Failed(_)) => Err(Refusal::internal(chain(&error))),
            Err(error) => Err(Refusal::overloaded(format!("{error}; nothing happened"))),
        }
    }

    /// Has what is due in an account written down, if anything is.
    ///
    /// Balances show what is due whether or not it is written. Entries do not: an entry gets its
    /// hash when it is written, and what was shown of it must never change. So whoever asks for
    /// entries has them written first.
    async fn write_due(&self, account: &AccountName) -> Result<(), NotDone> {
        self.confirm_home(account).await?;
        let group = self.api.groups().of(account);
        let now = group.now();
        let behind = group.view(|ledger, history| {
            let Some(account) = ledger.book(account, self.seat.generation()) else {
                return Ok(false);
            };
            let settled = account.at(now.max(ledger.log_time()), history)?;
            Ok(settled.account().head() != account.head())
        });
        if behind.map_err(|error| Refusal::of_history(&error))? {
            self.propose(account, Vec::new()).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_long_read_waits_for_a_place_as_long_as_its_request_may() {
        let places = Arc::new(Semaphore::new(1));
        let taken = Arc::clone(&places).acquire_owned().await.unwrap();
        let deadline = || (tokio::time::Instant::now() + Duration::from_secs(10)).into_std();
        let refused = run(&places, deadline(), || || 7).await;
        assert!(matches!(refused, Err(LongReadError::NoPlace)), "{refused:?}");
        drop(taken);
        assert_eq!(run(&places, deadline(), || || 7).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_read_that_is_given_up_keeps_its_place_until_it_ends() {
        let places = Arc::new(Semaphore::new(1));
        let (finish, finished) = mpsc::channel::<()>();
        let given_up = run(&places, Instant::now(), || move || finished.recv().is_ok()).await;
        assert!(matches!(given_up, Err(LongReadError::TooLong)), "{given_up:?}");
        assert_eq!(places.available_permits(), 0);
        finish.send(()).unwrap();
        drop(places.acquire().await.unwrap());
    }
}
