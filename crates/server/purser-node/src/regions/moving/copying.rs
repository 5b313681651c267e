//! Bringing accounts to another shard, part by part.
//!
//! ```text
//!  Source ── next part ──▶ here ── Import ──▶ the destination's leader
//!     ▲                                          │
//!     └───────── from where it has come ◀────────┘
//! ```
//!
//! Whoever copies keeps in mind how far the destination has come, and learns it again if it forgets.

use std::time::Instant;

use purser_ledger::{AccountName, Booked, Departure, ImportPart};
use purser_types::{Region, Sequence};

use super::messages::{MoveAnswer, MoveAsk, Obstacle, Part, Place, Presence};
use super::{MoveError, PATIENCE};
use crate::regions::Regions;
use crate::shards::Shard;

/// How often in a row a part may be refused while nothing gets on.
const SETBACKS_MAX: u32 = 3;

/// Where an account is taken over from: its home that goes on or has stopped, or a standby's replica of
/// one that was lost.
pub(super) trait Source: Sync {
    /// What comes after `place`; nothing if the account is not there.
    fn next_part(
        &self,
        account: &AccountName,
        place: Place,
        deadline: Instant,
    ) -> impl Future<Output = Result<Option<Part>, MoveError>> + Send;
}

/// The home of a tenant in a region, asked like any other shard.
pub(super) struct HomeIn<'a> {
    pub(super) regions: &'a Regions,
    pub(super) region: Region,
    pub(super) shard: Shard,
}

impl Source for HomeIn<'_> {
    async fn next_part(
        &self,
        account: &AccountName,
        place: Place,
        deadline: Instant,
    ) -> Result<Option<Part>, MoveError> {
        let ask = MoveAsk::Part { account: account.clone(), place };
        match self.regions.ask_move((self.region, self.shard), ask, deadline).await? {
            MoveAnswer::Part(part) => Ok(part),
            _ => Err(MoveError::Foreign),
        }
    }
}

/// An account on its way.
pub(super) struct Copying {
    pub(super) account: AccountName,
    pub(super) shard: Shard,
    /// Where it goes.
    to: Region,
    /// Whether what is there of it may be thrown away, if it came from elsewhere.
    may_begin_anew: bool,
    place: Place,
    presence: Presence,
    setbacks: u32,
    /// Whether all that there was went over in one step.
    is_near: bool,
}

impl Copying {
    /// An account of whose destination nothing is known yet.
    pub(super) fn new(account: AccountName, shard: Shard, to: Region) -> Self {
        Self {
            account,
            shard,
            to,
            may_begin_anew: false,
            place: Place::default(),
            presence: Presence::Absent,
            setbacks: 0,
            is_near: false,
        }
    }

    /// The same, where what is there of it may be thrown away if it came from elsewhere.
    pub(super) fn that_may_begin_anew(self) -> Self {
        Self { may_begin_anew: true, ..self }
    }

    /// Whether what is left fits into one step.
    pub(super) const fn is_near(&self) -> bool {
        self.is_near
    }

    /// Whether it is there up to its last entry, or at home there already. What is at home there under an
    /// epoch before is left over from then, and has not heard that it ended.
    pub(super) fn is_whole(&self, departure: Departure) -> bool {
        match self.presence {
            Presence::AtHome { epoch } => departure.epoch < epoch,
            Presence::Arriving(arriving) => arriving.is_whole(departure),
            Presence::Absent => false,
        }
    }

    /// Whether it is there up to an entry, with all that was refused until then, or at home there already.
    pub(super) fn is_up_to(&self, head: Booked) -> bool {
        match self.presence {
            Presence::AtHome { .. } => true,
            Presence::Arriving(arriving) => {
                arriving.head == head && arriving.memory_at == Some(head.sequence)
            }
            Presence::Absent => false,
        }
    }

    /// Whether there is as much or more of it there, and not the same.
    pub(super) fn is_beyond(&self, head: Booked) -> bool {
        match self.presence {
            Presence::Arriving(arriving) => {
                arriving.head != head && arriving.head.sequence >= head.sequence
            }
            Presence::AtHome { .. } | Presence::Absent => false,
        }
    }

    /// Throws away what is there of it.
    pub(super) async fn begin_anew(
        &mut self,
        regions: &Regions,
        deadline: Instant,
    ) -> Result<(), MoveError> {
        if self.setbacks >= SETBACKS_MAX {
            return Err(MoveError::Refused);
        }
        self.setbacks += 1;
        self.place = Place::default();
        self.import(regions, vec![ImportPart::Abandon], deadline).await.map(drop)
    }

    /// Notes what the destination says of itself.
    fn note(&mut self, presence: Presence) {
        self.place.after = match presence {
            Presence::Arriving(arriving) => arriving.head.sequence,
            Presence::Absent | Presence::AtHome { .. } => Sequence::ZERO,
        };
        self.presence = presence;
    }

    /// Asks how far it has come.
    pub(super) async fn look(&mut self, regions: &Regions) -> Result<(), MoveError> {
        let ask = MoveAsk::Presence { account: self.account.clone() };
        let deadline = Instant::now() + PATIENCE;
        match regions.ask_move((self.to, self.shard), ask, deadline).await? {
            MoveAnswer::Presence(presence) => {
                self.note(presence);
                Ok(())
            }
            _ => Err(MoveError::Foreign),
        }
    }

    /// Brings the next part over.
    pub(super) async fn step(
        &mut self,
        regions: &Regions,
        source: &impl Source,
        deadline: Instant,
    ) -> Result<(), MoveError> {
        let part = source.next_part(&self.account, self.place, deadline).await?;
        let Part { parts, memory, is_all } = part.ok_or(MoveError::Gone)?;
        let refused = self.import(regions, parts, deadline).await?;
        match refused {
            None => {
                self.setbacks = 0;
                self.place.memory = memory;
                self.is_near = is_all;
                Ok(())
            }
            Some(_) if self.setbacks >= SETBACKS_MAX => Err(MoveError::Refused),
            Some(Obstacle::Gap) => {
                self.setbacks += 1;
                Ok(())
            }
            Some(Obstacle::Forked) if self.may_begin_anew => {
                self.begin_anew(regions, deadline).await
            }
            Some(Obstacle::Forked | Obstacle::Unsound) => Err(MoveError::Refused),
        }
    }

    async fn import(
        &mut self,
        regions: &Regions,
        parts: Vec<ImportPart>,
        deadline: Instant,
    ) -> Result<Option<Obstacle>, MoveError> {
        let ask = MoveAsk::Import { account: self.account.clone(), parts };
        match regions.ask_move((self.to, self.shard), ask, deadline).await? {
            MoveAnswer::Imported { presence, refused } => {
                self.note(presence);
                Ok(refused)
            }
            _ => Err(MoveError::Foreign),
        }
    }
}
