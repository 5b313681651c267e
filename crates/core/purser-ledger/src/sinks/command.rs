//! What may be asked about webhooks, and what is answered.

use minicbor::{Decode, Encode};
use purser_types::{IdempotencyKey, LogTime, OperationId, Position, SinkName, Span};

use super::{DeadLetter, EntryName, Line, SinkTerms};
use crate::command::AccountName;

/// Asks something about one webhook, of one shard. All but [`SinkAct::Advance`] say what shall be, so a
/// repeat changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SinkCommand {
    /// The webhook.
    #[n(0)]
    pub sink: SinkName,
    /// What is asked.
    #[n(1)]
    pub act: SinkAct,
    /// Who asked; the service itself has no name.
    #[n(2)]
    pub actor: Option<Box<str>>,
    /// Why, in the caller's words.
    #[n(3)]
    pub reason: Option<Box<str>>,
}

/// See [`SinkCommand`].
#[derive(Clone, PartialEq, Eq, Encode, Decode)]
pub enum SinkAct {
    /// There shall be such a webhook.
    #[n(0)]
    Create {
        /// What it is.
        #[n(0)]
        terms: SinkTerms,
        /// What its events are signed with.
        #[n(1)]
        secret: Box<str>,
        /// Where it begins.
        #[n(2)]
        from: Position,
    },
    /// There shall be none of this name.
    #[n(1)]
    Remove,
    /// Events are signed with another secret, and for a while with the one before too.
    #[n(2)]
    Rotate {
        /// The new one.
        #[n(0)]
        secret: Box<str>,
        /// How long the one before still signs.
        #[n(1)]
        overlap: Span,
    },
    /// Events are delivered.
    #[n(3)]
    Enable,
    /// Nothing is delivered.
    #[n(4)]
    Disable {
        /// Why.
        #[n(0)]
        why: Box<str>,
    },
    /// A dead letter is tried once more.
    #[n(5)]
    Redrive(#[n(0)] EntryName),
    /// A dead letter is given up for good, if it is the one that was looked at.
    #[n(6)]
    Discard {
        /// Which.
        #[n(0)]
        event: EntryName,
        /// When it had died.
        #[n(1)]
        died_at: LogTime,
    },
    /// The leader has come further.
    #[n(7)]
    Advance(#[n(0)] Advance),
    /// Dead letters are tried once more, in their order, up to a number.
    #[n(8)]
    RedriveAll(#[n(0)] RedriveAll),
}

/// See [`SinkAct::RedriveAll`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RedriveAll {
    /// Names the call: under the same one the same is answered, and nothing more is redriven.
    #[n(0)]
    pub key: IdempotencyKey,
    /// How many at most.
    #[n(1)]
    pub limit: u32,
    /// Only those that had died before; if nothing is said, all that are dead by now. What is redriven and
    /// dies again is none of them, so that whoever goes on until none is left comes to an end.
    #[n(2)]
    pub died_before: Option<LogTime>,
}

/// What a [`RedriveAll`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct RedriveTally {
    /// How many were redriven.
    #[n(0)]
    pub redriven: u32,
    /// How many of those that it was about were left.
    #[n(1)]
    pub left: u32,
    /// It was about those that had died before.
    #[n(2)]
    pub died_before: LogTime,
}

/// Secrets do not get into logs, nor addresses, in which some receivers have one.
impl std::fmt::Debug for SinkAct {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Create { from, .. } => write!(formatter, "Create({from:?})"),
            Self::Remove => formatter.write_str("Remove"),
            Self::Rotate { overlap, .. } => write!(formatter, "Rotate({overlap:?})"),
            Self::Enable => formatter.write_str("Enable"),
            Self::Disable { why } => write!(formatter, "Disable({why:?})"),
            Self::Redrive(event) => write!(formatter, "Redrive({event:?})"),
            Self::Discard { event, died_at } => {
                write!(formatter, "Discard({event:?}, {died_at:?})")
            }
            Self::Advance(advance) => write!(formatter, "{advance:?}"),
            Self::RedriveAll(asked) => write!(formatter, "{asked:?}"),
        }
    }
}

/// How far a leader has come.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Advance {
    /// The step that it follows.
    #[n(0)]
    pub after: OperationId,
    /// The main line's cursor.
    #[n(1)]
    pub cursor: Position,
    /// The lines that have changed; none where an account is on the main line again.
    #[n(2)]
    pub lines: Vec<ChangedLine>,
    /// What became of events that failed too often.
    #[n(3)]
    pub letters: Vec<ChangedLetter>,
    /// Why it cannot go on.
    #[n(4)]
    pub disable: Option<Box<str>>,
}

/// A line that has changed.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ChangedLine {
    /// Whose.
    #[n(0)]
    pub account: AccountName,
    /// How it is now.
    #[n(1)]
    pub line: Option<Line>,
}

/// An event with what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ChangedLetter {
    /// The event.
    #[n(0)]
    pub event: EntryName,
    /// What became of it.
    #[n(1)]
    pub change: LetterChange,
}

/// See [`ChangedLetter`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum LetterChange {
    /// It was tried too often.
    #[n(0)]
    Died(#[n(0)] DeadLetter),
    /// Redriven, it was delivered, or is nobody's to deliver any more.
    #[n(1)]
    Settled,
    /// Redriven, it has failed again.
    #[n(2)]
    Tried {
        /// How often by now.
        #[n(0)]
        attempts: u32,
        /// When it is tried again.
        #[n(1)]
        due: LogTime,
    },
    /// Redriven, it was tried too often again.
    #[n(3)]
    DiedAgain(#[n(0)] DeadLetter),
}

/// What a webhook's command did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SinkDone {
    /// The step that an [`Advance`] has to follow now; none if there is no webhook.
    pub step: OperationId,
    /// Whether anything was changed.
    pub is_changed: bool,
    /// What a [`RedriveAll`] came to, now or when its key was first used.
    pub tally: Option<RedriveTally>,
}

/// Why nothing was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SinkRefusal {
    /// There is none of this name.
    #[error("there is no such webhook")]
    Unknown,
    /// There is one of this name, with other terms or another secret.
    #[error("there is another webhook of this name")]
    Exists,
    /// There are as many as there may be.
    #[error("there are {} webhooks, and there may be no more", super::SINKS_MAX)]
    TooMany,
    /// As many secrets sign as may.
    #[error(
        "{} secrets sign already: let the oldest end first, or end all of them with an overlap of 0",
        super::SECRETS_MAX
    )]
    TooManySecrets,
    /// The key of a [`RedriveAll`] belongs to another one.
    #[error("the key belongs to another redrive")]
    OtherRedrive,
    /// The dead letter is not the one that was looked at: it was redriven and has died again.
    #[error("the dead letter has changed since the dry run")]
    OtherLetter,
    /// Somebody else has changed its progress.
    #[error("its progress was changed by somebody else")]
    OtherStep,
}
