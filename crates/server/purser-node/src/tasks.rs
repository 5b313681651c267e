//! Every task of the node, and the switches that end them.
//!
//! A task may only be started here, so "shut down" has one meaning: the token is canceled, each
//! task finishes what it holds, and [`Tasks::shutdown`] returns when the last one is gone or the
//! grace period is over. "Kill" has one meaning too: every task is dropped where it stands.

use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Why a node cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("task {task}: {reason}")]
pub struct NodeFailure {
    /// The vital task that ended.
    pub task: &'static str,
    /// How it ended, with the causes.
    pub reason: String,
}

/// A set of tasks that end together. Clones are the same set.
#[derive(Debug, Clone)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    shutdown: CancellationToken,
    kill: CancellationToken,
    failure: watch::Sender<Option<NodeFailure>>,
}

impl Tasks {
    /// No tasks yet.
    pub(crate) fn new() -> Self {
        Self {
            tracker: TaskTracker::new(),
            shutdown: CancellationToken::new(),
            kill: CancellationToken::new(),
            failure: watch::Sender::new(None),
        }
    }

    /// Another set that ends by itself, but is killed together with this one and fails with it.
    pub(crate) fn sibling(&self) -> Self {
        Self { tracker: TaskTracker::new(), shutdown: CancellationToken::new(), ..self.clone() }
    }

    /// Canceled when the tasks of this set should end.
    pub(crate) fn stopping(&self) -> CancellationToken {
        self.shutdown.clone()
    }

    /// Starts a task.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let kill = self.kill.clone();
        self.tracker.spawn(async move {
            tokio::select! {
                biased;
                () = kill.cancelled() => (),
                () = task => (),
            }
        });
    }

    /// Starts a task that has nothing to finish: it is dropped when the others are asked to end.
    pub(crate) fn spawn_until_stopping(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stopping = self.stopping();
        self.spawn(async move {
            tokio::select! {
                biased;
                () = stopping.cancelled() => (),
                () = task => (),
            }
        });
    }

    /// Starts a task that the node cannot do without: when it ends before the shutdown, the node
    /// has failed.
    ///
    /// A half-alive node is worse than a dead one. It would go on answering health checks while,
    /// say, nobody accepts connections.
    pub(crate) fn spawn_vital<F, E>(
        &self,
        name: &'static str,
        task: impl FnOnce(CancellationToken) -> F,
    ) where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: std::error::Error + Send + 'static,
    {
        let running = task(self.stopping());
        let mut vital = Vital { name, tasks: self.clone(), reason: "it panicked".to_owned() };
        self.spawn(async move {
            let ended = running.await;
            vital.explain(ended.map_or_else(|error| chain(&error), |()| "it ended".to_owned()));
        });
    }

    /// Resolves when a vital task has ended that should not have.
    pub(crate) async fn failed(&self) -> NodeFailure {
        let mut failure = self.failure.subscribe();
        let failure = failure.wait_for(Option::is_some).await;
        failure.ok().and_then(|failure| failure.clone()).expect("the sender is in this very value")
    }

    /// Asks all tasks to end. From now on it is no failure if one does.
    pub(crate) fn request_shutdown(&self) {
        self.shutdown.cancel();
    }

    /// Ends all tasks. Returns whether they ended within `grace`; those that did not go on.
    pub(crate) async fn shutdown(&self, grace: Duration) -> bool {
        self.request_shutdown();
        self.tracker.close();
        tokio::time::timeout(grace, self.tracker.wait()).await.is_ok()
    }

    /// Drops all tasks of this set and of its siblings where they stand, and waits until those of
    /// this set are gone.
    pub(crate) async fn kill(&self) {
        self.kill.cancel();
        self.shutdown.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

/// Tells the node how a vital task ended, however it ended: dropped by a panic as well.
struct Vital {
    name: &'static str,
    tasks: Tasks,
    reason: String,
}

impl Vital {
    fn explain(&mut self, reason: String) {
        self.reason = reason;
    }
}

impl Drop for Vital {
    fn drop(&mut self) {
        if self.tasks.shutdown.is_cancelled() || self.tasks.kill.is_cancelled() {
            tracing::debug!(task = self.name, reason = self.reason, "task ended");
            return;
        }
        tracing::error!(task = self.name, reason = self.reason, "vital task ended");
        let failure = NodeFailure { task: self.name, reason: std::mem::take(&mut self.reason) };
        self.tasks.failure.send_if_modified(|first| {
            // What came first is the cause; what follows may be its consequence.
            let is_first = first.is_none();
            first.get_or_insert(failure);
            is_first
        });
        self.tasks.shutdown.cancel();
    }
}

/// An error and its causes, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::io;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_node_fails_however_a_vital_task_ends() {
        type Ends = fn() -> Result<(), io::Error>;
        let ends: [(Ends, &str); 3] = [
            (|| Ok(()), "it ended"),
            (|| Err(io::Error::other("no disk")), "no disk"),
            (|| panic!("on purpose"), "it panicked"),
        ];
        for (end, reason) in ends {
            let tasks = Tasks::new();
            tasks.spawn_vital("doomed", |_| async move { end() });

            let failure = tasks.failed().await;
            assert_eq!(failure, NodeFailure { task: "doomed", reason: reason.to_owned() });
            assert!(tasks.shutdown(Duration::from_secs(1)).await);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_may_finish_what_it_holds_within_the_grace_period() {
        let tasks = Tasks::new();
        tasks.spawn_vital("thorough", |stopping| async move {
            stopping.cancelled().await;
            tokio::time::sleep(Duration::from_secs(5)).await;
            Ok::<(), Infallible>(())
        });
        assert!(!tasks.shutdown(Duration::from_secs(4)).await);
        assert!(tasks.shutdown(Duration::from_secs(2)).await);
        assert!(tasks.failure.borrow().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_kill_waits_for_nobody() {
        let tasks = Tasks::new();
        let others = tasks.sibling();
        for tasks in [&tasks, &others] {
            tasks.spawn(std::future::pending());
        }
        tasks.kill().await;
        others.kill().await;
        assert!(tasks.failure.borrow().is_none());
    }
}
