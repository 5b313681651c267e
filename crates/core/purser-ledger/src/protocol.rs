//! What home and a region tell each other about an allocation.
//!
//! ```text
//!          ── Voucher: you may have spent so much in all, until further notice ──▶
//!   home                                                                           region
//!          ◀── Report: these are my entries since the last you booked ────────────
//! ```
//!
//! Every figure is cumulative and never falls, and every message names the state that it was made
//! from; so a message that is lost, repeated, late or overtaken does no harm. Nothing in here is a
//! difference. Not here: when messages are sent, by whom, and how they are authenticated.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use purser_types::{Credits, Epoch, Life, LogTime, Owner, Sequence, Span};

use crate::command::{AccountName, Category, Grant, HoldNumber, Identity, LotNumber};
use crate::digest::Digest32;
use crate::lot::LotTerms;
use crate::policy::OnExpiry;

/// Home's word for what a region may spend under one allocation.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Voucher {
    /// The allocation.
    #[n(0)]
    pub owner: Owner,
    /// Under which of the account's homes the word was given.
    #[n(1)]
    pub epoch: Epoch,
    /// Counts the allocation's vouchers: a higher one takes the place of a lower one.
    #[n(2)]
    pub number: u64,
    /// All that was ever granted to the allocation, covers included.
    #[n(3)]
    pub granted: Credits,
    /// The lots that it was granted from, and the covers that are not booked whole. All that there ever
    /// were add up to `granted`, but for what went to settle overdraft that the region had used before.
    #[n(4)]
    pub lots: Vec<VoucherLot>,
    /// How much the region may spend beyond what it was granted.
    #[n(5)]
    pub overdraft: Credits,
    /// What the region may do with it.
    #[n(6)]
    pub mode: Mode,
    /// What home last asked to have back.
    #[n(7)]
    pub recall: Recall,
    /// The last of the region's entries that home has booked.
    #[n(8)]
    pub booked: Booked,
    /// How long the region remembers decisions under their keys.
    #[n(9)]
    pub key_retention: Span,
    /// How long the region keeps the records of ended holds.
    #[n(10)]
    pub record_retention: Span,
    /// The account that was granted from.
    #[n(11)]
    pub account: AccountName,
    /// Holds and charges that the region is to undo: the same requests were decided elsewhere before.
    #[n(12)]
    pub reversals: Vec<HoldNumber>,
    /// What becomes of the allocation when its lease has run out.
    #[n(13)]
    #[cbor(skip_if = "crate::codec::is_none")]
    pub on_expiry: OnExpiry,
    /// The life of the region's group for which the allocation was made. In another one its book is not
    /// begun: what was spent under it is not known there (R9).
    #[n(14)]
    pub life: Option<Life>,
}

/// A lot in a voucher.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct VoucherLot {
    /// Its number at home.
    #[n(0)]
    pub lot: LotNumber,
    /// What was granted to the tenant, which is where it stands in burn-down order and when it ends.
    #[n(1)]
    pub terms: LotTerms,
    /// How much of it was ever given to this allocation.
    #[n(2)]
    pub given: Credits,
    /// Of a cover: the only operation that may draw from it.
    #[n(3)]
    pub only_for: Option<Identity>,
}

impl VoucherLot {
    /// A cover, which is a lot in the region only. Its terms decide nothing, since it has no place in
    /// burn-down order.
    pub(crate) fn cover(lot: LotNumber, given: Credits, only_for: Identity) -> Self {
        let terms = LotTerms {
            amount: given,
            category: Category::Paid,
            priority: Grant::PRIORITY_DEFAULT,
            effective_at: LogTime::ZERO,
            expires_at: None,
            source_ref: None,
        };
        Self { lot, terms, given, only_for: Some(only_for) }
    }
}

/// What a region may do with an allocation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Mode {
    /// Spend it.
    #[n(0)]
    #[default]
    Local,
    /// Hold no free credits: give back whatever becomes free, and let home decide. The pool is
    /// nearly empty.
    #[n(1)]
    Strict,
    /// Nothing new: the account is frozen.
    #[n(2)]
    Frozen,
    /// Nothing new, and end it: give everything back as holds end, and finish.
    #[n(3)]
    Ending,
}

/// What home asks to have back. It changes nothing at home until the region reports that it was
/// given back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub struct Recall {
    /// Counts recalls: each is answered once.
    #[n(0)]
    pub number: u64,
    /// How much of its free credits the region may keep.
    #[n(1)]
    pub keep: Credits,
}

/// How far home has booked a region's entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub struct Booked {
    /// The last entry.
    #[n(0)]
    pub sequence: Sequence,
    /// Its hash; nothing before the first entry.
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub hash: Option<Digest32>,
}

/// A region's account of an allocation: its entries, the last of which carries the cumulative
/// figures.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Report {
    /// The allocation.
    #[n(0)]
    pub owner: Owner,
    /// The highest epoch of the account that the region has heard of.
    #[n(1)]
    pub epoch: Epoch,
    /// The entries' bytes, in order and without holes. Home skips those that it has booked.
    #[n(2)]
    pub entries: Vec<ByteVec>,
    /// Whether the region has sealed the allocation: its entries from some point on are lost.
    #[n(3)]
    pub is_sealed: bool,
}

impl Report {
    /// The most entries in one report.
    pub const ENTRIES_MAX: u64 = 512;

    /// The most bytes of entries in one report: it fits into one Raft entry with room to spare.
    pub const BYTES_MAX: usize = 256 << 10;
}
