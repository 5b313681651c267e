//! Webhooks: one method for each call about them.
//!
//! These calls are statements of what shall be, but for [`Webhooks::redrive_all`]. They have no key, and all attempts of a call may be carried
//! out without harm; what is [`ClientError::Unknown`] is simply said again. All need a token that reaches
//! all tenants, and concern the region that is asked.

use purser_api::{
    BecauseRequest, List, RotateRequest, WebhookAnswer, WebhookDeadLetter, WebhookDeadLetterAnswer,
    WebhookDeadLetterId, WebhookDeadLettersQuery, WebhookDiscardAnswer, WebhookDiscardRequest,
    WebhookEnableRequest, WebhookName, WebhookRedriveAnswer, WebhookRedriveRequest, WebhookRemoved,
    WebhookRequest, WebhooksAnswer, paths,
};

use crate::call::{Answer, Call};
use crate::client::{Client, Request, with_query};
use crate::error::ClientError;

/// The webhooks of a region. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Webhooks {
    client: Client,
}

impl Webhooks {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// All of them.
    pub async fn list(&self, call: &Call) -> Result<WebhooksAnswer, ClientError> {
        let request = Request::get(paths::ADMIN_WEBHOOKS.to_owned());
        Ok(self.client.send(request, call.time).await?.body)
    }

    /// One of them.
    pub async fn get(&self, name: &WebhookName, call: &Call) -> Result<WebhookAnswer, ClientError> {
        let request = Request::get(paths::fill(paths::ADMIN_WEBHOOK, &[name]));
        Ok(self.client.send(request, call.time).await?.body)
    }

    /// Makes one.
    pub async fn create(
        &self,
        body: &WebhookRequest,
        call: &Call,
    ) -> Result<WebhookAnswer, ClientError> {
        let request = Request::state(paths::ADMIN_WEBHOOKS.to_owned(), body);
        Ok(self.client.send(request, call.time).await?.body)
    }

    /// Ends one, with its dead letters.
    pub async fn remove(
        &self,
        name: &WebhookName,
        call: &Call,
    ) -> Result<WebhookRemoved, ClientError> {
        let request = Request::delete(paths::fill(paths::ADMIN_WEBHOOK, &[name]));
        Ok(self.client.send(request, call.time).await?.body)
    }

    /// Has events signed with another secret.
    pub async fn rotate(
        &self,
        name: &WebhookName,
        body: &RotateRequest,
        call: &Call,
    ) -> Result<WebhookAnswer, ClientError> {
        let request = Request::state(paths::fill(paths::ADMIN_WEBHOOK_ROTATE, &[name]), body);
        Ok(self.client.send(request, call.time).await?.body)
    }

    /// Has events delivered.
    pub async fn enable(
        &self,
        name: &WebhookName,
        body: &WebhookEnableRequest,
        call: &Call,
    ) -> Result<WebhookAnswer, ClientError> {
        let request = Request::state(paths::fill(paths::ADMIN_WEBHOOK_ENABLE, &[name]), body);
        Ok(self.client.send(request, call.time).await?.body)
    }

    /// Has events wait.
    pub async fn disable(
        &self,
        name: &WebhookName,
        body: &BecauseRequest,
        call: &Call,
    ) -> Result<WebhookAnswer, ClientError> {
        let request = Request::state(paths::fill(paths::ADMIN_WEBHOOK_DISABLE, &[name]), body);
        Ok(self.client.send(request, call.time).await?.body)
    }

    /// What could not be delivered.
    pub async fn dead_letters(
        &self,
        name: &WebhookName,
        query: &WebhookDeadLettersQuery,
        call: &Call,
    ) -> Result<List<WebhookDeadLetter>, ClientError> {
        let path = paths::fill(paths::ADMIN_WEBHOOK_DEAD_LETTERS, &[name]);
        let request = Request::get(with_query(&path, query));
        Ok(self.client.send(request, call.time).await?.body)
    }

    /// Has a dead letter tried once more.
    pub async fn redrive(
        &self,
        (name, letter): (&WebhookName, &WebhookDeadLetterId),
        body: &BecauseRequest,
        call: &Call,
    ) -> Result<WebhookDeadLetterAnswer, ClientError> {
        let path = paths::fill(paths::ADMIN_WEBHOOK_REDRIVE, &[name, letter]);
        Ok(self.client.send(Request::state(path, body), call.time).await?.body)
    }

    /// Has many dead letters tried once more: as many as the request says, until the answer says that none
    /// is left. Under the call's key it happens once.
    pub async fn redrive_all(
        &self,
        name: &WebhookName,
        body: &WebhookRedriveRequest,
        call: &Call,
    ) -> Result<Answer<WebhookRedriveAnswer>, ClientError> {
        let path = paths::fill(paths::ADMIN_WEBHOOK_REDRIVE_ALL, &[name]);
        self.client.send(Request::change(path, body, call), call.time).await
    }

    /// Gives a dead letter up for good.
    pub async fn discard(
        &self,
        (name, letter): (&WebhookName, &WebhookDeadLetterId),
        body: &WebhookDiscardRequest,
        call: &Call,
    ) -> Result<WebhookDiscardAnswer, ClientError> {
        let path = paths::fill(paths::ADMIN_WEBHOOK_DISCARD, &[name, letter]);
        Ok(self.client.send(Request::state(path, body), call.time).await?.body)
    }
}
