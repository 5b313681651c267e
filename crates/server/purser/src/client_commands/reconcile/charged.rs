//! What was charged for jobs, added up from the entries of their accounts.
//!
//! Entries are the truth and never change, so nothing depends on how long the service remembers a job or a
//! key. What an entry did to a job is what it moved into `used`, less what it moved out. An entry belongs to
//! a job if it names it, or the hold or charge that the job began with; and a charge that a repair made
//! names the job in its metadata.

use std::collections::{BTreeMap, BTreeSet};

use purser_api::{Bucket, EntriesQuery, Entry, SubjectId};

use super::outcomes::{JobOf, Outcomes};
use crate::client_commands::connection::Service;
use crate::failure::CommandError;
use crate::output::Output;

/// The name in the metadata of a charge that a repair made; its value is the job.
pub(super) const JOB_NOTE: &str = "reconciled_job";

/// What was charged for one job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ChargedJob {
    /// Charged, less what was given back.
    pub(super) net: i128,
    /// The holds and charges of the job, and what is left to give back of each.
    pub(super) parts: BTreeMap<String, i128>,
    /// Whether the service has a job of this name.
    pub(super) is_job: bool,
    /// Whether it has been told, by this run, that it succeeded.
    pub(super) is_told: bool,
    /// Whether anything of it was ever given back.
    pub(super) was_refunded: bool,
}

/// See the module's documentation.
#[derive(Debug, Clone, Default)]
pub(super) struct Charged {
    pub(super) by_job: BTreeMap<JobOf, ChargedJob>,
}

/// What matters of an entry.
struct Part {
    job: Option<String>,
    is_job: bool,
    subject: Option<String>,
    used: i128,
}

impl Charged {
    /// Reads all entries of the accounts that the outcomes name.
    pub(super) async fn read(
        outcomes: &Outcomes,
        service: &Service,
        output: &Output,
    ) -> Result<Self, CommandError> {
        let accounts = outcomes.by_job.keys().map(|job| (&job.tenant, &job.unit));
        let accounts: BTreeSet<(&String, &String)> = accounts.collect();
        let progress = output.progress("entries read", None);
        let mut charged = Self::default();
        for (tenant, unit) in accounts {
            let account = service.account_named(tenant, unit)?;
            let limit = "1000".parse().expect("a list gives as many at a time");
            let mut query = EntriesQuery { limit, ..EntriesQuery::default() };
            let mut parts = Vec::new();
            loop {
                let page = service.found(account.entries(&query, &service.read()).await)?;
                progress.advance(u64::try_from(page.items.len()).unwrap_or(u64::MAX));
                parts.extend(page.items.iter().map(Part::of));
                query.cursor = page.next_cursor;
                if query.cursor.is_none() {
                    break;
                }
            }
            charged.add((tenant, unit), parts);
        }
        progress.finish("all read");
        Ok(charged)
    }

    /// Notes that the jobs of differences know by now that they succeeded.
    pub(super) fn note_told<'a>(&mut self, told: impl IntoIterator<Item = &'a JobOf>) {
        for job in told {
            self.by_job.entry(job.clone()).or_default().is_told = true;
        }
    }

    fn add(&mut self, (tenant, unit): (&str, &str), parts: Vec<Part>) {
        let of = |part: &Part| Some((part.subject.clone()?, part.job.clone()?));
        let jobs: BTreeMap<String, String> = parts.iter().filter_map(of).collect();
        for part in parts {
            let by_subject = part.subject.as_ref().and_then(|subject| jobs.get(subject));
            let Some(job) = part.job.as_ref().or(by_subject) else { continue };
            let job = JobOf { tenant: tenant.to_owned(), unit: unit.to_owned(), job: job.clone() };
            let charged = self.by_job.entry(job).or_default();
            charged.net += part.used;
            charged.is_job |= part.is_job;
            charged.was_refunded |= part.used < 0;
            if let Some(subject) = part.subject {
                *charged.parts.entry(subject).or_default() += part.used;
            }
        }
    }
}

impl Part {
    fn of(entry: &Entry) -> Self {
        let moved = entry.postings.iter().filter(|posting| posting.bucket == Bucket::Used);
        let note = entry.metadata.pairs().find(|(name, _)| *name == JOB_NOTE);
        let hold = entry.hold_id.clone().map(SubjectId::Hold);
        let subject = hold.or_else(|| entry.charge_id.clone().map(SubjectId::Charge));
        Self {
            is_job: entry.job_id.is_some(),
            job: entry
                .job_id
                .as_ref()
                .map(ToString::to_string)
                .or_else(|| note.map(|(_, job)| job.to_owned())),
            subject: subject.map(|subject| match subject {
                SubjectId::Hold(hold) => hold.to_string(),
                SubjectId::Charge(charge) => charge.to_string(),
            }),
            used: moved.map(|posting| i128::from(posting.amount.get())).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(job: Option<&str>, subject: &str, used: i128) -> Part {
        Part {
            job: job.map(str::to_owned),
            is_job: job.is_some(),
            subject: Some(subject.to_owned()),
            used,
        }
    }

    #[test]
    fn what_undoes_a_charge_counts_for_the_job_that_began_it() {
        let mut charged = Charged::default();
        // Newest first, as entries are listed.
        let parts = vec![
            part(None, "c4-0-us", -10),
            part(None, "c9-0-us", 5),
            part(Some("j1"), "c4-0-us", 30),
        ];
        charged.add(("acme", "credits"), parts);
        let (job, found) = charged.by_job.first_key_value().unwrap();
        assert_eq!((job.job.as_str(), found.net), ("j1", 20));
        assert_eq!(found.parts, BTreeMap::from([("c4-0-us".to_owned(), 20)]));
        assert_eq!(charged.by_job.len(), 1, "a charge without a job is nobody's");
    }
}
