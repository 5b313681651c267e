//! The admin API: one method for each call of the contract.

use purser_api::{
    AdjustAnswer, AdjustRequest, CloseAnswer, CloseRequest, FreezeRequest, GrantAnswer,
    GrantRequest, List, LotId, OpenTenantRequest, PolicyRequest, Tenant, TenantAnswer,
    TenantsQuery, UnitName, UnitQuery, VoidAnswer, VoidRequest, paths,
};
use purser_types::{TenantId, Unit};
use serde::Serialize;

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
        let request = Request::get(self.path(paths::ADMIN_TENANT));
        Ok(self.client.send(request, call.time).await?.body)
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
        let request = Request::change(self.in_own_unit(&path), body, call);
        self.client.send(request, call.time).await
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

    async fn change<T: AnswerBody>(
        &self,
        template: &str,
        body: &impl Serialize,
        call: &Call,
    ) -> Result<Answer<T>, ClientError> {
        let request = Request::change(self.path(template), body, call);
        self.client.send(request, call.time).await
    }

    fn path(&self, template: &str) -> String {
        self.in_own_unit(&paths::fill(template, &[&self.tenant]))
    }

    fn in_own_unit(&self, path: &str) -> String {
        with_query(path, &UnitQuery { unit: UnitName(self.unit.clone()) })
    }
}
