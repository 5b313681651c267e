//! The front door of a development cluster, as a replay uses it: to look at the nodes, and to break
//! things on purpose. Nodes know nothing of these calls.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use purser_client::AnswerBody;

use super::ReplayError;
use super::caller::{Call, Caller, CallerSettings};
use super::connection::Address;
use super::wire;
use crate::dev::control::{STATUS, StatusAnswer};

/// How long the front door may take for a call: a node that starts reads its log, and is not asked
/// twice.
const ANSWER_MAX: Duration = Duration::from_secs(120);

/// See the module's documentation.
#[derive(Clone)]
pub(crate) struct FrontDoor {
    /// Calls the front door and nothing else.
    caller: Arc<Caller>,
}

impl FrontDoor {
    /// The front door at an address.
    pub(crate) fn at(address: Address, settings: &CallerSettings) -> Self {
        let settings = CallerSettings {
            addresses: vec![address],
            regions: Vec::new(),
            attempt_max: ANSWER_MAX,
            ..settings.clone()
        };
        Self { caller: Arc::new(Caller::new(settings, Arc::default())) }
    }

    /// How the cluster is.
    pub(crate) async fn status(&self) -> Result<StatusAnswer, ReplayError> {
        self.read(STATUS).await
    }

    /// Reads something through the front door.
    pub(crate) async fn read<T: AnswerBody>(&self, path: &str) -> Result<T, ReplayError> {
        let decided = self.caller.decide(&Call::read(path.to_owned())).await?;
        wire::read(&decided)?.map_err(|refusal| ReplayError::Refused { what: path.into(), refusal })
    }

    /// Has something done to the cluster: `{"node": …}` or `{"region": …}`.
    pub(crate) async fn control(
        &self,
        path: &str,
        body: &serde_json::Value,
    ) -> Result<(), ReplayError> {
        let call = Call {
            method: Method::POST,
            path: path.to_owned(),
            key: None,
            body: Bytes::from(body.to_string()),
            entrance: None,
        };
        let decided = self.caller.decide(&call).await?;
        if decided.status.is_success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&decided.body).into_owned();
        Err(ReplayError::Control { path: path.to_owned(), text })
    }
}
