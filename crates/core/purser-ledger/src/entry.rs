//! What happened: the entries of an account's ledger.
//!
//! An entry is immutable and carries all that is needed to prove it and to apply it: the movements
//! of credits, lot by lot; the hold as it stands afterwards; the balance afterwards; and the hash of
//! the entry before it. A correction is a new entry.

use minicbor::{Decode, Encode};
use purser_types::{Credits, IdempotencyKey, LogTime, OperationId, Sequence};

use crate::balance::Balance;
use crate::codec;
use crate::command::{AccountName, LotNumber, Metadata};
use crate::digest::{Digest32, digest32, hash_of};
use crate::hold::Hold;
use crate::lot::{Lot, LotTerms};
use crate::standing::Standing;

/// One entry of one account.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Entry {
    /// Its place in the account: 1, 2, 3 without holes.
    #[n(0)]
    pub sequence: Sequence,
    /// When it took effect, on the log's clock. What became due carries the instant it was due.
    #[n(1)]
    pub log_time: LogTime,
    /// The operation that wrote it down. What one operation writes carries one id.
    #[n(2)]
    pub operation: OperationId,
    /// What happened.
    #[n(3)]
    pub fact: Fact,
    /// The credits that moved, lot by lot.
    #[n(4)]
    pub moves: Vec<Move>,
    /// The balance afterwards.
    #[n(5)]
    pub balance: Balance,
    /// The idempotency key of the request.
    #[n(6)]
    pub key: Option<IdempotencyKey>,
    /// Who asked.
    #[n(7)]
    pub actor: Option<Box<str>>,
    /// Why.
    #[n(8)]
    pub reason: Option<Box<str>>,
    /// The request's id.
    #[n(9)]
    pub request_id: Option<Box<str>>,
    /// The caller's notes.
    #[n(10)]
    pub metadata: Metadata,
    /// The hash of the entry before it; of the account's name for the first.
    #[n(11)]
    #[cbor(with = "minicbor::bytes")]
    pub prev_hash: Digest32,
}

impl Entry {
    /// The entry's hash: SHA-256 of its bytes.
    pub fn hash(&self) -> Digest32 {
        hash_of(&codec::encode(self))
    }

    /// The postings that the moves add up to: one signed amount a bucket, in the buckets' order,
    /// none zero. Their sum is zero.
    pub fn postings(&self) -> Vec<Posting> {
        let mut sums = [0_i128; Bucket::ALL.len()];
        for step in &self.moves {
            for (sum, bucket) in sums.iter_mut().zip(Bucket::ALL) {
                let amount = i128::from(step.amount.get());
                if bucket == step.to {
                    *sum = sum.saturating_add(amount);
                }
                if bucket == step.from {
                    *sum = sum.saturating_sub(amount);
                }
            }
        }
        let posting = |(bucket, amount)| Posting { bucket, amount };
        Bucket::ALL.into_iter().zip(sums).filter(|(_, sum)| *sum != 0).map(posting).collect()
    }
}

/// What stands in for the hash before an account's first entry.
pub fn genesis_hash(account: &AccountName) -> Digest32 {
    let (tenant, unit) = (account.tenant.as_str(), account.unit.as_str());
    digest32([b"purser account\0", tenant.as_bytes(), b"\0", unit.as_bytes()])
}

/// Where credits can be. `Granted` and `Debt` are sources: credits come out of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum Bucket {
    /// Where grants come from.
    #[n(0)]
    Granted,
    /// Free to be authorized.
    #[n(1)]
    Available,
    /// Set aside by holds.
    #[n(2)]
    Held,
    /// Captured.
    #[n(3)]
    Used,
    /// Lapsed with their lots.
    #[n(4)]
    Expired,
    /// Taken back by an operator.
    #[n(5)]
    Voided,
    /// Where allowed shortfalls come from.
    #[n(6)]
    Debt,
}

impl Bucket {
    /// All buckets, in their order.
    pub const ALL: [Self; 7] = [
        Self::Granted,
        Self::Available,
        Self::Held,
        Self::Used,
        Self::Expired,
        Self::Voided,
        Self::Debt,
    ];

    /// The bucket's name in answers and transcripts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Available => "available",
            Self::Held => "held",
            Self::Used => "used",
            Self::Expired => "expired",
            Self::Voided => "voided",
            Self::Debt => "debt",
        }
    }
}

/// Credits that went from one bucket to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Move {
    /// The lot they belong to; none for credits that are owed.
    #[n(0)]
    pub lot: Option<LotNumber>,
    /// Where they were.
    #[n(1)]
    pub from: Bucket,
    /// Where they are now.
    #[n(2)]
    pub to: Bucket,
    /// How many. At least 1.
    #[n(3)]
    pub amount: Credits,
}

impl Move {
    /// A move of `amount`, if that is anything at all.
    pub(crate) fn some(
        lot: Option<LotNumber>,
        from: Bucket,
        to: Bucket,
        amount: Credits,
    ) -> Option<Self> {
        (!amount.is_zero()).then_some(Self { lot, from, to, amount })
    }
}

/// What a bucket gained or lost by an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posting {
    /// The bucket.
    pub bucket: Bucket,
    /// The gain; negative for a loss.
    pub amount: i128,
}

/// What happened. What it changes as a whole (a hold or charge, a lot that is taken back, the
/// account's standing) the fact carries as it stands afterwards, so that a repeated request is
/// answered from its entry.
///
/// Adding a variant needs a new number; numbers are never used again.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Fact {
    /// The account was opened.
    #[n(0)]
    Opened {
        /// Its name: the chain's first hash stands for it.
        #[n(0)]
        account: AccountName,
        /// How it stands.
        #[n(1)]
        standing: Standing,
    },
    /// Credits were granted. The lot's number is the entry's sequence.
    #[n(1)]
    Granted(#[n(0)] LotTerms),
    /// A lot became effective.
    #[n(2)]
    LotEffective(#[n(0)] LotNumber),
    /// A lot expired: what was free of it lapsed.
    #[n(3)]
    LotExpired(#[n(0)] LotNumber),
    /// A hold was opened.
    #[n(4)]
    Authorized(#[n(0)] Hold),
    /// All or part of a hold was taken.
    #[n(5)]
    Captured(#[n(0)] Hold),
    /// The rest of a hold went back by the caller's decision.
    #[n(6)]
    Released(#[n(0)] Hold),
    /// A hold ended because its time was over.
    #[n(7)]
    HoldExpired(#[n(0)] Hold),
    /// A hold's deadline moved.
    #[n(8)]
    Extended(#[n(0)] Hold),
    /// A charge: authorized and captured in one.
    #[n(9)]
    Charged(#[n(0)] Hold),
    /// An expired hold was captured after all.
    #[n(10)]
    LateCaptured(#[n(0)] Hold),
    /// Captured credits were given back.
    #[n(11)]
    Refunded {
        /// The hold or charge.
        #[n(0)]
        hold: Hold,
        /// The lot that makes up for lapsed credits. Its number is the entry's sequence.
        #[n(1)]
        regrant: Option<LotTerms>,
    },
    /// What was refunded was charged again.
    #[n(12)]
    Reclaimed(#[n(0)] Hold),
    /// Credits that became available paid debt.
    #[n(13)]
    DebtRepaid(#[n(0)] Hold),
    /// A lot was taken back.
    #[n(14)]
    Voided {
        /// Its number.
        #[n(0)]
        number: LotNumber,
        /// The lot as it stands afterwards.
        #[n(1)]
        lot: Lot,
    },
    /// An operator added credits. The lot's number is the entry's sequence.
    #[n(15)]
    AdjustedUp(#[n(0)] LotTerms),
    /// An operator removed available credits.
    #[n(16)]
    AdjustedDown,
    /// The policy was changed.
    #[n(17)]
    PolicySet(#[n(0)] Standing),
    /// New authorizes and charges were stopped.
    #[n(18)]
    Frozen(#[n(0)] Standing),
    /// A freeze ended.
    #[n(19)]
    Unfrozen(#[n(0)] Standing),
    /// The account was closed for good.
    #[n(20)]
    Closed(#[n(0)] Standing),
}

impl Fact {
    /// The entry's kind, as the API names it.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Opened { .. } => "open",
            Self::Granted(_) => "grant",
            Self::LotEffective(_) => "lot_effective",
            Self::LotExpired(_) => "lot_expired",
            Self::Authorized(_) => "authorize",
            Self::Captured(_) => "capture",
            Self::Released(_) => "release",
            Self::HoldExpired(_) => "hold_expired",
            Self::Extended(_) => "extend",
            Self::Charged(_) => "charge",
            Self::LateCaptured(_) => "late_capture",
            Self::Refunded { .. } => "refund",
            Self::Reclaimed(_) => "reclaim",
            Self::DebtRepaid(_) => "debt_repaid",
            Self::Voided { .. } => "void",
            Self::AdjustedUp(_) | Self::AdjustedDown => "adjust",
            Self::PolicySet(_) => "policy",
            Self::Frozen(_) => "freeze",
            Self::Unfrozen(_) => "unfreeze",
            Self::Closed(_) => "close",
        }
    }

    /// The hold or charge that the fact is about, as it stands afterwards.
    pub const fn hold(&self) -> Option<&Hold> {
        match self {
            Self::Authorized(hold)
            | Self::Captured(hold)
            | Self::Released(hold)
            | Self::HoldExpired(hold)
            | Self::Extended(hold)
            | Self::Charged(hold)
            | Self::LateCaptured(hold)
            | Self::Refunded { hold, .. }
            | Self::Reclaimed(hold)
            | Self::DebtRepaid(hold) => Some(hold),
            Self::Opened { .. }
            | Self::Granted(_)
            | Self::LotEffective(_)
            | Self::LotExpired(_)
            | Self::Voided { .. }
            | Self::AdjustedUp(_)
            | Self::AdjustedDown
            | Self::PolicySet(_)
            | Self::Frozen(_)
            | Self::Unfrozen(_)
            | Self::Closed(_) => None,
        }
    }

    /// Like [`Fact::hold`], by value.
    pub fn into_hold(self) -> Option<Hold> {
        self.hold().cloned()
    }

    /// How the account stands afterwards, if the fact is about that.
    pub const fn standing(&self) -> Option<&Standing> {
        match self {
            Self::Opened { standing, .. }
            | Self::PolicySet(standing)
            | Self::Frozen(standing)
            | Self::Unfrozen(standing)
            | Self::Closed(standing) => Some(standing),
            Self::Granted(_)
            | Self::LotEffective(_)
            | Self::LotExpired(_)
            | Self::Authorized(_)
            | Self::Captured(_)
            | Self::Released(_)
            | Self::HoldExpired(_)
            | Self::Extended(_)
            | Self::Charged(_)
            | Self::LateCaptured(_)
            | Self::Refunded { .. }
            | Self::Reclaimed(_)
            | Self::DebtRepaid(_)
            | Self::Voided { .. }
            | Self::AdjustedUp(_)
            | Self::AdjustedDown => None,
        }
    }

    /// The terms of the lot that the fact makes, if it makes one.
    pub const fn new_lot(&self) -> Option<&LotTerms> {
        match self {
            Self::Granted(terms) | Self::AdjustedUp(terms) => Some(terms),
            Self::Refunded { regrant, .. } => regrant.as_ref(),
            Self::Opened { .. }
            | Self::LotEffective(_)
            | Self::LotExpired(_)
            | Self::Authorized(_)
            | Self::Captured(_)
            | Self::Released(_)
            | Self::HoldExpired(_)
            | Self::Extended(_)
            | Self::Charged(_)
            | Self::LateCaptured(_)
            | Self::Reclaimed(_)
            | Self::DebtRepaid(_)
            | Self::Voided { .. }
            | Self::AdjustedDown
            | Self::PolicySet(_)
            | Self::Frozen(_)
            | Self::Unfrozen(_)
            | Self::Closed(_) => None,
        }
    }
}
