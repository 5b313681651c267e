//! How `purser dev kill`, `start` and `status` talk to the cluster that runs in another terminal.
//!
//! ```text
//!  GET  /dev/status                     → every node, and whether it runs
//!  POST /dev/kill   {"node": "us/2"}    → the same, after the node was killed
//!  POST /dev/start  {"node": "us/2"}    → the same, after the node was started
//! ```
//!
//! These calls exist at the front door only, want the token like any other, and are no part of the
//! API: nothing else than a development cluster may be broken on purpose.

use std::sync::Arc;

use bytes::Bytes;
use hyper::{Method, StatusCode};
use purser_client::AnswerBody;
use serde::{Deserialize, Serialize};

use crate::dev::DEV_TOKEN;
use crate::dev::fleet::{Fleet, FleetError};
use crate::dev::layout::NodeName;
use crate::failure::CommandError;
use crate::plain_call::PlainCall;

/// Every path of the control calls starts like this.
pub(crate) const PREFIX: &str = "/dev/";
/// How the nodes are (GET).
pub(crate) const STATUS: &str = "/dev/status";
/// Kill a node (POST).
pub(crate) const KILL: &str = "/dev/kill";
/// Start a node again (POST).
pub(crate) const START: &str = "/dev/start";

/// Which node is meant.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ControlRequest {
    node: String,
}

/// Every node, in the order of their names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StatusAnswer {
    /// The nodes.
    pub(crate) nodes: Vec<NodeStatus>,
}

impl AnswerBody for StatusAnswer {
    fn from_json(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json)
    }
}

/// One node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeStatus {
    /// Its name, `us/2`.
    pub(crate) node: String,
    /// Its id in its region's cluster, as `/admin/v1/cluster` shows it.
    pub(crate) id: u64,
    /// Whether it runs.
    pub(crate) state: NodeState,
    /// Where its API listens.
    pub(crate) api: String,
    /// Why it stopped, if it did so by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

/// Whether a node runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NodeState {
    /// It runs.
    Running,
    /// It was killed on purpose.
    Killed,
    /// It stopped by itself.
    Failed,
}

impl NodeState {
    /// The state in one word.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Killed => "killed",
            Self::Failed => "failed",
        }
    }
}

/// Why a control call was not done, for people.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RefusalAnswer {
    /// In words.
    pub(crate) detail: String,
}

/// What the front door answers to a control call.
#[derive(Debug)]
pub(crate) enum ControlAnswer {
    /// Done; how the nodes are now.
    Done(StatusAnswer),
    /// Not done, and why.
    Refused(StatusCode, RefusalAnswer),
}

impl ControlAnswer {
    fn refused(status: StatusCode, detail: impl Into<String>) -> Self {
        Self::Refused(status, RefusalAnswer { detail: detail.into() })
    }
}

/// Answers a control call, whose token was checked already.
pub(crate) async fn answer(
    fleet: &Arc<Fleet>,
    method: &Method,
    path: &str,
    body: &[u8],
) -> ControlAnswer {
    let done = match (method, path) {
        (&Method::GET, STATUS) => Ok(()),
        (&Method::POST, KILL | START) => {
            let Some(node) = read_node(body) else {
                let text = r#"the body must be {"node": "us/2"} or the like"#;
                return ControlAnswer::refused(StatusCode::BAD_REQUEST, text);
            };
            change(fleet, node, path == KILL).await
        }
        _ => {
            let text = format!("there is no control call {method} {path}");
            return ControlAnswer::refused(StatusCode::NOT_FOUND, text);
        }
    };
    match done {
        Ok(()) => ControlAnswer::Done(fleet.status().await),
        Err(error) => ControlAnswer::refused(status_of(&error), with_causes(&error)),
    }
}

/// Kills or starts a node, also if whoever asked does not wait for it: a node that is given up half
/// started would keep its ports.
#[expect(clippy::disallowed_methods, reason = "must outlive the call; the fleet's lock orders it")]
async fn change(fleet: &Arc<Fleet>, node: NodeName, kill: bool) -> Result<(), FleetError> {
    let fleet = Arc::clone(fleet);
    let changing = tokio::spawn(async move {
        if kill { fleet.kill(&node).await } else { fleet.start(&node).await }
    });
    changing.await.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))
}

fn with_causes(error: &FleetError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

fn read_node(body: &[u8]) -> Option<NodeName> {
    let request: ControlRequest = serde_json::from_slice(body).ok()?;
    request.node.parse().ok()
}

fn status_of(error: &FleetError) -> StatusCode {
    match error {
        FleetError::NoSuchNode(_) => StatusCode::NOT_FOUND,
        FleetError::NotRunning(_) | FleetError::RunsAlready(_) => StatusCode::CONFLICT,
        FleetError::Start { .. } => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Asks the cluster behind `front_door` (`host:port`) how its nodes are.
pub(crate) async fn ask_status(front_door: &str) -> Result<StatusAnswer, CommandError> {
    call(front_door, Method::GET, STATUS, Bytes::new()).await
}

/// Asks for a node to be killed.
pub(crate) async fn ask_kill(
    front_door: &str,
    node: &NodeName,
) -> Result<StatusAnswer, CommandError> {
    call(front_door, Method::POST, KILL, naming(node)).await
}

/// Asks for a node to be started.
pub(crate) async fn ask_start(
    front_door: &str,
    node: &NodeName,
) -> Result<StatusAnswer, CommandError> {
    call(front_door, Method::POST, START, naming(node)).await
}

fn naming(node: &NodeName) -> Bytes {
    let request = ControlRequest { node: node.to_string() };
    serde_json::to_vec(&request).expect("a text field can be written").into()
}

async fn call(
    front_door: &str,
    method: Method,
    path: &str,
    body: Bytes,
) -> Result<StatusAnswer, CommandError> {
    let base_url = format!("http://{front_door}");
    let call = PlainCall { base_url: &base_url, token: DEV_TOKEN, method, path, body };
    call.send().await.map_err(|error| match error {
        CommandError::Unreached { cause, .. } => {
            let text = format!("no development cluster answers at {front_door}");
            CommandError::unreached(text, cause)
        }
        error => error,
    })
}
