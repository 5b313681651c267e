//! How a command ends when it does not end well, and the exit code that says so.

use std::error::Error;
use std::io;

use purser_api::Problem;

use crate::output::{Format, Output};

/// Why a command did not do what it was asked to.
///
/// The text is for the person at the terminal; the causes behind it follow, one a line. A script
/// goes by the exit code alone.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// It failed, or it did not hold: exit code 1.
    #[error("{0}")]
    Failed(String),
    /// The service said no: exit code 1. With `--json`, the problem is the answer.
    #[error("refused: {}: {}", .0.code, .0.detail)]
    Refused(Box<Problem>),
    /// Something that it needs does not work: exit code 1.
    #[error("{what}")]
    Broken {
        /// What did not work.
        what: String,
        /// Why.
        #[source]
        cause: Cause,
    },
    /// The arguments make no sense together: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// The service was not reached, or it is not known whether the call took effect: exit code 3.
    #[error("{what}")]
    Unreached {
        /// What is known.
        what: String,
        /// Why no more is.
        #[source]
        cause: Cause,
    },
    /// A configuration file is refused: exit code 64, as `sysexits.h` has it for wrong usage.
    #[error("{what}")]
    Settings {
        /// Which file.
        what: String,
        /// What is wrong with it.
        #[source]
        cause: Cause,
    },
    /// An answer could not be printed: exit code 1.
    #[error("could not write the answer")]
    Output(#[from] io::Error),
}

/// An error of another crate, on its way to the person at the terminal.
type Cause = Box<dyn Error + Send + Sync>;

impl CommandError {
    /// Something that a command needs does not work.
    pub(crate) fn broken(what: impl Into<String>, cause: impl Into<Cause>) -> Self {
        Self::Broken { what: what.into(), cause: cause.into() }
    }

    /// The service was not reached, or the outcome is unknown.
    pub(crate) fn unreached(what: impl Into<String>, cause: impl Into<Cause>) -> Self {
        Self::Unreached { what: what.into(), cause: cause.into() }
    }

    /// A configuration file is refused.
    pub(crate) fn settings(what: impl Into<String>, cause: impl Into<Cause>) -> Self {
        Self::Settings { what: what.into(), cause: cause.into() }
    }

    /// The exit code of the process.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            // Whoever reads has had enough (`purser entries acme | head`). That is no failure.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Failed(_) | Self::Refused(_) | Self::Broken { .. } | Self::Output(_) => 1,
            Self::Usage(_) => 2,
            Self::Unreached { .. } => 3,
            Self::Settings { .. } => 64,
        }
    }

    /// Tells the person at the terminal, with all causes; and the program, if one reads.
    pub(crate) fn report(&self, output: &Output) {
        if self.exit_code() == 0 {
            return;
        }
        output.note(format_args!("purser: {self}"));
        let mut cause = self.source();
        while let Some(error) = cause {
            output.note(format_args!("  because: {error}"));
            cause = error.source();
        }
        if let Self::Refused(problem) = self
            && output.format() == Format::Programs
            && let Err(error) = output.json(problem)
        {
            output.note(format_args!("purser: could not write the answer: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_has_had_enough_is_no_failure() {
        let ended = CommandError::Output(io::ErrorKind::BrokenPipe.into());
        assert_eq!(ended.exit_code(), 0);
        let full = CommandError::Output(io::ErrorKind::StorageFull.into());
        assert_eq!(full.exit_code(), 1);
    }
}
