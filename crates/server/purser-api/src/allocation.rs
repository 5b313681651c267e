//! Allocations: what home has set aside for each region, and what an operator may do about it.
//!
//! The figures are home's. What a region has done since home last booked its entries only the region
//! knows, so figures that rest on it are stated as limits, and what home cannot know is `null`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::amount::CallAmount;
use crate::balance::Balance;
use crate::body::{is_no, not_null};
use crate::ids::AllocationId;
use crate::prose::Reason;
use crate::spelled::spelled_enum;
use crate::text::{Amount, GenerationNumber, RegionName, SequenceNumber};

spelled_enum! {
    /// How an allocation stands.
    AllocationStatus, "the status of an allocation" {
        /// It can be granted more.
        Open "open",
        /// The same, but its lease has run out, and its region keeps what it has.
        ExpiredKept "expired_kept",
        /// It was taken back, and its region has not said what became of it.
        TakenBack "taken_back",
        /// Its region has lost track of it: nobody knows what became of what is out.
        Sealed "sealed",
        /// It is over: all is booked, or was written off.
        Closed "closed",
    }
}

spelled_enum! {
    /// What a region may do with its allocation.
    AllocationMode, "the mode of an allocation" {
        /// Spend it.
        Local "local",
        /// Keep nothing but what is held, and let home decide.
        Strict "strict",
        /// Nothing new, while holds go on.
        Frozen "frozen",
        /// Nothing new: give everything back as holds end, and end the allocation.
        Ending "ending",
    }
}

spelled_enum! {
    /// What a region can be told to do with its allocation.
    ModeOrder, "a mode that can be set" {
        /// Spend it.
        Local "local",
        /// Keep nothing but what is held, and let home decide. Home gives this order by itself when
        /// the account's credits run low, and takes it back when there are enough again.
        Strict "strict",
        /// Give everything back as holds end, and end the allocation. This cannot be undone; if there is
        /// demand, a new allocation is opened later.
        Ending "ending",
    }
}

spelled_enum! {
    /// What becomes of an allocation whose lease has run out.
    OnExpiry, "what becomes of an allocation whose lease has run out" {
        /// Its region keeps it and may spend it; home never takes it back without a report. The lease
        /// lasts 300 s.
        Keep "keep",
        /// Its region spends nothing more, and home takes it back within `takeback_cap`. The lease lasts
        /// 60 s.
        TakeBack "take_back",
    }
}

/// Credits that home has set aside for one region, as home knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Allocation {
    /// The allocation's id.
    pub allocation_id: AllocationId,
    /// The region that has it.
    pub region: RegionName,
    /// Counts the account's allocations to this region.
    pub generation: GenerationNumber,
    /// How it stands.
    pub status: AllocationStatus,
    /// What the region may do with it, by home's last word.
    pub mode: AllocationMode,
    /// What becomes of it when its lease has run out.
    pub on_expiry: OnExpiry,
    /// Ever granted to it.
    pub granted: Amount,
    /// Ever spent by the region, as far as home has booked it.
    pub spent: Amount,
    /// Ever given back by the region, as far as home has booked it.
    pub returned: Amount,
    /// Ever refunded to the tenant by the region's decision.
    pub refunded: Amount,
    /// Ever taken back without hearing from the region.
    pub taken_back: Amount,
    /// What of that may still turn out to have been spent before.
    pub unresolved: Amount,
    /// What is out: granted, and neither spent nor given back nor taken back.
    pub outstanding: Amount,
    /// What of it the region's holds held when home last heard.
    pub held: Amount,
    /// What the region may still spend, as far as home knows: what is out and not held, and the overdraft
    /// that is not used.
    pub right: Amount,
    /// The most that the region can have spent without home having booked it: what is out, the overdraft
    /// that is not used, and what is unresolved. How likely that is, `report_age_ms` tells.
    pub unsettled: Amount,
    /// How much the region may spend beyond what it was granted.
    pub overdraft: Amount,
    /// How much of that is used, as far as home knows.
    pub overdraft_used: Amount,
    /// What was last asked back; `null` if nothing ever was.
    pub recall: Option<AllocationRecall>,
    /// What was asked back for another region and has not come back yet; `null` if nothing was.
    pub transfer: Option<AllocationTransfer>,
    /// Whether the region has taken up home's last word, by its last report; `null` if home's leader has
    /// not heard of it.
    pub is_current: Option<bool>,
    /// How long ago the region's last report was booked, in milliseconds; `null` if home's leader has not
    /// heard of it since it leads.
    pub report_age_ms: Option<u64>,
    /// How long home still waits for a report before the lease has run out, in milliseconds, 0 if it has;
    /// `null` if home's leader has not heard of the region since it leads: then the lease runs anew from
    /// there.
    pub lease_remaining_ms: Option<u64>,
}

/// What was last asked back from a region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AllocationRecall {
    /// How much of its free credits the region may keep.
    pub keep: Amount,
    /// Whether the region has answered it, by its last report; `null` if home's leader has not heard of
    /// it.
    pub is_answered: Option<bool>,
}

/// What was asked back for another region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AllocationTransfer {
    /// Who is to have it.
    pub to: RegionName,
    /// How much at most.
    pub amount: Amount,
}

/// Changes what a region may do with its allocation. What is left out stays as it is; something must be
/// named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AllocationRequest {
    /// What the region may do.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub mode: Option<ModeOrder>,
    /// How much it may spend beyond what it was granted. The overspend bound grows by as much.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub overdraft: Option<Amount>,
    /// What becomes of it when its lease has run out.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub on_expiry: Option<OnExpiry>,
    /// Which of the region's allocations; the newest that is not closed if left out.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub generation: Option<GenerationNumber>,
    /// Why, for whoever reads the history.
    pub reason: Reason,
}

/// Asks credits back from a region. What it holds it keeps. Nothing changes at home until the region
/// reports what it gave back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RecallRequest {
    /// How much of its free credits the region may keep.
    #[serde(default = "nothing")]
    #[schema(default = "0")]
    pub keep: Amount,
    /// Which of the region's allocations; the newest that is not closed if left out.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub generation: Option<GenerationNumber>,
    /// Why, for whoever reads the history.
    pub reason: Reason,
}

const fn nothing() -> Amount {
    Amount(purser_types::Credits::ZERO)
}

/// Asks credits back from one region for another. They are the first region's until its return is
/// booked, and the second's from then on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TransferRequest {
    /// Who has them.
    pub from: RegionName,
    /// Who is to have them.
    pub to: RegionName,
    /// How much. What the first region spends before it hears of this is not transferred.
    pub amount: CallAmount,
    /// Why, for whoever reads the history.
    pub reason: Reason,
}

/// Answers set, recall and transfer. What only home's leader remembers is `null` here: list the
/// allocations to see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AllocationAnswer {
    /// The allocation, after the act; of a transfer, the one that gives.
    pub allocation: Allocation,
    /// The account, after the act.
    pub balance: Balance,
}

/// Takes back what is out in a region, or writes off what is known to be lost, without hearing from the
/// region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TakeBackRequest {
    /// Which of the region's allocations; the newest that is not closed if left out.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub generation: Option<GenerationNumber>,
    /// Why, for whoever reads the history.
    pub reason: Reason,
    /// Whether only to show what would happen.
    #[serde(default, skip_serializing_if = "is_no")]
    pub dry_run: bool,
    /// The `confirm` of the dry run. The act is refused if the account has changed since.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub confirm: Option<SequenceNumber>,
}

/// Answers take-back and write-off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TakeBackAnswer {
    /// Whether this only shows what would happen.
    pub dry_run: bool,
    /// What to send as `confirm` to do it; left out if it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub confirm: Option<SequenceNumber>,
    /// What comes home. As much may have been spent in the region already: after a take-back that is in
    /// the overspend bound until the region reports, after a write-off nobody looks for it any more.
    pub brought_home: Amount,
    /// What of it paid debt at once.
    pub debt_repaid: Amount,
    /// The allocation, after the act.
    pub allocation: Allocation,
    /// The account, after the act.
    pub balance: Balance,
}
