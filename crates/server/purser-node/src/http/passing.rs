//! Where a router passes a call on to: it keeps no book, so every call goes elsewhere.
//!
//! ```text
//!  begins a hold or charge, or names no tenant ──▶ the router's own region
//!  is about a hold or charge of an allocation ───▶ the region that has made it
//!  anything else ────────────────────────────────▶ the tenant's home
//! ```
//!
//! What begins goes to the router's region also if it is to be strict: only a region can note that it
//! passes a key on (R10). A batch goes there as a whole and is taken apart by the node that gets it.
//! Whoever is asked finds the seat anew, so a router that knows an old home costs a step and no more.

use purser_ledger::AccountName;
use purser_types::{Generation, Region, Unit};

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
            Purpose::Begin => Ok(*self.api.region()),
            Purpose::Undo | Purpose::Other => self.home_of(regions, &account.tenant).await,
        }
    }
}
