//! Where what was charged is not what the work costs, and what would mend it.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::charged::{Charged, ChargedJob};
use super::outcomes::{JobOf, Outcomes};

/// What comparing came to.
#[derive(Debug)]
pub(super) struct Verdict {
    /// How many outcomes agree.
    pub(super) agreeing: usize,
    pub(super) differences: Vec<Difference>,
    /// What jobs were charged that the file does not have.
    pub(super) unlisted: Vec<i128>,
}

/// A job that was charged something else than it costs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Difference {
    pub(super) tenant: String,
    pub(super) unit: String,
    pub(super) job_id: String,
    /// The line that says what it costs; nothing if the file does not have it.
    pub(super) line: Option<usize>,
    /// What it was charged, less what was given back.
    #[serde(serialize_with = "as_text")]
    pub(super) charged: i128,
    /// What it costs.
    #[serde(serialize_with = "as_text")]
    pub(super) cost: i128,
    /// What would mend it.
    pub(super) remedy: Remedy,
    /// Whether that was done.
    pub(super) done: bool,
    /// Why it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refusal: Option<String>,
    /// What can be given back of its holds and charges.
    #[serde(skip)]
    pub(super) parts: Vec<(String, u64)>,
    /// Whether anything of it was ever given back.
    #[serde(skip)]
    pub(super) was_refunded: bool,
}

/// What mends a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Remedy {
    /// What is too much is given back.
    Refund,
    /// The job is told that it succeeded, which takes what it holds or had given back. What is then still
    /// wrong is mended by one of the others.
    Outcome,
    /// What is missing is charged.
    Charge,
}

impl fmt::Display for Remedy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Refund => "refund",
            Self::Outcome => "outcome",
            Self::Charge => "charge",
        })
    }
}

impl Difference {
    /// How much too much was charged.
    pub(super) fn overcharged(&self) -> u64 {
        u64::try_from(self.charged.saturating_sub(self.cost)).unwrap_or(0)
    }

    /// How much too little was charged.
    pub(super) fn undercharged(&self) -> u64 {
        u64::try_from(self.cost.saturating_sub(self.charged)).unwrap_or(0)
    }

    /// The job that it is about.
    pub(super) fn job(&self) -> JobOf {
        let Self { tenant, unit, job_id, .. } = self;
        JobOf { tenant: tenant.clone(), unit: unit.clone(), job: job_id.clone() }
    }

    /// Whether its job was told by now that it succeeded.
    pub(super) fn was_told(&self) -> bool {
        self.done && self.remedy == Remedy::Outcome
    }

    /// Ends as what was found of it afterwards has ended, if anything was.
    pub(super) fn end_as(&mut self, found: Option<&Self>) {
        if let Some(found) = found {
            self.done = found.done;
            self.refusal.clone_from(&found.refusal);
        }
    }

    /// Whether it is none any more.
    pub(super) const fn is_repaired(&self) -> bool {
        self.done && self.refusal.is_none()
    }

    fn of(job: &JobOf, line: Option<usize>, cost: i128, charged: &ChargedJob) -> Option<Self> {
        if charged.net == cost {
            return None;
        }
        let remedy = if charged.net > cost {
            Remedy::Refund
        } else if charged.is_job && !charged.is_told {
            // It may hold what is missing, and take it when it is told.
            Remedy::Outcome
        } else {
            Remedy::Charge
        };
        let left = |(subject, left): (&String, &i128)| {
            let left = u64::try_from(*left).ok().filter(|left| *left > 0)?;
            Some((subject.clone(), left))
        };
        Some(Self {
            tenant: job.tenant.clone(),
            unit: job.unit.clone(),
            job_id: job.job.clone(),
            line,
            charged: charged.net,
            cost,
            remedy,
            done: false,
            refusal: None,
            was_refunded: charged.was_refunded,
            parts: charged.parts.iter().filter_map(left).collect(),
        })
    }
}

/// Holds outcomes against what was charged. With `is_complete`, a job that the file does not have costs
/// nothing.
pub(super) fn compare(outcomes: &Outcomes, charged: &Charged, is_complete: bool) -> Verdict {
    let mut verdict = Verdict { agreeing: 0, differences: Vec::new(), unlisted: Vec::new() };
    let jobs: BTreeSet<&JobOf> = outcomes.by_job.keys().chain(charged.by_job.keys()).collect();
    let nothing = ChargedJob::default();
    for job in jobs {
        let found = charged.by_job.get(job).unwrap_or(&nothing);
        let (line, cost) = match outcomes.by_job.get(job) {
            Some(outcome) => (Some(outcome.line), i128::from(outcome.cost.get())),
            None if outcomes.is_doubtful(job) || found.net == 0 => continue,
            None => {
                verdict.unlisted.push(found.net);
                if !is_complete {
                    continue;
                }
                (None, 0)
            }
        };
        match Difference::of(job, line, cost, found) {
            Some(difference) => verdict.differences.push(difference),
            None => verdict.agreeing += 1,
        }
    }
    verdict
}

/// As amounts are written everywhere.
fn as_text<S: serde::Serializer>(number: &i128, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charged(jobs: &[(&str, i128, bool)]) -> Charged {
        let of = |(job, net, is_job): &(&str, i128, bool)| {
            let job = JobOf {
                tenant: "acme".to_owned(),
                unit: "credits".to_owned(),
                job: (*job).to_owned(),
            };
            (job, ChargedJob { net: *net, is_job: *is_job, ..ChargedJob::default() })
        };
        Charged { by_job: jobs.iter().map(of).collect() }
    }

    #[test]
    fn each_difference_is_named_with_what_mends_it() {
        let outcomes = Outcomes::read(
            "tenant,job_id,cost\nacme,equal,5\nacme,much,5\nacme,none,5\nacme,part,5\nacme,lost,5\n",
        );
        let charged = charged(&[
            ("equal", 5, true),
            ("much", 8, true),
            ("none", 0, true),
            ("part", 2, true),
            ("other", 9, true),
        ]);
        let verdict = compare(&outcomes, &charged, false);
        assert_eq!((verdict.agreeing, verdict.unlisted.as_slice()), (1, [9].as_slice()));
        let found: Vec<_> = verdict
            .differences
            .iter()
            .map(|it| (it.job_id.as_str(), it.remedy, it.overcharged(), it.undercharged()))
            .collect();
        let expected = [
            ("lost", Remedy::Charge, 0, 5),
            ("much", Remedy::Refund, 3, 0),
            ("none", Remedy::Outcome, 0, 5),
            ("part", Remedy::Outcome, 0, 3),
        ];
        assert_eq!(found, expected);
        // Once the job was told, what is still missing is charged.
        let mut told = charged.clone();
        told.note_told([&verdict.differences.last().unwrap().job()]);
        let left = compare(&outcomes, &told, false).differences;
        let left = left.last().map(|it| (it.job_id.as_str(), it.remedy));
        assert_eq!(left, Some(("part", Remedy::Charge)));
        let complete = compare(&outcomes, &charged, true);
        let other = complete.differences.iter().find(|it| it.job_id == "other").unwrap();
        assert_eq!((other.remedy, other.overcharged()), (Remedy::Refund, 9));
    }

    #[test]
    fn a_job_with_two_costs_in_the_file_is_no_unlisted_one() {
        let outcomes = Outcomes::read("tenant,job_id,cost\nacme,j1,5\nacme,j1,6\nacme,j2,1\n");
        let verdict = compare(&outcomes, &charged(&[("j1", 5, true), ("j2", 1, true)]), true);
        assert!(verdict.differences.is_empty() && verdict.unlisted.is_empty(), "{verdict:?}");
    }
}
