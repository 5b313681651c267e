//! Budgets: one method for each call about the caps inside an account.

use purser_api::{
    Budget, BudgetDetail, BudgetLabel, BudgetRequest, BudgetsQuery, List, RemoveBudgetRequest,
    paths,
};

use crate::admin::AdminAccount;
use crate::call::{Answer, Call};
use crate::client::with_query;
use crate::error::ClientError;

/// The budgets of one account. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Budgets {
    account: AdminAccount,
}

impl Budgets {
    pub(crate) fn new(account: AdminAccount) -> Self {
        Self { account }
    }

    /// Budgets and what they come to, by name. The account's unit is asked, whatever the query says.
    pub async fn list(
        &self,
        query: &BudgetsQuery,
        call: &Call,
    ) -> Result<List<BudgetDetail>, ClientError> {
        let query = BudgetsQuery { unit: self.account.unit_name(), ..query.clone() };
        let path = paths::fill(paths::ADMIN_BUDGETS, &[self.account.tenant_id()]);
        self.account.read_exactly(with_query(&path, &query), call).await
    }

    /// A budget and what it comes to, in this period and in earlier ones.
    pub async fn get(
        &self,
        budget: &BudgetLabel,
        call: &Call,
    ) -> Result<BudgetDetail, ClientError> {
        self.account.read_at(&self.path(paths::ADMIN_BUDGET, budget), call).await
    }

    /// Makes a budget, or changes its limit and its periods. It holds at once.
    pub async fn set(
        &self,
        budget: &BudgetLabel,
        body: &BudgetRequest,
        call: &Call,
    ) -> Result<Answer<Budget>, ClientError> {
        self.account.replace_at(self.path(paths::ADMIN_BUDGET, budget), body, call).await
    }

    /// Removes a budget that none is below, with what it came to.
    pub async fn remove(
        &self,
        budget: &BudgetLabel,
        body: &RemoveBudgetRequest,
        call: &Call,
    ) -> Result<Answer<Budget>, ClientError> {
        self.account.change_at(self.path(paths::ADMIN_BUDGET_REMOVE, budget), body, call).await
    }

    fn path(&self, template: &str, budget: &BudgetLabel) -> String {
        paths::fill(template, &[self.account.tenant_id(), budget])
    }
}
