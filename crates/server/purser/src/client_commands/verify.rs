//! `purser verify`: has the homes of all regions verified, and follows that to its end.
//!
//! The service does it by itself, whether anybody watches or not. Exit code 0 says that all agrees, 1 that
//! something differs, 3 that something could not be compared.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use purser_api::{
    RegionName, VerificationAnswer, VerificationOutcome as Outcome, VerificationRequest,
    VerificationSubject,
};

use super::connection::Service;
use super::tables::{self, Column};
use crate::failure::CommandError;
use crate::output::Output;

/// How often to look how far it has come.
const LOOK_EVERY: Duration = Duration::from_millis(250);

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// Only the homes of this region; those of all regions if left out.
    #[arg(long)]
    region: Option<RegionName>,
    /// Build the read model in PostgreSQL again first, from the history. Nothing is published by that.
    #[arg(long)]
    rebuild_read_model: bool,
}

/// Has everything verified.
pub(super) async fn run(
    args: Verify,
    service: &Service,
    output: &Output,
) -> Result<(), CommandError> {
    let regions = match &args.region {
        Some(region) => vec![region.clone()],
        None => {
            let found = service.found(service.admin().regions(&service.read()).await)?;
            found.regions.into_iter().map(|region| region.region).collect()
        }
    };
    let mut begun = Vec::new();
    for region in regions {
        let request = VerificationRequest {
            region: Some(region),
            rebuild_read_model: args.rebuild_read_model,
        };
        begun.push(service.said(service.admin().verify(&request, &service.read()).await)?);
    }
    let mut ended = Vec::new();
    for one in begun {
        ended.push(follow(one, service, output).await?);
    }
    output.answer(&ended, |ended| show(ended))?;
    verdict(&ended)
}

async fn follow(
    mut seen: VerificationAnswer,
    service: &Service,
    output: &Output,
) -> Result<VerificationAnswer, CommandError> {
    let label = format!("{} verified, bytes", seen.region);
    let progress = output.progress(&label, Some(seen.bytes_total).filter(|total| *total > 0));
    let mut done = 0;
    while seen.outcome == Outcome::Running {
        progress.advance(seen.bytes_done.saturating_sub(done));
        done = seen.bytes_done;
        progress.detail(seen.doing.as_deref().unwrap_or_default());
        tokio::time::sleep(LOOK_EVERY).await;
        let found = service.admin().verification(seen.verification_id, &service.read()).await;
        seen = service.found(found)?;
    }
    progress.finish(seen.outcome);
    Ok(seen)
}

fn verdict(ended: &[VerificationAnswer]) -> Result<(), CommandError> {
    let with = |outcome: Outcome| ended.iter().filter(move |one| one.outcome == outcome);
    if let Some(first) = with(Outcome::Different).find_map(|one| one.first_difference.as_ref()) {
        let count: u64 = ended.iter().map(|one| one.differences_count).sum();
        return Err(CommandError::Failed(format!("{count} differences; the first: {first}")));
    }
    let gaps = with(Outcome::Incomplete).flat_map(|one| &one.checks);
    match gaps.flat_map(|check| &check.not_compared).next() {
        Some(gap) => Err(CommandError::unreached("not everything could be compared", gap.clone())),
        None => Ok(()),
    }
}

/// What the checks of one subject in one region came to.
#[derive(Default)]
struct Sum {
    compared: u64,
    left_out: u64,
    differences: u64,
    credits: u128,
    is_incomplete: bool,
}

fn show(ended: &[VerificationAnswer]) -> String {
    use Column::{Number, Text};
    let mut sums: BTreeMap<(String, VerificationSubject), Sum> = BTreeMap::new();
    let mut lines = Vec::new();
    for answer in ended {
        for check in &answer.checks {
            let sum = sums.entry((answer.region.to_string(), check.subject)).or_default();
            sum.compared = sum.compared.saturating_add(check.compared);
            sum.left_out = sum.left_out.saturating_add(check.left_out);
            sum.differences = sum.differences.saturating_add(check.differences_count);
            sum.credits = sum.credits.saturating_add(check.credits.0);
            sum.is_incomplete |= !check.not_compared.is_empty();
            let told = |kind: &str, text: &String| {
                format!("{} {}, {kind}: {text}", answer.region, check.subject)
            };
            lines.extend(check.differences.iter().map(|text| told("different", text)));
            lines.extend(check.not_compared.iter().map(|text| told("not compared", text)));
        }
    }
    let columns = [
        Text("REGION"),
        Text("CHECK"),
        Text("OUTCOME"),
        Number("COMPARED"),
        Number("LEFT OUT"),
        Number("DIFFERENT"),
        Number("CREDITS"),
    ];
    let rows = sums.into_iter().map(|((region, subject), sum)| {
        let outcome = match (sum.differences, sum.is_incomplete) {
            (0, false) => Outcome::Sound,
            (0, true) => Outcome::Incomplete,
            (_, _) => Outcome::Different,
        };
        vec![
            region,
            subject.to_string(),
            outcome.to_string(),
            sum.compared.to_string(),
            sum.left_out.to_string(),
            sum.differences.to_string(),
            sum.credits.to_string(),
        ]
    });
    let table = tables::table(&columns, rows);
    [table].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
}
