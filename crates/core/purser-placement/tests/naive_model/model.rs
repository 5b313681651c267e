//! The model: each tenant's whole past, and rules that look into it.
//!
//! It shares no code with Placement but the words that both speak.

use std::collections::{BTreeMap, BTreeSet};

use purser_placement::{
    Beginning, ChangeNumber, Decided, Operation, PlacementState, Refusal, Request, Standby, Tail,
    TenantPlacement,
};
use purser_types::{Epoch, Region, TenantId};

/// Everything that ever happened.
#[derive(Default)]
pub(crate) struct Model {
    tenants: BTreeMap<TenantId, Life>,
    /// With the change that made each known.
    regions: BTreeMap<Region, u64>,
    changes: u64,
}

/// One tenant's past and present.
struct Life {
    /// One for each epoch.
    eras: Vec<Era>,
    moving: Option<Region>,
    /// Whose tails are open, and up to which epoch.
    tails: BTreeMap<Region, u64>,
    /// With whether each is promotable.
    standbys: BTreeMap<Region, bool>,
    changed: u64,
    /// When it last lost a home.
    failed_over: u64,
}

struct Era {
    home: Region,
    /// The request that ended it.
    ended_by: Option<Operation>,
}

impl Model {
    pub(crate) fn know(&mut self, region: &str) {
        self.changes += 1;
        self.regions.insert(Region::parse(region).unwrap(), self.changes);
    }

    pub(crate) fn ask(&mut self, request: &Request) -> Result<Decided, Refusal> {
        let known: BTreeSet<Region> = self.regions.keys().copied().collect();
        let decided = match self.tenants.get_mut(&request.tenant) {
            Some(life) => life.ask(&request.operation, &known)?,
            None => {
                let life = open(&request.operation, &known)?;
                self.tenants.insert(request.tenant.clone(), life);
                Decided::Changed
            }
        };
        if decided == Decided::Changed {
            self.changes += 1;
            let life = self.tenants.get_mut(&request.tenant).unwrap();
            life.changed = self.changes;
            if matches!(request.operation, Operation::FailOver { .. }) {
                life.failed_over = self.changes;
            }
        }
        Ok(decided)
    }

    pub(crate) fn placement(&self, tenant: &TenantId) -> Option<TenantPlacement> {
        self.tenants.get(tenant).map(Life::placement)
    }

    pub(crate) fn tenants_of(&self, home: Region) -> Vec<TenantId> {
        let here = self.tenants.iter().filter(|(_, life)| life.home() == home);
        here.map(|(tenant, _)| tenant.clone()).collect()
    }

    pub(crate) fn changed_after(&self, after: u64) -> Vec<(u64, String)> {
        let tenants = self.tenants.iter().map(|(tenant, life)| (life.changed, tenant.to_string()));
        let regions = self.regions.iter().map(|(region, change)| (*change, region.to_string()));
        let mut all: Vec<_> =
            tenants.chain(regions).filter(|(change, _)| *change > after).collect();
        all.sort();
        all
    }
}

fn open(operation: &Operation, known: &BTreeSet<Region>) -> Result<Life, Refusal> {
    let Operation::Open { home, standbys } = operation else {
        return Err(Refusal::TenantUnknown);
    };
    if !known.contains(home) {
        return Err(Refusal::RegionUnknown(*home));
    }
    allow(*home, standbys, known)?;
    Ok(Life {
        eras: vec![Era { home: *home, ended_by: None }],
        moving: None,
        tails: BTreeMap::new(),
        standbys: standbys.iter().map(|region| (*region, false)).collect(),
        changed: 0,
        failed_over: 0,
    })
}

fn allow(home: Region, all: &BTreeSet<Region>, known: &BTreeSet<Region>) -> Result<(), Refusal> {
    if let Some(stranger) = all.difference(known).next() {
        return Err(Refusal::RegionUnknown(*stranger));
    }
    match all {
        all if all.contains(&home) => Err(Refusal::StandbyIsHome(home)),
        all if all.len() > 4 => Err(Refusal::TooManyStandbys),
        _ => Ok(()),
    }
}

impl Life {
    fn home(&self) -> Region {
        self.eras.last().unwrap().home
    }

    fn epoch(&self) -> u64 {
        self.eras.len().try_into().unwrap()
    }

    fn ask(&mut self, operation: &Operation, known: &BTreeSet<Region>) -> Result<Decided, Refusal> {
        if let Some(before) = self.eras.iter().rev().nth(1)
            && before.ended_by.as_ref() == Some(operation)
        {
            return Ok(Decided::Repeated);
        }
        match operation {
            Operation::Open { home, standbys } => {
                let is_first = self.eras.len() == 1 && self.home() == *home;
                let as_opened = is_first && self.standbys.keys().eq(standbys);
                return if as_opened { Ok(Decided::Repeated) } else { Err(Refusal::TenantExists) };
            }
            Operation::BeginMove { epoch, .. }
            | Operation::FinishMove { epoch }
            | Operation::AbortMove { epoch }
            | Operation::FailOver { epoch, .. }
            | Operation::ResolveTail { epoch, .. }
            | Operation::SetStandby { epoch, .. }
            | Operation::SetStandbys { epoch, .. } => match epoch.0 {
                epoch if epoch < self.epoch() => return Err(Refusal::Fenced),
                epoch if epoch > self.epoch() => return Err(Refusal::EpochAhead),
                _ => (),
            },
        }
        let before = (self.moving, self.tails.clone(), self.standbys.clone(), self.epoch());
        self.change(operation, known)?;
        let after = (self.moving, self.tails.clone(), self.standbys.clone(), self.epoch());
        let is_change = before != after || is_drop(operation);
        Ok(if is_change { Decided::Changed } else { Decided::Repeated })
    }

    /// Does what is asked under the present epoch, which may be nothing.
    fn change(&mut self, operation: &Operation, known: &BTreeSet<Region>) -> Result<(), Refusal> {
        let home = self.home();
        match operation {
            Operation::Open { .. } => unreachable!("it is open"),
            Operation::BeginMove { to, .. } => match (self.moving, self.tails.keys().next()) {
                _ if !known.contains(to) => return Err(Refusal::RegionUnknown(*to)),
                _ if *to == home => return Err(Refusal::AlreadyHome),
                (Some(other), _) if other != *to => {
                    return Err(Refusal::MoveUnderWay { to: other });
                }
                (_, Some(from)) => return Err(Refusal::TailUnresolved { from: *from }),
                _ => self.moving = Some(*to),
            },
            Operation::FinishMove { .. } => {
                let to = self.moving.ok_or(Refusal::NotMoving)?;
                self.end(to, operation);
                self.follow_anew(home, to);
            }
            Operation::AbortMove { .. } => {
                self.moving.ok_or(Refusal::NotMoving)?;
                self.end(home, operation);
            }
            Operation::FailOver { to, .. } => {
                let standby = self.standbys.get(to).ok_or(Refusal::NotStandby(*to))?;
                if !standby {
                    return Err(Refusal::NotPromotable(*to));
                }
                self.tails.insert(home, self.epoch());
                self.end(*to, operation);
                self.follow_anew(home, *to);
            }
            Operation::ResolveTail { from, .. } => {
                self.tails.remove(from);
            }
            Operation::SetStandby { seen, region, promotable, .. } => {
                let now = self.standbys.get_mut(region).ok_or(Refusal::NotStandby(*region))?;
                if !*now && *promotable && seen.0 != self.changed {
                    return Err(Refusal::Overtaken);
                }
                *now = *promotable;
            }
            Operation::SetStandbys { seen, standbys, .. } => {
                allow(home, standbys, known)?;
                if !self.standbys.keys().eq(standbys) && seen.0 != self.changed {
                    return Err(Refusal::Overtaken);
                }
                self.standbys.retain(|region, _| standbys.contains(region));
                for region in standbys {
                    self.standbys.entry(*region).or_insert(false);
                }
            }
        }
        Ok(())
    }

    fn end(&mut self, home: Region, by: &Operation) {
        self.moving = None;
        self.eras.last_mut().unwrap().ended_by = Some(by.clone());
        self.eras.push(Era { home, ended_by: None });
    }

    fn follow_anew(&mut self, old: Region, new: Region) {
        if self.standbys.remove(&new).is_some() {
            self.standbys.insert(old, false);
        }
        self.standbys.values_mut().for_each(|promotable| *promotable = false);
    }

    fn placement(&self) -> TenantPlacement {
        let ended_by = self.eras.iter().rev().nth(1).and_then(|era| era.ended_by.as_ref());
        let beginning = match ended_by {
            None => Beginning::Opened,
            Some(Operation::FinishMove { .. }) => Beginning::Moved,
            Some(Operation::AbortMove { .. }) => Beginning::Aborted,
            Some(_) => Beginning::FailedOver,
        };
        let tails =
            self.tails.iter().map(|(from, epoch)| Tail { from: *from, epoch: Epoch(*epoch) });
        let state = match self.moving {
            Some(to) => PlacementState::Moving { to },
            None if self.tails.is_empty() => PlacementState::Settled,
            None => PlacementState::FailedOver { tails: tails.collect() },
        };
        let standbys = self.standbys.iter();
        TenantPlacement {
            home: self.home(),
            epoch: Epoch(self.epoch()),
            beginning,
            state,
            standbys: standbys
                .map(|(region, yes)| Standby { region: *region, promotable: *yes })
                .collect(),
            change: ChangeNumber(self.changed),
            failed_over: ChangeNumber(self.failed_over),
        }
    }
}

/// A drop counts as a change each time: it overtakes whoever is about to take the standby back.
pub(crate) const fn is_drop(operation: &Operation) -> bool {
    matches!(operation, Operation::SetStandby { promotable: false, .. })
}
