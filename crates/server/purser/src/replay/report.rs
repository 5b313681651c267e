//! What a replay says at its end.

mod regions;

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

pub(crate) use self::regions::RegionsReport;
use super::drive::{Driven, per_second};
use super::outage::Outage;
use super::tally::{Counts, Quantiles};
use super::verify::Verification;
use crate::failure::CommandError;

/// How many differences are printed; a fault usually makes many alike.
const DIFFERENCES_SHOWN: usize = 10;

/// The figures of a replay, and the verdict.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The run's name.
    run: String,
    /// How long the jobs ran, in seconds.
    seconds: f64,
    /// Calls decided while the jobs ran, per second.
    calls_per_second: f64,
    /// Calls that were decided, by operation.
    decided: BTreeMap<&'static str, u64>,
    /// Calls that were refused, by code.
    refused: BTreeMap<String, u64>,
    /// Attempts that had to be repeated, by reason.
    retried: BTreeMap<String, u64>,
    /// Answers that were marked as decided before.
    replayed: u64,
    /// Calls that were given up.
    undecided: u64,
    /// The first of them.
    undecided_first: Vec<String>,
    /// From when an authorize was due to its decision.
    authorize: Quantiles,
    /// From when a capture was due to its decision.
    capture: Quantiles,
    /// Calls that needed more than one attempt.
    delayed: Quantiles,
    /// The outage that was made on purpose.
    outage: Option<OutageReport>,
    /// Who decided, where the service spans regions.
    regions: Option<RegionsReport>,
    /// What the comparison came to.
    verification: Verification,
}

/// Calls that got no decision in time. The comparison bears it whether they happened or not.
#[derive(Debug, thiserror::Error)]
#[error("{0} calls were given up undecided")]
struct GivenUp(u64);

/// See [`Outage`].
#[derive(Debug, Serialize)]
struct OutageReport {
    node: String,
    groups_led: usize,
    waits: Quantiles,
}

impl Report {
    /// Puts the parts together. `set_up` calls were decided before the jobs ran.
    pub(crate) fn new(
        run: String,
        (counts, set_up): (Counts, u64),
        driven: Driven,
        regions: Option<RegionsReport>,
        mut verification: Verification,
    ) -> Self {
        let overspent = verification.overspent;
        let beyond = regions.as_ref().and_then(|regions| regions.difference(overspent));
        verification.differences.extend(beyond);
        let decided = counts.decided_count().saturating_sub(set_up);
        let outage = driven.outage.map(|outage| {
            let Outage { node, groups_led, waits } = outage;
            OutageReport { node, groups_led, waits }
        });
        Self {
            run,
            seconds: driven.took.as_secs_f64(),
            calls_per_second: per_second(decided, driven.took),
            replayed: counts.replayed,
            undecided: counts.undecided,
            undecided_first: counts.undecided_first,
            authorize: counts.authorize.quantiles(),
            capture: counts.capture.quantiles(),
            delayed: counts.delayed.quantiles(),
            decided: counts.decided,
            refused: counts.refused,
            retried: counts.retried,
            outage,
            regions,
            verification,
        }
    }

    /// How the command ends: well, if everything was decided and is as it must be.
    pub(crate) fn outcome(&self) -> Result<(), CommandError> {
        let (differing, given_up) = (self.verification.differences.len(), self.undecided);
        if differing > 0 {
            let text = format!("the service and the book differ in {differing} cases");
            return Err(CommandError::Failed(text));
        }
        if given_up > 0 {
            let text = "not all was replayed that should have been";
            return Err(CommandError::unreached(text, GivenUp(given_up)));
        }
        Ok(())
    }

    /// The report for people.
    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("writing to a string cannot fail");
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "run {}: {:.1} s", self.run, self.seconds)?;
        writeln!(text, "decided    {}", list(&self.decided))?;
        writeln!(text, "refused    {}", list(&self.refused))?;
        writeln!(text, "retried    {}", list(&self.retried))?;
        writeln!(text, "replayed   {} answers were decided before", self.replayed)?;
        writeln!(text, "throughput {:.0} calls/s", self.calls_per_second)?;
        writeln!(text, "authorize  {}", self.authorize)?;
        writeln!(text, "capture    {}", self.capture)?;
        if self.delayed.count > 0 {
            writeln!(text, "retried calls ({}): {}", self.delayed.count, self.delayed)?;
        }
        if let Some(OutageReport { node, groups_led, waits }) = &self.outage {
            writeln!(text, "killed {node}, leader of {groups_led} groups: {waits}")?;
        }
        if let Some(regions) = &self.regions {
            regions.write(text, self.verification.overspent)?;
        }
        if self.undecided > 0 {
            writeln!(text, "{} calls were given up undecided", self.undecided)?;
            for call in &self.undecided_first {
                writeln!(text, "  {call}")?;
            }
        }
        self.write_verdict(text)
    }

    fn write_verdict(&self, text: &mut String) -> std::fmt::Result {
        let Verification { tenants, entries, lots, holds, answers, refusals, .. } =
            &self.verification;
        let Verification { regional, differences, .. } = &self.verification;
        if self.regions.is_some() {
            let rest = tenants.saturating_sub(*regional);
            writeln!(text, "{regional} tenants compared by sums, {rest} lot by lot")?;
        }
        write!(
            text,
            "{tenants} tenants, {lots} lots, {holds} holds and charges, {entries} entries, \
             {answers} answers, {refusals} refusals compared: "
        )?;
        if differences.is_empty() {
            return write!(text, "all equal");
        }
        write!(text, "{} differ", differences.len())?;
        for difference in differences.iter().take(DIFFERENCES_SHOWN) {
            write!(text, "\n  {difference}")?;
        }
        Ok(())
    }
}

fn list<K: std::fmt::Display>(counts: &BTreeMap<K, u64>) -> String {
    let items: Vec<String> = counts.iter().map(|(key, count)| format!("{count} {key}")).collect();
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[track_caller]
    fn check_exit_code(undecided: u64, differences: &[&str], expected: u8) {
        let counts = Counts { undecided, ..Counts::default() };
        let driven = Driven { took: Duration::from_secs(1), outage: None, cuts: Vec::new() };
        let differences = differences.iter().map(|text| (*text).to_owned()).collect();
        let verification = Verification { differences, ..Verification::default() };
        let report = Report::new("run".to_owned(), (counts, 0), driven, None, verification);
        let code = report.outcome().map_or_else(|error| error.exit_code(), |()| 0);
        assert_eq!(code, expected);
    }

    #[test]
    fn a_wrong_service_is_told_from_one_that_did_not_decide() {
        check_exit_code(0, &[], 0);
        check_exit_code(2, &[], 3);
        check_exit_code(0, &["t1: balance"], 1);
        check_exit_code(2, &["t1: balance"], 1);
    }
}
