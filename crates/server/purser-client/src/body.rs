//! The bodies of answers, and how they are read.
//!
//! Reading JSON into a type is much code for each type. Written down here it is compiled once, with
//! this crate; a generic function would be compiled again in every program that calls it.

use purser_api::{
    AdjustAnswer, Allocation, AllocationAnswer, Balance, BatchAnswer, Budget, BudgetDetail,
    CaptureAnswer, ChargeAnswer, ChargeDetail, CheckAnswer, CloseAnswer, ClusterAnswer,
    DiscardAnswer, DrainAnswer, Entry, EventsAnswer, FailOverAnswer, GrantAnswer, GroupAnswer,
    Hold, HoldAnswer, HoldDetail, Job, JobAnswer, JobDetail, LeaseAnswer, List, Lot,
    OverspendAnswer, PlacementAnswer, Problem, ReclaimAnswer, RefundAnswer, RegionsAnswer,
    Statement, TailsAnswer, TakeBackAnswer, Tenant, TenantAnswer, VerificationAnswer, VoidAnswer,
    WebhookAnswer, WebhookDeadLetter, WebhookDeadLetterAnswer, WebhookDiscardAnswer,
    WebhookRedriveAnswer, WebhookRemoved, WebhooksAnswer, WriteOffTailAnswer,
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
    AdjustAnswer, AllocationAnswer, Balance, BatchAnswer, Budget, BudgetDetail, CaptureAnswer, ChargeAnswer, ChargeDetail, CheckAnswer, CloseAnswer, ClusterAnswer, DiscardAnswer, DrainAnswer, EventsAnswer, FailOverAnswer, GrantAnswer, GroupAnswer, HoldAnswer, HoldDetail, JobAnswer, JobDetail, LeaseAnswer, List<Allocation>, List<BudgetDetail>, List<Entry>, List<Hold>, List<Job>, List<Lot>, List<Tenant>, List<WebhookDeadLetter>, OverspendAnswer, WebhookDeadLetterAnswer, WebhookDiscardAnswer,
    PlacementAnswer, Problem,
    ReclaimAnswer, RefundAnswer, RegionsAnswer, Statement, TailsAnswer, TakeBackAnswer, TenantAnswer,
    VerificationAnswer, VoidAnswer, WebhookAnswer, WebhookRedriveAnswer, WebhookRemoved, WebhooksAnswer, WriteOffTailAnswer,
}
