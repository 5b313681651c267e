//! The whole state as bytes: what is known of each tenant and region, without the maps that follow
//! from it.
//!
//! ```text
//!  preamble  region …  (tenant, placement) …      by name, packed into chunks of a megabyte
//! ```

use std::ops::Bound;

use minicbor::{Decode, Decoder, Encode};
use purser_types::{CorruptSnapshot, Epoch, LogTime, TenantId, codec};

use crate::change::ChangeNumber;
use crate::placement::Placement;
use crate::regions::KnownRegion;
use crate::tenant::{PlacementState, Standby, TenantPlacement};

/// How many tenants are read from the map at a time.
const TENANTS_AT_ONCE: usize = 256;

/// The rules by which this release decides. Replicas must decide alike, so a change of rules gets a
/// new number, and a group changes its number by a command, not by a new binary.
const RULES: u16 = 1;

/// A snapshot's first piece.
#[derive(Encode, Decode)]
struct Preamble {
    #[n(0)]
    log_time: LogTime,
    #[n(1)]
    rules: u16,
    #[n(2)]
    latest: ChangeNumber,
    #[n(3)]
    regions: u64,
    #[n(4)]
    tenants: u64,
}

/// A tenant in a snapshot.
#[derive(Encode, Decode)]
struct Tenant {
    #[n(0)]
    name: TenantId,
    #[n(1)]
    placement: TenantPlacement,
}

/// The chunks of a state.
pub(crate) fn chunks(placement: Placement) -> impl Iterator<Item = Vec<u8>> + Send {
    let preamble = codec::encode(&Preamble {
        log_time: placement.log_time,
        rules: RULES,
        latest: placement.latest,
        regions: count(placement.regions.iter().count()),
        tenants: count(placement.tenants.len()),
    });
    let regions: Vec<Vec<u8>> = placement.regions.iter().map(codec::encode).collect();
    let pieces = std::iter::once(preamble).chain(regions).chain(tenants(placement));
    codec::pack(pieces)
}

/// The tenants' bytes, some hundred tenants at a time.
fn tenants(placement: Placement) -> impl Iterator<Item = Vec<u8>> + Send {
    let mut last: Option<TenantId> = None;
    std::iter::from_fn(move || {
        let from = last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut bytes = Vec::new();
        let mut reached = None;
        for (name, placement) in placement.tenants.range_from(from).take(TENANTS_AT_ONCE) {
            let tenant = Tenant { name: name.clone(), placement: placement.clone() };
            bytes.extend(codec::encode(&tenant));
            reached = Some(name.clone());
        }
        last = Some(reached?);
        Some(bytes)
    })
}

fn count(items: usize) -> u64 {
    u64::try_from(items).unwrap_or(u64::MAX)
}

/// Rebuilds a state.
pub(crate) fn restore(
    chunks: &mut dyn Iterator<Item = Vec<u8>>,
) -> Result<Placement, CorruptSnapshot> {
    let mut restoring = Restoring::default();
    for chunk in chunks {
        let mut decoder = Decoder::new(&chunk);
        while decoder.position() < chunk.len() {
            restoring.take(&mut decoder)?;
        }
    }
    restoring.finish()
}

/// A state that is being rebuilt.
#[derive(Default)]
struct Restoring {
    preamble: Option<Preamble>,
    placement: Placement,
    /// By name, so the map by change is made at the end.
    changes: Vec<(ChangeNumber, TenantId)>,
}

impl Restoring {
    fn take(&mut self, decoder: &mut Decoder<'_>) -> Result<(), CorruptSnapshot> {
        let unreadable = |error: minicbor::decode::Error| CorruptSnapshot(error.to_string());
        let Some(preamble) = &self.preamble else {
            let preamble: Preamble = decoder.decode().map_err(unreadable)?;
            if preamble.rules != RULES {
                let theirs = preamble.rules;
                return corrupt(format!("rules {theirs} are unknown to this release"));
            }
            self.placement.log_time = preamble.log_time;
            self.placement.latest = preamble.latest;
            self.preamble = Some(preamble);
            return Ok(());
        };
        if count(self.placement.regions.iter().count()) < preamble.regions {
            let region: KnownRegion = decoder.decode().map_err(unreadable)?;
            self.placement.regions.put(region);
            return Ok(());
        }
        let Tenant { name, placement } = decoder.decode().map_err(unreadable)?;
        if let Some(fault) = fault_of(&placement) {
            return corrupt(format!("tenant {name}: {fault}"));
        }
        self.changes.push((placement.change, name.clone()));
        let home = self.placement.by_home.entry(placement.home).or_default();
        home.extend([(name.clone(), ())]);
        self.placement.tenants.extend([(name, placement)]);
        Ok(())
    }

    fn finish(mut self) -> Result<Placement, CorruptSnapshot> {
        let Some(preamble) = self.preamble else { return corrupt("it is empty") };
        if count(self.placement.regions.iter().count()) != preamble.regions {
            return corrupt(format!("it should hold {} regions", preamble.regions));
        }
        // What is there twice would be listed twice by change and once by name.
        let tenants = preamble.tenants;
        if count(self.placement.tenants.len()) != tenants || count(self.changes.len()) != tenants {
            return corrupt(format!("it should hold {tenants} tenants"));
        }
        self.changes.sort_unstable();
        let regions = self.placement.regions.iter().map(|region| region.change);
        let mut numbers: Vec<ChangeNumber> =
            self.changes.iter().map(|(number, _)| *number).chain(regions).collect();
        numbers.sort_unstable();
        let ascend = numbers.is_sorted_by(|lower, higher| lower < higher);
        let first = numbers.first().is_none_or(|first| *first > ChangeNumber::NONE);
        let last = numbers.last().is_none_or(|last| *last <= preamble.latest);
        if !(ascend && first && last) {
            return corrupt("change numbers are used twice or never given out");
        }
        self.placement.by_change.extend(self.changes);
        Ok(self.placement)
    }
}

/// What no step could have made of a tenant.
fn fault_of(placement: &TenantPlacement) -> Option<&'static str> {
    let standbys = placement.standbys.as_slice();
    let ascends =
        |standbys: &[Standby]| standbys.is_sorted_by(|lower, higher| lower.region < higher.region);
    if placement.epoch < Epoch(1) {
        return Some("there is no such epoch");
    }
    if !ascends(standbys) || standbys.len() > Standby::COUNT_MAX {
        return Some("its standbys are no list by name, or too many");
    }
    if standbys.iter().any(|standby| standby.region == placement.home) {
        return Some("its home is its own standby");
    }
    match &placement.state {
        PlacementState::Settled => None,
        PlacementState::Moving { to } => {
            (*to == placement.home).then_some("it moves to where it is")
        }
        PlacementState::FailedOver { tails } => {
            let tails = tails.as_slice();
            let ascend = tails.is_sorted_by(|lower, higher| lower.from < higher.from);
            (tails.is_empty() || !ascend).then_some("its tails are no list by name, or none")
        }
    }
}

fn corrupt<T>(detail: impl Into<String>) -> Result<T, CorruptSnapshot> {
    Err(CorruptSnapshot(detail.into()))
}
