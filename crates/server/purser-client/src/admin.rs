//! The admin API: one method for each call of the contract.

use purser_api::{
    AdjustAnswer, AdjustRequest, CloseAnswer, CloseRequest, DrainAnswer, DrainRequest, EpochNumber,
    FailOverAnswer, FailOverRequest, FreezeRequest, GrantAnswer, GrantRequest, List, LotId,
    MoveRequest, OpenTenantRequest, OverspendAnswer, OverspendQuery, PlacementAnswer,
    PolicyRequest, RegionName, RegionsAnswer, TailsAnswer, Tenant, TenantAnswer, TenantsQuery,
    UnitName, UnitQuery, VerificationAnswer, VerificationId, VerificationRequest, VoidAnswer,
    VoidRequest, WriteOffTailAnswer, WriteOffTailRequest, paths,
};
use purser_types::{TenantId, Unit};
use serde::Serialize;

use crate::allocations::Allocations;
use crate::body::AnswerBody;
use crate::budgets::Budgets;
use crate::call::{Answer, Call};
use crate::client::{Client, Request, with_query};
use crate::cluster::Cluster;
use crate::error::ClientError;
use crate::webhooks::Webhooks;

/// The admin API. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Admin {
    pub(crate) client: Client,
}

/// What an operator may do to one account. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AdminAccount {
    client: Client,
    tenant: TenantId,
    unit: Unit,
}

impl Admin {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// A tenant's account in the default unit.
    pub fn account(&self, tenant: TenantId) -> AdminAccount {
        AdminAccount { client: self.client.clone(), tenant, unit: Unit::credits() }
    }

    /// The groups and nodes behind it. Needs a token that reaches all tenants.
    pub fn cluster(&self) -> Cluster {
        Cluster::new(self.client.clone())
    }

    /// The webhooks of the region that is asked. Needs a token that reaches all tenants.
    pub fn webhooks(&self) -> Webhooks {
        Webhooks::new(self.client.clone())
    }

    /// The most that can have been spent beyond what was granted, over all accounts. Needs a token that
    /// reaches all tenants.
    pub async fn overspend(
        &self,
        query: &OverspendQuery,
        call: &Call,
    ) -> Result<OverspendAnswer, ClientError> {
        let path = with_query(paths::ADMIN_OVERSPEND, query);
        Ok(self.client.send(Request::get(path), call.time).await?.body)
    }

    /// The regions, as the node that is asked knows them. Needs a token that reaches all tenants.
    pub async fn regions(&self, call: &Call) -> Result<RegionsAnswer, ClientError> {
        let request = Request::get(paths::ADMIN_REGIONS.to_owned());
        Ok(self.client.send(request, call.time).await?.body)
    }

    /// Has all homes moved out of a region; answers at once with how far that has come. It may be said
    /// again. Needs a token that reaches all tenants.
    pub async fn drain(
        &self,
        region: &RegionName,
        body: &DrainRequest,
        call: &Call,
    ) -> Result<DrainAnswer, ClientError> {
        let path = paths::fill(paths::ADMIN_REGION_DRAIN, &[region]);
        Ok(self.client.send(Request::state(path, body), call.time).await?.body)
    }

    /// How far moving all homes out of a region has come. Needs a token that reaches all tenants.
    pub async fn drain_progress(
        &self,
        region: &RegionName,
        call: &Call,
    ) -> Result<DrainAnswer, ClientError> {
        let path = paths::fill(paths::ADMIN_REGION_DRAIN, &[region]);
        Ok(self.client.send(Request::get(path), call.time).await?.body)
    }

    /// Stops moving homes out of a region; it may be said again. Needs a token that reaches all tenants.
    pub async fn stop_drain(
        &self,
        region: &RegionName,
        call: &Call,
    ) -> Result<DrainAnswer, ClientError> {
        let path = paths::fill(paths::ADMIN_REGION_DRAIN_STOP, &[region]);
        Ok(self.client.send(Request::state_alone(path), call.time).await?.body)
    }

    /// Has a region's homes verified; answers at once with the id to follow it by. While one goes on, that
    /// one is answered. Needs a token that reaches all tenants.
    pub async fn verify(
        &self,
        body: &VerificationRequest,
        call: &Call,
    ) -> Result<VerificationAnswer, ClientError> {
        let path = paths::ADMIN_VERIFICATIONS.to_owned();
        Ok(self.client.send(Request::state(path, body), call.time).await?.body)
    }

    /// How far a verification has come. Needs a token that reaches all tenants.
    pub async fn verification(
        &self,
        id: VerificationId,
        call: &Call,
    ) -> Result<VerificationAnswer, ClientError> {
        let path = paths::fill(paths::ADMIN_VERIFICATION, &[&id]);
        Ok(self.client.send(Request::get(path), call.time).await?.body)
    }

    /// Has a standby take over the homes of a region that is lost, or shows how many it can. Needs a
    /// token that reaches all tenants.
    pub async fn fail_over(
        &self,
        region: &RegionName,
        body: &FailOverRequest,
        call: &Call,
    ) -> Result<FailOverAnswer, ClientError> {
        let path = paths::fill(paths::ADMIN_FAILOVER, &[region]);
        Ok(self.client.send(Request::state(path, body), call.time).await?.body)
    }

    /// Opens a tenant's account in one unit.
    pub async fn open_tenant(
        &self,
        body: &OpenTenantRequest,
        call: &Call,
    ) -> Result<Answer<TenantAnswer>, ClientError> {
        let request = Request::change(paths::ADMIN_TENANTS.to_owned(), body, call);
        self.client.send(request, call.time).await
    }

    /// Tenants, in the order of their names.
    pub async fn tenants(
        &self,
        query: &TenantsQuery,
        call: &Call,
    ) -> Result<List<Tenant>, ClientError> {
        let path = with_query(paths::ADMIN_TENANTS, query);
        Ok(self.client.send(Request::get(path), call.time).await?.body)
    }
}

impl AdminAccount {
    /// The same tenant's account in another unit.
    #[must_use]
    pub fn in_unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    /// The account as it stands.
    pub async fn tenant(&self, call: &Call) -> Result<TenantAnswer, ClientError> {
        self.read(paths::ADMIN_TENANT, call).await
    }

    /// Gives credits: makes a lot.
    pub async fn grant(
        &self,
        body: &GrantRequest,
        call: &Call,
    ) -> Result<Answer<GrantAnswer>, ClientError> {
        self.change(paths::ADMIN_GRANTS, body, call).await
    }

    /// Takes back what is left of a lot, or shows what that would do.
    pub async fn void(
        &self,
        lot: &LotId,
        body: &VoidRequest,
        call: &Call,
    ) -> Result<Answer<VoidAnswer>, ClientError> {
        let path = paths::fill(paths::ADMIN_LOT_VOID, &[&self.tenant, lot]);
        self.change_at(path, body, call).await
    }

    /// Corrects the account.
    pub async fn adjust(
        &self,
        body: &AdjustRequest,
        call: &Call,
    ) -> Result<Answer<AdjustAnswer>, ClientError> {
        self.change(paths::ADMIN_ADJUST, body, call).await
    }

    /// Changes the policy; what the body leaves out stays as it is.
    pub async fn set_policy(
        &self,
        body: &PolicyRequest,
        call: &Call,
    ) -> Result<Answer<TenantAnswer>, ClientError> {
        self.change(paths::ADMIN_POLICY, body, call).await
    }

    /// Stops new authorizes and charges.
    pub async fn freeze(
        &self,
        body: &FreezeRequest,
        call: &Call,
    ) -> Result<Answer<TenantAnswer>, ClientError> {
        self.change(paths::ADMIN_FREEZE, body, call).await
    }

    /// Ends a freeze.
    pub async fn unfreeze(
        &self,
        body: &FreezeRequest,
        call: &Call,
    ) -> Result<Answer<TenantAnswer>, ClientError> {
        self.change(paths::ADMIN_UNFREEZE, body, call).await
    }

    /// Closes the account for good, or shows what that would do.
    pub async fn close(
        &self,
        body: &CloseRequest,
        call: &Call,
    ) -> Result<Answer<CloseAnswer>, ClientError> {
        self.change(paths::ADMIN_CLOSE, body, call).await
    }

    /// Says where the tenant's home shall be, for its accounts in all units, and waits until it is there.
    /// It may be said again, and goes on when the caller has gone.
    pub async fn move_home(
        &self,
        body: &MoveRequest,
        call: &Call,
    ) -> Result<PlacementAnswer, ClientError> {
        let path = paths::fill(paths::ADMIN_MOVE, &[&self.tenant]);
        Ok(self.client.send(Request::state(path, body), call.time).await?.body)
    }

    /// Where the tenant's home is, and whether it moves.
    pub async fn home(&self, call: &Call) -> Result<PlacementAnswer, ClientError> {
        let path = paths::fill(paths::ADMIN_MOVE, &[&self.tenant]);
        Ok(self.client.send(Request::get(path), call.time).await?.body)
    }

    /// What lost homes had decided besides, as far as it is neither booked to its end nor written off.
    pub async fn tails(&self, call: &Call) -> Result<TailsAnswer, ClientError> {
        self.read(paths::ADMIN_TAILS, call).await
    }

    /// Gives up on what the home of an epoch had decided besides, or shows what that would do.
    pub async fn write_off_tail(
        &self,
        epoch: &EpochNumber,
        body: &WriteOffTailRequest,
        call: &Call,
    ) -> Result<Answer<WriteOffTailAnswer>, ClientError> {
        let path = paths::fill(paths::ADMIN_TAIL_WRITE_OFF, &[&self.tenant, epoch]);
        self.change_at(path, body, call).await
    }

    /// What is set aside for regions.
    pub fn allocations(&self) -> Allocations {
        Allocations::new(self.clone())
    }

    /// The caps inside the account.
    pub fn budgets(&self) -> Budgets {
        Budgets::new(self.clone())
    }

    pub(crate) async fn change<T: AnswerBody>(
        &self,
        template: &str,
        body: &impl Serialize,
        call: &Call,
    ) -> Result<Answer<T>, ClientError> {
        let path = paths::fill(template, &[&self.tenant]);
        self.change_at(path, body, call).await
    }

    /// Changes what a path within the account stands for.
    pub(crate) async fn change_at<T: AnswerBody>(
        &self,
        path: String,
        body: &impl Serialize,
        call: &Call,
    ) -> Result<Answer<T>, ClientError> {
        let request = Request::change(self.in_own_unit(&path), body, call);
        self.client.send(request, call.time).await
    }

    /// Makes what a path within the account stands for, or changes it as a whole.
    pub(crate) async fn replace_at<T: AnswerBody>(
        &self,
        path: String,
        body: &impl Serialize,
        call: &Call,
    ) -> Result<Answer<T>, ClientError> {
        let request = Request::replace(self.in_own_unit(&path), body, call);
        self.client.send(request, call.time).await
    }

    /// Reads what a template stands for.
    pub(crate) async fn read<T: AnswerBody>(
        &self,
        template: &str,
        call: &Call,
    ) -> Result<T, ClientError> {
        self.read_at(&paths::fill(template, &[&self.tenant]), call).await
    }

    /// Reads what a path within the account stands for.
    pub(crate) async fn read_at<T: AnswerBody>(
        &self,
        path: &str,
        call: &Call,
    ) -> Result<T, ClientError> {
        self.read_exactly(self.in_own_unit(path), call).await
    }

    /// Reads what a path stands for that names the unit itself.
    pub(crate) async fn read_exactly<T: AnswerBody>(
        &self,
        path: String,
        call: &Call,
    ) -> Result<T, ClientError> {
        Ok(self.client.send(Request::get(path), call.time).await?.body)
    }

    /// The tenant.
    pub(crate) const fn tenant_id(&self) -> &TenantId {
        &self.tenant
    }

    /// What the account counts.
    pub(crate) fn unit_name(&self) -> UnitName {
        UnitName(self.unit.clone())
    }

    fn in_own_unit(&self, path: &str) -> String {
        with_query(path, &UnitQuery { unit: self.unit_name() })
    }
}
