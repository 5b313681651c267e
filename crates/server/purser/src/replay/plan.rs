//! What a replay will ask for: who pays for each request of the trace, and what becomes of it.
//!
//! A plan follows from the trace, the options and the seed alone, before anything is asked: which
//! tenant pays for which request, what becomes of it ([`super::job`]), and what each tenant is
//! granted, so that most have enough and a few run dry.
//!
//! Not here: keys, clocks and answers.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::time::Duration;

use super::book::Opening;
use super::job::Job;
use super::random::{Random, Zipf};
use super::trace::TraceRequest;

/// What to make of a trace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlanSettings {
    /// Over how many tenants to spread requests that name none. At least 1.
    pub(crate) tenants: u32,
    /// How unevenly.
    pub(crate) zipf: f64,
    /// Where the randomness starts.
    pub(crate) seed: u64,
    /// How many times faster than the trace.
    pub(crate) speed: u32,
    /// What a tenant has at most, in percent of what its requests can take. At least 1.
    pub(crate) supply_percent: u32,
    /// How much home may take back from regions, in percent of what the tenant has at first.
    pub(crate) take_back_percent: u32,
    /// How much home may answer before its standby has it, in percent of what the tenant has at first.
    pub(crate) unacknowledged_percent: u32,
    /// How much each region may spend beyond what it was granted, in percent of what the tenant has at
    /// first.
    pub(crate) overdraft_percent: u32,
}

/// What will be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Who pays.
    pub(crate) tenants: Vec<TenantPlan>,
    /// What they ask for, by the time it is due.
    pub(crate) jobs: Vec<Job>,
    /// Credits they buy on the way, by the time they are due.
    pub(crate) top_ups: Vec<TopUp>,
    /// When the last job is due.
    pub(crate) length: Duration,
}

/// One tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TenantPlan {
    /// Its name in the trace, or `t` and a number.
    pub(crate) name: String,
    /// How its account is opened.
    pub(crate) opening: Opening,
    /// What it is granted before the first job.
    pub(crate) lots: Vec<LotPlan>,
    /// What each region but its home may spend beyond what it was granted.
    pub(crate) overdraft: u64,
}

/// A lot that a tenant gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LotPlan {
    /// How many credits.
    pub(crate) amount: u64,
    /// Whether they are given away.
    pub(crate) promotional: bool,
    /// When they become effective, from the start of the jobs on; at once if there is no time.
    pub(crate) starts: Option<Duration>,
    /// When they end; never if there is no time.
    pub(crate) ends: Option<Duration>,
    /// Whether it was a mistake, and is taken back at once.
    pub(crate) mistaken: bool,
}

/// Credits that a tenant buys while the jobs run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TopUp {
    /// When, from the start of the jobs on.
    pub(crate) due: Duration,
    /// Who: a place in [`Plan::tenants`].
    pub(crate) tenant: usize,
    /// How many.
    pub(crate) amount: u64,
}

impl Plan {
    /// Plans a replay of `requests`.
    pub(crate) fn new(requests: &[TraceRequest], settings: PlanSettings) -> Self {
        let mut random = Random::from_seed(settings.seed);
        let zipf = Zipf::new(settings.tenants, settings.zipf);
        let mut names = Names::numbered(settings.tenants);
        let speed = settings.speed.max(1);
        let jobs: Vec<Job> = requests
            .iter()
            .map(|request| {
                let tenant = match &request.tenant {
                    Some(name) => names.place_of(name),
                    None => zipf.pick(&mut random),
                };
                Job::plan(request, tenant, speed, &mut random)
            })
            .collect();
        let length = jobs.last().map(|job| job.due).unwrap_or_default();
        let mut demands = vec![0_u64; names.list.len()];
        for job in &jobs {
            if let Some(demand) = demands.get_mut(job.tenant) {
                *demand = demand.saturating_add(job.demand());
            }
        }
        let mut plan = Self { tenants: Vec::new(), jobs, top_ups: Vec::new(), length };
        for (name, demand) in names.list.into_iter().zip(demands) {
            plan.add_tenant(name, demand, &settings, &mut random);
        }
        plan.top_ups.sort_by_key(|top_up| top_up.due);
        plan
    }

    /// Gives a tenant what it needs, or too little on purpose: one in twenty runs dry and buys
    /// more later.
    fn add_tenant(
        &mut self,
        name: String,
        demand: u64,
        settings: &PlanSettings,
        random: &mut Random,
    ) {
        let runs_dry = demand > 0 && random.happens(50);
        let percent = if runs_dry { 40 } else { u64::from(settings.supply_percent) };
        let supply = (demand.saturating_mul(percent) / 100).max(1);
        if runs_dry {
            let due = self.length.mul_f64(0.6);
            self.top_ups.push(TopUp { due, tenant: self.tenants.len(), amount: supply });
        }
        let debt_limit = if random.happens(250) { demand / 10 } else { 0 };
        let regrant_days = NonZeroU16::new(7).filter(|_| random.happens(200));
        let percent_of_supply = |percent: u32| supply.saturating_mul(percent.into()) / 100;
        let takeback_cap = percent_of_supply(settings.take_back_percent);
        let unacknowledged_max = percent_of_supply(settings.unacknowledged_percent);
        let overdraft = percent_of_supply(settings.overdraft_percent);
        let opening = Opening { debt_limit, regrant_days, takeback_cap, unacknowledged_max };
        let lots = self.lots(supply, random);
        self.tenants.push(TenantPlan { name, opening, lots, overdraft });
    }

    /// Splits a supply into lots: two given away that end while the jobs run, one of which starts
    /// late; one bought that never ends; and sometimes one that is a mistake.
    fn lots(&self, supply: u64, random: &mut Random) -> Vec<LotPlan> {
        let (ending, starting) = (supply / 100 * 15, supply / 100 * 10);
        let time = |from: f64, to: f64, random: &mut Random| {
            self.length.mul_f64((to - from).mul_add(random.fraction(), from))
        };
        let lasting = LotPlan {
            amount: supply - ending - starting,
            promotional: false,
            starts: None,
            ends: None,
            mistaken: false,
        };
        let mut lots = vec![lasting];
        if ending > 0 && starting > 0 {
            let ends = Some(time(0.3, 0.9, random));
            lots.push(LotPlan { amount: ending, promotional: true, ends, ..lasting });
            let (starts, ends) = (Some(time(0.1, 0.4, random)), Some(time(0.5, 0.95, random)));
            lots.push(LotPlan { amount: starting, promotional: true, starts, ends, ..lasting });
        }
        if random.happens(100) {
            lots.push(LotPlan { amount: supply, mistaken: true, ..lasting });
        }
        lots
    }
}

/// The tenants' names and their places.
pub(super) struct Names {
    pub(super) list: Vec<String>,
    places: BTreeMap<String, usize>,
}

impl Names {
    pub(super) fn numbered(count: u32) -> Self {
        let list: Vec<String> = (1..=count.max(1)).map(|number| format!("t{number}")).collect();
        let places = list.iter().cloned().enumerate().map(|(place, name)| (name, place)).collect();
        Self { list, places }
    }

    pub(super) fn place_of(&mut self, name: &str) -> usize {
        *self.places.entry(name.to_owned()).or_insert_with(|| {
            self.list.push(name.to_owned());
            self.list.len() - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::job::{Repeat, Story, Undo};

    fn requests(count: u64) -> Vec<TraceRequest> {
        let request = |number: u64| TraceRequest {
            due: Duration::from_secs(number),
            tenant: None,
            estimate: 1_000 + number,
            actual: 500 + number,
            duration: Duration::from_secs(2),
        };
        (0..count).map(request).collect()
    }

    fn settings(tenants: u32, zipf: f64, seed: u64) -> PlanSettings {
        PlanSettings {
            tenants,
            zipf,
            seed,
            speed: 100,
            supply_percent: 130,
            take_back_percent: 0,
            unacknowledged_percent: 10,
            overdraft_percent: 0,
        }
    }

    fn plan(seed: u64) -> Plan {
        Plan::new(&requests(5_000), settings(50, 1.0, seed))
    }

    #[test]
    fn a_seed_has_one_plan() {
        assert_eq!(plan(1), plan(1));
        assert_ne!(plan(1), plan(2));
    }

    #[test]
    fn every_kind_of_story_is_told() {
        let plan = plan(1);
        let count = |wanted: fn(&Job) -> bool| plan.jobs.iter().filter(|job| wanted(job)).count();
        let counts = [
            count(|job| matches!(job.story, Story::Failed { .. })),
            count(|job| matches!(job.story, Story::Vanished { .. })),
            count(|job| matches!(job.story, Story::Charged { .. })),
            count(|job| matches!(job.story, Story::TooExpensive { .. })),
            count(
                |job| matches!(&job.story, Story::Captured { captures, .. } if captures.len() > 1),
            ),
            count(|job| {
                matches!(&job.story, Story::Captured { captures, .. }
                if captures[0] > job.estimate)
            }),
            count(|job| matches!(job.story, Story::Captured { undo: Undo::RefundAndReclaim, .. })),
            count(|job| job.repeat == Repeat::AtOnce),
        ];
        assert!(counts.iter().all(|count| *count > 10), "{counts:?}");
        assert_eq!(plan.length, Duration::from_millis(49_990));
        assert!(!plan.top_ups.is_empty());
    }

    #[test]
    fn a_named_tenant_pays_for_itself() {
        let mut requests = requests(10);
        for request in &mut requests[..3] {
            request.tenant = Some("acme".to_owned());
        }
        let plan = Plan::new(&requests, settings(2, 0.0, 1));
        assert_eq!(plan.tenants.len(), 3);
        assert_eq!(plan.tenants[2].name, "acme");
        assert!(plan.jobs[..3].iter().all(|job| job.tenant == 2));
        assert!(plan.jobs[3..].iter().all(|job| job.tenant < 2));
    }
}
