//! The ledger's "no": an answer, not a fault.

use minicbor::{Decode, Encode};
use purser_types::{BudgetName, Credits, Epoch, Generation, LogTime, Owner, Region, Sequence};

use crate::command::{HoldNumber, LotNumber};
use crate::jobs::JobState;

/// Why an operation is refused. Nothing of the account's credits, holds or lots has changed.
///
/// Adding a variant needs a new number; numbers are never used again.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, thiserror::Error)]
pub enum Rejection {
    /// The tenant has no account in this unit.
    #[n(0)]
    #[error("there is no such tenant")]
    TenantNotFound,
    /// The account exists already.
    #[n(1)]
    #[error("the tenant exists already")]
    TenantExists,
    /// No hold has this id, or its record is past its retention.
    #[n(2)]
    #[error("there is no such hold")]
    HoldNotFound,
    /// No charge has this id, or its record is past its retention.
    #[n(3)]
    #[error("there is no such charge")]
    ChargeNotFound,
    /// No lot has this id.
    #[n(4)]
    #[error("there is no such lot")]
    LotNotFound,
    /// Too few credits are available, and debt is not allowed or would pass its limit.
    #[n(5)]
    #[error("{short_by} credits are missing")]
    InsufficientCredits {
        /// What is available.
        #[n(0)]
        available: Credits,
        /// What would have to be granted for this to be paid in full. Debt is repaid before
        /// anything else, so it counts.
        #[n(1)]
        short_by: Credits,
        /// What is owed already.
        #[n(2)]
        debt: Credits,
        /// What may be owed, if the request allows debt.
        #[n(3)]
        debt_limit: Option<Credits>,
    },
    /// The hold expired before it was ended.
    #[n(6)]
    #[error("the hold has expired")]
    HoldExpired {
        /// Since when.
        #[n(0)]
        expired_at: LogTime,
    },
    /// The hold was captured before.
    #[n(7)]
    #[error("the hold was captured before")]
    AlreadyCaptured {
        /// What was captured.
        #[n(0)]
        captured: Credits,
        /// The entry that ended the hold.
        #[n(1)]
        sequence: Sequence,
    },
    /// The hold was released before.
    #[n(8)]
    #[error("the hold was released before")]
    AlreadyReleased {
        /// The entry that ended the hold.
        #[n(0)]
        sequence: Sequence,
    },
    /// Nothing was captured, so nothing can be refunded.
    #[n(9)]
    #[error("nothing was captured")]
    NothingCaptured,
    /// The refund is larger than what is left to refund.
    #[n(10)]
    #[error("at most {refundable} credits can be refunded")]
    RefundExceedsCaptured {
        /// What can be refunded.
        #[n(0)]
        refundable: Credits,
    },
    /// Nothing was refunded, so nothing can be reclaimed. The one chance is not used up.
    #[n(11)]
    #[error("nothing was refunded")]
    NotRefunded,
    /// It was reclaimed before.
    #[n(12)]
    #[error("it was reclaimed before")]
    AlreadyReclaimed,
    /// The account is frozen.
    #[n(13)]
    #[error("the account is frozen")]
    AccountFrozen,
    /// The account is closed.
    #[n(14)]
    #[error("the account is closed")]
    AccountClosed,
    /// The account is not frozen.
    #[n(15)]
    #[error("the account is not frozen")]
    NotFrozen,
    /// The account can not be closed yet.
    #[n(16)]
    #[error(
        "the account still has {holds} holds, {jobs} jobs, {allocations} allocations and a debt of {debt}"
    )]
    CloseBlocked {
        /// Holds that have not ended.
        #[n(0)]
        holds: u64,
        /// What is owed.
        #[n(1)]
        debt: Credits,
        /// Allocations that are not closed.
        #[n(2)]
        #[cbor(default)]
        allocations: u64,
        /// Lost homes of which it is not known what they decided.
        #[n(3)]
        #[cbor(default)]
        tails: u64,
        /// Jobs that are queued, leased or dead.
        #[n(4)]
        #[cbor(default)]
        jobs: u64,
    },
    /// Another grant with this `source_ref` gave another amount.
    #[n(17)]
    #[error("the source_ref belongs to a grant of {amount}")]
    SourceRefConflict {
        /// That grant's lot.
        #[n(0)]
        lot: LotNumber,
        /// What it gave.
        #[n(1)]
        amount: Credits,
    },
    /// The account's total would pass 2^63 − 1.
    #[n(18)]
    #[error("at most {grantable} more can be granted")]
    GrantExceedsCeiling {
        /// What can still be granted.
        #[n(0)]
        grantable: Credits,
    },
    /// The grant's expiry is not after log time, or not after its start. Not remembered.
    #[n(19)]
    #[error("expires_at is not in the future, or not after effective_at")]
    GrantExpired,
    /// The lot was voided before.
    #[n(20)]
    #[error("the lot was voided before")]
    LotAlreadyVoided,
    /// The new deadline is not after the old one.
    #[n(21)]
    #[error("the hold lives until then already")]
    ExtendNotLater {
        /// The deadline as it stands.
        #[n(0)]
        expires_at: LogTime,
    },
    /// The hold's whole life would be longer than 7 days.
    #[n(22)]
    #[error("a hold lives at most 7 days")]
    ExtendTooLong {
        /// The latest deadline there can be.
        #[n(0)]
        latest: LogTime,
    },
    /// The account is not in the state that the operator confirmed.
    #[n(23)]
    #[error("the account has changed since the dry run")]
    StaleConfirmation {
        /// The account's sequence now.
        #[n(0)]
        sequence: Sequence,
    },
    /// The idempotency key belongs to another request. Not remembered: the first one stays.
    #[n(24)]
    #[error("the idempotency key was used for another request")]
    KeyReused,
    /// Another item of an all-or-nothing batch was refused. Not remembered.
    #[n(25)]
    #[error("item {item} of the batch was refused")]
    BatchAborted {
        /// The refused item's place, from 0.
        #[n(0)]
        item: u32,
    },
    /// A sum would pass the largest amount there is.
    #[n(26)]
    #[error("a total would pass the largest amount there is")]
    AmountOverflow,
    /// The hold or charge would be made of more than 1,024 lots and debts.
    #[n(28)]
    #[error("more than {} lots and debts would pay for this", crate::hold::Hold::PARTS_MAX)]
    TooManyParts,
    /// The account is frozen already.
    #[n(27)]
    #[error("the account is frozen already")]
    AlreadyFrozen,
    /// This book does not decide that: home does, or a region. Not remembered: nothing is decided.
    #[n(29)]
    #[error("this is decided elsewhere")]
    DecidedElsewhere,
    /// The region may not spend that much by itself; home may know better. Not remembered.
    #[n(30)]
    #[error("the region's right is short by {short_by}")]
    RightExhausted {
        /// What the region may still spend.
        #[n(0)]
        right: Credits,
        /// What is missing.
        #[n(1)]
        short_by: Credits,
    },
    /// The allocation has ended, or can be granted nothing more. Not remembered.
    #[n(31)]
    #[error("the allocation has ended")]
    AllocationEnded,
    /// No allocation with this generation was ever opened. Not remembered.
    #[n(32)]
    #[error("there is no such allocation")]
    AllocationUnknown,
    /// Entries are missing between what is booked and what is reported. Not remembered.
    #[n(33)]
    #[error("the report leaves a hole after entry {}", booked.0)]
    ReportGap {
        /// The last entry that is booked.
        #[n(0)]
        booked: Sequence,
    },
    /// The reported entries are not those that were booked, or do not follow them. Not remembered.
    #[n(34)]
    #[error("the reported entry {} does not continue what is booked", sequence.0)]
    ReportForked {
        /// The entry.
        #[n(0)]
        sequence: Sequence,
    },
    /// The message tells nothing that is not known. Not remembered.
    #[n(35)]
    #[error("there is nothing new in it")]
    NothingNew,
    /// The message belongs to an earlier home, or this is one. Not remembered.
    #[n(36)]
    #[error("it is fenced by epoch {}", epoch.0)]
    EpochFenced {
        /// The higher epoch.
        #[n(0)]
        epoch: Epoch,
    },
    /// The voucher contradicts what home said before. Not remembered.
    #[n(37)]
    #[error("the voucher contradicts an earlier one")]
    VoucherContradicts,
    /// Taking so much back could overspend more than the policy allows.
    #[n(38)]
    #[error("taking {amount} back could overspend more than the cap of {cap}")]
    TakebackBeyondCap {
        /// What is out.
        #[n(0)]
        amount: Credits,
        /// The most that may be taken back and unresolved.
        #[n(1)]
        cap: Credits,
    },
    /// The allocation can not be ended yet. Not remembered.
    #[n(39)]
    #[error("{holds} holds and {free} free credits are still in the region")]
    FinishBlocked {
        /// Holds that have not ended.
        #[n(0)]
        holds: u64,
        /// Free credits.
        #[n(1)]
        free: Credits,
    },
    /// The allocation is open: its region is to end it, or it is to be taken back first.
    #[n(40)]
    #[error("the allocation is open")]
    AllocationOpen,
    /// A region has decided the same request under the same key. Not remembered: the region's decision
    /// is.
    #[n(41)]
    #[error("a region has decided this request")]
    DecidedInRegion {
        /// Under which allocation.
        #[n(0)]
        owner: Owner,
        /// The hold or charge that it made.
        #[n(1)]
        hold: HoldNumber,
    },
    /// Another of this region's books of the account has decided a request under the same key. Not
    /// remembered: that decision is.
    #[n(42)]
    #[error("generation {} has decided a request under this key", generation.0)]
    DecidedInGeneration {
        /// Whose book.
        #[n(0)]
        generation: Generation,
    },
    /// Home has too few credits, and others are out in regions. Not remembered: they are to be asked
    /// back before the call is refused for good.
    #[n(43)]
    #[error("{short_by} credits are missing, and {outstanding} are out in regions")]
    CreditsOut {
        /// What is available at home.
        #[n(0)]
        available: Credits,
        /// As in [`Rejection::InsufficientCredits`].
        #[n(1)]
        short_by: Credits,
        /// What is out, as far as home knows. Some of it may be held there, or spent.
        #[n(2)]
        outstanding: Credits,
    },
    /// Home has too few credits, and the others are in regions that cannot be reached.
    #[n(44)]
    #[error("{short_by} credits are missing, and {amount} are out of reach")]
    Stranded {
        /// What is available at home.
        #[n(0)]
        available: Credits,
        /// As in [`Rejection::InsufficientCredits`].
        #[n(1)]
        short_by: Credits,
        /// What is out of reach.
        #[n(2)]
        amount: Credits,
        /// Where.
        #[n(3)]
        regions: Vec<Region>,
    },
    /// The region may believe that nothing is taken back from it without its word, and no operator
    /// has decided otherwise.
    #[n(45)]
    #[error("the region has not agreed that its credits are taken back")]
    TakebackNotAgreed,
    /// The credits are to be transferred to the region that has them.
    #[n(46)]
    #[error("the credits are in that region already")]
    TransferToItself,
    /// The region has fewer free credits, as far as home knows.
    #[n(47)]
    #[error("the region has {right} free credits")]
    TransferBeyondRight {
        /// What it has.
        #[n(0)]
        right: Credits,
    },
    /// The region has not answered the transfer before. Not remembered.
    #[n(48)]
    #[error("another transfer from this region is under way")]
    TransferUnderWay,
    /// The account has stopped, because its home is moving: wait, then follow. Not remembered.
    #[n(49)]
    #[error("the home is moving to {to}")]
    HomeStopped {
        /// Where to.
        #[n(0)]
        to: Region,
        /// Under which epoch it has stopped.
        #[n(1)]
        epoch: Epoch,
    },
    /// The account's home is elsewhere. Not remembered.
    #[n(50)]
    #[error("the home is {home} since epoch {}", epoch.0)]
    HomeMoved {
        /// There.
        #[n(0)]
        home: Region,
        /// Since this epoch.
        #[n(1)]
        epoch: Epoch,
    },
    /// There is no such tail, or none any more. Not remembered.
    #[n(51)]
    #[error("no such tail of a lost home is open")]
    TailUnknown,
    /// The allocation has as many covers as it may, or this one would be made of too many lots. Not
    /// remembered: there is room once others are booked.
    #[n(52)]
    #[error("there is no room for another cover now")]
    NoRoomForCover,
    /// No job has this name, or its record is past its retention.
    #[n(53)]
    #[error("there is no such job")]
    JobNotFound,
    /// The name belongs to a job that was created with other content.
    #[n(54)]
    #[error("the job_id belongs to a job with other content")]
    JobIdConflict {
        /// That job.
        #[n(0)]
        number: HoldNumber,
    },
    /// The job is not dead, so there is nothing to redrive.
    #[n(55)]
    #[error("the job is {}", state.name())]
    JobNotDead {
        /// Where it stands.
        #[n(0)]
        state: JobState,
    },
    /// The lease has run out, or the job was given to another worker, or has ended.
    #[n(56)]
    #[error("the lease is over: the job is {}", state.name())]
    LeaseLost {
        /// Where the job stands.
        #[n(0)]
        state: JobState,
    },
    /// The job has ended.
    #[n(57)]
    #[error("the job has ended: it is {}", state.name())]
    JobEnded {
        /// How.
        #[n(0)]
        state: JobState,
    },
    /// The account has jobs in as many queues as it may.
    #[n(58)]
    #[error("the account has jobs in as many queues as it may")]
    TooManyQueues,
    /// No event is parked there, or it is not any more. Not remembered.
    #[n(63)]
    #[error("no such event is parked")]
    EventNotParked,
    /// Another event of the same name was taken, so this one never is.
    #[n(64)]
    #[error("another event of the same source and id was taken")]
    EventConflict,
    /// As many events are parked as may be. Not remembered: there is room once people have looked at some.
    #[n(65)]
    #[error("the account has as many parked events as it may")]
    TooManyEventsParked,
    /// The account has no budget of this name.
    #[n(73)]
    #[error("there is no budget {budget}")]
    BudgetNotFound {
        /// The name.
        #[n(0)]
        budget: BudgetName,
    },
    /// A budget has not so much left: the first of those that the call named and of those above them.
    #[n(74)]
    #[error("budget {budget} has {remaining} left")]
    BudgetExceeded {
        /// The budget.
        #[n(0)]
        budget: BudgetName,
        /// Its limit.
        #[n(1)]
        limit: Credits,
        /// What is left of it in the period.
        #[n(2)]
        remaining: Credits,
        /// When the period ends, if it does.
        #[n(3)]
        until: Option<LogTime>,
    },
    /// The budget has another parent, and keeps it.
    #[n(75)]
    #[error("a budget keeps its parent")]
    BudgetParentFixed {
        /// Its parent.
        #[n(0)]
        parent: Option<BudgetName>,
    },
    /// Budgets are below the one that is to be removed.
    #[n(76)]
    #[error("{children} budgets are below it")]
    BudgetHasChildren {
        /// How many right below it.
        #[n(0)]
        children: u64,
    },
    /// The account has as many budgets as it may.
    #[n(77)]
    #[error("the account has as many budgets as it may")]
    TooManyBudgets,
    /// As many budgets as may be above another are above its parent.
    #[n(78)]
    #[error("too many budgets are above it")]
    BudgetTooDeep,
}

impl Rejection {
    /// Whether a repeat under the same key gets the same answer, for as long as keys are kept.
    ///
    /// What a caller got wrong in the request itself is not remembered: the corrected request may
    /// use the same key.
    pub const fn is_remembered(&self) -> bool {
        match self {
            Self::TenantNotFound
            | Self::GrantExpired
            | Self::KeyReused
            | Self::BatchAborted { .. }
            | Self::DecidedElsewhere
            | Self::DecidedInRegion { .. }
            | Self::DecidedInGeneration { .. }
            | Self::CreditsOut { .. }
            | Self::TransferUnderWay
            | Self::RightExhausted { .. }
            | Self::AllocationEnded
            | Self::AllocationUnknown
            | Self::TailUnknown
            | Self::ReportGap { .. }
            | Self::ReportForked { .. }
            | Self::NothingNew
            | Self::EpochFenced { .. }
            | Self::VoucherContradicts
            | Self::HomeStopped { .. }
            | Self::HomeMoved { .. }
            | Self::NoRoomForCover
            | Self::EventNotParked
            | Self::TooManyEventsParked
            | Self::FinishBlocked { .. } => false,
            Self::TenantExists
            | Self::BudgetNotFound { .. }
            | Self::HoldNotFound
            | Self::ChargeNotFound
            | Self::LotNotFound
            | Self::InsufficientCredits { .. }
            | Self::HoldExpired { .. }
            | Self::AlreadyCaptured { .. }
            | Self::AlreadyReleased { .. }
            | Self::NothingCaptured
            | Self::RefundExceedsCaptured { .. }
            | Self::NotRefunded
            | Self::AlreadyReclaimed
            | Self::AccountFrozen
            | Self::AccountClosed
            | Self::NotFrozen
            | Self::CloseBlocked { .. }
            | Self::SourceRefConflict { .. }
            | Self::GrantExceedsCeiling { .. }
            | Self::AmountOverflow
            | Self::AlreadyFrozen
            | Self::TooManyParts
            | Self::Stranded { .. }
            | Self::TakebackBeyondCap { .. }
            | Self::TakebackNotAgreed
            | Self::TransferToItself
            | Self::TransferBeyondRight { .. }
            | Self::AllocationOpen
            | Self::LotAlreadyVoided
            | Self::ExtendNotLater { .. }
            | Self::ExtendTooLong { .. }
            | Self::JobNotFound
            | Self::JobIdConflict { .. }
            | Self::JobNotDead { .. }
            | Self::LeaseLost { .. }
            | Self::JobEnded { .. }
            | Self::TooManyQueues
            | Self::EventConflict
            | Self::BudgetExceeded { .. }
            | Self::BudgetParentFixed { .. }
            | Self::BudgetHasChildren { .. }
            | Self::TooManyBudgets
            | Self::BudgetTooDeep
            | Self::StaleConfirmation { .. } => true,
        }
    }
}
