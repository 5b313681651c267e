//! The paths of the contract, once for server, client and description.
//!
//! A template names its parameters in braces. [`fill`] puts the values in; all ids and names are
//! made of characters that stand for themselves in a path.

use std::fmt::Display;

/// Authorize (POST), list holds (GET).
pub const HOLDS: &str = "/v1/tenants/{tenant}/holds";
/// One hold and its history (GET).
pub const HOLD: &str = "/v1/tenants/{tenant}/holds/{hold}";
/// Capture (POST).
pub const HOLD_CAPTURE: &str = "/v1/tenants/{tenant}/holds/{hold}/capture";
/// Release (POST).
pub const HOLD_RELEASE: &str = "/v1/tenants/{tenant}/holds/{hold}/release";
/// Extend (POST).
pub const HOLD_EXTEND: &str = "/v1/tenants/{tenant}/holds/{hold}/extend";
/// Refund a hold (POST).
pub const HOLD_REFUND: &str = "/v1/tenants/{tenant}/holds/{hold}/refund";
/// Reclaim a hold (POST).
pub const HOLD_RECLAIM: &str = "/v1/tenants/{tenant}/holds/{hold}/reclaim";
/// Charge (POST).
pub const CHARGES: &str = "/v1/tenants/{tenant}/charges";
/// One charge and its history (GET).
pub const CHARGE: &str = "/v1/tenants/{tenant}/charges/{charge}";
/// Refund a charge (POST).
pub const CHARGE_REFUND: &str = "/v1/tenants/{tenant}/charges/{charge}/refund";
/// Reclaim a charge (POST).
pub const CHARGE_RECLAIM: &str = "/v1/tenants/{tenant}/charges/{charge}/reclaim";
/// Check (POST).
pub const CHECK: &str = "/v1/tenants/{tenant}/check";
/// Batch (POST).
pub const BATCH: &str = "/v1/batch";
/// Balance (GET).
pub const BALANCE: &str = "/v1/tenants/{tenant}/balance";
/// Entries (GET).
pub const ENTRIES: &str = "/v1/tenants/{tenant}/entries";
/// Lots (GET).
pub const LOTS: &str = "/v1/tenants/{tenant}/lots";
/// Statement (GET).
pub const STATEMENT: &str = "/v1/tenants/{tenant}/statement";

/// Open a tenant (POST), list tenants (GET).
pub const ADMIN_TENANTS: &str = "/admin/v1/tenants";
/// One tenant's account (GET).
pub const ADMIN_TENANT: &str = "/admin/v1/tenants/{tenant}";
/// Freeze (POST).
pub const ADMIN_FREEZE: &str = "/admin/v1/tenants/{tenant}/freeze";
/// Unfreeze (POST).
pub const ADMIN_UNFREEZE: &str = "/admin/v1/tenants/{tenant}/unfreeze";
/// Close (POST).
pub const ADMIN_CLOSE: &str = "/admin/v1/tenants/{tenant}/close";
/// Grant (POST).
pub const ADMIN_GRANTS: &str = "/admin/v1/tenants/{tenant}/grants";
/// Void a lot (POST).
pub const ADMIN_LOT_VOID: &str = "/admin/v1/tenants/{tenant}/lots/{lot}/void";
/// Adjust (POST).
pub const ADMIN_ADJUST: &str = "/admin/v1/tenants/{tenant}/adjust";
/// Where the home is (GET), and moving it (POST).
pub const ADMIN_MOVE: &str = "/admin/v1/tenants/{tenant}/move";
/// What lost homes of a tenant had decided besides, as far as it is not booked (GET).
pub const ADMIN_TAILS: &str = "/admin/v1/tenants/{tenant}/tails";
/// Give a lost home's tail up (POST).
pub const ADMIN_TAIL_WRITE_OFF: &str = "/admin/v1/tenants/{tenant}/tails/{epoch}/write-off";
/// Change the policy (POST).
pub const ADMIN_POLICY: &str = "/admin/v1/tenants/{tenant}/policy";

/// What is set aside for regions (GET).
pub const ADMIN_ALLOCATIONS: &str = "/admin/v1/tenants/{tenant}/allocations";
/// Change what a region may do with its allocation (POST).
pub const ADMIN_ALLOCATION: &str = "/admin/v1/tenants/{tenant}/allocations/{region}";
/// Ask credits back from a region (POST).
pub const ADMIN_ALLOCATION_RECALL: &str = "/admin/v1/tenants/{tenant}/allocations/{region}/recall";
/// Take back what is out in a region, without hearing from it (POST).
pub const ADMIN_ALLOCATION_TAKE_BACK: &str =
    "/admin/v1/tenants/{tenant}/allocations/{region}/take-back";
/// Write off what is lost in a region (POST).
pub const ADMIN_ALLOCATION_WRITE_OFF: &str =
    "/admin/v1/tenants/{tenant}/allocations/{region}/write-off";
/// Ask credits back from one region for another (POST).
pub const ADMIN_TRANSFER: &str = "/admin/v1/tenants/{tenant}/transfer";

/// The overspend bound (GET).
pub const ADMIN_OVERSPEND: &str = "/admin/v1/overspend";
/// The regions (GET).
pub const ADMIN_REGIONS: &str = "/admin/v1/regions";
/// Have a standby take over the homes of a region that is lost (POST).
pub const ADMIN_FAILOVER: &str = "/admin/v1/regions/{region}/failover";

/// Move all homes out of a region (POST), and how far that has come (GET).
pub const ADMIN_REGION_DRAIN: &str = "/admin/v1/regions/{region}/drain";
/// Stop that (POST).
pub const ADMIN_REGION_DRAIN_STOP: &str = "/admin/v1/regions/{region}/drain/stop";

/// The groups of a cluster (GET).
pub const ADMIN_CLUSTER: &str = "/admin/v1/cluster";
/// A node that gets a group's log without voting (PUT).
pub const ADMIN_GROUP_LEARNER: &str = "/admin/v1/cluster/groups/{group}/learners/{node}";
/// Who votes in a group (PUT).
pub const ADMIN_GROUP_VOTERS: &str = "/admin/v1/cluster/groups/{group}/voters";
/// Who leads a group (PUT).
pub const ADMIN_GROUP_LEADER: &str = "/admin/v1/cluster/groups/{group}/leader";

/// Whether the process runs (GET).
pub const LIVEZ: &str = "/livez";
/// Whether the node serves (GET).
pub const READYZ: &str = "/readyz";
/// Metrics in the format of Prometheus (GET).
pub const METRICS: &str = "/metrics";
/// The description of all this, OpenAPI 3.1 (GET).
pub const OPENAPI: &str = "/openapi.json";

/// Puts values in place of a template's parameters, in their order.
///
/// What has no value keeps its template, which no route matches.
pub fn fill(template: &str, values: &[&dyn Display]) -> String {
    let mut path = String::with_capacity(template.len());
    let mut rest = template;
    for value in values {
        let Some((before, behind)) = rest.split_once('{') else { break };
        let Some((_, behind)) = behind.split_once('}') else { break };
        path.push_str(before);
        path.push_str(&value.to_string());
        rest = behind;
    }
    path.push_str(rest);
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_in_the_order_of_the_template() {
        assert_eq!(
            fill(HOLD_CAPTURE, &[&"acme", &"h7-0-us"]),
            "/v1/tenants/acme/holds/h7-0-us/capture"
        );
        assert_eq!(fill(BATCH, &[]), BATCH);
    }
}
