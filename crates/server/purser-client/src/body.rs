//! The bodies of answers, and how they are read.
//!
//! Reading JSON into a type is much code for each type. Written down here it is compiled once, with
//! this crate; a generic function would be compiled again in every program that calls it.

use purser_api::{
    AdjustAnswer, Allocation, AllocationAnswer, Balance, BatchAnswer, CaptureAnswer, ChargeAnswer,
    ChargeDetail, CheckAnswer, CloseAnswer, ClusterAnswer, DrainAnswer, Entry, FailOverAnswer,
    GrantAnswer, GroupAnswer, Hold, HoldAnswer, HoldDetail, List, Lot, OverspendAnswer,
    PlacementAnswer, Problem, ReclaimAnswer, RefundAnswer, RegionsAnswer, Statement, TailsAnswer,
    TakeBackAnswer, Tenant, TenantAnswer, VoidAnswer, WriteOffTailAnswer,
};

/// What an answer says.
pub trait AnswerBody: Sized {
    /// Reads it from JSON. Fields that this release does not know are passed over.
    fn from_json(json: &[u8]) -> Result<Self, serde_json::Error>;
}

macro_rules! answer_bodies {
    ($($body:ty),+ $(,)?) => {$(
        impl AnswerBody for $body {
            fn from_json(json: &[u8]) -> Result<Self, serde_json::Error> {
                serde_json::from_slice(json)
            }
        }
    )+};
}

answer_bodies! {
    AdjustAnswer, AllocationAnswer, Balance, BatchAnswer, CaptureAnswer, ChargeAnswer, ChargeDetail,
    CheckAnswer, CloseAnswer, ClusterAnswer, DrainAnswer, FailOverAnswer, GrantAnswer, GroupAnswer, HoldAnswer, HoldDetail,
    List<Allocation>, List<Entry>, List<Hold>, List<Lot>, List<Tenant>, OverspendAnswer,
    PlacementAnswer, Problem,
    ReclaimAnswer, RefundAnswer, RegionsAnswer, Statement, TailsAnswer, TakeBackAnswer, TenantAnswer,
    VoidAnswer, WriteOffTailAnswer,
}
