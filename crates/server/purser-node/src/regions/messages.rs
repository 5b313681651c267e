//! What nodes of different regions ask each other.
//!
//! ```text
//!  region ── Reports ──▶ home      ◀── Told: booked so far, and the newest voucher
//!  home ──── Vouchers ─▶ region    ◀── reports of the accounts that were told
//!  any ───── Move ─────▶ a shard   ◀── what it has of an account, or how far it has come
//!  home ──── Standby ──▶ a standby ◀── whether it follows, or what it has of a lost home
//!  any ───── Placement ▶ its group ◀── pages, one tenant, or what came of a change
//!  any ───── State ────▶ a member  ◀── the digest of its state at an index
//!  home ──── Books ────▶ region    ◀── what its books say as of an entry
//!  any ───── Pulse ────▶ any       ◀── who leads which shard there, and which life it is in
//! ```
//!
//! One ask carries all accounts between two shards. Every ask may be lost, repeated or overtaken:
//! nothing in here is a difference. The first byte names the version of this way of speaking.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use purser_ledger::{AccountName, Booked, Cover, DemandReport, Identity, Rejection, Report, codec};
use purser_placement::{ChangeNumber, Changes, Refusal, TenantPlacement};
use purser_types::{Credits, Life, Owner, Region, Span, TenantId};

use super::moving::{MoveAnswer, MoveAsk};
use super::signature::SignedVoucher;
use super::standby::{StandbyAnswer, StandbyAsk};
use crate::metrics::AskKind;
use crate::verification::{BookThere, BooksAsked, StateAsked};

/// The one way of speaking that there is so far.
const VERSION: u8 = 1;

/// What is asked.
#[derive(Debug, Clone, Encode, Decode)]
pub(crate) enum Ask {
    /// Whether the node is there, and who leads which shard of its region.
    #[n(0)]
    Pulse,
    /// To home: what has happened under allocations.
    #[n(1)]
    Reports(#[n(0)] Reports),
    /// To a region: what home has decided since it was last told.
    #[n(2)]
    Vouchers(#[n(0)] Vouchers),
    /// To a node of the Placement group: what has changed after a change.
    #[n(3)]
    PlacementChanges {
        /// The last change that is known.
        #[n(0)]
        after: ChangeNumber,
    },
    /// To the Placement group's leader: one tenant, as it is now.
    #[n(4)]
    PlacementOf {
        /// Whom.
        #[n(0)]
        tenant: TenantId,
    },
    /// To the Placement group's leader: a command, as it goes into the log.
    #[n(5)]
    PlacementChange {
        /// The command's bytes.
        #[n(0)]
        command: ByteVec,
    },
    /// To the leader of a shard: a step of a move.
    #[n(6)]
    Move {
        /// The shard, the same on both sides.
        #[n(0)]
        shard: u32,
        /// The step.
        #[n(1)]
        ask: MoveAsk,
    },
    /// To the Placement group's leader: the number of the latest change.
    #[n(7)]
    PlacementLatest,
    /// What concerns standbys.
    #[n(8)]
    Standby(#[n(0)] StandbyAsk),
    /// To a member of a group: its state, to be compared.
    #[n(9)]
    State(#[n(0)] StateAsked),
    /// To a region: entries of its books, to be compared.
    #[n(10)]
    Books(#[n(0)] BooksAsked),
    /// To a node of the Placement group: one of the questions to its leader, from somebody who does not
    /// reach that. It is passed on once.
    #[n(11)]
    PlacementThrough(#[n(0)] Box<Ask>),
}

impl Ask {
    /// Whether it may change Placement, so that it must not be asked twice.
    pub(super) fn is_change(&self) -> bool {
        match self {
            Self::PlacementChange { .. } => true,
            Self::PlacementThrough(ask) => ask.is_change(),
            _ => false,
        }
    }

    /// What kind of question it is, for counting.
    pub(crate) const fn kind(&self) -> AskKind {
        match self {
            Self::Pulse => AskKind::Pulse,
            Self::Reports(_) => AskKind::Reports,
            Self::Vouchers(_) => AskKind::Vouchers,
            Self::PlacementChanges { .. }
            | Self::PlacementOf { .. }
            | Self::PlacementChange { .. }
            | Self::PlacementLatest
            | Self::PlacementThrough(_) => AskKind::Placement,
            Self::Move { .. } => AskKind::Moves,
            Self::Standby(_) => AskKind::Standby,
            Self::State(_) | Self::Books(_) => AskKind::Verification,
        }
    }
}

/// See [`Ask::Reports`].
#[derive(Debug, Clone, Encode, Decode)]
pub(crate) struct Reports {
    /// Who reports.
    #[n(0)]
    pub(crate) region: Region,
    /// The shard, the same on both sides.
    #[n(1)]
    pub(crate) shard: u32,
    /// From asking until the answer's vouchers are taken up, as it was lately.
    #[n(2)]
    pub(crate) refill: Span,
    /// The accounts.
    #[n(3)]
    pub(crate) accounts: Vec<AccountReport>,
}

/// What a region says about one allocation.
#[derive(Debug, Clone, Encode, Decode)]
pub(crate) struct AccountReport {
    /// The account.
    #[n(0)]
    pub(crate) account: AccountName,
    /// Its entries since the last that home is known to have booked; none if that is not known.
    #[n(1)]
    pub(crate) report: Report,
    /// The number of the last voucher that is durable in the region.
    #[n(2)]
    pub(crate) voucher: u64,
    /// The last recall that the region has answered.
    #[n(3)]
    pub(crate) answered: u64,
    /// The demand that the allocation serves.
    #[n(4)]
    pub(crate) demand: DemandReport,
    /// Operations that it cannot pay for by itself.
    #[n(5)]
    #[cbor(default)]
    pub(crate) covers: Vec<Cover>,
}

/// See [`Ask::Vouchers`].
#[derive(Debug, Clone, Encode, Decode)]
pub(crate) struct Vouchers {
    /// Who tells.
    #[n(0)]
    pub(crate) home: Region,
    /// The shard, the same on both sides.
    #[n(1)]
    pub(crate) shard: u32,
    /// The allocations.
    #[n(2)]
    pub(crate) told: Vec<Told>,
}

/// What home says about one allocation.
#[derive(Debug, Clone, Encode, Decode)]
pub(crate) struct Told {
    /// The account.
    #[n(0)]
    pub(crate) account: AccountName,
    /// The allocation.
    #[n(1)]
    pub(crate) owner: Owner,
    /// How far home has booked the region's entries; nothing if this was no answer to a report.
    #[n(2)]
    pub(crate) booked: Option<Booked>,
    /// Home's word, if the region does not have it yet.
    #[n(3)]
    pub(crate) voucher: Option<SignedVoucher>,
    /// The account's overspend bound.
    #[n(4)]
    pub(crate) bound: Credits,
    /// Whether home is done with the allocation.
    #[n(5)]
    pub(crate) is_closed: bool,
    /// Operations that home does not cover.
    #[n(6)]
    #[cbor(default)]
    pub(crate) not_covered: Vec<NotCovered>,
}

/// An operation that home does not cover.
#[derive(Debug, Clone, Encode, Decode)]
pub(crate) struct NotCovered {
    /// The operation.
    #[n(0)]
    pub(crate) asked: Identity,
    /// What home says of it: for good if credits are missing, and else not now.
    #[n(1)]
    pub(crate) refusal: Rejection,
}

/// The life that a shard's group is in.
#[derive(Debug, Clone, Copy, Encode, Decode)]
pub(crate) struct ShardLife {
    #[n(0)]
    pub(crate) shard: u32,
    #[n(1)]
    pub(crate) life: Option<Life>,
}

/// What is answered.
#[derive(Debug, Clone, Encode, Decode)]
pub(crate) enum Answered {
    /// Of the region's shards, in order.
    #[n(0)]
    Pulse {
        /// Their leaders, as far as they are known.
        #[n(0)]
        leaders: Vec<Option<u64>>,
        /// The lives of those that the node leads.
        #[n(1)]
        #[cbor(default)]
        lives: Vec<ShardLife>,
        /// The regions that the node hears.
        #[n(2)]
        #[cbor(default)]
        hears: Vec<Region>,
    },
    /// To [`Ask::Reports`].
    #[n(1)]
    Told(#[n(0)] Vec<Told>),
    /// To [`Ask::Vouchers`].
    #[n(2)]
    Reports(#[n(0)] Reports),
    /// To [`Ask::PlacementChanges`].
    #[n(3)]
    Changes(#[n(0)] Changes),
    /// To [`Ask::PlacementOf`].
    #[n(4)]
    Tenant(#[n(0)] Option<TenantPlacement>),
    /// To [`Ask::PlacementChange`]: for each request the placement from then on, and why it was
    /// refused, if it was.
    #[n(5)]
    Changed(#[n(0)] Vec<Changed>),
    /// Another node leads; nothing happened.
    #[n(6)]
    NotLeader {
        /// Which, if that is known.
        #[n(0)]
        leader: Option<u64>,
    },
    /// It can not be answered now; nothing happened.
    #[n(7)]
    NotNow {
        /// Why, for the log.
        #[n(0)]
        reason: String,
    },
    /// It may have happened.
    #[n(8)]
    Unknown,
    /// To [`Ask::Move`], and of a replica.
    #[n(9)]
    Move(#[n(0)] MoveAnswer),
    /// To [`Ask::PlacementLatest`].
    #[n(10)]
    Latest(#[n(0)] ChangeNumber),
    /// To [`Ask::Standby`].
    #[n(11)]
    Standby(#[n(0)] StandbyAnswer),
    /// To [`StandbyAsk::AtStake`]: the X of its accounts that can be taken over, added up.
    #[n(12)]
    AtStake(#[n(0)] Credits),
    /// To [`Ask::State`]: the state's digest; nothing if the member did not come by the index.
    #[n(13)]
    State(#[n(0)] Option<ByteVec>),
    /// To [`Ask::Books`], in their order; nothing for an entry that is not there.
    #[n(14)]
    Books(#[n(0)] Vec<Option<BookThere>>),
}

/// What came of one request to Placement.
#[derive(Debug, Clone, Encode, Decode)]
pub(crate) struct Changed {
    /// Why it was refused.
    #[n(0)]
    pub(crate) refusal: Option<Refusal>,
    /// The tenant's placement from then on; nothing if there is no such tenant.
    #[n(1)]
    pub(crate) placement: Option<TenantPlacement>,
}

/// The bytes of a message.
pub(crate) fn write<M: Encode<()>>(message: &M) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    bytes.append(&mut codec::encode(message));
    bytes
}

/// Why a message cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    /// It has no bytes, or begins with another version.
    #[error("it is of a version that this release does not speak")]
    Version,
    /// It is of this version, and is none.
    #[error("it is malformed")]
    Malformed(#[from] minicbor::decode::Error),
}

/// Reads a message.
pub(crate) fn read<'b, M: Decode<'b, ()>>(bytes: &'b [u8]) -> Result<M, Unreadable> {
    match bytes.split_first() {
        Some((&VERSION, rest)) => Ok(codec::decode(rest)?),
        _ => Err(Unreadable::Version),
    }
}
