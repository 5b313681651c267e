//! What a line of a transcript may get wrong.

use purser_types::{CreditsError, IdError};

use super::moment::TimeError;
use crate::command::MetadataTooLarge;

/// Why a line says nothing that can be asked of a ledger. It is answered, and nothing happens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum LineError {
    #[error("`{0}` is not a command")]
    UnknownCommand(String),
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("`{0}` is not expected here")]
    Unexpected(String),
    #[error("amount {0}")]
    Amount(CreditsError),
    #[error("amount must be 1 to 1000000000000000000")]
    AmountOutOfRange,
    #[error("name {0}")]
    Name(IdError),
    #[error("time {0}")]
    Time(TimeError),
    #[error("{what} must be {allowed}")]
    Choice { what: &'static str, allowed: &'static str },
    #[error("the items of a batch must be of one account")]
    OtherAccount,
    #[error("{0}")]
    Metadata(MetadataTooLarge),
    #[error("there is no such account")]
    NoAccount,
    #[error("there is no such allocation")]
    NoAllocation,
    #[error("there is no such message")]
    NoMessage,
}

impl From<CreditsError> for LineError {
    fn from(error: CreditsError) -> Self {
        Self::Amount(error)
    }
}

impl From<IdError> for LineError {
    fn from(error: IdError) -> Self {
        Self::Name(error)
    }
}

impl From<TimeError> for LineError {
    fn from(error: TimeError) -> Self {
        Self::Time(error)
    }
}

impl From<MetadataTooLarge> for LineError {
    fn from(error: MetadataTooLarge) -> Self {
        Self::Metadata(error)
    }
}
