//! How an account stands as a whole: whether it takes new work, where its home is, and by which
//! rules it goes.

use minicbor::{Decode, Encode};
use purser_types::{LogTime, Region};

use crate::events::ShorterAge;
use crate::policy::Policy;

/// How an account stands. Every entry that changes it carries it as it stands afterwards, so that
/// the entry is all that the answer to its request needs, however often that is repeated.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Standing {
    /// Whether it takes new work.
    #[n(0)]
    pub status: AccountStatus,
    /// Where its home is.
    #[n(1)]
    pub home: Region,
    /// Its rules.
    #[n(2)]
    pub policy: Policy,
    /// When it was opened.
    #[n(3)]
    pub opened_at: LogTime,
    /// How long events are accepted that may have come in before the policy let them be accepted for
    /// longer.
    #[n(4)]
    pub shorter_age: Option<ShorterAge>,
}

/// Whether an account takes new work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum AccountStatus {
    /// It does.
    #[n(0)]
    Open,
    /// No new authorizes and charges; holds may end.
    #[n(1)]
    Frozen,
    /// Nothing any more.
    #[n(2)]
    Closed,
}

impl Standing {
    /// How an account stands before its first entry.
    pub(crate) fn unopened(home: Region) -> Self {
        Self {
            status: AccountStatus::Open,
            home,
            policy: Policy::default(),
            opened_at: LogTime::ZERO,
            shorter_age: None,
        }
    }

    /// The same with another status.
    pub(crate) fn becoming(&self, status: AccountStatus) -> Self {
        Self { status, ..self.clone() }
    }

    /// The same with another policy, from `now` on.
    pub(crate) fn under(&self, policy: Policy, now: LogTime) -> Self {
        let shorter_age = self.shorter_age_under(&policy, now);
        Self { policy, shorter_age, ..self.clone() }
    }
}
