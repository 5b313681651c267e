//! Usage events: what others report of work that was done, at least once and in any order.
//!
//! ```text
//!  event ─▶ known? ──▶ duplicate, or the dead letter that it is
//!            │ no
//!            ├─ other content, too old, in the future ─▶ dead letter
//!            ├─ names a hold or job that is not known ─▶ parked as unmatched
//!            ├─ refused ───────────────────────────────▶ dead letter
//!            └─ charge, capture, outcome ──────────────▶ applied
//! ```
//!
//! An event is known by its source and id, and these are no idempotency keys. What is remembered of it and
//! what it does are one entry. Not here: reading `CloudEvents`, and events that name a hold of a region
//! that still decides about it.
//!
//! Invariants kept here: INV-20.

mod age;
mod away;
mod decide;
mod state;

use minicbor::{Decode, Encode};
use purser_types::{Credits, IdempotencyKey, JobId, LogTime, Owner, Sequence, Span};

pub use self::age::ShorterAge;
pub(crate) use self::state::{Events, Mark};
use crate::codec;
use crate::command::{Capture, Confirm, Context, HoldNumber, IfExpired, Item, Operation};
use crate::digest::{Digest16, digest16};
use crate::entry::Fact;
use crate::hold::Hold;
use crate::jobs::{JobChange, JobVerdict};
use crate::rejection::Rejection;

/// How long an event is accepted after its time, and remembered, if the policy says nothing else: a
/// weekend's outage of whoever sends events.
pub(crate) const EVENT_AGE: Span = Span::from_secs(72 * 3_600);

/// How far an event's time may lie ahead of the log's.
const SKEW_MAX: Span = Span::from_secs(300);

/// How the key of the capture begins by which a region's book takes an event.
const KEY_OF_EVENT: &str = "event ";

/// The most events of an account that are parked, as dead letters or unmatched. One takes some 300 bytes.
pub(crate) const PARKED_MAX: usize = 10_000;

/// What an event is known by: who sends it, and what that sender calls it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct EventName {
    #[n(0)]
    source: Box<str>,
    #[n(1)]
    id: Box<str>,
}

/// A source or id is empty, too long or has control characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be 1 to {} bytes of text without control characters", EventName::BYTES_MAX)]
pub struct BadEventName;

impl EventName {
    /// The most bytes of a source, and of an id.
    pub const BYTES_MAX: usize = 255;

    /// Checks a source and an id. They are compared as bytes.
    pub fn parse(source: &str, id: &str) -> Result<Self, BadEventName> {
        for text in [source, id] {
            let fits = !text.is_empty() && text.len() <= Self::BYTES_MAX;
            if !fits || text.chars().any(char::is_control) {
                return Err(BadEventName);
            }
        }
        Ok(Self { source: source.into(), id: id.into() })
    }

    /// What an event of this name is looked up by.
    fn digest(&self) -> Digest16 {
        digest16(&codec::encode(self))
    }

    /// The idempotency key of the capture by which a region's book takes the event.
    fn as_key(&self) -> IdempotencyKey {
        let digest = u128::from_be_bytes(self.digest());
        let key = IdempotencyKey::parse(&format!("{KEY_OF_EVENT}{digest:032x}"));
        key.expect("a word and 32 digits are a key")
    }

    /// Who sends it.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// What the sender calls it.
    pub fn id(&self) -> &str {
        &self.id
    }
}

/// A usage event.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Event {
    /// What it is known by.
    #[n(0)]
    pub name: EventName,
    /// What kind of event its sender calls it. Information only.
    #[n(1)]
    pub kind: Box<str>,
    /// When it happened, by the sender's clock; when it comes in if that is not said. It decides how long
    /// the event is accepted and remembered, and nothing else.
    #[n(2)]
    pub time: Option<LogTime>,
    /// What it is about. This is the event's content: two events of one name with other content conflict.
    #[n(3)]
    pub about: EventAbout,
}

/// What an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum EventAbout {
    /// Work that nobody has set anything aside for: charged, with debt within the account's limit.
    #[n(0)]
    Usage {
        /// How much; nothing happens for 0.
        #[n(0)]
        amount: Credits,
    },
    /// Work for which a hold was opened: its last capture, with debt within the account's limit.
    #[n(1)]
    Hold {
        /// The hold.
        #[n(0)]
        hold: HoldNumber,
        /// The allocation under which a region made it; none if home did.
        #[n(1)]
        owner: Option<Owner>,
        /// How much; all that is held if none is named, and nothing happens for 0.
        #[n(2)]
        amount: Option<Credits>,
    },
    /// How an attempt of a job ended.
    #[n(2)]
    Job {
        /// The job.
        #[n(0)]
        job: JobId,
        /// How.
        #[n(1)]
        verdict: JobVerdict,
    },
}

/// What an entry did for an event.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct EventChange {
    /// The event.
    #[n(0)]
    pub event: Event,
    /// What was done.
    #[n(1)]
    pub effect: EventEffect,
    /// Where it had been parked, if it was.
    #[n(2)]
    pub parked: Option<Sequence>,
}

/// What an event did.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum EventEffect {
    /// Nothing was to be done.
    #[n(0)]
    Nothing,
    /// A charge.
    #[n(1)]
    Charged(#[n(0)] Hold),
    /// The last capture of a hold.
    #[n(2)]
    Captured(#[n(0)] Hold),
    /// The capture of a hold that had expired.
    #[n(3)]
    LateCaptured(#[n(0)] Hold),
    /// A job's outcome.
    #[n(4)]
    Job(#[n(0)] Box<JobChange>),
    /// The end of a hold of which there was nothing left to capture.
    #[n(5)]
    Released(#[n(0)] Hold),
}

/// An event that has done nothing, until people decide about it or what it names turns up.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ParkedEvent {
    /// The entry that parked it at first.
    #[n(0)]
    pub number: Sequence,
    /// The event.
    #[n(1)]
    pub event: Event,
    /// Why it has done nothing.
    #[n(2)]
    pub why: ParkReason,
    /// Since when it is parked.
    #[n(3)]
    pub parked_at: LogTime,
    /// The last entry about it: what is confirmed when it is discarded.
    #[n(4)]
    pub changed_by: Sequence,
}

/// Why an event has done nothing.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum ParkReason {
    /// The hold or job that it names is not known here.
    #[n(0)]
    Unmatched,
    /// It came later than events are accepted after their time.
    #[n(1)]
    TooOld,
    /// Its time is too far ahead.
    #[n(2)]
    InFuture,
    /// Another event of the same name had come before.
    #[n(3)]
    Conflict {
        /// What that one was about.
        #[n(0)]
        first: EventAbout,
    },
    /// What it asks for was refused.
    #[n(4)]
    Refused(#[n(0)] Box<Rejection>),
}

/// See [`Operation::ResolveEvent`](crate::Operation::ResolveEvent).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ResolveEvent {
    /// The entry that parked it.
    #[n(0)]
    pub number: Sequence,
    /// Whether its amount is charged, whatever it names. Otherwise it is taken as it was sent.
    #[n(1)]
    pub as_charge: bool,
}

/// See [`Operation::DiscardEvent`](crate::Operation::DiscardEvent).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct DiscardEvent {
    /// The entry that parked it.
    #[n(0)]
    pub number: Sequence,
    /// The last entry about it that the operator saw.
    #[n(1)]
    pub confirm: Confirm,
}

impl Event {
    /// The capture by which the book of a region that made the hold takes the event; nothing if it names
    /// no hold. The key is the event's own, so the same event captures once.
    pub fn as_capture(&self, context: Context) -> Option<Item> {
        let EventAbout::Hold { hold, amount, .. } = self.about else { return None };
        let (is_final, allow_debt, if_expired) = (true, true, IfExpired::Charge);
        let capture = Capture { hold, amount, is_final, allow_debt, if_expired, away: None };
        let context = Context { key: Some(self.name.as_key()), ..context };
        Some(Item::new(context, Operation::Capture(capture)))
    }

    /// What it is looked up by.
    fn name_digest(&self) -> Digest16 {
        self.name.digest()
    }

    /// What tells it from others of the same name.
    fn content(&self) -> Digest16 {
        digest16(&codec::encode(&self.about))
    }

    /// What it is looked up by together with its content.
    fn whole_digest(&self) -> Digest16 {
        digest16(&codec::encode(&(&self.name, &self.about)))
    }
}

impl EventAbout {
    /// The amount that it names.
    pub const fn amount(&self) -> Option<Credits> {
        match self {
            Self::Usage { amount } => Some(*amount),
            Self::Hold { amount, .. } => *amount,
            Self::Job { .. } => None,
        }
    }
}

impl EventEffect {
    /// The entry's kind.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Nothing => "event",
            Self::Charged(_) => "charge",
            Self::Captured(_) => "capture",
            Self::LateCaptured(_) => "late_capture",
            Self::Released(_) => "release",
            Self::Job(change) => change.effect.kind(change.hold.kind),
        }
    }

    /// What the draft of a capture or charge did.
    fn of(fact: Fact) -> Option<Self> {
        if let Fact::Charged(hold) = fact {
            Some(Self::Charged(hold))
        } else if let Fact::Captured(hold) = fact {
            Some(Self::Captured(hold))
        } else if let Fact::LateCaptured(hold) = fact {
            Some(Self::LateCaptured(hold))
        } else if let Fact::Released(hold) = fact {
            Some(Self::Released(hold))
        } else if let Fact::JobOutcome(change) = fact {
            Some(Self::Job(change))
        } else {
            None
        }
    }
}

impl ParkReason {
    /// Its name in answers and transcripts, if it is not a refusal's.
    pub const fn name(&self) -> Option<&'static str> {
        match self {
            Self::Unmatched => Some("unmatched"),
            Self::TooOld => Some("too_old"),
            Self::InFuture => Some("in_future"),
            Self::Conflict { .. } => Some("conflict"),
            Self::Refused(_) => None,
        }
    }
}
