//! Webhooks: who is told of the shard's entries, and how far.
//!
//! ```text
//!  feed ──▶ main line ──────────────────────────▶ delivered
//!               │ an event fails                     ▲
//!               ▼                                    │
//!            line of its account, with back-off ─────┤
//!               │ tried too often                    │
//!               ▼                                    │
//!            dead letter ── redriven ────────────────┘
//! ```
//!
//! What is kept here is what the next leader has to know: terms, secrets, and the progress. What to deliver
//! next is worked out from it by a [`Dispatch`], which lives in the leader's memory only.
//!
//! Not here: the entries, which are the history; addresses, signatures, and who may ask.

mod command;
mod dispatch;
mod pieces;
mod retry;
mod steps;
#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a sum that overflows fails the test")]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use minicbor::{Decode, Encode};
use purser_types::{CowMap, LogTime, OperationId, Position, Sequence, SinkName, TenantId};

pub use self::command::{
    Advance, ChangedLetter, ChangedLine, LetterChange, RedriveAll, RedriveTally, SinkAct,
    SinkCommand, SinkDone, SinkRefusal,
};
pub use self::dispatch::{Dispatch, DispatchLimits, Errand, ErrandWay, Offer};
pub(crate) use self::pieces::{SinkPiece, pieces_of_sinks};
pub use self::retry::delay_after;
pub(crate) use self::steps::{Moment, apply, disable_all};
use crate::command::AccountName;

/// The webhooks of a group.
pub(crate) type Sinks = BTreeMap<SinkName, Arc<Sink>>;

/// The most webhooks: each has a worker in every shard.
pub const SINKS_MAX: usize = 16;

/// The most secrets that sign at once: the newest, and two that still do after a rotation.
pub const SECRETS_MAX: usize = 3;

/// How many redrives are remembered by their keys.
const REDRIVES_MAX: usize = 64;

/// How many acts are remembered.
const NOTES_MAX: usize = 32;

/// A webhook, as one shard knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Sink {
    /// What was said when it was made.
    pub terms: SinkTerms,
    /// What its events are signed with, newest first: one, and after rotations up to [`SECRETS_MAX`].
    pub secrets: Vec<SinkSecret>,
    /// Since when it is here.
    pub created_at: LogTime,
    /// Why nothing is delivered, if nothing is.
    pub disabled: Option<Disabled>,
    /// What its progress was last changed by: an [`Advance`] that follows anything else is refused.
    pub step: OperationId,
    /// A place in the shard's feed: behind all events that were delivered, are none of its own, or belong to
    /// a line or a dead letter.
    pub cursor: Position,
    /// Accounts that the main line passes over, because an event of theirs failed.
    pub lines: CowMap<AccountName, Line>,
    /// Events that nobody tries to deliver any more.
    pub letters: CowMap<EntryName, DeadLetter>,
    /// Dead letters that are tried once more, by an operator's decision.
    pub redriven: CowMap<EntryName, Redriven>,
    /// The last redrives of many dead letters, oldest first.
    pub(crate) redrives: Vec<RedriveTold>,
    /// What was last done to it, oldest first: not what its leader delivers.
    pub notes: Vec<SinkNote>,
}

/// A redrive, as it was answered.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct RedriveTold {
    #[n(0)]
    asked: RedriveAll,
    #[n(1)]
    tally: RedriveTally,
}

/// Something that was done to a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SinkNote {
    /// When.
    #[n(0)]
    pub at: LogTime,
    /// What.
    #[n(1)]
    pub act: NotedAct,
    /// By whom; the service itself has no name.
    #[n(2)]
    pub actor: Option<Box<str>>,
    /// Why, if that was said.
    #[n(3)]
    pub reason: Option<Box<str>>,
    /// Which dead letter, if it was about one.
    #[n(4)]
    pub event: Option<EntryName>,
}

/// See [`SinkNote`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum NotedAct {
    /// It was made.
    #[n(0)]
    Create,
    /// Its secret was changed.
    #[n(1)]
    Rotate,
    /// It delivers again.
    #[n(2)]
    Enable,
    /// It delivers nothing any more.
    #[n(3)]
    Disable,
    /// A dead letter was redriven.
    #[n(4)]
    Redrive,
    /// Dead letters were redriven.
    #[n(5)]
    RedriveAll,
    /// A dead letter was given up.
    #[n(6)]
    Discard,
}

/// What is said of a webhook when it is made.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SinkTerms {
    /// Where events go.
    #[n(0)]
    pub url: Box<str>,
    /// Whose events; everybody's if empty.
    #[n(1)]
    pub tenants: BTreeSet<TenantId>,
    /// Which kinds of entries, as the API names them; all if empty.
    #[n(2)]
    pub kinds: BTreeSet<Box<str>>,
    /// How often an event is tried before it becomes a dead letter. At least 1.
    #[n(3)]
    pub attempts_max: u32,
}

/// What events are signed with, as it was given. Never shown.
#[derive(Clone, PartialEq, Eq, Encode, Decode)]
pub struct SinkSecret {
    /// The secret.
    #[n(0)]
    pub text: Box<str>,
    /// Until when it signs, if another one has followed it.
    #[n(1)]
    pub until: Option<LogTime>,
}

impl std::fmt::Debug for SinkSecret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "SinkSecret(…, until {:?})", self.until)
    }
}

/// Why nothing is delivered.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Disabled {
    /// In words, for operators.
    #[n(0)]
    pub why: Box<str>,
    /// Since when.
    #[n(1)]
    pub since: LogTime,
}

/// An event: an account's entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct EntryName {
    /// Whose.
    #[n(0)]
    pub account: AccountName,
    /// Which.
    #[n(1)]
    pub sequence: Sequence,
}

/// What an account still has to be told, apart from the main line.
///
/// Invariant: `next <= passed`, and the main line has passed over nothing beyond `passed`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Line {
    /// The event to deliver next.
    #[n(0)]
    pub next: Sequence,
    /// The last one that the main line has passed over.
    #[n(1)]
    pub passed: Sequence,
    /// How often `next` has failed.
    #[n(2)]
    pub attempts: u32,
    /// When it is tried again.
    #[n(3)]
    pub due: LogTime,
    /// How it failed last.
    #[n(4)]
    pub error: Box<str>,
    /// When the event was decided with which the line began.
    #[n(5)]
    pub since: LogTime,
}

/// An event that was tried too often.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct DeadLetter {
    /// How often.
    #[n(0)]
    pub attempts: u32,
    /// How it failed last.
    #[n(1)]
    pub error: Box<str>,
    /// When that was.
    #[n(2)]
    pub died_at: LogTime,
}

/// A dead letter that is tried once more.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Redriven {
    /// What it was.
    #[n(0)]
    pub letter: DeadLetter,
    /// How often it has failed since.
    #[n(1)]
    pub attempts: u32,
    /// When it is tried next.
    #[n(2)]
    pub due: LogTime,
}

impl Line {
    /// The main line has passed over an event. If that is an account's first, the account has come anew, and
    /// all of it is told again, as it is where nothing has failed.
    fn pass(&mut self, sequence: Sequence) {
        if sequence == Sequence::ZERO.next() {
            (self.next, self.passed, self.attempts) = (sequence, sequence, 0);
        }
        self.passed = self.passed.max(sequence);
    }
}

impl Sink {
    /// Whether an event of this kind and tenant is one of its own.
    pub fn wants(&self, tenant: &TenantId, kind: &str) -> bool {
        let SinkTerms { tenants, kinds, .. } = &self.terms;
        let is_theirs = tenants.is_empty() || tenants.contains(tenant);
        is_theirs && (kinds.is_empty() || kinds.contains(kind))
    }

    /// A dead letter, and whether it is tried once more.
    pub fn letter(&self, event: &EntryName) -> Option<(&DeadLetter, bool)> {
        let dead = self.letters.get(event).map(|letter| (letter, false));
        dead.or_else(|| self.redriven.get(event).map(|redriven| (&redriven.letter, true)))
    }

    /// The secrets that sign at `now`, newest first.
    pub fn signing(&self, now: LogTime) -> impl Iterator<Item = &str> {
        let valid = move |secret: &&SinkSecret| secret.until.is_none_or(|until| now < until);
        self.secrets.iter().filter(valid).map(|secret| &*secret.text)
    }
}
