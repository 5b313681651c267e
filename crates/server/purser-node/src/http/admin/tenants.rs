//! Tenants: open, get, list.

use std::collections::BTreeSet;
use std::ops::Bound;

use hyper::StatusCode;
use purser_api as api;
use purser_api::{
    OpenTenantRequest, ProblemCode as Code, Tenant, TenantAnswer, TenantStatus, TenantsQuery,
    UnitQuery, paths,
};
use purser_ledger::{Account, AccountName, Ledger, Policy};
use purser_placement::{Beginning, Operation as Placing, TenantPlacement};
use purser_types::{Epoch, Region, TenantId, Unit};

use crate::http::call::Call;
use crate::http::convert::{self, Shown};
use crate::http::describe::{Description, Tag};
use crate::http::operation::Operation;
use crate::http::paging::{invalid_cursor, open_cursor};
use crate::http::problem::{NotDone, Refusal};
use crate::http::reply::Reply;
use crate::http::routes::{Access, Handled, Routes, Verb};
use crate::regions::Regions;
use crate::tasks::chain;
use crate::token::Token;

/// Declares the calls of the resource.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    routes
        .call(
            (Verb::Post, paths::ADMIN_TENANTS),
            Operation::OpenTenant,
            Description::new(Access::ADMIN, Tag::Tenants, "Opens a tenant's account in one unit.")
                .body::<OpenTenantRequest>()
                .answers::<TenantAnswer>(201)
                .refuses(&[Code::TenantExists]),
            open,
        )
        .call(
            (Verb::Get, paths::ADMIN_TENANTS),
            Operation::ListTenants,
            Description::new(
                Access::ADMIN_READ,
                Tag::Tenants,
                "Lists accounts by name, as the asked node knows them.",
            )
            .query::<TenantsQuery>()
            .answers_list::<Tenant>()
            .refuses(&[Code::InvalidCursor]),
            list,
        )
        .call(
            (Verb::Get, paths::ADMIN_TENANT),
            Operation::GetTenant,
            Description::new(Access::ADMIN_READ, Tag::Tenants, "Shows an account.")
                .query::<UnitQuery>()
                .answers::<TenantAnswer>(200),
            get,
        )
}

async fn open(call: Call) -> Handled {
    call.no_query()?;
    let request: OpenTenantRequest = call.json()?;
    call.admit(&request.tenant.0)?;
    let account = AccountName { tenant: request.tenant.0.clone(), unit: request.unit.0.clone() };
    settle_home(&call, &account, &request).await?;
    let retention = call.api.retention();
    let default = Policy {
        key_retention: retention.keys,
        record_retention: retention.records,
        event_age: Some(retention.events),
        ..Policy::default()
    };
    // An account may come when its tenant has had another home before.
    let home = (call.api.region(), call.placed(&account.tenant));
    let item = call.item(convert::open(&request, home, &default)?)?;
    let placed = call.placed(&account.tenant);
    let done = call.decide(&account, item).await?;
    bring_along(&call, &account.tenant, placed).await?;
    let answer = done.shown(&account).tenant_answer(&done.receipt)?;
    Ok(Reply::decided(StatusCode::CREATED, &answer, done.decided)?)
}

/// Has an account brought to its tenant's home that was opened while the others left, or were about to.
/// A move that begins later finds it.
async fn bring_along(call: &Call, tenant: &TenantId, placed: Option<Epoch>) -> Result<(), Refusal> {
    let Some(regions) = call.api.regions() else { return Ok(()) };
    let deadline = call.meta.deadline;
    let now = regions.directory().refresh(tenant, deadline).await;
    let now = now.map_err(|error| Refusal::outcome_unknown().caused_by(&chain(&error)))?;
    if now.is_some_and(|now| Some(now.epoch) != placed || now.is_moving()) {
        let noted = regions.have_tended(tenant, deadline).await;
        noted.map_err(|error| Refusal::outcome_unknown().caused_by(&chain(&error)))?;
    }
    Ok(())
}

/// Has Placement say where the tenant's home is; if that is elsewhere, the call is answered there.
async fn settle_home(
    call: &Call,
    account: &AccountName,
    request: &OpenTenantRequest,
) -> Result<(), NotDone> {
    let Some(regions) = call.api.regions() else { return Ok(()) };
    let (directory, deadline) = (regions.directory(), call.meta.deadline);
    let failed = |error| Refusal::of_directory(&error);
    let tenant = &account.tenant;
    let mut known = match (&request.home, directory.known_home(tenant)) {
        // A new tenant, most likely, and if not, that is refused below.
        (Some(_), None) => None,
        _ => call.placement_of(regions, tenant).await?,
    };
    if known.as_ref().is_some_and(TenantPlacement::is_moving) {
        // What opens now would be left behind.
        let settled = |placement: &TenantPlacement| !placement.is_moving();
        let settled = regions.await_placement(tenant, settled, deadline).await;
        known = Some(settled.ok_or_else(Refusal::home_moves)?);
    }
    // A second account of a tenant is where the first one is.
    let own = *call.api.region();
    let at_home = known.as_ref().map_or(own, |placement| placement.home);
    let home = request.home.as_ref().map_or(at_home, |home| home.0);
    if home != *call.api.region() {
        return Err(call.to_region(regions, home, account).await);
    }
    // Placement has nothing to say of a tenant that is open here, or has come here.
    let says_nothing = request.standbys.is_none();
    let is_done = |known: &TenantPlacement| known.beginning != Beginning::Opened || says_nothing;
    if !known.is_some_and(|known| known.home == home && is_done(&known)) {
        let standbys = standbys_of(regions, home, request)?;
        let open = Placing::Open { home, standbys };
        directory.change(tenant, open, deadline).await.map_err(failed)?;
    }
    // What opens before the others have come from a lost home would pass for all there is.
    Ok(call.await_arrival(regions, tenant, || false).await?)
}

/// Which regions are to stand by for a tenant.
fn standbys_of(
    regions: &Regions,
    home: Region,
    request: &OpenTenantRequest,
) -> Result<BTreeSet<Region>, Refusal> {
    let planned = regions.standbys_of(home);
    let Some(asked) = &request.standbys else {
        return Ok(planned.into_iter().take(1).collect());
    };
    let asked: BTreeSet<Region> = asked.iter().map(|region| region.0).collect();
    match asked.iter().find(|region| !planned.contains(region)) {
        Some(region) => {
            let detail = format!("{region} does not stand by for {home} in this service");
            Err(Refusal::invalid(detail))
        }
        None => Ok(asked),
    }
}

async fn get(call: Call) -> Handled {
    let account = call.account(call.unit()?)?;
    let owner = call.api.owner();
    let answer = call.look(&account, |settled, now, written| {
        let seen = settled.account();
        let shown = Shown::new(&account, owner).with_homes(seen.homes());
        Ok(TenantAnswer {
            tenant: shown.tenant(seen.standing(), written),
            balance: shown.balance(seen.balance(), now, written, 0),
        })
    });
    Ok(Reply::read(&answer.await?)?)
}

/// Every node hosts every shard, so this node can list them all; what other nodes have decided a
/// moment ago may be missing.
async fn list(call: Call) -> Handled {
    let query: TenantsQuery = call.query()?;
    let scope = query.scope();
    let after = match &query.cursor {
        Some(cursor) => Some(read_name(&open_cursor(&scope, cursor)?)?),
        None => None,
    };
    let limit = query.limit.get();
    let (owner, caller) = (*call.api.owner(), call.caller.clone());
    let listing = call.read_long(|| {
        let groups = call.api.groups().all().iter();
        let shards: Vec<_> = groups.map(|group| group.machine()).collect();
        move || {
            let admits = |account: &Account| admits(account, query.status, &caller);
            let mut accounts = accounts_after(&shards, after.as_ref(), limit + 1, admits);
            let more = accounts.len() > limit;
            accounts.truncate(limit);
            let last = accounts.last().filter(|_| more).map(|account| write_name(account.name()));
            let next_cursor = last.map(|position| scope.seal(&position));
            let show = |account: &&Account| {
                let shown = Shown::new(account.name(), &owner).with_homes(account.homes());
                shown.tenant(account.standing(), account.head().sequence)
            };
            let items = accounts.iter().map(show).collect();
            Ok(api::List { items, has_more: more, next_cursor })
        }
    });
    Ok(Reply::read(&listing.await?)?)
}

fn admits(account: &Account, status: Option<TenantStatus>, caller: &Token) -> bool {
    let stands = convert::tenant_status(account.standing().status);
    status.is_none_or(|wanted| wanted == stands) && caller.reaches(&account.name().tenant)
}

/// The first `count` accounts behind `after`, in the order of their names, over all shards.
fn accounts_after<'a>(
    shards: &'a [Ledger],
    after: Option<&AccountName>,
    count: usize,
    admits: impl Fn(&Account) -> bool,
) -> Vec<&'a Account> {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let mut accounts = Vec::new();
    for ledger in shards {
        let of_shard = ledger.accounts_from(from).map(|account| &**account);
        accounts.extend(of_shard.filter(|account| admits(account)).take(count));
    }
    accounts.sort_unstable_by(|one, other| one.name().cmp(other.name()));
    accounts.truncate(count);
    accounts
}

/// Neither name can contain the separator.
fn write_name(name: &AccountName) -> String {
    format!("{}/{}", name.tenant, name.unit)
}

fn read_name(text: &str) -> Result<AccountName, Refusal> {
    let names = text.split_once('/').and_then(|(tenant, unit)| {
        let (tenant, unit) = (TenantId::parse(tenant).ok()?, Unit::parse(unit).ok()?);
        Some(AccountName { tenant, unit })
    });
    names.ok_or_else(invalid_cursor)
}
