//! How people and supervisors ask a long-running command to stop.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::CommandError;
use crate::telemetry;

/// What a shell reports for a process that an interrupt ended: 128 and the signal's number.
const INTERRUPTED: i32 = 130;

/// Waits for interrupts (Ctrl-C) and for a supervisor's request to terminate.
#[derive(Debug)]
pub(crate) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    /// Starts to listen. From here on a signal no longer ends the process by itself.
    pub(crate) fn listen() -> Result<Self, CommandError> {
        let listen = |kind| {
            signal(kind).map_err(|error: io::Error| {
                CommandError::broken("signals cannot be received", error)
            })
        };
        let interrupt = listen(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: listen(SignalKind::terminate())? })
    }

    /// Resolves at the next signal.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Runs `ending` to its end, unless a second signal asks to stop at once.
    pub(crate) async fn unless_impatient<T>(&mut self, ending: impl Future<Output = T>) -> T {
        telemetry::note_the_end();
        tokio::select! {
            ended = ending => ended,
            () = self.next() => std::process::exit(INTERRUPTED),
        }
    }
}
