//! `purser region failover`: shows what would be taken over from a lost region, and then has it taken over.
//!
//! Not here: whether a region is lost. Nothing can know that but people; what the service knows is in
//! `purser region list`.

use std::io::{self, BufRead, IsTerminal};

use clap::Args;
use purser_api::{
    FailOverAnswer, FailOverRequest, RegionName, SequenceNumber, TenantName, TotalAmount,
};

use super::connection::Service;
use super::tables::{self, Facts};
use crate::failure::CommandError;
use crate::output::{Format, Output};

#[derive(Debug, Args)]
pub(crate) struct FailOver {
    /// The region that is lost.
    region: RegionName,
    /// The standby; the first of the region's by name if left out.
    #[arg(long)]
    to: Option<RegionName>,
    /// Do it without asking.
    #[arg(long, conflicts_with_all = ["dry_run", "confirm"])]
    yes: bool,
    /// Only show what would happen, and the number to confirm it with.
    #[arg(long, conflicts_with = "confirm")]
    dry_run: bool,
    /// The number that the dry run showed. Refused if a home of the region has changed since.
    #[arg(long, value_name = "NUMBER")]
    confirm: Option<SequenceNumber>,
}

/// Has a region failed over, or shows what that would do.
pub(super) async fn run(
    args: FailOver,
    service: &Service,
    output: &Output,
) -> Result<(), CommandError> {
    let (admin, call) = (service.admin(), service.read());
    let FailOver { region, to, yes, dry_run, confirm } = args;
    let confirm = match confirm {
        Some(confirm) => Some(confirm),
        None => {
            let look = FailOverRequest { to: to.clone(), dry_run: true, confirm: None };
            let seen = service.found(admin.fail_over(&region, &look, &call).await)?;
            if dry_run {
                return Ok(output.answer(&seen, show)?);
            }
            if !yes && !is_wanted(&seen, output)? {
                return Err(CommandError::Failed("nothing was changed".to_owned()));
            }
            seen.confirm
        }
    };
    let body = FailOverRequest { to, dry_run: false, confirm };
    let done = service.said(admin.fail_over(&region, &body, &call).await)?;
    output.answer(&done, show)?;
    if done.left > 0 {
        let (left, to) = (done.left, &done.to);
        let text = format!("{to} can not take over {left} tenants: {region} is their home still");
        return Err(CommandError::Failed(text));
    }
    Ok(())
}

/// Shows a person what would happen, and asks.
fn is_wanted(seen: &FailOverAnswer, output: &Output) -> Result<bool, CommandError> {
    if output.format() == Format::Programs || !io::stdin().is_terminal() {
        let text = "there is nobody to ask: --yes does it, --dry-run only shows what would happen";
        return Err(CommandError::Usage(text.to_owned()));
    }
    output.note(show(seen));
    let FailOverAnswer { region, to, .. } = seen;
    output.note(format_args!("Is {region} lost, and is {to} to take over? Type yes to do it."));
    let mut said = String::new();
    io::stdin().lock().read_line(&mut said)?;
    Ok(said.trim() == "yes")
}

fn show(answer: &FailOverAnswer) -> String {
    let FailOverAnswer { dry_run, confirm, region, to, is_reachable, taken_over, left, .. } =
        answer;
    let facts = tables::dry_run(*dry_run, confirm.as_ref());
    let now = Facts::new().with("region", region).with("to", to);
    let now = if *dry_run {
        let reachable = if *is_reachable { "yes: is it lost?" } else { "no" };
        let now = now.with("reachable from here", reachable);
        now.with("would be taken over", taken_over).with("would be left", left)
    } else {
        now.with("taken over", taken_over).with("left", left)
    };
    let now = now.with("at stake", at_stake(answer.at_stake.as_ref()));
    let now = if answer.left_tenants.is_empty() {
        now
    } else {
        now.with("among those left", named(&answer.left_tenants))
    };
    facts.and(now).text()
}

/// The X at stake, if it is known.
pub(super) fn at_stake(amount: Option<&TotalAmount>) -> String {
    amount.map_or_else(|| "not known".to_owned(), ToString::to_string)
}

/// Some tenants by name, as many as a person reads.
pub(super) fn named(tenants: &[TenantName]) -> String {
    const NAMES_MAX: usize = 10;
    let names: Vec<String> = tenants.iter().take(NAMES_MAX).map(ToString::to_string).collect();
    let more = if tenants.len() > NAMES_MAX { " …" } else { "" };
    format!("{}{more}", names.join(" "))
}
