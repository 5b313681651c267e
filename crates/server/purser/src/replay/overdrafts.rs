//! An operator who lets regions overspend: each allocation, soon after its region has opened it.
//!
//! A region opens its allocation of a tenant with the tenant's first call there, so the operator looks
//! again and again while the jobs run. What it allows is in the bound from the moment it is allowed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use purser_api::{Allocation, AllocationRequest, AllocationStatus, Amount, List, Reason, paths};
use purser_types::Credits;
use tokio::task::JoinSet;
use tokio::time::interval;

use super::ReplayError;
use super::caller::{Call, Caller, CallerSettings};
use super::desk::Desk;
use super::plan::Plan;
use super::wire::{self, WireError};

/// How often every tenant is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Why an overdraft is set; it stands in the ledger for whoever reads it.
const REASON: &str = "replayed overdraft";

/// At work while it lives.
pub(crate) struct Operator {
    working: JoinSet<ReplayError>,
}

impl Operator {
    /// Starts to allow what the plan allows; nothing if that is nothing.
    pub(crate) fn start(desk: &Arc<Desk>, plan: &Arc<Plan>, settings: &CallerSettings) -> Self {
        let mut working = JoinSet::new();
        if plan.tenants.iter().any(|tenant| tenant.overdraft > 0) {
            // Its calls are not the tenants', and are counted apart.
            let caller = Caller::new(settings.clone(), Arc::default());
            working.spawn(work(Arc::clone(desk), Arc::clone(plan), caller));
        }
        Self { working }
    }

    /// Ends the work, or says why it ended before.
    pub(crate) async fn end(mut self) -> Result<(), ReplayError> {
        match self.working.try_join_next() {
            Some(ended) => Err(ended.map_err(ReplayError::Task)?),
            None => {
                self.working.shutdown().await;
                Ok(())
            }
        }
    }
}

/// Looks at every tenant until something cannot be done, which it returns.
async fn work(desk: Arc<Desk>, plan: Arc<Plan>, caller: Caller) -> ReplayError {
    let mut allowed = BTreeSet::new();
    let mut ticks = interval(LOOK_EVERY);
    loop {
        ticks.tick().await;
        for (tenant, planned) in plan.tenants.iter().enumerate() {
            let looked = look(&desk, &caller, (tenant, planned.overdraft), &mut allowed).await;
            match looked {
                // Home is out of reach while its region is cut off; it is asked again.
                Ok(()) | Err(ReplayError::Undecided(_)) => (),
                Err(error) => return error,
            }
        }
    }
}

/// Allows the overdraft to each allocation of a tenant that is open and not in `allowed` yet.
async fn look(
    desk: &Desk,
    caller: &Caller,
    (tenant, overdraft): (usize, u64),
    allowed: &mut BTreeSet<String>,
) -> Result<(), ReplayError> {
    let name = desk.name(tenant);
    let path = paths::fill(paths::ADMIN_ALLOCATIONS, &[name]);
    let decided = caller.decide(&Call::read(path.clone())).await?;
    let allocations: List<Allocation> =
        wire::read(&decided)?.map_err(|refusal| ReplayError::Refused { what: path, refusal })?;
    for it in allocations.items {
        let id = format!("{name}-{}", it.allocation_id);
        if it.status != AllocationStatus::Open || allowed.contains(&id) {
            continue;
        }
        let region = it.region.0;
        let path = paths::fill(paths::ADMIN_ALLOCATION, &[&name.to_string(), &region.to_string()]);
        let request = AllocationRequest {
            mode: None,
            overdraft: Some(Amount(Credits::from_u64(overdraft).map_err(WireError::Amount)?)),
            on_expiry: None,
            generation: Some(it.generation),
            reason: Reason::parse(REASON).map_err(WireError::Text)?,
        };
        let body = serde_json::to_vec(&request).map_err(WireError::Json)?;
        let key = desk.key(&format!("overdraft-{name}-{}", it.allocation_id));
        desk.journal(tenant).operators.insert(key.clone());
        caller.decide(&Call::change(path, key, body.into())).await?;
        allowed.insert(id);
    }
    Ok(())
}
