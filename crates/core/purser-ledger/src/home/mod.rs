//! Home's side of the allocations of one account, and the overspend bound.
//!
//! ```text
//!            grant                 settle                        finish, all booked
//!  open ──▶ outstanding grows ──▶ outstanding falls ──▶ … ──▶ closed
//!                   │                                            ▲
//!                   └── take back ──▶ taken back, unresolved ────┘
//! ```
//!
//! What home has set aside for a region it has given up: only the region spends it, and only the
//! region's own entries say how much is spent, returned or refunded. Home books these entries in
//! their order, once each, and never judges them again. Not here: when credits are granted or asked
//! back (`sizing`), clocks, messages.
//!
//! - INV-12: `max(0, granted − spent − returned − taken back + proven)`, covers left aside, is what
//!   the lots that are out add up to; with what is out under covers it is the bucket
//!   `allocated:<region>`.
//! - INV-13: what could have been overspent is never more than the bound says.

mod allocate;
mod away;
mod bound;
mod cover;
mod evolve;
mod follow;
mod residence;
mod settle;
mod tail;
mod tail_fork;
mod tail_matching;
mod transfer;

use std::collections::{BTreeMap, BTreeSet};

use minicbor::{Decode, Encode};
use purser_types::{Credits, Epoch, Generation, Life, Owner, Position, Region, Sequence};

use crate::account::HoldKey;
use crate::command::LotNumber;
use crate::digest::Digest16;
use crate::entry::Entry;
use crate::hold::{Source, Spend, sum};
use crate::lot::LotTerms;
use crate::moving::{Departure, FIRST_EPOCH};
use crate::policy::OnExpiry;
use crate::protocol::{Booked, Mode, Recall};
use crate::time_ring::TimeRing;

pub use self::bound::Bound;
pub use self::cover::Covered;
pub use self::residence::{EpochBegan, HomeChange, HomeSpan, Residence};
pub(crate) use self::tail::owes_for_tail;
pub use self::tail::{Fate, LostEntry, Tail, TailRun};

/// What home knows of an account's allocations.
///
/// Most accounts never have any, so an account keeps this aside until it has something to say.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    /// Counts the account's homes.
    pub(crate) epoch: Epoch,
    /// Those that are not closed.
    pub(crate) allocations: BTreeMap<Owner, Allocation>,
    /// The last generation of each region that ever had one.
    pub(crate) generations: BTreeMap<Region, Generation>,
    /// The holds and charges of regions: the last entry here about each.
    pub(crate) away: TimeRing<HoldKey, Position>,
    /// Debt that booked spends of regions made and that is not repaid.
    pub(crate) realised: Credits,
    /// Allocations that are closed, by which entries they were opened: what is asked about holds and
    /// charges of theirs is decided here. Never forgotten, which takes some 40 bytes a generation.
    pub(crate) closed: BTreeMap<Owner, Sequence>,
    /// Requests that regions have decided, by the digest of their idempotency key.
    pub(crate) requests: TimeRing<Digest16, AwayRequest>,
    /// What regions have decided about holds and charges, by allocation and key.
    pub(crate) decided: TimeRing<Digest16, AwayDecision>,
    /// Holds and charges of regions whose request had been decided elsewhere before.
    pub(crate) duplicates: TimeRing<HoldKey, ()>,
    /// Those of them that hold credits or have spent some.
    pub(crate) reversals: BTreeSet<HoldKey>,
    /// The move that the account has stopped for.
    pub(crate) stopped: Option<Departure>,
    /// The account's homes, if it has had several. Never forgotten, which takes 40 bytes a move.
    pub(crate) spans: Vec<HomeSpan>,
    /// What lost homes may have decided besides, by their last epochs.
    pub(crate) tails: BTreeMap<Epoch, Tail>,
}

/// A request that a region has accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) struct AwayRequest {
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub(crate) fingerprint: Digest16,
    /// The hold or charge that it made.
    #[n(1)]
    pub(crate) made: HoldKey,
}

/// What a region has accepted about a hold or charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) struct AwayDecision {
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub(crate) fingerprint: Digest16,
    /// Home's entry.
    #[n(1)]
    pub(crate) booked_at: Position,
}

/// Credits that home has set aside for one region. No figure but `held` ever falls.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Allocation {
    /// The region, and which of its allocations this is.
    #[n(0)]
    pub owner: Owner,
    /// The entry that opened it.
    #[n(1)]
    pub opened_by: Sequence,
    /// Whether it can be granted more.
    #[n(2)]
    pub status: AllocationStatus,
    /// Ever granted.
    #[n(3)]
    pub granted: Credits,
    /// Ever spent, as far as it is booked.
    #[n(4)]
    pub spent: Credits,
    /// Ever returned, as far as it is booked.
    #[n(5)]
    pub returned: Credits,
    /// Ever refunded to the tenant by the region's decision.
    #[n(6)]
    pub refunded: Credits,
    /// Taken back without hearing from the region.
    #[n(7)]
    pub taken_back: Credits,
    /// What of that turned out to have been spent, or given back in time.
    #[n(8)]
    pub proven: Credits,
    /// What the region's holds held when it last reported.
    #[n(9)]
    pub held: Credits,
    /// How much the region may overspend by the last voucher.
    #[n(10)]
    pub overdraft: Credits,
    /// The most that it may still believe it can overspend.
    #[n(11)]
    pub overdraft_worst: Credits,
    /// What the region may do by the last voucher.
    #[n(12)]
    pub mode: Mode,
    /// The last voucher's number.
    #[n(13)]
    pub voucher: u64,
    /// What was last asked back.
    #[n(14)]
    pub recall: Recall,
    /// How far the region's entries are booked.
    #[n(15)]
    pub booked: Booked,
    /// The lots it was granted from, in burn-down order.
    #[n(16)]
    pub lots: Vec<AllocatedLot>,
    /// Whether an operator decided that it was taken back, whatever the cap.
    #[n(17)]
    pub is_forced: bool,
    /// What becomes of it when its lease has run out, by the last voucher.
    #[n(18)]
    #[cbor(skip_if = "crate::codec::is_none")]
    pub on_expiry: OnExpiry,
    /// The last voucher that let the region keep it, where a later one does not: until home has booked
    /// that the region took up one of the later.
    #[n(19)]
    pub kept_by: Option<u64>,
    /// What was asked back for another region and has not come back yet.
    #[n(20)]
    pub transfer: Option<PendingTransfer>,
    /// Ever set aside under covers, beside what was granted.
    #[n(21)]
    #[cbor(skip_if = "crate::codec::is_none")]
    pub covered: Credits,
    /// What of that is not out any more: spent, returned or taken back.
    #[n(22)]
    #[cbor(skip_if = "crate::codec::is_none")]
    pub covered_gone: Credits,
    /// The covers of which not everything is booked, in the order in which they were given.
    #[n(23)]
    #[cbor(skip_if = "Vec::is_empty")]
    pub covers: Vec<Covered>,
    /// The life of the region's group for which it was made.
    #[n(24)]
    pub life: Option<Life>,
}

/// Credits that were asked back for another region. Until they come back they are the first region's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct PendingTransfer {
    /// Who is to have them.
    #[n(0)]
    pub to: Region,
    /// How much at most.
    #[n(1)]
    pub amount: Credits,
    /// The recall by which they were asked back.
    #[n(2)]
    pub recall: u64,
    /// The life of that region's group, should it need a new allocation.
    #[n(3)]
    pub life: Option<Life>,
}

/// Whether an allocation can be granted more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum AllocationStatus {
    /// It can.
    #[n(0)]
    Open,
    /// Not any more: it was taken back, and its region has not said what became of it.
    #[n(1)]
    TakenBack,
    /// Not any more: its region has lost track of it. Nothing is known of what is out.
    #[n(2)]
    Sealed,
    /// It is over: all is booked.
    #[n(3)]
    Closed,
}

/// The part of a lot that belongs to an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct AllocatedLot {
    /// The lot.
    #[n(0)]
    pub lot: LotNumber,
    /// How much of it was ever granted to the allocation.
    #[n(1)]
    pub given: Credits,
    /// How much of it home believes to be out still.
    #[n(2)]
    pub out: Credits,
}

/// Entries of a region, as home books them: those of one class, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Settlement {
    /// What they come to.
    #[n(0)]
    pub class: SettlementClass,
    /// The allocation afterwards.
    #[n(1)]
    pub allocation: Allocation,
    /// The entries.
    #[n(2)]
    pub shipped: Vec<Shipped>,
    /// The lot that makes up for what lapsed in a refund. Its number is the entry's sequence.
    #[n(3)]
    pub regrant: Option<LotTerms>,
}

/// What the entries of a settlement come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum SettlementClass {
    /// Credits were spent, or nothing that home counts.
    #[n(0)]
    Spend,
    /// Credits were given back to home.
    #[n(1)]
    Return,
    /// A capture was undone.
    #[n(2)]
    Refund,
    /// What was refunded was charged again.
    #[n(3)]
    Reclaim,
}

/// An entry of a region in home's ledger.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Shipped {
    /// The region's entry.
    #[n(0)]
    pub entry: Entry,
    /// Where the entry is about a hold or charge that has spent: what paid for it, as home knows it,
    /// and was not given back.
    #[n(1)]
    pub spent: Vec<Spend>,
    /// Whether the request had been decided elsewhere before.
    #[n(2)]
    #[cbor(skip_if = "crate::codec::is_none")]
    pub same: SameRequest,
}

/// What home knows of the request that an entry of a region decided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum SameRequest {
    /// Nothing: it is the first under its key, or has none.
    #[n(0)]
    #[default]
    First,
    /// The same request was booked before: this one is to be undone in its region (R10).
    #[n(1)]
    Duplicate,
    /// Another request was booked under the same key: both stand.
    #[n(2)]
    OtherUnderKey,
}

impl Settlement {
    /// The kind of home's entry.
    pub(crate) const fn kind(&self) -> &'static str {
        match self.class {
            SettlementClass::Return => "return",
            SettlementClass::Spend | SettlementClass::Refund | SettlementClass::Reclaim => "settle",
        }
    }
}

impl Allocation {
    /// A new allocation with nothing in it.
    pub(crate) fn new(owner: Owner, opened_by: Sequence) -> Self {
        let none = Credits::ZERO;
        Self {
            owner,
            opened_by,
            status: AllocationStatus::Open,
            granted: none,
            spent: none,
            returned: none,
            refunded: none,
            taken_back: none,
            proven: none,
            held: none,
            overdraft: none,
            overdraft_worst: none,
            mode: Mode::Local,
            voucher: 0,
            recall: Recall::default(),
            booked: Booked::default(),
            lots: Vec::new(),
            is_forced: false,
            on_expiry: OnExpiry::Keep,
            kept_by: None,
            transfer: None,
            covered: none,
            covered_gone: none,
            covers: Vec::new(),
            life: None,
        }
    }

    /// Whether the region may still believe that nothing is taken back from it without its word (R3).
    pub fn may_keep(&self) -> bool {
        self.on_expiry == OnExpiry::Keep || self.kept_by.is_some()
    }

    /// What is out, as far as home knows: set aside, and neither spent nor returned nor taken back.
    pub fn outstanding(&self) -> Credits {
        self.for_all().checked_add(self.covered()).unwrap_or(Credits::MAX)
    }

    /// What of it is there for whatever the region decides, and not under a cover.
    pub fn for_all(&self) -> Credits {
        self.above_granted().map_or_else(std::convert::identity, |_| Credits::ZERO)
    }

    /// How much of the overdraft is used, as far as home knows.
    pub fn overdraft_used(&self) -> Credits {
        self.above_granted().unwrap_or(Credits::ZERO)
    }

    /// Taken back, and not resolved: it may have been spent before.
    pub fn unresolved(&self) -> Credits {
        self.taken_back.saturating_sub(self.proven)
    }

    /// What the region may still spend beyond what is out, at the worst.
    pub fn overdraft_unused(&self) -> Credits {
        self.overdraft_worst.saturating_sub(self.overdraft_used())
    }

    /// Spent + returned + unresolved − granted, covers left aside: what is used above the grant, or how
    /// much is out.
    fn above_granted(&self) -> Result<Credits, Credits> {
        let gone = [self.spent, self.returned, self.unresolved()];
        let gone = gone.iter().fold(0_u128, |sum, part| sum.saturating_add(part.get().into()));
        let granted = u128::from(self.granted.get()).saturating_add(self.covered_gone.get().into());
        let amount = |difference: u128| {
            u64::try_from(difference)
                .ok()
                .and_then(|difference| Credits::from_u64(difference).ok())
                .unwrap_or(Credits::MAX)
        };
        match gone.checked_sub(granted) {
            Some(used) => Ok(amount(used)),
            None => Err(amount(granted.saturating_sub(gone))),
        }
    }

    /// Takes up to `amount` of what is out: of `preferred` first, then in burn-down order. A cover is
    /// taken from only where it is the one preferred.
    ///
    /// The lots are what the region says; the amounts are the truth. What was taken back here may
    /// have been spent there, so a lot may be short while another is not.
    pub(crate) fn draw(&mut self, preferred: Option<LotNumber>, amount: Credits) -> Vec<Spend> {
        let mut drawn = self.draw_cover(preferred, amount);
        let mut rest = amount.saturating_sub(sum(drawn.iter().map(|part| part.amount)));
        let is_preferred = |lot: &AllocatedLot| Some(lot.lot) == preferred;
        for wanted in [true, false] {
            for lot in self.lots.iter_mut().filter(|lot| is_preferred(lot) == wanted) {
                let part = lot.out.min(rest);
                if part.is_zero() {
                    continue;
                }
                lot.out = lot.out.saturating_sub(part);
                rest = rest.saturating_sub(part);
                drawn.push(Spend { source: Source::Lot(lot.lot), amount: part });
            }
        }
        drawn
    }
}

impl Default for Home {
    fn default() -> Self {
        Self::NONE.clone()
    }
}

impl Home {
    /// What there is to know of an account that has never had an allocation.
    pub(crate) const NONE: &Self = &Self {
        epoch: FIRST_EPOCH,
        allocations: BTreeMap::new(),
        generations: BTreeMap::new(),
        away: TimeRing::EMPTY,
        realised: Credits::ZERO,
        closed: BTreeMap::new(),
        requests: TimeRing::EMPTY,
        decided: TimeRing::EMPTY,
        duplicates: TimeRing::EMPTY,
        reversals: BTreeSet::new(),
        stopped: None,
        spans: Vec::new(),
        tails: BTreeMap::new(),
    };

    /// The allocation that a region can be granted more under.
    pub(crate) fn open_allocation(&self, region: Region) -> Option<&Allocation> {
        let generation = *self.generations.get(&region)?;
        let allocation = self.allocations.get(&Owner { region, generation })?;
        let is_open =
            allocation.status == AllocationStatus::Open && allocation.mode != Mode::Ending;
        is_open.then_some(allocation)
    }
}
