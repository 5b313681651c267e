//! Random requests: most of them name what is so, some name what was so or never will be.

use std::collections::BTreeSet;
use std::num::NonZeroU16;

use proptest::prelude::*;
use purser_placement::{
    ChangeNumber, Decided, Operation, PeerAddress, Placement, Refusal, Request, SetRegion,
};
use purser_types::{Epoch, Region, TenantId};

/// The regions that are known.
pub(crate) const REGIONS: [&str; 6] = ["ap", "eu", "sa", "uk", "us", "za"];

/// And one that is not.
const STRANGER: &str = "xx";

/// Few tenants, so that each has a long life.
const TENANTS: [&str; 2] = ["acme", "bolt"];

/// A request that is completed when it is sent.
#[derive(Debug, Clone)]
pub(crate) enum Draft {
    /// A new one.
    New {
        tenant: usize,
        kind: u8,
        region: usize,
        regions: BTreeSet<usize>,
        /// How far the named epoch is off.
        epoch: i8,
        /// How far the named change is off.
        seen: i8,
        promotable: bool,
    },
    /// A late copy of one that was sent so many requests ago.
    Late(usize),
}

pub(crate) fn drafts() -> impl Strategy<Value = Vec<Draft>> {
    let off = || prop_oneof![9 => Just(0_i8), 1 => -2..=1_i8];
    let some = prop::collection::btree_set(0..REGIONS.len(), 0..4);
    let many = prop::collection::btree_set(0..REGIONS.len(), 5..6);
    let strange = prop::collection::btree_set(0..=REGIONS.len(), 1..4);
    let regions = prop_oneof![10 => some, 2 => many, 1 => strange];
    let region = prop_oneof![20 => 0..REGIONS.len(), 1 => Just(REGIONS.len())];
    let new =
        (0..TENANTS.len(), 0..10_u8, region, regions, off(), off(), prop::bool::weighted(0.75));
    let new = new.prop_map(|(tenant, kind, region, regions, epoch, seen, promotable)| Draft::New {
        tenant,
        kind,
        region,
        regions,
        epoch,
        seen,
        promotable,
    });
    let draft = prop_oneof![8 => new, 1 => (1..12_usize).prop_map(Draft::Late)];
    prop::collection::vec(draft, 0..120)
}

impl Draft {
    /// The request, as one would make it who has seen `placement`.
    pub(crate) fn request(&self, placement: &Placement, sent: &[Request]) -> Option<Request> {
        let Self::New { tenant, kind, region, regions, epoch, seen, promotable } = self else {
            let Self::Late(ago) = self else { unreachable!("there are two kinds") };
            return sent.len().checked_sub(*ago).map(|place| sent[place].clone());
        };
        let tenant = TenantId::parse(TENANTS[*tenant]).unwrap();
        let now = placement.tenant(&tenant);
        let epoch = Epoch(off(now.map_or(1, |now| now.epoch.0), *epoch));
        let seen = ChangeNumber(off(now.map_or(0, |now| now.change.0), *seen));
        let promotable = *promotable;
        let standbys = regions.iter().map(|region| named(*region)).collect();
        // A standby is what most requests are about.
        let standby = now.and_then(|now| now.standbys.iter().next().map(|standby| standby.region));
        let region = named(*region);
        let to = if promotable { standby.unwrap_or(region) } else { region };
        let operation = match kind {
            0 => Operation::Open { home: region, standbys },
            1 | 2 => Operation::BeginMove { epoch, to },
            3 => Operation::FinishMove { epoch },
            4 => Operation::AbortMove { epoch },
            5 => Operation::FailOver { epoch, to: standby.unwrap_or(region) },
            6 => Operation::ResolveTail {
                epoch,
                from: now.and_then(|now| now.tails().first()).map_or(region, |tail| tail.from),
            },
            7 => Operation::SetStandbys { epoch, seen, standbys },
            _ => {
                let region = standby.unwrap_or(region);
                Operation::SetStandby { epoch, seen, region, promotable }
            }
        };
        Some(Request { tenant, operation })
    }
}

fn off(number: u64, by: i8) -> u64 {
    number.saturating_add_signed(by.into())
}

fn named(region: usize) -> Region {
    Region::parse(REGIONS.get(region).copied().unwrap_or(STRANGER)).unwrap()
}

/// Makes a region known.
pub(crate) fn set_region(name: &str) -> SetRegion {
    SetRegion {
        region: Region::parse(name).unwrap(),
        seen: ChangeNumber::NONE,
        shards: NonZeroU16::new(16).unwrap(),
        peers: vec![PeerAddress::parse(&format!("{name}.example:7443")).unwrap()],
    }
}

/// A request in a word.
pub(crate) fn kind(request: &Request) -> &'static str {
    match request.operation {
        Operation::Open { .. } => "open",
        Operation::BeginMove { .. } => "begin",
        Operation::FinishMove { .. } => "finish",
        Operation::AbortMove { .. } => "abort",
        Operation::FailOver { .. } => "fail over",
        Operation::ResolveTail { .. } => "resolve",
        Operation::SetStandby { .. } => "standby",
        Operation::SetStandbys { .. } => "standbys",
    }
}

/// An answer in a word.
pub(crate) fn answer(result: &Result<Decided, Refusal>) -> &'static str {
    match result {
        Ok(Decided::Changed) => "changed",
        Ok(Decided::Repeated) => "repeated",
        Err(Refusal::TooManyRequests) => "too many requests",
        Err(Refusal::TenantUnknown) => "no tenant",
        Err(Refusal::TenantExists) => "exists",
        Err(Refusal::Fenced) => "fenced",
        Err(Refusal::EpochAhead) => "ahead",
        Err(Refusal::RegionUnknown(_)) => "no region",
        Err(Refusal::StandbyIsHome(_)) => "home itself",
        Err(Refusal::TooManyStandbys) => "too many",
        Err(Refusal::AlreadyHome) => "home already",
        Err(Refusal::MoveUnderWay { .. }) => "moving",
        Err(Refusal::TailUnresolved { .. }) => "tail",
        Err(Refusal::NotMoving) => "not moving",
        Err(Refusal::NotStandby(_)) => "no standby",
        Err(Refusal::NotPromotable(_)) => "not promotable",
        Err(Refusal::Overtaken) => "overtaken",
    }
}

/// What must come up for the tests to mean anything.
pub(crate) const WORTH_REACHING: &[(&str, &str)] = &[
    ("open", "changed"),
    ("open", "repeated"),
    ("open", "exists"),
    ("open", "no region"),
    ("open", "home itself"),
    ("open", "too many"),
    ("begin", "changed"),
    ("begin", "repeated"),
    ("begin", "no tenant"),
    ("begin", "fenced"),
    ("begin", "ahead"),
    ("begin", "no region"),
    ("begin", "home already"),
    ("begin", "moving"),
    ("begin", "tail"),
    ("finish", "changed"),
    ("finish", "repeated"),
    ("finish", "fenced"),
    ("finish", "not moving"),
    ("abort", "changed"),
    ("abort", "repeated"),
    ("abort", "fenced"),
    ("abort", "not moving"),
    ("fail over", "changed"),
    ("fail over", "repeated"),
    ("fail over", "fenced"),
    ("fail over", "no standby"),
    ("fail over", "not promotable"),
    ("resolve", "changed"),
    ("resolve", "repeated"),
    ("resolve", "fenced"),
    ("standby", "changed"),
    ("standby", "repeated"),
    ("standby", "fenced"),
    ("standby", "no standby"),
    ("standby", "overtaken"),
    ("standbys", "changed"),
    ("standbys", "repeated"),
    ("standbys", "fenced"),
    ("standbys", "no region"),
    ("standbys", "home itself"),
    ("standbys", "too many"),
    ("standbys", "overtaken"),
];
