//! `purser dead-letter`: jobs that failed as often as they may.

use clap::{Args, Subcommand};
use purser_api::{
    DeadLettersQuery, DiscardAnswer, DiscardRequest, QueueLabel, RedriveRequest, RegionName,
    TenantName,
};

use super::arguments::{Key, Page, Safety, Why};
use super::connection::Service;
use super::job::{Named, show_answer, show_detail, table};
use super::tables;
use crate::failure::CommandError;
use crate::output::Output;

/// Look at jobs that failed as often as they may, and decide what becomes of them.
#[derive(Debug, Subcommand)]
pub(crate) enum DeadLetterAction {
    /// List them, in the order of their tenants' names.
    List(List),
    /// Show one with its history.
    Get(Named),
    /// Let one be tried again.
    Redrive(Redrive),
    /// Let nothing become of one: first with `--dry-run`, then with the `--confirm` it shows.
    Discard(Discard),
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Of tenants whose home is in this region; in the one that is asked if left out.
    #[arg(long)]
    region: Option<RegionName>,
    /// Only of this tenant.
    #[arg(long)]
    tenant: Option<TenantName>,
    /// Only of this queue.
    #[arg(long)]
    queue: Option<QueueLabel>,
    #[command(flatten)]
    page: Page,
}

#[derive(Debug, Args)]
pub(crate) struct Redrive {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    why: Why,
    #[command(flatten)]
    key: Key,
}

#[derive(Debug, Args)]
pub(crate) struct Discard {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    why: Why,
    #[command(flatten)]
    safety: Safety,
    #[command(flatten)]
    key: Key,
}

/// Runs a command about dead letters.
pub(super) async fn run(
    action: DeadLetterAction,
    service: &Service,
    output: &Output,
) -> Result<(), CommandError> {
    match action {
        DeadLetterAction::List(List { region, tenant, queue, page: Page { limit, cursor } }) => {
            let query = DeadLettersQuery { region, tenant, queue, limit, cursor };
            let found = service.admin().dead_letters(&query, &service.read()).await;
            service.list(found, output, table)?;
        }
        DeadLetterAction::Get(Named { account, job }) => {
            let found = service.admin_account(&account).dead_letter(&job, &service.read()).await;
            output.answer(&service.found(found)?, show_detail)?;
        }
        DeadLetterAction::Redrive(args) => {
            let Named { account, job } = &args.named;
            let body = RedriveRequest { reason: args.why.reason };
            let account = service.admin_account(account);
            let redriven = account.redrive(job, &body, &service.call(&args.key)).await;
            output.answer(&service.done(redriven, output)?, show_answer)?;
        }
        DeadLetterAction::Discard(args) => {
            let Named { account, job } = &args.named;
            let Safety { dry_run, confirm } = args.safety;
            let body = DiscardRequest { reason: args.why.reason, dry_run, confirm };
            let account = service.admin_account(account);
            let discarded = account.discard(job, &body, &service.call(&args.key)).await;
            output.answer(&service.done(discarded, output)?, show_discarded)?;
        }
    }
    Ok(())
}

fn show_discarded(answer: &DiscardAnswer) -> String {
    let dry = tables::dry_run(answer.dry_run, answer.confirm.as_ref()).text();
    let job = show_answer(&answer.answer);
    if dry.is_empty() { job } else { format!("{dry}\n{job}") }
}
