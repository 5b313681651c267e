//! What a replay of jobs says at its end.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;

use super::check::Compared;
use super::floor::Noted;
use super::story::End;
use super::tables::TablesReport;
use crate::failure::CommandError;
use crate::replay::drive::per_second;
use crate::replay::outage::Outage;
use crate::replay::tally::Counts;

/// How many differences and complaints are printed; a fault usually makes many alike.
const SHOWN: usize = 10;

/// The figures of a replay, and the verdict.
#[derive(Debug, Serialize)]
pub(crate) struct JobsReport {
    /// The run's name.
    run: String,
    /// From the first request to the last outcome, in seconds.
    seconds: f64,
    /// Entries that were written meanwhile, per second.
    entries_per_second: f64,
    /// How many jobs had to end how.
    ends: BTreeMap<End, u64>,
    /// How often what happened on the way.
    counts: BTreeMap<&'static str, u64>,
    /// Attempts that had to be repeated, by reason.
    retried: BTreeMap<String, u64>,
    /// The node that was killed on the way.
    killed: Option<String>,
    /// Calls that were given up.
    undecided: u64,
    /// Jobs that have not ended as they must.
    unsettled: usize,
    /// The tables in PostgreSQL.
    tables: Option<TablesReport>,
    /// What was compared.
    compared: Compared,
    /// Answers that should not have come.
    complaints: Vec<String>,
}

/// Calls that got no decision in time, so that the plan was not carried out.
#[derive(Debug, thiserror::Error)]
#[error("{0} calls were given up undecided")]
struct GivenUp(u64);

/// What a run came to, before its figures are told.
pub(super) struct Ran {
    pub(super) run: String,
    pub(super) took: Duration,
    pub(super) ends: BTreeMap<End, u64>,
    pub(super) outage: Option<Outage>,
    pub(super) unsettled: usize,
}

impl JobsReport {
    /// Puts the parts together.
    pub(super) fn new(
        ran: Ran,
        (noted, counts): (Noted, Counts),
        (compared, tables): (Compared, Option<TablesReport>),
    ) -> Self {
        let Ran { run, took, ends, outage, unsettled } = ran;
        Self {
            run,
            seconds: took.as_secs_f64(),
            entries_per_second: per_second(compared.entries, took),
            ends,
            counts: noted.counts,
            retried: counts.retried,
            killed: outage.map(|outage| outage.node),
            undecided: counts.undecided,
            unsettled,
            tables,
            compared,
            complaints: noted.complaints,
        }
    }

    /// How the command ends: well, if everything was decided and is as it must be.
    pub(crate) fn outcome(&self) -> Result<(), CommandError> {
        let wrong = self.compared.differences.len() + self.complaints.len() + self.unsettled;
        if self.undecided > 0 {
            let text = "not all was replayed that should have been";
            return Err(CommandError::unreached(text, GivenUp(self.undecided)));
        }
        if wrong > 0 {
            let text = format!("the service and the plan differ in {wrong} cases");
            return Err(CommandError::Failed(text));
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
        let Self { run, seconds, entries_per_second, .. } = self;
        writeln!(text, "run {run}: {seconds:.1} s, {entries_per_second:.0} entries/s")?;
        let ends = self.ends.iter().map(|(end, count)| (format!("{end:?}").to_lowercase(), count));
        writeln!(text, "jobs       {}", list(ends))?;
        writeln!(text, "happened   {}", list(self.counts.iter()))?;
        writeln!(text, "retried    {}", list(self.retried.iter()))?;
        if let Some(node) = &self.killed {
            writeln!(text, "killed     {node}")?;
        }
        if let Some(TablesReport { lag, waited_seconds, published }) = &self.tables {
            writeln!(text, "tables     {published} events in the outbox; answer to row: {lag}")?;
            writeln!(text, "           {waited_seconds:.1} s behind when they were compared")?;
        }
        if self.undecided > 0 {
            writeln!(text, "{} calls were given up undecided", self.undecided)?;
        }
        if self.unsettled > 0 {
            writeln!(text, "{} jobs have not ended as they must", self.unsettled)?;
        }
        for complaint in self.complaints.iter().take(SHOWN) {
            writeln!(text, "  {complaint}")?;
        }
        self.write_verdict(text)
    }

    fn write_verdict(&self, text: &mut String) -> std::fmt::Result {
        let Compared { tenants, entries, lots, jobs, events, differences } = &self.compared;
        write!(
            text,
            "{tenants} tenants, {lots} lots, {jobs} jobs, {events} usage events, {entries} entries \
             compared: "
        )?;
        if differences.is_empty() {
            return write!(text, "all equal");
        }
        write!(text, "{} differ", differences.len())?;
        for difference in differences.iter().take(SHOWN) {
            write!(text, "\n  {difference}")?;
        }
        Ok(())
    }
}

fn list<K: std::fmt::Display, V: std::fmt::Display>(
    counts: impl Iterator<Item = (K, V)>,
) -> String {
    let items: Vec<String> = counts.map(|(key, count)| format!("{count} {key}")).collect();
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_exit_code(undecided: u64, unsettled: usize, wrong: [&[&str]; 2], expected: u8) {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let [differences, complaints] = wrong.map(owned);
        let ran = Ran {
            run: "run".to_owned(),
            took: Duration::from_secs(1),
            ends: BTreeMap::new(),
            outage: None,
            unsettled,
        };
        let noted = Noted { complaints, ..Noted::default() };
        let counts = Counts { undecided, ..Counts::default() };
        let compared = Compared { differences, ..Compared::default() };
        let report = JobsReport::new(ran, (noted, counts), (compared, None));
        let code = report.outcome().map_or_else(|error| error.exit_code(), |()| 0);
        assert_eq!(code, expected, "{}", report.render());
    }

    #[test]
    fn anything_that_is_not_as_planned_fails_the_command() {
        check_exit_code(0, 0, [&[], &[]], 0);
        check_exit_code(0, 1, [&[], &[]], 1);
        check_exit_code(0, 0, [&["t1: used"], &[]], 1);
        check_exit_code(0, 0, [&[], &["422"]], 1);
        check_exit_code(1, 0, [&[], &[]], 3);
    }
}
