//! The admin API: accounts, lots, and the nodes themselves.

mod cluster;
mod lifecycle;
mod lots;
mod policy;
mod rehearsal;
mod tenants;

use crate::http::routes::Routes;

/// Declares the calls of the admin API.
pub(crate) fn declare(routes: Routes<'_>) -> Routes<'_> {
    let routes = tenants::declare(routes);
    let routes = lifecycle::declare(routes);
    let routes = policy::declare(routes);
    let routes = lots::declare(routes);
    cluster::declare(routes)
}
