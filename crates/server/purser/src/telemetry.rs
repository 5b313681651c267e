//! Logs of this process: where they go and how loud they are.
//!
//! They go to standard error, because standard output belongs to answers. `RUST_LOG` overrides
//! what is chosen here.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::failure::CommandError;

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
        // finds its group gone, as entries on their way do, is how every shutdown ends. A group that
        // ends by itself is told of elsewhere.
        Logs::Quiet => {
            "warn,openraft=error,openraft::core::heartbeat=off,openraft::raft::stream_append=off"
        }
        Logs::Server => {
            "info,openraft=warn,openraft::core::heartbeat=off,openraft::raft::stream_append=off"
        }
    };
    let filter = match std::env::var(EnvFilter::DEFAULT_ENV) {
        Ok(directives) => EnvFilter::try_new(&directives)
            .map_err(|error| CommandError::Usage(format!("RUST_LOG cannot be read: {error}")))?,
        Err(_unset_or_unreadable) => EnvFilter::new(default),
    };
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr);
    let started = match logs {
        Logs::Quiet => subscriber.compact().with_target(false).try_init(),
        Logs::Server => subscriber.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| CommandError::broken("logging did not start", error))
}
