//! `purser reconcile`: business outcomes from a file, held against what was charged for them.
//!
//! ```text
//!  file ─▶ outcomes, bad lines ─┐
//!                               ├─▶ differences, with sums ─▶ repair: refund, outcome, charge
//!  entries of their tenants ────┘                             under keys that follow from the difference
//! ```
//!
//! Without `--repair` nothing is changed. A repair is entries like any other, with a reason that names the
//! file and the line, so it is in the account's history and under its hash. Run again, it finds nothing to
//! do; run twice at once, both take the same steps under the same keys, so each happens once.
//!
//! Not here: which outcome is true. The file is.

mod charged;
mod differences;
mod outcomes;
mod repair;

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use purser_api::TotalAmount;
use serde::Serialize;

use self::charged::Charged;
use self::differences::{Difference, Verdict, compare};
use self::outcomes::{JobOf, Outcomes};
use super::connection::Service;
use super::tables::{self, Column, Facts};
use crate::failure::CommandError;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct Reconcile {
    /// The outcomes, as CSV with a header line or as JSON objects, one a line: `tenant`, `job_id`, `cost`
    /// (what the work costs in the end, 0 if it was not delivered) and, if it is not `credits`, `unit`.
    #[arg(value_name = "OUTCOMES")]
    file: PathBuf,
    /// Make what was charged what the file says, instead of only showing the differences.
    #[arg(long)]
    repair: bool,
    /// The file has all jobs of the tenants that it names: what it does not have costs nothing.
    #[arg(long)]
    complete: bool,
}

/// What a reconciliation came to.
#[derive(Debug, Serialize)]
struct Report {
    /// The outcomes that were read.
    outcomes: usize,
    /// Those that agree with what was charged.
    agreeing: usize,
    /// Charged too much, all together.
    overcharged: TotalAmount,
    /// Charged too little, all together.
    undercharged: TotalAmount,
    differences: Vec<Difference>,
    /// Jobs that were charged and that the file does not have, of the tenants that it names.
    unlisted_count: usize,
    /// What they were charged.
    unlisted: TotalAmount,
    /// The lines that could not be read, with the reason.
    bad_lines: Vec<String>,
    /// Whether differences were repaired; those that could not be have a `refusal`.
    repaired: bool,
}

/// Reconciles a file.
pub(super) async fn run(
    args: Reconcile,
    service: &Service,
    output: &Output,
) -> Result<(), CommandError> {
    let text = std::fs::read_to_string(&args.file).map_err(|error| {
        CommandError::broken(format!("{} could not be read", args.file.display()), error)
    })?;
    let outcomes = Outcomes::read(&text);
    if args.repair && args.complete && !outcomes.bad_lines.is_empty() {
        let bad = outcomes.bad_lines.join("\n");
        return Err(CommandError::Failed(format!(
            "a file whose lines cannot all be read does not have all jobs, so nothing is repaired:\n{bad}"
        )));
    }
    let charged = Charged::read(&outcomes, service, output).await?;
    let Verdict { agreeing, mut differences, unlisted } =
        compare(&outcomes, &charged, args.complete);
    if args.repair {
        let name = args.file.file_name().unwrap_or_default().to_string_lossy();
        repair::repair(&mut differences, &name, service, output).await?;
        let told: BTreeSet<JobOf> =
            differences.iter().filter(|it| it.was_told()).map(Difference::job).collect();
        if !told.is_empty() {
            // What the jobs took when they were told is seen in the entries, and nowhere else.
            let mut charged = Charged::read(&outcomes, service, output).await?;
            charged.note_told(&told);
            let mut left = compare(&outcomes, &charged, args.complete).differences;
            left.retain(|difference| told.contains(&difference.job()));
            repair::repair(&mut left, &name, service, output).await?;
            for difference in &mut differences {
                let found = left.iter().find(|it| it.job() == difference.job());
                difference.end_as(found);
            }
        }
    }
    let total = |part: fn(&Difference) -> u64| {
        TotalAmount(differences.iter().map(|difference| u128::from(part(difference))).sum())
    };
    let report = Report {
        outcomes: outcomes.by_job.len(),
        agreeing,
        overcharged: total(Difference::overcharged),
        undercharged: total(Difference::undercharged),
        unlisted_count: unlisted.len(),
        unlisted: TotalAmount(unlisted.iter().map(|net| net.unsigned_abs()).sum()),
        bad_lines: outcomes.bad_lines,
        repaired: args.repair,
        differences,
    };
    output.answer(&report, show)?;
    report.verdict()
}

impl Report {
    fn verdict(&self) -> Result<(), CommandError> {
        let open = self.differences.iter().filter(|difference| !difference.is_repaired()).count();
        let bad = self.bad_lines.len();
        match (open, bad) {
            (0, 0) => Ok(()),
            (0, _) => Err(CommandError::Failed(format!("{bad} lines could not be read"))),
            (_, 0) => Err(CommandError::Failed(format!("{open} jobs differ"))),
            (_, _) => Err(CommandError::Failed(format!(
                "{open} jobs differ, and {bad} lines could not be read"
            ))),
        }
    }
}

fn show(report: &Report) -> String {
    use Column::{Number, Text};
    let facts = Facts::new()
        .with("outcomes", report.outcomes)
        .with("agreeing", report.agreeing)
        .with("different", report.differences.len())
        .with("overcharged", report.overcharged)
        .with("undercharged", report.undercharged)
        .with("not in the file", format!("{} ({})", report.unlisted_count, report.unlisted))
        .with("bad lines", report.bad_lines.len())
        .with("repaired", if report.repaired { "yes" } else { "no: --repair does it" });
    let columns = [
        Text("TENANT"),
        Text("JOB"),
        Number("CHARGED"),
        Number("COST"),
        Text("REPAIR"),
        Text("DONE"),
    ];
    let rows = report.differences.iter().map(|difference| {
        vec![
            difference.tenant.clone(),
            difference.job_id.clone(),
            difference.charged.to_string(),
            difference.cost.to_string(),
            difference.remedy.to_string(),
            match (&difference.refusal, difference.done) {
                (Some(refusal), _) => refusal.clone(),
                (None, true) => "yes".to_owned(),
                (None, false) => "no".to_owned(),
            },
        ]
    });
    let mut parts = vec![facts.text()];
    if !report.differences.is_empty() {
        parts.push(tables::table(&columns, rows));
    }
    parts.extend((!report.bad_lines.is_empty()).then(|| report.bad_lines.join("\n")));
    parts.join("\n\n")
}
