//! Taking an account to another group, and what is said about that.
//!
//! ```text
//!  source                                   destination
//!  ───────────────────────────────────      ──────────────────────────────────────────────
//!  goes on deciding  ── entries ────────▶   Import: each is checked, kept and applied
//!                    ── memory  ────────▶   Import: refusals, which no entry tells
//!  Stop: its last entry of this epoch ──▶   Import, up to that entry
//!        Placement: epoch + 1
//!  StepDown: a note of where it went        TakeHome: one entry, and it decides
//! ```
//!
//! What an account is follows from its entries, so copying them in their order is all; only what was
//! refused under a key has no entry and is sent beside. A standby's replica is a source like any
//! other, but that nothing stopped it: what the old home decided after the last entry that came over
//! is its tail. Not here: who sends what, and when; Placement.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use purser_types::{Epoch, LogTime, Region, Sequence};

use crate::codec;
use crate::command::{AccountName, Confirm};
use crate::digest::{Digest16, hash_of};
use crate::entry::Entry;
use crate::lot::Lot;
use crate::protocol::Booked;
use crate::rejection::Rejection;

/// The epoch under which Placement opens a tenant.
pub(crate) const FIRST_EPOCH: Epoch = Epoch(1);

/// See [`Operation::Stop`](crate::Operation::Stop).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Departure {
    /// The epoch that ends by this.
    #[n(0)]
    pub epoch: Epoch,
    /// Where the account is to go.
    #[n(1)]
    pub to: Region,
}

/// See [`Operation::Stay`](crate::Operation::Stay).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Stay {
    /// The epoch that Placement began for the same home.
    #[n(0)]
    pub epoch: Epoch,
}

/// Takes over a part of an account whose home is in another group. Parts may come again.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Import {
    /// The account.
    #[n(0)]
    pub account: AccountName,
    /// What of it.
    #[n(1)]
    pub part: ImportPart,
}

/// A part of an account.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum ImportPart {
    /// Entries' bytes, as they were written, in order and without holes. What is there is skipped.
    #[n(0)]
    Entries(#[n(0)] Vec<ByteVec>),
    /// Decisions under keys that made no entry.
    #[n(1)]
    Memory {
        /// The decisions.
        #[n(0)]
        pairs: Vec<KeyMemory>,
        /// With the last of them: how many entries the source had when these and those before were
        /// all that there were.
        #[n(1)]
        complete_at: Option<Sequence>,
    },
    /// What has been taken over so far is of no use: it does not lead to what became of the account.
    #[n(2)]
    Abandon,
}

impl ImportPart {
    /// The most entries or decisions in one part.
    pub const COUNT_MAX: usize = 512;
}

/// A decision that made no entry, under its key.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct KeyMemory {
    /// Of the idempotency key.
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub key: Digest16,
    /// Of the request.
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub fingerprint: Digest16,
    /// When it is forgotten.
    #[n(2)]
    pub until: LogTime,
    /// What was decided.
    #[n(3)]
    pub decision: EntrylessDecision,
}

/// What was decided without an entry.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum EntrylessDecision {
    /// It was refused.
    #[n(0)]
    Refused(#[n(0)] Box<Rejection>),
    /// It had been granted before.
    #[n(1)]
    Existing {
        /// The grant's entry.
        #[n(0)]
        entry: Sequence,
        /// The account's last entry then.
        #[n(1)]
        last: Sequence,
        /// The lot as it was then.
        #[n(2)]
        lot: Box<Lot>,
    },
    /// Nothing was left to be done.
    #[n(2)]
    Found {
        /// The entry that did it.
        #[n(0)]
        entry: Sequence,
        /// The account's last entry then.
        #[n(1)]
        last: Sequence,
    },
}

/// Makes a group the home of an account that it has taken over.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct TakeHome {
    /// The account.
    #[n(0)]
    pub account: AccountName,
    /// The group's region.
    #[n(1)]
    pub home: Region,
    /// The epoch that Placement began for it.
    #[n(2)]
    pub epoch: Epoch,
    /// How the epoch before ended.
    #[n(3)]
    pub way: Way,
    /// The last entry of the source, which has stopped. What is here must end with it: it may be ahead,
    /// or have come from a home that was lost since.
    #[n(4)]
    pub head: Booked,
}

/// How an account came to a home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Way {
    /// The home before it stopped, and gave it over whole.
    #[n(0)]
    Moved,
    /// The home before it was lost: it may have decided more.
    #[n(1)]
    FailedOver {
        /// That home.
        #[n(0)]
        from: Region,
    },
}

/// Ends an account here: Placement shows another home under a later epoch.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct StepDown {
    /// The account.
    #[n(0)]
    pub account: AccountName,
    /// Its home now.
    #[n(1)]
    pub home: Region,
    /// The epoch of that home.
    #[n(2)]
    pub epoch: Epoch,
}

/// What a step of a move did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MoveStep {
    /// So much has been taken over.
    Imported(ImportProgress),
    /// Nothing is taken over any more.
    Abandoned,
    /// The account's home is here.
    AtHome {
        /// Since this epoch.
        epoch: Epoch,
    },
    /// The account's home is elsewhere.
    Away {
        /// There.
        home: Region,
        /// Since this epoch.
        epoch: Epoch,
    },
}

/// How far an account has been taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportProgress {
    /// The last entry.
    pub head: Booked,
    /// How many entries the source had when its memory was complete here, if it ever was.
    pub memory_at: Option<Sequence>,
    /// Whether the last entry ends an epoch, so that this is all.
    pub stopped: Option<Departure>,
}

/// Why a step of a move is refused. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MoveRefusal {
    /// Nothing has been taken over, or it is not the account's first entry.
    #[error("the account is not here, and this is not its first entry")]
    NotHere,
    /// Entries are missing in between.
    #[error("the part leaves a hole after entry {}", head.0)]
    Gap {
        /// The last entry that is here.
        head: Sequence,
    },
    /// Another entry is here in this place, so what is here was lost with a home.
    #[error("entry {} is not the one that is here, or does not continue it", sequence.0)]
    Forked {
        /// The place.
        sequence: Sequence,
    },
    /// The entry does not follow from those before it.
    #[error("entry {} does not follow: {detail}", sequence.0)]
    Unsound {
        /// The entry.
        sequence: Sequence,
        /// Why not.
        detail: String,
    },
    /// The account's home is here.
    #[error("the account's home is here since epoch {}", epoch.0)]
    AtHome {
        /// Since this epoch.
        epoch: Epoch,
    },
    /// What is here does not end with the source's last entry.
    #[error("what is here ends with entry {}, which is not the source's last", head.0)]
    NotTheEnd {
        /// The last entry that is here.
        head: Sequence,
    },
    /// The home before has not stopped for a move to here, as far as its entries are here.
    #[error("the home before has not stopped for this move, as far as is known here")]
    NotStopped,
    /// What was refused under keys has not been taken over up to the last entry.
    #[error("what was refused has not been taken over up to the last entry")]
    MemoryMissing,
    /// A later epoch is known here.
    #[error("it is fenced by epoch {}", epoch.0)]
    Fenced {
        /// That one.
        epoch: Epoch,
    },
}

/// A part of an old home's tail: what it decided after the last entry that the new home has.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct TailPage {
    /// Which tail: the last epoch of the old home.
    #[n(0)]
    pub epoch: Epoch,
    /// The entries' bytes, as they were written, in order and without holes. What is booked is
    /// skipped.
    #[n(1)]
    pub entries: Vec<ByteVec>,
    /// Whether the tail ends with these.
    #[n(2)]
    pub is_last: bool,
}

impl TailPage {
    /// Its last entry, after which the lost home is to be asked next if nothing of the page was booked,
    /// because all of it had come over: the logs part further on. `came_over` is the last that had.
    /// Nothing if there is no next page, or if this one would have had to be booked.
    pub fn asks_on(&self, came_over: Sequence) -> Option<Booked> {
        let bytes = self.entries.last().filter(|_| !self.is_last)?;
        let sequence = codec::decode::<Entry>(bytes).ok()?.sequence;
        let last = Booked { sequence, hash: Some(hash_of(bytes)) };
        Some(last).filter(|last| last.sequence <= came_over)
    }
}

/// See [`Operation::WriteOffTail`](crate::Operation::WriteOffTail).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct WriteOffTail {
    /// Which tail: the last epoch of the old home.
    #[n(0)]
    pub epoch: Epoch,
    /// The state that the operator saw.
    #[n(1)]
    pub confirm: Confirm,
}

/// What is left in a group of an account that is not there any more: where to ask, and where its
/// entries are. Never forgotten; some 200 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Gone {
    /// The last entry here.
    #[n(0)]
    pub head: crate::account::Head,
    /// The epoch under which it last decided here; nothing if it was never home.
    #[n(1)]
    pub ended: Option<Epoch>,
    /// Its home as far as is known here, and since which epoch; nothing if it was never home here.
    #[n(2)]
    pub now: Option<(Region, Epoch)>,
}
