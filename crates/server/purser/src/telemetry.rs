//! Logs of this process: where they go and how loud they are.
//!
//! They go to standard error, because standard output belongs to answers. `RUST_LOG` overrides
//! what is chosen here.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::Subscriber;
use tracing_subscriber::filter::{EnvFilter, FilterExt, LevelFilter, dynamic_filter_fn};
use tracing_subscriber::layer::{Filter, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use crate::failure::CommandError;

/// Whether this process is on its way to its end.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Who reads the logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Logs {
    /// People who wait for something else: only warnings and errors, as text. Consensus warns of
    /// every peer that does not answer, which is what a person who killed it expects.
    Quiet,
    /// Machines, and people later: life cycle too, as lines of JSON. Not that of consensus, whose
    /// steps are many and whose state the metrics and `purser cluster` show.
    Server,
}

/// Starts logging. Called once, before anything that logs.
pub(crate) fn start(logs: Logs) -> Result<(), CommandError> {
    let default = match logs {
        // A heartbeat that does not come back in time is daily life between regions, and one that
        // finds its group gone, as entries on their way do, is how every group ends. A group that
        // ends by itself is told of elsewhere.
        Logs::Quiet => {
            "warn,openraft=error,openraft::core::heartbeat=off,openraft::raft::stream_append=off"
        }
        Logs::Server => {
            "info,openraft=warn,openraft::core::heartbeat=off,openraft::raft::stream_append=off"
        }
    };
    let filter = match std::env::var(EnvFilter::DEFAULT_ENV) {
        Ok(directives) => {
            let filter = EnvFilter::try_new(&directives);
            let unreadable =
                |error| CommandError::Usage(format!("RUST_LOG cannot be read: {error}"));
            // Whoever asks for certain lines gets them to the end.
            until_the_end(filter.map_err(unreadable)?, None)
        }
        Err(_unset_or_unreadable) => until_the_end(EnvFilter::new(default), Some(&IS_ENDING)),
    };
    let lines = fmt::layer().with_ansi(io::stderr().is_terminal()).with_writer(io::stderr);
    let registry = tracing_subscriber::registry();
    let started = match logs {
        Logs::Quiet => {
            registry.with(lines.compact().with_target(false).with_filter(filter)).try_init()
        }
        Logs::Server => {
            registry.with(lines.json().flatten_event(true).with_filter(filter)).try_init()
        }
    };
    started.map_err(|error| CommandError::broken("logging did not start", error))
}

/// From now on consensus is not heard: its tasks end one after another, and each complains of those that
/// are gone already. What else it would say then is lost.
pub(crate) fn note_the_end() {
    IS_ENDING.store(true, Ordering::Relaxed);
}

/// What `filter` lets through; of consensus nothing once the end is on its way.
fn until_the_end<S: Subscriber + for<'a> LookupSpan<'a>>(
    filter: EnvFilter,
    is_ending: Option<&'static AtomicBool>,
) -> impl Filter<S> {
    let is_told = dynamic_filter_fn(move |metadata, _| {
        let is_ending = is_ending.is_some_and(|it| it.load(Ordering::Relaxed));
        !is_ending || !metadata.target().starts_with("openraft")
    });
    // Without a hint of its own it would have every line of every level be made.
    filter.and(is_told.with_max_level_hint(LevelFilter::TRACE))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Where the lines of a test go.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn consensus_is_heard_until_the_end_and_everybody_else_also_then() {
        static IS_ENDING: AtomicBool = AtomicBool::new(false);
        let lines = Lines::default();
        let writer = lines.clone();
        let layer = fmt::layer().with_ansi(false).with_writer(move || writer.clone());
        let filter = until_the_end(EnvFilter::new("warn,openraft=error"), Some(&IS_ENDING));
        let subscriber = tracing_subscriber::registry().with(layer.with_filter(filter));
        tracing::subscriber::with_default(subscriber, || {
            for when in ["before", "after"] {
                tracing::error!(target: "openraft::raft", "consensus fails {when}");
                tracing::warn!(target: "openraft::raft", "consensus warns {when}");
                tracing::warn!("a node warns {when}");
                IS_ENDING.store(true, Ordering::Relaxed);
            }
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let heard = ["consensus fails before", "a node warns before", "a node warns after"];
        assert_eq!(text.lines().count(), heard.len(), "{text}");
        for (line, heard) in text.lines().zip(heard) {
            assert!(line.ends_with(heard), "{text}");
        }
    }
}
