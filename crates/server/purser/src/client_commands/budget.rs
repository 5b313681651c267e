//! `purser budget`: caps inside an account, and what they come to.

use clap::{Args, Subcommand};
use purser_api::{
    Amount, Budget, BudgetDetail, BudgetLabel, BudgetPeriod, BudgetRequest, BudgetUse,
    BudgetsQuery, PeriodUnit, RemoveBudgetRequest, UnitName,
};

use super::arguments::{Account, Key, Page, Why};
use super::connection::Service;
use super::tables::{self, Column, Facts};
use crate::failure::CommandError;
use crate::output::Output;

/// Cap what is used inside an account, and look at what the caps come to.
#[derive(Debug, Subcommand)]
pub(crate) enum BudgetAction {
    /// Make a budget, or change its limit and its periods. It holds at once.
    Set(Set),
    /// Show a budget and what it comes to, in this period and in earlier ones.
    Get(Named),
    /// List budgets and what they come to, by name.
    List(List),
    /// Remove a budget that none is below, with what it came to.
    Remove(Remove),
}

/// Which budget.
#[derive(Debug, Args)]
pub(crate) struct Named {
    #[command(flatten)]
    account: Account,
    /// The budget.
    budget: BudgetLabel,
}

#[derive(Debug, Args)]
pub(crate) struct Set {
    #[command(flatten)]
    named: Named,
    /// The most that may be held and used in a period.
    limit: Amount,
    /// The budget above it. It keeps the one that it was made with.
    #[arg(long, value_name = "BUDGET")]
    parent: Option<BudgetLabel>,
    /// How long its periods are: `day`, `week` or `month`. Without, the limit is for ever.
    #[arg(long, value_name = "UNIT", requires = "time_zone")]
    every: Option<PeriodUnit>,
    /// The IANA name of the time zone whose calendar it is.
    #[arg(long, value_name = "ZONE", requires = "every")]
    time_zone: Option<String>,
    /// A local time at which a period begins, as 2026-03-01T00:00:00; midnight, on Mondays or on the first of
    /// the month if left out.
    #[arg(long, value_name = "LOCAL", requires = "every")]
    anchor: Option<String>,
    #[command(flatten)]
    why: Why,
    #[command(flatten)]
    key: Key,
}

impl Set {
    fn request(&self) -> BudgetRequest {
        let zone = self.every.zip(self.time_zone.clone());
        let anchor = self.anchor.clone();
        BudgetRequest {
            limit: self.limit.clone(),
            parent: self.parent.clone(),
            period: zone.map(|(every, time_zone)| BudgetPeriod { every, time_zone, anchor }),
            reason: self.why.reason.clone(),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    account: Account,
    #[command(flatten)]
    page: Page,
}

impl List {
    fn query(&self) -> BudgetsQuery {
        let Page { limit, cursor } = &self.page;
        let unit = UnitName(self.account.unit().clone());
        BudgetsQuery { unit, limit: *limit, cursor: cursor.clone() }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Remove {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    why: Why,
    #[command(flatten)]
    key: Key,
}

/// Runs a command about budgets.
pub(super) async fn run(
    action: BudgetAction,
    service: &Service,
    output: &Output,
) -> Result<(), CommandError> {
    let of = |account: &Account| service.admin_account(account).budgets();
    match action {
        BudgetAction::Set(args) => {
            let (budgets, call) = (of(&args.named.account), service.call(&args.key));
            let set = budgets.set(&args.named.budget, &args.request(), &call).await;
            output.answer(&service.done(set, output)?, |budget| facts(budget).text())?;
        }
        BudgetAction::Get(args) => {
            let found = of(&args.account).get(&args.budget, &service.read()).await;
            output.answer(&service.found(found)?, show_detail)?;
        }
        BudgetAction::List(args) => {
            let found = of(&args.account).list(&args.query(), &service.read()).await;
            service.list(found, output, table)?;
        }
        BudgetAction::Remove(args) => {
            let (budgets, call) = (of(&args.named.account), service.call(&args.key));
            let body = RemoveBudgetRequest { reason: args.why.reason };
            let removed = budgets.remove(&args.named.budget, &body, &call).await;
            output.answer(&service.done(removed, output)?, |budget| facts(budget).text())?;
        }
    }
    Ok(())
}

fn facts(budget: &Budget) -> Facts {
    let period = budget.period.as_ref();
    Facts::new()
        .with("budget", &budget.budget)
        .with_some("parent", budget.parent.as_ref())
        .with("limit", &budget.limit)
        .with_some("every", period.map(|period| period.every))
        .with_some("time zone", period.map(|period| &period.time_zone))
        .with_some("anchor", period.and_then(|period| period.anchor.as_ref()))
        .with("created", &budget.created_at)
        .with("sequence", &budget.sequence)
}

/// A budget with what it comes to, and below it the periods that are over.
fn show_detail(detail: &BudgetDetail) -> String {
    let facts = facts(&detail.budget)
        .with("held", &detail.present.held)
        .with("used", &detail.present.used)
        .with("remaining", &detail.remaining)
        .with_some("from", detail.present.from.as_ref())
        .with_some("until", detail.present.until.as_ref());
    if detail.past.is_empty() {
        facts.text()
    } else {
        format!("{}\n\n{}", facts.text(), past(detail))
    }
}

fn past(detail: &BudgetDetail) -> String {
    use Column::{Number, Text};
    let columns = [Text("FROM"), Text("UNTIL"), Number("HELD"), Number("USED")];
    let row = |period: &BudgetUse| {
        vec![
            tables::or_none(period.from.as_ref()),
            tables::or_none(period.until.as_ref()),
            period.held.to_string(),
            period.used.to_string(),
        ]
    };
    tables::table(&columns, detail.past.iter().map(row))
}

fn table(budgets: &[BudgetDetail]) -> String {
    use Column::{Number, Text};
    let columns = [
        Text("BUDGET"),
        Text("PARENT"),
        Number("LIMIT"),
        Number("HELD"),
        Number("USED"),
        Number("REMAINING"),
        Text("UNTIL"),
    ];
    let row = |detail: &BudgetDetail| {
        vec![
            detail.budget.budget.to_string(),
            tables::or_none(detail.budget.parent.as_ref()),
            detail.budget.limit.to_string(),
            detail.present.held.to_string(),
            detail.present.used.to_string(),
            detail.remaining.to_string(),
            tables::or_none(detail.present.until.as_ref()),
        ]
    };
    tables::table(&columns, budgets.iter().map(row))
}
