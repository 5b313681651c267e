//! The data plane of one account: one method for each call of the contract.

use purser_api::{
    AuthorizeRequest, Balance, BalanceQuery, BatchAnswer, BatchItem, BatchItemText, BatchRequest,
    CaptureAnswer, CaptureRequest, ChargeAnswer, ChargeDetail, ChargeId, ChargeRequest,
    CheckAnswer, EntriesQuery, Entry, ExtendRequest, Hold, HoldAnswer, HoldDetail, HoldId,
    HoldsQuery, List, Lot, LotsQuery, ReclaimAnswer, ReclaimRequest, RefundAnswer, RefundRequest,
    ReleaseRequest, Statement, StatementQuery, SubjectId, UnitName, UnitQuery, paths,
};
use purser_types::{TenantId, Unit};

use crate::body::AnswerBody;
use crate::call::{Answer, Call};
use crate::client::{Client, Request, with_query};
use crate::error::ClientError;
use crate::held::HeldCredits;

/// One tenant's account in one unit. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Account {
    pub(crate) client: Client,
    tenant: TenantId,
    unit: Unit,
}

impl Client {
    /// Sends up to 1,000 operations in one request; each item has its own key. Results come in the
    /// items' order, each with its own status.
    pub async fn batch(
        &self,
        items: &[BatchItem],
        atomic: bool,
        call: &Call,
    ) -> Result<BatchAnswer, ClientError> {
        let items = items.iter().map(BatchItemText::from).collect();
        let body = BatchRequest { items, atomic };
        let request = Request::changes_with_own_keys(paths::BATCH.to_owned(), &body);
        Ok(self.send(request, call.time).await?.body)
    }
}

impl Account {
    pub(crate) fn new(client: Client, tenant: TenantId) -> Self {
        Self { client, tenant, unit: Unit::credits() }
    }

    /// The same tenant's account in another unit.
    #[must_use]
    pub fn in_unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    /// Sets credits aside.
    pub async fn authorize(
        &self,
        body: &AuthorizeRequest,
        call: &Call,
    ) -> Result<Answer<HoldAnswer>, ClientError> {
        let path = self.path(paths::HOLDS);
        self.client.send(Request::change(path, body, call), call.time).await
    }

    /// Sets credits aside and gives a guard, which gives them back unless they are captured.
    pub async fn hold_credits(
        &self,
        body: &AuthorizeRequest,
        call: &Call,
    ) -> Result<HeldCredits, ClientError> {
        let answer = self.authorize(body, call).await?;
        Ok(HeldCredits::new(self.clone(), answer.body.hold))
    }

    /// Takes all or part of a hold.
    pub async fn capture(
        &self,
        hold: &HoldId,
        body: &CaptureRequest,
        call: &Call,
    ) -> Result<Answer<CaptureAnswer>, ClientError> {
        let path = self.path_of(paths::HOLD_CAPTURE, hold);
        self.client.send(Request::change(path, body, call), call.time).await
    }

    /// Gives all that is left of a hold back.
    pub async fn release(
        &self,
        hold: &HoldId,
        body: &ReleaseRequest,
        call: &Call,
    ) -> Result<Answer<HoldAnswer>, ClientError> {
        let path = self.path_of(paths::HOLD_RELEASE, hold);
        self.client.send(Request::change(path, body, call), call.time).await
    }

    /// Moves a hold's deadline.
    pub async fn extend(
        &self,
        hold: &HoldId,
        body: &ExtendRequest,
        call: &Call,
    ) -> Result<Answer<HoldAnswer>, ClientError> {
        let path = self.path_of(paths::HOLD_EXTEND, hold);
        self.client.send(Request::change(path, body, call), call.time).await
    }

    /// Authorizes and captures in one step.
    pub async fn charge(
        &self,
        body: &ChargeRequest,
        call: &Call,
    ) -> Result<Answer<ChargeAnswer>, ClientError> {
        let path = self.path(paths::CHARGES);
        self.client.send(Request::change(path, body, call), call.time).await
    }

    /// Gives captured credits back.
    pub async fn refund(
        &self,
        subject: &SubjectId,
        body: &RefundRequest,
        call: &Call,
    ) -> Result<Answer<RefundAnswer>, ClientError> {
        let path = match subject {
            SubjectId::Hold(hold) => self.path_of(paths::HOLD_REFUND, hold),
            SubjectId::Charge(charge) => self.path_of(paths::CHARGE_REFUND, charge),
        };
        self.client.send(Request::change(path, body, call), call.time).await
    }

    /// Charges again what was refunded. May always be called on success: nothing refunded is
    /// refused with `not_refunded`, and changes nothing.
    pub async fn reclaim(
        &self,
        subject: &SubjectId,
        body: &ReclaimRequest,
        call: &Call,
    ) -> Result<Answer<ReclaimAnswer>, ClientError> {
        let path = match subject {
            SubjectId::Hold(hold) => self.path_of(paths::HOLD_RECLAIM, hold),
            SubjectId::Charge(charge) => self.path_of(paths::CHARGE_RECLAIM, charge),
        };
        self.client.send(Request::change(path, body, call), call.time).await
    }

    /// What an authorize would be answered now.
    pub async fn check(
        &self,
        body: &AuthorizeRequest,
        call: &Call,
    ) -> Result<CheckAnswer, ClientError> {
        let request = Request::ask(self.path(paths::CHECK), body);
        Ok(self.client.send(request, call.time).await?.body)
    }

    /// One hold and its history.
    pub async fn hold(&self, hold: &HoldId, call: &Call) -> Result<HoldDetail, ClientError> {
        let request = Request::get(self.path_of(paths::HOLD, hold));
        Ok(self.client.send(request, call.time).await?.body)
    }

    /// One charge and its history.
    pub async fn charge_detail(
        &self,
        charge: &ChargeId,
        call: &Call,
    ) -> Result<ChargeDetail, ClientError> {
        let request = Request::get(self.path_of(paths::CHARGE, charge));
        Ok(self.client.send(request, call.time).await?.body)
    }

    /// Holds, newest first. The query's unit is this account's.
    pub async fn holds(&self, query: &HoldsQuery, call: &Call) -> Result<List<Hold>, ClientError> {
        let query = HoldsQuery { unit: self.unit_name(), ..query.clone() };
        self.list(paths::HOLDS, &query, call).await
    }

    /// The balance. The query's unit is this account's.
    pub async fn balance(&self, query: &BalanceQuery, call: &Call) -> Result<Balance, ClientError> {
        let query = BalanceQuery { unit: self.unit_name(), ..query.clone() };
        self.list(paths::BALANCE, &query, call).await
    }

    /// Entries, newest first. The query's unit is this account's.
    pub async fn entries(
        &self,
        query: &EntriesQuery,
        call: &Call,
    ) -> Result<List<Entry>, ClientError> {
        let query = EntriesQuery { unit: self.unit_name(), ..query.clone() };
        self.list(paths::ENTRIES, &query, call).await
    }

    /// Lots, newest first. The query's unit is this account's.
    pub async fn lots(&self, query: &LotsQuery, call: &Call) -> Result<List<Lot>, ClientError> {
        let query = LotsQuery { unit: self.unit_name(), ..query.clone() };
        self.list(paths::LOTS, &query, call).await
    }

    /// A statement. The query's unit is this account's.
    pub async fn statement(
        &self,
        query: &StatementQuery,
        call: &Call,
    ) -> Result<Statement, ClientError> {
        let query = StatementQuery { unit: self.unit_name(), ..query.clone() };
        self.list(paths::STATEMENT, &query, call).await
    }

    pub(crate) async fn list<T: AnswerBody>(
        &self,
        template: &str,
        query: &impl serde::Serialize,
        call: &Call,
    ) -> Result<T, ClientError> {
        let path = with_query(&paths::fill(template, &[&self.tenant]), query);
        Ok(self.client.send(Request::get(path), call.time).await?.body)
    }

    pub(crate) fn unit_name(&self) -> UnitName {
        UnitName(self.unit.clone())
    }

    pub(crate) fn path(&self, template: &str) -> String {
        let query = UnitQuery { unit: self.unit_name() };
        with_query(&paths::fill(template, &[&self.tenant]), &query)
    }

    pub(crate) fn path_of(&self, template: &str, id: &dyn std::fmt::Display) -> String {
        let query = UnitQuery { unit: self.unit_name() };
        with_query(&paths::fill(template, &[&self.tenant, id]), &query)
    }
}
