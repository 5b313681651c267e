//! The admin API: accounts, lots, allocations, and the nodes and regions themselves.

mod allocations;
mod cluster;
mod drains;
mod failovers;
mod lifecycle;
mod lots;
mod moves;
mod overspend;
mod policy;
mod regions;
mod rehearsal;
mod tenants;

use crate::http::routes::Routes;

/// Declares the calls of the admin API.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    let routes = tenants::declare(routes);
    let routes = lifecycle::declare(routes);
    let routes = policy::declare(routes);
    let routes = lots::declare(routes);
    let routes = moves::declare(routes);
    let routes = failovers::declare(routes);
    let routes = allocations::declare(routes);
    let routes = overspend::declare(routes);
    let routes = regions::declare(routes);
    let routes = drains::declare(routes);
    cluster::declare(routes)
}
