//! What the leader of a region's first shard asks of Placement for the region's standbys.
//!
//! One of these for each standby, and one thing at a time with it: tenants are asked for, or dropped.

use std::collections::BTreeMap;

use purser_types::{Epoch, Region, TenantId};

use crate::change::ChangeNumber;
use crate::command::{Operation, Request};
use crate::refusal::Refusal;
use crate::tenant::{Beginning, TenantPlacement};

/// A tenant, as Placement is known to have it.
type Known = (TenantId, TenantPlacement);

/// What the leader of a term knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Kept {
    term: u64,
    /// Whether no tenant can be promotable: this leader has dropped all of them, and asked for none since.
    is_clear: bool,
    /// Up to where Placement was looked through to the end.
    seen: Option<ChangeNumber>,
    /// The tenants that came to this region and are at home here, of those that are to be promotable.
    at_home: BTreeMap<TenantId, Epoch>,
}

impl Kept {
    /// Begins anew if the term is another one.
    pub fn begin(&mut self, term: u64) {
        if self.term != term {
            *self = Self { term, ..Self::default() };
        }
    }

    /// Whether nobody can be missing that Placement knew up to a change.
    pub fn has_seen(&self, as_of: ChangeNumber) -> bool {
        self.seen == Some(as_of)
    }

    /// Notes that nobody was missing, as far as Placement was known.
    pub fn note_seen(&mut self, as_of: ChangeNumber) {
        self.seen = Some(as_of);
        self.at_home.clear();
    }

    /// Notes that a tenant that came to this region is at home here, under the epoch of its placement.
    pub fn note_at_home(&mut self, tenant: TenantId, epoch: Epoch) {
        self.at_home.insert(tenant, epoch);
    }

    /// Whether a tenant is at home here, and not on its way to here: what follows this region lacks the
    /// others.
    pub fn is_at_home(&self, (tenant, placement): &Known) -> bool {
        let has_come = matches!(placement.beginning, Beginning::Moved | Beginning::FailedOver);
        !has_come || self.at_home.get(tenant) == Some(&placement.epoch)
    }

    /// Whether a drop needs not be asked for, if this node leads in `leading` even now: it is to have been
    /// confirmed after it was found that nobody is promotable, so that nobody else asks for a tenant on the
    /// strength of what he has seen since.
    pub fn is_clear(&self, leading: Option<u64>) -> bool {
        self.is_clear && leading == Some(self.term)
    }

    /// Notes that a drop begins. It is to be looked for whom to take back.
    pub fn note_dropping(&mut self) {
        self.seen = None;
    }

    /// Notes that nobody is promotable any more.
    pub fn note_dropped(&mut self) {
        self.is_clear = true;
    }
}

/// Tenants that a standby is to be able to take over.
///
/// They are looked for before it is known that this node leads, and before the shards promise: whoever leads
/// later drops all of them before he says that none is promotable, and whoever is opened or dropped later
/// has a later change and is refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TakingIn {
    standby: Region,
    tenants: Vec<Known>,
}

impl TakingIn {
    /// Whether a tenant of home `own` lacks the standby.
    pub fn lacks(own: Region, standby: Region, placement: &TenantPlacement) -> bool {
        let mut standbys = placement.standbys.iter();
        let lacks = standbys.any(|known| known.region == standby && !known.promotable);
        placement.home == own && lacks && !placement.is_moving()
    }

    /// Begins to take in those of `lacking` that are at home here; nothing if there are none.
    pub fn of(standby: Region, lacking: Vec<Known>, kept: &Kept) -> Option<Self> {
        let mut tenants = lacking;
        tenants.retain(|known| kept.is_at_home(known));
        (!tenants.is_empty()).then_some(Self { standby, tenants })
    }

    /// Up to which change every shard is to know Placement when it promises.
    pub fn placed(&self) -> ChangeNumber {
        let changes = self.tenants.iter().map(|(_, placement)| placement.change);
        changes.max().unwrap_or(ChangeNumber::NONE)
    }

    /// What to ask of Placement, once this node was known to lead and then every shard has promised. From
    /// here on somebody may be promotable.
    pub fn ask(self, kept: &mut Kept) -> Vec<Request> {
        kept.is_clear = false;
        let standby = self.standby;
        self.tenants.into_iter().map(|known| set_standby(known, (standby, true))).collect()
    }
}

/// A standby of which no tenant is to be promotable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dropping {
    /// The region whose tenants they are.
    pub own: Region,
    /// The standby.
    pub standby: Region,
}

impl Dropping {
    /// Whether a tenant is asked to be dropped at first, promotable or not: it overtakes whoever is about to
    /// take it in. Everything is to be known that Placement knew when the drop began.
    pub fn is_followed(self, placement: &TenantPlacement) -> bool {
        placement.home == self.own
            && placement.standbys.iter().any(|known| known.region == self.standby)
    }

    /// Whether a tenant is asked again, after it was learned what came of the first: it may have begun
    /// another epoch meanwhile, because its move was given up.
    pub fn is_left(self, placement: &TenantPlacement) -> bool {
        placement.home == self.own && placement.is_promotable_to(self.standby)
    }

    /// What to ask of Placement.
    pub fn ask(self, tenants: Vec<Known>) -> Vec<Request> {
        tenants.into_iter().map(|known| set_standby(known, (self.standby, false))).collect()
    }

    /// Whether a refusal says no more than that the tenant is another one by now, which was learned with it.
    pub const fn goes_on_after(refusal: &Refusal) -> bool {
        match refusal {
            Refusal::Fenced | Refusal::NotStandby(_) | Refusal::TenantUnknown => true,
            Refusal::TooManyRequests
            | Refusal::TenantExists
            | Refusal::EpochAhead
            | Refusal::RegionUnknown(_)
            | Refusal::StandbyIsHome(_)
            | Refusal::TooManyStandbys
            | Refusal::AlreadyHome
            | Refusal::MoveUnderWay { .. }
            | Refusal::TailUnresolved { .. }
            | Refusal::NotMoving
            | Refusal::NotPromotable(_)
            | Refusal::Overtaken => false,
        }
    }
}

/// Asks for a tenant, as it was seen, to be promotable to a standby, or not to be.
fn set_standby((tenant, placement): Known, (region, promotable): (Region, bool)) -> Request {
    let TenantPlacement { epoch, change: seen, .. } = placement;
    Request { tenant, operation: Operation::SetStandby { epoch, seen, region, promotable } }
}
