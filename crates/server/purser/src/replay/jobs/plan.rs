//! What a replay of jobs will do: which request of the trace is a job and which a usage event, who pays,
//! and what every tenant must have at the end. All of it follows from the trace and the seed alone.

use std::collections::BTreeMap;
use std::time::Duration;

use super::story::{self, End, Story};
use crate::replay::plan::Names;
use crate::replay::random::{Random, Zipf};
use crate::replay::trace::TraceRequest;

/// Of a thousand requests so many are told as usage events, after the work; the others are jobs.
const USAGE: u64 = 250;
/// Of a thousand jobs so many are charged; the others have a hold.
const CHARGED: u64 = 300;
/// Of a thousand jobs so many are worked on by a worker from the start; the others by who creates them.
const ENQUEUED: u64 = 500;
/// Of a thousand usage events so many are told once more with another amount.
const CONFLICTING: u64 = 50;

/// What to make of a trace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobsPlanSettings {
    /// Over how many tenants to spread requests that name none. At least 1.
    pub(crate) tenants: u32,
    /// How unevenly.
    pub(crate) zipf: f64,
    /// Where the randomness starts.
    pub(crate) seed: u64,
    /// How many times faster than the trace.
    pub(crate) speed: u32,
    /// How much home may answer before its standby has it, in percent of what a tenant has.
    pub(crate) unacknowledged_percent: u32,
}

/// See the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobsPlan {
    /// Who pays.
    pub(crate) tenants: Vec<Payer>,
    /// What is done, by the time it is due.
    pub(crate) works: Vec<Work>,
    /// When the last of it is due.
    pub(crate) length: Duration,
    /// Where the randomness started.
    pub(crate) seed: u64,
}

/// A tenant, and what must be true of it at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Payer {
    /// Its name in the trace, or `t` and a number.
    pub(crate) name: String,
    /// What it has at first, in two lots: enough for everything, whatever comes first.
    pub(crate) lots: [u64; 2],
    /// What its home may answer before its standby has it.
    pub(crate) unacknowledged_max: u64,
    /// What it must have used at the end.
    pub(crate) used: u64,
}

/// One request of the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Work {
    /// When it is due, from the start on.
    pub(crate) due: Duration,
    /// Who pays: a place in [`JobsPlan::tenants`].
    pub(crate) tenant: usize,
    /// What it costs.
    pub(crate) amount: u64,
    /// What it is.
    pub(crate) kind: Kind,
}

/// What a request is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A job.
    Job {
        /// Whether it is charged at once; else it has a hold.
        is_charged: bool,
        /// Whether a worker has the first attempt.
        is_enqueued: bool,
        /// What becomes of it.
        story: Story,
    },
    /// Use that is reported after the work.
    Usage {
        /// When each of its tellings comes, from when it is due.
        tells: Vec<Duration>,
        /// Whether somebody tells it once more with another amount.
        has_conflict: bool,
    },
}

impl Work {
    /// How its job must end, if it is one.
    pub(crate) fn end(&self) -> Option<End> {
        match &self.kind {
            Kind::Job { story, .. } => Some(story.end()),
            Kind::Usage { .. } => None,
        }
    }

    /// What of its cost must be used at the end.
    pub(crate) fn cost(&self) -> u64 {
        match self.end() {
            Some(End::Succeeded) | None => self.amount,
            Some(End::Failed | End::Dead | End::Discarded) => 0,
        }
    }
}

impl JobsPlan {
    /// Plans a replay of `requests`.
    pub(crate) fn new(requests: &[TraceRequest], settings: JobsPlanSettings) -> Self {
        let mut random = Random::from_seed(settings.seed);
        let zipf = Zipf::new(settings.tenants, settings.zipf);
        let mut names = Names::numbered(settings.tenants);
        let speed = settings.speed.max(1);
        let works: Vec<Work> = requests
            .iter()
            .map(|request| {
                let tenant = match &request.tenant {
                    Some(name) => names.place_of(name),
                    None => zipf.pick(&mut random),
                };
                let (due, amount) = (request.due / speed, request.estimate.max(1));
                Work { due, tenant, amount, kind: kind(&mut random) }
            })
            .collect();
        let mut sums: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
        for work in &works {
            let (asked, used) = sums.entry(work.tenant).or_default();
            *asked = asked.saturating_add(work.amount);
            *used = used.saturating_add(work.cost());
        }
        let payer = |(place, name)| {
            let (asked, used) = sums.get(&place).copied().unwrap_or_default();
            let percent = u64::from(settings.unacknowledged_percent);
            let unacknowledged_max = asked.saturating_mul(percent) / 100;
            let small = asked / 3 + 1;
            let lots = [small, asked.saturating_sub(small).saturating_add(1)];
            Payer { name, lots, unacknowledged_max, used }
        };
        let tenants = names.list.into_iter().enumerate().map(payer).collect();
        let length = works.last().map(|work| work.due).unwrap_or_default();
        Self { tenants, works, length, seed: settings.seed }
    }

    /// How many jobs must end how.
    pub(crate) fn ends(&self) -> BTreeMap<End, u64> {
        let mut ends = BTreeMap::new();
        for end in self.works.iter().filter_map(Work::end) {
            *ends.entry(end).or_default() += 1;
        }
        ends
    }

    /// The usage events of a tenant that conflict with others, by their places.
    pub(crate) fn conflicts(&self, tenant: usize) -> impl Iterator<Item = usize> {
        let works = self.works.iter().enumerate().filter(move |(_, work)| work.tenant == tenant);
        let conflicts = |kind: &Kind| matches!(kind, Kind::Usage { has_conflict: true, .. });
        works.filter(move |(_, work)| conflicts(&work.kind)).map(|(place, _)| place)
    }
}

fn kind(random: &mut Random) -> Kind {
    if random.happens(USAGE) {
        let tells = (0..story::times(random)).map(|_| story::later(random)).collect();
        return Kind::Usage { tells, has_conflict: random.happens(CONFLICTING) };
    }
    let (is_charged, is_enqueued) = (random.happens(CHARGED), random.happens(ENQUEUED));
    Kind::Job { is_charged, is_enqueued, story: Story::draw(random) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(seed: u64) -> JobsPlan {
        let request = |number: u64| TraceRequest {
            due: Duration::from_secs(number),
            tenant: None,
            estimate: 1_000 + number,
            actual: 500,
            duration: Duration::from_secs(2),
        };
        let requests: Vec<_> = (0..3_000).map(request).collect();
        let settings = JobsPlanSettings {
            tenants: 20,
            zipf: 1.0,
            seed,
            speed: 1_000,
            unacknowledged_percent: 10,
        };
        JobsPlan::new(&requests, settings)
    }

    #[test]
    fn a_seed_has_one_plan() {
        assert_eq!(plan(1), plan(1));
        assert_ne!(plan(1), plan(2));
    }

    #[test]
    fn what_is_used_at_the_end_is_the_cost_of_what_is_delivered_and_there_is_enough() {
        let plan = plan(3);
        for (place, payer) in plan.tenants.iter().enumerate() {
            let theirs = || plan.works.iter().filter(|work| work.tenant == place);
            let delivered = theirs().filter(|it| matches!(it.end(), Some(End::Succeeded) | None));
            assert_eq!(payer.used, delivered.map(|work| work.amount).sum::<u64>());
            let asked: u64 = theirs().map(|work| work.amount).sum();
            assert!(payer.lots.iter().sum::<u64>() > asked, "{payer:?}");
        }
        let used: u64 = plan.tenants.iter().map(|payer| payer.used).sum();
        let asked: u64 = plan.works.iter().map(|work| work.amount).sum();
        assert!(used < asked, "some of it costs nothing");
    }

    #[test]
    fn there_are_jobs_of_every_kind_and_usage_that_conflicts() {
        let plan = plan(4);
        assert_eq!(plan.ends().len(), 4, "{:?}", plan.ends());
        let has = |charged, enqueued| {
            plan.works.iter().any(|work| {
                matches!(&work.kind, Kind::Job { is_charged, is_enqueued, .. }
                    if (*is_charged, *is_enqueued) == (charged, enqueued))
            })
        };
        assert!(has(true, true) && has(true, false) && has(false, true) && has(false, false));
        assert!((0..20).any(|tenant| plan.conflicts(tenant).next().is_some()));
    }
}
