//! The admin API: accounts, lots, and the nodes themselves.

mod cluster;
mod lifecycle;
mod lots;
mod policy;
mod rehearsal;
mod tenants;

use purser_ledger::{Account, AccountName};
use purser_types::{HistoryReader, LogTime, Sequence};

use crate::http::call::Call;
use crate::http::convert::Shown;
use crate::http::problem::{NotDone, Refusal};
use crate::http::routes::Routes;
use crate::http::routing::tenant_not_found;

/// Declares the calls of the admin API.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    let routes = tenants::declare(routes);
    let routes = lifecycle::declare(routes);
    let routes = policy::declare(routes);
    let routes = lots::declare(routes);
    cluster::declare(routes)
}

/// An account as it stands on this node, after a decision or a confirmation there.
async fn tenant_answer(
    call: &Call,
    account: &AccountName,
) -> Result<purser_api::TenantAnswer, NotDone> {
    let owner = call.api.owner().clone();
    let name = account.clone();
    let shown = call.at_leisure(account, move |ledger, history, now| {
        let account = ledger.account(&name).ok_or_else(tenant_not_found)?;
        let settled = account.at(now, history).map_err(|error| Refusal::of_history(&error))?;
        show_tenant(&Shown::new(&name, &owner), settled.account(), history, now)
    });
    shown.await
}

fn show_tenant(
    shown: &Shown<'_>,
    account: &Account,
    history: &dyn HistoryReader,
    now: LogTime,
) -> Result<purser_api::TenantAnswer, Refusal> {
    let balance = shown.balance(&account.balance(), now, account.head().sequence, 0);
    Ok(purser_api::TenantAnswer { tenant: tenant(shown, account, history)?, balance })
}

fn tenant(
    shown: &Shown<'_>,
    account: &Account,
    history: &dyn HistoryReader,
) -> Result<purser_api::Tenant, Refusal> {
    let first = account.entry(Sequence(1), history).map_err(|error| Refusal::of_history(&error))?;
    let first = first.ok_or_else(|| Refusal::internal("an account without a first entry"))?;
    Ok(shown.tenant(account, first.entry.log_time))
}
