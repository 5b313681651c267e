//! `purser hold`: setting credits aside, taking them, giving them back.

use clap::{Args, Subcommand};
use purser_api::{
    AuthorizeRequest, CallAmount, CaptureAmount, CaptureAnswer, CaptureRequest, ExtendRequest,
    HoldAnswer, HoldDetail, HoldId, HoldStatus, HoldsQuery, IfExpired, Moment, Reason, Reference,
    ReleaseRequest, SubjectId, TtlSeconds, UnitName,
};

use super::arguments::{Account, Key, Notes, Page, Work, budgets, ttl};
use super::connection::Service;
use super::tables;
use super::undo::{Reclaim, Refund};
use crate::failure::CommandError;
use crate::output::Output;

/// Set credits aside, take them, give them back.
#[derive(Debug, Subcommand)]
pub(crate) enum HoldAction {
    /// Authorize: set credits aside before the work.
    Create(Create),
    /// Show a hold with its history.
    Get(Named),
    /// List holds, newest first.
    List(List),
    /// Take all or part of a hold when the work is done.
    Capture(Capture),
    /// Give all of a hold back.
    Release(Release),
    /// Move a hold's deadline later.
    Extend(Extend),
    /// Give captured credits back.
    Refund(Refund<HoldId>),
    /// Charge again what was refunded, because the work succeeded after all.
    Reclaim(Reclaim<HoldId>),
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    #[command(flatten)]
    pub(super) account: Account,
    /// What the work may cost.
    amount: CallAmount,
    /// How long the hold lives, in seconds; 15 minutes if left out.
    #[arg(long, value_parser = ttl)]
    ttl: Option<TtlSeconds>,
    #[command(flatten)]
    work: Work,
    #[command(flatten)]
    pub(super) key: Key,
}

impl Create {
    pub(super) fn request(&self) -> Result<AuthorizeRequest, CommandError> {
        Ok(AuthorizeRequest {
            amount: self.amount,
            ttl_seconds: self.ttl,
            consistency: self.work.consistency,
            budgets: budgets(&self.work.budgets)?,
            reference: self.work.reference.clone(),
            metadata: self.work.notes.checked()?,
        })
    }
}

#[derive(Debug, Args)]
pub(crate) struct Named {
    #[command(flatten)]
    pub(super) account: Account,
    /// The hold.
    pub(super) hold: HoldId,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(super) account: Account,
    /// Only holds that stand like this: `active`, `captured`, `released` or `expired`.
    #[arg(long)]
    state: Option<HoldStatus>,
    /// Only holds with this reference.
    #[arg(long)]
    reference: Option<Reference>,
    #[command(flatten)]
    page: Page,
}

impl List {
    pub(super) fn query(&self) -> HoldsQuery {
        HoldsQuery {
            unit: UnitName(self.account.unit().clone()),
            state: self.state,
            reference: self.reference.clone(),
            limit: self.page.limit,
            cursor: self.page.cursor.clone(),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Capture {
    #[command(flatten)]
    pub(super) named: Named,
    /// What to take, beside what was captured before; all that is still held if left out.
    amount: Option<CaptureAmount>,
    /// More captures follow: the remainder stays held.
    #[arg(long)]
    partial: bool,
    /// Let a shortfall become debt, within the account's limit.
    #[arg(long)]
    allow_debt: bool,
    /// What to do if the hold has expired: `refuse` or `charge`.
    #[arg(long, default_value = "refuse")]
    if_expired: IfExpired,
    #[command(flatten)]
    notes: Notes,
    #[command(flatten)]
    pub(super) key: Key,
}

impl Capture {
    pub(super) fn request(&self) -> Result<CaptureRequest, CommandError> {
        Ok(CaptureRequest {
            amount: self.amount,
            r#final: !self.partial,
            allow_debt: self.allow_debt,
            if_expired: self.if_expired,
            metadata: self.notes.checked()?,
        })
    }
}

#[derive(Debug, Args)]
pub(crate) struct Release {
    #[command(flatten)]
    pub(super) named: Named,
    /// Why, for whoever reads the history.
    #[arg(long)]
    reason: Option<Reason>,
    #[command(flatten)]
    notes: Notes,
    #[command(flatten)]
    pub(super) key: Key,
}

impl Release {
    pub(super) fn request(&self) -> Result<ReleaseRequest, CommandError> {
        Ok(ReleaseRequest { reason: self.reason.clone(), metadata: self.notes.checked()? })
    }
}

#[derive(Debug, Args)]
pub(crate) struct Extend {
    #[command(flatten)]
    pub(super) named: Named,
    /// The new deadline, RFC 3339 with an offset.
    until: Moment,
    #[command(flatten)]
    pub(super) key: Key,
}

impl Extend {
    pub(super) fn request(&self) -> ExtendRequest {
        ExtendRequest { until: self.until.clone() }
    }
}

/// Runs a command about holds.
pub(super) async fn run(
    action: HoldAction,
    service: &Service,
    output: &Output,
) -> Result<(), CommandError> {
    match action {
        HoldAction::Create(args) => {
            let account = service.account(&args.account);
            let made = account.authorize(&args.request()?, &service.call(&args.key)).await;
            output.answer(&service.done(made, output)?, show_hold)?;
        }
        HoldAction::Get(args) => {
            let account = service.account(&args.account);
            let found = account.hold(&args.hold, &service.read()).await;
            output.answer(&service.found(found)?, show_detail)?;
        }
        HoldAction::List(args) => {
            let account = service.account(&args.account);
            let found = account.holds(&args.query(), &service.read()).await;
            service.list(found, output, tables::holds)?;
        }
        HoldAction::Capture(args) => {
            let (account, call) = (service.account(&args.named.account), service.call(&args.key));
            let taken = account.capture(&args.named.hold, &args.request()?, &call).await;
            output.answer(&service.done(taken, output)?, show_capture)?;
        }
        HoldAction::Release(args) => {
            let (account, call) = (service.account(&args.named.account), service.call(&args.key));
            let released = account.release(&args.named.hold, &args.request()?, &call).await;
            output.answer(&service.done(released, output)?, show_hold)?;
        }
        HoldAction::Extend(args) => {
            let (account, call) = (service.account(&args.named.account), service.call(&args.key));
            let extended = account.extend(&args.named.hold, &args.request(), &call).await;
            output.answer(&service.done(extended, output)?, show_hold)?;
        }
        HoldAction::Refund(args) => {
            args.run(SubjectId::Hold(args.id.clone()), service, output).await?;
        }
        HoldAction::Reclaim(args) => {
            args.run(SubjectId::Hold(args.id.clone()), service, output).await?;
        }
    }
    Ok(())
}

fn show_hold(answer: &HoldAnswer) -> String {
    tables::available(tables::hold(&answer.hold), &answer.balance).text()
}

fn show_detail(detail: &HoldDetail) -> String {
    format!("{}\n\n{}", tables::hold(&detail.hold).text(), tables::entries(&detail.history))
}

fn show_capture(answer: &CaptureAnswer) -> String {
    let facts = tables::hold(&answer.hold).with("taken now", &answer.captured);
    let facts = if answer.late { facts.with("late", "the hold had expired") } else { facts };
    tables::available(facts, &answer.balance).text()
}
