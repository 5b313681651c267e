//! `purser check`, `balance`, `entries` and `statement`: looking at an account.

use clap::Args;
use purser_api::{
    AuthorizeRequest, BalanceQuery, BudgetLabel, CallAmount, CheckAnswer, EntriesQuery, Moment,
    ReadConsistency, SequenceNumber, StatementQuery, UnitName,
};

use super::arguments::{Account, Page, budgets};
use super::connection::Service;
use super::tables::{self, Facts};
use crate::failure::CommandError;
use crate::output::Output;

/// Ask what an authorize would answer now, without effect. A no is exit code 1.
#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    account: Account,
    /// What the work may cost.
    amount: CallAmount,
    /// A budget that is asked as well; up to eight of them.
    #[arg(long = "budget", value_name = "BUDGET")]
    budgets: Vec<BudgetLabel>,
}

/// Show where an account's credits are.
#[derive(Debug, Args)]
pub(crate) struct Balance {
    #[command(flatten)]
    account: Account,
    /// How current it has to be: `strict` or `stale`.
    #[arg(long, default_value = "strict")]
    consistency: ReadConsistency,
    /// As of this entry, instead of now.
    #[arg(long, value_name = "SEQUENCE")]
    at_sequence: Option<SequenceNumber>,
}

impl Balance {
    fn query(&self) -> BalanceQuery {
        BalanceQuery {
            unit: UnitName(self.account.unit().clone()),
            consistency: self.consistency,
            at_sequence: self.at_sequence.clone(),
        }
    }
}

/// List what happened to an account, newest first.
#[derive(Debug, Args)]
pub(crate) struct Entries {
    #[command(flatten)]
    account: Account,
    #[command(flatten)]
    page: Page,
}

impl Entries {
    fn query(&self) -> EntriesQuery {
        let Page { limit, cursor } = &self.page;
        let unit = UnitName(self.account.unit().clone());
        EntriesQuery { unit, limit: *limit, cursor: cursor.clone() }
    }
}

/// Show an account's history between two instants: opening, entries, closing.
#[derive(Debug, Args)]
pub(crate) struct Statement {
    #[command(flatten)]
    account: Account,
    /// From this instant on; from the first entry on if left out.
    #[arg(long)]
    from: Option<Moment>,
    /// Up to this instant, itself not included; up to now if left out.
    #[arg(long)]
    to: Option<Moment>,
    #[command(flatten)]
    page: Page,
}

impl Statement {
    fn query(&self) -> StatementQuery {
        StatementQuery {
            unit: UnitName(self.account.unit().clone()),
            from: self.from.clone(),
            to: self.to.clone(),
            limit: self.page.limit,
            cursor: self.page.cursor.clone(),
        }
    }
}

/// Asks what an authorize would answer.
pub(super) async fn check(
    args: Check,
    service: &Service,
    output: &Output,
) -> Result<(), CommandError> {
    let account = service.account(&args.account);
    let named = budgets(&args.budgets)?;
    let request = AuthorizeRequest { budgets: named, ..AuthorizeRequest::new(args.amount) };
    let verdict = service.found(account.check(&request, &service.read()).await)?;
    output.answer(&verdict, show_check)?;
    if verdict.allowed {
        Ok(())
    } else {
        let reason = verdict.reason.unwrap_or_default();
        Err(CommandError::Failed(format!("it would be refused: {reason}")))
    }
}

fn show_check(verdict: &CheckAnswer) -> String {
    let facts = Facts::new().with("allowed", if verdict.allowed { "yes" } else { "no" });
    let facts = if verdict.allowed {
        facts.with("lots", tables::shares(&verdict.lots))
    } else {
        facts.with("short by", &verdict.short_by).with_some("budget", verdict.budget.as_ref())
    };
    tables::available(facts, &verdict.balance).text()
}

/// Shows where an account's credits are.
pub(super) async fn balance(
    args: Balance,
    service: &Service,
    output: &Output,
) -> Result<(), CommandError> {
    let account = service.account(&args.account);
    let found = account.balance(&args.query(), &service.read()).await;
    output.answer(&service.found(found)?, |balance| tables::balance(balance).text())?;
    Ok(())
}

/// Lists what happened to an account.
pub(super) async fn entries(
    args: Entries,
    service: &Service,
    output: &Output,
) -> Result<(), CommandError> {
    let account = service.account(&args.account);
    let found = account.entries(&args.query(), &service.read()).await;
    service.list(found, output, tables::entries)
}

/// Shows an account's history between two instants.
pub(super) async fn statement(
    args: Statement,
    service: &Service,
    output: &Output,
) -> Result<(), CommandError> {
    let account = service.account(&args.account);
    let found = account.statement(&args.query(), &service.read()).await;
    let statement = service.found(found)?;
    output.answer(&statement, tables::statement)?;
    service.tell_next_page(statement.next_cursor.as_ref(), output);
    Ok(())
}
