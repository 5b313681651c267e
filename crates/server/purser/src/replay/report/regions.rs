//! What a replay says about regions: who decided, how long that took, what cuts did, and how far the
//! true overspend stayed below the bound.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::super::cuts::CutMade;
use super::super::desk::Desk;
use super::super::drive::Driven;
use super::super::overspend::{Overspend, OverspendHeard};
use super::super::regional_counts::Way;
use super::super::sampled::Sampled;
use super::super::tally::{Counts, Quantiles, to_float};
use super::super::traffic::Traffic;
use super::list;

/// The figures of a replay over several regions.
#[derive(Debug, Serialize)]
pub(crate) struct RegionsReport {
    /// Their names.
    regions: Vec<String>,
    /// How long accepted authorizes and charges waited for their decision, by who decided.
    waits: BTreeMap<&'static str, Quantiles>,
    /// Accepted authorizes and charges that left it to the region, from a tenant's second call in a
    /// region on.
    later_calls: u64,
    /// The share of them that the region decided by itself, as home or from an allocation.
    local_share: Option<f64>,
    /// The same where the region is not the tenant's home, and the tenant is not one of those that are
    /// left to run dry: the share from allocations.
    local_share_away: Option<f64>,
    /// Authorizes and charges that were accepted.
    spends: u64,
    /// Calls that were decided in another region than the one where they came in.
    passed_on: u64,
    /// What nodes said to each other meanwhile.
    traffic: Traffic,
    /// Calls whose outcome was unknown after an attempt, and that the same key brought to a decision.
    resolved: u64,
    /// Regions that were cut off.
    cuts: Vec<CutReport>,
    /// The largest bound that any decision stated.
    bound_stated_max: Option<u64>,
    /// What `GET /admin/v1/overspend` said.
    overspend: OverspendHeard,
    /// What was overspent whenever it said something.
    sampled: Sampled,
}

/// See [`CutMade`].
#[derive(Debug, Serialize)]
struct CutReport {
    region: String,
    seconds: u64,
    decided: u64,
    from_allocations: u64,
    home_unreachable: u64,
    other_retries: BTreeMap<String, u64>,
    /// See [`CutMade::booked_after`].
    booked_after_ms: Option<u128>,
}

impl RegionsReport {
    /// Puts the parts together.
    pub(crate) fn new(
        desk: &Desk,
        (counts, traffic): (&Counts, Traffic),
        driven: &Driven,
        overspend: OverspendHeard,
    ) -> Self {
        let regional = &counts.regional;
        let regions = desk.spread().into_iter().flat_map(|spread| spread.regions());
        Self {
            regions: regions.map(ToString::to_string).collect(),
            waits: regional.waits.iter().map(|(way, it)| (way.name(), it.quantiles())).collect(),
            later_calls: regional.later.all,
            local_share: regional.later.share(),
            local_share_away: regional.later_away.share(),
            spends: regional.waits.values().map(|waits| waits.quantiles().count).sum(),
            passed_on: regional.passed_on,
            traffic,
            resolved: counts.resolved,
            cuts: driven.cuts.iter().map(CutReport::new).collect(),
            bound_stated_max: regional.bound_max,
            sampled: Sampled::of(desk, &overspend.samples),
            overspend,
        }
    }

    /// How the true overspend is beyond a bound that was shown at the time, or beyond all of them, if it is.
    pub(super) fn difference(&self, overspent: u64) -> Option<String> {
        if let Some(beyond) = self.sampled.beyond_max {
            return Some(format!(
                "at a sample at least {beyond} more were overspent than the bound"
            ));
        }
        let is_exceeded = self.overspend.is_exceeded_by(overspent) == Some(true);
        let bound = self.overspend.bound_max?;
        is_exceeded
            .then(|| format!("{overspent} were overspent, and the bound never was above {bound}"))
    }

    /// Writes it for people. `overspent` is what the comparison found.
    pub(super) fn write(&self, text: &mut String, overspent: u64) -> std::fmt::Result {
        writeln!(text, "regions    {}", self.regions.join(", "))?;
        for (way, waits) in &self.waits {
            writeln!(text, "{way:<10} {} of {} authorizes and charges", waits, waits.count)?;
        }
        if let Some(share) = self.local_share {
            let (percent, calls) = (share * 100.0, self.later_calls);
            writeln!(text, "locally    {percent:.2} % of {calls} from the second in a region on")?;
        }
        if let Some(share) = self.local_share_away {
            writeln!(
                text,
                "           {:.2} % away from home, but for tenants run dry",
                share * 100.0
            )?;
        }
        self.write_traffic(text)?;
        writeln!(text, "resolved   {} unknown outcomes, by the same key", self.resolved)?;
        for cut in &self.cuts {
            cut.write(text)?;
        }
        self.write_overspend(text, overspent)
    }

    fn write_traffic(&self, text: &mut String) -> std::fmt::Result {
        let Self { spends, passed_on, traffic, .. } = self;
        let of_1_000 = |count: u64| to_float(count) * 1_000.0 / to_float(*spends).max(1.0);
        let counted = |way: Way| self.waits.get(way.name()).map_or(0, |waits| waits.count);
        let spends_passed_on = counted(Way::PassedOn) + counted(Way::Strict);
        let others = passed_on.saturating_sub(spends_passed_on);
        let messages = of_1_000(traffic.about_allocations());
        write!(text, "messages   for each 1,000 spends: {messages:.1} about allocations, ")?;
        write!(text, "{:.1} spends passed on, ", of_1_000(spends_passed_on))?;
        writeln!(text, "{:.1} other calls passed on", of_1_000(others))?;
        for (kind, count) in &traffic.asks {
            let bytes = traffic.bytes_of_one(kind).unwrap_or_default();
            writeln!(text, "           {count} {kind}, {bytes} bytes each")?;
        }
        writeln!(text, "away       {}", list(&traffic.spends))
    }

    fn write_overspend(&self, text: &mut String, overspent: u64) -> std::fmt::Result {
        let OverspendHeard { answers, incomplete, bound_max, last, samples: _ } = &self.overspend;
        let known =
            |figure: Option<u64>| figure.map_or_else(|| "unknown".to_owned(), |it| it.to_string());
        let stated = known(self.bound_stated_max);
        write!(text, "overspend  {overspent} in truth; largest bound {}", known(*bound_max))?;
        writeln!(text, " of {answers} answers ({incomplete} incomplete), {stated} in decisions")?;
        let Sampled { count, overspent_max, beyond_max } = &self.sampled;
        let within =
            if beyond_max.is_none() { "never beyond the bound" } else { "BEYOND THE BOUND" };
        writeln!(text, "           at {count} samples, at least {overspent_max} at one; {within}")?;
        let Overspend { bound, realised, ceiling, stranded, unknown_regions } =
            last.clone().unwrap_or_default();
        write!(text, "at the end bound {}, realised {}", known(bound), known(realised))?;
        write!(text, ", ceiling {}, stranded {}", known(ceiling), known(stranded))?;
        if !unknown_regions.is_empty() {
            write!(text, ", without {}", unknown_regions.join(", "))?;
        }
        let verdict = match self.overspend.is_exceeded_by(overspent) {
            None => "unknown whether within the bound",
            Some(false) => "within the bound",
            Some(true) => "BEYOND THE BOUND",
        };
        writeln!(text, ": {verdict}")
    }
}

impl CutReport {
    fn new(made: &CutMade) -> Self {
        let CutMade { cut, counts, booked_after } = made;
        Self {
            region: cut.region.to_string(),
            seconds: cut.until.saturating_sub(cut.from).as_secs(),
            decided: counts.decided,
            from_allocations: counts.from_allocations,
            home_unreachable: counts.home_unreachable,
            other_retries: counts.other_retries.clone(),
            booked_after_ms: booked_after.map(|time| time.as_millis()),
        }
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let Self { region, seconds, decided, from_allocations, home_unreachable, .. } = self;
        write!(text, "cut off    {region} for {seconds} s: decided {decided} calls itself, ")?;
        write!(text, "{from_allocations} of them from allocations; refused {home_unreachable} ")?;
        write!(
            text,
            "attempts with home_unreachable; other retries: {}",
            list(&self.other_retries)
        )?;
        match self.booked_after_ms {
            Some(time) => writeln!(text, "; all booked {time} ms after it was mended"),
            None => writeln!(text, "; not all booked half a minute after it was mended"),
        }
    }
}
