//! Allocations: one method for each call about what is set aside for regions.

use purser_api::{
    Allocation, AllocationAnswer, AllocationRequest, List, RecallRequest, RegionName,
    TakeBackAnswer, TakeBackRequest, TransferRequest, paths,
};
use serde::Serialize;

use crate::admin::AdminAccount;
use crate::body::AnswerBody;
use crate::call::{Answer, Call};
use crate::error::ClientError;

/// What home has set aside for regions of one account. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Allocations {
    account: AdminAccount,
}

impl Allocations {
    pub(crate) fn new(account: AdminAccount) -> Self {
        Self { account }
    }

    /// All that are not closed.
    pub async fn list(&self, call: &Call) -> Result<List<Allocation>, ClientError> {
        self.account.read(paths::ADMIN_ALLOCATIONS, call).await
    }

    /// Changes what a region may do; what the body leaves out stays as it is.
    pub async fn set(
        &self,
        region: &RegionName,
        body: &AllocationRequest,
        call: &Call,
    ) -> Result<Answer<AllocationAnswer>, ClientError> {
        self.change(paths::ADMIN_ALLOCATION, region, body, call).await
    }

    /// Asks credits back. Whether they came is seen in the list.
    pub async fn recall(
        &self,
        region: &RegionName,
        body: &RecallRequest,
        call: &Call,
    ) -> Result<Answer<AllocationAnswer>, ClientError> {
        self.change(paths::ADMIN_ALLOCATION_RECALL, region, body, call).await
    }

    /// Asks credits back from one region for another.
    pub async fn transfer(
        &self,
        body: &TransferRequest,
        call: &Call,
    ) -> Result<Answer<AllocationAnswer>, ClientError> {
        self.account.change(paths::ADMIN_TRANSFER, body, call).await
    }

    /// Takes back what is out without hearing from the region, or shows what that would do.
    pub async fn take_back(
        &self,
        region: &RegionName,
        body: &TakeBackRequest,
        call: &Call,
    ) -> Result<Answer<TakeBackAnswer>, ClientError> {
        self.change(paths::ADMIN_ALLOCATION_TAKE_BACK, region, body, call).await
    }

    /// Ends an allocation of which nothing more will be heard, or shows what that would do.
    pub async fn write_off(
        &self,
        region: &RegionName,
        body: &TakeBackRequest,
        call: &Call,
    ) -> Result<Answer<TakeBackAnswer>, ClientError> {
        self.change(paths::ADMIN_ALLOCATION_WRITE_OFF, region, body, call).await
    }

    async fn change<T: AnswerBody>(
        &self,
        template: &str,
        region: &RegionName,
        body: &impl Serialize,
        call: &Call,
    ) -> Result<Answer<T>, ClientError> {
        let path = paths::fill(template, &[self.account.tenant_id(), region]);
        self.account.change_at(path, body, call).await
    }
}
