//! Reading outcomes from CSV or NDJSON. A line that cannot be read is told by its number, and costs no other
//! line anything.

use std::collections::{BTreeMap, BTreeSet};

use purser_api::{Amount, JobName, TenantName, UnitName};
use purser_types::Credits;
use serde::Deserialize;

/// Whose work an outcome is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct JobOf {
    pub(super) tenant: String,
    pub(super) unit: String,
    pub(super) job: String,
}

/// What a job costs in the end, and which line says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) cost: Credits,
    pub(super) line: usize,
}

/// What a file says.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    pub(super) by_job: BTreeMap<JobOf, Cost>,
    /// What is wrong with which line, in their order.
    pub(super) bad_lines: Vec<String>,
    /// Jobs with two costs, which are left alone.
    doubtful: BTreeSet<JobOf>,
}

/// A line as it stands there.
#[derive(Deserialize)]
struct Line {
    tenant: TenantName,
    job_id: JobName,
    cost: Amount,
    #[serde(default)]
    unit: UnitName,
}

impl Outcomes {
    /// Reads a file's text. A job that stands there twice counts once; with two costs, it is left alone.
    pub(super) fn read(text: &str) -> Self {
        let mut outcomes = Self::default();
        let mut header: Option<Vec<&str>> = None;
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            if text.is_empty() {
                continue;
            }
            let read = if text.starts_with('{') {
                serde_json::from_str(text).map_err(|error| error.to_string())
            } else if let Some(names) = &header {
                read_csv(names, text)
            } else {
                header = Some(text.split(',').map(str::trim).collect());
                continue;
            };
            match read {
                Ok(read) => outcomes.add(line, read),
                Err(why) => outcomes.bad_lines.push(format!("line {line}: {why}")),
            }
        }
        let Self { by_job, doubtful, .. } = &mut outcomes;
        by_job.retain(|job, _| !doubtful.contains(job));
        outcomes
    }

    /// Whether the file has two costs of a job.
    pub(super) fn is_doubtful(&self, job: &JobOf) -> bool {
        self.doubtful.contains(job)
    }

    fn add(&mut self, line: usize, read: Line) {
        let Line { tenant, job_id, cost: Amount(cost), unit } = read;
        let job =
            JobOf { tenant: tenant.to_string(), unit: unit.to_string(), job: job_id.to_string() };
        let first = *self.by_job.entry(job.clone()).or_insert(Cost { cost, line });
        if first.cost != cost {
            let (job_id, first) = (&job.job, first.line);
            self.bad_lines.push(format!("line {line}: line {first} has another cost of {job_id}"));
            self.doubtful.insert(job);
        }
    }
}

/// Names and numbers need no quotes, so there are none.
fn read_csv(names: &[&str], text: &str) -> Result<Line, String> {
    let values: Vec<&str> = text.split(',').map(str::trim).collect();
    if values.len() != names.len() {
        return Err(format!("{} values for {} columns", values.len(), names.len()));
    }
    let pairs = names.iter().zip(values).filter(|(_, value)| !value.is_empty());
    let object = pairs.map(|(name, value)| ((*name).to_owned(), value.into())).collect();
    serde_json::from_value(serde_json::Value::Object(object)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(outcomes: &Outcomes) -> Vec<(&str, u64)> {
        outcomes.by_job.iter().map(|(job, cost)| (job.job.as_str(), cost.cost.get())).collect()
    }

    #[test]
    fn csv_and_json_lines_say_the_same() {
        let csv = Outcomes::read("tenant,job_id,cost\nacme,j1,30\n\nacme,j2,0\n");
        let json = Outcomes::read(
            r#"{"tenant":"acme","job_id":"j1","cost":30}
               {"tenant":"acme","job_id":"j2","cost":"0","unit":"credits"}"#,
        );
        assert_eq!(costs(&csv), [("j1", 30), ("j2", 0)]);
        assert_eq!(csv.by_job.keys().collect::<Vec<_>>(), json.by_job.keys().collect::<Vec<_>>());
        assert!(csv.bad_lines.is_empty() && json.bad_lines.is_empty(), "{:?}", json.bad_lines);
    }

    #[test]
    fn a_bad_line_is_told_by_its_number_and_costs_no_other_line_anything() {
        let text = "tenant,job_id,cost\nacme,j1,30\nacme,j2\nacme,j3,-4\nacme,j4,1.5\nacme,j5,7\n";
        let outcomes = Outcomes::read(text);
        assert_eq!(costs(&outcomes), [("j1", 30), ("j5", 7)]);
        let numbers: Vec<&str> =
            outcomes.bad_lines.iter().filter_map(|bad| bad.split(':').next()).collect();
        assert_eq!(numbers, ["line 3", "line 4", "line 5"], "{:?}", outcomes.bad_lines);
    }

    #[test]
    fn a_job_with_two_costs_is_left_alone_and_one_that_stands_there_twice_counts_once() {
        let text = "job_id,tenant,cost\nj1,acme,30\nj1,acme,30\nj2,acme,5\nj2,acme,6\n";
        let outcomes = Outcomes::read(text);
        assert_eq!(costs(&outcomes), [("j1", 30)]);
        assert_eq!(outcomes.bad_lines, ["line 5: line 4 has another cost of j2"]);
    }
}
