//! The HTTP contract of Purser: paths, headers, bodies, ids as text, problem codes, cursors.
//!
//! Server and client both stand on this crate and on nothing of each other. It reads requests
//! strictly (an unknown field, a wrong spelling or a value out of range is refused before it
//! reaches the ledger) and writes answers in one spelling. It knows no HTTP library, no ledger and
//! no rule about credits; whether an account can pay is not decided here.
//!
//! Invariants kept here:
//!
//! - No amount and no sequence ever is a floating-point number, and answers write them as strings.
//! - A released field name, path, header and problem code keeps its meaning.
//! - Only types of this crate stand in HTTP bodies.
//!
//! Where to look: [`paths`] and [`headers`]; one module for each resource (`hold`, `charge`,
//! `undo`, `budget`, `job`, `dead_letter`, `lot`, `tenant`, `balance`, `entry`, `changes`, `batch`, `allocation`,
//! `overspend`, `placement`,
//! `region`, `cluster`, `verification`, `webhook`) with its requests and its answers; `list` for queries; `problem` for
//! refusals; `text` and `spelled` for how values are
//! written. The description of all calls, `docs/api/openapi.json`, is made by the server from its
//! routes.

mod allocation;
mod amount;
mod balance;
mod batch;
mod batch_item;
mod body;
mod bucket;
mod budget;
mod changes;
mod charge;
mod cluster;
mod cursor;
mod dead_letter;
mod drain;
mod entry;
mod event;
pub mod headers;
mod hold;
mod ids;
mod item_fields;
mod job;
mod list;
mod lot;
mod metadata;
mod moment;
mod overspend;
pub mod paths;
mod placement;
mod problem;
mod prose;
mod region;
mod spelled;
mod tenant;
mod text;
mod undo;
mod verification;
mod webhook;

pub use allocation::{
    Allocation, AllocationAnswer, AllocationMode, AllocationRecall, AllocationRequest,
    AllocationStatus, AllocationTransfer, ModeOrder, OnExpiry, RecallRequest, TakeBackAnswer,
    TakeBackRequest, TransferRequest,
};
pub use amount::{CallAmount, CaptureAmount, SignedAmount, TotalAmount};
pub use balance::{AsOf, Balance, Buckets, Totals};
pub use batch::{
    BATCH_ITEMS_MAX, BatchAnswer, BatchBody, BatchItemText, BatchRequest, BatchResult,
};
pub use batch_item::{BatchItem, BatchOperation, BatchOperationName, SubjectId};
pub use body::{BODY_BYTES_MAX, InvalidBody, read_body, read_optional_body};
pub use bucket::Bucket;
pub use budget::{
    Budget, BudgetDetail, BudgetPeriod, BudgetRequest, BudgetUse, BudgetsNamed, BudgetsQuery,
    HoldBudget, InvalidBudgets, PeriodUnit, RemoveBudgetRequest,
};
pub use changes::{Change, ChangeId, ChangesAnswer, ChangesQuery, WaitSeconds};
pub use charge::{Charge, ChargeAnswer, ChargeDetail, ChargeRequest, CheckAnswer};
pub use cluster::{
    ClockState, ClusterAnswer, GROUPS_MAX, GroupAnswer, GroupNumber, GroupRole, InvalidVoters,
    LeaderRequest, NodeNumber, Voters, VotersRequest,
};
pub use cursor::{Cursor, CursorScope, InvalidCursor};
pub use dead_letter::{DeadLettersQuery, DiscardAnswer, DiscardRequest, RedriveRequest};
pub use drain::{DrainAnswer, DrainFailure, DrainRequest, DrainStatus};
pub use entry::{Entry, EntryKind, Posting, Statement};
pub use event::{
    EVENTS_MAX, EventText, EventVerdict, EventsAnswer, EventsQuery, EventsRequest, ParkedEvent,
    ParkedEventAnswer, ParkedEventsQuery, RedriveEventRequest, SpecVersion, UsageData, UsageEvent,
    VerdictKind,
};
pub use hold::{
    AuthorizeRequest, CaptureAnswer, CaptureRequest, Consistency, DecidedBy, DeciderRole,
    ExtendRequest, Hold, HoldAnswer, HoldDetail, HoldStatus, IfExpired, LotShare, ReleaseRequest,
    TtlOutOfRange, TtlSeconds,
};
pub use ids::{AllocationId, ChargeId, HoldId, LotId};
pub use item_fields::InvalidItem;
pub use job::{
    BackoffSeconds, CreateJobRequest, Job, JobAnswer, JobDetail, JobEffect, JobMode, JobOutcome,
    JobStatus, JobsQuery, LeaseAnswer, LeaseCount, LeaseId, LeaseQuery, LeaseRequest, LeasedJob,
    MaxAttempts, NumberOutOfRange, OutcomeRequest, RenewRequest,
};
pub use list::{
    BalanceQuery, EntriesQuery, HoldsQuery, List, LotsQuery, PageLimit, ReadConsistency,
    StatementQuery, TenantsQuery, UnitQuery,
};
pub use lot::{
    AdjustAnswer, AdjustDirection, AdjustRequest, GrantAnswer, GrantRequest, Lot, LotCategory,
    LotStatus, VoidAnswer, VoidRequest,
};
pub use metadata::{InvalidMetadata, Metadata};
pub use overspend::{
    OverspendAnswer, OverspendAsOf, OverspendCauses, OverspendFigures, OverspendQuery,
    OverspendTenant,
};
pub use placement::{
    FailOverAnswer, FailOverRequest, MoveRequest, PlacementAnswer, PlacementStatus, StandbyOf,
    TailAnswer, TailsAnswer, WriteOffTailAnswer, WriteOffTailRequest,
};
pub use problem::{Figures, Outcome, Problem, ProblemCode, Retry};
pub use prose::{Reason, Reference, SourceRef};
pub use region::{FailedOver, RegionAnswer, RegionsAnswer};
pub use spelled::InvalidText;
pub use tenant::{
    CloseAnswer, CloseRequest, EventAgeSeconds, FreezeRequest, OpenTenantRequest, Policy,
    PolicyRequest, RefundExpired, RegrantDays, Tenant, TenantAnswer, TenantStatus,
};
pub use text::{
    Amount, BudgetLabel, EpochNumber, GenerationNumber, JobName, KeyText, Moment, OperationName,
    QueueLabel, RegionName, SequenceNumber, TenantName, UnitName,
};
pub use undo::{ReclaimAnswer, ReclaimRequest, RefundAnswer, RefundRequest, Subject};
pub use verification::{
    DIFFERENCES_TOLD_MAX, VerificationAnswer, VerificationCheck, VerificationId,
    VerificationOutcome, VerificationRequest, VerificationSubject,
};
pub use webhook::{
    AttemptsMax, BecauseRequest, OverlapSeconds, RedriveLimit, RotateRequest, WebhookAct,
    WebhookActKind, WebhookAnswer, WebhookDeadLetter, WebhookDeadLetterAnswer, WebhookDeadLetterId,
    WebhookDeadLetterStatus, WebhookDeadLettersQuery, WebhookDiscardAnswer, WebhookDiscardRequest,
    WebhookEnableRequest, WebhookEvent, WebhookName, WebhookQuery, WebhookRedriveAnswer,
    WebhookRedriveQuery, WebhookRedriveRequest, WebhookRemoved, WebhookRequest, WebhookSecret,
    WebhookShard, WebhookStart, WebhookStatus, WebhookUrl, WebhooksAnswer,
};
