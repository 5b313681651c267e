//! `purser charge`: authorize and capture in one step, and undo it.

use clap::{Args, Subcommand};
use purser_api::{CallAmount, ChargeAnswer, ChargeDetail, ChargeId, ChargeRequest, SubjectId};

use super::arguments::{Account, Key, Work, budgets};
use super::connection::Service;
use super::tables;
use super::undo::{Reclaim, Refund};
use crate::failure::CommandError;
use crate::output::Output;

/// Authorize and capture in one step, and undo it.
#[derive(Debug, Subcommand)]
pub(crate) enum ChargeAction {
    /// Authorize and capture in one step.
    Create(CreateCharge),
    /// Show a charge with its history.
    Get(NamedCharge),
    /// Give charged credits back.
    Refund(Refund<ChargeId>),
    /// Charge again what was refunded, because the work succeeded after all.
    Reclaim(Reclaim<ChargeId>),
}

#[derive(Debug, Args)]
pub(crate) struct CreateCharge {
    #[command(flatten)]
    pub(super) account: Account,
    /// What the work cost.
    amount: CallAmount,
    /// Let a shortfall become debt, within the account's limit.
    #[arg(long)]
    allow_debt: bool,
    #[command(flatten)]
    work: Work,
    #[command(flatten)]
    pub(super) key: Key,
}

impl CreateCharge {
    pub(super) fn request(&self) -> Result<ChargeRequest, CommandError> {
        Ok(ChargeRequest {
            amount: self.amount,
            consistency: self.work.consistency,
            budgets: budgets(&self.work.budgets)?,
            allow_debt: self.allow_debt,
            reference: self.work.reference.clone(),
            metadata: self.work.notes.checked()?,
        })
    }
}

#[derive(Debug, Args)]
pub(crate) struct NamedCharge {
    #[command(flatten)]
    pub(super) account: Account,
    /// The charge.
    pub(super) charge: ChargeId,
}

/// Runs a command about charges.
pub(super) async fn run(
    action: ChargeAction,
    service: &Service,
    output: &Output,
) -> Result<(), CommandError> {
    match action {
        ChargeAction::Create(args) => {
            let account = service.account(&args.account);
            let made = account.charge(&args.request()?, &service.call(&args.key)).await;
            output.answer(&service.done(made, output)?, show_charge)?;
        }
        ChargeAction::Get(args) => {
            let account = service.account(&args.account);
            let found = account.charge_detail(&args.charge, &service.read()).await;
            output.answer(&service.found(found)?, show_detail)?;
        }
        ChargeAction::Refund(args) => {
            args.run(SubjectId::Charge(args.id.clone()), service, output).await?;
        }
        ChargeAction::Reclaim(args) => {
            args.run(SubjectId::Charge(args.id.clone()), service, output).await?;
        }
    }
    Ok(())
}

fn show_charge(answer: &ChargeAnswer) -> String {
    let facts = tables::charge(&answer.charge).with("debt added", &answer.debt_added);
    tables::available(facts, &answer.balance).text()
}

fn show_detail(detail: &ChargeDetail) -> String {
    format!("{}\n\n{}", tables::charge(&detail.charge).text(), tables::entries(&detail.history))
}
