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
/// Create a job (POST), list jobs (GET).
pub const JOBS: &str = "/v1/tenants/{tenant}/jobs";
/// One job (GET).
pub const JOB: &str = "/v1/tenants/{tenant}/jobs/{job}";
/// Report how an attempt of a job ended (POST).
pub const JOB_OUTCOME: &str = "/v1/tenants/{tenant}/jobs/{job}/outcome";
/// Keep a job for longer (POST).
pub const JOB_RENEW: &str = "/v1/tenants/{tenant}/jobs/{job}/renew";
/// Lease due jobs of all tenants (POST).
pub const JOBS_LEASE: &str = "/v1/jobs/lease";
/// Take usage events in, of any tenants (POST).
pub const EVENTS: &str = "/v1/events";
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
/// Committed entries of all tenants whose home is in the region.
pub const CHANGES: &str = "/v1/changes";

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
/// An account's budgets (GET).
pub const ADMIN_BUDGETS: &str = "/admin/v1/tenants/{tenant}/budgets";
/// One budget (GET), make or change it (PUT).
pub const ADMIN_BUDGET: &str = "/admin/v1/tenants/{tenant}/budgets/{budget}";
/// Remove it (POST).
pub const ADMIN_BUDGET_REMOVE: &str = "/admin/v1/tenants/{tenant}/budgets/{budget}/remove";

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

/// Jobs that only people may touch (GET).
pub const ADMIN_DEAD_LETTERS: &str = "/admin/v1/dead-letters";
/// One of them (GET).
pub const ADMIN_DEAD_LETTER: &str = "/admin/v1/tenants/{tenant}/dead-letters/{job}";
/// Let it be tried again (POST).
pub const ADMIN_DEAD_LETTER_REDRIVE: &str = "/admin/v1/tenants/{tenant}/dead-letters/{job}/redrive";
/// Let nothing become of it (POST).
pub const ADMIN_DEAD_LETTER_DISCARD: &str = "/admin/v1/tenants/{tenant}/dead-letters/{job}/discard";

/// Usage events that wait for people (GET).
pub const ADMIN_PARKED_EVENTS: &str = "/admin/v1/tenants/{tenant}/parked-events";
/// One of them (GET).
pub const ADMIN_PARKED_EVENT: &str = "/admin/v1/tenants/{tenant}/parked-events/{entry}";
/// Take it after all (POST).
pub const ADMIN_PARKED_EVENT_REDRIVE: &str =
    "/admin/v1/tenants/{tenant}/parked-events/{entry}/redrive";
/// Let nothing become of it (POST).
pub const ADMIN_PARKED_EVENT_DISCARD: &str =
    "/admin/v1/tenants/{tenant}/parked-events/{entry}/discard";

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

/// The webhooks of a region (GET), and a new one (POST).
pub const ADMIN_WEBHOOKS: &str = "/admin/v1/webhooks";
/// One webhook (GET), and its end (DELETE).
pub const ADMIN_WEBHOOK: &str = "/admin/v1/webhooks/{webhook}";
/// Sign with another secret (POST).
pub const ADMIN_WEBHOOK_ROTATE: &str = "/admin/v1/webhooks/{webhook}/rotate";
/// Deliver events (POST).
pub const ADMIN_WEBHOOK_ENABLE: &str = "/admin/v1/webhooks/{webhook}/enable";
/// Deliver none (POST).
pub const ADMIN_WEBHOOK_DISABLE: &str = "/admin/v1/webhooks/{webhook}/disable";
/// What could not be delivered (GET).
pub const ADMIN_WEBHOOK_DEAD_LETTERS: &str = "/admin/v1/webhooks/{webhook}/dead-letters";
/// Try all of it once more, some at a time (POST).
pub const ADMIN_WEBHOOK_REDRIVE_ALL: &str = "/admin/v1/webhooks/{webhook}/redrive";
/// Try it once more (POST).
pub const ADMIN_WEBHOOK_REDRIVE: &str =
    "/admin/v1/webhooks/{webhook}/dead-letters/{dead_letter}/redrive";
/// Give it up for good (POST).
pub const ADMIN_WEBHOOK_DISCARD: &str =
    "/admin/v1/webhooks/{webhook}/dead-letters/{dead_letter}/discard";
/// Start a verification (POST).
pub const ADMIN_VERIFICATIONS: &str = "/admin/v1/verifications";
/// How far one has come, and what it has found (GET).
pub const ADMIN_VERIFICATION: &str = "/admin/v1/verifications/{verification}";

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
