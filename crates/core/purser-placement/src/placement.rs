//! The machine that consensus hosts: all tenants and regions, by name, by home and by change.

use std::collections::BTreeMap;
use std::ops::Bound;

use purser_types::{
    ApplyError, CorruptSnapshot, CowMap, History, LogTime, Machine, Region, Stamped, TenantId,
    codec,
};

use crate::change::{Change, ChangeNumber, Changes};
use crate::command::{Command, Request, SetRegion};
use crate::refusal::{Refusal, RegionRefusal};
use crate::regions::{KnownRegion, Regions};
use crate::snapshot;
use crate::tenant::{Beginning, Decision, TenantPlacement};

/// The most items that one read answers with: some 150 kB as bytes.
pub const PAGE_MAX: usize = 1_024;

/// Who is home of whom.
///
/// A tenant takes some 300 bytes, for as long as there is a Placement: 80 of placement, a place in
/// each of the three maps below, its name (which they share), and its list of standbys. A million
/// tenants fit into 300 MB and a snapshot of 45 MB; a clone of them copies some 50,000 references.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Placement {
    /// The highest stamp seen. Nothing is decided by it.
    pub(crate) log_time: LogTime,
    /// The number of the latest change.
    pub(crate) latest: ChangeNumber,
    pub(crate) regions: Regions,
    pub(crate) tenants: CowMap<TenantId, TenantPlacement>,
    /// The tenants of each home.
    pub(crate) by_home: BTreeMap<Region, CowMap<TenantId, ()>>,
    /// Each tenant at its latest change.
    pub(crate) by_change: CowMap<ChangeNumber, TenantId>,
}

/// What a [`Command`] is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// One outcome for each request, in order.
    Tenants(Vec<Outcome>),
    /// Of [`Command::SetRegion`].
    Region(RegionOutcome),
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What was decided.
    pub result: Result<Decided, Refusal>,
    /// The tenant's placement from then on; nothing if there is no such tenant.
    pub placement: Option<TenantPlacement>,
}

/// How a command about a region ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionOutcome {
    /// What was decided.
    pub result: Result<Decided, RegionRefusal>,
    /// The region from then on; nothing if there is no such region.
    pub region: Option<KnownRegion>,
}

/// What an accepted request did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided {
    /// What was asked.
    Changed,
    /// Nothing: it had been done before, most often by the same request.
    Repeated,
}

impl Placement {
    /// A tenant's placement.
    pub fn tenant(&self, tenant: &TenantId) -> Option<&TenantPlacement> {
        self.tenants.get(tenant)
    }

    /// The tenants of a home whose names come after `after`, by name: `limit` of them, at most
    /// [`PAGE_MAX`].
    pub fn tenants_of(
        &self,
        home: Region,
        after: Option<&TenantId>,
        limit: usize,
    ) -> Vec<(TenantId, TenantPlacement)> {
        let Some(tenants) = self.by_home.get(&home) else { return Vec::new() };
        let names = tenants.range_from(after.map_or(Bound::Unbounded, Bound::Excluded));
        let known = |(name, ()): (&TenantId, &())| {
            self.tenants.get(name).map(|placement| (name.clone(), placement.clone()))
        };
        names.filter_map(known).take(limit.min(PAGE_MAX)).collect()
    }

    /// What has changed after a change: each tenant and region once, as it is now, in the order of
    /// the latest changes; `limit` of them, at least one and at most [`PAGE_MAX`].
    pub fn changes_after(&self, after: ChangeNumber, limit: usize) -> Changes {
        let limit = limit.clamp(1, PAGE_MAX);
        let tenants = self.by_change.range_from(Bound::Excluded(&after));
        let known = |(_, tenant): (&ChangeNumber, &TenantId)| {
            let placement = self.tenants.get(tenant)?.clone();
            Some(Change::Tenant { tenant: tenant.clone(), placement })
        };
        // One more than asked for shows whether there are more. Regions are few enough to look at
        // them all.
        let tenants = tenants.filter_map(known).take(limit.saturating_add(1));
        let regions = self.regions.iter().filter(|region| region.change > after);
        let mut changes: Vec<Change> =
            tenants.chain(regions.cloned().map(Change::Region)).collect();
        changes.sort_unstable_by_key(Change::number);
        let has_more = changes.len() > limit;
        changes.truncate(limit);
        let last = changes.last().filter(|_| has_more);
        let through = last.map_or_else(|| self.latest.max(after), Change::number);
        Changes { after, through, latest: self.latest, changes }
    }

    /// The number of the latest change.
    pub fn latest_change(&self) -> ChangeNumber {
        self.latest
    }

    /// A region, if it is known.
    pub fn region(&self, region: Region) -> Option<&KnownRegion> {
        self.regions.get(region)
    }

    /// All regions, by name. At most [`KnownRegion::COUNT_MAX`].
    pub fn regions(&self) -> impl Iterator<Item = &KnownRegion> {
        self.regions.iter()
    }

    /// Applies a command.
    pub fn apply_command(&mut self, command: &Command) -> Answer {
        match command {
            Command::Tenants(requests) => Answer::Tenants(self.apply_requests(requests)),
            Command::SetRegion(command) => Answer::Region(self.apply_set_region(command)),
        }
    }

    fn apply_requests(&mut self, requests: &[Request]) -> Vec<Outcome> {
        if requests.len() <= Command::REQUESTS_MAX {
            return requests.iter().map(|request| self.apply_request(request)).collect();
        }
        let refused = |request: &Request| Outcome {
            result: Err(Refusal::TooManyRequests),
            placement: self.tenant(&request.tenant).cloned(),
        };
        requests.iter().map(refused).collect()
    }

    fn apply_request(&mut self, request: &Request) -> Outcome {
        let known = self.tenants.get(&request.tenant);
        let decision = match known {
            Some(placement) => placement.decide(&request.operation, &self.regions),
            None => TenantPlacement::decide_unopened(&request.operation, &self.regions),
        };
        let result = match decision {
            Ok(Decision::Change(placement)) => {
                let placement = Some(self.put(&request.tenant, placement));
                return Outcome { result: Ok(Decided::Changed), placement };
            }
            Ok(Decision::AsAsked) => Ok(Decided::Repeated),
            Err(refusal) => Err(refusal),
        };
        Outcome { result, placement: known.cloned() }
    }

    /// The one place where a tenant changes: it keeps the three maps in step, and their names one
    /// copy, which came with the first request.
    fn put(&mut self, tenant: &TenantId, placement: TenantPlacement) -> TenantPlacement {
        self.latest = self.latest.next();
        let mut placement = TenantPlacement { change: self.latest, ..placement };
        let slot = self.tenants.get_mut(tenant);
        let begins = slot.as_ref().is_none_or(|slot| slot.epoch < placement.epoch);
        if begins && placement.beginning == Beginning::FailedOver {
            placement.failed_over = self.latest;
        }
        let before = slot.map(|slot| std::mem::replace(slot, placement.clone()));
        let listed = before.as_ref().and_then(|before| self.by_change.remove(&before.change));
        let name = listed.unwrap_or_else(|| tenant.clone());
        if before.is_none() {
            self.tenants.insert(name.clone(), placement.clone());
        }
        let left = before.map(|before| before.home);
        if left != Some(placement.home) {
            self.change_home(&name, left, placement.home);
        }
        self.by_change.insert(self.latest, name);
        placement
    }

    fn change_home(&mut self, name: &TenantId, from: Option<Region>, to: Region) {
        if let Some(from) = from
            && let Some(tenants) = self.by_home.get_mut(&from)
        {
            tenants.remove(name);
            if tenants.is_empty() {
                self.by_home.remove(&from);
            }
        }
        self.by_home.entry(to).or_default().insert(name.clone(), ());
    }

    fn apply_set_region(&mut self, command: &SetRegion) -> RegionOutcome {
        let result = self.regions.decide(command).map(|decision| match decision {
            Some(region) => {
                self.latest = self.latest.next();
                self.regions.put(KnownRegion { change: self.latest, ..region });
                Decided::Changed
            }
            None => Decided::Repeated,
        });
        RegionOutcome { result, region: self.regions.get(command.region).cloned() }
    }
}

impl Machine for Placement {
    type Answer = Answer;

    /// Placement writes no history: its state is all that anyone decides by.
    fn apply(
        &mut self,
        stamped: Stamped<'_>,
        _history: &mut dyn History,
    ) -> Result<Answer, ApplyError> {
        let command = codec::decode(stamped.command)
            .map_err(|error| ApplyError::UnreadableCommand(error.to_string()))?;
        self.log_time = self.log_time.max(stamped.at);
        Ok(self.apply_command(&command))
    }

    fn log_time(&self) -> LogTime {
        self.log_time
    }

    fn snapshot(&self) -> Box<dyn Iterator<Item = Vec<u8>> + Send> {
        Box::new(snapshot::chunks(self.clone()))
    }

    fn restore(chunks: &mut dyn Iterator<Item = Vec<u8>>) -> Result<Self, CorruptSnapshot> {
        snapshot::restore(chunks)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use purser_types::Epoch;

    use super::*;
    use crate::command::Operation;
    use crate::regions::PeerAddress;

    fn region(name: &str) -> Region {
        Region::parse(name).unwrap()
    }

    #[track_caller]
    fn check_shares_names(placement: &Placement) {
        for (name, now) in placement.tenants.iter() {
            let by_change = placement.by_change.get(&now.change).unwrap();
            let tenants = placement.by_home.get(&now.home).unwrap();
            let (by_home, ()) = tenants.range_from(Bound::Included(name)).next().unwrap();
            assert!(std::ptr::eq(name.as_str(), by_change.as_str()), "{name} by change");
            assert!(std::ptr::eq(name.as_str(), by_home.as_str()), "{name} by home");
        }
    }

    /// Each request brings a copy of its own; at a million tenants three copies would be a fifth of
    /// the memory.
    #[test]
    fn the_maps_share_one_copy_of_a_name_whatever_happens() {
        let mut placement = Placement::default();
        let ask = |placement: &mut Placement, operation| {
            let tenant = TenantId::parse("acme").unwrap();
            let request = Request { tenant, operation };
            assert_eq!(placement.apply_request(&request).result, Ok(Decided::Changed));
            check_shares_names(placement);
        };
        for name in ["eu", "us"] {
            let peers = vec![PeerAddress::parse(name).unwrap()];
            let (shards, seen) = (NonZeroU16::MIN, ChangeNumber::NONE);
            placement.apply_set_region(&SetRegion { region: region(name), seen, shards, peers });
        }
        let (epoch, to) = (Epoch(1), region("us"));
        ask(&mut placement, Operation::Open { home: region("eu"), standbys: [to].into() });
        ask(&mut placement, Operation::BeginMove { epoch, to });
        ask(&mut placement, Operation::FinishMove { epoch });
        assert_eq!(placement.by_home.keys().copied().collect::<Vec<_>>(), [to]);
        check_shares_names(&Placement::restore(&mut placement.snapshot()).unwrap());
    }
}
