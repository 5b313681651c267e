//! `purser grant`, `lot`, `adjust` and `policy`: where credits come from and under which rules.

use clap::{Args, Subcommand};
use purser_api::{
    AdjustAnswer, AdjustDirection, AdjustRequest, CallAmount, GrantAnswer, GrantRequest,
    LotCategory, LotId, LotStatus, LotsQuery, Moment, Reason, SourceRef, TenantAnswer, UnitName,
    VoidAnswer, VoidRequest,
};

use super::arguments::{Account, Key, Notes, Page, Safety, Why};
use super::connection::Service;
use super::tables::{self, Facts};
use super::tenant::{PolicyFlags, show_tenant};
use crate::failure::CommandError;
use crate::output::Output;

/// Give a tenant credits.
#[derive(Debug, Args)]
pub(crate) struct Grant {
    #[command(flatten)]
    pub(super) account: Account,
    /// How much.
    amount: CallAmount,
    /// Where the credits come from: `paid` or `promotional`.
    #[arg(long, default_value = "paid")]
    category: LotCategory,
    /// Lower spends first, 0 to 255.
    #[arg(long, default_value_t = 100)]
    priority: u8,
    /// From when on it can be spent, RFC 3339 with an offset; at once if left out.
    #[arg(long)]
    effective_at: Option<Moment>,
    /// From when on it cannot be spent any more; never if left out.
    #[arg(long)]
    expires_at: Option<Moment>,
    /// The business fact behind it, such as a payment. A second grant with the same one adds
    /// nothing.
    #[arg(long)]
    source_ref: Option<SourceRef>,
    /// Why, for whoever reads the history.
    #[arg(long)]
    reason: Option<Reason>,
    #[command(flatten)]
    notes: Notes,
    #[command(flatten)]
    pub(super) key: Key,
}

impl Grant {
    pub(super) fn request(&self) -> Result<GrantRequest, CommandError> {
        Ok(GrantRequest {
            amount: self.amount,
            category: self.category,
            priority: self.priority,
            effective_at: self.effective_at.clone(),
            expires_at: self.expires_at.clone(),
            source_ref: self.source_ref.clone(),
            reason: self.reason.clone(),
            metadata: self.notes.checked()?,
        })
    }
}

/// Look at lots, take them back.
#[derive(Debug, Subcommand)]
pub(crate) enum LotAction {
    /// List an account's lots, newest first.
    List(List),
    /// Take back what is left of a grant: first with `--dry-run`, then with the `--confirm` it
    /// shows.
    Void(Void),
}

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(super) account: Account,
    /// Only lots that stand like this: `pending`, `active`, `expired`, `voided` or `spent`.
    #[arg(long)]
    status: Option<LotStatus>,
    #[command(flatten)]
    page: Page,
}

impl List {
    pub(super) fn query(&self) -> LotsQuery {
        let Page { limit, cursor } = &self.page;
        let unit = UnitName(self.account.unit().clone());
        LotsQuery { unit, status: self.status, limit: *limit, cursor: cursor.clone() }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Void {
    #[command(flatten)]
    pub(super) account: Account,
    /// The lot.
    pub(super) lot: LotId,
    #[command(flatten)]
    why: Why,
    #[command(flatten)]
    safety: Safety,
    #[command(flatten)]
    pub(super) key: Key,
}

impl Void {
    pub(super) fn request(&self) -> VoidRequest {
        VoidRequest {
            reason: self.why.reason.clone(),
            dry_run: self.safety.dry_run,
            confirm: self.safety.confirm.clone(),
        }
    }
}

/// Correct an account by an operator's decision.
#[derive(Debug, Args)]
pub(crate) struct Adjust {
    #[command(flatten)]
    pub(super) account: Account,
    #[command(flatten)]
    change: Change,
    #[command(flatten)]
    why: Why,
    #[command(flatten)]
    notes: Notes,
    #[command(flatten)]
    pub(super) key: Key,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Change {
    /// Add so much, as a lot.
    #[arg(long, value_name = "AMOUNT")]
    add: Option<CallAmount>,
    /// Remove so much of what is available.
    #[arg(long, value_name = "AMOUNT")]
    remove: Option<CallAmount>,
}

impl Adjust {
    pub(super) fn request(&self) -> Result<AdjustRequest, CommandError> {
        let (direction, amount) = match (self.change.add, self.change.remove) {
            (Some(amount), None) => (AdjustDirection::Add, amount),
            (None, Some(amount)) => (AdjustDirection::Remove, amount),
            _ => return Err(CommandError::Usage("either --add or --remove".to_owned())),
        };
        let (reason, metadata) = (self.why.reason.clone(), self.notes.checked()?);
        Ok(AdjustRequest { direction, amount, reason, metadata })
    }
}

/// Look at an account's policy, change it.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyAction {
    /// Show the policy.
    Get(Account),
    /// Change the policy. What is left out stays as it is.
    Set(SetPolicy),
}

#[derive(Debug, Args)]
pub(crate) struct SetPolicy {
    #[command(flatten)]
    pub(super) account: Account,
    #[command(flatten)]
    policy: PolicyFlags,
    #[command(flatten)]
    pub(super) key: Key,
}

/// Gives a tenant credits.
pub(super) async fn grant(
    args: Grant,
    service: &Service,
    output: &Output,
) -> Result<(), CommandError> {
    let (account, call) = (service.admin_account(&args.account), service.call(&args.key));
    let granted = account.grant(&args.request()?, &call).await;
    output.answer(&service.done(granted, output)?, show_grant)?;
    Ok(())
}

/// Runs a command about lots.
pub(super) async fn run(
    action: LotAction,
    service: &Service,
    output: &Output,
) -> Result<(), CommandError> {
    match action {
        LotAction::List(args) => {
            let account = service.account(&args.account);
            let found = account.lots(&args.query(), &service.read()).await;
            service.list(found, output, tables::lots)?;
        }
        LotAction::Void(args) => {
            let (account, call) = (service.admin_account(&args.account), service.call(&args.key));
            let voided = account.void(&args.lot, &args.request(), &call).await;
            output.answer(&service.done(voided, output)?, show_void)?;
        }
    }
    Ok(())
}

/// Corrects an account.
pub(super) async fn adjust(
    args: Adjust,
    service: &Service,
    output: &Output,
) -> Result<(), CommandError> {
    let (account, call) = (service.admin_account(&args.account), service.call(&args.key));
    let adjusted = account.adjust(&args.request()?, &call).await;
    output.answer(&service.done(adjusted, output)?, show_adjust)?;
    Ok(())
}

/// Runs a command about an account's policy.
pub(super) async fn policy(
    action: PolicyAction,
    service: &Service,
    output: &Output,
) -> Result<(), CommandError> {
    match action {
        PolicyAction::Get(args) => {
            let found = service.admin_account(&args).tenant(&service.read()).await;
            let TenantAnswer { tenant, .. } = service.found(found)?;
            let show = |policy: &_| tables::policy(Facts::new(), policy).text();
            output.answer(&tenant.policy, show)?;
        }
        PolicyAction::Set(args) => {
            let (account, call) = (service.admin_account(&args.account), service.call(&args.key));
            let set = account.set_policy(&args.policy.request(), &call).await;
            output.answer(&service.done(set, output)?, show_tenant)?;
        }
    }
    Ok(())
}

fn show_grant(answer: &GrantAnswer) -> String {
    let facts = tables::lot(&answer.lot).with("debt repaid", &answer.debt_repaid);
    tables::available(facts, &answer.balance).text()
}

fn show_void(answer: &VoidAnswer) -> String {
    let facts = tables::dry_run(answer.dry_run, answer.confirm.as_ref())
        .with("voided", &answer.voided)
        .with("pinned", &answer.pinned)
        .and(tables::lot(&answer.lot));
    tables::available(facts, &answer.balance).text()
}

fn show_adjust(answer: &AdjustAnswer) -> String {
    let facts = match &answer.lot {
        Some(lot) => tables::lot(lot).with("debt repaid", &answer.debt_repaid),
        None => Facts::new().with("removed", tables::shares(&answer.removed)),
    };
    tables::available(facts, &answer.balance).text()
}
