//! Ledger entries as the caller sees them, and statements made of them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::amount::SignedAmount;
use crate::balance::{Buckets, Totals};
use crate::bucket::Bucket;
use crate::cursor::Cursor;
use crate::ids::{ChargeId, HoldId, LotId};
use crate::metadata::Metadata;
use crate::prose::Reason;
use crate::spelled::spelled_enum;
use crate::text::{JobName, KeyText, Moment, OperationName, SequenceNumber, TenantName, UnitName};

spelled_enum! {
    /// What happened.
    EntryKind, "the kind of an entry" {
        /// The account was opened.
        Open "open",
        /// Its policy was changed.
        Policy "policy",
        /// A lot was granted.
        Grant "grant",
        /// A hold was made.
        Authorize "authorize",
        /// A hold's deadline was moved.
        Extend "extend",
        /// Credits of a hold were taken.
        Capture "capture",
        /// A hold was given back.
        Release "release",
        /// A lot can be spent from now on.
        LotEffective "lot_effective",
        /// Nobody ended a hold in time.
        HoldExpired "hold_expired",
        /// Credits were taken in one step.
        Charge "charge",
        /// Captured credits were given back.
        Refund "refund",
        /// Refunded credits were taken again.
        Reclaim "reclaim",
        /// Credits were taken for a hold that had expired.
        LateCapture "late_capture",
        /// It became known how a job ended, and its credits were where they belong.
        Outcome "outcome",
        /// A worker took a job.
        Lease "lease",
        /// A worker keeps a job for longer.
        Renew "renew",
        /// An operator let a dead job be tried again.
        Redrive "redrive",
        /// An operator decided that nothing becomes of a job.
        Discard "discard",
        /// A usage event was taken for which nothing was to be done.
        Event "event",
        /// A usage event has done nothing and waits for people.
        EventParked "event_parked",
        /// An operator decided that nothing becomes of a usage event.
        EventDiscarded "event_discarded",
        /// A budget was made or changed.
        Budget "budget",
        /// A budget was removed.
        BudgetRemoved "budget_removed",
        /// A lot's time was over.
        LotExpired "lot_expired",
        /// Credits were set aside for a region.
        Allocate "allocate",
        /// What a region may do with its allocation was changed.
        Allocation "allocation",
        /// What a region decided was booked.
        Settle "settle",
        /// A region gave credits back.
        Return "return",
        /// An allocation was taken back without hearing from its region.
        TakeBack "take_back",
        /// An allocation was ended of which nothing more will be heard.
        WriteOff "write_off",
        /// A region heard what it may spend.
        Voucher "voucher",
        /// A region's book has lost its past.
        Seal "seal",
        /// A region's book has ended.
        Finish "finish",
        /// A lot was taken back by an operator.
        Void "void",
        /// Credits that became available paid debt.
        DebtRepaid "debt_repaid",
        /// An operator added or removed credits.
        Adjust "adjust",
        /// The account was frozen.
        Freeze "freeze",
        /// The account was unfrozen.
        Unfreeze "unfreeze",
        /// The account was closed.
        Close "close",
        /// The account stopped, to move to another region.
        HomeStopped "home_stopped",
        /// Another region became home: it came there, or it was taken over from one that is lost.
        HomeMoved "home_moved",
        /// A move was given up, and home is where it was.
        HomeKept "home_kept",
        /// What a lost home had decided besides was looked through, and booked as far as it has happened.
        Tail "tail",
        /// What a lost home had decided besides was given up.
        TailWriteOff "tail_write_off",
    }
}

/// One bucket's change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Posting {
    /// The bucket.
    pub bucket: Bucket,
    /// Into it if positive, out of it if negative.
    pub amount: SignedAmount,
}

/// One thing that happened to an account. Never changed afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Entry {
    /// Its place in the account: 1, 2, 3 without holes.
    pub sequence: SequenceNumber,
    /// When it happened, by the log's clock.
    pub log_time: Moment,
    /// What happened.
    pub kind: EntryKind,
    /// Which credits moved. The amounts sum to zero.
    pub postings: Vec<Posting>,
    /// The operation that made it, and perhaps other entries.
    pub operation_id: OperationName,
    /// The caller's name for that operation; left out for what time alone brought about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub idempotency_key: Option<KeyText>,
    /// The hold it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub hold_id: Option<HoldId>,
    /// The job it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub job_id: Option<JobName>,
    /// The charge it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub charge_id: Option<ChargeId>,
    /// The lot it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub lot_id: Option<LotId>,
    /// The entry it undoes or belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub original_sequence: Option<SequenceNumber>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reason: Option<Reason>,
    /// Who asked for it: the name of a token, or `log` for what time alone brought about.
    pub actor: String,
    /// The caller's notes.
    pub metadata: Metadata,
    /// Hash of the entry before it, in hexadecimal.
    pub prev_hash: String,
    /// Hash of this entry, over its content and `prev_hash`, in hexadecimal.
    pub hash: String,
}

/// An account's history between two instants: what it started with, what happened, what is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Statement {
    /// Whose credits.
    pub tenant: TenantName,
    /// In which unit.
    pub unit: UnitName,
    /// From this instant on.
    pub from: Moment,
    /// Up to this instant, itself not included.
    pub to: Moment,
    /// The buckets before the first entry.
    pub opening: Buckets,
    /// The buckets after the last entry.
    pub closing: Buckets,
    /// What went through the account in between.
    pub totals: Totals,
    /// How many entries there are in between, on all pages.
    pub entry_count: u64,
    /// The entries of this page, oldest first.
    pub items: Vec<Entry>,
    /// Whether there are more.
    pub has_more: bool,
    /// Where the next page starts.
    pub next_cursor: Option<Cursor>,
}
