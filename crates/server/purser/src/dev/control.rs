//! How `purser dev kill`, `cut` and the like talk to the cluster that runs in another terminal.
//!
//! ```text
//!  GET  /dev/status                                  → every node, and what lies between regions
//!  POST /dev/kill   {"node": "us/2"}                 → the same, after the node was killed
//!  POST /dev/start  {"node": "us/2"}                 → the same, after the node was started
//!  POST /dev/cut    {"region": "eu"}                 → the same, after the region was cut off
//!  POST /dev/heal   {"region": "eu"}                 → the same, after its wire was mended
//!  POST /dev/slow   {"region": "eu", "by_ms": 500}   → the same, after it was slowed down
//! ```
//!
//! These calls exist at the front door only, want the token like any other, and are no part of the
//! API: nothing else than a development cluster may be broken on purpose.

use std::sync::Arc;

use bytes::Bytes;
use hyper::{Method, StatusCode};
use purser_api::RegionName;
use purser_client::AnswerBody;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::dev::DEV_TOKEN;
use crate::dev::fleet::{Fleet, FleetError};
use crate::dev::layout::NodeName;
use crate::dev::wire::{Delay, Link, NoSuchRegion};
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
/// Cut a region off from all others (POST).
pub(crate) const CUT: &str = "/dev/cut";
/// Mend a region's wire (POST).
pub(crate) const HEAL: &str = "/dev/heal";
/// Slow a region's wire down (POST).
const SLOW: &str = "/dev/slow";

/// Which node is meant.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeRequest {
    node: String,
}

/// Which region is meant.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RegionRequest {
    region: RegionName,
}

/// Which region is meant, and what is added to each direction from and to it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SlowRequest {
    region: RegionName,
    by_ms: u64,
}

/// How a cluster is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StatusAnswer {
    /// The nodes, region by region.
    pub(crate) nodes: Vec<NodeStatus>,
    /// What lies between each two regions.
    pub(crate) links: Vec<LinkStatus>,
}

/// What lies between two regions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LinkStatus {
    /// The two.
    pub(crate) regions: [RegionName; 2],
    /// Whether everything is lost.
    pub(crate) is_cut: bool,
    /// How long a message and its answer are under way, in milliseconds.
    pub(crate) round_trip_ms: u64,
}

impl LinkStatus {
    fn of(link: &Link) -> Self {
        Self {
            regions: link.regions.map(RegionName),
            is_cut: link.is_cut,
            round_trip_ms: u64::try_from(link.round_trip.as_millis()).unwrap_or(u64::MAX),
        }
    }
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
    /// Its id, as `/admin/v1/cluster` shows it.
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
    match carry_out(fleet, method, path, body).await {
        Ok(()) => ControlAnswer::Done(status(fleet).await),
        Err(refused) => refused,
    }
}

async fn carry_out(
    fleet: &Arc<Fleet>,
    method: &Method,
    path: &str,
    body: &[u8],
) -> Result<(), ControlAnswer> {
    match (method, path) {
        (&Method::GET, STATUS) => Ok(()),
        (&Method::POST, KILL | START) => {
            let request: Option<NodeRequest> = read(body);
            let node = request.and_then(|request| request.node.parse().ok());
            let node = node.ok_or_else(|| unreadable(r#"{"node": "us/2"}"#))?;
            let changed = change(fleet, node, path == KILL).await;
            changed.map_err(|error| ControlAnswer::refused(status_of(&error), with_causes(&error)))
        }
        (&Method::POST, CUT | HEAL) => {
            let request: Option<RegionRequest> = read(body);
            let region = request.ok_or_else(|| unreadable(r#"{"region": "eu"}"#))?.region.0;
            let wire = fleet.wire();
            let changed = if path == CUT { wire.cut(region) } else { wire.heal(region) };
            changed.map_err(not_there)
        }
        (&Method::POST, SLOW) => {
            let example = r#"{"region": "eu", "by_ms": 500}"#;
            let SlowRequest { region, by_ms } = read(body).ok_or_else(|| unreadable(example))?;
            let by = Delay::from_millis(by_ms).map_err(|error| {
                ControlAnswer::refused(StatusCode::BAD_REQUEST, format!("by_ms {error}"))
            })?;
            fleet.wire().slow(region.0, by).map_err(not_there)
        }
        _ => {
            let text = format!("there is no control call {method} {path}");
            Err(ControlAnswer::refused(StatusCode::NOT_FOUND, text))
        }
    }
}

async fn status(fleet: &Fleet) -> StatusAnswer {
    let links = fleet.wire().links();
    StatusAnswer { nodes: fleet.status().await, links: links.iter().map(LinkStatus::of).collect() }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Option<T> {
    serde_json::from_slice(body).ok()
}

fn unreadable(example: &str) -> ControlAnswer {
    let text = format!("the body must be {example} or the like");
    ControlAnswer::refused(StatusCode::BAD_REQUEST, text)
}

fn not_there(error: NoSuchRegion) -> ControlAnswer {
    ControlAnswer::refused(StatusCode::NOT_FOUND, error.to_string())
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

fn status_of(error: &FleetError) -> StatusCode {
    match error {
        FleetError::NoSuchNode(_) => StatusCode::NOT_FOUND,
        FleetError::NotRunning(_) | FleetError::RunsAlready(_) => StatusCode::CONFLICT,
        FleetError::Start { .. } => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// A call to the cluster that runs in another terminal.
#[derive(Debug)]
pub(crate) struct ControlCall {
    method: Method,
    path: &'static str,
    body: Bytes,
}

impl ControlCall {
    /// How the cluster is.
    pub(crate) fn status() -> Self {
        Self { method: Method::GET, path: STATUS, body: Bytes::new() }
    }

    /// Ends a node.
    pub(crate) fn kill(node: &NodeName) -> Self {
        Self::post(KILL, &NodeRequest { node: node.to_string() })
    }

    /// Starts a node again.
    pub(crate) fn start(node: &NodeName) -> Self {
        Self::post(START, &NodeRequest { node: node.to_string() })
    }

    /// Cuts a region off.
    pub(crate) fn cut(region: RegionName) -> Self {
        Self::post(CUT, &RegionRequest { region })
    }

    /// Mends a region's wire.
    pub(crate) fn heal(region: RegionName) -> Self {
        Self::post(HEAL, &RegionRequest { region })
    }

    /// Slows a region down.
    pub(crate) fn slow(region: RegionName, by: Delay) -> Self {
        let by_ms = u64::try_from(by.duration().as_millis());
        let by_ms = by_ms.expect("a delay is at most a minute");
        Self::post(SLOW, &SlowRequest { region, by_ms })
    }

    fn post(path: &'static str, request: &impl Serialize) -> Self {
        let body = serde_json::to_vec(request).expect("texts and numbers can be written");
        Self { method: Method::POST, path, body: body.into() }
    }

    /// Asks the cluster behind `front_door` (`host:port`). The answer is how the cluster is then.
    pub(crate) async fn send(self, front_door: &str) -> Result<StatusAnswer, CommandError> {
        let Self { method, path, body } = self;
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
}
