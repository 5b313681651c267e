//! Where the account's home is: leaving, staying, arriving.
//!
//! ```text
//!  home under epoch e ── stop ──▶ stopped ── Placement: moved ──▶ home under e+1, elsewhere
//!          │                        └─────── Placement: aborted ─▶ home under e+1, here
//!          └──────────────── Placement: failed over ────────────▶ home under e+1, elsewhere
//! ```
//!
//! - INV-16: an account's epoch only grows, and after an entry that stops it the next one of its home
//!   begins another epoch.

use minicbor::{Decode, Encode};
use purser_types::{Credits, Epoch, HistoryError, LogTime, Region, Sequence};

use super::{Home, Tail};
use crate::account::{Account, Draft, Origin, Scribe};
use crate::entry::Fact;
use crate::moving::{Departure, Stay, TakeHome, Way};
use crate::protocol::Booked;
use crate::rejection::Rejection;
use crate::standing::Standing;

/// A new epoch of an account.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct HomeChange {
    /// How the account stands: it may have another home.
    #[n(0)]
    pub standing: Standing,
    /// The epoch.
    #[n(1)]
    pub epoch: Epoch,
    /// How it began.
    #[n(2)]
    pub began: EpochBegan,
}

/// How an epoch began.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum EpochBegan {
    /// The home before gave the account over whole.
    #[n(0)]
    Moved,
    /// A move was given up: the home is the one before.
    #[n(1)]
    Kept,
    /// The home before was lost, and may have decided what is not known here.
    #[n(2)]
    FailedOver(#[n(0)] Box<Tail>),
}

/// Where the home of an account is, as far as a group knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Residence {
    /// In this group since the entry, without a break; ever since, if that is none.
    Here(Sequence),
    /// The account was here, or is coming or leaving: what this group has of it may not be all there is.
    Elsewhere,
    /// This group has never heard of it.
    Unknown,
}

/// From which entry on an account had a home: so that a hold is known by who made it, also if its
/// number was given out twice because a home was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct HomeSpan {
    /// The first entry.
    #[n(0)]
    pub from: Sequence,
    /// The home.
    #[n(1)]
    pub home: Region,
    /// The epoch.
    #[n(2)]
    pub epoch: Epoch,
}

impl Account {
    /// The epoch under which this home decides, or decided last.
    pub fn epoch(&self) -> Epoch {
        self.home_side().map(|home| home.epoch).unwrap_or_default()
    }

    /// The move for which the account has stopped, if it has. It decides nothing then.
    pub fn stopped(&self) -> Option<Departure> {
        self.home_side().ok().and_then(|home| home.stopped)
    }

    /// Which home made an entry, and under which epoch. A hold's number alone does not say which hold
    /// is meant once a home was lost: the lost home may have given the same number to another.
    pub fn home_at(&self, sequence: Sequence) -> (Region, Epoch) {
        let Ok(home) = self.home_side() else { return (self.standing.home, Epoch::default()) };
        let mut spans = home.spans.iter().rev();
        let span = spans.find(|span| span.from <= sequence).or_else(|| home.spans.first());
        span.map_or((self.standing.home, home.epoch), |span| (span.home, span.epoch))
    }

    /// The homes that the account has had, in their order; none if it never had another.
    pub fn homes(&self) -> &[HomeSpan] {
        self.home_side().map(|home| home.spans.as_slice()).unwrap_or_default()
    }

    /// The entry since which the home is the one that it is; none if it never had another.
    pub fn home_since(&self) -> Sequence {
        let own = |span: &&HomeSpan| span.home == self.standing.home;
        let spans = self.homes();
        let stays = spans.iter().rev().take_while(own);
        let began = spans.iter().any(|span| !own(&span)).then(|| stays.last()).flatten();
        began.map_or(Sequence::ZERO, |span| span.from)
    }

    /// How many credits are set aside for what lost homes may have decided: F. Calls draw on what is
    /// available beyond that.
    pub fn quarantine(&self) -> Credits {
        self.home_side().map_or(Credits::ZERO, Home::quarantine)
    }

    /// How many credits of calls may be answered before every promotable standby has them: X. Nothing
    /// while credits are set aside for a lost home.
    pub fn answer_limit(&self) -> Credits {
        if self.quarantine().is_zero() {
            self.standing.policy.unacknowledged_max
        } else {
            Credits::ZERO
        }
    }

    /// Whether another account has had the same homes, and knows the same of lost ones.
    pub(crate) fn homes_equal(&self, other: &Self) -> bool {
        let of = |account: &Self| {
            let home = account.home_side().unwrap_or(Home::NONE);
            (home.epoch, home.stopped, home.spans.clone(), home.tails.clone())
        };
        of(self) == of(other)
    }

    /// Stops the account for a move: the last entry of this epoch. Refuses: another epoch; to where
    /// it is.
    pub(crate) fn decide_stop(&self, asked: Departure) -> Result<Draft, Rejection> {
        let epoch = self.home_side()?.epoch;
        if asked.epoch != epoch {
            return Err(Rejection::EpochFenced { epoch });
        }
        if asked.to == self.standing.home {
            return Err(Rejection::NothingNew);
        }
        Ok(Draft::still(Fact::HomeStopped(asked)))
    }

    /// Goes on under a new epoch, stopped or not. Refuses: an epoch that is not newer.
    pub(crate) fn decide_stay(&self, asked: Stay) -> Result<Draft, Rejection> {
        let epoch = self.home_side()?.epoch;
        if asked.epoch == epoch {
            return Err(Rejection::NothingNew);
        }
        if asked.epoch < epoch {
            return Err(Rejection::EpochFenced { epoch });
        }
        let standing = self.standing.clone();
        Ok(self.begin_epoch(standing, asked.epoch, EpochBegan::Kept))
    }

    fn begin_epoch(&self, standing: Standing, epoch: Epoch, began: EpochBegan) -> Draft {
        Draft::still(Fact::HomeMoved(Box::new(HomeChange { standing, epoch, began })))
    }

    /// Makes this the account's home. What has become due on the way comes first.
    ///
    /// After a fail-over, as many credits are set aside as the old home could answer for on its own.
    pub(crate) fn take_home(
        &mut self,
        asked: &TakeHome,
        now: LogTime,
        scribe: &mut Scribe<'_>,
    ) -> Result<(), HistoryError> {
        let began = match asked.way {
            Way::Moved => EpochBegan::Moved,
            Way::FailedOver { from } => {
                let last = Booked { sequence: self.head.sequence, hash: Some(self.head.hash) };
                let ended = Epoch(asked.epoch.0.saturating_sub(1));
                EpochBegan::FailedOver(Box::new(Tail::new(from, ended, last, self.answer_limit())))
            }
        };
        self.settle_due(now, scribe)?;
        let standing = Standing { home: asked.home, ..self.standing.clone() };
        let draft = self.begin_epoch(standing, asked.epoch, began);
        self.append(draft, now, Origin::default(), scribe);
        Ok(())
    }

    /// The account has stopped.
    pub(crate) fn evolve_stop(&mut self, departure: Departure) {
        if let Some(home) = self.home_side_mut() {
            home.stopped = Some(departure);
        }
    }

    /// A new epoch has begun with the entry `from`. Every region is to hear of it.
    pub(crate) fn evolve_home(&mut self, change: &HomeChange, from: Sequence) {
        let first =
            HomeSpan { from: Sequence::ZERO.next(), home: self.standing.home, epoch: self.epoch() };
        self.standing = change.standing.clone();
        let Some(home) = self.home_side_mut() else { return };
        if home.spans.is_empty() {
            home.spans.push(first);
        }
        home.epoch = change.epoch;
        home.stopped = None;
        home.spans.push(HomeSpan { from, home: change.standing.home, epoch: change.epoch });
        if let EpochBegan::FailedOver(tail) = &change.began {
            home.tails.insert(tail.epoch, (**tail).clone());
        }
        self.renew_vouchers();
    }
}

impl Home {
    /// What is set aside for all lost homes.
    pub(crate) fn quarantine(&self) -> Credits {
        let parts = self.tails.values().map(|tail| tail.quarantine);
        parts.fold(Credits::ZERO, |sum, part| sum.checked_add(part).unwrap_or(Credits::MAX))
    }
}

impl EpochBegan {
    /// The kind of the entry.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Moved | Self::FailedOver(_) => "home_moved",
            Self::Kept => "home_kept",
        }
    }
}
