//! Where a router passes a call on to: it keeps no book, so every call goes elsewhere.
//!
//! ```text
//!  is about a hold or charge of an allocation ───▶ the region that has made it
//!  begins a hold or charge, strictly ────────────▶ the tenant's home, if that is within reach
//!  begins one otherwise, or names no tenant ─────▶ the router's own region
//!  is answered alike by every region ────────────▶ the own region, or the nearest that is within reach
//!  anything else ────────────────────────────────▶ the tenant's home
//! ```
//!
//! A batch goes to the router's region as a whole and is taken apart by the node that gets it.
//! Whoever is asked finds the seat anew, so a router that knows an old home costs a step and no more.

use purser_api::{AuthorizeRequest, ChargeRequest, Consistency};
use purser_ledger::AccountName;
use purser_types::{Generation, Region, TenantId, Unit};

use crate::http::call::Call;
use crate::http::operation::Operation;
use crate::http::problem::{NotDone, Refusal};
use crate::http::seat::Purpose;
use crate::regions::Regions;

impl Call {
    /// Has a call that came to a router answered by whoever can. Nothing is sent twice that may have been
    /// heard once.
    pub(crate) async fn pass_through(&self, operation: Operation) -> NotDone {
        let Some(regions) = self.api.regions() else {
            return Refusal::internal("a router knows no regions").into();
        };
        // What is known everywhere can be asked for when the home or the own region is lost.
        if is_answered_anywhere(operation) {
            return self.to_shard(regions, regions.links().nearest(), None).await;
        }
        let Ok(tenant) = self.tenant() else {
            return self.to_shard(regions, *self.api.region(), None).await;
        };
        // An unreadable unit is for the node to refuse.
        let unit = self.unit().unwrap_or_else(|_unreadable| Unit::credits());
        let account = AccountName { tenant: tenant.clone(), unit };
        match self.way_of(regions, &account, operation).await {
            Ok(region) => self.to_region(regions, region, &account).await,
            Err(refusal) => refusal.into(),
        }
    }

    async fn way_of(
        &self,
        regions: &Regions,
        account: &AccountName,
        operation: Operation,
    ) -> Result<Region, Refusal> {
        let of_allocation = |owner: &purser_types::Owner| owner.generation != Generation::HOME;
        if let Some(owner) = self.subject().filter(of_allocation) {
            return Ok(owner.region);
        }
        match Purpose::of(operation) {
            Purpose::Begin => {
                let home = self.strict_home(regions, &account.tenant, operation);
                Ok(home.unwrap_or_else(|| *self.api.region()))
            }
            Purpose::GoOn | Purpose::Other => self.home_of(regions, &account.tenant).await,
        }
    }

    /// The home of a tenant, where a hold or charge is to be begun by home alone, and the router knows
    /// home and reaches it. Else the own region is asked, which knows more, or says why not.
    fn strict_home(
        &self,
        regions: &Regions,
        tenant: &TenantId,
        operation: Operation,
    ) -> Option<Region> {
        // What cannot be read is for a node to refuse.
        let consistency = match operation {
            Operation::Authorize => self.json::<AuthorizeRequest>().ok()?.decider(),
            Operation::Charge => self.json::<ChargeRequest>().ok()?.decider(),
            _ => return None,
        };
        let home = regions.directory().known_home(tenant)?.home;
        let is_home = consistency == Consistency::Strict && regions.links().is_reachable(home);
        is_home.then_some(home)
    }
}

/// Whether it is the same to the caller which region is asked: Placement tells, or whoever is asked passes
/// it on to the region that it names.
const fn is_answered_anywhere(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::GetMove
            | Operation::FailOver
            | Operation::DrainRegion
            | Operation::GetDrain
            | Operation::StopDrain
    )
}
