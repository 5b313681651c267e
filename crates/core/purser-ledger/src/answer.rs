//! What commands are answered with.

use minicbor::{Decode, Encode};
use purser_types::{Credits, LogTime, Position, Sequence};

use crate::balance::Balance;
use crate::digest::Digest16;
use crate::entry::Entry;
use crate::rejection::Rejection;

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
    /// The balance when the operation was done.
    pub balance: Balance,
    /// The account's last entry then: what the balance is as of.
    pub last: Last,
    /// How much debt was repaid with credits that it made available.
    pub debt_repaid: Credits,
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
}
