//! `purser tenant`: open, look at, freeze, unfreeze and close tenants.

use std::num::NonZeroU16;

use clap::{Args, Subcommand};
use purser_api::{
    Amount, CloseAnswer, CloseRequest, EventAgeSeconds, FreezeRequest, MoveRequest, OnExpiry,
    OpenTenantRequest, PlacementAnswer, PolicyRequest, RefundExpired, RegionName, RegrantDays,
    StandbyOf, TenantAnswer, TenantName, TenantStatus, TenantsQuery, UnitName,
};

use super::arguments::{Account, Key, Page, Safety, Why};
use super::connection::Service;
use super::tables::{self, Facts};
use super::tails::{self, WriteOffTail};
use crate::failure::CommandError;
use crate::output::Output;

/// Open, look at, freeze and close tenants.
#[derive(Debug, Subcommand)]
pub(crate) enum TenantAction {
    /// Open a tenant's account.
    Open(Open),
    /// Show an account and its policy.
    Get(Account),
    /// List tenants in the order of their names.
    List(List),
    /// Refuse new holds and charges; holds may end.
    Freeze(Freeze),
    /// Allow new holds and charges again.
    Unfreeze(Freeze),
    /// Move its home to another region, for all its accounts, and wait until it is there.
    Move(Move),
    /// Show where its home is, and whether it moves.
    Home(Home),
    /// List what lost homes of it had decided besides, as far as it is neither booked nor written off.
    Tails(Account),
    /// Give up on what a lost home had decided besides: first with `--dry-run`, then with the
    /// `--confirm` it shows.
    WriteOffTail(WriteOffTail),
    /// Close an account for good: first with `--dry-run`, then with the `--confirm` it shows.
    Close(Close),
}

#[derive(Debug, Args)]
pub(crate) struct Open {
    /// The tenant.
    tenant: TenantName,
    /// What the account counts.
    #[arg(long, default_value = "credits")]
    unit: UnitName,
    /// Where its home is to be; the region that is asked if left out.
    #[arg(long)]
    home: Option<RegionName>,
    /// The regions that stand by for its home; the first of those configured if left out.
    #[arg(long, value_delimiter = ',')]
    standbys: Vec<RegionName>,
    #[command(flatten)]
    policy: PolicyFlags,
    #[command(flatten)]
    pub(super) key: Key,
}

impl Open {
    pub(super) fn request(&self) -> OpenTenantRequest {
        OpenTenantRequest {
            tenant: self.tenant.clone(),
            unit: self.unit.clone(),
            home: self.home.clone(),
            standbys: (!self.standbys.is_empty()).then(|| self.standbys.clone()),
            policy: self.policy.request(),
        }
    }
}

/// What a policy says. What is left out has its default, or stays as it is.
#[derive(Debug, Args)]
pub(crate) struct PolicyFlags {
    /// What the account may owe by captures and charges that allow debt.
    #[arg(long, help_heading = "Policy")]
    debt_limit: Option<Amount>,
    /// What becomes of a refund into an expired lot: `lapse`, or `regrant:DAYS`.
    #[arg(long, value_parser = refund_expired, help_heading = "Policy")]
    refund_expired: Option<RefundExpired>,
    /// How much home may take back from regions that are not heard of, without an operator's word.
    #[arg(long, value_name = "AMOUNT", help_heading = "Policy")]
    takeback_cap: Option<Amount>,
    /// What becomes of an allocation whose lease has run out, of those that are opened from now on:
    /// `keep` or `take_back`.
    #[arg(long, help_heading = "Policy")]
    on_expiry: Option<OnExpiry>,
    /// How many credits of calls home may answer before its standby has them: at most as many are spent
    /// twice if home is lost.
    #[arg(long, value_name = "AMOUNT", help_heading = "Policy")]
    unacknowledged_max: Option<Amount>,
    /// How long a usage event is accepted after its time, in seconds. A longer one is for events whose time
    /// comes after the change.
    #[arg(long, value_name = "SECONDS", value_parser = event_age, help_heading = "Policy")]
    event_age_seconds: Option<EventAgeSeconds>,
}

impl PolicyFlags {
    pub(super) fn request(&self) -> PolicyRequest {
        PolicyRequest {
            debt_limit: self.debt_limit.clone(),
            refund_expired: self.refund_expired,
            takeback_cap: self.takeback_cap.clone(),
            on_expiry: self.on_expiry,
            unacknowledged_max: self.unacknowledged_max.clone(),
            event_age_seconds: self.event_age_seconds,
        }
    }
}

fn event_age(text: &str) -> Result<EventAgeSeconds, String> {
    let seconds = text.parse::<u32>().map_err(|error| error.to_string())?;
    EventAgeSeconds::try_from(seconds).map_err(|error| error.to_string())
}

fn refund_expired(text: &str) -> Result<RefundExpired, String> {
    if text == "lapse" {
        return Ok(RefundExpired::Lapse);
    }
    let days = text.strip_prefix("regrant:").and_then(|days| days.parse::<NonZeroU16>().ok());
    let days = days.ok_or("expected `lapse`, or `regrant:DAYS` with 1 to 65535 days")?;
    Ok(RefundExpired::RegrantDays(RegrantDays(days)))
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only tenants that stand like this: `open`, `frozen` or `closed`.
    #[arg(long)]
    status: Option<TenantStatus>,
    #[command(flatten)]
    page: Page,
}

impl List {
    pub(super) fn query(&self) -> TenantsQuery {
        let Page { limit, cursor } = &self.page;
        TenantsQuery { status: self.status, limit: *limit, cursor: cursor.clone() }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Freeze {
    #[command(flatten)]
    pub(super) account: Account,
    #[command(flatten)]
    why: Why,
    #[command(flatten)]
    pub(super) key: Key,
}

impl Freeze {
    pub(super) fn request(&self) -> FreezeRequest {
        FreezeRequest { reason: self.why.reason.clone() }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Move {
    /// The tenant.
    tenant: TenantName,
    /// The region where its home shall be.
    #[arg(long)]
    to: RegionName,
}

#[derive(Debug, Args)]
pub(crate) struct Home {
    /// The tenant.
    tenant: TenantName,
}

#[derive(Debug, Args)]
pub(crate) struct Close {
    #[command(flatten)]
    pub(super) account: Account,
    #[command(flatten)]
    why: Why,
    #[command(flatten)]
    safety: Safety,
    #[command(flatten)]
    pub(super) key: Key,
}

impl Close {
    pub(super) fn request(&self) -> CloseRequest {
        CloseRequest {
            reason: self.why.reason.clone(),
            dry_run: self.safety.dry_run,
            confirm: self.safety.confirm.clone(),
        }
    }
}

/// Runs a command about tenants.
pub(super) async fn run(
    action: TenantAction,
    service: &Service,
    output: &Output,
) -> Result<(), CommandError> {
    match action {
        TenantAction::Open(args) => {
            let admin = service.admin();
            let opened = admin.open_tenant(&args.request(), &service.call(&args.key)).await;
            output.answer(&service.done(opened, output)?, show_tenant)?;
        }
        TenantAction::Get(args) => {
            let found = service.admin_account(&args).tenant(&service.read()).await;
            output.answer(&service.found(found)?, show_tenant)?;
        }
        TenantAction::List(args) => {
            let found = service.admin().tenants(&args.query(), &service.read()).await;
            service.list(found, output, tables::tenants)?;
        }
        TenantAction::Freeze(args) => {
            let (account, call) = (service.admin_account(&args.account), service.call(&args.key));
            let frozen = account.freeze(&args.request(), &call).await;
            output.answer(&service.done(frozen, output)?, show_tenant)?;
        }
        TenantAction::Unfreeze(args) => {
            let (account, call) = (service.admin_account(&args.account), service.call(&args.key));
            let unfrozen = account.unfreeze(&args.request(), &call).await;
            output.answer(&service.done(unfrozen, output)?, show_tenant)?;
        }
        TenantAction::Move(Move { tenant, to }) => {
            let account = service.admin().account(tenant.0);
            let moved = account.move_home(&MoveRequest { to }, &service.read()).await;
            output.answer(&service.said(moved)?, show_home)?;
        }
        TenantAction::Home(Home { tenant }) => {
            let found = service.admin().account(tenant.0).home(&service.read()).await;
            output.answer(&service.found(found)?, show_home)?;
        }
        TenantAction::Tails(account) => tails::list(&account, service, output).await?,
        TenantAction::WriteOffTail(args) => tails::write_off(&args, service, output).await?,
        TenantAction::Close(args) => {
            let (account, call) = (service.admin_account(&args.account), service.call(&args.key));
            let closed = account.close(&args.request(), &call).await;
            output.answer(&service.done(closed, output)?, show_close)?;
        }
    }
    Ok(())
}

/// An account and its credits.
pub(super) fn show_tenant(answer: &TenantAnswer) -> String {
    tables::available(tables::tenant(&answer.tenant), &answer.balance).text()
}

fn show_home(answer: &PlacementAnswer) -> String {
    let PlacementAnswer { tenant, home, epoch, state, standbys, lost, to } = answer;
    let facts = Facts::new().with("tenant", tenant).with("home", home).with("epoch", epoch);
    let facts = facts.with("state", state).with_some("to", to.as_ref());
    let standby = |standby: &StandbyOf| {
        let can = if standby.promotable { "can take over" } else { "cannot take over now" };
        format!("{} ({can})", standby.region)
    };
    let facts = standbys.iter().fold(facts, |facts, it| facts.with("standby", standby(it)));
    lost.iter().fold(facts, |facts, region| facts.with("lost", region)).text()
}

fn show_close(answer: &CloseAnswer) -> String {
    let facts = tables::dry_run(answer.dry_run, answer.confirm.as_ref());
    let facts = facts.and(tables::tenant(&answer.tenant));
    tables::available(facts, &answer.balance).text()
}
