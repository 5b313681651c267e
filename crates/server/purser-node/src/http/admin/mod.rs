//! The admin API: accounts, lots, allocations, webhooks, and the nodes and regions themselves.

mod allocations;
mod budgets;
mod cluster;
mod dead_letters;
mod drains;
mod failovers;
mod lifecycle;
mod lots;
mod moves;
mod overspend;
mod parked_events;
mod policy;
mod regions;
mod rehearsal;
mod tenants;
mod verifications;
mod webhooks;

use crate::http::routes::Routes;

/// Declares the calls of the admin API.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    let routes = tenants::declare(routes);
    let routes = lifecycle::declare(routes);
    let routes = policy::declare(routes);
    let routes = budgets::declare(routes);
    let routes = lots::declare(routes);
    let routes = moves::declare(routes);
    let routes = failovers::declare(routes);
    let routes = allocations::declare(routes);
    let routes = dead_letters::declare(routes);
    let routes = parked_events::declare(routes);
    let routes = overspend::declare(routes);
    let routes = regions::declare(routes);
    let routes = drains::declare(routes);
    let routes = webhooks::declare(routes);
    let routes = verifications::declare(routes);
    cluster::declare(routes)
}
