//! What a caller learns when a call does not succeed.
//!
//! The one question that matters is whether the change may have happened, so the variants of
//! [`ClientError`] answer it. An attempt whose outcome is unknown stays unknown, whatever later
//! attempts fail with, until one of them is decided by the ledger.

use std::time::Duration;

use purser_api::{Outcome, Problem, Retry};
use purser_types::IdempotencyKey;

/// Why a call did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The service said no. Nothing happened.
    #[error("refused: {0}")]
    Refused(Box<Problem>),
    /// It may have happened, or may yet. The same call with the same key finds out.
    #[error("the outcome is unknown")]
    Unknown {
        /// The key to call with again; the keys of the items, for a batch.
        key: Option<IdempotencyKey>,
        /// How the last attempt failed.
        #[source]
        last: AttemptError,
    },
    /// No attempt got through before the deadline. Nothing happened.
    #[error("the service could not be reached")]
    Unreachable {
        /// How the last attempt failed.
        #[source]
        last: AttemptError,
    },
    /// The call cannot be sent as it stands. Nothing happened.
    #[error("the call cannot be sent: {0}")]
    Unsendable(&'static str),
}

impl ClientError {
    /// The problem of a refusal.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Refused(problem) => Some(problem),
            Self::Unknown { .. } | Self::Unreachable { .. } | Self::Unsendable(_) => None,
        }
    }
}

/// Why one attempt of a call did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum AttemptError {
    /// The service answered with a problem.
    #[error("{problem}")]
    Problem {
        /// The problem.
        problem: Box<Problem>,
        /// How long the service asks to wait.
        retry_after: Option<Duration>,
    },
    /// There was no connection, so nothing was sent.
    #[error("no connection")]
    NotSent(#[source] reqwest::Error),
    /// The request may have arrived, and no answer came back in time.
    #[error("no answer")]
    NoAnswer(#[source] reqwest::Error),
    /// Something answered that is not the service, or a release that cannot be understood.
    #[error("an answer with status {status} that cannot be read: {detail}")]
    Unreadable {
        /// The HTTP status.
        status: u16,
        /// What is wrong with the body.
        detail: String,
    },
    /// The deadline was over before the attempt could start.
    #[error("no time left")]
    NoTime,
}

/// What is known after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The ledger decided: no attempt under this key has done or will do it.
    Decided,
    /// This attempt did nothing. An earlier one may have.
    Nothing,
    /// This attempt may have done it.
    Unknown,
}

impl AttemptError {
    pub(crate) fn effect(&self) -> Effect {
        match self {
            Self::Problem { problem, .. } => match (problem.outcome, problem.status, problem.retry)
            {
                (Outcome::Unknown, _, _) => Effect::Unknown,
                // These come from the log, where the key was looked up first. All others come from
                // in front of it and know nothing of earlier attempts; what may be asked again
                // later under the same key has not been decided.
                (Outcome::NothingHappened, 402 | 404 | 409 | 422, Retry::Never | Retry::NewKey) => {
                    Effect::Decided
                }
                (Outcome::NothingHappened, _, _) => Effect::Nothing,
            },
            Self::NotSent(_) | Self::NoTime => Effect::Nothing,
            Self::NoAnswer(_) | Self::Unreadable { .. } => Effect::Unknown,
        }
    }

    /// Whether another attempt with the same key can help, and how long to wait for it at least.
    pub(crate) fn retry(&self) -> Option<Duration> {
        match self {
            Self::Problem { problem, retry_after } => match problem.retry {
                Retry::SameKey | Retry::Later => Some(retry_after.unwrap_or_default()),
                Retry::Never | Retry::NewKey => None,
            },
            Self::NotSent(_) | Self::NoAnswer(_) => Some(Duration::ZERO),
            // A gateway's own words for "try again"; other answers would only come again.
            Self::Unreadable { status: 429 | 500..=599, .. } => Some(Duration::ZERO),
            Self::Unreadable { .. } | Self::NoTime => None,
        }
    }

    /// Whether another node may do better. A tenant's limit is the same everywhere.
    pub(crate) fn blames_node(&self) -> bool {
        match self {
            Self::Problem { problem, .. } => problem.status >= 500,
            Self::NotSent(_) | Self::NoAnswer(_) | Self::Unreadable { .. } => true,
            Self::NoTime => false,
        }
    }
}
