//! The tasks of a node, and how it learns that it can not go on.
//!
//! Every task of this crate is started here, so that a shutdown waits for all of them.

use std::future::Future;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::StopReason;

/// Tasks that end together. Clones are the same set.
#[derive(Debug, Clone)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    ending: CancellationToken,
}

impl Tasks {
    pub(crate) fn new() -> Self {
        Self { tracker: TaskTracker::new(), ending: CancellationToken::new() }
    }

    /// A set that ends with this one, or earlier.
    pub(crate) fn subset(&self) -> Self {
        Self { tracker: TaskTracker::new(), ending: self.ending.child_token() }
    }

    /// Runs a task until it is done or the set ends; then it is dropped where it waits.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let ending = self.ending.clone();
        self.tracker.spawn(async move {
            tokio::select! {
                biased;
                () = ending.cancelled() => (),
                () = task => (),
            }
        });
    }

    /// Runs a task that must not end before the set does: if it does, by return or panic, `stop`
    /// is told.
    pub(crate) fn spawn_vital(
        &self,
        name: &'static str,
        stop: &Stop,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let ending = self.ending.clone();
        let guard = VitalGuard { name, stop: stop.clone(), ending: ending.clone() };
        self.tracker.spawn(async move {
            // Dropped however the task ends.
            let _guard = guard;
            tokio::select! {
                biased;
                () = ending.cancelled() => (),
                () = task => (),
            }
        });
    }

    /// Ends all tasks and waits until they are gone.
    pub(crate) async fn end(&self) {
        self.ending.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

/// Says once why something has stopped. Clones say it to the same listeners.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    reason: watch::Sender<Option<StopReason>>,
}

impl Stop {
    pub(crate) fn new() -> Self {
        Self { reason: watch::Sender::new(None) }
    }

    /// Says why, unless it was said before.
    pub(crate) fn stop(&self, reason: StopReason) {
        self.reason.send_if_modified(|first| {
            let is_first = first.is_none();
            if is_first {
                *first = Some(reason);
            }
            is_first
        });
    }

    pub(crate) fn reason(&self) -> Option<StopReason> {
        self.reason.borrow().clone()
    }

    /// Resolves when it has been said.
    pub(crate) async fn stopped(&self) -> StopReason {
        let mut listener = self.reason.subscribe();
        let reason = listener.wait_for(Option::is_some).await.ok().and_then(|said| said.clone());
        reason.unwrap_or(StopReason::ShutDown)
    }
}

struct VitalGuard {
    name: &'static str,
    stop: Stop,
    ending: CancellationToken,
}

impl Drop for VitalGuard {
    fn drop(&mut self) {
        if !self.ending.is_cancelled() {
            self.stop.stop(StopReason::Consensus(format!("the task {} ended", self.name)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_vital_task_that_ends_stops_its_owner_however_it_ends() {
        let ends: [fn(); 2] = [|| (), || panic!("on purpose")];
        for end in ends {
            let (tasks, stop) = (Tasks::new(), Stop::new());
            tasks.spawn_vital("doomed", &stop, async move { end() });
            assert_eq!(stop.stopped().await, StopReason::Consensus("the task doomed ended".into()));
            tasks.end().await;
        }
    }
}
