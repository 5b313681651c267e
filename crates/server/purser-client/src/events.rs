//! Usage events.

use purser_api::{EventsAnswer, UsageEvent, paths};

use crate::call::Call;
use crate::client::{Client, Request};
use crate::error::ClientError;

impl Client {
    /// Sends usage events, of any tenants: up to 1,000. There is a verdict for each, in their order.
    ///
    /// A call that is not answered is sent again: an event counts once however often it is sent.
    pub async fn send_events(
        &self,
        events: &[UsageEvent],
        call: &Call,
    ) -> Result<EventsAnswer, ClientError> {
        let request = Request::state(paths::EVENTS.to_owned(), &events);
        Ok(self.send(request, call.time).await?.body)
    }
}
