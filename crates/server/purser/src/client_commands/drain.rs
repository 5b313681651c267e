//! `purser region drain`: has a region's homes moved, and follows that to its end.
//!
//! The service does it by itself, whether anybody watches or not. A node that dies forgets that it was
//! asked, so whoever watches asks again.

use std::time::Duration;

use clap::Args;
use purser_api::{DrainAnswer, DrainRequest, DrainStatus, RegionName};

use super::connection::Service;
use super::tables::{self, Column, Facts};
use crate::failure::CommandError;
use crate::output::Output;

/// How often to look how far it has come.
const LOOK_EVERY: Duration = Duration::from_millis(500);

#[derive(Debug, Args)]
pub(crate) struct Drain {
    /// The region.
    region: RegionName,
    /// Where the homes go; each to a standby of its tenant, or else to the first other region within
    /// reach, if left out.
    #[arg(long)]
    to: Option<RegionName>,
    /// Stop it: moves that have begun come to their end.
    #[arg(long, conflicts_with_all = ["to", "show"])]
    stop: bool,
    /// Only show how far it has come.
    #[arg(long, conflicts_with = "to")]
    show: bool,
}

/// Begins, shows or stops a drain.
pub(super) async fn run(
    args: Drain,
    service: &Service,
    output: &Output,
) -> Result<(), CommandError> {
    let (admin, call) = (service.admin(), service.read());
    if args.show {
        let found = service.found(admin.drain_progress(&args.region, &call).await)?;
        return Ok(output.answer(&found, show)?);
    }
    if args.stop {
        let stopped = service.said(admin.stop_drain(&args.region, &call).await)?;
        return Ok(output.answer(&stopped, show)?);
    }
    let ended = follow(&args, service, output).await?;
    output.answer(&ended, show)?;
    if ended.left > 0 {
        let (left, region) = (ended.left, &args.region);
        return Err(CommandError::Failed(format!("{region} is home of {left} tenants still")));
    }
    Ok(())
}

/// Has the region drained until that has ended, or somebody stops it.
async fn follow(
    args: &Drain,
    service: &Service,
    output: &Output,
) -> Result<DrainAnswer, CommandError> {
    let (admin, call) = (service.admin(), service.read());
    let body = DrainRequest { to: args.to.clone() };
    let mut seen = service.said(admin.drain(&args.region, &body, &call).await)?;
    let progress = output.progress("moved", Some(seen.total));
    // Another node may have gone on where one has died, and counts anew: what is left is what counts.
    let (all, mut done) = (seen.total, 0);
    loop {
        let left = all.saturating_sub(seen.left);
        progress.advance(left.saturating_sub(done));
        done = done.max(left);
        progress.detail(format_args!("{} left, {} failed", seen.left, seen.failed_count));
        match seen.state {
            DrainStatus::Ended | DrainStatus::Stopped => return Ok(seen),
            DrainStatus::Idle => {
                seen = service.said(admin.drain(&args.region, &body, &call).await)?;
            }
            DrainStatus::Draining => {
                tokio::time::sleep(LOOK_EVERY).await;
                seen = service.found(admin.drain_progress(&args.region, &call).await)?;
            }
        }
    }
}

fn show(answer: &DrainAnswer) -> String {
    let DrainAnswer { region, state, to, total, moved, left, failed_count, failed } = answer;
    let facts = Facts::new().with("region", region).with("state", state);
    let facts = facts.with_some("to", to.as_ref()).with("total", total).with("moved", moved);
    let facts = facts.with("left", left).with("failed", failed_count).text();
    if failed.is_empty() {
        return facts;
    }
    let columns = [Column::Text("TENANT"), Column::Text("REASON")];
    let rows = failed.iter().map(|it| vec![it.tenant.to_string(), it.reason.clone()]);
    format!("{facts}\n\n{}", tables::table(&columns, rows))
}
