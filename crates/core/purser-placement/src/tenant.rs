//! One tenant's placement, and the one place where a step of it is decided.
//!
//! `decide` looks and answers; what it answers is the placement as it will be. Nothing else makes
//! one.

use std::collections::BTreeSet;

use minicbor::{Decode, Encode};
use purser_types::{Epoch, Region};

use crate::change::ChangeNumber;
use crate::command::Operation;
use crate::refusal::Refusal;
use crate::regions::Regions;
use crate::shared::Shared;

/// Who is home of a tenant, under which epoch, and what stands by.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub struct TenantPlacement {
    /// The region whose ledger decides.
    #[n(0)]
    pub home: Region,
    /// Counts the homes, and the moves that were given up.
    #[n(1)]
    pub epoch: Epoch,
    /// How the epoch began. A request that ended the epoch before it is told by this when it is
    /// repeated.
    #[n(2)]
    pub beginning: Beginning,
    /// Where the tenant stands.
    #[n(3)]
    pub state: PlacementState,
    /// Which regions follow the home, by name. Never the home.
    #[n(4)]
    pub standbys: Shared<Standby>,
    /// When any of this last changed.
    #[n(5)]
    pub change: ChangeNumber,
    /// When a standby was last promoted; nothing if none ever was. Whoever has followed a home before
    /// follows it again only if that home knows of this.
    #[n(6)]
    #[cbor(default, skip_if = "ChangeNumber::is_none")]
    pub failed_over: ChangeNumber,
}

/// How an epoch began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum Beginning {
    /// The tenant was opened: epoch 1.
    #[n(0)]
    Opened,
    /// A move was finished.
    #[n(1)]
    Moved,
    /// A move was given up, so the home is the one before.
    #[n(2)]
    Aborted,
    /// A standby was promoted.
    #[n(3)]
    FailedOver,
}

/// Where a tenant stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub enum PlacementState {
    /// Nothing is under way.
    #[n(0)]
    Settled,
    /// Home may have stopped, so the epoch has to end: forward or back, whoever asks first.
    #[n(1)]
    Moving {
        /// The destination.
        #[n(0)]
        to: Region,
    },
    /// Old homes may have decided what the present one does not know. The present one sets aside
    /// what that can be worth (how much is the ledger's to say) until every tail is resolved.
    #[n(2)]
    FailedOver {
        /// The old homes, by name; at least one.
        #[n(0)]
        tails: Shared<Tail>,
    },
}

/// An old home from which a tenant was failed over, and whose last entries may be unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Tail {
    /// The old home.
    #[n(0)]
    pub from: Region,
    /// The last epoch that it was home under. A region that was lost twice has one tail that
    /// reaches over both.
    #[n(1)]
    pub epoch: Epoch,
}

/// A region that follows the home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Standby {
    /// The region.
    #[n(0)]
    pub region: Region,
    /// Whether home waits for it before it answers, so that it may be promoted.
    #[n(1)]
    pub promotable: bool,
}

impl Standby {
    /// The most standbys of a tenant. Home waits for all promotable ones, so more would only make
    /// calls slower.
    pub const COUNT_MAX: usize = 4;
}

/// What a request does to a tenant that it is allowed for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The placement becomes this; its change number is the machine's to give.
    Change(TenantPlacement),
    /// It is as asked for already.
    AsAsked,
}

impl TenantPlacement {
    /// Decides about a tenant that was never opened.
    pub(crate) fn decide_unopened(
        operation: &Operation,
        regions: &Regions,
    ) -> Result<Decision, Refusal> {
        let Operation::Open { home, standbys } = operation else {
            return Err(Refusal::TenantUnknown);
        };
        regions.check_known(*home)?;
        check_standbys(*home, standbys, regions)?;
        let new = |region: &Region| Standby { region: *region, promotable: false };
        Ok(Decision::Change(Self {
            home: *home,
            epoch: Epoch(1),
            beginning: Beginning::Opened,
            state: PlacementState::Settled,
            standbys: standbys.iter().map(new).collect(),
            change: ChangeNumber::NONE,
            failed_over: ChangeNumber::NONE,
        }))
    }

    /// Decides about a tenant that is open.
    pub(crate) fn decide(
        &self,
        operation: &Operation,
        regions: &Regions,
    ) -> Result<Decision, Refusal> {
        match operation {
            Operation::Open { home, standbys } => self.decide_open_again(*home, standbys),
            Operation::BeginMove { epoch, to } => self.decide_begin_move(*epoch, *to, regions),
            Operation::FinishMove { epoch } => self.decide_finish_move(*epoch),
            Operation::AbortMove { epoch } => self.decide_abort_move(*epoch),
            Operation::FailOver { epoch, to } => self.decide_fail_over(*epoch, *to),
            Operation::ResolveTail { epoch, from } => self.decide_resolve_tail(*epoch, *from),
            Operation::SetStandby { epoch, seen, region, promotable } => {
                let wanted = Standby { region: *region, promotable: *promotable };
                self.decide_set_standby(*epoch, *seen, wanted)
            }
            Operation::SetStandbys { epoch, seen, standbys } => {
                self.decide_set_standbys((*epoch, *seen), standbys, regions)
            }
        }
    }

    fn decide_open_again(
        &self,
        home: Region,
        standbys: &BTreeSet<Region>,
    ) -> Result<Decision, Refusal> {
        let is_first = self.beginning == Beginning::Opened && self.home == home;
        if is_first && self.stands_by(standbys) {
            Ok(Decision::AsAsked)
        } else {
            Err(Refusal::TenantExists)
        }
    }

    fn decide_begin_move(
        &self,
        epoch: Epoch,
        to: Region,
        regions: &Regions,
    ) -> Result<Decision, Refusal> {
        self.fence(epoch)?;
        regions.check_known(to)?;
        if to == self.home {
            return Err(Refusal::AlreadyHome);
        }
        match &self.state {
            PlacementState::Settled => {
                let state = PlacementState::Moving { to };
                Ok(Decision::Change(Self { state, ..self.clone() }))
            }
            PlacementState::Moving { to: destination } if *destination == to => {
                Ok(Decision::AsAsked)
            }
            PlacementState::Moving { to } => Err(Refusal::MoveUnderWay { to: *to }),
            PlacementState::FailedOver { tails } => {
                let from = tails.iter().map(|tail| tail.from).next().unwrap_or(self.home);
                Err(Refusal::TailUnresolved { from })
            }
        }
    }

    fn decide_finish_move(&self, epoch: Epoch) -> Result<Decision, Refusal> {
        if self.followed(epoch, Beginning::Moved) {
            return Ok(Decision::AsAsked);
        }
        let to = self.destination(epoch)?;
        Ok(Decision::Change(self.moved_to(to, Beginning::Moved, PlacementState::Settled)))
    }

    fn decide_abort_move(&self, epoch: Epoch) -> Result<Decision, Refusal> {
        if self.followed(epoch, Beginning::Aborted) {
            return Ok(Decision::AsAsked);
        }
        self.destination(epoch)?;
        // The standbys have followed this home all along, so they stay what they are.
        Ok(Decision::Change(Self {
            epoch: after(self.epoch),
            beginning: Beginning::Aborted,
            state: PlacementState::Settled,
            ..self.clone()
        }))
    }

    fn decide_fail_over(&self, epoch: Epoch, to: Region) -> Result<Decision, Refusal> {
        if self.followed(epoch, Beginning::FailedOver) && self.home == to {
            return Ok(Decision::AsAsked);
        }
        self.fence(epoch)?;
        if !self.standby(to)?.promotable {
            return Err(Refusal::NotPromotable(to));
        }
        let others = self.tails().iter().filter(|tail| tail.from != self.home);
        let new = Tail { from: self.home, epoch: self.epoch };
        let mut tails: Vec<Tail> = others.copied().chain([new]).collect();
        tails.sort_unstable_by_key(|tail| tail.from);
        let state = PlacementState::FailedOver { tails: tails.into_iter().collect() };
        Ok(Decision::Change(self.moved_to(to, Beginning::FailedOver, state)))
    }

    fn decide_resolve_tail(&self, epoch: Epoch, from: Region) -> Result<Decision, Refusal> {
        self.fence(epoch)?;
        // A tail that is not there was resolved before: within an epoch none is added.
        if self.tails().iter().all(|tail| tail.from != from) {
            return Ok(Decision::AsAsked);
        }
        let rest: Vec<Tail> =
            self.tails().iter().filter(|tail| tail.from != from).copied().collect();
        let state = if rest.is_empty() {
            PlacementState::Settled
        } else {
            PlacementState::FailedOver { tails: rest.into_iter().collect() }
        };
        Ok(Decision::Change(Self { state, ..self.clone() }))
    }

    fn decide_set_standby(
        &self,
        epoch: Epoch,
        seen: ChangeNumber,
        wanted: Standby,
    ) -> Result<Decision, Refusal> {
        self.fence(epoch)?;
        let known = *self.standby(wanted.region)?;
        // Whoever drops may have told somebody before that the standby is followed. What is asked on
        // the strength of that names a change from before this one, so it comes too late.
        if wanted.promotable {
            if known == wanted {
                return Ok(Decision::AsAsked);
            }
            self.check_seen(seen)?;
        }
        let changed = |standby: &Standby| {
            if standby.region == wanted.region { wanted } else { *standby }
        };
        let standbys = self.standbys.iter().map(changed).collect();
        Ok(Decision::Change(Self { standbys, ..self.clone() }))
    }

    fn decide_set_standbys(
        &self,
        (epoch, seen): (Epoch, ChangeNumber),
        regions_wanted: &BTreeSet<Region>,
        regions: &Regions,
    ) -> Result<Decision, Refusal> {
        self.fence(epoch)?;
        check_standbys(self.home, regions_wanted, regions)?;
        if self.stands_by(regions_wanted) {
            return Ok(Decision::AsAsked);
        }
        self.check_seen(seen)?;
        let kept = |region: &Region| {
            let promotable = self.standby(*region).is_ok_and(|standby| standby.promotable);
            Standby { region: *region, promotable }
        };
        let standbys = regions_wanted.iter().map(kept).collect();
        Ok(Decision::Change(Self { standbys, ..self.clone() }))
    }

    /// Whether a move is under way.
    pub const fn is_moving(&self) -> bool {
        matches!(self.state, PlacementState::Moving { .. })
    }

    /// Whether a region can take the tenant over.
    pub fn is_promotable_to(&self, region: Region) -> bool {
        self.standby(region).is_ok_and(|standby| standby.promotable)
    }

    /// The old homes whose tails are not resolved, by name.
    pub fn tails(&self) -> &[Tail] {
        match &self.state {
            PlacementState::Settled | PlacementState::Moving { .. } => &[],
            PlacementState::FailedOver { tails } => tails.as_slice(),
        }
    }

    /// Another home under the next epoch.
    ///
    /// A standby that becomes home leaves its place to the home before, so a tenant keeps as many
    /// standbys as it was given. None of them has followed the new home, so none is promotable until
    /// that home says so.
    fn moved_to(&self, to: Region, beginning: Beginning, state: PlacementState) -> Self {
        let successor = |standby: &Standby| {
            let region = if standby.region == to { self.home } else { standby.region };
            Standby { region, promotable: false }
        };
        let mut standbys: Vec<Standby> = self.standbys.iter().map(successor).collect();
        standbys.sort_unstable_by_key(|standby| standby.region);
        Self {
            home: to,
            epoch: after(self.epoch),
            beginning,
            state,
            standbys: standbys.into_iter().collect(),
            change: self.change,
            failed_over: self.failed_over,
        }
    }

    /// Whether `epoch` was ended in this way, and by nothing else: the present epoch follows it.
    fn followed(&self, epoch: Epoch, beginning: Beginning) -> bool {
        self.beginning == beginning && epoch < self.epoch && after(epoch) == self.epoch
    }

    /// Refuses what was asked under another epoch.
    fn fence(&self, epoch: Epoch) -> Result<(), Refusal> {
        match epoch.cmp(&self.epoch) {
            std::cmp::Ordering::Less => Err(Refusal::Fenced),
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Greater => Err(Refusal::EpochAhead),
        }
    }

    fn check_seen(&self, seen: ChangeNumber) -> Result<(), Refusal> {
        if seen == self.change { Ok(()) } else { Err(Refusal::Overtaken) }
    }

    /// Where the move under way goes to.
    fn destination(&self, epoch: Epoch) -> Result<Region, Refusal> {
        self.fence(epoch)?;
        match self.state {
            PlacementState::Moving { to } => Ok(to),
            PlacementState::Settled | PlacementState::FailedOver { .. } => Err(Refusal::NotMoving),
        }
    }

    fn standby(&self, region: Region) -> Result<&Standby, Refusal> {
        let mut standbys = self.standbys.iter();
        standbys.find(|standby| standby.region == region).ok_or(Refusal::NotStandby(region))
    }

    fn stands_by(&self, regions: &BTreeSet<Region>) -> bool {
        self.standbys.iter().map(|standby| &standby.region).eq(regions)
    }
}

/// The epoch after this one. Saturates, as a sequence does: each takes a majority of regions.
const fn after(epoch: Epoch) -> Epoch {
    Epoch(epoch.0.saturating_add(1))
}

/// Refuses standbys that a home cannot have.
fn check_standbys(
    home: Region,
    standbys: &BTreeSet<Region>,
    regions: &Regions,
) -> Result<(), Refusal> {
    standbys.iter().try_for_each(|region| regions.check_known(*region))?;
    if standbys.contains(&home) {
        return Err(Refusal::StandbyIsHome(home));
    }
    if standbys.len() > Standby::COUNT_MAX {
        return Err(Refusal::TooManyStandbys);
    }
    Ok(())
}
