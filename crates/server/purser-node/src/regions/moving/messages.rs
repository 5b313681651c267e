//! What is asked of the leaders of shards while a tenant's home moves, and what they answer.
//!
//! Each ask may be lost, repeated or overtaken: it names what its sender has seen, and whoever is
//! asked does what is still to be done of it.

use minicbor::{Decode, Encode};
use purser_ledger::{AccountName, Booked, Departure, ImportPart, ImportProgress, TailPage, Way};
use purser_placement::TenantPlacement;
use purser_types::{Epoch, Region, Sequence, TenantId};

/// A step of a move.
#[derive(Debug, Clone, Encode, Decode)]
pub(crate) enum MoveAsk {
    /// To a shard that may have accounts of a tenant: which.
    #[n(0)]
    Accounts {
        /// Whose.
        #[n(0)]
        tenant: TenantId,
    },
    /// To the source: stop the tenant's accounts for a move.
    #[n(1)]
    Stop {
        /// Whose.
        #[n(0)]
        tenant: TenantId,
        /// The move, and the epoch that ends by it.
        #[n(1)]
        departure: Departure,
        /// Whether accounts that had stopped for an earlier move are to stop for this one: that one was
        /// given up.
        #[n(2)]
        revives: bool,
    },
    /// To the source: what comes next of an account.
    #[n(2)]
    Part {
        /// Which account.
        #[n(0)]
        account: AccountName,
        /// What is known of it.
        #[n(1)]
        place: Place,
    },
    /// To a shard of the tenant's home: go on under the placement's epoch, or become home under it.
    #[n(3)]
    Settle {
        /// Whose accounts.
        #[n(0)]
        tenant: TenantId,
        /// Where its home is.
        #[n(1)]
        placement: TenantPlacement,
    },
    /// To a shard of a region that is not home: these accounts are at home elsewhere, and what is left of
    /// earlier moves is of no use.
    #[n(4)]
    StepDown {
        /// Whose accounts.
        #[n(0)]
        tenant: TenantId,
        /// Where their home is.
        #[n(1)]
        placement: TenantPlacement,
        /// Which accounts.
        #[n(2)]
        accounts: Vec<AccountName>,
    },
    /// To the destination: how far an account has come.
    #[n(5)]
    Presence {
        /// Which account.
        #[n(0)]
        account: AccountName,
    },
    /// To the destination: parts of one account, in their order.
    #[n(6)]
    Import {
        /// Which account.
        #[n(0)]
        account: AccountName,
        /// The parts.
        #[n(1)]
        parts: Vec<ImportPart>,
    },
    /// To the destination: become the home of an account.
    #[n(7)]
    TakeHome {
        /// Which account.
        #[n(0)]
        account: AccountName,
        /// Where its home is.
        #[n(1)]
        placement: TenantPlacement,
        /// How the epoch before ended.
        #[n(2)]
        way: Way,
        /// The account's last entry under that epoch.
        #[n(3)]
        head: Booked,
    },
    /// To a shard of a region that takes over: how many of the tenant's accounts are not home yet.
    #[n(8)]
    Arriving {
        /// Whose.
        #[n(0)]
        tenant: TenantId,
    },
    /// To a shard of the home: which tails of lost homes are open.
    #[n(9)]
    Tails {
        /// Whose.
        #[n(0)]
        tenant: TenantId,
    },
    /// To a shard of a lost home that is heard of again: what comes next of its tail.
    #[n(10)]
    Tail {
        /// Which account.
        #[n(0)]
        account: AccountName,
        /// Where its home is: the lost one steps down first.
        #[n(1)]
        placement: TenantPlacement,
        /// The lost home's last epoch.
        #[n(2)]
        epoch: Epoch,
        /// The last of its entries that is known.
        #[n(3)]
        after: Booked,
        /// Entries before that, the latest first, for a lost home that never had that one.
        #[n(4)]
        #[cbor(default)]
        earlier: Vec<Booked>,
    },
    /// To a shard of the home: book a part of a tail.
    #[n(11)]
    BookTail {
        /// Which account.
        #[n(0)]
        account: AccountName,
        /// The part.
        #[n(1)]
        page: TailPage,
    },
    /// To the first shard: look at the tenant, of which Placement says something new.
    #[n(12)]
    Look {
        /// Whose.
        #[n(0)]
        tenant: TenantId,
    },
}

/// How much of an account a destination has: from where its source is to go on.
#[derive(Debug, Clone, Copy, Default, Encode, Decode)]
pub(crate) struct Place {
    /// The last entry.
    #[n(0)]
    pub(crate) after: Sequence,
    /// How much of the memory.
    #[n(1)]
    pub(crate) memory: MemoryPlace,
}

/// How much of an account's memory a destination has. The source's leader gives the numbers; another
/// leader does not know them, and begins anew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub(crate) struct MemoryPlace {
    /// The state of the account of which everything is there; 0 if there is none.
    #[n(0)]
    pub(crate) whole: u64,
    /// The state that is being copied; 0 if none is.
    #[n(1)]
    pub(crate) copying: u64,
    /// How many decisions of that one are there.
    #[n(2)]
    pub(crate) count: u64,
}

/// What a shard says of a step.
#[derive(Debug, Clone, Encode, Decode)]
pub(crate) enum MoveAnswer {
    /// To [`MoveAsk::Accounts`] and [`MoveAsk::Stop`].
    #[n(0)]
    Accounts(#[n(0)] Vec<SourceAccount>),
    /// To [`MoveAsk::Part`]; nothing if there is no such account at home there.
    #[n(1)]
    Part(#[n(0)] Option<Part>),
    /// To [`MoveAsk::Presence`] and [`MoveAsk::TakeHome`].
    #[n(2)]
    Presence(#[n(0)] Presence),
    /// To [`MoveAsk::Import`]: how far the account has come, and what of it was refused.
    #[n(3)]
    Imported {
        /// So far.
        #[n(0)]
        presence: Presence,
        /// Why no further.
        #[n(1)]
        refused: Option<Obstacle>,
    },
    /// To [`MoveAsk::Settle`] and [`MoveAsk::StepDown`]: how many accounts could not follow. To
    /// [`MoveAsk::Arriving`]: how many there are. To [`MoveAsk::Look`]: nothing.
    #[n(4)]
    Left(#[n(0)] u64),
    /// To [`MoveAsk::Tails`] and [`MoveAsk::BookTail`].
    #[n(5)]
    Tails(#[n(0)] Vec<OpenTail>),
    /// To [`MoveAsk::Tail`]; nothing if the entry was never there, or the account has not stepped down.
    #[n(6)]
    Tail(#[n(0)] Option<TailPage>),
}

/// A tail that is neither booked to its end nor written off.
#[derive(Debug, Clone, Encode, Decode)]
pub(crate) struct OpenTail {
    /// Of which account.
    #[n(0)]
    pub(crate) account: AccountName,
    /// The lost home.
    #[n(1)]
    pub(crate) from: Region,
    /// Its last epoch.
    #[n(2)]
    pub(crate) epoch: Epoch,
    /// The last of its entries that is booked.
    #[n(3)]
    pub(crate) booked: Booked,
    /// As long as none is: entries before the last that came over, the latest first.
    #[n(4)]
    #[cbor(default)]
    pub(crate) earlier: Vec<Booked>,
}

/// An account at home in a shard.
#[derive(Debug, Clone, Encode, Decode)]
pub(crate) struct SourceAccount {
    /// The account.
    #[n(0)]
    pub(crate) account: AccountName,
    /// The epoch under which it decides, or has decided last.
    #[n(1)]
    pub(crate) epoch: Epoch,
    /// Its last entry.
    #[n(2)]
    pub(crate) head: Booked,
    /// The move that it has stopped for, if it has: its last entry is the last of its epoch then.
    #[n(3)]
    pub(crate) stopped: Option<Departure>,
}

/// What comes next of an account.
#[derive(Debug, Clone, Encode, Decode)]
pub(crate) struct Part {
    /// To be imported, in their order; none if there is nothing new.
    #[n(0)]
    pub(crate) parts: Vec<ImportPart>,
    /// How much of the memory is there with them.
    #[n(1)]
    pub(crate) memory: MemoryPlace,
    /// Whether this was all there was when it was read.
    #[n(2)]
    pub(crate) is_all: bool,
}

/// How far an account has come in a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) enum Presence {
    /// It is at home there.
    #[n(0)]
    AtHome {
        /// Under this epoch.
        #[n(0)]
        epoch: Epoch,
    },
    /// It is being taken over.
    #[n(1)]
    Arriving(#[n(0)] Arriving),
    /// Nothing of it is there.
    #[n(2)]
    Absent,
}

/// See [`Presence::Arriving`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Arriving {
    /// The last entry.
    #[n(0)]
    pub(crate) head: Booked,
    /// How many entries the source had when its memory was there as a whole.
    #[n(1)]
    pub(crate) memory_at: Option<Sequence>,
    /// Whether the last entry ends an epoch.
    #[n(2)]
    pub(crate) stopped: Option<Departure>,
}

/// Why a part was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub(crate) enum Obstacle {
    /// What is there is not what leads to the part: go on from what is there.
    #[n(0)]
    Gap,
    /// What is there came from elsewhere, and is of no use.
    #[n(1)]
    Forked,
    /// The part is no part of an account: the source is damaged, or lies.
    #[n(2)]
    Unsound,
}

impl From<ImportProgress> for Arriving {
    fn from(progress: ImportProgress) -> Self {
        let ImportProgress { head, memory_at, stopped } = progress;
        Self { head, memory_at, stopped }
    }
}

impl Arriving {
    /// Whether everything is there up to the last entry of an epoch that ended by a move.
    pub(super) fn is_whole(&self, departure: Departure) -> bool {
        self.stopped == Some(departure) && self.memory_at == Some(self.head.sequence)
    }
}
