//! Home side: what to do with an account's credits next.
//!
//! The *whole* is what home has and what regions within reach could give back. Granting and recalling
//! only move credits about within it, so a decision never changes what the next one is measured by.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use purser_types::{Credits, Region, Span};

use super::arithmetic::{credits, wide};
use super::member::{Member, exceeds_twice, with_jitter};
use super::split::{Claim, split};
use super::target::{burst, half, runway};
use super::{Decision, Known, REPORT_INTERVAL, Share, Tuning};
use crate::protocol::Mode;

/// The sizing of one account, as home's leader keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    tuning: Tuning,
    mode: Mode,
    pub(super) members: BTreeMap<Region, Member>,
}

/// A region within reach.
struct Reached<'a> {
    region: Region,
    share: &'a Share,
    /// Whether its answer is about to leave, so that a grant costs no message of its own.
    is_new: bool,
    /// What it should have.
    should_have: Credits,
    /// What of that is for a burst.
    burst: Credits,
}

/// What all regions' parts are measured by.
struct Measure {
    /// What home has and regions within reach could give back, but for what calls wait for.
    whole: u128,
    /// For how long everybody should be able to go on.
    runway: Span,
    /// What a region that has calls should have for a burst.
    burst: Credits,
    /// Whether there is enough for regions that rest.
    is_ample: bool,
}

/// How the whole should be shared.
struct Plan<'a> {
    /// In the order of their names.
    regions: Vec<Reached<'a>>,
    /// What home should keep for its own demand.
    home: Credits,
    /// What home can give away now: neither home's own demand nor calls that wait need it.
    budget: Credits,
}

/// The last credits: the whole would not serve all active regions' minimum this many times.
const LAST_CREDITS: u128 = 12;

/// So many times that is enough again.
const ENOUGH: u128 = 4;

impl Pool {
    /// A pool whose regions were told `mode`: a new leader reads it off the allocations.
    pub fn new(tuning: Tuning, mode: Mode) -> Self {
        Self { tuning, mode, members: BTreeMap::new() }
    }

    /// What regions do now: `Local` or `Strict`.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// A region's answer to the last recall is booked.
    pub fn answered(&mut self, region: Region) {
        if let Some(member) = self.members.get_mut(&region) {
            member.answer();
        }
    }

    /// What was decided for a region was given up: it is looked at again without a new report, because one
    /// that was given nothing has nothing to report.
    pub fn look_again(&mut self, region: Region) {
        if let Some(member) = self.members.get_mut(&region) {
            member.forget_report();
        }
    }

    /// What to do, in this order: the mode; recalls, the largest surplus first; grants, by the regions'
    /// names. No region is asked back and granted at once, and grants never exceed what is available.
    ///
    /// The caller books the decisions, or gives them up, before it asks again. It asks after each
    /// report that it has booked, whenever credits have become available, and whenever a call has to
    /// wait.
    pub fn decide(&mut self, known: &Known) -> Vec<Decision> {
        let new_reports = self.look_at(known);
        let without_waiting;
        let known = if self.is_hopeless(known) {
            without_waiting = Known { waiting: None, ..known.clone() };
            &without_waiting
        } else {
            known
        };
        let mode = self.choose_mode(known);
        let is_woken = mode == Some(Mode::Local);
        let plan = self.plan(known, &new_reports);
        let recalls = self.recalls(known, &plan);
        let grants = self.grants(&plan, is_woken);
        mode.map(Decision::Mode).into_iter().chain(recalls).chain(grants).collect()
    }

    fn look_at(&mut self, known: &Known) -> BTreeSet<Region> {
        self.members.retain(|region, _member| known.shares.contains_key(region));
        let new = known
            .shares
            .iter()
            .filter(|(region, share)| self.members.entry(**region).or_default().look_at(share));
        new.map(|(region, _share)| *region).collect()
    }

    fn reachable<'a>(&self, known: &'a Known) -> impl Iterator<Item = (Region, &'a Share)> {
        known.shares.iter().map(|(region, share)| (*region, share)).filter(|(region, share)| {
            self.members.get(region).is_none_or(|member| member.is_reachable(share, known.now))
        })
    }

    /// Whether nobody could pay the call whose turn is next, whatever regions gave back. It is about to be
    /// refused, and moves nothing: who asks for a billion must not cost others what they have at hand.
    fn is_hopeless(&self, known: &Known) -> bool {
        let out = self.reachable(known).map(|(_region, share)| wide(share.outstanding));
        let most = out.fold(wide(known.available), u128::saturating_add);
        known.waiting.is_some_and(|waiting| wide(waiting.first) > most)
    }

    /// What home has and what regions within reach could give back.
    fn whole(&self, known: &Known) -> u128 {
        let out = self.reachable(known).map(|(_region, share)| wide(share.free()));
        out.fold(wide(known.available), u128::saturating_add)
    }

    /// What all regions with demand need at least.
    fn minimum(&self, known: &Known, is_counted: impl Fn(&Share) -> bool) -> u128 {
        let counted = self.reachable(known).filter(|(_region, share)| is_counted(share));
        counted.fold(0, |sum: u128, (_, share)| sum.saturating_add(wide(share.demand.minimum())))
    }

    /// The mode, if it changes. Without demand there is no reason to change it.
    fn choose_mode(&mut self, known: &Known) -> Option<Mode> {
        let is_active = |share: &Share| share.demand.is_active(self.tuning);
        if !self.reachable(known).any(|(_region, share)| is_active(share)) {
            return None;
        }
        let last = self.minimum(known, is_active).saturating_mul(LAST_CREDITS);
        let whole = self.whole(known);
        let mode = match self.mode {
            Mode::Strict if whole >= last.saturating_mul(ENOUGH) => Mode::Local,
            Mode::Local if whole < last => Mode::Strict,
            Mode::Local | Mode::Strict | Mode::Frozen | Mode::Ending => return None,
        };
        self.mode = mode;
        Some(mode)
    }

    fn plan<'a>(&self, known: &'a Known, new_reports: &BTreeSet<Region>) -> Plan<'a> {
        let measure = self.measure(known);
        let waiting = known.waiting.map_or(Credits::ZERO, |waiting| waiting.credits);
        let home =
            Claim { weight: known.home.minimum(), wanted: known.home.target(measure.runway) };
        let claim = |(_region, share): (Region, &Share)| Claim {
            weight: share.demand.minimum(),
            wanted: self.wanted(share, &measure),
        };
        let claims: Vec<Claim> = self.reachable(known).map(claim).chain([home]).collect();
        let mut parts = split(credits(measure.whole), &claims);
        let home = parts.pop().unwrap_or_default();
        let regions = self.reachable(known).zip(parts).map(|((region, share), should_have)| {
            let (is_new, burst) = (new_reports.contains(&region), measure.burst_of(share));
            Reached { region, share, is_new, should_have, burst }
        });
        let budget = known.available.saturating_sub(waiting).saturating_sub(home);
        Plan { regions: regions.collect(), home, budget }
    }

    fn measure(&self, known: &Known) -> Measure {
        let waiting = known.waiting.map_or(Credits::ZERO, |waiting| waiting.credits);
        let whole = self.whole(known).saturating_sub(wide(waiting));
        let active = self.reachable(known).filter(|(_, share)| share.demand.is_active(self.tuning));
        let rates = active.map(|(_region, share)| share.demand.rate.wide());
        let total_rate = rates.fold(known.home.rate.wide(), u128::saturating_add);
        // What calls cost in one region, they may cost in another that has seen fewer.
        let costs = known.shares.values().map(|share| share.demand.p99_cost);
        let dear = costs.fold(known.home.p99_cost, Credits::max);
        let all = self.minimum(known, |_share| true);
        Measure {
            whole,
            runway: runway(whole, total_rate),
            burst: burst(dear, whole, known.shares.len()),
            is_ample: whole >= all.saturating_mul(LAST_CREDITS).saturating_mul(ENOUGH),
        }
    }

    /// What a region would have if there were enough for all.
    fn wanted(&self, share: &Share, measure: &Measure) -> Credits {
        let demand = &share.demand;
        if self.mode != Mode::Local || demand.idle >= self.tuning.end_after {
            return Credits::ZERO;
        }
        if !demand.is_active(self.tuning) {
            let rests = demand.minimum().max(measure.burst_of(share));
            return if measure.is_ample { rests } else { Credits::ZERO };
        }
        // What nobody could pay moves nothing; and a call that costs more than half of the whole is for
        // home to decide.
        let want = Some(demand.want).filter(|want| wide(*want) <= measure.whole);
        let want = want.unwrap_or_default().min(half(credits(measure.whole)));
        demand.target(measure.runway).max(measure.burst_of(share)).max(want)
    }

    fn recalls(&mut self, known: &Known, plan: &Plan<'_>) -> Vec<Decision> {
        let mut missing = plan.missing(known);
        let mut order: Vec<&Reached<'_>> = plan.regions.iter().collect();
        order.sort_by_key(|reached| (Reverse(reached.surplus()), reached.region));
        let mut recalls = Vec::new();
        for reached in order {
            let Reached { region, share, should_have, .. } = *reached;
            let member = self.members.entry(region).or_default();
            let is_stale = reached.is_new && member.counts_surplus(share, should_have);
            let is_resting = !share.demand.is_active(self.tuning);
            let has_much = exceeds_twice(share.lasting(), should_have);
            let is_surplus_needed = has_much && (is_stale || is_resting || !missing.is_zero());
            let is_needed = match known.short() {
                // Home may not know what holds have freed meanwhile: whoever has anything is asked.
                Some(since) => {
                    !share.outstanding.is_zero()
                        && (!reached.surplus().is_zero() || !member.has_answered_since(since))
                }
                None => is_surplus_needed,
            };
            if is_needed && !member.is_asked() {
                member.ask(known.now);
                // What ends goes home by itself; but calls that wait cannot wait for that.
                let ending = share.demand.ending;
                let ending = if known.short().is_none() { ending } else { Credits::ZERO };
                let keep = should_have.checked_add(ending).unwrap_or(Credits::MAX);
                recalls.push(Decision::Recall { region, keep: keep.min(share.free()) });
            }
            if member.is_asked() {
                missing = missing.saturating_sub(reached.surplus());
            }
        }
        recalls
    }

    /// Grants to regions that run low: to those whose answer is about to leave, to those where calls
    /// wait, and to all when the mode has changed back.
    fn grants(&self, plan: &Plan<'_>, is_woken: bool) -> Vec<Decision> {
        let is_asked = |region| self.members.get(region).is_some_and(Member::is_asked);
        let short: Vec<&Reached<'_>> = plan
            .regions
            .iter()
            .filter(|reached| reached.is_new || reached.is_waiting() || is_woken)
            .filter(|reached| !is_asked(&reached.region))
            .collect();
        let claim = |reached: &&Reached<'_>| {
            let need = reached.need();
            Claim { weight: need, wanted: need }
        };
        let amounts = split(plan.budget, &short.iter().map(claim).collect::<Vec<_>>());
        let granted = short.iter().zip(amounts).filter(|(_, amount)| !amount.is_zero());
        granted
            .map(|(reached, amount)| Decision::Grant { region: reached.region, amount })
            .collect()
    }
}

impl Measure {
    /// What a region should have for a burst: nothing before its first call.
    fn burst_of(&self, share: &Share) -> Credits {
        if share.demand.p99_cost.is_zero() { Credits::ZERO } else { self.burst }
    }
}

impl Plan<'_> {
    /// What regions that run low, and home, need beyond what home can give.
    fn missing(&self, known: &Known) -> Credits {
        let needs = self
            .regions
            .iter()
            .fold(0, |sum: u128, reached| sum.saturating_add(wide(reached.need())));
        let home = if known.available < half(self.home) {
            wide(self.home.saturating_sub(known.available))
        } else {
            0
        };
        credits(needs.saturating_sub(wide(self.budget)).saturating_add(home))
    }
}

impl Reached<'_> {
    /// What it has beyond what it should.
    fn surplus(&self) -> Credits {
        self.share.lasting().saturating_sub(self.should_have)
    }

    /// Whether calls wait there that what it has cannot serve.
    fn is_waiting(&self) -> bool {
        self.share.free() < self.share.demand.want
    }

    /// What it lacks, once it runs low: when it might run dry before the answer to its next report, half
    /// of what it has for a burst is used, or calls wait. Half full is never low, so that a grant is worth
    /// its message.
    fn need(&self) -> Credits {
        let demand = &self.share.demand;
        let until_next = with_jitter(REPORT_INTERVAL).as_micros();
        let until_next = until_next.saturating_add(self.share.refill.as_micros());
        let low = credits(demand.used_in(Span::from_micros(until_next))).max(half(self.burst));
        let low = low.min(half(self.should_have));
        let low = low.max(demand.want.min(self.should_have));
        let lasting = self.share.lasting();
        if lasting < low { self.should_have.saturating_sub(lasting) } else { Credits::ZERO }
    }
}

impl Known {
    /// When the last call came that waits for credits that home does not have; nothing if home could
    /// serve all.
    fn short(&self) -> Option<Span> {
        let waiting = self.waiting.filter(|waiting| waiting.credits > self.available);
        waiting.map(|waiting| waiting.since)
    }
}
