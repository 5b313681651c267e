//! What may be asked of an account.
//!
//! A [`Command`] travels through the Raft log; its bytes are pinned by golden tests. Values that
//! callers leave out are filled in before the log, so that two spellings of one request are one
//! request.

mod about;
mod allocating;

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use purser_types::{
    BudgetName, Credits, Epoch, Generation, IdempotencyKey, Life, LogTime, Owner, Region, Sequence,
    Span, TenantId, Unit,
};

pub use self::allocating::{
    Allocate, Cover, OnCredit, Return, SetAllocation, TakeBack, Transfer, WriteOff,
};
use crate::budgets::{RemoveBudget, SetBudget};
use crate::digest::{Digest16, digest16};
use crate::events::{DiscardEvent, Event, ResolveEvent};
use crate::jobs::{
    CreateJob, DiscardJob, JobVerdict, LeaseJobs, RedriveJob, RenewJob, ReportOutcome,
};
use crate::moving::{Departure, Import, Stay, StepDown, TailPage, TakeHome, WriteOffTail};
use crate::policy::{Policy, PolicyChange};
use crate::protocol::{Report, Voucher};
use crate::rejection::Rejection;
use crate::sinks::SinkCommand;

/// The name of an account: a tenant and a unit. One account is one sequence of entries.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct AccountName {
    /// Whose credits they are.
    #[n(0)]
    pub tenant: TenantId,
    /// What is counted.
    #[n(1)]
    pub unit: Unit,
}

/// What the log carries: items for one account that take effect together or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Command {
    /// Changes one account.
    #[n(0)]
    Account {
        /// The account.
        #[n(0)]
        account: AccountName,
        /// What is asked, in order; usually one item.
        #[n(1)]
        items: Vec<Item>,
        /// Which of the books that this group keeps of the account: home's, or that of one of this
        /// region's allocations.
        #[n(2)]
        #[cbor(default)]
        generation: Generation,
    },
    /// Writes down what has become due in up to `accounts_max` accounts. Decisions never depend on
    /// it: whoever looks at an account applies what is due first.
    #[n(1)]
    Sweep {
        /// How many accounts to look at.
        #[n(0)]
        accounts_max: u32,
    },
    /// In a region: notes that home decides a keyed call, before the call is passed on. From then on
    /// no book of the region decides it (R10).
    #[n(2)]
    PassOn {
        /// The account.
        #[n(0)]
        account: AccountName,
        /// The call. Only an authorize or a charge under a key is noted: nothing else can be decided
        /// in two places.
        #[n(1)]
        item: Box<Item>,
        /// How long home remembers the call's key.
        #[n(2)]
        retention: Span,
    },
    /// Takes over a part of an account whose home is in another group.
    #[n(3)]
    Import(#[n(0)] Import),
    /// Makes this group the home of an account that it has taken over.
    #[n(4)]
    TakeHome(#[n(0)] TakeHome),
    /// Ends an account here whose home is elsewhere by now.
    #[n(5)]
    StepDown(#[n(0)] StepDown),
    /// In a region whose group was restored from a backup: begins another life, in which no book goes on
    /// and none is begun that was set aside before (R9). Nothing happens in a life that is none of those
    /// that the backup knew: then another node has begun it.
    #[n(6)]
    BeginLife {
        /// The lives that the backup knew.
        #[n(0)]
        known: Vec<Option<Life>>,
        /// The new one.
        #[n(1)]
        life: Life,
    },
    /// Gives jobs that are due to a worker.
    #[n(7)]
    LeaseJobs(#[n(0)] LeaseJobs),
    /// Changes a webhook of the shard.
    #[n(9)]
    Sink(#[n(0)] Box<SinkCommand>),
}

impl Command {
    /// Changes an account whose home is here.
    pub fn at_home(account: AccountName, items: Vec<Item>) -> Self {
        Self::Account { account, items, generation: Generation::HOME }
    }
}

/// One operation and the circumstances in which it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Item {
    /// Who asked, under which key, and why.
    #[n(0)]
    pub context: Context,
    /// What is asked.
    #[n(1)]
    pub operation: Operation,
    /// What the leader has found out, if the call was short of credits before: at home about credits that
    /// are out in regions, in a region about what home would pay. It is not part of what is asked, and a
    /// call that can be paid is not refused for it.
    #[n(2)]
    pub shortage: Option<Shortage>,
}

/// Why nobody can pay for a call that home itself, or a region with its right, cannot pay.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Shortage {
    /// All that is out would not suffice, or has come home.
    #[n(0)]
    Exhausted,
    /// What could pay is in regions that did not answer.
    #[n(1)]
    Stranded {
        /// What is out there.
        #[n(0)]
        amount: Credits,
        /// Where; each region that has an allocation at most once.
        #[n(1)]
        regions: Vec<Region>,
    },
    /// In a region: home does not cover it, and says why.
    #[n(2)]
    NotCovered(#[n(0)] Box<Rejection>),
}

/// The circumstances of an operation. None of this changes what the operation does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Context {
    /// The caller's name for this change. Only the service's own operations have none.
    #[n(0)]
    pub key: Option<IdempotencyKey>,
    /// Who asked: the name of the token that was used.
    #[n(1)]
    pub actor: Option<Box<str>>,
    /// Why, in the caller's words.
    #[n(2)]
    pub reason: Option<Box<str>>,
    /// The request's id, for finding it in logs and traces.
    #[n(3)]
    pub request_id: Option<Box<str>>,
    /// The caller's notes, kept with the entry and otherwise ignored.
    #[n(4)]
    pub metadata: Metadata,
}

/// A caller's notes: at most 16 keys, 2 KiB in all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct Metadata(#[n(0)] BTreeMap<Box<str>, Box<str>>);

/// The notes are too many or too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("metadata may have at most {} keys and {} bytes", Metadata::KEYS_MAX, Metadata::BYTES_MAX)]
pub struct MetadataTooLarge;

impl Metadata {
    /// The most keys.
    pub const KEYS_MAX: usize = 16;
    /// The most bytes, keys and values together.
    pub const BYTES_MAX: usize = 2_048;

    /// Checks notes against the limits.
    pub fn from_pairs(pairs: BTreeMap<Box<str>, Box<str>>) -> Result<Self, MetadataTooLarge> {
        let bytes: usize =
            pairs.iter().map(|(key, value)| key.len().saturating_add(value.len())).sum();
        if pairs.len() > Self::KEYS_MAX || bytes > Self::BYTES_MAX {
            return Err(MetadataTooLarge);
        }
        Ok(Self(pairs))
    }

    /// The notes, ordered by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// Whether there are no notes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The number of a lot: the sequence of the entry that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct LotNumber(#[n(0)] pub Sequence);

impl LotNumber {
    /// In a region: not a lot, but the overdraft that home allows. No entry has sequence 0.
    pub const OVERDRAFT: Self = Self(Sequence::ZERO);
}

/// The number of a hold or a charge: the sequence of the entry that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct HoldNumber(#[n(0)] pub Sequence);

/// An operation, with everything in it that decides what happens.
///
/// Adding a variant needs a new number; numbers are never used again.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Operation {
    /// Opens the account.
    #[n(0)]
    Open(#[n(0)] Open),
    /// Gives credits: makes a lot.
    #[n(1)]
    Grant(#[n(0)] Grant),
    /// Sets credits aside for work that has not been done yet.
    #[n(2)]
    Authorize(#[n(0)] Authorize),
    /// Takes all or part of a hold.
    #[n(3)]
    Capture(#[n(0)] Capture),
    /// Gives all that is left of a hold back.
    #[n(4)]
    Release(#[n(0)] Release),
    /// Moves a hold's deadline later.
    #[n(5)]
    Extend(#[n(0)] Extend),
    /// Authorizes and captures in one step.
    #[n(6)]
    Charge(#[n(0)] Charge),
    /// Gives captured credits back.
    #[n(7)]
    Refund(#[n(0)] Refund),
    /// Charges again what was refunded, because the job succeeded after all.
    #[n(8)]
    Reclaim(#[n(0)] Reclaim),
    /// Takes back what is free of a lot.
    #[n(9)]
    Void(#[n(0)] Void),
    /// Corrects the available credits by an operator's decision.
    #[n(10)]
    Adjust(#[n(0)] Adjust),
    /// Changes the account's policy. Carries configuration only, never a balance.
    #[n(11)]
    SetPolicy(#[n(0)] PolicyChange),
    /// Stops new authorizes and charges.
    #[n(12)]
    Freeze,
    /// Ends a freeze.
    #[n(13)]
    Unfreeze,
    /// Closes the account for good.
    #[n(14)]
    Close(#[n(0)] Close),
    /// At home: sets credits aside for a region.
    #[n(15)]
    Allocate(#[n(0)] Allocate),
    /// At home: changes what a region may do, or asks credits back.
    #[n(16)]
    SetAllocation(#[n(0)] SetAllocation),
    /// At home: books what a region reports.
    #[n(17)]
    Settle(#[n(0)] Report),
    /// At home: takes an allocation back without hearing from its region.
    #[n(18)]
    TakeBack(#[n(0)] TakeBack),
    /// In a region: takes up home's word.
    #[n(19)]
    Accept(#[n(0)] Box<Voucher>),
    /// In a region: gives free credits back.
    #[n(20)]
    Return(#[n(0)] Return),
    /// In a region: ends the allocation, once nothing is held.
    #[n(21)]
    Finish,
    /// In a region: serves nothing any more.
    #[n(22)]
    Seal,
    /// At home: ends an allocation of which nothing more will be heard.
    #[n(23)]
    WriteOff(#[n(0)] WriteOff),
    /// At home: asks credits back from one region for another, which gets what comes back of them.
    #[n(24)]
    Transfer(#[n(0)] Transfer),
    /// At home: stops the account for a move. From then on all is refused but [`Operation::Stay`].
    #[n(25)]
    Stop(#[n(0)] Departure),
    /// At home: goes on under a new epoch, because a move was given up.
    #[n(26)]
    Stay(#[n(0)] Stay),
    /// At home: books what a lost home had decided.
    #[n(27)]
    BookTail(#[n(0)] TailPage),
    /// At home: gives up on what a lost home had decided.
    #[n(28)]
    WriteOffTail(#[n(0)] WriteOffTail),
    /// At home: sets credits aside for one operation of a region, where the region's right does not
    /// suffice.
    #[n(29)]
    Cover(#[n(0)] Cover),
    /// Creates a job, and authorizes or charges what it costs.
    #[n(30)]
    CreateJob(#[n(0)] Box<CreateJob>),
    /// Tells how an attempt of a job ended.
    #[n(31)]
    ReportOutcome(#[n(0)] ReportOutcome),
    /// Keeps a job for longer.
    #[n(32)]
    RenewJob(#[n(0)] RenewJob),
    /// Lets a dead job be tried again.
    #[n(33)]
    RedriveJob(#[n(0)] RedriveJob),
    /// Lets nothing become of a job.
    #[n(34)]
    DiscardJob(#[n(0)] DiscardJob),
    /// Takes a usage event in.
    #[n(36)]
    RecordEvent(#[n(0)] Box<Event>),
    /// Takes an event that is parked after all.
    #[n(37)]
    ResolveEvent(#[n(0)] ResolveEvent),
    /// Lets nothing become of an event that is parked.
    #[n(38)]
    DiscardEvent(#[n(0)] DiscardEvent),
    /// Makes a budget, or changes its limit and its periods.
    #[n(39)]
    SetBudget(#[n(0)] Box<SetBudget>),
    /// Removes a budget that none is below.
    #[n(40)]
    RemoveBudget(#[n(0)] RemoveBudget),
}

impl Operation {
    /// The closed allocation under which a region made the hold or charge that this is about, if it can be
    /// about one.
    pub fn away_mut(&mut self) -> Option<&mut Option<Owner>> {
        if let Self::Capture(Capture { away, .. })
        | Self::Release(Release { away, .. })
        | Self::Extend(Extend { away, .. })
        | Self::Refund(Refund { away, .. })
        | Self::Reclaim(Reclaim { away, .. }) = self
        {
            Some(away)
        } else {
            None
        }
    }
}

/// See [`Operation::Open`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Open {
    /// Where the account's home is.
    #[n(0)]
    pub home: Region,
    /// Its policy.
    #[n(1)]
    pub policy: Policy,
    /// The epoch under which its tenant has this home; the first one if that is not said.
    #[n(2)]
    pub epoch: Option<Epoch>,
}

/// See [`Operation::Grant`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Grant {
    /// How much. At least 1.
    #[n(0)]
    pub amount: Credits,
    /// What kind of credits.
    #[n(1)]
    pub category: Category,
    /// Lower spends first.
    #[n(2)]
    pub priority: u8,
    /// From when on the lot can be used; from now on if none is named.
    #[n(3)]
    pub effective_at: Option<LogTime>,
    /// When the lot ends; never if none is named.
    #[n(4)]
    pub expires_at: Option<LogTime>,
    /// The business fact behind the grant. Unique in the account for ever.
    #[n(5)]
    pub source_ref: Option<Box<str>>,
}

impl Grant {
    /// The priority of a lot for which none is named.
    pub const PRIORITY_DEFAULT: u8 = 100;
}

/// What kind of credits a lot holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum Category {
    /// Given away; spent before paid ones of the same priority and expiry.
    #[n(0)]
    Promotional,
    /// Bought.
    #[n(1)]
    Paid,
}

/// See [`Operation::Authorize`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Authorize {
    /// How much. At least 1.
    #[n(0)]
    pub amount: Credits,
    /// How long the hold lives, from log time on.
    #[n(1)]
    pub ttl: Span,
    /// The caller's own name for the work.
    #[n(2)]
    pub reference: Option<Box<str>>,
    /// The budgets that are asked as well, in the order in which they are tried.
    #[n(3)]
    #[cbor(skip_if = "crate::codec::is_none")]
    pub budgets: Box<[BudgetName]>,
}

impl Authorize {
    /// How long a hold lives if no time is named.
    pub const TTL_DEFAULT: Span = Span::from_secs(900);
    /// The shortest life of a hold.
    pub const TTL_MIN: Span = Span::from_secs(1);
    /// The longest life of a hold, extensions included.
    pub const TTL_MAX: Span = Span::from_days(7);
}

/// See [`Operation::Capture`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Capture {
    /// The hold.
    #[n(0)]
    pub hold: HoldNumber,
    /// How much more is taken; all that is still held if none is named.
    #[n(1)]
    pub amount: Option<Credits>,
    /// Whether this is the last capture, which frees the rest at once.
    #[n(2)]
    pub is_final: bool,
    /// Whether a shortfall may become debt, within the account's limit.
    #[n(3)]
    pub allow_debt: bool,
    /// What to do if the hold has expired.
    #[n(4)]
    pub if_expired: IfExpired,
    /// At home: the closed allocation under which a region made the hold.
    #[n(5)]
    pub away: Option<Owner>,
}

/// What a capture does when its hold has expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum IfExpired {
    /// It is refused.
    #[n(0)]
    Refuse,
    /// It becomes a late capture: a charge that is linked to the hold.
    #[n(1)]
    Charge,
}

/// See [`Operation::Release`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Release {
    /// The hold.
    #[n(0)]
    pub hold: HoldNumber,
    /// At home: the closed allocation under which a region made the hold.
    #[n(1)]
    pub away: Option<Owner>,
}

/// See [`Operation::Extend`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Extend {
    /// The hold.
    #[n(0)]
    pub hold: HoldNumber,
    /// The new deadline.
    #[n(1)]
    pub until: LogTime,
    /// At home: the closed allocation under which a region made the hold.
    #[n(2)]
    pub away: Option<Owner>,
}

/// See [`Operation::Charge`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Charge {
    /// How much. At least 1.
    #[n(0)]
    pub amount: Credits,
    /// Whether a shortfall may become debt, within the account's limit.
    #[n(1)]
    pub allow_debt: bool,
    /// The caller's own name for the work.
    #[n(2)]
    pub reference: Option<Box<str>>,
    /// The budgets that are asked as well, in the order in which they are tried.
    #[n(3)]
    #[cbor(skip_if = "crate::codec::is_none")]
    pub budgets: Box<[BudgetName]>,
}

/// See [`Operation::Refund`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Refund {
    /// The hold or charge.
    #[n(0)]
    pub target: Target,
    /// How much; all that can be refunded if none is named.
    #[n(1)]
    pub amount: Option<Credits>,
    /// At home: the closed allocation under which a region made the hold or charge.
    #[n(2)]
    pub away: Option<Owner>,
}

/// See [`Operation::Reclaim`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Reclaim {
    /// The hold or charge.
    #[n(0)]
    pub target: Target,
    /// At home: the closed allocation under which a region made the hold or charge.
    #[n(1)]
    pub away: Option<Owner>,
}

/// What a refund or reclaim is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Target {
    /// A hold.
    #[n(0)]
    Hold(#[n(0)] HoldNumber),
    /// A charge.
    #[n(1)]
    Charge(#[n(0)] HoldNumber),
}

impl Target {
    /// Its number, whichever it is.
    pub const fn number(self) -> HoldNumber {
        match self {
            Self::Hold(number) | Self::Charge(number) => number,
        }
    }
}

/// See [`Operation::Void`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Void {
    /// The lot.
    #[n(0)]
    pub lot: LotNumber,
    /// The state the operator saw.
    #[n(1)]
    pub confirm: Confirm,
}

/// See [`Operation::Adjust`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Adjust {
    /// Adds credits: makes a paid lot that never expires.
    #[n(0)]
    Add {
        /// How much. At least 1.
        #[n(0)]
        amount: Credits,
    },
    /// Takes available credits in burn-down order to `voided`; refused if short.
    #[n(1)]
    Remove {
        /// How much. At least 1.
        #[n(0)]
        amount: Credits,
    },
}

/// See [`Operation::Close`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Close {
    /// The state the operator saw.
    #[n(0)]
    pub confirm: Confirm,
}

/// A destructive act names the state its dry run showed, so that it can not hit another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct Confirm(#[n(0)] pub Sequence);

impl Item {
    /// An operation and the circumstances in which it was asked for.
    pub const fn new(context: Context, operation: Operation) -> Self {
        Self { context, operation, shortage: None }
    }

    /// The digest of the key, if this begins something.
    pub(crate) fn key_of_beginning(&self) -> Option<Digest16> {
        let key = self.context.key.as_ref().filter(|_| self.operation.begins())?;
        Some(digest16(key.as_str().as_bytes()))
    }

    /// What a repeat is recognized by; nothing without a key.
    ///
    /// The fingerprint is of the operation with defaults filled in, and of nothing else: not of
    /// headers, spelling, metadata, reason or actor.
    pub fn identity(&self) -> Option<Identity> {
        let key = self.context.key.as_ref()?;
        // The epoch is what the service knows, and nothing that anybody asks for.
        let bytes = if let Operation::Open(open) = &self.operation {
            crate::codec::encode(&Operation::Open(Open { epoch: None, ..open.clone() }))
        } else if let Operation::ReportOutcome(
            outcome @ ReportOutcome { verdict: JobVerdict::Succeeded, .. },
        ) = &self.operation
        {
            // Whoever has done the work, it is the same success: workers share the job's key.
            let outcome = ReportOutcome { lease: None, ..outcome.clone() };
            crate::codec::encode(&Operation::ReportOutcome(outcome))
        } else if let Operation::SetBudget(asked) = &self.operation {
            crate::codec::encode(&Operation::SetBudget(Box::new(asked.unresolved())))
        } else {
            crate::codec::encode(&self.operation)
        };
        Some(Identity { key: digest16(key.as_str().as_bytes()), fingerprint: digest16(&bytes) })
    }
}

/// What a repeat of a request is recognized by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Identity {
    /// Of the idempotency key.
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub key: Digest16,
    /// Of what was asked.
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub fingerprint: Digest16,
}
