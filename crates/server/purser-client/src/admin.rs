//! The admin API: one method for each call of the contract.

use purser_api::{
    AdjustAnswer, AdjustRequest, CloseAnswer, CloseRequest, FreezeRequest, GrantAnswer,
    GrantRequest, List, LotId, OpenTenantRequest, OverspendAnswer, OverspendQuery, PolicyRequest,
    RegionsAnswer, Tenant, TenantAnswer, TenantsQuery, UnitName, UnitQuery, VoidAnswer,
    VoidRequest, paths,
};
use purser_types::{TenantId, Unit};
use serde::Serialize;

use crate::allocations::Allocations;
use crate::body::AnswerBody;
use crate::call::{Answer, Call};
use crate::client::{Client, Request, with_query};
use crate::cluster::Cluster;
use crate::error::ClientError;

/// The admin API. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Admin {
    client: Client,
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

    /// What is set aside for regions.
    pub fn allocations(&self) -> Allocations {
        Allocations::new(self.clone())
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

    /// Reads what a template stands for.
    pub(crate) async fn read<T: AnswerBody>(
        &self,
        template: &str,
        call: &Call,
    ) -> Result<T, ClientError> {
        let path = self.in_own_unit(&paths::fill(template, &[&self.tenant]));
        Ok(self.client.send(Request::get(path), call.time).await?.body)
    }

    /// The tenant.
    pub(crate) const fn tenant_id(&self) -> &TenantId {
        &self.tenant
    }

    fn in_own_unit(&self, path: &str) -> String {
        with_query(path, &UnitQuery { unit: UnitName(self.unit.clone()) })
    }
}
