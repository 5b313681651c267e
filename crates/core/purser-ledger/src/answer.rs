//! What commands are answered with.

use minicbor::{Decode, Encode};
use purser_types::{Credits, Generation, Life, LogTime, Position, Sequence};

use crate::balance::Balance;
use crate::command::AccountName;
use crate::digest::Digest16;
use crate::entry::Entry;
use crate::jobs::Job;
use crate::lot::Lot;
use crate::moving::{MoveRefusal, MoveStep};
use crate::rejection::Rejection;
use crate::sinks::{SinkDone, SinkRefusal};

/// The answer to a [`Command`](crate::Command).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// One outcome for each item, in order.
    Account(Vec<Outcome>),
    /// How many accounts had something due.
    Swept {
        /// That many.
        accounts: u32,
    },
    /// Of a step of a move.
    Move(Result<MoveStep, MoveRefusal>),
    /// Who decides a call that a region wants to pass on.
    PassedOn(PassedOn),
    /// The life that the group is in from then on.
    Life(Option<Life>),
    /// The jobs that were given out, the one that was due first at first.
    Leased(Vec<LeasedJob>),
    /// Of a change of a webhook.
    Sink(Result<SinkDone, SinkRefusal>),
}

/// A job that was given to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeasedJob {
    /// Whose it is.
    pub account: AccountName,
    /// The job, as it is leased.
    pub job: Job,
}

/// Who decides a call that a region wants to pass on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassedOn {
    /// Home does. If the call can be noted, it is: no book of this region decides it any more.
    ToHome,
    /// The book of this generation has, and has the answer.
    Decided(Generation),
}

impl Answer {
    /// The outcomes of items; nothing if the command had none.
    pub fn into_outcomes(self) -> Option<Vec<Outcome>> {
        if let Self::Account(outcomes) = self { Some(outcomes) } else { None }
    }
}

/// How one item ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What was decided.
    pub result: Result<Receipt, Rejection>,
    /// Whether it was decided before, under the same key.
    pub replayed: bool,
}

/// What an accepted operation did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The entry it made; for a grant that had been made before, that grant's entry.
    pub entry: Entry,
    /// The lot as it stood, if another request had granted it before for the same business fact.
    pub existing: Option<Lot>,
    /// The balance when the operation was done.
    pub balance: Balance,
    /// The account's last entry then: what the balance is as of.
    pub last: Last,
    /// How much debt was repaid with credits that it made available.
    pub debt_repaid: Credits,
    /// Whether nothing was left to be done: an earlier operation's entry had done it.
    pub is_found: bool,
}

/// An account's last entry at some point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Last {
    /// Its sequence.
    pub sequence: Sequence,
    /// When it took effect.
    pub log_time: LogTime,
}

/// A decision as it is remembered under its idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Remembered {
    /// Of the request.
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub(crate) fingerprint: Digest16,
    /// What was decided.
    #[n(1)]
    pub(crate) decision: Decision,
}

/// See [`Remembered`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) enum Decision {
    /// Accepted: the operation's entry, the last entry that it wrote, and how much debt was repaid.
    #[n(0)]
    Accepted {
        #[n(0)]
        entry: Position,
        #[n(1)]
        last: Position,
        #[n(2)]
        debt_repaid: Credits,
    },
    /// Refused.
    #[n(1)]
    Refused(#[n(0)] Box<Rejection>),
    /// Accepted, but done before by another request. Rare, so it may take more memory: the lot goes
    /// on changing, and no entry says how it stood.
    #[n(2)]
    Existing(#[n(0)] Box<Existing>),
    /// Accepted, but nothing was left to be done: the entry that did it, and the account's last one.
    #[n(3)]
    Found {
        #[n(0)]
        entry: Position,
        #[n(1)]
        last: Position,
    },
}

/// A grant that had been made before, as it was found.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Existing {
    /// The grant's entry.
    #[n(0)]
    pub(crate) entry: Position,
    /// The account's last entry then.
    #[n(1)]
    pub(crate) last: Position,
    /// The lot then.
    #[n(2)]
    pub(crate) lot: Lot,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time_ring::Kept;

    /// Keys are what an account has most of: what only some answers need must not lie in all.
    #[test]
    fn a_remembered_key_takes_72_bytes_of_a_map_whatever_was_decided() {
        assert_eq!(size_of::<(Digest16, Kept<Remembered>)>(), 72);
    }
}
