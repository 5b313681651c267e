//! What happened: the entries of an account's ledger.
//!
//! An entry is immutable and carries all that is needed to prove it and to apply it: the movements
//! of credits, lot by lot; the hold as it stands afterwards; the balance afterwards; and the hash of
//! the entry before it. A correction is a new entry.

use std::collections::BTreeMap;

use minicbor::data::Type;
use minicbor::encode::Write;
use minicbor::{Decode, Decoder, Encode, Encoder};
use purser_types::{Credits, Epoch, IdempotencyKey, LogTime, OperationId, Owner, Region, Sequence};

use crate::balance::Balance;
use crate::budgets::Budget;
use crate::codec;
use crate::command::{AccountName, LotNumber, Metadata};
use crate::digest::{Digest16, Digest32, digest32, hash_of};
use crate::events::{EventChange, EventEffect, ParkedEvent};
use crate::hold::Hold;
use crate::home::{Allocation, HomeChange, Settlement, SettlementClass, Tail, TailRun};
use crate::jobs::{Job, JobChange, JobEffect};
use crate::lot::{Lot, LotPhase, LotTerms};
use crate::moving::Departure;
use crate::protocol::Voucher;
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
    /// Of the request under `key`, so that home knows the same request when it sees it from a region
    /// or from a home that was lost, and remembers the decision when it takes the account over.
    #[n(12)]
    #[cbor(with = "minicbor::bytes")]
    pub fingerprint: Option<Digest16>,
}

impl Entry {
    /// The entry's hash: SHA-256 of its bytes.
    pub fn hash(&self) -> Digest32 {
        hash_of(&codec::encode(self))
    }

    /// The postings that the moves add up to: one signed amount a bucket, in the buckets' order,
    /// none zero. Their sum is zero.
    pub fn postings(&self) -> Vec<Posting> {
        let mut sums: BTreeMap<Bucket, i128> = BTreeMap::new();
        for step in &self.moves {
            let amount = i128::from(step.amount.get());
            for (bucket, change) in [(step.from, amount.saturating_neg()), (step.to, amount)] {
                let sum = sums.entry(bucket).or_default();
                *sum = sum.saturating_add(change);
            }
        }
        let posting = |(bucket, amount)| Posting { bucket, amount };
        sums.into_iter().filter(|(_, sum)| *sum != 0).map(posting).collect()
    }
}

/// What stands in for the hash before an account's first entry.
pub fn genesis_hash(account: &AccountName) -> Digest32 {
    let (tenant, unit) = (account.tenant.as_str(), account.unit.as_str());
    digest32([b"purser account\0", tenant.as_bytes(), b"\0", unit.as_bytes()])
}

/// What stands in for the hash before the first entry of a region's book.
pub fn allocation_genesis(account: &AccountName, owner: Owner) -> Digest32 {
    let account = genesis_hash(account);
    let generation = owner.generation.0.to_be_bytes();
    digest32([
        b"purser allocation\0",
        &account[..],
        owner.region.as_str().as_bytes(),
        b"\0",
        &generation,
    ])
}

/// Where credits can be. `Granted` and `Debt` are sources: credits come out of them.
///
/// Written as its number, and a region's as the region's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bucket {
    /// Where grants come from; in a region, where home's vouchers come from.
    Granted,
    /// Free to be authorized.
    Available,
    /// Set aside by holds.
    Held,
    /// Captured.
    Used,
    /// Lapsed with their lots.
    Expired,
    /// Taken back by an operator.
    Voided,
    /// Where allowed shortfalls come from; in a region, its overdraft.
    Debt,
    /// In a region: given back to home.
    Returned,
    /// At home: set aside for a region to spend.
    Allocated(Region),
}

impl Bucket {
    /// The buckets that have a number, in its order.
    const NUMBERED: [Self; 8] = [
        Self::Granted,
        Self::Available,
        Self::Held,
        Self::Used,
        Self::Expired,
        Self::Voided,
        Self::Debt,
        Self::Returned,
    ];

    /// Whether credits come out of it: what leaves it makes its figure grow.
    pub const fn is_source(self) -> bool {
        matches!(self, Self::Granted | Self::Debt)
    }
}

/// The bucket's name in answers and transcripts.
impl std::fmt::Display for Bucket {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Granted => "granted",
            Self::Available => "available",
            Self::Held => "held",
            Self::Used => "used",
            Self::Expired => "expired",
            Self::Voided => "voided",
            Self::Debt => "debt",
            Self::Returned => "returned",
            Self::Allocated(region) => return write!(formatter, "allocated:{region}"),
        })
    }
}

impl<C> Encode<C> for Bucket {
    fn encode<W: Write>(
        &self,
        encoder: &mut Encoder<W>,
        context: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        let number = match self {
            Self::Granted => 0,
            Self::Available => 1,
            Self::Held => 2,
            Self::Used => 3,
            Self::Expired => 4,
            Self::Voided => 5,
            Self::Debt => 6,
            Self::Returned => 7,
            Self::Allocated(region) => return region.encode(encoder, context),
        };
        encoder.u8(number)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Bucket {
    fn decode(decoder: &mut Decoder<'b>, context: &mut C) -> Result<Self, minicbor::decode::Error> {
        if decoder.datatype()? == Type::String {
            return Region::decode(decoder, context).map(Self::Allocated);
        }
        let number = decoder.u8()?;
        let bucket = Self::NUMBERED.get(usize::from(number)).copied();
        bucket.ok_or_else(|| minicbor::decode::Error::unknown_variant(number.into()))
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

    /// Whether it makes a lot effective.
    pub(crate) fn takes_effect(&self) -> bool {
        self.from == Bucket::Granted && self.to == Bucket::Available
    }

    /// Whether a hold gave these credits up unused.
    pub(crate) fn frees(&self) -> bool {
        self.from == Bucket::Held && self.to != Bucket::Used
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
        /// The epoch under which it begins, if that is not the first: its tenant had another home before.
        #[n(2)]
        epoch: Option<Epoch>,
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
    /// At home: credits were set aside for a region.
    #[n(21)]
    Allocated(#[n(0)] Box<Allocation>),
    /// At home: what an allocation may do was changed, or some of it was asked back.
    #[n(22)]
    AllocationSet(#[n(0)] Box<Allocation>),
    /// At home: a region's entries were booked.
    #[n(23)]
    Settled(#[n(0)] Box<Settlement>),
    /// At home: credits were taken back without hearing from the region.
    #[n(24)]
    TakenBack(#[n(0)] Box<Allocation>),
    /// In a region: home's word was taken up.
    #[n(25)]
    VoucherAccepted(#[n(0)] Box<Voucher>),
    /// In a region: free credits were given back to home.
    #[n(26)]
    ReturnedHome {
        /// The recall that this answers; 0 if none was asked.
        #[n(0)]
        recall: u64,
    },
    /// In a region: credits are to be given back by home, which knows what paid.
    #[n(27)]
    RefundPromised {
        /// The hold or charge.
        #[n(0)]
        hold: Hold,
        /// How much.
        #[n(1)]
        amount: Credits,
    },
    /// In a region: the allocation serves nothing any more, and nobody knows what became of it.
    #[n(28)]
    AllocationSealed,
    /// In a region: the allocation is done: nothing is held, and all that was free was given back.
    #[n(29)]
    AllocationFinished,
    /// At home: an allocation was ended of which nothing more will be heard.
    #[n(30)]
    WrittenOff(#[n(0)] Box<Allocation>),
    /// The account stopped, for a move: the last entry under an epoch.
    #[n(31)]
    HomeStopped(#[n(0)] Departure),
    /// An epoch began.
    #[n(32)]
    HomeMoved(#[n(0)] Box<HomeChange>),
    /// Entries of a lost home were booked.
    #[n(33)]
    TailBooked(#[n(0)] Box<TailRun>),
    /// What a lost home may have decided besides was given up.
    #[n(34)]
    TailWrittenOff(#[n(0)] Box<Tail>),
    /// At home: credits were set aside for one operation of a region. What was missing is owed.
    #[n(35)]
    Covered(#[n(0)] Box<Allocation>),
    /// At home: credits that became available paid what was owed for that.
    #[n(36)]
    CoverPaid(#[n(0)] Box<Allocation>),
    /// A job was created, with a hold or charge. Its number is the entry's sequence.
    #[n(37)]
    JobCreated(#[n(0)] Box<JobChange>),
    /// It became known how an attempt of a job ended, and its credits followed.
    #[n(38)]
    JobOutcome(#[n(0)] Box<JobChange>),
    /// A worker took a job.
    #[n(39)]
    JobLeased(#[n(0)] Box<Job>),
    /// A worker keeps a job for longer.
    #[n(40)]
    JobRenewed(#[n(0)] Box<Job>),
    /// An operator let a dead job be tried again.
    #[n(41)]
    JobRedriven(#[n(0)] Box<Job>),
    /// An operator decided that nothing becomes of a job.
    #[n(42)]
    JobDiscarded(#[n(0)] Box<JobChange>),
    /// A usage event has done what it does.
    #[n(43)]
    EventApplied(#[n(0)] Box<EventChange>),
    /// A usage event has done nothing, and waits for people or for what it names.
    #[n(44)]
    EventParked(#[n(0)] Box<ParkedEvent>),
    /// An operator decided that nothing becomes of a usage event.
    #[n(45)]
    EventDiscarded(#[n(0)] Box<ParkedEvent>),
    /// A budget was made or changed.
    #[n(47)]
    BudgetSet(#[n(0)] Box<Budget>),
    /// A budget was removed.
    #[n(48)]
    BudgetRemoved(#[n(0)] Box<Budget>),
}

impl Fact {
    /// The entry's kind, as the API names it.
    pub fn kind(&self) -> &'static str {
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
            Self::DebtRepaid(_) | Self::CoverPaid(_) => "debt_repaid",
            Self::Voided { .. } => "void",
            Self::AdjustedUp(_) | Self::AdjustedDown => "adjust",
            Self::PolicySet(_) => "policy",
            Self::Frozen(_) => "freeze",
            Self::Unfrozen(_) => "unfreeze",
            Self::Closed(_) => "close",
            Self::Allocated(_) | Self::Covered(_) => "allocate",
            Self::AllocationSet(_) => "allocation",
            Self::Settled(settlement) => settlement.kind(),
            Self::TakenBack(_) => "take_back",
            Self::VoucherAccepted(_) => "voucher",
            Self::ReturnedHome { .. } => "return",
            Self::RefundPromised { .. } => "refund",
            Self::AllocationSealed => "seal",
            Self::AllocationFinished => "finish",
            Self::WrittenOff(_) => "write_off",
            Self::HomeStopped(_) => "home_stopped",
            Self::HomeMoved(change) => change.began.kind(),
            Self::TailBooked(run) => run.kind(),
            Self::TailWrittenOff(_) => "tail_write_off",
            Self::JobCreated(change) | Self::JobOutcome(change) => {
                change.effect.kind(change.hold.kind)
            }
            Self::JobLeased(_) => "lease",
            Self::JobRenewed(_) => "renew",
            Self::JobRedriven(_) => "redrive",
            Self::JobDiscarded(_) => "discard",
            Self::EventApplied(change) => change.effect.kind(),
            Self::EventParked(_) => "event_parked",
            Self::EventDiscarded(_) => "event_discarded",
            Self::BudgetSet(_) => "budget",
            Self::BudgetRemoved(_) => "budget_removed",
        }
    }

    /// The hold or charge that the fact is about, as it stands afterwards.
    pub const fn hold(&self) -> Option<&Hold> {
        self.subject().hold
    }

    /// Like [`Fact::hold`], by value.
    pub fn into_hold(self) -> Option<Hold> {
        self.hold().cloned()
    }

    /// The job that the fact is about, as it stands afterwards.
    pub const fn job(&self) -> Option<&Job> {
        self.subject().job
    }

    /// Like [`Fact::job`], by value.
    pub fn into_job(self) -> Option<Job> {
        self.job().cloned()
    }

    /// How the account stands afterwards, if the fact is about that.
    pub const fn standing(&self) -> Option<&Standing> {
        self.subject().standing
    }

    /// The lot that the fact brings into another phase of its life, and the phase.
    pub const fn new_phase(&self) -> Option<(LotNumber, LotPhase)> {
        if let Self::LotEffective(number) = self {
            Some((*number, LotPhase::Active))
        } else if let Self::LotExpired(number) = self {
            Some((*number, LotPhase::Expired))
        } else if let Self::Voided { number, .. } = self {
            Some((*number, LotPhase::Voided))
        } else {
            None
        }
    }

    /// The terms of the lot that the fact makes, if it makes one.
    pub const fn new_lot(&self) -> Option<&LotTerms> {
        self.subject().new_lot
    }

    /// What the fact is about. The one place where a new fact has to say so.
    const fn subject(&self) -> Subject<'_> {
        match self {
            Self::Authorized(hold)
            | Self::Captured(hold)
            | Self::Released(hold)
            | Self::HoldExpired(hold)
            | Self::Extended(hold)
            | Self::Charged(hold)
            | Self::LateCaptured(hold)
            | Self::RefundPromised { hold, .. }
            | Self::Reclaimed(hold)
            | Self::DebtRepaid(hold) => Subject { hold: Some(hold), ..Subject::OTHER },
            Self::Refunded { hold, regrant } => {
                Subject { hold: Some(hold), new_lot: regrant.as_ref(), ..Subject::OTHER }
            }
            Self::Opened { standing, .. }
            | Self::PolicySet(standing)
            | Self::Frozen(standing)
            | Self::Unfrozen(standing)
            | Self::Closed(standing) => Subject { standing: Some(standing), ..Subject::OTHER },
            Self::Granted(terms) | Self::AdjustedUp(terms) => {
                Subject { new_lot: Some(terms), ..Subject::OTHER }
            }
            Self::Settled(settlement) => {
                Subject { new_lot: settlement.regrant.as_ref(), ..Subject::OTHER }
            }
            Self::HomeMoved(change) => {
                Subject { standing: Some(&change.standing), ..Subject::OTHER }
            }
            Self::TailBooked(run) => Subject { hold: run.spend.as_ref(), ..Subject::OTHER },
            Self::JobCreated(change) | Self::JobOutcome(change) | Self::JobDiscarded(change) => {
                Subject::of_job(change)
            }
            Self::JobLeased(job) | Self::JobRenewed(job) | Self::JobRedriven(job) => {
                Subject { job: Some(job), ..Subject::OTHER }
            }
            Self::EventApplied(change) => match &change.effect {
                EventEffect::Nothing => Subject::OTHER,
                EventEffect::Charged(hold)
                | EventEffect::Captured(hold)
                | EventEffect::LateCaptured(hold)
                | EventEffect::Released(hold) => Subject { hold: Some(hold), ..Subject::OTHER },
                EventEffect::Job(change) => Subject::of_job(change),
            },
            Self::EventParked(_)
            | Self::EventDiscarded(_)
            | Self::LotEffective(_)
            | Self::LotExpired(_)
            | Self::Voided { .. }
            | Self::AdjustedDown
            | Self::HomeStopped(_)
            | Self::TailWrittenOff(_)
            | Self::Allocated(_)
            | Self::Covered(_)
            | Self::CoverPaid(_)
            | Self::AllocationSet(_)
            | Self::TakenBack(_)
            | Self::VoucherAccepted(_)
            | Self::ReturnedHome { .. }
            | Self::AllocationSealed
            | Self::AllocationFinished
            | Self::BudgetSet(_)
            | Self::BudgetRemoved(_)
            | Self::WrittenOff(_) => Subject::OTHER,
        }
    }

    /// Whether credits that the fact makes used are charged again, after a refund.
    pub(crate) fn reclaims(&self) -> bool {
        if let Self::Settled(settlement) = self {
            settlement.class == SettlementClass::Reclaim
        } else if let Self::TailBooked(run) = self {
            run.reclaims()
        } else if let Some(change) = self.job_outcome() {
            change.effect == JobEffect::Reclaimed
        } else {
            matches!(self, Self::Reclaimed(_))
        }
    }

    /// Whether the fact captures a hold that had been authorized, in time or late.
    pub(crate) fn captures(&self) -> bool {
        if let Some(change) = self.job_outcome() {
            return matches!(change.effect, JobEffect::Captured | JobEffect::CapturedLate);
        }
        if let Self::EventApplied(change) = self {
            let effect = &change.effect;
            return matches!(effect, EventEffect::Captured(_) | EventEffect::LateCaptured(_));
        }
        matches!(self, Self::Captured(_) | Self::LateCaptured(_))
    }

    /// What became known of a job, whoever told it.
    pub(crate) fn job_outcome(&self) -> Option<&JobChange> {
        if let Self::JobOutcome(change) = self {
            return Some(change);
        }
        let Self::EventApplied(applied) = self else { return None };
        if let EventEffect::Job(change) = &applied.effect { Some(change) } else { None }
    }

    /// The charge that an event made.
    pub(crate) fn event_charge(&self) -> Option<&Hold> {
        let Self::EventApplied(change) = self else { return None };
        if let EventEffect::Charged(hold) = &change.effect { Some(hold) } else { None }
    }
}

/// What a fact is about, of what an account has only one way to look at.
struct Subject<'a> {
    hold: Option<&'a Hold>,
    job: Option<&'a Job>,
    standing: Option<&'a Standing>,
    new_lot: Option<&'a LotTerms>,
}

impl<'a> Subject<'a> {
    /// A job with its hold or charge.
    const fn of_job(change: &'a JobChange) -> Self {
        let (job, hold) = (Some(&change.job), Some(&change.hold));
        Self { job, hold, new_lot: change.regrant.as_ref(), ..Self::OTHER }
    }

    /// None of these.
    const OTHER: Self = Self { hold: None, job: None, standing: None, new_lot: None };
}
